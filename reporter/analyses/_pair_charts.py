"""The charts of pairs: directions of concepts beside each other, differences by layer, consistency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import SENTENCES, Chapter, Chart, Pick, Query, choices, parts, variants
from reporter.charts.parts import AXES
from reporter.charts.styles import DARK_ON_LIGHT, INK, Styles, colours, ordered
from reporter.charts.vega import alt

if TYPE_CHECKING:
    import pandas as pd

CHAPTER = Chapter(
    SENTENCES, "pairs", "Pairs", "Is a concept a direction: do the differences of its pairs point the same way?", 2
)
MOST_NAMED = 14  # concepts whose cosines are written into the heat map


def directions(column: str) -> Any:
    """Return what draws a column of ``pair_directions`` over the layers, the concept that is brought out above all.

    Args:
        column: ``consistency`` or ``relative_norm``.
    """

    def draw(frame: pd.DataFrame, styles: Styles) -> Any:
        names = ordered(list(frame["concept"]), styles.named)
        x = parts.layers()
        ends = ("consistency", "ci_low", "ci_high") if column == "consistency" else (column,)
        y = alt.Y(f"{column}:Q", title=None, scale=parts.same_reach(frame, *ends))
        color = alt.Color("concept:N", scale=alt.Scale(domain=names, range=colours(len(names))), legend=None)
        lit = alt.OpacityValue(0.14, condition={"test": "bring === '' || datum.concept === bring", "value": 0.95})
        base = alt.Chart().encode(x=x, y=y, color=color)
        layers = [parts.here(), parts.zero()]
        if column == "consistency":
            band = alt.Chart().transform_filter("datum.concept === bring").mark_area(opacity=0.2)
            layers.append(band.encode(x=x, y=alt.Y("ci_low:Q", title=None), y2=alt.Y2("ci_high:Q"), color=color))
        line = base.mark_line(strokeWidth=1.8).encode(opacity=lit)
        points = base.mark_point(filled=True, size=40).encode(
            opacity=lit,
            tooltip=parts.tips("concept", "layer", "consistency", "ci_low", "ci_high", "p", "relative_norm", "n"),
        )
        chart = alt.layer(*layers, line, points, data=frame).add_params(*parts.at_params(bring=""))
        return chart.properties(width="container", height=300)

    return draw


def concepts(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the cosine of each two concepts' directions; a dot where it is further from 0 than chance explains."""
    most = int(frame.groupby("pair_set")["concept_a"].nunique().max())
    axis = alt.Axis(grid=False, ticks=False, domain=False, labelLimit=130, title=None)
    scale = alt.Scale(paddingInner=0.04, paddingOuter=0)
    base = alt.Chart().encode(
        x=alt.X("concept_b:N", scale=scale, axis=_slanted()),
        y=alt.Y("concept_a:N", scale=scale, axis=axis),
        tooltip=parts.tips("concept_a", "concept_b", "cosine", "p", "level", "n_a", "n_b", "layer"),
    )
    cells = base.mark_rect(cornerRadius=2).encode(color=parts.cosine_colour())
    ink = alt.ColorValue(INK, condition={"test": "abs(datum.cosine) > 0.62", "value": DARK_ON_LIGHT})
    layers = [cells]
    if most <= MOST_NAMED:
        layers.append(
            base.mark_text(
                fontSize=9.5, dy=3, baseline="middle", opacity=alt.ExprRef(f"width < {25 * most} ? 0 : 1")
            ).encode(text=alt.Text("cosine:Q", format=".2f"), color=ink)
        )
    high = -8 if len(layers) > 1 else 0
    for sign, test in (("●", "datum.beyond"), ("○", "!datum.beyond && datum.p !== null && datum.p < 0.05")):
        layers.append(base.transform_filter(test).mark_text(text=sign, fontSize=7, dy=high).encode(color=ink))
    return alt.layer(*layers, data=frame).properties(width="container", height=min(640, 60 + 34 * most))


