"""How norms, and distances, dot products and cosines of pairs are distributed, within and between kinds of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from reporter.geometry.arrays import Floats, Progress, silent
from reporter.geometry.histograms import Histogram, Summary
from reporter.geometry.pairs import MEASURES, Tile, Workspace, pairs_between, pairs_within
from reporter.geometry.rows import Measure, Rows
from reporter.weights.kinds import Kind


@dataclass(frozen=True)
class Distribution:
    """One distribution.

    Args:
        measure: ``norm``, or what is measured of pairs. Distances are √(‖x‖² + ‖y‖² − 2⟨x, y⟩) in float32, which
            tells nothing below 1/1000 of the norms.
        kind_a: of one side.
        kind_b: of the other side, the same one within a kind; None for norms.
        rows_a: rows of ``kind_a`` that are not zero.
        rows_b: of ``kind_b``.
        summary: the numbers.
    """

    measure: Measure | Literal["norm"]
    kind_a: Kind
    kind_b: Kind | None
    rows_a: int
    rows_b: int | None
    summary: Summary


class PairHistograms:
    """Takes in tiles, and fills a histogram of each measure.

    Args:
        a: norms of one side, at least one.
        b: norms of the other.
    """

    def __init__(self, a: Floats, b: Floats) -> None:
        largest, sum_of_largest = float(a.max() * b.max()), float(a.max() + b.max())
        self._histograms: dict[Measure, Histogram] = {
            "cosine": Histogram(-1, 1),
            "distance": Histogram(0, sum_of_largest),
            "dot": Histogram(-largest, largest),  # Cauchy and Schwarz
        }

    def take(self, tile: Tile) -> None:
        """Count the pairs of one tile."""
        for measure, histogram in self._histograms.items():
            histogram.take(tile.values(measure), tile.workspace)

    def summaries(self) -> dict[Measure, Summary]:
        """Return what was counted."""
        return {measure: histogram.summary() for measure, histogram in self._histograms.items()}


def of_norms(kind: Kind, norms: Floats) -> Distribution:
    """Return the distribution of norms, in float64 before they are counted; those of zero rows are left out."""
    kept = norms[norms > 0]
    histogram = Histogram(0, float(kept.max()))
    histogram.take(torch.from_numpy(kept).float(), Workspace(torch.device("cpu")))
    return Distribution("norm", kind, None, len(kept), None, histogram.summary())


def gathered(filled: PairHistograms, kinds: tuple[Kind, Kind], rows: tuple[int, int]) -> list[Distribution]:
    """Return the three distributions of filled histograms.

    Args:
        filled: the histograms.
        kinds: of both sides.
        rows: on both sides.
    """
    found = filled.summaries()
    return [Distribution(measure, *kinds, *rows, found[measure]) for measure in MEASURES]


def within(kind: Kind, rows: Rows, progress: Progress = silent) -> list[Distribution]:
    """Return the distributions of a kind's own pairs; none for fewer than two rows.

    Args:
        kind: what the rows are called.
        rows: the rows.
        progress: told of each block.
    """
    n = len(rows)
    if n < 2:
        return []
    filled = PairHistograms(rows.norms, rows.norms)
    pairs_within(rows, [filled], what=f"{kind}–{kind} pairs", progress=progress)
    return gathered(filled, (kind, kind), (n, n))


def between(kinds: tuple[Kind, Kind], a: Rows, b: Rows, progress: Progress = silent) -> list[Distribution]:
    """Return the distributions of pairs of two kinds; none where one of them has no rows.

    Args:
        kinds: what they are called.
        a: rows of the first.
        b: rows of the second.
        progress: told of each block.
    """
    if not len(a) or not len(b):
        return []
    filled = PairHistograms(a.norms, b.norms)
    pairs_between(a, b, [filled], what=f"{kinds[0]}–{kinds[1]} pairs", progress=progress)
    return gathered(filled, kinds, (len(a), len(b)))
