"""Pairs: texts that differ in one concept. Is the difference a direction, and do two concepts share one?

Points: the projection ``pca`` holds the differences of all concepts at a layer on their first two components, taken
about the origin and not about their mean, so that (0, 0) is "no difference". A concept's differences are the part
called like the concept; its mean difference is the one point of the part ``mean <concept>``, the end of an arrow from
the origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.analyses.analysis import POOLED, Analysis, Context
from reporter.analyses.directions import (
    ByChance,
    Differences,
    Floats,
    aligned,
    by_chance,
    consistency,
    consistency_p,
    cosine_p,
    differences,
    resampled,
    turned,
)
from reporter.analyses.pair_charts import CHARTS
from reporter.analyses.pair_statistics import STATISTICS
from reporter.analyses.pictures import MOST_POINTS, Point
from reporter.analyses.samples import evenly, label, stream
from reporter.analyses.yaml_lists import LISTS, read_list
from reporter.geometry.components import coordinates
from reporter.geometry.intervals import percentile_interval
from reporter.metrics.base import Value
from reporter.table import HIGH, LOW, OfModel, Row, at_place, column, of_cell

if TYPE_CHECKING:
    from reporter.forward.places import Place
    from reporter.spec import Study

_SAME = "no concept has two pairs whose texts have different vectors here"

Concepts = Mapping[str, list[list[str]]]


class OfPairs(OfModel, metric="pairs"):
    """What is found in a set of concepts."""

    pairs = of_cell("name of the set of concepts in the study", part="corpus")


class PairDirection(OfPairs, table="pair_directions"):
    """A concept at one layer: do the differences of its pairs of texts point the same way?"""

    concept: str = column("the concept: second minus first", key=True)
    pooling: str = column(POOLED)
    place: Place = at_place()
    consistency: float | None = column("mean cosine of each difference with the mean of the others")
    ci_low: float | None = column(LOW)
    ci_high: float | None = column(HIGH)
    p: float | None = column(
        "probability of such a consistency, or a larger one, if each pair were turned round at random"
    )
    norm: float = column("norm of the mean difference")
    relative_norm: float | None = column("that norm over the mean norm of the texts' vectors")
    n: int = column("pairs", "BIGINT")
    same: int = column(
        "of them, those whose two texts have the same vector here; they have no part in the consistency", "BIGINT"
    )


class DirectionCosine(OfPairs, table="direction_cosines"):
    """Two concepts at one layer: the cosine of their mean differences."""

    concept_a: str = column("the first concept", key=True)
    concept_b: str = column("the second", key=True)
    pooling: str = column(POOLED)
    place: Place = at_place()
    cosine: float | None = column("cosine of the two mean differences")
    p: float | None = column(
        "probability of a mean projection of one concept's differences on the other's direction at least as "
        "far from 0 if its pairs were turned round at random; the larger of the two, once for either concept"
    )
    n_a: int = column("pairs of the first", "BIGINT")
    n_b: int = column("pairs of the second", "BIGINT")


def _items(study: Study) -> Mapping[str, Any]:
    return study.pairs


def _resolve(item: Any, folder: Path) -> Any:
    from reporter.spec.pairs import PairsFile, WrittenPairs, written_pairs

    if not isinstance(item, WrittenPairs):
        path = folder / item.file if isinstance(item, PairsFile) else LISTS / f"{item.shipped}.yaml"
        item = read_list(path, "{female-male: [[She left., He left.], …]}", written_pairs)
    return {"concepts": {name: [list(pair) for pair in pairs] for name, pairs in item.concepts.items()}}


def _compute(item: Any, context: Context) -> Iterator[Row]:
    from reporter.analyses.pooled import pooled

    concepts: Concepts = item["concepts"]
    texts = [text for pairs in concepts.values() for pair in pairs for text in pair]
    vectors = pooled(texts, context)
    signs = {name: turned(len(pairs), stream(context.seed, "turns", name)) for name, pairs in concepts.items()}
    for done, place in enumerate(context.layout.places, 1):
        x = vectors[place]
        found, start = {}, 0
        for name, pairs in concepts.items():
            of_concept = x[start : start + 2 * len(pairs)]
            found[name] = differences(of_concept[::2], of_concept[1::2])
            start += 2 * len(pairs)
        rows = list(_at(place, found, signs, context))
        yield from rows
        sizes = [len(pairs) for pairs in concepts.values()]
        chance = by_chance(x, sizes, stream(context.seed, "random pairs"))
        yield from _floors([row for row in rows if isinstance(row, Value)], chance)
        yield from _points(place, found, concepts)
        context.tell("layers", done, len(context.layout.places))


def _at(place: Place, found: Mapping[str, Differences], signs: Mapping[str, Floats], context: Context) -> Iterator[Row]:
    consistent, replicates, norms, pairs = [], [], [], 0
    for name, of in found.items():
        x, value, low, high, p = of.different, None, None, None, None
        if len(x) > 1:
            value, p = consistency(x), consistency_p(x, stream(context.seed, "consistency", name))
            replicates.append(resampled(x, stream(context.seed, "resampled", name)))
            low, high = percentile_interval(replicates[-1], len(x))
            consistent.append(value)
            pairs += len(x)
        norm, n = float(np.linalg.norm(of.mean)), len(of.vectors)
        relative = norm / of.scale if of.scale > 0 else None
        norms += [] if relative is None else [relative]
        yield PairDirection(name, context.pooling, place, value, low, high, p, norm, relative, n, n - len(x))
    whole = sum(len(of.vectors) for of in found.values())
    if consistent:
        ends = percentile_interval(np.mean(replicates, axis=0), pairs)
        yield Value("consistency", place, float(np.mean(consistent)), pairs, *ends)
    else:
        yield Value("consistency", place, None, 0, reason=_SAME)
    if norms:
        yield Value("relative_norm", place, float(np.mean(norms)), whole)
    else:
        yield Value("relative_norm", place, None, 0, reason="all vectors are zero here")
    yield from _between(place, found, signs, context.pooling)


def _between(
    place: Place, found: Mapping[str, Differences], signs: Mapping[str, Floats], pooling: str
) -> Iterator[Row]:
    directions = {name: of.direction for name, of in found.items()}
    for a, b in combinations(found, 2):
        x, y, cosine, p = directions[a], directions[b], None, None
        if x is not None and y is not None:
            cosine = float(np.clip(x @ y, -1.0, 1.0))
            p = cosine_p(found[a].vectors, found[b].vectors, signs[a], signs[b])
        yield DirectionCosine(a, b, pooling, place, cosine, p, len(found[a].vectors), len(found[b].vectors))
    cosines = aligned([x for x in directions.values() if x is not None])
    if cosines:
        yield Value("aligned", place, float(np.mean(cosines)), len(cosines))
    else:
        few = "there is one concept alone" if len(found) < 2 else "fewer than two concepts have a direction here"
        yield Value("aligned", place, None, 0, reason=few)


def _floors(values: Sequence[Value], chance: ByChance) -> Iterator[Value]:
    """Yield the floor of each number that there is."""
    for value in values:
        floor: float | None = getattr(chance, value.statistic)
        if value.value is not None and floor is not None:
            yield Value(f"{value.statistic}_floor", value.place, floor, value.n)


def _points(place: Place, found: Mapping[str, Differences], concepts: Concepts) -> Iterator[Point]:
    at = coordinates(np.concatenate([of.vectors for of in found.values()]), 2, centred=False)
    start = 0
    for name, pairs in concepts.items():
        own = at[start : start + len(pairs)]
        start += len(pairs)
        for row in evenly(len(pairs), MOST_POINTS):
            first, second = pairs[row]
            yield Point("pca", place, name, row, f"{label(first)} → {label(second)}", *own[row].tolist())
        yield Point("pca", place, f"mean {name}", 0, f"mean of {name}", *own.mean(axis=0).tolist())


PAIRS = Analysis(
    name="pairs",
    title="Pairs that differ in one concept",
    summary="Whether the difference of two texts that differ in one concept is a direction that all its pairs share, "
    "and how the directions of several concepts lie to each other.",
    statistics=STATISTICS,
    cost="a forward pass over the pairs; a thousand replicates and ten thousand turns of each concept at each layer, "
    "on products of its pairs alone",
    tables=(PairDirection, DirectionCosine, Point),
    charts=CHARTS,
    items=_items,
    resolve=_resolve,
    compute=_compute,
    pooled=True,
    baselines=True,
)
