"""The findings of a study as its page shows them: a sentence, its number, and a small picture of the chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Read, filled
from reporter.charts.styles import FLOOR_GREY, MUTED
from reporter.core.numbers import near
from reporter.core.places import listed
from reporter.judge.comparison import PAIR
from reporter.judge.questions import QUESTIONS
from reporter.judge.questions.question import Answer, boxes_of
from reporter.judge.questions.texts import behind
from reporter.report.tables import Row, figure_link, parsed, rows_of
from reporter.store.rows import as_named

if TYPE_CHECKING:
    import pandas as pd

    from reporter.charts.layout import Scene
    from reporter.charts.styles import Styles

WIDTH, HEIGHT, MARGIN = 240, 84, 5
FEW = 3
"""Lines that are named under the picture; more are models, which the legend names."""
UNSEEN = 0.5 / (HEIGHT - 2 * MARGIN)
"""Of a picture's height, what cannot be seen on it, and so is written as approximately 0."""

FINDINGS = """
SELECT * EXCLUDE (study) FROM findings WHERE study = $study ORDER BY rank
"""


@dataclass(frozen=True)
class ShownFindings:
    """All findings of a study, with the query they come from.

    Args:
        all: by rank, each with its ``row``, its ``detail``, its ``picture``, the ``link`` to its figure with its token
            set, or both, and what it is ``about``: models, corpora and token sets in words.
        looked_at: how many questions were asked; None where numbers changed since.
        sql: the query.
        frame: what it returned.
    """

    all: tuple[Row, ...]
    looked_at: int | None
    sql: str
    frame: pd.DataFrame

    @property
    def about(self) -> list[str]:
        """The statistics that they are about, by full name."""
        return [f"{finding['row']['metric']}.{finding['row']['statistic']}" for finding in self.all]


def read_findings(read: Read, scene: Scene, looked_at: int | None) -> ShownFindings:
    """Read and lay out the findings of a study; ``looked_at`` is the column of ``studies``."""
    study, models = scene.study, [style.model for style in scene.styles.own]
    sql = filled(FINDINGS, study=study)
    frame = read(sql)
    findings = []
    for row in rows_of(frame):
        detail = parsed(row["detail"], dict)
        views = PAIR if row["kind"] == "sinks" else (row["view"],)
        link, tokens = figure_link(str(row["chart"]), *views), listed(views)
        about = _about(row["model"], "models", models), _about(row["corpus"], "corpora", scene.corpora), tokens
        finding = {"row": row, "detail": detail, "link": link, "about": about}
        findings.append(finding | {"picture": picture(row, detail, scene.styles)})
    return ShownFindings(tuple(findings), looked_at, sql, frame)


def _about(name: Any, plural: str, every: Sequence[str]) -> str:
    """Return what a finding is about: one of several models or corpora, the only one, or all of them."""
    return str(name or (every[0] if len(every) == 1 else f"all {plural}"))


def picture(row: Mapping[str, Any], detail: Mapping[str, Any], styles: Styles) -> Row | None:
    """Return the small picture of a finding; None where it has no curves.

    ``lines``: SVG polylines in the colours of both themes, those that are compared first, so that what the finding is
    about (``own``) lies above them; ``said`` is the number that the sentence gives for a line, empty where it gives
    none. ``mark``: where it begins, and how wide it is; None where it is about everything. ``top`` and ``bottom``: the
    largest value and the smallest. ``several``: whether the lines are more models than
    can be named here: the page's legend names them. ``sentence``: the picture in words.
    """
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

    def down(y: float) -> float:
        return float(HEIGHT - MARGIN - (y - low) * scale)

    def told(value: float) -> str:
        return near(value, 3, max(abs(low), abs(high)), UNSEEN)

    mark = detail.get("mark")
    if detail.get("per") == "step":
        # a step is stored at the layer before it: the last one lies below depth 1
        reach = max(max(curve["x"]) for curve in curves) or 1.0
        curves = [curve | {"x": [x / reach for x in curve["x"]]} for curve in curves]
        mark = [x / reach for x in mark or ()]
    by_model = {style.model: style for style in styles.models}
    lines: list[Row] = []
    for curve in sorted(curves, key=lambda curve: bool(curve["own"])):
        style = by_model.get(curve["label"]) or (by_model.get(str(row["model"])) if curve["own"] else None)
        pairs = list(zip(curve["x"], curve["y"], strict=True))
        number = curve.get("number")
        lines.append(
            {
                "label": str(curve["label"]),
                "points": " ".join(f"{across(x)},{down(y):.1f}" for x, y in pairs),
                "light": style.light if style else FLOOR_GREY,
                "dark": style.dark if style else MUTED[FLOOR_GREY],
                "own": bool(style),
                "said": "" if number is None else told(number),
            }
        )
    begin, end = (across(mark[0]), across(mark[1])) if mark else (0.0, 0.0)
    top, bottom = told(high), told(low)
    return {
        "lines": lines,
        "mark": (round(begin - 3, 1), round(end - begin + 6, 1)) if mark else None,
        "top": top,
        "bottom": bottom,
        "several": row["model"] is None and len(lines) > FEW,
        "sentence": f"{', '.join(line['label'] for line in lines[::-1])} over depth, from {bottom} to {top}",
    }


# What a study's page says of the questions that its numbers answer.


def read_behind(read: Read, study: str) -> Answer:
    """Read the texts and tokens behind the answers."""
    return behind(lambda query: rows_of(read(filled(query, study=study))))


def read_answers(read: Read, study: str, order: Mapping[str, Sequence[str]]) -> tuple[Row, ...]:
    """Read the questions that have an answer, in order.

    Each has its ``name``, its ``title``, the ``boxes`` that say the answer and the ``tables`` behind it, by name.

    Args:
        read: runs a query.
        study: id of the study.
        order: its models and corpora as it names them.
    """
    answers = []
    for decision in QUESTIONS:
        frames = {}
        for table in (row.table for row in decision.rows):
            keys = ", ".join(f'"{name}"' for name in table.key)
            query = f"SELECT * FROM {table.name} WHERE study = $study ORDER BY {keys}"
            whole = {column.name: "Int64" for column in table.columns if column.type in ("INTEGER", "BIGINT")}
            frames[table.name] = read(filled(query, study=study)).astype(whole)  # a NULL among them makes floats of all
        boxes = boxes_of(decision, {name: as_named(rows_of(frame), order) for name, frame in frames.items()})
        if boxes:
            answers.append({"name": decision.name, "title": decision.title, "boxes": boxes, "tables": frames})
    return tuple(answers)
