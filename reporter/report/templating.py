"""The Jinja environment, and the script and the stylesheet that all pages share."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from jinja2 import ChoiceLoader, Environment, FileSystemBytecodeCache, FileSystemLoader, PrefixLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup, escape

from reporter.charts.formulas import as_html, as_plain, folded
from reporter.charts.models import correlation_rows
from reporter.charts.picture import VEGA_LITE
from reporter.charts.styles import THEMES
from reporter.core.imports import build
from reporter.core.numbers import p_value, seconds, short, whole
from reporter.core.places import token_set
from reporter.metrics._intervals import METHODS

_PACKED = Path(__file__).parent / "templates"
_SOURCE = Path(__file__).parents[2] / "templates"


def folder() -> Path:
    """Return the folder of templates: inside an installed package, or at the top of a working copy."""
    return _PACKED if _PACKED.is_dir() else _SOURCE


@cache
def kept() -> Path | None:
    """Return a folder that outlives a run, where Python keeps bytecode; None where nothing can be written."""
    place = folder() / "__pycache__"
    try:
        place.mkdir(exist_ok=True)
    except OSError:
        return None
    return place if os.access(place, os.W_OK) else None


def environment(templates: Path | None = None) -> Environment:
    """Return an environment that escapes everything and fails on a name that does not exist."""
    ours = FileSystemLoader(folder())
    loader = (
        ours
        if templates is None
        else ChoiceLoader([FileSystemLoader(templates), ours, PrefixLoader({"reporter": ours})])
    )
    made = (Environment if templates is None else ImmutableSandboxedEnvironment)(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    if templates is None and (place := kept()):
        made.bytecode_cache = FileSystemBytecodeCache(str(place))
    made.globals["build"] = build()  # a run writes pages of another build again
    made.filters |= {"short": short, "p_value": p_value, "whole": whole, "duration": seconds, "inline": inline_json}
    made.filters |= {"folded": folded, "coded": coded, "typeset": typeset, "plain": as_plain, "when": when}
    made.filters |= {"correlation_rows": correlation_rows, "token_set": token_set}
    made.globals["methods"] = METHODS
    return made


def coded(text: str) -> Markup:
    """Write what stands between backticks as code."""
    parts = str(escape(text)).split("`")
    if len(parts) % 2 == 0:  # one without another is itself
        parts[-2:] = ["`".join(parts[-2:])]
    return Markup("".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts)))


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
_BUNDLED = ("window.vegaEmbed = vegaEmbed;", VEGA_LITE)
_MAKING = """
import sys, vl_convert
sys.stdout.buffer.write(vl_convert.javascript_bundle(sys.argv[1], vl_version=sys.argv[2]).encode())
"""
_begun: tuple[subprocess.Popen[bytes], IO[bytes]] | None = None
_IMPORT = re.compile(r'^import (?:\{([^{}]*)\} from )?"\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class|function|async function) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def write_assets(out: Path) -> None:
    """Write ``assets/``, leaving a script alone that is already the right one (making it takes seconds)."""
    assets = out / "assets"
    assets.mkdir(parents=True, exist_ok=True)
    write(assets / STYLE, "\n".join((folder() / name).read_text(encoding="utf-8") for name in STYLES))
    site, themes, stamp = _own_parts()
    if _is_current(out, stamp):
        return
    # The bundle's one-letter names would clash with the page's own: everything goes into one function.
    text = f'{stamp}(() => {{ "use strict";\n{{ {_bundle()} }}\nconst THEMES = {themes};\n{site}\n}})();\n'
    write(assets / SCRIPT, text)


def carry_assets(out: Path, folder: Path) -> None:
    """Put script and stylesheet beside a study's pages, so that a copy of its folder alone lacks nothing.

    They are further names of the same files where the disk can do that, and copies where it cannot.
    """
    assets = folder / "assets"
    assets.mkdir(exist_ok=True)
    for name in (SCRIPT, STYLE):
        source, place = out / "assets" / name, assets / name
        if place.exists() and place.samefile(source):
            continue
        temporary = assets / f".{name}.new"
        temporary.unlink(missing_ok=True)
        try:
            temporary.hardlink_to(source)
        except OSError:
            shutil.copy2(source, temporary)
        temporary.replace(place)


def begin_script(out: Path) -> None:
    """Begin what takes seconds of the script in another process, unless the right one is there.

    Another process and not a thread: it leaves no memory behind.
    """
    global _begun
    if _begun is None and sys.executable and not _kept_bundle() and not _is_current(out, _own_parts()[2]):
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
    ``import { a, b as c } from "./name.js";`` (or without names) and ``export`` before const, class or function.
    """
    exports = dict[str, list[str]]()
    joined = list[str]()

    def add(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"scripts import each other in a circle: {' -> '.join((*path[path.index(name) :], name))}")
        if name in exports:
            return
        try:
            text = (scripts / f"{name}.js").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ValueError(
                f"{path[-1]}.js imports {name}.js, which is not there" if path else f"no {name}.js"
            ) from None

        def bind(statement: re.Match[str]) -> str:
            source = statement[2]
            add(source, (*path, name))
            imports = [
                [part.strip() for part in item.split(" as ")]
                for item in (statement[1] or "").split(",")
                if item.strip()
            ]
            for item, *_ in imports:
                if item not in exports[source]:
                    raise ValueError(f"{name}.js imports {item} from {source}.js, which does not export it")
            return f"const {{ {', '.join(': '.join(item) for item in imports)} }} = module_{source};" if imports else ""

        names = _EXPORT.findall(text)
        text = _EXPORT.sub("", _IMPORT.sub(bind, text))
        if other := _OTHER.search(text):
            raise ValueError(f"{name}.js has a form of import or export that is not known here: {other[0]}")
        exports[name] = names
        joined.append(f"const module_{name} = (() => {{\n{text}return {{ {', '.join(names)} }};\n}})();\n")

    add(entry, ())
    return "".join(joined)


def _own_parts() -> tuple[str, str, str]:
    site, themes = join_modules(folder(), ENTRY), json.dumps(THEMES)
    parts = f"{version('vl-convert-python')} {VEGA_LITE} {themes} {site}"
    return site, themes, f"// reporter {hashlib.sha256(parts.encode()).hexdigest()[:16]}\n"


def _is_current(out: Path, stamp: str) -> bool:
    script = out / "assets" / SCRIPT
    if not script.exists():
        return False
    with script.open(encoding="utf-8") as lines:
        return lines.readline() == stamp


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
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")  # of two runs neither takes the other one's
    temporary.write_bytes(content)
    temporary.replace(path)
