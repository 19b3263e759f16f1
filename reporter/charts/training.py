"""A statistic over training: one line for each model with several checkpoints, against the training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reporter.charts import parts
from reporter.charts.chart import Query
from reporter.charts.layout import Pick
from reporter.charts.readings import MEAN
from reporter.charts.scene import Scene
from reporter.charts.styles import Styles
from reporter.charts.vega import alt
from reporter.table import FREE

if TYPE_CHECKING:
    import pandas as pd

_TRAINED = """own.study = $study AND own.metric = $metric AND own.statistic = $statistic AND own.step IS NOT NULL
    AND (own.site IS NULL OR own.site IN ('embedding', 'block'))
    AND own.model IN (
      SELECT model FROM layer_metrics WHERE study = $study GROUP BY model HAVING count(DISTINCT step) > 1
    )"""
# The interval of the mean over models, for three of a role or more: that of two reaches too far to be drawn.
_WITH_MEANS = """
FROM own LEFT JOIN (
  FROM over_models WHERE study = $study AND metric = $metric AND statistic = $statistic AND models >= 3
    AND (site IS NULL OR site IN ('embedding', 'block'))
) AS means
  ON means.role = own.role AND means.step = own.step AND means.corpus = own.corpus AND means.view = own.view
    AND means.layer IS NOT DISTINCT FROM own.layer
    AND own.model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
"""

# layer is NULL in the rows that average over all layers
TRAINING = Query(
    "training",
    f"""
WITH own AS (
  SELECT model, role, step, corpus, view, layer, avg(value) AS value, count(value) AS layers
  FROM layer_metrics AS own WHERE layer IS NOT NULL AND {_TRAINED} GROUP BY ALL
  UNION ALL
  SELECT model, role, step, corpus, view, NULL, avg(value ORDER BY layer), count(value)
  FROM layer_metrics AS own WHERE layer IS NOT NULL AND {FREE} AND {_TRAINED} GROUP BY ALL
)
SELECT model, own.role, own.step, own.corpus, own.view, own.layer, own.value, layers, ci_low, ci_high
{_WITH_MEANS}
ORDER BY own.corpus, own.view, own.layer NULLS FIRST, own.role, model, own.step
""",
)

TRAINING_OF_MODELS = Query(
    "training_of_models",
    f"""
WITH own AS (
  SELECT model, role, step, corpus, view, layer, value, 0 AS layers
  FROM layer_metrics AS own
  WHERE layer IS NULL AND {_TRAINED}
)
SELECT model, own.role, own.step, own.corpus, own.view, own.layer, own.value, layers, ci_low, ci_high
{_WITH_MEANS}
ORDER BY own.corpus, own.view, own.role, model, own.step
""",
)

MOST_TICKS = 8


def training(frame: pd.DataFrame, styles: Styles, of: parts.Subject) -> Any:
    """Draw a statistic against the training step.

    A band is the 95 % t-interval of the mean over the models of a role, where there are three or more.
    The step axis is logarithmic above the first positive step and linear below it (symlog), so that step 0 is
    shown.
    """
    steps = sorted({int(step) for step in frame["step"].dropna().unique()})
    first = next((step for step in steps if step > 0), 1)
    x = alt.X(
        "step:Q",
        title="training step",
        scale=alt.Scale(type="symlog", constant=first, domain=[steps[0], steps[-1]] if steps else [0, 1], nice=False),
        axis=alt.Axis(values=ticks(steps), format=",d", grid=False, labelOverlap="greedy"),
    )
    y = parts.value_axis()
    zero = parts.rule(y=0)
    line = alt.Chart().mark_line(strokeCap="round", strokeJoin="round", clip=True)
    points = alt.Chart().mark_point(filled=True)
    shared = {"x": x, "y": y, "color": parts.color(styles), "opacity": parts.lit(1, 0.1)}
    chart = alt.layer(
        zero,
        *_over_models(frame, styles, x),
        line.encode(**shared, strokeDash=parts.dash(styles), strokeWidth=parts.width(styles)),
        points.encode(
            **shared,
            shape=parts.shape(styles),
            size=parts.size(styles, 42),
            tooltip=[
                alt.Tooltip("model:N"),
                alt.Tooltip("step:Q", format=","),
                alt.Tooltip("value:Q", format=parts.NUMBER, title=of.title),
            ],
        ),
        data=frame,
    )
    return chart.add_params(*parts.params()).properties(width="container", height=160)


def _over_models(frame: pd.DataFrame, styles: Styles, x: Any) -> list[Any]:
    """A band for each role of three models or more: the 95 % interval of their mean, which its rows all carry."""
    if not parts.has(frame, "ci_low"):
        return []
    bands = []
    for role, own in styles.by_role:
        of_role = alt.Chart().transform_filter(f"datum.role === '{role}' && isValid(datum.ci_low)")
        area = of_role.transform_aggregate(low="mean(ci_low)", high="mean(ci_high)", groupby=["step"])
        bands.append(
            area.mark_area(clip=True, color=own[0].light, opacity=0.14).encode(
                x=x, y=parts.value_axis("low:Q"), y2=alt.Y2("high:Q")
            )
        )
    return bands


def ticks(steps: Sequence[int]) -> list[int]:
    """Return the steps that are labelled: all of a few, else the ends and evenly chosen ones between."""
    if len(steps) <= MOST_TICKS:
        return list(steps)
    places = {round(i * (len(steps) - 1) / (MOST_TICKS - 1)) for i in range(MOST_TICKS)}
    return [steps[place] for place in sorted(places)]


def which_layer(frame: pd.DataFrame, scene: Scene, step: bool = False) -> list[Pick]:
    """Return the choice of the layer, or of the block, that a training chart follows."""
    numbers = sorted({int(layer) for layer in frame["layer"].dropna().unique()})
    names = {str(layer): str(layer + step) if layer or step else "0 (embedding)" for layer in numbers}
    title = "Block" if step else "Layer"
    return [Pick("layer", title, {MEAN: f"mean over all {title.lower()}s", **names})]
