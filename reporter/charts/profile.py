"""A statistic over relative depth, or how it differs between two sides: a line for each model, its interval a band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import parts
from reporter.charts.chart import Chapter, Chart, Draw, Picks, Query
from reporter.charts.layout import Pick, choices
from reporter.charts.scene import Scene
from reporter.charts.styles import FLOOR_GREY, Styles
from reporter.charts.vega import alt
from reporter.table import LAST_CHECKPOINT

if TYPE_CHECKING:
    import pandas as pd

PROFILE = Query(
    "profile",
    """
SELECT model, role, checkpoint, step, corpus, view, statistic, site, layer, depth, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic IN ($statistic, $floor)
ORDER BY statistic, corpus, view, role, model, step, checkpoint,
  list_position(['final', 'attention'], site) NULLS FIRST, layer
""",
)

DIFFERENCES = Query(
    "differences",
    """
SELECT if(kind = 'corpora', corpus_a || ' − ' || corpus_b, if(
    min(model_a) OVER tuned = max(model_a) OVER tuned, model_a, 'each model'
  ) || ' − ' || model_b || ', on ' || corpus_a) AS comparison,
  model_a AS model, checkpoint_a AS checkpoint, model_b, checkpoint_b, view, statistic, layer, depth,
  value, ci_low, ci_high, n
FROM differences
WHERE study = $study AND metric = $metric AND layer IS NOT NULL AND site IN ('embedding', 'block')
WINDOW tuned AS (PARTITION BY kind, model_b, corpus_a)
ORDER BY kind DESC, comparison, statistic, view, model, checkpoint, layer
""",
)

# Either of the two may stand first in a pair.
BESIDE_BASE = Query(
    "beside_base",
    """
WITH tuned AS (
  SELECT DISTINCT model, base, layers FROM models WHERE study = $study AND base IS NOT NULL AND baseline IS NULL
), either AS (
  SELECT model, checkpoint_a AS checkpoint, base AS model_b, checkpoint_b, layers,
    pairs.* EXCLUDE (model_b, checkpoint_b)
  FROM layer_pairs AS pairs JOIN tuned ON (model_a, model_b) = (model, base) WHERE study = $study AND metric = $metric
  UNION ALL BY NAME
  SELECT model, checkpoint_b AS checkpoint, base AS model_b, checkpoint_a AS checkpoint_b, layers,
    pairs.* EXCLUDE (model_b, checkpoint_b)
  FROM layer_pairs AS pairs JOIN tuned ON (model_b, model_a) = (model, base) WHERE study = $study AND metric = $metric
)
SELECT if(min(model) OVER related = max(model) OVER related, model, 'each model') || ' beside ' || model_b || ', on '
    || corpus AS comparison,
  model, checkpoint, model_b, checkpoint_b, view, statistic, layer_a AS layer, layer_a / layers AS depth, value, ci_low,
  ci_high, n
FROM either WHERE layer_a = layer_b AND NOT ends_with(statistic, '_floor')
WINDOW related AS (PARTITION BY model_b, corpus)
ORDER BY comparison, statistic, view, model, checkpoint, layer
""",
)

FINAL = "final"
TITLES = {"layer": "relative depth", "step": "depth before the step"}


def profile(frame: pd.DataFrame, styles: Styles, of: parts.Subject, log: bool = False) -> Any:
    """Draw a statistic over depth, on a linear axis or on a logarithmic one."""
    of_it = alt.Chart().transform_filter(parts.is_statistic(of.name))
    own = of_it
    layers: list[Any] = []
    if "site" in frame and bool((frame["site"] == FINAL).any()):
        own = of_it.transform_filter(f"datum.site !== '{FINAL}'")
        layers.append(_final(of_it, frame, styles, of, log))
    return _over_depth(own, frame, styles, of, layers, _has_floor(frame, of), log)


def difference(frame: pd.DataFrame, styles: Styles, of: parts.Subject) -> Any:
    """Draw how much a statistic differs between two sides of a comparison, over depth."""
    return _over_depth(alt.Chart(), frame, styles, of, [], floor=False)


def _over_depth(
    own: Any,
    frame: pd.DataFrame,
    styles: Styles,
    of: parts.Subject,
    above: list[Any],
    floor: bool,
    log: bool = False,
) -> Any:
    x, y = parts.depth_axis(TITLES.get(of.per, "relative depth")), parts.value_axis(log=log)
    # Parameters go to one layer before there are many: each change of a layered chart copies all of them several times.
    cursor = parts.cursor().add_params(*parts.params(), *parts.cursor_params())
    layers = [] if log else [parts.rule(y=0)]
    if floor:
        layers += _floor(of, x, y, log)
    if parts.has(frame, "ci_low") or styles.means:
        # bands of null baselines would bury the others; their intervals are in the tooltips
        layers.append(
            parts.without_baselines(own, styles)
            .mark_area(clip=True)
            .encode(
                x=x,
                y=parts.value_axis("ci_low:Q", log),
                y2=alt.Y2("ci_high:Q"),
                color=parts.color(styles),
                opacity=parts.lit(0.16, 0.02),
            )
        )
    line = own.mark_line(strokeCap="round", strokeJoin="round", clip=True).encode(
        x=x,
        y=y,
        color=parts.color(styles),
        strokeDash=parts.dash(styles),
        strokeWidth=parts.width(styles),
        opacity=parts.lit(1, 0.1),
    )
    points = own.mark_point(filled=True).encode(
        x=x,
        y=y,
        color=parts.color(styles),
        shape=parts.shape(styles),
        size=parts.size(styles, 42),
        opacity=parts.lit(1, 0.1),
        tooltip=_tooltip(frame, of),
    )
    every = (
        *layers,
        cursor,
        line,
        points,
        *above,
        parts.floor_note(),
    )  # the cursor must not lie over what is pointed at
    return alt.layer(*every, data=frame, width="container", height=160)


def _final(of_it: Any, frame: pd.DataFrame, styles: Styles, of: parts.Subject, log: bool) -> Any:
    """A hollow mark for the state after the closing norm, a little to the right of the last block's."""
    return (
        of_it.transform_filter(f"datum.site === '{FINAL}'")
        .transform_calculate(where="'after the closing norm'")
        .mark_point(filled=False, size=46, strokeWidth=1.6, xOffset=9)
        .encode(
            x=parts.depth_axis(),
            y=parts.value_axis(log=log),
            color=parts.color(styles),
            shape=parts.shape(styles),
            opacity=parts.lit(1, 0.1),
            tooltip=[alt.Tooltip("where:N", title="state"), *_tooltip(frame, of)],
        )
    )


