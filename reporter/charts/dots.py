"""A statistic of whole models: one dot for each model, its interval as a line, the floor as a grey tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import parts
from reporter.charts.chart import Query
from reporter.charts.layout import ASKED
from reporter.charts.styles import FLOOR_GREY, Styles
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd

DOTS = Query(
    "dots",
    """
SELECT model, role, checkpoint, step, corpus, view, statistic, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic IN ($statistic, $floor)
  AND layer IS NULL AND (site IS NULL OR site IN ('embedding', 'block'))
ORDER BY statistic, corpus, view, role, model, step, checkpoint
""",
)

DIFFERENCES_OF_MODELS = Query(
    "differences_of_models",
    """
SELECT if(kind = 'corpora', corpus_a || ' − ' || corpus_b, if(
    min(model_a) OVER tuned = max(model_a) OVER tuned, model_a, 'each model'
  ) || ' − ' || model_b || ', on ' || corpus_a) AS comparison,
  model_a AS model, checkpoint_a AS checkpoint, model_b, checkpoint_b, view, statistic,
  value, ci_low, ci_high, n
FROM differences
WHERE study = $study AND metric = $metric AND layer IS NULL
WINDOW tuned AS (PARTITION BY kind, model_b, corpus_a)
ORDER BY kind DESC, comparison, statistic, view, model, checkpoint
""",
)


ROW = 24
"""Height of one model, in pixels."""


def dots(frame: pd.DataFrame, styles: Styles, of: parts.Subject, log: bool = False) -> Any:
    """Draw one number for each model, on a linear axis or on a logarithmic one."""
    # the rows of a comparison are of the statistic that the page's selector names
    own = alt.Chart() if "comparison" in frame else alt.Chart().transform_filter(parts.is_statistic(of.name))
    present = set(frame["model"])
    order = [name for name in styles.names if name in present]
    x = alt.X("value:Q", title=None, scale=parts.value_scale(log), axis=parts.ticks(log))
    y = alt.Y(
        "model:N",
        title=None,
        # where roles have panels of their own each lists its own models
        **({"sort": order} if ASKED in frame else {"scale": alt.Scale(domain=order)}),
        axis=alt.Axis(labelLimit=130, grid=True, domain=False),
    )
    layers = [] if log else [parts.rule(x=0)]
    if bool((frame["statistic"] == f"{of.name}_floor").any()):
        floor = alt.Chart().transform_filter(parts.is_statistic(f"{of.name}_floor"))
        layers.append(floor.mark_tick(color=FLOOR_GREY, thickness=1.5, clip=True).encode(x=x, y=y))
    if parts.has(frame, "ci_low"):
        layers.append(
            own.mark_rule(strokeWidth=2.5, strokeCap="round", clip=True).encode(
                x=alt.X("ci_low:Q", title=None, scale=parts.value_scale(log)),
                x2=alt.X2("ci_high:Q"),
                y=y,
                color=parts.color(styles),
                opacity=parts.lit(0.45, 0.08),
            )
        )
    points = own.mark_point(filled=True).encode(
        x=x,
        y=y,
        color=parts.color(styles),
        shape=parts.shape(styles),
        size=parts.size(styles, 85),
        opacity=parts.lit(1, 0.1),
        tooltip=_tooltip(frame, of),
    )
    chart = alt.layer(*layers, points, parts.floor_note(), data=frame)
    return chart.add_params(*parts.params()).properties(width="container", height=ROW * max(1, len(order)))


def _tooltip(frame: pd.DataFrame, of: parts.Subject) -> list[Any]:
    shown = [
        alt.Tooltip("model:N"),
        alt.Tooltip("checkpoint:N"),
        alt.Tooltip("value:Q", format=parts.NUMBER, title=of.title),
    ]
    if parts.has(frame, "ci_low"):
        shown.append(alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from"))
        shown.append(alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to"))
    return [*shown, alt.Tooltip("n:Q", format=",")]
