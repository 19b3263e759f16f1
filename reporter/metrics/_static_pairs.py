"""Norms and pairs of static vectors: how they are distributed, and which are at the ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import torch

from reporter.core.table import Row
from reporter.geometry.arrays import Floats, Ints, Progress, silent
from reporter.geometry.clouds import Histogram, Summary
from reporter.geometry.noise import cosine_above
from reporter.geometry.pairs import Measure, TableRows, Tile, Top, Workspace, tiles
from reporter.metrics import vocabulary as tables
from reporter.metrics._items import HistogramBin
from reporter.metrics._static_vectors import Kind

End = Literal["most", "least"]

Among = Literal["all", "text"]
"""Every token, or those that are text: not special, not unused, not single bytes, and with a name. Tokens that were
never trained are so much alike that among all of them no others are seen."""

Shown = Sequence[str | None]
"""How each token reads."""

MOST_OUTLIERS = 100  # token–position pairs that are listed


def distribution(measure: str, part: str, summary: Summary) -> Iterator[Row]:
    """Yield mean, standard deviation and bins of a distribution.

    Distances of pairs are √(‖x‖² + ‖y‖² − 2⟨x, y⟩) in float32, which tells nothing below 1/1000 of the norms.
    """
    for fact, value in (("mean", summary.mean), ("standard deviation", summary.sd)):
        yield tables.VocabularyFact(f"{measure} of {part}: {fact}", value, f"n = {summary.n:,}")
    edges = summary.edges.tolist()
    for low, high, count in zip(edges[:-1], edges[1:], summary.counts.tolist(), strict=True):
        yield HistogramBin(measure, part, None, low, high, count)


def norms_of_kind(kind: Kind, norms: Floats) -> Iterator[Row]:
    """Yield the distribution of norms, in float64 before they are counted; those of zero rows are left out."""
    kept = norms[norms > 0]
    histogram = Histogram(0, float(kept.max()))
    histogram.take(torch.from_numpy(kept).float(), Workspace(torch.device("cpu")))
    yield from distribution("norm", kind, histogram.summary())


def pairs_of(
    part: str,
    a: TableRows,
    b: TableRows | None = None,
    also: Sequence[PairExtremes | OutlierPairs] = (),
    progress: Progress = silent,
) -> Iterator[Row]:
    """Yield the distributions of all pairs within ``a``, or of ``a`` with ``b``; one walk feeds ``also``, too."""
    if len(a) < 2 if b is None else not (len(a) and len(b)):
        return
    longest, longest_other = (float(rows.norms.max()) for rows in (a, a if b is None else b))
    histograms: dict[Measure, Histogram] = {
        "cosine": Histogram(-1, 1),
        "distance": Histogram(0, longest + longest_other),
        "dot": Histogram(-longest * longest_other, longest * longest_other),  # Cauchy and Schwarz
    }
    for tile in tiles(a, b, f"{part} pairs", progress):
        for consumer in also:
            consumer.take(tile)
        for measure, histogram in histograms.items():
            histogram.take(tile.values(measure), tile.workspace)
    for measure, histogram in histograms.items():
        yield from distribution(measure, part, histogram.summary())


class PairExtremes:
    """Takes in the tiles of tokens, and keeps the k pairs at both ends of each measure.

    The first ``candidates`` rows take part; ``among`` says what these are.
    """

    def __init__(self, k: int, candidates: int, among: Among = "all") -> None:
        self._among: Among = among
        self._tops: dict[tuple[Measure, End], Top] = {
            (measure, end): Top(measure, (end == "most") == (measure != "distance"), k, candidates, candidates)
            for measure in ("cosine", "distance", "dot")
            for end in ("most", "least")
        }

    def take(self, tile: Tile) -> None:
        """Take in one tile."""
        for top in self._tops.values():
            top.take(tile)

    def pairs(self, rows: TableRows, shown: Shown) -> Iterator[tables.VocabularyExtreme]:
        """Yield the pairs of the rows that were taken in; of distances the smallest are the most similar."""
        for (measure, end), top in self._tops.items():
            best = top.best(rows, rows)
            ids = np.sort(np.stack([rows.ids(best.rows), rows.ids(best.columns)], axis=1), axis=1)
            for rank, ((a, b), value) in enumerate(zip(ids.tolist(), best.values, strict=True), 1):
                yield tables.VocabularyExtreme(
                    *(self._among, "token–token", measure, end, rank, a, shown[a], b, shown[b]),
                    *(float(value), best.certain),
                )


class OutlierPairs:
    """Takes in the tiles of tokens with positions, and keeps those whose |cosine| is above a threshold."""

    def __init__(self, threshold: float, tokens: int, positions: int, most: int = MOST_OUTLIERS) -> None:
        self._threshold, self._pairs, self._count = threshold, tokens * positions, 0
        self._top = Top("cosine", True, most, tokens, positions, absolute=True)

    def take(self, tile: Tile) -> None:
        """Take in one tile."""
        self._top.take(tile)
        cosines = tile.matrix("cosine")
        if float(cosines.abs().max()) > self._threshold:
            self._count += int((cosines.abs() > self._threshold).sum())

    def rows(self, tokens: TableRows, positions: TableRows, shown: Shown) -> Iterator[Row]:
        """Yield the pairs with the largest |cosine|, how many are above the threshold, and how many by chance."""
        best = self._top.best(tokens, positions)
        ids = zip(tokens.ids(best.rows).tolist(), positions.ids(best.columns).tolist(), strict=True)
        for rank, ((token, position), value) in enumerate(zip(ids, best.values.tolist(), strict=True), 1):
            if abs(value) > self._threshold:
                yield tables.VocabularyExtreme(
                    *("all", "token–position", "cosine", "outlier", rank, token, shown[token]),
                    *(position, str(position), value, None),
                )
        chance = self._pairs * cosine_above(self._threshold, tokens.table.shape[1])
        yield tables.VocabularyFact("outlier threshold", self._threshold, "|cosine| of a token and a position")
        yield tables.VocabularyFact("outliers", float(self._count), f"of {self._pairs:,} pairs")
        yield tables.VocabularyFact("outliers by chance", chance, "if the directions of one side were random")


def ranked(
    measures: Mapping[str, Floats], usable: Ints, k: int, among: Among, shown: Shown
) -> Iterator[tables.VocabularyExtreme]:
    """Yield the k tokens at both ends of each measure, (V,), out of the ids that take part."""
    for name, values in measures.items():
        order = usable[np.argsort(values[usable], kind="stable")]
        for end, ids in (("smallest", order[:k]), ("largest", order[::-1][:k])):
            for rank, i in enumerate(ids.tolist(), 1):
                yield tables.VocabularyExtreme(
                    *(among, "token", name, end, rank, i, shown[i]), *(None, None, float(values[i]), None)
                )
