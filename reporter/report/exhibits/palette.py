"""Colours of what is no model: classes of tokens, groups, concepts, corpora. Each has a twin for the dark theme."""

from __future__ import annotations

from collections.abc import Sequence

from reporter.report.styles import MUTED, NEUTRAL, RAMP

CATEGORIES = {
    "#2765c7": "#6ea8ff",
    "#cf4a08": "#ff8f4f",
    "#0b8a6c": "#40cfa4",
    "#9336ad": "#d48bf0",
    "#a97c00": "#efc244",
    "#bd2457": "#ff7ba9",
    "#0d8aa0": "#4fd2e7",
    "#557a1a": "#a8d05a",
    "#5f45d6": "#a797ff",
    "#96502a": "#d89a74",
    "#4d5664": "#b4bcc8",
    "#7a1f1f": "#f08783",
}
DIVERGING = {
    "#14509e": "#69adff",
    "#86add9": "#2d5a96",
    "#f3f2ed": "#222831",
    "#eda673": "#8d4a1d",
    "#ad3a06": "#ff9a57",
}
"""From −1 over 0 to 1; 0 fades into the surface."""


def colours(count: int) -> list[str]:
    """Return so many colours of the light theme; after the twelfth they begin again."""
    found = list(CATEGORIES)
    return [found[place % len(found)] for place in range(count)]


def ordered(values: Sequence[str], first: Sequence[str] = ()) -> list[str]:
    """Return each value once: those of ``first`` in its order, then the others as they come."""
    return [*(value for value in first if value in values), *dict.fromkeys(v for v in values if v not in first)]


DARK_ON_LIGHT = "#fffffe"
"""Ink on the strong ends of a diverging scale: white on the light theme's, black on the dark one's."""
TWINS = {DARK_ON_LIGHT: "#0f1217", **CATEGORIES, **DIVERGING, **MUTED, **NEUTRAL, **RAMP}
"""From each light colour to its dark twin."""
