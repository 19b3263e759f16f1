"""The Jinja environment, and the script and the stylesheet that all pages share."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from jinja2 import (
    ChoiceLoader,
    Environment,
    FileSystemBytecodeCache,
    FileSystemLoader,
    FunctionLoader,
    PrefixLoader,
    StrictUndefined,
)
from markupsafe import Markup, escape

from reporter.charts.chart import Drawn
from reporter.charts.formulas import as_html, as_plain, folded
from reporter.charts.models import correlation_rows
from reporter.charts.picture import VEGA_LITE
from reporter.charts.styles import THEMES
from reporter.core.errors import ReporterError
from reporter.core.files import drafted, link_or_copy, user_cache
from reporter.core.imports import build
from reporter.core.numbers import duration, estimate, in_one_precision, p_value, short, whole
from reporter.metrics._intervals import METHODS
from reporter.report.restricted import RestrictedEnvironment
from reporter.store.formats import CSV_RULES

_PACKED = Path(__file__).parent / "templates"
_SOURCE = Path(__file__).parents[2] / "templates"


def folder() -> Path:
    """Return the folder of templates: inside an installed package, or at the top of a working copy."""
    return _PACKED if _PACKED.is_dir() else _SOURCE


@cache
def kept() -> Path | None:
    """Return a folder that outlives a run: where Python keeps bytecode, or the user's cache; None if neither works."""
    place = folder() / "__pycache__"
    with suppress(OSError):
        place.mkdir(exist_ok=True)
        if os.access(place, os.W_OK):
            return place
    with suppress(ReporterError):
        return user_cache()
    return None


def environment(templates: Mapping[str, str] | None = None) -> Environment:
    """Return an environment that escapes everything and fails on a name that does not exist.

    Args:
        templates: texts that stand in for the report's templates, by name. They are restricted: others may have
            written them.
    """
    ours = FileSystemLoader(folder())
    options: dict[str, Any] = {"autoescape": True, "undefined": StrictUndefined, "trim_blocks": True}
    options["lstrip_blocks"] = True
    if templates is None:
        made = Environment(loader=ours, **options)
        if place := kept():
            made.bytecode_cache = FileSystemBytecodeCache(str(place))
    else:
        theirs = FunctionLoader(lambda name: (templates[name], name, None) if name in templates else None)
        made = RestrictedEnvironment(loader=ChoiceLoader([theirs, ours, PrefixLoader({"reporter": ours})]), **options)
    made.globals["build"] = build()  # a run writes pages of another build again
    made.globals["methods"] = METHODS
    made.globals["scripts"] = scripts = {name: Markup(read_script(name)) for name in ("first", "last")}
    made.globals["guard"] = guard(policy(*scripts.values(), files=True))
    made.filters |= {
        "short": short,
        "in_one_precision": lambda values: in_one_precision(list(values), 3),
        "estimate": estimate,
        "p_value": p_value,
        "whole": whole,
        "duration": duration,
        "inline": inline_json,
    }
    made.filters |= {"folded": folded, "coded": coded, "typeset": typeset, "plain": as_plain, "when": when}
    made.filters |= {"correlation_rows": _correlation_rows}
    if isinstance(made, RestrictedEnvironment):
        made.restrict_filters()
    return made


# What a page may run and load. Names, texts and addresses are data, and templates may be somebody's: should a gap let
# one of them write an element, it does nothing.


def read_script(name: str) -> str:
    """Return a script that stands in a page itself, by the name of its file."""
    return (folder() / f"{name}.js").read_text(encoding="utf-8")


def policy(*inline: str, files: bool) -> str:
    """Return a content policy: these scripts and no others, inline styles, pictures from data.

    Args:
        inline: the scripts that stand in the page.
        files: whether the page has files beside it: scripts that its own scripts load, styles and pictures.
    """
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inline)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    beside = " 'self' file:" if files else ""  # a page that was opened as a file has no origin of its own
    loaded = " 'strict-dynamic'" if files else ""
    return (
        f"default-src 'none'; script-src {allowed}{loaded}; style-src 'unsafe-inline'{beside}; "
        f"img-src data: blob:{beside}; font-src data:{beside}; base-uri 'none'; form-action 'none'"
    )


def guard(policy: str) -> Markup:
    """Return the element that gives a page its policy."""
    return Markup('<meta http-equiv="Content-Security-Policy" content="{}">').format(policy)


def _correlation_rows(drawn: Drawn) -> list[dict[str, Any]]:
    return correlation_rows(drawn.frame)


_CODED = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


def coded(text: str) -> Markup:
    """Write what stands between backticks, or between as many of them, as code."""

    def code(match: re.Match[str]) -> str:
        inner = match[2]
        return f"<code>{inner[1:-1] if inner[0] == inner[-1] == ' ' and inner.strip() else inner}</code>"

    return Markup(_CODED.sub(code, str(escape(text))))


def typeset(text: str) -> Markup:
    """Write a definition, or what is said about it: formulas as print sets them, names as code, all else escaped."""
    return Markup(as_html(text))


