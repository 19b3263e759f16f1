"""Clouds: the texts of two or more corpora as points. Do they lie apart, and of what shape are they?

Points: the projection ``pca`` holds at most 300 texts of each corpus on components of all texts together; a corpus is
a part. Histograms: a corpus, or two (``a–b``), is a part; all parts of a measure at a place have the same bins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.analyses.analysis import Analysis, Context
from reporter.analyses.cloud_charts import CHARTS
from reporter.analyses.cloud_statistics import FOLDS, STATISTICS
from reporter.analyses.crossval import all_the_same, cross_validated, linear, stratified
from reporter.analyses.pictures import Explained, HistogramBin, Point, points
from reporter.analyses.samples import drawn_texts, stream
from reporter.errors import ReporterError
from reporter.geometry.arrays import Floats
from reporter.geometry.clouds import overlap, spreads
from reporter.geometry.components import components
from reporter.geometry.histograms import counted
from reporter.geometry.intervals import normal_interval, wilson
from reporter.metrics.base import Value
from reporter.table import Row

if TYPE_CHECKING:
    from reporter.forward.places import Place
    from reporter.spec import Study

MOST_COMPONENTS = 50  # of the curves of explained variance


def _items(study: Study) -> Mapping[str, Any]:
    return study.clouds


def _corpora(item: Any) -> tuple[str, ...]:
    return tuple(item.corpora)


def _compute(item: Any, context: Context) -> Iterator[Row]:
    from reporter.analyses.pooled import pooled

    texts, vectors = {}, {}
    for name in item["corpora"]:
        corpus = context.corpora[name]
        texts[name] = drawn_texts(corpus, item["sample"], context)
        if not texts[name]:
            raise ReporterError(f"the tokenizer finds no token in any text of corpus '{name}'")
        vectors[name] = pooled(texts[name], context, corpus.max_tokens, name)
    places = context.layout.places
    for done, place in enumerate(places, 1):
        clouds = {name: of[place] for name, of in vectors.items()}
        yield from _values(place, clouds, context.seed)
        for histogram in counted(clouds):
            for low, high, count in zip(histogram.edges, histogram.edges[1:], histogram.counts, strict=False):
                yield HistogramBin(histogram.measure, histogram.part, place, float(low), float(high), int(count))
        for name, x in clouds.items():
            yield from _explained(place, name, x)
        yield from points(place, clouds, texts)
        context.tell("layers", done, len(places))


def _explained(place: Place, name: str, x: Floats) -> Iterator[Explained]:
    shares = np.zeros(0) if all_the_same(x) else components(x, MOST_COMPONENTS).shares
    for number, share in enumerate(np.cumsum(shares).tolist(), 1):
        yield Explained(name, place, number, min(share, 1.0), len(x))


def _values(place: Place, clouds: Mapping[str, Floats], seed: int) -> Iterator[Value]:
    x = np.concatenate(list(clouds.values()))
    y = np.repeat(np.arange(len(clouds)), [len(of) for of in clouds.values()])
    few = [name for name, of in clouds.items() if len(of) < FOLDS]
    reason = f"corpus '{few[0]}' has fewer than {FOLDS} different texts" if few else ""
    if not reason and all_the_same(x):
        reason = "all texts have the same vector here"
    if reason:
        for statistic in STATISTICS:
            yield Value(statistic.name, place, None, 0, reason=reason)
        return
    n = len(x)
    told = cross_validated(x, y, stratified(y, FOLDS, stream(seed, "folds")), linear(len(clouds)))
    yield Value("separability", place, told.accuracy, n, *wilson(int(told.right.sum()), n))
    yield Value("separability_floor", place, float(np.bincount(y).max() / n), n)
    yield _centroids(place, clouds, x, y)
    mixed, low, high = normal_interval(overlap(x, y))
    yield Value("overlap", place, mixed, n, max(0.0, low), high)


def _centroids(place: Place, clouds: Mapping[str, Floats], x: Floats, y: Any) -> Value:
    within = [spread.within for spread in spreads(x, y).groups]
    means = [of.mean(axis=0) for of in clouds.values()]
    found = []
    for a, b in combinations(range(len(means)), 2):
        if within[a] + within[b] == 0:
            why = "all texts of a corpus have the same vector here"
            return Value("centroid_distance", place, None, 0, reason=why)
        found.append(float(np.linalg.norm(means[a] - means[b])) / ((within[a] + within[b]) / 2))
    return Value("centroid_distance", place, float(np.mean(found)), len(x))


CLOUDS = Analysis(
    name="clouds",
    title="Corpora as clouds of points",
    summary="Where the texts of two or more corpora lie: how long their vectors are, how far they lie from each other, "
    "and how well a linear classifier tells the corpora apart.",
    statistics=STATISTICS,
    cost="a forward pass over the samples; all their distances and five classifiers at each layer",
    tables=(HistogramBin, Explained, Point),
    charts=CHARTS,
    items=_items,
    compute=_compute,
    corpora=_corpora,
    pooled=True,
    baselines=True,
)
