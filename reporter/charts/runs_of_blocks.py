"""How far each run of consecutive blocks turns the states: where it begins against how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import parts
from reporter.charts.layout import Pick, corpora, titled
from reporter.charts.numbers import short
from reporter.charts.readings import Shown, groups
from reporter.charts.scene import Scene
from reporter.charts.styles import Styles
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd


def draw(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the heat map, a dot on the least of each row."""
    plain = alt.Axis(
        grid=False, domain=False, ticks=False, labelOverlap="greedy", labelSeparation=3, labelPadding=3, labelAngle=0
    )
    x = alt.X("layer_a:O", title="layer that the run begins from", axis=plain)
    y = alt.Y("blocks:O", title="blocks in the run", sort="descending", axis=plain)
    shown = [
        alt.Tooltip("model:N"),
        alt.Tooltip("run:N", title="blocks"),
        alt.Tooltip("value:Q", format=parts.NUMBER, title="angle/π"),
    ]
    if parts.has(frame, "ci_low"):
        shown += [alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from")]
        shown += [alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to")]
    shown.append(alt.Tooltip("n:Q", format=",", title="tokens"))
    scale = alt.Scale(scheme="viridis", domain=[0, 0.5], clamp=True, reverse=True)
    cells = (
        alt.Chart(frame)
        .mark_rect(strokeWidth=0.6)  # closes the hairlines between cells
        .encode(
            x=x,
            y=y,
            color=alt.Color("value:Q", scale=scale, legend=None),
            stroke=alt.Stroke("value:Q", scale=scale, legend=None),
            tooltip=shown,
        )
    )
    least = (
        alt.Chart(frame)
        .transform_filter("datum.least")
        .mark_point(filled=True, opacity=1, color="white", stroke="black", strokeWidth=0.8, size=22)
        .encode(x=x, y=y, tooltip=shown)
    )
    return alt.layer(cells, least).properties(width="container", height=230)


def say(frame: pd.DataFrame, scene: Scene) -> dict[str, Shown]:
    """Say the best run of a few lengths; a state for each ``view|moment|corpus|statistic``."""
    states: dict[str, Shown] = {}
    for (view, corpus, name, model, its), rows in groups(frame, ["view", "corpus", "statistic", "model", "checkpoint"]):
        layers = int(rows["layer_b"].max())
        lengths = dict.fromkeys(max(1, round(layers * share)) for share in (0, 0.25, 0.5))
        best = rows[rows["least"]].drop_duplicates("blocks").set_index("blocks")
        told = [
            f"{best['run'][length]}: {short(best['value'][length], 2)}" for length in lengths if length in best.index
        ]
        for number, moment in enumerate(scene.moments):
            if moment.shown.get(model) == its:
                state = states.setdefault(f"{view}|{number}|{corpus}|{name}", Shown({}))
                state.readings[model] = "least: blocks " + " · ".join(told)
    return states


def picks(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which tokens, and which corpus."""
    return [titled(frame, scene), *corpora(frame, scene)]
