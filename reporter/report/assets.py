"""The script and the stylesheet that all pages share."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO

from reporter.charts.still import VEGA_LITE
from reporter.charts.styles import THEMES
from reporter.report.templating import folder

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
    """Write ``assets/``, leaving a script alone that is already the right one (making it takes seconds).

    Args:
        out: the results folder.
    """
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

    Args:
        out: the results folder, whose ``assets/`` is written.
        folder: the study's folder.
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

    Args:
        out: the results folder.
    """
    global _begun
    if _begun is None and sys.executable and not _is_current(out, _own_parts()[2]):
        result = tempfile.TemporaryFile()  # noqa: SIM115 (read, and closed, when the script is written)
        try:
            _begun = (
                subprocess.Popen(
                    [sys.executable, "-P", "-c", _MAKING, *_BUNDLED], stdout=result, stderr=subprocess.DEVNULL
                ),
                result,
            )
        except OSError:
            result.close()  # it is made later, here


def join_modules(scripts: Path, entry: str) -> str:
    """Join ES modules to one classic script, as a page that is opened as a file may load no modules.

    Each module becomes a function that returns its exports, so that names stay its own; modules run in the order in
    which a browser would run them. Of import and export only two forms are known, each at the beginning of a line:
    ``import { a, b as c } from "./name.js";`` (or without names) and ``export`` before const, class or function.

    Args:
        scripts: the folder of the modules.
        entry: the module that imports the others, without ``.js``.

    Returns:
        The script, to stand in strict code.

    Raises:
        ValueError: a module is not there, imports itself in a circle, imports what is not exported, or has another
            form of import or export.
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
            wanted = [
                [part.strip() for part in one.split(" as ")] for one in (statement[1] or "").split(",") if one.strip()
            ]
            for one, *_ in wanted:
                if one not in exports[source]:
                    raise ValueError(f"{name}.js imports {one} from {source}.js, which does not export it")
            return f"const {{ {', '.join(': '.join(one) for one in wanted)} }} = module_{source};" if wanted else ""

        own = _EXPORT.findall(text)
        text = _EXPORT.sub("", _IMPORT.sub(bind, text))
        if other := _OTHER.search(text):
            raise ValueError(f"{name}.js has a form of import or export that is not known here: {other[0]}")
        exports[name] = own
        joined.append(f"const module_{name} = (() => {{\n{text}return {{ {', '.join(own)} }};\n}})();\n")

    add(entry, ())
    return "".join(joined)


def _own_parts() -> tuple[str, str, str]:
    """Return our own scripts, the themes, and the line that tells which script this is."""
    site, themes = join_modules(folder(), ENTRY), json.dumps(THEMES)
    parts = f"{version('vl-convert-python')} {VEGA_LITE} {themes} {site}"
    return site, themes, f"// reporter {hashlib.sha256(parts.encode()).hexdigest()[:16]}\n"


def _is_current(out: Path, stamp: str) -> bool:
    script = out / "assets" / SCRIPT
    return script.exists() and _first_line(script) == stamp


@cache
def _bundle() -> str:
    """Return Vega, Vega-Lite and its embedding as one script; making it takes seconds, unless it was begun before."""
    if _begun is not None:
        process, result = _begun
        with result:
            if process.wait() == 0 and result.seek(0, os.SEEK_END):
                result.seek(0)
                return result.read().decode()
    import vl_convert

    said, vega_lite = _BUNDLED
    made: str = vl_convert.javascript_bundle(said, vl_version=vega_lite)
    return made


def write(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")  # of two runs neither takes the other one's
    temporary.write_text(text, encoding="utf-8", newline="")
    temporary.replace(path)


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return lines.readline()
