"""Pairs: texts that differ in one concept. Is the difference a direction, and do two concepts share one?

Points: the projection ``pca`` holds the differences of all concepts at a layer on their first two components, taken
about the origin and not about their mean, so that (0, 0) is "no difference". A concept's differences are the part
called like the concept; its mean difference is the one point of the part ``mean <concept>``, the end of an arrow from
the origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, ValidationInfo

from reporter.charts import SENTENCES, Chapter, Chart, choices, parts, variants
from reporter.charts.parts import AXES
from reporter.charts.styles import DARK_ON_LIGHT, INK, Styles, alt, ordered
from reporter.core.table import HIGH, LOW, Comparable, OfModel, Row, at_place, column, of_cell
from reporter.geometry.arrays import Floats
from reporter.geometry.components import coordinates
from reporter.geometry.intervals import Interval, percentile_interval
from reporter.metrics import _directions
from reporter.metrics._items import LISTS, MOST_POINTS, Point, evenly, label, read_list, stream, under
from reporter.metrics.analysis import POOLED, SAME_TOKEN, Context, analysis
from reporter.metrics.base import Statistic, Value
from reporter.study.offer import Section
from reporter.study.part import AsPath, Name, Part, Prose, one_of, two, wrong
from reporter.study.problems import show

if TYPE_CHECKING:
    import pandas as pd

    from reporter.models.places import Place

# The charts of pairs: directions of concepts beside each other, differences by layer, consistency.


CHAPTER = Chapter(
    SENTENCES, "pairs", "Concepts", "Is a concept a direction that the differences of its pairs share?", 2
)
_chart = partial(Chart, chapter=CHAPTER, half=True)

TITLES = {"consistency": "consistency", "relative_norm": "length of the mean difference"}
MOST_NAMED = 14  # concepts whose cosines are written into the heat map


def draw_directions(column: str) -> Any:
    """Return what draws a column of ``pair_directions`` over the layers, with the highlighted concept on top."""

    def draw(frame: pd.DataFrame, styles: Styles) -> Any:
        ends = ("consistency", "ci_low", "ci_high") if column == "consistency" else (column,)
        scale = parts.shared_axis(frame, *ends)
        y = alt.Y(f"{column}:Q", title=TITLES[column], scale=scale)
        names = ordered(list(frame["concept"]), styles.named)
        lines = parts.NamedLines.of(frame, "concept", column, names, *scale.to_dict().get("domain", ()))
        base = alt.Chart().encode(x=lines.x, y=y, color=lines.color, opacity=lines.opacity)
        layers = [parts.here(), parts.zero()]
        if column == "consistency":
            band = alt.Chart().transform_filter("datum.concept === bring").mark_area(opacity=0.2, color=INK, aria=False)
            low = alt.Y("ci_low:Q", title=TITLES[column], scale=scale)
            layers.append(band.encode(x=lines.x, y=low, y2=alt.Y2("ci_high:Q")))
        line = base.mark_line(strokeWidth=1.8, aria=False)
        points = base.mark_point(filled=True, size=40).encode(
            tooltip=parts.tooltips("concept", "layer", "consistency", "ci_low", "ci_high", "p", "relative_norm", "n")
        )
        labels = lines.labels(alt.Chart(), y)
        chart = alt.layer(*layers, labels, line, points, data=frame).add_params(*parts.at_params(bring=""))
        return chart.properties(width="container", height=340)

    return draw


def draw_cosines(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the cosine of each two concepts' directions; a dot where it is further from 0 than chance explains."""
    most = int(frame.groupby("pair_set")["concept_a"].nunique().max())
    axis = {"grid": False, "ticks": False, "domain": False, "title": None}
    scale = alt.Scale(paddingInner=0.04, paddingOuter=0)
    base = alt.Chart().encode(
        x=alt.X("concept_b:N", scale=scale, axis=alt.Axis(**axis, labelLimit=110, labelAngle=-45)),
        y=alt.Y("concept_a:N", scale=scale, axis=alt.Axis(**axis, labelLimit=130)),
        tooltip=parts.tooltips("concept_a", "concept_b", "cosine", "p", "level", "n_a", "n_b", "layer"),
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


# A cosine is symmetric and stored once. Beyond chance is judged over all cosines of a set at one layer (Bonferroni).
CONCEPTS = _chart(
    "sentences.concepts",
    "Cosines between the directions of concepts",
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
    draw_cosines,
    lead="● p < 0.05 after Bonferroni; ○ p < 0.05 uncorrected.",
    columns=("concept_a", "concept_b", "cosine", "p"),
    picks=lambda frame, scene: [choices(frame, "pair_set", "Pairs")],
    legend="cosine",
    by_layer=True,
    mind="Each p is from random sign flips, so it is at least one over their number. With many concepts none may reach "
    "the corrected level.",
)

PAIR_POINTS = _chart(
    "sentences.pair-points",
    "Differences by layer",
    """
SELECT model, checkpoint, item AS pair_set, site, layer, if(label = 'mean of ' || part[6:], part[6:], part) AS concept,
  label = 'mean of ' || part[6:] AS mean, point, label, x, y, z
FROM projections
WHERE study = $study AND analysis = 'pairs' AND projection = 'pca'
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, item, site, layer ORDER BY mean DESC, hash(point), part)
  <= 2000
ORDER BY model, checkpoint, item, site, layer, concept, mean, point
""",
    "points",
    lead="Point: difference of a pair (second minus first). Arrow: mean of a concept.",
    columns=("part", "label", "x", "y"),
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
)

DIRECTIONS = Chart(
    "sentences.directions",
    "Consistency of a concept",
    """
SELECT model, checkpoint, pair_set, concept, pooling, site, layer, depth, consistency, ci_low, ci_high, p, norm,
  relative_norm, n
FROM pair_directions
WHERE study = $study AND site IN ('embedding', 'block')
ORDER BY model, checkpoint, pair_set, concept, layer
""",
    {name: draw_directions(name) for name in ("consistency", "relative_norm")},
    lead="1: all differences agree; 0: unrelated. Highlight a concept to see its interval.",
    columns=("concept", "consistency", "ci_low", "ci_high", "p", "relative_norm", "n"),
    picks=lambda frame, scene: [
        choices(frame, "pair_set", "Pairs"),
        variants(consistency="consistency", relative_norm="length of the mean difference, relative"),
        parts.which_to_highlight(frame, "concept"),
    ],
    chapter=CHAPTER,
    key="concept",
)


def _as_tuple(value: Any) -> Any:
    if isinstance(value, list | tuple):
        if len(value) < 2:
            raise wrong(f"a concept needs at least 2 pairs, got {len(value)}")
        return tuple(value)
    raise wrong(f"expected a list of pairs such as [[She left., He left.], …], got {show(value)}")


TextPair = Annotated[tuple[Prose, Prose], two("texts, [first, second]")]
ConceptPairs = Annotated[tuple[TextPair, ...], BeforeValidator(_as_tuple, json_schema_input_type=list[list[str]])]


class WrittenPairs(Part):
    """Concepts written in the study."""

    concepts: dict[Name, ConceptPairs] = Field(
        min_length=1, description="Pairs of texts by concept; the direction points from the first to the second."
    )


class PairsFile(Part):
    """Concepts in a YAML file: a mapping from concept to pairs."""

    file: Annotated[Path, AsPath] = Field(description="The file, relative to the study file or absolute.")


class ShippedPairs(Part):
    """The concepts that come with reporter."""

    shipped: Literal["concepts"] = Field(description="'concepts': at least ten concepts of ten pairs each.")


_read_mapping = one_of(
    {"concepts": WrittenPairs, "file": PairsFile, "shipped": ShippedPairs}, "{female-male: [[She left., He left.], …]}"
)


def written_pairs(value: Any) -> WrittenPairs:
    """Return concepts from the mapping that a study or a file of pairs holds."""
    return under(WrittenPairs, "concepts", value)


def _pairs(value: Any, info: ValidationInfo) -> Any:
    if value == "shipped":
        value = {"shipped": "concepts"}
    if isinstance(value, dict) and not ({"file", "shipped"} & value.keys()):
        return written_pairs(value)
    return _read_mapping(value, info)


PairsSpec = Annotated[
    WrittenPairs | PairsFile | ShippedPairs,
    BeforeValidator(_pairs, json_schema_input_type=Literal["shipped"] | dict[str, list[list[str]]] | PairsFile),
]
"""``shipped``, ``{file: …}``, or pairs of texts by concept."""

_RANDOM = (
    "Chance level: texts of the set paired at random, mean over 100 sets with the same numbers of concepts and pairs "
    "(each text at most once per concept)."
)
_SIGNS = (
    "p is the probability of a value at least as large when the sign of each difference is random: (k + 1)/10000 from "
    "9,999 draws."
)

_of_pairs = partial(Statistic, floor=True, noise="chance")
_main = partial(_of_pairs, main=True)

STATISTICS = (
    _main(
        "consistency",
        "consistency of a concept's differences",
        "Mean over the pairs i of a concept of cos(δ_i, Σ_{j≠i} δ_j), then over the concepts of the set. δ_i is the "
        f"pooled vector of the second text minus the pooled vector of the first. {_RANDOM} The table pair_directions "
        f"has each concept with its p. {_SIGNS} Pairs whose texts have the same vector (‖δ‖ ≤ 1e-5 of the texts' mean "
        "norm) are left out, and concepts with fewer than two remaining pairs. The mean hides concepts with opposite "
        "profiles; the table concept_answers has each concept.",
        ("luisto2024toybox", "fisher1935design", "efron1979bootstrap"),
        short="consistency",
        interval="95 % CI over pairs (bootstrap). 1000 percentile replicates over the pairs of each concept. Copies "
        "of a pair are left out of the sum that it is compared with. Replicates have fewer distinct pairs and so "
        "lower values; they are shifted to have the number as their mean. None with fewer than 5 pairs. It covers 93 "
        "to 98 % of simulated concepts of 10 to 40 pairs, and says nothing about other concepts.",
        bounds=(-1, 1),
        plainly="How much the differences of a concept's pairs agree in direction.",
        trap="Grows with the number of pairs: compare concepts of equal size. A word that all second texts share "
        "makes it large even at the embedding.",
    ),
    _main(
        "aligned",
        "absolute cosine between concepts",
        "Mean over all pairs of concepts of |cos(δ̄_a, δ̄_b)|, with δ̄ the mean difference of a concept. n is the "
        f"number of pairs of concepts. {_RANDOM} The table direction_cosines has each cosine with its sign and p. "
        f"{_SIGNS} The value is |mean_i δ_ai · δ̄_b/‖δ̄_b‖| = ‖δ̄_a‖·|cos|, with random signs of the pairs of a. The "
        "same is done with a and b exchanged, and p is the larger of both. A small p excludes chance in the choice of "
        "pairs, not in the choice of directions.",
        ("luisto2024toybox", "fisher1935design"),
        short="absolute cosine",
        bounds=(0, 1),
        plainly="How much the directions of two concepts overlap.",
        trap="In few dimensions even unrelated concepts have |cosine| above 0: compare with the chance level, not "
        "with 0.",
    ),
    _of_pairs(
        "relative_norm",
        "length of the mean difference",
        "Mean over the concepts of the set of ‖δ̄‖ divided by the mean norm of the pooled vectors of the concept's 2n "
        f"texts. δ̄ is the mean difference of a concept. {_RANDOM} The table pair_directions has each concept.",
        ("luisto2024toybox",),
        short="length of the mean difference",
        bounds=(0, 2),
        trap="Most of a pooled vector's norm is common to all texts (see anisotropy), so a small ratio may still be a "
        "clear direction.",
    ),
)

_SAME = "no concept has two pairs whose texts have different vectors here"

Concepts = Mapping[str, Sequence[tuple[str, str]]]
ByConcept = Mapping[str, _directions.Differences]


class OfPairs(OfModel, metric="pairs"):
    """A row about a set of concepts."""

    pair_set = of_cell("name of the set of concepts in the study", part="corpus")


class PairDirection(OfPairs, table="pair_directions"):
    """A concept at one layer: do the differences of its pairs of texts point in the same direction?"""

    compared = (
        Comparable(("norm", "relative_norm"), "pair_set || ': ' || concept"),
        Comparable(("consistency",), "pair_set || ': ' || concept", interval=True),
    )

    concept: str = column("the concept: second minus first", key=True)
    pooling: str = column(POOLED)
    place: Place = at_place()
    consistency: float | None = column("mean cosine of each difference with the mean of the other differences")
    ci_low: float | None = column(LOW)
    ci_high: float | None = column(HIGH)
    p: float | None = column(
        "probability of a consistency at least as large when the sign of each difference is random"
    )
    chance: float | None = column(
        "chance level: mean consistency of equally many pairs of texts of the set, paired at random, in 100 draws"
    )
    norm: float = column("norm of the mean difference")
    relative_norm: float | None = column("norm of the mean difference divided by the mean norm of the texts' vectors")
    n: int = column("number of pairs", "BIGINT")
    same: int = column(
        "number of pairs whose texts have the same vector here; they are left out of the consistency", "BIGINT"
    )
    same_token: str | None = column(f"{SAME_TOKEN}; for this concept")


class PairText(OfPairs, table="pair_texts"):
    """A pair of texts at one layer: how well its difference agrees with the other pairs of the concept."""

    concept: str = column("the concept", key=True)
    pair: int = column("number of the pair, from 1, in the order of the study", key=True)
    pooling: str = column(POOLED)
    place: Place = at_place()
    cosine: float = column(
        "cosine of its difference with the sum of the other differences; its mean is the consistency"
    )
    influence: float = column(
        "(m - 1) times the change of the consistency of the concept's m pairs without this pair; layers are compared "
        "by these numbers"
    )


class DirectionCosine(OfPairs, table="direction_cosines"):
    """Two concepts at one layer: the cosine of their mean differences."""

    compared = (Comparable(("cosine",), "pair_set || ': ' || concept_a || ' | ' || concept_b"),)

    concept_a: str = column("the first concept", key=True)
    concept_b: str = column("the second concept", key=True)
    pooling: str = column(POOLED)
    place: Place = at_place()
    cosine: float | None = column("cosine of the two mean differences")
    p: float | None = column(
        "probability of a mean projection on the other concept's direction at least as far from 0 when the sign of "
        "each difference is random; the larger of both orders"
    )
    n_a: int = column("pairs of the first concept", "BIGINT")
    n_b: int = column("pairs of the second concept", "BIGINT")


def _resolve(spec: WrittenPairs | PairsFile | ShippedPairs, folder: Path) -> WrittenPairs:
    if isinstance(spec, WrittenPairs):
        return spec
    path = folder / spec.file if isinstance(spec, PairsFile) else LISTS / f"{spec.shipped}.yaml"
    return read_list(path, "{female-male: [[She left., He left.], …]}", written_pairs)


@analysis(
    title="Concepts as directions",
    summary="Do pairs of texts that differ in one concept differ in the same direction? How similar are the directions "
    "of several concepts?",
    question="directions",
    statistics=STATISTICS,
    cost="a forward pass over the pairs; per concept and layer, a thousand replicates and ten thousand sign flips, on "
    "products of its pairs",
    tables=(PairDirection, PairText, DirectionCosine, Point),
    version=5,  # pairs are numbered from 1
    charts=(CONCEPTS, PAIR_POINTS, DIRECTIONS),
    section=Section(
        PairsSpec,
        "Sets of concepts, each with pairs of texts that differ in it; 'shipped' for the concepts of reporter.",
        ("set of pairs", "sets of pairs"),
        example="{concepts: shipped}",
    ),
    resolve=_resolve,
    pooled=True,
    baselines=True,
)
def pairs(item: WrittenPairs, context: Context) -> Iterator[Row]:
    """Yield what the concepts' differences have in common at each place, within a concept and between two."""
    from reporter.metrics._items import pooled, same_token

    concepts: Concepts = item.concepts
    vectors = pooled([text for pairs in concepts.values() for pair in pairs for text in pair], context)
    shared = {
        name: same_token([text for pair in text_pairs for text in pair], context)
        for name, text_pairs in concepts.items()
    }
    signs = {
        name: _directions.turned(len(pairs), stream(context.seed, "turns", name)) for name, pairs in concepts.items()
    }
    for done, place in enumerate(context.layout.places, 1):
        x = vectors[place]
        concept_differences, start = {}, 0
        for name, pairs in concepts.items():
            of_concept = x[start : start + 2 * len(pairs)]
            concept_differences[name] = _directions.differences(of_concept[::2], of_concept[1::2])
            start += 2 * len(pairs)
        sizes = [len(pairs) for pairs in concepts.values()]
        chance = _directions.by_chance(x, sizes, stream(context.seed, "random pairs"))
        yield from _of_concepts(place, concept_differences, chance, shared, context)
        yield from _between(place, concept_differences, signs, chance, context.pooling)
        yield from _points(place, concept_differences, concepts)
        context.tell("layers", done, len(context.layout.places))


def _mean(
    name: str, place: Place, values: list[float], n: int, floor: float | None, why: str, ends: Interval = (None, None)
) -> Value:
    """Return the mean over concepts, with what it reads on texts paired at random."""
    if not values:
        return Value(name, place, None, 0, reason=why)
    return Value(name, place, float(np.mean(values)), n, *ends, floor=floor)


def _of_concepts(
    place: Place, concepts: ByConcept, chance: _directions.ByChance, shared: Mapping[str, str | None], context: Context
) -> Iterator[Row]:
    """Yield what the differences of each concept have in common, and the means over concepts."""
    consistent, replicates, norms, pairs = [], [], [], 0
    for (name, differences), by_luck in zip(concepts.items(), chance.consistencies, strict=True):
        x, value, p = differences.different, None, None
        ends: Interval = None, None
        if len(x) > 1:
            value = _directions.consistency(x)
            p = _directions.consistency_p(x, stream(context.seed, "consistency", name))
            replicates.append(_directions.resampled(x, stream(context.seed, "resampled", name)))
            ends = percentile_interval(replicates[-1], len(x))
            consistent.append(value)
            pairs += len(x)
        norm, n = float(np.linalg.norm(differences.mean)), len(differences.vectors)
        relative = norm / differences.scale if differences.scale > 0 else None
        norms += [] if relative is None else [relative]
        numbers = (value, *ends, p, by_luck, norm, relative, n, n - len(x), shared[name])
        yield PairDirection(name, context.pooling, place, *numbers)
        if len(x) > 2:
            which = np.flatnonzero(np.any(differences.vectors != 0, axis=1)).tolist()
            of_pairs = (part.tolist() for part in _directions.cosines_and_influences(x))
            for pair, cosine, influence in zip(which, *of_pairs, strict=True):
                yield PairText(name, pair + 1, context.pooling, place, cosine, influence)
    of_mean = percentile_interval(np.mean(replicates, axis=0), pairs) if consistent else (None, None)
    yield _mean("consistency", place, consistent, pairs, chance.consistency, _SAME, of_mean)
    whole = sum(len(differences.vectors) for differences in concepts.values())
    yield _mean("relative_norm", place, norms, whole, chance.relative_norm, "all vectors are zero here")


def _between(
    place: Place, concepts: ByConcept, signs: Mapping[str, Floats], chance: _directions.ByChance, pooling: str
) -> Iterator[Row]:
    directions = {name: differences.direction for name, differences in concepts.items()}
    for (a, of_a), (b, of_b) in combinations(concepts.items(), 2):
        x, y, cosine, p = directions[a], directions[b], None, None
        if x is not None and y is not None:
            cosine = float(np.clip(x @ y, -1.0, 1.0))
            p = _directions.cosine_p(of_a.vectors, of_b.vectors, signs[a], signs[b])
        yield DirectionCosine(a, b, pooling, place, cosine, p, len(of_a.vectors), len(of_b.vectors))
    cosines = _directions.aligned([x for x in directions.values() if x is not None])
    few = "fewer than two concepts have a direction here"
    if len(concepts) < 2:
        few = "there is one concept alone"
    yield _mean("aligned", place, cosines, len(cosines), chance.aligned, few)


def _points(place: Place, concept_differences: ByConcept, concepts: Concepts) -> Iterator[Point]:
    scores = coordinates(
        np.concatenate([differences.vectors for differences in concept_differences.values()]), 2, centred=False
    )
    start = 0
    for name, pairs in concepts.items():
        points = scores[start : start + len(pairs)]
        start += len(pairs)
        for row in evenly(len(pairs), MOST_POINTS):
            first, second = pairs[row]
            yield Point("pca", place, name, row, f"{label(first)} → {label(second)}", *points[row].tolist())
        yield Point("pca", place, f"mean {name}", 0, f"mean of {name}", *points.mean(axis=0).tolist())
