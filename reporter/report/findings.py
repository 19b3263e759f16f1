"""The findings of a study as its page shows them: a sentence, its number, and a small picture of the chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Query
from reporter.charts.styles import FLOOR_GREY, MUTED
from reporter.core.numbers import near
from reporter.judge.questions import QUESTIONS
from reporter.judge.questions.question import Box, boxes_of
from reporter.report.tables import parsed
from reporter.store.rows import as_named

if TYPE_CHECKING:
    import pandas as pd

    from reporter.charts.styles import Styles

WIDTH, HEIGHT, MARGIN = 240, 84, 5
FEW = 3
"""Lines that are named where they are drawn; more are models, which the legend names."""
APART = 20
"""How far such names must lie from each other."""
UNSEEN = 0.5 / (HEIGHT - 2 * MARGIN)
"""Of a picture's height, what cannot be seen on it, and so is written as approximately 0."""

FINDINGS = Query(
    "findings",
    """
SELECT * EXCLUDE (study) FROM findings WHERE study = $study ORDER BY rank
""",
)


@dataclass(frozen=True)
class Line:
    """A line of a picture: points of an SVG polyline in the colours of both themes.

    ``said`` is the number that the sentence gives for it, empty where it gives none, and ``at`` where a name for it may
    stand.
    """

    label: str
    points: str
    light: str
    dark: str
    own: bool
    said: str = ""
    at: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Picture:
    """A small picture.

    Args:
        lines: those that are compared first, so that what the finding is about lies above them.
        mark: where it begins, and how wide it is; None where it is about everything.
        top: the largest value.
        bottom: the smallest.
        along: what the axis is.
        several: whether the lines are more models than can be named here: the page's legend names them.
        ends: what its left and its right end are.
    """

    lines: tuple[Line, ...]
    mark: tuple[float, float] | None
    top: str
    bottom: str
    along: str
    several: bool
    ends: tuple[str, str] = ("embedding", "last block")

    @property
    def named(self) -> list[Line]:
        """The lines with names beside them, moved apart where they would lie on each other; none if there are many."""
        if len(self.lines) > FEW:
            return []
        placed: list[Line] = []
        for line in sorted(self.lines, key=lambda line: line.at[1]):
            x, y = line.at
            y = max(y + 16 if y < 16 else y - 6, placed[-1].at[1] + APART if placed else 0.0)
            placed.append(replace(line, at=(x, round(y, 1))))
        return placed

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

    @property
    def about(self) -> list[str]:
        """The statistics that they are about, by full name."""
        return [f"{finding.row['metric']}.{finding.row['statistic']}" for finding in self.all]


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
    findings = []
    for row in rows:
        detail = parsed(row["detail"], dict)
        findings.append(Finding(row, detail, _picture(row, detail, styles)))
    return Findings(tuple(findings), looked_at, sql, frame)


def _middle(curve: Mapping[str, Any], mark: Sequence[float] | None) -> tuple[float, float]:
    middle = sum(mark) / 2 if mark else 0.5
    points: list[tuple[float, float]] = list(zip(curve["x"], curve["y"], strict=True))
    return min(points, key=lambda point: abs(point[0] - middle))


def _picture(row: Mapping[str, Any], detail: Mapping[str, Any], styles: Styles) -> Picture | None:
    curves = [curve for curve in detail.get("curves") or () if len(curve["x"]) > 1]
    values = [value for curve in curves for value in curve["y"]]
    if not values:
        return None
    low, high = min(values), max(values)
    if 0 <= low < high / 2:
        low = 0.0  # what is never negative is seen from 0 on
    scale = (HEIGHT - 2 * MARGIN) / ((high - low) or 1)

    def across(x: float) -> float:
        return round(MARGIN + x * (WIDTH - 2 * MARGIN), 1)

    def told(value: float) -> str:
        return near(value, 3, max(abs(low), abs(high)), UNSEEN)

    by_model = {style.model: style for style in styles.models}
    ends = ("first step", "last step") if str(row["chart"]).endswith(".training") else ("embedding", "last block")
    if ends[0] == "embedding" and detail.get("per") == "step":
        ends = ("first block", "last block")
        # a step is stored at the layer before it: the last one lies below depth 1
        reach = max(max(curve["x"]) for curve in curves) or 1.0
        curves = [curve | {"x": [x / reach for x in curve["x"]]} for curve in curves]
        detail = dict(detail) | {"mark": [x / reach for x in detail.get("mark") or ()]}
    along = "training" if str(row["chart"]).endswith(".training") else "depth"
    lines = []
    for curve in sorted(curves, key=lambda curve: bool(curve["own"])):
        style = by_model.get(curve["label"]) or (by_model.get(str(row["model"])) if curve["own"] else None)
        pairs = zip(curve["x"], curve["y"], strict=True)
        points = " ".join(f"{across(x)},{HEIGHT - MARGIN - (y - low) * scale:.1f}" for x, y in pairs)
        place, height = _middle(curve, detail.get("mark"))
        light, dark = (style.light, style.dark) if style else (FLOOR_GREY, MUTED[FLOOR_GREY])
        at = (across(place), HEIGHT - MARGIN - (height - low) * scale)
        number = curve.get("number")
        value = "" if number is None else told(number)
        lines.append(Line(str(curve["label"]), points, light, dark, bool(style), value, at))
    mark = detail.get("mark")
    begin, end = (across(mark[0]), across(mark[1])) if mark else (0.0, 0.0)
    return Picture(
        lines=tuple(lines),
        mark=(round(begin - 3, 1), round(end - begin + 6, 1)) if mark else None,
        top=told(high),
        bottom=told(low),
        along=along,
        several=row["model"] is None and len(lines) > FEW,
        ends=ends,
    )


# What a study's page says of the questions that its numbers answer.


Row = dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """A question and what was found.

    Args:
        name: its name.
        title: the question.
        boxes: what is said.
        tables: the rows behind it, by table.
    """

    name: str
    title: str
    boxes: Sequence[Box]
    tables: dict[str, pd.DataFrame]


def read_answers(
    read: Callable[[str], pd.DataFrame],
    rows_of: Callable[[pd.DataFrame], list[Row]],
    study: str,
    order: Mapping[str, Sequence[str]],
) -> tuple[Answered, ...]:
    """Read the questions that have an answer, in order.

    Args:
        read: runs a query.
        rows_of: turns a frame into rows.
        study: id of the study.
        order: its models and corpora as it names them.
    """
    answers = []
    for decision in QUESTIONS:
        frames = {}
        for table in (row.table for row in decision.rows):
            keys = ", ".join(f'"{name}"' for name in table.key)
            query = Query(table.name, f"SELECT * FROM {table.name} WHERE study = $study ORDER BY {keys}")
            whole = {column.name: "Int64" for column in table.columns if column.type in ("INTEGER", "BIGINT")}
            frames[table.name] = read(query.fill(study=study)).astype(whole)  # a NULL among them makes floats of all
        boxes = boxes_of(decision, {name: as_named(rows_of(frame), order) for name, frame in frames.items()})
        if boxes:
            answers.append(Answered(decision.name, decision.title, boxes, frames))
    return tuple(answers)
