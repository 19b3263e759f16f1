"""A statistic over relative depth or over training: a line for each model, its interval a band."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.charts import parts
from reporter.charts.chart import Chapter, Chart, Draw, Picks
from reporter.charts.layout import ASKED, BY_ROLE, MEAN, Pick, Scene, titled
from reporter.charts.styles import FLOOR_GREY, Styles, alt
from reporter.core.table import FREE, LAST_CHECKPOINT

if TYPE_CHECKING:
    import pandas as pd

_PROFILE = """
SELECT model, role, checkpoint, step, corpus, {asked}view, statistic, site, layer, depth, value, {interval}, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic IN ($statistic, $floor)
ORDER BY statistic, corpus, view, role, model, step, checkpoint,
  list_position(['final', 'attention'], site) NULLS FIRST, layer
"""
PROFILE = _PROFILE.format(asked="", interval="ci_low, ci_high")
PROFILE_BY_ROLE = _PROFILE.format(asked=f"{BY_ROLE}, ", interval="ci_low, ci_high")
# An interval that reaches down to 0 is none: see Statistic.undetermined.
PROFILE_DETERMINED = _PROFILE.format(
    asked="",
    interval="if(layer_metrics.ci_low > 0, layer_metrics.ci_low, NULL) AS ci_low, "
    "if(layer_metrics.ci_low > 0, layer_metrics.ci_high, NULL) AS ci_high,\n"
    "  value > 0 AND layer_metrics.ci_low IS NOT DISTINCT FROM 0 AS undetermined",
)

# The interval of a mean of two models is over texts; a band is over models.
ROLE_MEANS = """
SELECT metric, statistic, role, step, corpus, view, site, layer, depth, models, value,
  if(models >= 3, ci_low, NULL) AS ci_low, if(models >= 3, ci_high, NULL) AS ci_high
FROM over_models WHERE study = $study AND depth IS NOT NULL
ORDER BY metric, statistic, role, step NULLS LAST, corpus, view,
  list_position(['final', 'attention'], site) NULLS FIRST, depth
"""
"""Means over the models of a role at common layers or depths."""

_DIFFERENCES = """
SELECT if(kind = 'corpora', corpus_a || ' − ' || corpus_b, if(
    min(model_a) OVER tuned = max(model_a) OVER tuned, model_a, 'each model'
  ) || ' − ' || model_b || ', on ' || corpus_a) AS comparison,
  model_a AS model, checkpoint_a AS checkpoint, model_b, checkpoint_b, view, statistic, {columns}
  value, ci_low, ci_high, n
FROM differences
WHERE study = $study AND metric = $metric AND {rows}
WINDOW tuned AS (PARTITION BY kind, model_b, corpus_a)
ORDER BY kind DESC, comparison, statistic, view, model, checkpoint, layer
"""
DIFFERENCES = _DIFFERENCES.format(columns="layer, depth,", rows="layer IS NOT NULL AND site IN ('embedding', 'block')")
DIFFERENCES_OF_MODELS = _DIFFERENCES.format(columns="", rows="layer IS NULL")

# Either of the two may stand first in a pair.
BESIDE_BASE = """
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
SELECT if(min(model) OVER related = max(model) OVER related, model, 'each model') || ' against ' || model_b || ', on '
    || corpus AS comparison,
  model, checkpoint, model_b, checkpoint_b, view, statistic, layer_a AS layer, layer_a / layers AS depth, value, ci_low,
  ci_high, n
