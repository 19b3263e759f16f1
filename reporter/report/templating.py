"""The Jinja environment: escaping everywhere, and how values are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reporter.build import build
from reporter.charts import numbers
from reporter.charts.correlations import correlation_rows

_PACKED = Path(__file__).parent / "templates"
_SOURCE = Path(__file__).parents[2] / "templates"


def folder() -> Path:
    """Return the folder of templates: inside an installed package, or at the top of a working copy."""
    return _PACKED if _PACKED.is_dir() else _SOURCE


def environment() -> Environment:
    """Return an environment that escapes everything and fails on a name that does not exist."""
    made = Environment(
        loader=FileSystemLoader(folder()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["build"] = build()  # a run writes pages of another build again
    made.filters["correlation_rows"] = correlation_rows
    made.filters["short"] = numbers.short
    made.filters["whole"] = numbers.whole
    made.filters["duration"] = numbers.seconds
    made.filters["inline"] = inline_json
    made.filters["when"] = when
    return made


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
