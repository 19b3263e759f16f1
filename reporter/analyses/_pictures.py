"""Pictures of analyses: points, bins and curves; texts as points on the first two principal components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from reporter.analyses._samples import evenly, label
from reporter.geometry.arrays import Floats
from reporter.geometry.components import coordinates
from reporter.table import ALL_GROUPS, WEIGHTS, OfModel, at_place, column, of_cell

if TYPE_CHECKING:
    from reporter.forward.places import Place

MOST_POINTS = 300  # of one part


class OfItem(OfModel):
    """What an analysis finds in an item, in a table that several analyses share."""

    analysis = of_cell("'journeys', 'groups', 'pairs', 'clouds', 'probes' or 'vocabulary'", part="metric")
    item = of_cell(f"its name in the study; '{ALL_GROUPS}' and '{WEIGHTS}' where all are one", part="corpus")


class Point(OfItem, table="projections"):
    """A point of a picture: vectors of a layer, of a path through the layers or of the weights in 2 or 3 dims."""

    projection: str = column(
        "how it was made: 'pca' (each layer by itself), 'pca-joint' (all layers and texts in one plane), "
        "'pca-joint-without-last', 'tsne' or 'umap'; '… of token' where only one kind of vector took part",
        key=True,
    )
    place: Place | None = at_place()
    part: str = column(
        "what the point belongs to: a group, concept, class, corpus, text or kind of vector; 'mean …' is the mean "
        "difference of a concept",
        key=True,
    )
    point: int = column("which one it is: text, pair, position, token id or position vector", key=True)
    label: str | None = column("what a reader calls it: the token, or the text's first words")
    x: float = column("first coordinate")
    y: float = column("second coordinate")
    z: float | None = column("third coordinate; NULL in a picture of two dimensions", default=None)


class HistogramBin(OfItem, table="histograms"):
    """One bin of a distribution."""

    measure: str = column("'norm', 'distance', 'dot' or 'cosine'", key=True)
    part: str = column("of what: 'token', 'token–position', a corpus, or two corpora", key=True)
    place: Place | None = at_place()
    low: float = column("lower end of the bin", key=True)
    high: float = column("upper end")
    count: int = column("how many are in it", "BIGINT")


class Explained(OfItem, table="explained_variance"):
    """How much of the variance the first principal components hold."""

    part: str = column("of what: 'token', 'token and position', a corpus", key=True)
    place: Place | None = at_place()
    components: int = column("how many", key=True)
    share: float = column("share of the variance that they hold together")
    n: int = column("vectors", "BIGINT")


def points(place: Place, parts: Mapping[str, Floats], texts: Mapping[str, Sequence[str]]) -> Iterator[Point]:
    """Yield at most ``MOST_POINTS`` texts of each part, on components of the vectors of all parts together.

    Args:
        place: where the vectors are from.
        parts: vectors of each part, (n, d).
        texts: the text of each.
    """
    at = coordinates(np.concatenate(list(parts.values())), 2)
    start = 0
    for part, x in parts.items():
        for row in evenly(len(x), MOST_POINTS):
            yield Point("pca", place, part, row, label(texts[part][row]), *at[start + row].tolist())
        start += len(x)