FROM either WHERE layer_a = layer_b AND NOT ends_with(statistic, '_floor')
WINDOW related AS (PARTITION BY model_b, corpus)
ORDER BY comparison, statistic, view, model, checkpoint, layer
"""

FINAL = "final"
TITLES = {"layer": "relative depth", "step": "relative depth of the block's input"}
COUNTED = {"layer": ("layer", 0), "step": ("block", 1)}
"""Where all models have as many layers: what an axis counts, and its number at depth 0."""


def differences_of(names: Sequence[str], blocks: bool) -> str:
    """Return the query for the differences of statistics that are named by block, or for those of all others."""
    kind = f"statistic {'' if blocks else 'NOT '}IN ({', '.join(map(repr, names))})"
    return DIFFERENCES.replace("WINDOW", f"  AND {kind}\nWINDOW")


def profile(frame: pd.DataFrame, styles: Styles, subject: parts.ChartedStatistic, log: bool = False) -> Any:
    """Draw a statistic over depth, on a linear axis or on a logarithmic one."""
    of_it = alt.Chart().transform_filter(parts.is_statistic(subject.name))
    course = of_it
    layers: list[Any] = []
    if "site" in frame and bool((frame["site"] == FINAL).any()):
        course = of_it.transform_filter(f"datum.site !== '{FINAL}'")
        layers.append(_final(of_it, frame, styles, subject, log))
    floor = bool((frame["statistic"] == f"{subject.name}_floor").any())
    return _over_depth(course, frame, styles, subject, layers, floor, log)


@dataclass(frozen=True)
class _Blank:
    """A statistic whose words are filled in later, see :func:`worded`."""

    name: str = "\ue000"
    title: str = "\ue001"
    short: str = "\ue002"
    noise: str = "\ue003"
    unit: str = ""
    per: str = "layer"


BLANK = _Blank()


def features(frame: pd.DataFrame, subject: parts.ChartedStatistic) -> tuple[int, ...]:
    """Return all that a profile depends on of its frame."""
    numbers = (parts.has(frame, column) for column in ("ci_low", "ci_high"))
    floor, final = frame["statistic"] == f"{subject.name}_floor", "site" in frame and (frame["site"] == FINAL).any()
    of_frame = bool(final), bool(floor.any()), "undetermined" in frame, "model_b" in frame, _last_layer(frame)
    return (*numbers, *of_frame)


def _last_layer(frame: pd.DataFrame) -> int:
    """Return the layer at depth 1 where all models have as many; else 0."""
    inside = frame[(frame["depth"] > 0) & (frame["layer"] > 0)] if {"depth", "layer"} <= set(frame) else frame[:0]
    depths = {round(layer / depth) for layer, depth in zip(inside["layer"], inside["depth"], strict=True)}
    return depths.pop() if len(depths) == 1 else 0


def worded(spec: str, subject: parts.ChartedStatistic) -> dict[str, Any]:
    """Return the profile of a statistic from that of the blank one."""
    for blank, text in ((BLANK.name, subject.name), (BLANK.noise, subject.noise)):  # inside of expressions of Vega
        spec = spec.replace(json.dumps(blank)[1:-1], json.dumps(parts.quoted(text)[1:-1])[1:-1])
    for words, value in ((BLANK.title, subject.title), ([BLANK.short], parts.axis_title(subject))):
        spec = spec.replace(json.dumps(words), json.dumps(value))
    filled: dict[str, Any] = json.loads(spec)
    return filled


def difference(frame: pd.DataFrame, styles: Styles, subject: parts.ChartedStatistic) -> Any:
    """Draw how much a statistic differs between two sides of a comparison, over depth."""
    return _over_depth(alt.Chart(), frame, styles, subject, [], floor=False)


def _over_depth(
    line: Any,
    frame: pd.DataFrame,
    styles: Styles,
    subject: parts.ChartedStatistic,
    above: list[Any],
    floor: bool,
    log: bool = False,
) -> Any:
    x, y = _axes(frame, subject, log)
    # Parameters go to one layer before there are many: each change of a layered chart copies all of them several times.
    by_page = parts.set_by_page(cursor=-1, room=parts.room_for(styles))
    cursor = parts.cursor().add_params(*parts.params(), *by_page)
    layers = [] if log else [parts.rule(y=0)]
    if floor:
        layers += _floor(subject, styles, x, y, log)
    if parts.has(frame, "ci_low") or styles.means:
        # bands of null baselines would bury the others; their intervals are in the tooltips
        band = parts.without_overlay(parts.without_baselines(line, styles)).mark_area(clip=True, aria=False)
        ends = {"y": parts.value_axis("ci_low:Q", log, parts.axis_title(subject)), "y2": alt.Y2("ci_high:Q")}
        layers.append(band.encode(x=x, **ends, color=parts.color(styles), opacity=parts.lit(0.16, 0.02)))
    course = parts.course(line, styles, x, y, _tooltip(frame, subject), open_marks="undetermined" in frame)
    labels = parts.end_labels(line, styles, x, y, "depth", log, gap=18 if above else 9)
    # the cursor must not lie over what is pointed at
    every = (*layers, cursor, labels, *course, *above, parts.floor_note())
    return alt.layer(*every, data=frame, width="container", height=160)


def _axes(frame: pd.DataFrame, subject: parts.ChartedStatistic, log: bool) -> tuple[Any, Any]:
    title, first, last = TITLES.get(subject.per, "relative depth"), 0, _last_layer(frame)
    if last:
        title, first = COUNTED.get(subject.per, COUNTED["layer"])
    x = parts.depth_axis(title, labelled=True, layers=last, first=first)
    return x, parts.value_axis(log=log, title=parts.axis_title(subject))


def _final(of_it: Any, frame: pd.DataFrame, styles: Styles, subject: parts.ChartedStatistic, log: bool) -> Any:
    """A hollow mark for the state after the final norm, a little to the right of the last block's."""
    rows = of_it.transform_filter(f"datum.site === '{FINAL}'")
    marks = parts.without_overlay(rows).transform_calculate(where="'after the final norm'")
    x, y = _axes(frame, subject, log)
    look = {"color": parts.color(styles), "shape": parts.shape(styles), "opacity": parts.lit(1, 0.1)}
    tooltip = [alt.Tooltip("where:N", title="state"), *_tooltip(frame, subject)]
    points = marks.mark_point(filled=False, size=46, strokeWidth=1.6, xOffset=9)
    return points.encode(x=x, y=y, tooltip=tooltip, **look)


