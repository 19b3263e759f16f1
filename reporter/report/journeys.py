"""The page of token trajectories: what becomes of a token on its way through the layers, and its static images."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reporter.charts import journeys as journey_charts
from reporter.charts.chart import Read
from reporter.charts.drawing import pack, tidy
from reporter.charts.picture import FigurePanel, FigureSize, compose
from reporter.charts.styles import Styles
from reporter.core.numbers import counted, is_null, whole
from reporter.core.table import NTH_CHECKPOINT
from reporter.report.explorers import Explorer, read_source, styled

if TYPE_CHECKING:
    import pandas as pd

STEPS = f"""
SELECT journey, role, model, step, checkpoint, text, position, token_id, token, followed, special, positions,
  norm_before, site, layer, depth, cosine, distance, rank_cosine, rank_distance, norm, step_length, step_cosine,
  turnover_cosine, turnover_distance
FROM journeys JOIN {NTH_CHECKPOINT} USING (study, model, checkpoint)
WHERE study = $study
ORDER BY journey, role DESC, model, nth_checkpoint, text, position, positions DESC,
  list_position(['embedding', 'block', 'final', 'attention'], site), layer
"""

NEIGHBOURS = f"""
SELECT journey, role, model, step, checkpoint, text, position, token_id, token, positions, site, layer, depth,
  measure, place, neighbour_id, neighbour, cosine, distance
FROM neighbours JOIN {NTH_CHECKPOINT} USING (study, model, checkpoint)
WHERE study = $study
ORDER BY journey, role DESC, model, nth_checkpoint, text, position, positions DESC, measure,
  list_position(['embedding', 'block', 'final', 'attention'], site), layer, place
"""

PATHS = f"""
SELECT item, role, model, step, checkpoint, projection, part, point, label, site, layer, depth, x, y
FROM projections JOIN {NTH_CHECKPOINT} USING (study, model, checkpoint)
WHERE study = $study AND analysis = 'journeys'
ORDER BY item, role DESC, model, nth_checkpoint, projection, part, point,
  list_position(['embedding', 'block', 'final', 'attention'], site), layer
"""

ABOUT = (
    "A token enters a model as a row of its vocabulary. How long does its state stay nearest to itself, and what does "
    "it come close to on the way?"
)
_STATES = {"closing": "after the final norm, as in the logit lens", "none": "as it is (the residual stream)"}
SAME_IN_A_PART = ("journey", "item", "role", "model", "step", "checkpoint")


def read_journeys(read: Read, study: str, styles: Styles) -> Explorer | None:
    """Read the explorer of a study's journeys."""
    steps = read_source(read, STEPS, study, "journeys", "Tokens by layer", "journeys")
    if steps.frame.empty:
        return None
    near = read_source(read, NEIGHBOURS, study, "neighbours", "Nearest vocabulary tokens", "neighbours")
    paths = read_source(read, PATHS, study, "journey-paths", "Paths in a plane", "projections")
    key = ["journey", "model", "checkpoint"]
    tables = {"neighbours": _split(near.frame, key), "paths": _split(paths.frame, ["item", *key[1:]])}
    entries, parts = [], dict[str, dict[str, Any]]()
    for number, (name, rows) in enumerate(_split(steps.frame, key).items()):
        part = f"journey-{number}"
        step = rows["step"].iloc[0]
        entries.append(dict(zip(key, name, strict=True)) | {"step": tidy(step), "part": part})
        parts[part] = {"steps": _packed(rows)}
        for what, groups in tables.items():
            parts[part][what] = _packed(groups[name]) if name in groups else None
    journeys = list(dict.fromkeys(entry["journey"] for entry in entries))
    models = list(dict.fromkeys(entry["model"] for entry in entries))
    return Explorer(
        name="tokens",
        title="Tokens",
        about=f"{ABOUT} {_compared(steps.frame)}",
        facts=(counted(len(journeys), "journey"), counted(len(models), "model")),
        data={
            "journeys": journeys,
            "entries": entries,
            "models": styled(styles),
            "specs": journey_charts.specs(styles),
            "dark": journey_charts.dark_colours(styles),
        },
        parts=parts,
        sources=(steps, near, paths),
        analyses=("journeys",),
    )