def _slanted() -> Any:
    return alt.Axis(grid=False, ticks=False, domain=False, labelLimit=110, title=None, labelAngle=-45)


def _bring(frame: pd.DataFrame) -> Pick:
    names = dict.fromkeys(frame["concept"])
    return Pick("$bring", "Bring out", {"": "all alike", **{name: name for name in names}})


# A cosine is symmetric and stored once. Beyond chance is judged over all cosines of a set at one layer (Bonferroni).
CONCEPTS = Chart(
    "sentences.concepts",
    "Directions of concepts beside each other",
    Query(
        "direction_cosines",
        """
WITH own AS (
  SELECT *, 0.05 / count(*) OVER (PARTITION BY model, checkpoint, pair_set, site, layer) AS level
  FROM direction_cosines WHERE study = $study
), whole AS (
  FROM own
  UNION ALL BY NAME
  SELECT * REPLACE (concept_b AS concept_a, concept_a AS concept_b, n_b AS n_a, n_a AS n_b) FROM own
)
SELECT model, checkpoint, pair_set, site, layer, concept_a, concept_b, cosine, p, level, p < level AS beyond, n_a, n_b
FROM whole
ORDER BY model, checkpoint, pair_set, site, layer, concept_a, concept_b
""",
    ),
    concepts,
    lead="The cosine of the mean differences of two concepts. ●: p is below 0.05 divided by the number of these "
    "cosines; ○: below 0.05 alone, as one in twenty is by chance.",
    table="direction_cosines",
    columns=("concept_a", "concept_b", "cosine", "p"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [choices(frame, "pair_set", "Pairs")],
    legend="cosine",
    by_layer=True,
    mind="Each p comes from random turns, so it cannot be smaller than one over their number: of many concepts none "
    "may reach the stricter level, whatever they do.",
    half=True,
)

PAIR_POINTS = Chart(
    "sentences.pair-points",
    "Differences by layer",
    Query(
        "pair_points",
        """
SELECT model, checkpoint, item AS pair_set, site, layer, if(label = 'mean of ' || part[6:], part[6:], part) AS concept,
  label = 'mean of ' || part[6:] AS mean, point, label, x, y, z
FROM projections
WHERE study = $study AND analysis = 'pairs' AND projection = 'pca'
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, item, site, layer ORDER BY mean DESC, hash(point), part)
  <= 2000
ORDER BY model, checkpoint, item, site, layer, concept, mean, point
""",
    ),
    "points",
    lead="A point is a pair: its second text minus its first. An arrow is the mean of a concept; where its pairs "
    "agree, they lie around its tip.",
    table="projections",
    columns=("part", "label", "x", "y"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [choices(frame, "pair_set", "Pairs")],
    options={
        "colour": ["concept"],
        "tell": ["concept"],
        "arrows": True,
        "origin": True,
        "order": True,
        "height": 460,
        "axisNames": AXES,
        "even": True,
    },
    by_layer=True,
    half=True,
)

DIRECTIONS = Chart(
    "sentences.directions",
    "Consistency of a concept",
    Query(
        "pair_directions",
        """
SELECT model, checkpoint, pair_set, concept, pooling, site, layer, depth, consistency, ci_low, ci_high, p, norm,
  relative_norm, n
FROM pair_directions
WHERE study = $study AND site IN ('embedding', 'block')
ORDER BY model, checkpoint, pair_set, concept, layer
""",
    ),
    {name: directions(name) for name in ("consistency", "relative_norm")},
    lead="1: all differences of a concept point one way; 0: they have nothing in common. Bring a concept out to see "
    "its interval.",
    table="pair_directions",
    columns=("concept", "consistency", "ci_low", "ci_high", "p", "relative_norm", "n"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [
        choices(frame, "pair_set", "Pairs"),
        variants(consistency="consistency", relative_norm="length of the mean difference, relative"),
        _bring(frame),
    ],
    key="concept",
)

CHARTS = (
    CONCEPTS,
    PAIR_POINTS,
    DIRECTIONS,
)