def _floor(subject: parts.ChartedStatistic, styles: Styles, x: Any, y: Any, log: bool) -> list[Any]:
    """One thin dotted line for each model (floors depend on its width) in its colour, and above the plot what they are.

    Beside the lines there is no place that the models' own lines leave free in every chart.
    """
    floor = parts.without_overlay(alt.Chart().transform_filter(parts.is_statistic(f"{subject.name}_floor")))
    floor = floor.transform_filter(f"isValid(datum.value) && datum.site !== '{FINAL}'")
    line = floor.mark_line(strokeWidth=1, strokeDash=[1, 2], clip=True, aria=False)
    line = line.encode(x=x, y=y, color=parts.color(styles), opacity=parts.lit(0.5, 0.1))
    text = alt.ExprRef(parts.quoted(f"dotted: {subject.noise}"))
    # left out where the deepest point of one of the lines is off the axis (the page's rows are rounded, so its end
    # needs a little room); a note of the axis stands below it
    linear = "abs(datum.value - (low + high) / 2) <= (high - low) * 0.501"
    deepest = floor.transform_aggregate(deepest="argmax(depth)").transform_calculate(value="datum.deepest.value")
    visible = deepest.transform_filter("datum.value >= low * 0.999 && datum.value <= high * 1.001" if log else linear)
    label = visible.mark_text(text=text, align="right", baseline="bottom", fontSize=10.5, color=FLOOR_GREY, aria=False)
    label = label.encode(x=alt.XValue("width"), y=alt.YValue(alt.ExprRef("note ? -17 : -4")))
    return [line, label]


def _tooltip(frame: pd.DataFrame, subject: parts.ChartedStatistic) -> list[Any]:
    base = ("model_b",) if "model_b" in frame else ()
    columns = ("model", "checkpoint", *base, "layer", "depth", "value", "ci_low", "ci_high", "n")
    layer = "layer" if subject.per == "layer" else "step from layer"
    return parts.tooltips(*columns, frame=frame, model_b="minus", layer=layer, value=subject.title)