def _has_floor(frame: pd.DataFrame, of: parts.Subject) -> bool:
    return bool((frame["statistic"] == f"{of.name}_floor").any())


def _floor(of: parts.Subject, x: Any, y: Any, log: bool) -> list[Any]:
    """One thin dashed line for each model (floors depend on its width), and above the plot what they are.

    Beside the lines there is no place that the models' own lines leave free in every chart.
    """
    floor = (
        alt.Chart()
        .transform_filter(parts.is_statistic(f"{of.name}_floor"))
        .transform_filter(f"isValid(datum.value) && datum.site !== '{FINAL}'")
    )
    line = floor.mark_line(color=FLOOR_GREY, strokeWidth=1, strokeDash=[3, 3], clip=True).encode(
        x=x, y=y, detail=alt.Detail("model:N"), opacity=parts.lit(0.9, 0.2)
    )
    whole, narrow = (parts.quoted(f"dashed: {noise}") for noise in (of.noise, of.noise.replace("isotropic ", "")))
    said = alt.ExprRef(f"width < 130 ? {narrow} : {whole}")
    # left out where the deepest point of one of the lines is off the axis (the page's rows are rounded, so its end
    # needs a little room); a note of the axis stands below it
    label = (
        floor.transform_aggregate(deepest="argmax(depth)")
        .transform_calculate(value="datum.deepest.value")
        .transform_filter(
            "datum.value >= low * 0.999 && datum.value <= high * 1.001"
            if log
            else "abs(datum.value - (low + high) / 2) <= (high - low) * 0.501"
        )
        .mark_text(text=said, align="right", baseline="bottom", fontSize=10.5, color=FLOOR_GREY)
        .encode(x=alt.XValue("width"), y=alt.YValue(alt.ExprRef("note ? -17 : -4")))
    )
    return [line, label]


def _tooltip(frame: pd.DataFrame, of: parts.Subject) -> list[Any]:
    shown = [alt.Tooltip("model:N"), alt.Tooltip("checkpoint:N")]
    if "model_b" in frame:
        shown.append(alt.Tooltip("model_b:N", title="minus"))
    shown += [
        alt.Tooltip("layer:Q", title="layer" if of.per == "layer" else "step from layer"),
        alt.Tooltip("depth:Q", format=".2~f"),
        alt.Tooltip("value:Q", format=parts.NUMBER, title=of.title),
    ]
    if parts.has(frame, "ci_low"):
        shown.append(alt.Tooltip("ci_low:Q", format=parts.NUMBER, title="from"))
        shown.append(alt.Tooltip("ci_high:Q", format=parts.NUMBER, title="to"))
    return [*shown, alt.Tooltip("n:Q", format=",")]


def which_statistic(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Which statistic, in the order of the definitions."""
    return [choices(frame, "statistic", "Statistic", list(scene.statistics))]


def by_depth(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw a statistic over relative depth, a line for each model."""
    x = parts.depth_axis()
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False, nice=True))
    color, dash, shape = parts.color(styles), parts.dash(styles), parts.shape(styles)
    base = alt.Chart().encode(x=x, color=color)
    band = base.mark_area(opacity=0.14).encode(y=alt.Y("ci_low:Q", title=None), y2=alt.Y2("ci_high:Q"))
    line = base.mark_line(strokeWidth=1.9).encode(y=y, strokeDash=dash)
    points = base.mark_point(filled=True, size=44, opacity=1).encode(
        y=y, shape=shape, tooltip=parts.tips("model", "layer", "depth", "value", "ci_low", "ci_high", "n")
    )
    return alt.layer(band, line, points, data=frame).properties(width="container", height=260)


def beside(
    id: str,
    title: str,
    query: str,
    where: str,
    chapter: Chapter,
    picks: Picks,
    draw: Draw = by_depth,
    lead: str = "Each model at its last checkpoint, over relative depth.",
) -> Chart:
    """Return a chapter's chart of an analysis' numbers that draws all models beside each other.

    Args:
        id: of the chart.
        title: its heading.
        query: name of its query.
        where: which rows of ``layer_metrics``, as SQL.
        chapter: where it stands.
        picks: its selectors.
        draw: how it is drawn.
        lead: what to look for.
    """
    sql = f"""
SELECT model, checkpoint, corpus, statistic, layer, depth, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND {where} AND {LAST_CHECKPOINT}
ORDER BY corpus, statistic, model, layer
"""
    return Chart(
        id,
        title,
        Query(query, sql),
        draw,
        lead=lead,
        table="layer_metrics",
        columns=("value", "ci_low", "ci_high", "n"),
        chapter=chapter,
        picks=picks,
        key="model",
        together=True,
        half=True,
        statistics=("*",),
    )
