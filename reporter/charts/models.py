"""Dots and correlations of whole models, and heat maps of pairs of layers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reporter.charts import parts
from reporter.charts.layout import ASKED, BY_ROLE, Pick, Scene, choices, corpora, panels_of, titled
from reporter.charts.styles import FLOOR_GREY, INK, RULE_GREY, Styles, alt
from reporter.core.numbers import estimate, estimates, p_value, short, whole

if TYPE_CHECKING:
    import pandas as pd

_DOTS = """
SELECT model, role, checkpoint, step, corpus, {asked}view, statistic, value, ci_low, ci_high, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic IN ($statistic, $floor)
  AND layer IS NULL AND (site IS NULL OR site IN ('embedding', 'block'))
ORDER BY statistic, corpus, view, role, model, step, checkpoint
"""
DOTS = _DOTS.format(asked="")
DOTS_BY_ROLE = _DOTS.format(asked=f"{BY_ROLE}, ")

ROW = 24
"""Height of one model, in pixels."""


def dots(frame: pd.DataFrame, styles: Styles, subject: parts.ChartedStatistic, log: bool = False) -> Any:
    """Draw one number for each model, on a linear axis or on a logarithmic one."""
    # the rows of a comparison are of the statistic that the page's selector names
    rows = alt.Chart() if "comparison" in frame else alt.Chart().transform_filter(parts.is_statistic(subject.name))
    order = [name for name in styles.names if name in set(frame["model"])]
    x = alt.X("value:Q", title=parts.axis_title(subject), scale=parts.value_scale(log), axis=parts.ticks(log))
    # where roles have panels of their own each lists its own models
    listed = {"sort": order} if ASKED in frame else {"scale": alt.Scale(domain=order)}
    y = alt.Y("model:N", title=None, **listed, axis=alt.Axis(labelLimit=130, grid=True, domain=False))
    layers = [] if log else [parts.rule(x=0)]
    if bool((frame["statistic"] == f"{subject.name}_floor").any()):
        floor = alt.Chart().transform_filter(parts.is_statistic(f"{subject.name}_floor"))
        layers.append(floor.mark_tick(color=FLOOR_GREY, thickness=1.5, clip=True).encode(x=x, y=y))
    color = parts.color(styles)
    if parts.has(frame, "ci_low"):
        line = rows.mark_rule(strokeWidth=2.5, strokeCap="round", clip=True)
        ends = alt.X("ci_low:Q", title=parts.axis_title(subject), scale=parts.value_scale(log))
        layers.append(line.encode(x=ends, x2=alt.X2("ci_high:Q"), y=y, color=color, opacity=parts.lit(0.45, 0.08)))
    columns = ("model", "checkpoint", "value", "ci_low", "ci_high", "n")
    tooltip = parts.tooltips(*columns, frame=frame, value=subject.title)
    look = {"shape": parts.shape(styles), "size": parts.size(styles, 85), "opacity": parts.lit(1, 0.1)}
    points = rows.mark_point(filled=True).encode(x=x, y=y, color=color, tooltip=tooltip, **look)
    chart = alt.layer(*layers, points, parts.floor_note(), data=frame)
    return chart.add_params(*parts.params()).properties(width="container", height=ROW * max(1, len(order)))


# Correlations over the models of a study: a mark for each feature and method, its interval as a line.


CORRELATIONS = """
SELECT corpus, view, score, feature, method, value, ci_low, ci_high, p, n
FROM correlations
WHERE study = $study AND metric = $metric
ORDER BY corpus, view, score, max(abs(value)) OVER (PARTITION BY corpus, view, score, feature) DESC NULLS LAST,
  feature, method