def _compared(steps: pd.DataFrame) -> str:
    states = steps[steps["positions"] == "without"]
    counts = states.groupby("model", sort=False)["norm_before"].nunique(dropna=False)
    several = {str(model) for model, count in counts.items() if count > 1}
    models_by_state: dict[str, list[str]] = {}
    for (model, norm), rows in states.groupby(["model", "norm_before"], sort=False, dropna=False):
        journeys = f" ({', '.join(dict.fromkeys(rows['journey']))})" if str(model) in several else ""
        models_by_state.setdefault(_STATES["closing" if norm == "closing" else "none"], []).append(f"{model}{journeys}")
    each = "; ".join(f"for {', '.join(models)} {what}" for what, models in models_by_state.items())
    nearest = " A decoder's last states are near the token that comes next." if "decoder" in set(steps["role"]) else ""
    return f"Each state is compared with the rows of the input embedding: {each}.{nearest}"


def _split(frame: pd.DataFrame, key: list[str]) -> dict[tuple[str, ...], pd.DataFrame]:
    groups = frame.groupby(key, sort=False, dropna=False)
    return {tuple(map(str, name)): group for name, group in groups}


def _packed(frame: pd.DataFrame) -> dict[str, Any]:
    return pack(frame.drop(columns=[name for name in SAME_IN_A_PART if name in frame]))


# Static images: a token of the first journey, as the page shows it when it opens.

SITES = ("embedding", "block", "final")
CLOSING = 1.09
"""Where the state after the final norm stands, as in ``journeys.js``."""
MOST_TIMES = 50
"""Lengths that differ by a larger factor have a logarithmic axis, as in ``journeys.js``."""
NUMBERS = {
    "cosine": ("Cosine to its own vocabulary vector", "value"),
    "rank_cosine": ("Rank: vocabulary tokens that are nearer", "rank"),
    "turnover_cosine": ("Turnover: new among its nearest 100", "value"),
    "step_length": ("Length of the step to the next state", "value"),
    "step_cosine": ("Cosine of state and next state", "value"),
}
SMALL, LARGE = FigureSize(width=88.0, font=8.0), FigureSize(width=180.0, font=8.0)


