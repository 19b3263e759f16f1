"""The Jinja environment: escaping everywhere, and how values are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup, escape

from reporter.build import build
from reporter.charts import numbers
from reporter.charts.correlations import correlation_rows
from reporter.charts.formulas import as_html, as_plain

_PACKED = Path(__file__).parent / "templates"
_SOURCE = Path(__file__).parents[2] / "templates"


def folder() -> Path:
    """Return the folder of templates: inside an installed package, or at the top of a working copy."""
    return _PACKED if _PACKED.is_dir() else _SOURCE


def environment(own: Path | None = None) -> Environment:
    """Return an environment that escapes everything and fails on a name that does not exist.

    Args:
        own: a folder of templates that stand in for those of the same name; they find these under ``reporter/``.
    """
    ours = FileSystemLoader(folder())
    loader = ours if own is None else ChoiceLoader([FileSystemLoader(own), ours, PrefixLoader({"reporter": ours})])
    made = (Environment if own is None else ImmutableSandboxedEnvironment)(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["build"] = build()  # a run writes pages of another build again
    made.filters["correlation_rows"] = correlation_rows
    made.filters["short"] = numbers.short
    made.filters["p_value"] = numbers.p_value
    made.filters["whole"] = numbers.whole
    made.filters["duration"] = numbers.seconds
    made.filters["inline"] = inline_json
    made.filters["folded"] = folded
    made.filters["coded"] = coded
    made.filters["typeset"] = typeset
    made.filters["plain"] = as_plain
    made.filters["when"] = when
    return made


SHORT, LONG = 240, 330
"""A definition of more than ``LONG`` characters shows its first clauses, about ``SHORT`` characters."""


def folded(text: str) -> tuple[str, str]:
    """Return the beginning of a definition and its rest, cut between clauses; no rest where it is short."""
    if len(text) <= LONG:
        return text, ""
    cut = depth = 0
    for place, sign in enumerate(text[:-1]):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 and sign in ";." and text[place + 1] == " ":
            if cut and place > SHORT:
                break
            cut = place + 1
    return (text[:cut].rstrip(";"), text[cut:].strip()) if cut else (text, "")


def coded(text: str) -> Markup:
    """Write what stands between backticks as code."""
    parts = str(escape(text)).split("`")
    if len(parts) % 2 == 0:  # one without another is itself
        parts[-2:] = ["`".join(parts[-2:])]
    return Markup("".join(f"<code>{one}</code>" if at % 2 else one for at, one in enumerate(parts)))


def typeset(text: str) -> Markup:
    """Write a definition, or what is said about it: formulas as print sets them, names as code, all else escaped."""
    return Markup(as_html(text))


def inline_json(value: Any) -> Markup:
    """Write JSON that can stand inside a ``<script>``: no ``<``, and no NaN.

    Raises:
        ValueError: for NaN and infinity, which JSON cannot hold.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # "<" would let a model called "</script>" end the element; the others end a line in old scripts
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return Markup(text)


def when(value: Any) -> str:
    """Write a moment in UTC to the minute; NULL is ``–``."""
    return "–" if value is None else f"{value:%Y-%m-%d %H:%M} UTC"
