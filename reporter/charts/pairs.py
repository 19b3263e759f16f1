"""A number for each two layers, as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import parts
from reporter.charts.chart import Query
from reporter.charts.layout import Pick, choices, corpora, panels_of
from reporter.charts.numbers import short, whole
from reporter.charts.readings import Shown, groups
from reporter.charts.scene import Scene
from reporter.charts.styles import Styles
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd

# A model beside itself is symmetric: where one half is stored, the other is its mirror image.
PAIRS = Query(
    "pairs",
    """
WITH own AS (
  FROM layer_pairs WHERE study = $study AND metric = $metric
), floors AS (
  SELECT corpus, view, statistic, model_a, checkpoint_a, model_b, checkpoint_b, avg(value) AS floor
  FROM own WHERE ends_with(statistic, '_floor') GROUP BY ALL
), whole AS (
  SELECT *, false AS mirrored FROM own
  UNION ALL BY NAME
  SELECT * REPLACE (layer_a AS layer_b, layer_b AS layer_a), true AS mirrored FROM own
  WHERE model_a = model_b AND checkpoint_a = checkpoint_b AND layer_a <> layer_b
)
SELECT whole.model_a || ' × ' || whole.model_b AS pair, whole.corpus, whole.view, whole.statistic,
  whole.model_a, whole.checkpoint_a, layer_a, whole.model_b, whole.checkpoint_b, layer_b,
  value, ci_low, ci_high, floor, n
FROM whole
LEFT JOIN floors ON floors.statistic = whole.statistic || '_floor'
  AND (floors.corpus, floors.view, floors.model_a, floors.checkpoint_a, floors.model_b, floors.checkpoint_b)
    = (whole.corpus, whole.view, whole.model_a, whole.checkpoint_a, whole.model_b, whole.checkpoint_b)
WHERE NOT ends_with(whole.statistic, '_floor')
QUALIFY row_number() OVER (
  PARTITION BY whole.corpus, whole.view, whole.statistic, whole.model_a, whole.checkpoint_a, layer_a,
    whole.model_b, whole.checkpoint_b, layer_b ORDER BY mirrored
) = 1
ORDER BY whole.statistic, whole.corpus, whole.view, whole.model_a = whole.model_b DESC, whole.model_a, whole.model_b,
  whole.checkpoint_a, whole.checkpoint_b, layer_a, layer_b
""",
)


def pairs(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw similarity of layers, the first model upwards and the second to the right.

    The colours run from 0 to 1 on every panel; what is below 0 (a debiased estimate may be) has the colour of 0.
    """
    plain = alt.Axis(
        grid=False, domain=False, ticks=False, labelOverlap="greedy", labelSeparation=3, labelPadding=3, labelAngle=0
    )
    shown = [
        alt.Tooltip("model_a:N", title="first model"),
        alt.Tooltip("layer_a:O", title="its layer"),
        alt.Tooltip("model_b:N", title="second model"),
        alt.Tooltip("layer_b:O", title="its layer"),
        alt.Tooltip("value:Q", format=parts.NUMBER),
    ]
    if parts.has(frame, "ci_low"):
        shown += [alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from")]
        shown += [alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to")]
    if parts.has(frame, "floor"):
        shown.append(alt.Tooltip("floor:Q", format=parts.NUMBER))
    scale = alt.Scale(scheme="viridis", domain=[0, 1], clamp=True)
    return (
        alt.Chart(frame)
        .transform_filter("isValid(datum.value)")
        .mark_rect(strokeWidth=0.6)  # closes the hairlines between cells
        .encode(
            x=alt.X("layer_b:O", title="layer", axis=plain),
            y=alt.Y("layer_a:O", title="layer", sort="descending", axis=plain),
            color=alt.Color("value:Q", scale=scale, legend=None),
            stroke=alt.Stroke("value:Q", scale=scale, legend=None),
            tooltip=[*shown, alt.Tooltip("n:Q", format=",")],
        )
        .properties(width="container", height=230)
    )


def of_pairs(frame: pd.DataFrame, scene: Scene) -> dict[str, Shown]:
    """Say the floor, n, and what was cut off at 0; a state for each ``view|moment|corpus|statistic``."""
    states: dict[str, Shown] = {}
    columns = ["view", "corpus", "statistic", "pair", "model_a", "checkpoint_a", "model_b", "checkpoint_b"]
    for (view, corpus, name, pair, one, its, other, others), rows in groups(frame, columns):
        parts = []
        if rows["floor"].notna().any():
            parts.append(f"floor {short(rows['floor'].iloc[0], 2)}")
        if rows["n"].notna().any():
            parts.append(f"n = {whole(rows['n'].max())}")
        lowest = rows["value"].min()
        if lowest < 0:
            parts.append(f"below 0 shown as 0 (lowest {short(lowest, 2)})")
        for number, moment in enumerate(scene.moments):
            if (moment.shown.get(one), moment.shown.get(other)) == (its, others):
                state = states.setdefault(f"{view}|{number}|{corpus}|{name}", Shown({}))
                state.readings[pair] = " · ".join(parts)
    return states


def which_pairs(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which statistic and corpus, and which pairs of models."""
    panels = panels_of(frame, "pair", scene)
    inside = [panel.value for panel in panels if panel.models[0] == panel.models[1]]
    between = [panel for panel in panels if panel.models[0] != panel.models[1]]
    shown = {"inside each model": inside} if inside else {}
    for name in scene.styles.names:
        own = [panel.value for panel in between if name in panel.models]
        if own:
            shown[f"{name} with others"] = own
    shows = Pick("among", "Pairs", {name: name for name in shown}, shown)
    return [choices(frame, "statistic", "Statistic", list(scene.statistics)), shows, *corpora(frame, scene)]
