"""The findings of a study as its page shows them: a sentence, its number, and a small picture of the chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Query
from reporter.charts.numbers import short
from reporter.charts.styles import FLOOR_GREY, MUTED
from reporter.report.tables import parsed

if TYPE_CHECKING:
    import pandas as pd

    from reporter.charts.styles import Styles

WIDTH, HEIGHT, MARGIN = 240, 84, 5

FINDINGS = Query(
    "findings",
    """
SELECT * EXCLUDE (study) FROM findings WHERE study = $study ORDER BY rank
""",
)


@dataclass(frozen=True)
class Line:
    """A line of a picture: points of an SVG polyline in the colours of both themes."""

    label: str
    points: str
    light: str
    dark: str
    own: bool


@dataclass(frozen=True)
class Picture:
    """A small picture.

    Args:
        lines: those that are compared first, so that what the finding is about lies above them.
        mark: where it begins, and how wide it is; None where it is about everything.
        top: the largest value.
        bottom: the smallest.
        along: what the axis is.
        several: whether the lines are models, which the page's legend names.
    """

    lines: tuple[Line, ...]
    mark: tuple[float, float] | None
    top: str
    bottom: str
    along: str
    several: bool

    @property
    def sentence(self) -> str:
        """The picture in words."""
        return (
            f"{', '.join(line.label for line in self.lines[::-1])} over {self.along}, from {self.bottom} to {self.top}"
        )


@dataclass(frozen=True)
class Finding:
    """A finding: its row, what is told with it, and its picture."""

    row: Mapping[str, Any]
    detail: Mapping[str, Any]
    picture: Picture | None


@dataclass(frozen=True)
class Findings:
    """All findings of a study, with the query they come from.

    Args:
        all: by rank.
        looked_at: how many questions were asked; None where numbers changed since.
        sql: the query.
        frame: what it returned.
    """

    all: tuple[Finding, ...]
    looked_at: int | None
    sql: str
    frame: pd.DataFrame


def read_findings(
    frame: pd.DataFrame, rows: Sequence[Mapping[str, Any]], looked_at: int | None, sql: str, styles: Styles
) -> Findings:
    """Lay out rows of the table ``findings``.

    Args:
        frame: what the query returned; it becomes the CSV.
        rows: the same as mappings in which NULL is None.
        looked_at: the column of ``studies``.
        sql: the query.
        styles: how models are drawn.
    """
    found = []
    for row in rows:
        detail = parsed(row["detail"], dict)
        found.append(Finding(row, detail, _picture(row, detail, styles)))
    return Findings(tuple(found), looked_at, sql, frame)


def _picture(row: Mapping[str, Any], detail: Mapping[str, Any], styles: Styles) -> Picture | None:
    curves = [curve for curve in detail.get("curves") or () if len(curve["x"]) > 1]
    values = [value for curve in curves for value in curve["y"]]
    if not values:
        return None
    low, high = min(values), max(values)
    scale = (HEIGHT - 2 * MARGIN) / ((high - low) or 1)

    def across(x: float) -> float:
        return round(MARGIN + x * (WIDTH - 2 * MARGIN), 1)

    known = {style.model: style for style in styles.models}
    lines = []
    for curve in sorted(curves, key=lambda curve: bool(curve["own"])):
        style = known.get(curve["label"]) or (known.get(str(row["model"])) if curve["own"] else None)
        pairs = zip(curve["x"], curve["y"], strict=True)
        points = " ".join(f"{across(x)},{HEIGHT - MARGIN - (y - low) * scale:.1f}" for x, y in pairs)
        light, dark = (style.light, style.dark) if style else (FLOOR_GREY, MUTED[FLOOR_GREY])
        lines.append(Line(str(curve["label"]), points, light, dark, bool(style)))
    mark = detail.get("mark")
    begin, end = (across(mark[0]), across(mark[1])) if mark else (0.0, 0.0)
    return Picture(
        lines=tuple(lines),
        mark=(round(begin - 3, 1), round(end - begin + 6, 1)) if mark else None,
        top=short(high),
        bottom=short(low),
        along="training" if str(row["chart"]).endswith(".training") else "depth",
        several=row["model"] is None,
    )