def inline_json(value: Any) -> Markup:
    """Write JSON that can stand inside a ``<script>``: no ``<``, and no NaN."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # "<" would let a model called "</script>" end the element; the others end a line in old scripts
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return Markup(text)


def when(value: Any) -> str:
    """Write a moment in UTC to the minute; NULL is ``–``."""
    return "–" if value is None else f"{value:%Y-%m-%d %H:%M} UTC"


# The script and the stylesheet that all pages share.


ENTRY = "main"
"""The module in ``templates/`` from which the pages' script is joined."""
SCRIPT, STYLE = "reporter.js", "reporter.css"
STYLES = ("site.css", "print.css")
ASSETS = (f"assets/{SCRIPT}", f"assets/{STYLE}")
_BUNDLED = ("window.vegaEmbed = vegaEmbed;", VEGA_LITE)
_MAKING = """
import sys, vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle(sys.argv[1], vl_version=sys.argv[2]).encode())
"""
_begun: tuple[subprocess.Popen[bytes], IO[bytes]] | None = None
_IMPORT = re.compile(r'^import (?:\{([^{}]*)\} from )?"\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class|function|async function) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def write_assets(fresh: Path) -> None:
    """Write ``assets/`` into a new folder.

    A script that lies in a results folder is not taken over: it may come from somebody else.
    """
    (fresh / "assets").mkdir()
    write(fresh / "assets" / STYLE, "\n".join((folder() / name).read_text(encoding="utf-8") for name in STYLES))
    given = f"const THEMES = {json.dumps(THEMES)}, CSV_RULES = {json.dumps(CSV_RULES)};"
    site = join_modules(folder(), ENTRY)
    # The bundle's one-letter names would clash with the page's own: everything goes into one function.
    text = f'(() => {{ "use strict";\n{{ {_bundle()} }}\n{given}\n{site}\n}})();\n'
    write(fresh / "assets" / SCRIPT, text)


def carry_assets(made: Path, folder: Path) -> None:
    """Put script and stylesheet beside a study's pages, so that a copy of its folder alone lacks nothing."""
    (folder / "assets").mkdir()
    for name in ASSETS:
        link_or_copy(made / name, folder / name)


def begin_script() -> None:
    """Begin what takes seconds of the script in another process, unless it was made before.

    Another process and not a thread: it leaves no memory behind.
    """
    global _begun
    if _begun is None and sys.executable and not _kept_bundle():
        result = tempfile.TemporaryFile()  # noqa: SIM115 (read, and closed, when the script is written)
        try:
            command = [sys.executable, "-P", "-c", _MAKING, *_BUNDLED]
            _begun = subprocess.Popen(command, stdout=result, stderr=subprocess.DEVNULL), result
        except OSError:
            result.close()  # it is made later, here


def join_modules(scripts: Path, entry: str) -> str:
    """Join ES modules to one classic script, as a page that is opened as a file may load no modules.

    Each module becomes a function that returns its exports, so that names stay its own; modules run in the order in
    which a browser would run them. Of import and export only two forms are known, each at the beginning of a line:
    ``import { a, b as c } from "./name.js";`` (or without names) and ``export`` before const, class or function. What
    modules import of each other is checked by ``tsc``.
    """
    joined = dict[str, str]()

    def bind(statement: re.Match[str]) -> str:
        names = (statement[1] or "").strip().replace(" as ", ": ")
        return f"const {{ {names} }} = module_{statement[2]};" if names else ""

    def add(name: str) -> None:
        text = (scripts / f"{name}.js").read_text(encoding="utf-8")
        for source in _IMPORT.findall(text):
            if source[1] not in joined:
                add(source[1])
        names = _EXPORT.findall(text)
        text = _EXPORT.sub("", _IMPORT.sub(bind, text))
        if other := _OTHER.search(text):
            raise ValueError(f"{name}.js has a form of import or export that is not known here: {other[0]}")
        joined[name] = f"const module_{name} = (() => {{\n{text}return {{ {', '.join(names)} }};\n}})();\n"

    add(entry)
    return "".join(joined.values())


@cache
def _bundle() -> str:
    """Return Vega, Vega-Lite and its embedding as one script; making it takes seconds, so that it is kept."""
    if text := _kept_bundle():
        return text
    made = _made_bundle()
    if place := _place_of_bundle():
        with suppress(OSError):
            write(place, made)
    return made


def _made_bundle() -> str:
    if _begun is not None:
        process, result = _begun
        with result:
            if process.wait() == 0 and result.seek(0, os.SEEK_END):
                result.seek(0)
                return result.read().decode()
    import vl_convert

    snippet, vega_lite = _BUNDLED
    made: str = vl_convert.javascript_bundle(snippet, vl_version=vega_lite)
    return made


def _place_of_bundle() -> Path | None:
    place = kept()
    return place and place / f"vega-{version('vl-convert-python')}-{VEGA_LITE}.bundle"


def _kept_bundle() -> str:
    place = _place_of_bundle()
    with suppress(OSError):
        return place.read_text(encoding="utf-8") if place else ""
    return ""


def write(path: Path, text: str) -> None:
    """Write a text so that a reader sees the old one or the new one, never half of it."""
    with drafted(path) as draft:
        draft.write_bytes(text.encode())
