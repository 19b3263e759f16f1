"""The script and the stylesheet that all pages share."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import vl_convert

from reporter.report.charts.theme import THEMES
from reporter.report.templating import folder

VEGA_LITE = "6.4"
"""The Vega-Lite of Altair 6; a spec must be read by the version it was written for."""
SOURCES = (
    "page.js",
    "charts.js",
    "controls.js",
    "explorer.js",
    "journeys.js",
    "points.js",
    "exhibits.js",
    "journey_choose.js",
    "journey_near.js",
    "journey_lines.js",
    "journey_path.js",
    "explore.js",
)
"""The page's own script, in the order in which its parts need each other."""
SCRIPT, STYLE = "reporter.js", "reporter.css"


def write_assets(out: Path) -> None:
    """Write ``assets/``, leaving a script alone that is already the right one (making it takes seconds).

    Args:
        out: the results folder.
    """
    assets = out / "assets"
    assets.mkdir(parents=True, exist_ok=True)
    write(assets / STYLE, (folder() / "site.css").read_text(encoding="utf-8"))
    site = "\n".join((folder() / name).read_text(encoding="utf-8") for name in SOURCES)
    themes = json.dumps(THEMES)
    parts = f"{version('vl-convert-python')} {VEGA_LITE} {themes} {site}"
    stamp = f"// reporter {hashlib.sha256(parts.encode()).hexdigest()[:16]}\n"
    script = assets / SCRIPT
    if script.exists() and _first_line(script) == stamp:
        return
    # The bundle's one-letter names would clash with the page's own: everything goes into one function.
    write(script, f'{stamp}(() => {{ "use strict";\n{{ {_bundle()} }}\nconst THEMES = {themes};\n{site}\n}})();\n')


@lru_cache(maxsize=1)
def _bundle() -> str:
    """Return Vega, Vega-Lite and its embedding as one script; making it takes seconds."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)


def write(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8", newline="")
    temporary.replace(path)


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return lines.readline()