"""

CORRELATION_ROW = 34
"""Height of one feature, in pixels."""
METHODS = ["pearson", "spearman"]
FEWEST_MODELS = 3
"""Below it a correlation says nothing: any two points lie on a line."""


def correlations(frame: pd.DataFrame, styles: Styles, titles: Mapping[str, str]) -> Any:
    """Draw correlations between -1 and 1, the strongest feature on top, each feature by its title."""
    scale = alt.Scale(domain=[-1, 1], nice=False)
    axis = alt.Axis(grid=True, values=[-1, -0.5, 0, 0.5, 1], format="~g")
    x = alt.X("value:Q", title="correlation", scale=scale, axis=axis)
    # null sort keeps the order of the rows, which is that of the query
    floors = {f"{name}_floor": f"chance level of {title}" for name, title in titles.items()}
    label = f"{json.dumps(dict(titles) | floors)}[datum.value] || datum.value"
    axis = alt.Axis(labelLimit=240, domain=False, grid=False, labelExpr=label)
    y = alt.Y("feature:N", title=None, sort=None, axis=axis)
    place = alt.YOffset("method:N", scale=alt.Scale(domain=METHODS, paddingOuter=0.5))
    shape = alt.Shape("method:N", scale=alt.Scale(domain=METHODS, range=["circle", "diamond"]), legend=None)
    color = alt.Color("method:N", scale=alt.Scale(domain=METHODS, range=[FLOOR_GREY, INK]), legend=None)
    valid = alt.Chart().transform_filter("isValid(datum.value)")
    layers = [alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=RULE_GREY).encode(x=alt.XDatum(0, scale=scale))]
    if parts.has(frame, "ci_low"):
        line = valid.mark_rule(strokeWidth=2, opacity=0.4)
        ends = alt.X("ci_low:Q", title="correlation", scale=scale)
        layers.append(line.encode(x=ends, x2=alt.X2("ci_high:Q"), y=y, yOffset=place, color=color))
    columns = ("feature", "score", "method", "value", "ci_low", "ci_high", "p", "n")
    tooltip = parts.tooltips(*columns, value="correlation", n="models")
    points = valid.mark_point(filled=True, size=70, opacity=1)
    points = points.encode(x=x, y=y, yOffset=place, shape=shape, color=color, tooltip=tooltip)
    height = CORRELATION_ROW * max(1, frame["feature"].nunique())
    return alt.layer(*layers, points, data=frame).properties(width="container", height=height)


def of_correlations(rows: pd.DataFrame, scene: Scene) -> str:
    """Say how many models a correlation is over."""
    fewest, most = int(rows["n"].min()), int(rows["n"].max())
    text = f"n = {' to '.join(dict.fromkeys((str(fewest), str(most))))} models"
    few = f": fewer than {FEWEST_MODELS} say nothing, any two points lie on a line"
    return text + few if fewest < FEWEST_MODELS else text


def correlation_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the table of correlations: both methods of a feature in one row, the strongest first."""
    columns, numbers = ["corpus", "view", "score", "feature"], ["value", "ci_low", "ci_high", "p"]
    table = []
    for key, rows in frame.groupby(columns, sort=False):
        row = dict(zip(columns, key, strict=True)) | {"n": int(rows["n"].max()), "strength": rows["value"].abs().max()}
        for method in METHODS:
            of_method = rows.loc[rows["method"] == method, numbers].to_dict("records")
            row[method] = of_method[0] if of_method else dict.fromkeys(numbers)
        table.append(row)
    for method in METHODS:
        texts = estimates([tuple(row[method][name] for name in ("value", "ci_low", "ci_high")) for row in table])
        for row, text in zip(table, texts, strict=True):
            row[method]["text"] = text
    return sorted(table, key=lambda row: (row["strength"] != row["strength"], -row["strength"]))