def static_journey(explorer: Explorer) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the page shows of a token to readers without scripts: tables, and SVGs by name.

    The token is a followed word of the first journey, in its first model at its last checkpoint: the first one. Where
    the study follows all, it is the word that the journey is named after, or the one that goes furthest from itself.
    """
    entries = [entry for entry in explorer.data["entries"] if entry["journey"] == explorer.data["journeys"][0]]
    entry = [candidate for candidate in entries if candidate["model"] == entries[0]["model"]][-1]
    who = {name: entry[name] for name in ("journey", "model", "checkpoint")}
    every = _at_sites(explorer.source("journeys").frame)
    steps = _filtered(every, who)
    tokens = steps.drop_duplicates(["text", "position"]).to_dict("records")
    words = [token for token in tokens if not token["special"]] or tokens
    followed = [token for token in words if token["followed"]]
    word = re.compile(r"[^\W\d_]{3}")
    named = [token for token in followed if word.search(str(token["token"]))]
    if len(followed) == len(words):
        furthest = steps[steps["site"] != "attention"].groupby(["text", "position"])["rank_cosine"].max()
        own = _bare(who["journey"])
        named.sort(
            key=lambda token: (
                _bare(token["token"]) != own,
                -(furthest.get((token["text"], token["position"])) or 0),
            )
        )
    token = (named or followed or words)[0]
    steps = steps[steps["text"] == token["text"]]
    near = _filtered(_at_sites(explorer.source("neighbours").frame), who)
    near = near[(near["text"] == token["text"]) & (near["position"] == token["position"])]
    near = near[near["measure"] == "cosine"]
    layers = list(dict.fromkeys(zip(steps["site"], steps["layer"].astype(int), strict=True)))
    nearest = {(row["place"], row["site"], int(row["layer"])): row["neighbour"] for row in near.to_dict("records")}
    ranks = {(row["position"], row["site"], int(row["layer"])): row["rank_cosine"] for row in steps.to_dict("records")}
    tables = who | {
        "token": token["token"],
        "layers": ["norm" if site == "final" else "emb" if layer == 0 else str(layer) for site, layer in layers],
        "nearest": [
            (place, [nearest.get((place, *layer), "") for layer in layers])
            for place in sorted({key[0] for key in nearest})
        ],
        "ranks": [
            (candidate["token"], [whole(ranks.get((candidate["position"], *layer))) for layer in layers])
            for candidate in steps.drop_duplicates("position").to_dict("records")
        ],
    }
    paths = explorer.source("journey-paths").frame.rename(columns={"item": "journey"})
    paths = _filtered(_at_sites(paths[paths["projection"] == "pca-joint"]), who)
    images = _number_images(explorer, every[every["text"] == token["text"]], entries, token)
    return tables, images | ({} if paths.empty else {"path": _path_image(explorer.data["specs"]["path"], paths, token)})


def _number_images(
    explorer: Explorer, steps: pd.DataFrame, entries: list[dict[str, Any]], token: Mapping[Any, Any]
) -> dict[str, str]:
    """Return an image of each number of the same token in every model of the journey, at its last checkpoint."""
    import pandas as pd

    lines: dict[str, pd.DataFrame] = {}
    for entry in entries:
        rows = _filtered(steps, {name: entry[name] for name in ("journey", "model", "checkpoint")})
        same = rows[rows["token"].map(_bare) == _bare(token["token"])]
        if not same.empty:  # of several such tokens the one nearest to the chosen token's position
            positions = same["position"].drop_duplicates()
            position = int(positions.iloc[(positions - token["position"]).abs().argmin()])
            lines[entry["model"]] = same[same["position"] == position]
    depths = sorted({float(d) for rows in lines.values() for d in rows.loc[rows["site"] != "final", "depth"]})
    is_one_depth = len({len(rows) for rows in lines.values()}) == 1
    images = {}
    for column, (title, drawing) in NUMBERS.items():
        rows = pd.DataFrame([row for model, line in lines.items() for row in _line(model, line, column)])
        if rows.empty:
            continue
        low, high = float(rows["value"].min()), float(rows["value"].max())
        if column == "step_length" and 0 < MOST_TIMES * low < high:
            drawing = "log"
        values = {
            "end": CLOSING if rows["closing"].any() else 1,
            "ticks": depths if is_one_depth else [0, 0.25, 0.5, 0.75, 1],
            "layers": len(depths) - 1 if is_one_depth else 0,
            "low": low if drawing == "log" else min(0.0, low),
            "high": max(10.0, high) if drawing == "rank" else high or 1.0,
        }
        part = FigurePanel(explorer.data["specs"][drawing], rows, title)
        images[column] = compose([part], SMALL, values, legend="")
    return images


def _line(model: str, line: pd.DataFrame, column: str) -> list[dict[str, Any]]:
    rows = [row for row in line.to_dict("records") if not is_null(row[column])]
    closes = bool(rows) and rows[-1]["site"] == "final"
    return [
        {
            "line": model, "hue": f"model {model}", "value": float(row[column]),
            "x": CLOSING if row["site"] == "final" else float(row["depth"]), "here": False, "main": False,
            "strong": False, "closing": row["site"] == "final", "tail": closes and place >= len(rows) - 2, "tip": None,
        }
        for place, row in enumerate(rows)
    ]  # fmt: skip


def _path_image(spec: Mapping[str, Any], paths: pd.DataFrame, token: Mapping[Any, Any]) -> str:
    import pandas as pd

    rows = []
    for way, ((part, point), path) in enumerate(paths.groupby(["part", "point"], sort=False)):
        text = int(match[0]) if (match := re.search(r"\d+", str(part))) else 1
        is_chosen = (text, point) == (token["text"], token["position"])
        for order, row in enumerate(path.to_dict("records")):
            is_last = order == len(path) - 1
            rows.append(
                {
                    "way": way, "order": order, "hue": f"side {'ab'[(text - 1) % 2]}", "x": row["x"], "y": row["y"],
                    "weight": 3 if is_chosen else 1, "mark": "dot", "size": 20 if is_chosen else 5, "here": False,
                    "name": str(row["label"])[:14] if is_last else None, "align": "left" if is_last else None,
                }
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    width, height = LARGE.pixels, LARGE.pixels * 0.62
    (x0, x1), (y0, y1) = ((float(frame[axis].min()), float(frame[axis].max())) for axis in "xy")
    unit = 1.12 * max((x1 - x0) / (width - 120), (y1 - y0) / height) or 1  # one unit both ways, and room for names
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    ends = {
        "x0": x - unit * width / 2, "x1": x + unit * width / 2, "y0": y - unit * height / 2, "y1": y + unit * height / 2
    }  # fmt: skip
    note = f"The thick path is “{token['token']}”."
    return compose([FigurePanel({**spec, "height": height}, frame)], LARGE, ends, notes=[note])


def _filtered(frame: pd.DataFrame, values: Mapping[str, Any]) -> pd.DataFrame:
    for name, value in values.items():
        frame = frame[frame[name].astype(str) == value]
    return frame[frame["positions"] == frame["positions"].iloc[0]] if "positions" in frame and len(frame) else frame


def _at_sites(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["site"].isin(SITES)]


def _bare(token: Any) -> str:
    return re.sub(r"^##|[␣ ]", "", "" if is_null(token) else str(token)).lower()
