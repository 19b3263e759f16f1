"""What is said under the panels of the charts that are no plain profile: computed from the rows that they draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from reporter.report.axes import axis
from reporter.report.numbers import short, span, whole
from reporter.report.scene import Scene
from reporter.report.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

    from reporter.metrics.base import Statistic

FEWEST_MODELS = 3
"""Below it a correlation says nothing: any two points lie on a line."""


def of_shares(frame: pd.DataFrame, statistic: Statistic, scene: Scene) -> dict[str, Shown]:
    """Say how the share between types moves over depth; a state for each ``view|moment|corpus``."""

    def read(rows: pd.DataFrame) -> str:
        between = rows[rows["statistic"] == "between_share"].dropna(subset=["value"]).sort_values("depth")
        if between.empty:
            return ""
        first, last = between["value"].iloc[0], between["value"].iloc[-1]
        return f"between types {short(first, 2)} → {short(last, 2)}"

    return _by_model(frame, scene, read)


def of_spectra(frame: pd.DataFrame, statistic: Statistic, scene: Scene) -> dict[str, Shown]:
    """Say how the first axis grows over depth; a state for each ``view|moment|corpus``."""

    def read(rows: pd.DataFrame) -> str:
        first = rows[rows["rank"] == 1].sort_values("depth")["value"]
        if first.empty:
            return ""
        return f"first axis {short(first.iloc[0], 2)} → {short(first.iloc[-1], 2)} of the variance"

    return _by_model(frame, scene, read)


def of_scales(frame: pd.DataFrame, statistic: Statistic, scene: Scene) -> dict[str, Shown]:
    """Say what layers read at the smallest and the largest scale; a state for each ``view|moment|corpus``.

    The axis is the same for all models, so that they can be compared.
    """

    def read(rows: pd.DataFrame) -> str:
        own = rows[rows["kind"] == "measured"].dropna(subset=["value"])
        if own.empty:
            return ""
        ends = sorted({own["scale"].min(), own["scale"].max()})
        parts = [f"at scale {n}: {span(own.loc[own['scale'] == n, 'value'].tolist())}" for n in ends]
        floor = rows[rows["kind"] == "floor"].dropna(subset=["value"])
        return " · ".join([*parts, *([f"floor {span(floor['value'].tolist())}"] if len(floor) else [])])

    states = _by_model(frame, scene, read)
    measured = frame[frame["kind"] == "measured"]
    reach = axis(measured["value"], frame.loc[frame["kind"] == "floor", "value"], (0, None))
    return {key: Shown(state.readings, reach) for key, state in states.items()}


def of_types(frame: pd.DataFrame, statistic: Statistic, scene: Scene) -> dict[str, Shown]:
    """Say Spearman's ρ of a layer and how many types are drawn; a state for each ``view|corpus|part``."""
    states: dict[str, Shown] = {}
    for (view, corpus, part, model), rows in _groups(frame, ["view", "corpus", "part", "model"]):
        rho, layer = rows["rho"].iloc[0], int(rows["layer"].iloc[0])
        measured = f"ρ = {short(rho, 2)}" if rho == rho else "ρ not computed"
        drawn = f"{whole((rows['variance'] > 0).sum())} types of {whole(rows['count'].min())} occurrences or more"
        if not rows["variance"].max() > 0:
            drawn = "all occurrences of a type have the same state here"
        state = states.setdefault(f"{view}|{corpus}|{part:g}", Shown({}))
        state.readings[model] = f"layer {layer}: {measured} · {drawn}"
    return states


