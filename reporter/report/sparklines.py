"""Tiny pictures for the list of studies: the lines of a headline figure, as inline SVG coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reporter.charts.chart import Drawn
from reporter.charts.layout import panels_of
from reporter.report.contents import Contents

WIDTH, HEIGHT = 180, 56


@dataclass(frozen=True)
class Spark:
    """One line: the colours of its model and ``points`` of an SVG polyline."""

    model: str
    light: str
    dark: str
    points: str


@dataclass(frozen=True)
class Sparkline:
    """The lines of one statistic, and what it is."""

    caption: str
    lines: tuple[Spark, ...]


def sparkline(contents: Contents) -> Sparkline | None:
    """Return a study's first headline profile: last checkpoint, first corpus (or item of an analysis), first view."""
    for drawn in contents.glance:
        if drawn.chart.kind != "profile" or drawn.frame is None or drawn.frame.empty:
            continue
        panel = panels_of(drawn.frame, "corpus", contents.scene)[0]
        lines = _lines(contents, drawn, panel.value)
        if lines:
            return Sparkline(f"{drawn.chart.title} on {panel.label}", tuple(lines))
    return None


def _lines(contents: Contents, drawn: Drawn, corpus: str) -> list[Spark]:
    scene, frame = contents.scene, drawn.frame
    assert frame is not None
    last = scene.moments[-1].shown
    rows = frame[
        (frame["statistic"] == drawn.id.partition(".")[2])
        & (frame["view"] == scene.views[0])
        & (frame["corpus"] == corpus)
        & (frame["checkpoint"] == frame["model"].map(last))
        & ~frame["site"].isin(["final", "attention"])
    ].dropna(subset=["depth", "value"])
    if rows.empty:
        return []
    low, high = float(rows["value"].min()), float(rows["value"].max())
    found = []
    for style in scene.styles.own:
        own = rows[rows["model"] == style.model].sort_values("depth")
        pairs = list(zip(own["depth"], own["value"], strict=True))
        if len(pairs) > 1:
            found.append(Spark(style.model, style.light, style.dark, _points(pairs, low, high)))
    return found


def _points(pairs: Sequence[tuple[float, float]], low: float, high: float) -> str:
    scale = (HEIGHT - 8) / ((high - low) or 1)
    return " ".join(f"{4 + x * (WIDTH - 8):.1f},{HEIGHT - 4 - (y - low) * scale:.1f}" for x, y in pairs)
