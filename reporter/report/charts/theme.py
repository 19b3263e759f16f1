"""How charts look in the light and in the dark theme: two Vega configurations, shared by every page."""

from __future__ import annotations

from typing import Any

FONT = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif'


def _config(surface: str, ink: str, quiet: str, grid: str) -> dict[str, Any]:
    return {
        "background": surface,
        "font": FONT,
        "padding": {"left": 2, "right": 6, "top": 6, "bottom": 2},
        "autosize": {"type": "fit-x", "contains": "padding"},
        "view": {"stroke": None},
        "axis": {
            "labelColor": quiet,
            "titleColor": quiet,
            "titleFontWeight": 400,
            "titleFontSize": 11,
            "labelFontSize": 11,
            "labelPadding": 5,
            "titlePadding": 7,
            "gridColor": grid,
            "domain": False,
            "ticks": False,
        },
        "axisX": {
            "domain": True,
            "domainColor": quiet,
            "ticks": True,
            "tickColor": quiet,
            "tickSize": 4,
            "grid": False,
        },
        "axisY": {"tickCount": 5},
        "text": {"color": ink, "fontSize": 11},
    }


THEMES = {
    "light": _config(surface="#ffffff", ink="#1c2330", quiet="#5b6472", grid="#eceef1"),
    "dark": _config(surface="#171b22", ink="#e7eaf0", quiet="#a0a9b8", grid="#2a303a"),
}