def which_statistic(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """A control for the statistic, in the order of the definitions."""
    return [titled(frame, scene)]


def by_depth(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw a statistic over relative depth, a line for each model."""
    layers = _last_layer(frame)
    x = parts.depth_axis("layer", layers=layers) if layers else parts.depth_axis()
    # a share is read on an axis from 0
    is_share = bool(frame["value"].dropna().between(0, 1).all())
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=is_share, nice=True))
    color, dash, shape = parts.color(styles), parts.dash(styles), parts.shape(styles)
    base = alt.Chart().encode(x=x, color=color)
    band = base.mark_area(opacity=0.14).encode(y=alt.Y("ci_low:Q", title=None), y2=alt.Y2("ci_high:Q"))
    line = base.mark_line(strokeWidth=1.9).encode(y=y, strokeDash=dash)
    tooltip = parts.tooltips("model", "layer", "depth", "value", "ci_low", "ci_high", "n")
    points = base.mark_point(filled=True, size=44, opacity=1).encode(y=y, shape=shape, tooltip=tooltip)
    return alt.layer(band, line, points, data=frame).properties(width="container", height=260)


def beside(
    id: str,
    title: str,
    where: str,
    chapter: Chapter,
    picks: Picks,
    draw: Draw = by_depth,
    lead: str = "Each model at its last checkpoint, by relative depth.",
) -> Chart:
    """Return a chapter's chart of an analysis' numbers that draws all models beside each other."""
    sql = f"""
SELECT model, checkpoint, corpus, statistic, layer, depth, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND {where} AND {LAST_CHECKPOINT}
ORDER BY corpus, statistic, model, layer
"""
    return Chart(
        id,
        title,
        sql,
        draw,
        naming="{statistic} in every model",
        lead=lead,
        columns=("value", "ci_low", "ci_high", "n"),
        chapter=chapter,
        picks=picks,
        key="model",
        together=True,
        half=True,
        statistics=("*",),
    )


# A statistic over training: a line for each model with several checkpoints, against the training step.


_TRAINED = """own.study = $study AND own.metric = $metric AND own.statistic = $statistic AND own.step IS NOT NULL
    AND (own.site IS NULL OR own.site IN ('embedding', 'block'))
    AND own.model IN (
      SELECT model FROM layer_metrics WHERE study = $study GROUP BY model HAVING count(DISTINCT step) > 1
    )"""
# The interval of the mean over models, for three of a role or more: that of two reaches too far to be drawn.
_WITH_MEANS = """
SELECT model, own.role, own.step, own.corpus, {asked}own.view, own.layer, own.value, layers, ci_low, ci_high
FROM own LEFT JOIN (
  FROM over_models WHERE study = $study AND metric = $metric AND statistic = $statistic AND models >= 3
    AND (site IS NULL OR (site IN ('embedding', 'block') AND layer IS NOT NULL))
) AS means
  ON means.role = own.role AND means.step = own.step AND means.corpus = own.corpus AND means.view = own.view
    AND means.layer IS NOT DISTINCT FROM own.layer
    AND own.model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
ORDER BY own.corpus, own.view, own.layer NULLS FIRST, own.role, model, own.step
"""

# layer is NULL in the rows that average over all layers
_TRAINING = f"""
WITH numbers AS (
  SELECT model, role, step, corpus, view, layer, avg(value) AS value, count(value) AS layers
  FROM layer_metrics AS own WHERE layer IS NOT NULL AND {_TRAINED} GROUP BY ALL
  UNION ALL
  SELECT model, role, step, corpus, view, NULL, avg(value ORDER BY layer), count(value)
  FROM layer_metrics AS own WHERE layer IS NOT NULL AND {FREE} AND {_TRAINED} GROUP BY ALL
), own AS (SELECT *{{by_role}} FROM numbers)
{_WITH_MEANS}"""
_TRAINING_OF_MODELS = f"""
WITH own AS (
  SELECT model, role, step, corpus, view, layer, value, 0 AS layers{{by_role}}
  FROM layer_metrics AS own
  WHERE layer IS NULL AND {_TRAINED}
)
{_WITH_MEANS}"""


def training_query(of_model: bool, within_role: bool) -> str:
    """Return the query of a statistic over training.

    Args:
        of_model: whether it is one number of the whole model.
        within_role: whether encoders and decoders have panels of their own.
    """
    columns = {"by_role": f", {BY_ROLE}", "asked": f"{ASKED}, "} if within_role else {"by_role": "", "asked": ""}
    return (_TRAINING_OF_MODELS if of_model else _TRAINING).format(**columns)


TRAINING = training_query(of_model=False, within_role=False)

LEAST_GAP = 0.13
"""Least distance of two labelled steps, as a share of the axis."""


def training(frame: pd.DataFrame, styles: Styles, subject: parts.ChartedStatistic) -> Any:
    """Draw a statistic against the training step.

    A band is the 95 % t-interval of the mean over the models of a role, where there are three or more.
    The step axis is logarithmic above the first positive step and linear below it (symlog), so that step 0 is
    shown.
    """
    steps = sorted({int(step) for step in frame["step"].dropna().unique()})
    first = next((step for step in steps if step > 0), 1)
    domain = [steps[0], steps[-1]] if steps else [0, 1]
    scale = alt.Scale(type="symlog", constant=first, domain=domain, nice=False, **parts.LEAVES_ROOM)
    axis = alt.Axis(values=ticks(steps), format=",d", grid=False, labelOverlap="greedy", labelFlush=False)
    x = alt.X("step:Q", title="training step (log)", scale=scale, axis=axis)
    tooltip = parts.tooltips("model", "step", "value", value=subject.title)
    title = parts.axis_title(subject)
    course = parts.course(alt.Chart(), styles, x, parts.value_axis(title=title), tooltip)
    labels = parts.end_labels(alt.Chart(), styles, x, parts.value_axis(title=title), "step")
    chart = alt.layer(parts.rule(y=0), *_over_models(frame, styles, x, title), labels, *course, data=frame)
    by_page = parts.set_by_page(room=parts.room_for(styles))
    return chart.add_params(*parts.params(), *by_page).properties(width="container", height=160)


def _over_models(frame: pd.DataFrame, styles: Styles, x: Any, title: list[str]) -> list[Any]:
    """A band for each role of three models or more: the 95 % interval of their mean, which its rows all carry."""
    if not parts.has(frame, "ci_low"):
        return []
    bands = []
    for role, models in styles.by_role:
        of_role = alt.Chart().transform_filter(f"datum.role === '{role}' && isValid(datum.ci_low)")
        area = of_role.transform_aggregate(low="mean(ci_low)", high="mean(ci_high)", groupby=["step"])
        band = area.mark_area(clip=True, color=models[0].light, opacity=0.14, aria=False)
        bands.append(band.encode(x=x, y=parts.value_axis("low:Q", title=title), y2=alt.Y2("high:Q")))
    return bands


def ticks(steps: Sequence[int]) -> list[int]:
    """Return the steps that are labelled: the ends, and between them those that are not too near on the axis."""
    first = next((step for step in steps if step > 0), 1)
    place = {step: math.log1p(step / first) for step in steps}
    kept = list(steps[:1])
    for step in steps[1:-1]:
        if min(place[step] - place[kept[-1]], place[steps[-1]] - place[step]) > LEAST_GAP * place[steps[-1]]:
            kept.append(step)
    return [*kept, *steps[1:][-1:]]


def which_layer(frame: pd.DataFrame, scene: Scene, step: bool = False) -> list[Pick]:
    """Return the choice of the layer, or of the block, that a training chart follows."""
    numbers = sorted({int(layer) for layer in frame["layer"].dropna().unique()})
    names = {str(layer): str(layer + step) if layer or step else "0 (embedding)" for layer in numbers}
    title = "Block" if step else "Layer"
    return [Pick("layer", title, {MEAN: f"mean over all {title.lower()}s", **names})]