def of_cuts(frame: pd.DataFrame, statistic: Statistic, scene: Scene) -> dict[str, Shown]:
    """Say where the cut matters most, and what it leaves out; a state for each ``moment|corpus|rule|statistic``."""
    states: dict[str, Shown] = {}
    reach = {name: axis(rows["value"], rows["value"], (None, None)) for name, rows in frame.groupby("statistic")}
    for (corpus, rule, name, model, checkpoint), rows in _groups(
        frame, ["corpus", "rule", "statistic", "model", "checkpoint"]
    ):
        by_layer = rows.groupby("layer")["value"]
        spread = by_layer.max() - by_layer.min()
        left_out = rows.groupby("cut")["left_out"].first()
        text = "the cut changes nothing"
        if spread.max() > 0:
            text = f"largest change {short(spread.max(), 2)} at layer {int(str(spread.idxmax()))}"
        shares = f"leaves out {span((100 * left_out).tolist())} % of the tokens"
        for number, moment in enumerate(scene.moments):
            if moment.shown.get(model) == checkpoint:
                state = states.setdefault(f"{number}|{corpus}|{rule}|{name}", Shown({}, reach[name]))
                state.readings[model] = f"{text} · {shares}"
    return states


def of_pairs(frame: pd.DataFrame, statistic: Statistic, scene: Scene) -> dict[str, Shown]:
    """Say the floor, n, and what was cut off at 0; a state for each ``view|moment|corpus|statistic``."""
    states: dict[str, Shown] = {}
    columns = ["view", "corpus", "statistic", "pair", "model_a", "checkpoint_a", "model_b", "checkpoint_b"]
    for (view, corpus, name, pair, one, its, other, others), rows in _groups(frame, columns):
        parts = []
        if rows["floor"].notna().any():
            parts.append(f"floor {short(rows['floor'].iloc[0], 2)}")
        if rows["n"].notna().any():
            parts.append(f"n = {whole(rows['n'].max())} texts")
        lowest = rows["value"].min()
        if lowest < 0:
            parts.append(f"below 0 shown as 0 (lowest {short(lowest, 2)})")
        for number, moment in enumerate(scene.moments):
            if (moment.shown.get(one), moment.shown.get(other)) == (its, others):
                state = states.setdefault(f"{view}|{number}|{corpus}|{name}", Shown({}))
                state.readings[pair] = " · ".join(parts)
    return states


def of_correlations(frame: pd.DataFrame, statistic: Statistic, scene: Scene) -> dict[str, Shown]:
    """Say on how many models a correlation rests; a state for each ``view|score``."""
    states: dict[str, Shown] = {}
    for (view, score, corpus), rows in _groups(frame, ["view", "score", "corpus"]):
        fewest, most = int(rows["n"].min()), int(rows["n"].max())
        count = f"n = {fewest}" if fewest == most else f"n = {fewest} to {most}"
        text = f"{count} models"
        if fewest < FEWEST_MODELS:
            text += f": fewer than {FEWEST_MODELS} say nothing, any two points lie on a line"
        states.setdefault(f"{view}|{score}", Shown({})).readings[corpus] = text
    return states


def correlation_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the table of correlations: both methods of a feature in one row, the strongest first."""
    columns = ["corpus", "view", "score", "feature"]
    found = []
    for key, rows in _groups(frame, columns):
        row: dict[str, Any] = dict(zip(columns, key, strict=True))
        row["n"] = int(rows["n"].max())
        for method in ("pearson", "spearman"):
            own = rows[rows["method"] == method]
            names = ("value", "ci_low", "ci_high", "p")
            row[method] = {name: own[name].iloc[0] for name in names} if len(own) else dict.fromkeys(names)
        row["strength"] = rows["value"].abs().max()
        found.append(row)
    return sorted(found, key=lambda row: (row["strength"] != row["strength"], -row["strength"]))


def _by_model(frame: pd.DataFrame, scene: Scene, read: Any) -> dict[str, Shown]:
    states: dict[str, Shown] = {}
    for (view, corpus, model, checkpoint), rows in _groups(frame, ["view", "corpus", "model", "checkpoint"]):
        text = read(rows)
        for number, moment in enumerate(scene.moments):
            if moment.shown.get(model) == checkpoint:
                states.setdefault(f"{view}|{number}|{corpus}", Shown({})).readings[model] = text
    return states


def _groups(frame: pd.DataFrame, columns: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    for key, rows in frame.groupby(list(columns), sort=False):
        yield tuple(key) if isinstance(key, tuple) else (key,), rows
