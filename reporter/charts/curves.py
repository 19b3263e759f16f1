"""Curves of one model: eigenvalues by rank and dimension by scale, a line a layer; numbers over depth, a line a cut."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reporter.charts import parts
from reporter.charts.axes import axis
from reporter.charts.layout import Pick, choices, corpora
from reporter.charts.numbers import short, span
from reporter.charts.readings import Shown, by_model, groups
from reporter.charts.scene import Scene
from reporter.charts.styles import FLOOR_GREY, RAMP, Styles
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd


def spectra(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw eigenvalue curves on two logarithmic axes."""
    # Eigenvalues that are zero but for rounding would squeeze the others: a norm takes one direction away, and with
    # fewer tokens than dimensions there are many. They are drawn at the edge.
    values = frame.loc[frame["rank"] < frame.groupby("model")["rank"].transform("max"), "value"].dropna()
    real = values[values > values.max() * 1e-9]
    low = float(real.min()) if len(real) else 1e-6
    x = alt.X(
        "rank:Q",
        title="rank",
        scale=alt.Scale(type="log", domain=[1, max(2, int(frame["rank"].max()))], nice=False),
        axis=alt.Axis(values=_decades(1, float(frame["rank"].max())), format="~s", grid=False),
    )
    y = alt.Y(
        "value:Q",
        title="share of the variance",
        scale=alt.Scale(type="log", domain=[low, 1], nice=False, clamp=True),
        axis=alt.Axis(grid=True, values=_decades(low, 1), format="~g", labelOverlap="greedy"),
    )
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("checkpoint:N"),
        alt.Tooltip("layer:Q"),
        alt.Tooltip("rank:Q"),
        alt.Tooltip("value:Q", format=parts.NUMBER, title="share"),
        alt.Tooltip("n:Q", format=","),
    ]
    return _curves(alt.Chart(), x, y, tooltip, size=9, data=frame).properties(width="container", height=190)


def scales(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw dimension by scale, the floor dashed."""
    found = sorted({int(scale) for scale in frame["scale"].dropna()})
    x = alt.X(
        "scale:Q",
        title="scale: nearest neighbours n and 2n",
        scale=alt.Scale(type="log", base=2, domain=[found[0], max(found[-1], 2)], nice=False, padding=4),
        axis=alt.Axis(values=found, format="d", grid=False),
    )
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("checkpoint:N"),
        alt.Tooltip("layer:Q"),
        alt.Tooltip("scale:Q"),
        alt.Tooltip("value:Q", format=parts.NUMBER, title="dimension"),
    ]
    if parts.has(frame, "ci_low"):
        tooltip += [alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from")]
        tooltip += [alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to")]
    tooltip.append(alt.Tooltip("n:Q", format=","))
    own = alt.Chart().transform_filter("datum.kind === 'measured'")
    # floors of different layers differ by chance alone: one line
    floor = (
        alt.Chart()
        .transform_filter("datum.kind === 'floor'")
        .transform_aggregate(value="mean(value)", groupby=["scale"])
        .mark_line(color=FLOOR_GREY, strokeWidth=1, strokeDash=[3, 3], clip=True)
        .encode(x=x, y=parts.value_axis())
    )
    chart = _curves(own, x, parts.value_axis(), tooltip, size=30, data=frame, below=[floor, parts.floor_note()])
    return chart.add_params(*parts.reach()).properties(width="container", height=190)


def cuts(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw a number over depth, a line for each cut of sinks."""
    x = alt.X("depth:Q", title="depth", scale=alt.Scale(domain=[0, 1], nice=False), axis=alt.Axis(grid=False))
    scale = alt.Scale(type="log", domain=[float(frame["cut"].min()), float(frame["cut"].max())], range=list(RAMP))
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("checkpoint:N"),
        alt.Tooltip("layer:Q"),
        alt.Tooltip("cut:Q", format="~g"),
        alt.Tooltip("value:Q", format=parts.NUMBER),
        alt.Tooltip("left_out:Q", format=".2%", title="left out"),
        alt.Tooltip("n:Q", format=","),
    ]
    color = alt.Color("cut:Q", scale=scale, legend=None)
    line = alt.Chart().mark_line(strokeWidth=1.4, strokeJoin="round", clip=True, opacity=0.9)
    points = alt.Chart().mark_point(filled=True, size=16, opacity=0.9, clip=True)
    chart = alt.layer(
        line.encode(x=x, y=parts.value_axis(), color=color, detail=alt.Detail("cut:Q")),
        points.encode(x=x, y=parts.value_axis(), color=color, tooltip=tooltip),
        data=frame,
    )
    return chart.add_params(*parts.reach()).properties(width="container", height=190)


def _curves(rows: Any, x: Any, y: Any, tooltip: list[Any], size: int, data: Any, below: Any = ()) -> Any:
    color = alt.Color("depth:Q", scale=alt.Scale(domain=[0, 1], range=list(RAMP)), legend=None)
    line = rows.mark_line(strokeWidth=1.4, strokeJoin="round", clip=True, opacity=0.9)
    points = rows.mark_point(filled=True, size=size, opacity=0.9, clip=True)
    return alt.layer(
        *below,
        line.encode(x=x, y=y, color=color, detail=alt.Detail("layer:Q")),
        points.encode(x=x, y=y, color=color, tooltip=tooltip),
        data=data,
    )


def _decades(low: float, high: float) -> list[float]:
    """Return the powers of ten between two numbers; minor lines of a logarithmic axis would be a thicket."""
    return [10.0**power for power in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]


def of_spectra(frame: pd.DataFrame, scene: Scene) -> dict[str, Shown]:
    """Say how the first axis grows over depth; a state for each ``view|moment|corpus``."""

    def read(rows: pd.DataFrame) -> str:
        first = rows[rows["rank"] == 1].sort_values("depth")["value"]
        if first.empty:
            return ""
        return f"first axis {short(first.iloc[0], 2)} → {short(first.iloc[-1], 2)} of the variance"

    return by_model(frame, scene, read)


def of_scales(frame: pd.DataFrame, scene: Scene) -> dict[str, Shown]:
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
        return " · ".join([*parts, *([f"isotropic noise {span(floor['value'].tolist())}"] if len(floor) else [])])

    states = by_model(frame, scene, read)
    measured = frame[frame["kind"] == "measured"]
    reach = axis(measured["value"], frame.loc[frame["kind"] == "floor", "value"], (0, None))
    reach = replace(reach, note=reach.note.replace("floor", "isotropic noise"))
    return {key: Shown(state.readings, reach) for key, state in states.items()}


def of_cuts(frame: pd.DataFrame, scene: Scene) -> dict[str, Shown]:
    """Say where the cut matters most, and what it leaves out; a state for each ``moment|corpus|rule|statistic``."""
    states: dict[str, Shown] = {}
    reach = {name: axis(rows["value"], rows["value"], (None, None)) for name, rows in frame.groupby("statistic")}
    for (corpus, rule, name, model, checkpoint), rows in groups(
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


def which_cut(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which statistic, by which rule sinks are cut, and which corpus."""
    rules = Pick("rule", "Sinks by", {"dominance": "one coordinate", "factor": "norm alone"})
    return [choices(frame, "statistic", "Statistic"), rules, *corpora(frame, scene)]