def which_score(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """A control for the score that features are compared with, such as ``loss.lm of decoders``, by its title."""
    scores = {score: score.partition(" of ") for score in choices(frame, "score", "Score").choices}
    titles = {score: scene.statistics.get(name, name) + of + whose for score, (name, of, whose) in scores.items()}
    return [Pick("score", "Score", titles)]


# Heat maps: a number for each two layers, and how far each run of consecutive blocks turns the states.


# A model beside itself is symmetric: where one half is stored, the other is its mirror image.
PAIRS = """
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
"""


def _cells(rows: Any, x: str, y: str, titles: tuple[str, str], tooltip: list[Any], scale: Any) -> Any:
    """Draw a coloured cell for each two values of two columns."""
    labels = {"labelOverlap": "greedy", "labelSeparation": 3, "labelPadding": 3, "labelAngle": 0}
    axis = alt.Axis(grid=False, domain=False, ticks=False, **labels)
    return rows.mark_rect(strokeWidth=0.6).encode(  # the stroke closes the hairlines between cells
        x=alt.X(x, title=titles[0], axis=axis),
        y=alt.Y(y, title=titles[1], sort="descending", axis=axis),
        color=alt.Color("value:Q", scale=scale, legend=None),
        stroke=alt.Stroke("value:Q", scale=scale, legend=None),
        tooltip=tooltip,
    )


def pairs(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw similarity of layers, the first model upwards and the second to the right.

    The colours run from 0 to 1 on every panel; what is below 0 (a debiased estimate may be) has the colour of 0.
    """
    columns = ("model_a", "layer_a", "model_b", "layer_b", "value", "ci_low", "ci_high", "floor", "n")
    titles = {"model_a": "first model", "layer_a": "first layer", "model_b": "second model", "layer_b": "second layer"}
    tooltip = parts.tooltips(*columns, frame=frame, floor="chance level", **titles)
    scale = alt.Scale(scheme="viridis", domain=[0, 1], clamp=True)
    valid = alt.Chart(frame).transform_filter("isValid(datum.value)")
    cells = _cells(valid, "layer_b:O", "layer_a:O", ("layer", "layer"), tooltip, scale)
    return cells.properties(width="container", height=230)


def of_pairs(rows: pd.DataFrame, scene: Scene) -> str:
    """Say the chance level, n, and what is drawn as 0."""
    parts = []
    if rows["floor"].notna().any():
        parts.append(f"chance level {short(rows['floor'].iloc[0], 2)}")
    if rows["n"].notna().any():
        parts.append(f"n = {whole(rows['n'].max())}")
    if (lowest := rows["value"].min()) < 0:
        parts.append(f"below 0 shown as 0 (lowest {short(lowest, 2)})")
    return " · ".join(parts)


def which_pairs(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Controls for statistic, corpus and pairs of models."""
    panels = panels_of(frame, "pair", scene)
    inside = [panel.value for panel in panels if panel.models[0] == panel.models[1]]
    between = [panel for panel in panels if panel.models[0] != panel.models[1]]
    shown = {"inside each model": inside}
    for name in scene.styles.names:
        shown[f"{name} with others"] = [panel.value for panel in between if name in panel.models]
    shown = {choice: panels for choice, panels in shown.items() if panels}
    shows = Pick("among", "Pairs", {choice: choice for choice in shown}, shown)
    return [titled(frame, scene), shows, *corpora(frame, scene)]


def matches(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the depth of the most similar layer of the other model over depth, the diagonal dotted."""
    share = alt.Scale(domain=[0, 1], nice=False)
    axis = alt.Axis(values=[0, 0.5, 1], grid=True)
    x, y = parts.depth_axis(), alt.Y("match:Q", title="relative depth of the best match", scale=share, axis=axis)
    ends = alt.Chart(alt.InlineData(values=[{"depth": 0, "match": 0}, {"depth": 1, "match": 1}]))
    diagonal = ends.mark_line(strokeWidth=1, strokeDash=[1, 2], color=FLOOR_GREY, aria=False).encode(x=x, y=y)
    columns = ("model", "layer", "model_b", "layer_b", "value", "n")
    titles = {"model_b": "other model", "layer_b": "its best layer", "value": "similarity"}
    tooltip = parts.tooltips(*columns, frame=frame, **titles)
    course = parts.course(alt.Chart(), styles, x, y, tooltip)
    chart = alt.layer(diagonal, *course, data=frame).add_params(*parts.params())
    return chart.properties(width="container", height=230)


def of_matches(rows: pd.DataFrame, scene: Scene) -> str:
    """Say how alike the two models are, against chance."""
    row = rows.iloc[0]
    alike = estimate(row["calibrated"], row["calibrated_low"], row["calibrated_high"])
    p = p_value(row["p"], 2)
    by_chance = f"p {p if p.startswith('<') else f'= {p}'}, corrected for {whole(row['searched'])} pairs of layers"
    return f"most alike: layers {row['most']} · calibrated similarity {alike} · {by_chance}"


def which_matches(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Controls for statistic and corpus."""
    return [titled(frame, scene), *corpora(frame, scene)]


def runs(frame: pd.DataFrame, styles: Styles, value: str = "angle/π", n: str = "tokens") -> Any:
    """Draw how far each run of blocks turns the states; a dot on the least of each length."""
    columns = ("model", "run", "value", "ci_low", "ci_high", "n")
    tooltip = parts.tooltips(*columns, frame=frame, run="blocks", value=value, n=n)
    scale = alt.Scale(scheme="viridis", domain=[0, 0.5], clamp=True)
    titles = ("first block", "consecutive blocks")
    rows = alt.Chart(frame).transform_calculate(first="datum.layer_a + 1")
    cells = _cells(rows, "first:O", "blocks:O", titles, tooltip, scale)
    least = rows.transform_filter("datum.least")
    dots = least.mark_point(filled=True, opacity=1, color="white", stroke="black", strokeWidth=0.8, size=36)
    dots = dots.encode(x=cells.encoding.x, y=cells.encoding.y, tooltip=tooltip)
    return alt.layer(cells, dots).properties(width="container", height=230)


def of_runs(rows: pd.DataFrame, scene: Scene) -> str:
    """Say the best run of a few lengths."""
    layers = int(rows["layer_b"].max())
    lengths = dict.fromkeys(max(1, round(layers * share)) for share in (0, 0.25, 0.5))
    best = rows[rows["least"]].drop_duplicates("blocks").set_index("blocks")
    named = [f"{best['run'][length]} ({short(best['value'][length], 2)})" for length in lengths if length in best.index]
    return f"smallest angles: blocks {', '.join(named)}"


def of_repeats(rows: pd.DataFrame) -> str:
    """Say which blocks may run twice at the least loss."""
    best = rows[rows["least"]].iloc[0]
    change = estimate(best["value"], best["ci_low"], best["ci_high"])
    return f"smallest change: blocks {best['run']} twice, {change} nats, corrected for {len(rows)} repetitions tried"


def which_runs(frame: pd.DataFrame, scene: Scene) -> list[Pick]:
    """Controls for token set and corpus."""
    return [titled(frame, scene), *corpora(frame, scene)]
