"""The page of journeys standing still: one token of one journey, as the page shows it when it opens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.charts.journeys import SIDES
from reporter.charts.numbers import is_null, whole
from reporter.charts.sheet import PanelStill, Sheet, Size, sheet_svg
from reporter.charts.still import draw_still
from reporter.report.explorer import Explorer

if TYPE_CHECKING:
    import pandas as pd

_WORD = re.compile(r"[^\W\d_]{3}")
_SITES = ("embedding", "block", "final")
_CLOSING = 1.09  # where the state after the closing norm stands, as in journey_lines.js
_MOST_TIMES = 50  # between lengths on a linear axis, likewise
_COURSES = (
    ("cosine", "Cosine to its own vocabulary vector", "value"),
    ("rank_cosine", "Rank: vocabulary tokens that are nearer", "rank"),
    ("turnover_cosine", "Turnover: new among its nearest 100", "value"),
    ("step_length", "Length of the step to the next state", "value"),
    ("step_cosine", "Cosine of state and next state", "value"),
)


@dataclass(frozen=True)
class Journey:
    """A token of a journey in one model; ``own`` is what distinguishes the rows of both."""

    own: dict[str, Any]
    text: int
    position: int
    token: str


def first_journey(explorer: Explorer) -> Journey:
    """Return what the page shows when it opens: a followed word of the first journey, in its first model."""
    journey, models = explorer.data["journeys"][0], explorer.data["entries"]
    first = next(entry for entry in models if entry["journey"] == journey)
    last = [entry for entry in models if (entry["journey"], entry["model"]) == (journey, first["model"])][-1]
    own = {name: last[name] for name in ("journey", "model", "checkpoint")}
    steps = _of(explorer.source("journeys").frame, own)
    tokens = steps.drop_duplicates(["text", "position"]).to_dict("records")
    words = [one for one in tokens if not one["special"]] or tokens
    followed = [one for one in words if one["followed"]]
    best = next((one for one in followed if _WORD.search(str(one["token"]))), (followed or words)[0])
    return Journey(own, int(best["text"]), int(best["position"]), str(best["token"]))


def told_journey(explorer: Explorer, journey: Journey) -> dict[str, Any]:
    """Return the tables: the nearest tokens by layer, and the rank of every token of the text by layer."""
    steps = _at_sites(_of(explorer.source("journeys").frame, journey.own))
    steps = steps[steps["text"] == journey.text]
    near = _at_sites(_of(explorer.source("neighbours").frame, journey.own))
    at = (near["text"] == journey.text) & (near["position"] == journey.position) & (near["measure"] == "cosine")
    layers = list(dict.fromkeys(zip(steps["site"], steps["layer"].astype(int), strict=True)))
    nearest = {
        (row["site"], int(row["layer"]), int(row["place"])): row["neighbour"] for row in near[at].to_dict("records")
    }
    ranks = {
        (row["site"], int(row["layer"]), int(row["position"])): row["rank_cosine"] for row in steps.to_dict("records")
    }
    tokens = steps.drop_duplicates("position")
    return {
        "journey": journey.own["journey"],
        "model": journey.own["model"],
        "token": journey.token,
        "layers": [_name(*layer) for layer in layers],
        "nearest": [
            (place, [nearest.get((*layer, place), "") for layer in layers])
            for place in sorted({place for _, _, place in nearest})
        ],
        "ranks": [
            (token, [_rank(ranks.get((*layer, int(position)))) for layer in layers])
            for token, position in zip(tokens["token"], tokens["position"], strict=True)
        ],
    }


def drawn_journey(explorer: Explorer, journey: Journey, size: Size) -> dict[str, str]:
    """Return the drawings as SVG: the token in every model of the journey, and the paths of all tokens in a plane.

    Args:
        explorer: the page.
        journey: what of it is shown.
        size: how large.
    """
    drawn = {"profile": _courses(explorer, journey, size)}
    paths = _at_sites(_of(explorer.source("journey-paths").frame.rename(columns={"item": "journey"}), journey.own))
    paths = paths[paths["projection"] == "pca-joint"]
    if not paths.empty:
        drawn["path"] = _paths(explorer.data["specs"]["path"], paths, journey, size)
    return drawn


def _courses(explorer: Explorer, journey: Journey, size: Size) -> str:
    frame = _at_sites(explorer.source("journeys").frame)
    here = (frame["journey"] == journey.own["journey"]) & (frame["text"] == journey.text)
    lines: list[pd.DataFrame] = []
    for entry in explorer.data["entries"]:
        if entry["journey"] != journey.own["journey"]:
            continue
        own = _of(frame[here], {name: entry[name] for name in ("model", "checkpoint")})
        same = own[own["token"].map(_bare) == _bare(journey.token)]
        if not same.empty:  # of several such tokens the one that stands nearest to the chosen one's place
            places = same["position"].drop_duplicates()
            place = int(places.iloc[(places - journey.position).abs().argmin()])
            lines = [line for line in lines if line["model"].iloc[0] != entry["model"]]  # the last checkpoint
            lines.append(same[same["position"] == place])
    width = size.panel(3)
    depths = sorted({float(depth) for line in lines for depth in line.loc[line["site"] != "final", "depth"]})
    panels = []
    for number, (column, title, drawing) in enumerate(_COURSES):
        rows = [row for line, own in enumerate(lines) for row in _course(own, line, column)]
        if not rows:
            continue
        values = [row["value"] for row in rows]
        if column == "step_length" and 0 < _MOST_TIMES * min(values) < max(values):
            drawing = "log"
        signals = {
            "end": _CLOSING if any(row["closing"] for row in rows) else 1,
            "ticks": depths if len({len(line) for line in lines}) == 1 else [0, 0.25, 0.5, 0.75, 1],
            "layers": len(depths) - 1 if len({len(line) for line in lines}) == 1 else 0,
            "low": min(values) if drawing == "log" else min(0.0, *values),
            "high": max(10.0, *values) if drawing == "rank" else max(values) or 1.0,
        }
        still = draw_still(explorer.data["specs"][drawing], _frame(rows), width, signals, f"l{number}")
        panels.append(PanelStill(title, still))
    shown = {line["model"].iloc[0] for line in lines}
    return sheet_svg(
        Sheet(
            title=f"{journey.token}: the chosen token in every model",
            panels=panels,
            key=[(style["model"], style["light"]) for style in explorer.data["models"] if style["model"] in shown],
            caption=(f"Journey: {journey.own['journey']}. Text {journey.text + 1}, position {journey.position}.",),
        ),
        size,
    )


def _course(own: pd.DataFrame, line: int, column: str) -> list[dict[str, Any]]:
    rows = [row for row in own.to_dict("records") if not is_null(row[column])]
    closes = bool(rows) and rows[-1]["site"] == "final"
    return [
        {
            "line": line, "hue": f"model {row['model']}", "value": float(row[column]),
            "x": _CLOSING if row["site"] == "final" else float(row["depth"]), "here": False, "main": False,
            "strong": False, "closing": row["site"] == "final", "tail": closes and place >= len(rows) - 2, "tip": None,
        }
        for place, row in enumerate(rows)
    ]  # fmt: skip


def _paths(spec: Mapping[str, Any], paths: pd.DataFrame, journey: Journey, size: Size) -> str:
    rows = []
    for way, ((part, point), own) in enumerate(paths.groupby(["part", "point"], sort=False)):
        text = int(match[0]) if (match := re.search(r"\d+", str(part))) else 0
        chosen = text == journey.text and point == journey.position
        places = own.to_dict("records")
        for order, place in enumerate(places):
            last = order == len(places) - 1
            rows.append(
                {
                    "way": way, "order": order, "hue": f"side {list(SIDES)[text % 2]}", "x": place["x"],
                    "y": place["y"], "weight": 3 if chosen else 1, "mark": "dot", "size": 20 if chosen else 5,
                    "here": False, "name": str(place["label"])[:14] if last else None,
                    "align": "left" if last else None,
                }
            )  # fmt: skip
    frame = _frame(rows)
    width = size.pixels
    height = width * 0.62
    reach = {axis: (float(frame[axis].min()), float(frame[axis].max())) for axis in "xy"}
    # one unit both ways, and room for the names at the ends
    unit = 1.12 * max((reach["x"][1] - reach["x"][0]) / (width - 120), (reach["y"][1] - reach["y"][0]) / height) or 1
    middle = {axis: sum(ends) / 2 for axis, ends in reach.items()}
    signals = {
        "x0": middle["x"] - unit * width / 2, "x1": middle["x"] + unit * width / 2,
        "y0": middle["y"] - unit * height / 2, "y1": middle["y"] + unit * height / 2,
    }  # fmt: skip
    still = draw_still(spec, frame, width, signals, "path", height)
    said = f"Journey: {journey.own['journey']}. Model: {journey.own['model']}. The thick path is {journey.token}."
    sheet = Sheet("The path through the layers", [PanelStill("", still)], caption=(said,))
    return sheet_svg(sheet, size)


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows)


def _of(frame: pd.DataFrame, own: dict[str, Any]) -> pd.DataFrame:
    """The rows of a journey in a checkpoint, compared with vocabulary vectors as they are."""
    for name, value in own.items():
        frame = frame[frame[name].astype(str) == value]
    return frame[frame["positions"] == frame["positions"].iloc[0]] if "positions" in frame and len(frame) else frame


def _at_sites(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["site"].isin(_SITES)]


def _bare(token: Any) -> str:
    return re.sub(r"^##|[␣ ]", "", "" if is_null(token) else str(token)).lower()


def _name(site: str, layer: int) -> str:
    return "norm" if site == "final" else "emb" if layer == 0 else str(layer)


def _rank(value: Any) -> str:
    return "–" if is_null(value) else whole(value)
