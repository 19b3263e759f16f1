"""The tokens and pairs at the ends: most and least similar, nearest to the mean and farthest from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.noise import cosine_above
from reporter.geometry.pairs import Tile, Top
from reporter.geometry.rows import Measure, Rows

End = Literal["most", "least"]

Among = Literal["all", "text"]
"""Who takes part: every token, or those that are text: not special, not unused, not single bytes, and with a name.
Tokens that were never trained are so much alike that among all of them no others are seen."""


@dataclass(frozen=True)
class TokenPair:
    """Two tokens at one end of a measure.

    Args:
        among: who took part.
        measure: ``cosine``, ``distance`` or ``dot``.
        end: ``most`` or ``least`` similar; of distances the smallest are the most similar.
        rank: 1 for the first.
        token_id_a: the smaller of the two ids.
        token_id_b: the larger.
        value: the measure, in float64.
        certain: whether float32 can have left out no other pair that belongs among these.
    """

    among: Among
    measure: Measure
    end: End
    rank: int
    token_id_a: int
    token_id_b: int
    value: float
    certain: bool


@dataclass(frozen=True)
class RankedToken:
    """A token at one end of what is measured of single tokens.

    Args:
        among: who took part.
        by: ``mean_distance``, ``mean_cosine`` (both to the mean vector) or ``norm``.
        end: ``smallest`` or ``largest``.
        rank: 1 for the first.
        token_id: its id.
        value: the number.
    """

    among: Among
    by: Literal["mean_distance", "mean_cosine", "norm"]
    end: Literal["smallest", "largest"]
    rank: int
    token_id: int
    value: float


@dataclass(frozen=True)
class TokenPosition:
    """A token and a position whose vectors point the same way, or opposite ways.

    Args:
        rank: 1 for the largest |cosine|.
        token_id: the token.
        position: the position, 0 for the first.
        cosine: of their vectors.
    """

    rank: int
    token_id: int
    position: int
    cosine: float


@dataclass(frozen=True)
class Outliers:
    """The token–position pairs with |cosine| above a threshold.

    Args:
        threshold: the threshold.
        pairs: how many pairs there are.
        count: how many are above it, in float32.
        by_chance: how many would be if one side's directions were drawn evenly from the sphere: in few dimensions
            many are.
        listed: those with the largest |cosine|.
    """

    threshold: float
    pairs: int
    count: int
    by_chance: float
    listed: tuple[TokenPosition, ...]


class PairExtremes:
    """Takes in the tiles of tokens, and keeps the pairs at both ends of each measure.

    Args:
        k: how many at each end.
        candidates: the first so many rows take part.
        among: what these are.
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

    def pairs(self, rows: Rows) -> list[TokenPair]:
        """Return what was kept.

        Args:
            rows: those whose pairs were taken in.
        """
        found = []
        for (measure, end), top in self._tops.items():
            best = top.best(rows, rows)
            ids = np.sort(np.stack([rows.ids(best.rows), rows.ids(best.columns)], axis=1), axis=1)
            found += [
                TokenPair(self._among, measure, end, rank, int(a), int(b), float(value), best.certain)
                for rank, ((a, b), value) in enumerate(zip(ids, best.values, strict=True), 1)
            ]
        return found


class OutlierPairs:
    """Takes in the tiles of tokens with positions, and keeps those with a large |cosine|.

    Args:
        threshold: what is large.
        most: how many pairs are listed.
        tokens: how many tokens.
        positions: how many positions.
    """

    def __init__(self, threshold: float, most: int, tokens: int, positions: int) -> None:
        self._threshold, self._pairs, self._count = threshold, tokens * positions, 0
        self._top = Top("cosine", True, most, tokens, positions, absolute=True)

    def take(self, tile: Tile) -> None:
        """Take in one tile."""
        self._top.take(tile)
        cosines = tile.matrix("cosine")
        if float(cosines.abs().max()) > self._threshold:
            self._count += int((cosines.abs() > self._threshold).sum())

    def outliers(self, tokens: Rows, positions: Rows) -> Outliers:
        """Return what was kept.

        Args:
            tokens: the rows that were taken in.
            positions: the columns.
        """
        best = self._top.best(tokens, positions)
        listed = tuple(
            TokenPosition(rank, int(i), int(j), float(value))
            for rank, (i, j, value) in enumerate(
                zip(tokens.ids(best.rows), positions.ids(best.columns), best.values, strict=True), 1
            )
            if abs(value) > self._threshold
        )
        chance = self._pairs * cosine_above(self._threshold, tokens.table.shape[1])
        return Outliers(self._threshold, self._pairs, self._count, chance, listed)


def ranked(
    norms: Floats, cosines: Floats, distances: Floats, usable: Ints, k: int, among: Among = "all"
) -> list[RankedToken]:
    """Return the tokens at both ends of norm, and of cosine to and distance from the mean vector.

    Args:
        norms: of every token, (V,).
        cosines: to the mean.
        distances: from it.
        usable: ids of the tokens that take part: those that are not zero.
        k: how many at each end.
        among: what these tokens are.
    """
    found = []
    by: Sequence[tuple[Literal["mean_distance", "mean_cosine", "norm"], Floats]]
    by = (("mean_distance", distances), ("mean_cosine", cosines), ("norm", norms))
    for name, values in by:
        order = usable[np.argsort(values[usable], kind="stable")]
        for end, ids in (("smallest", order[:k]), ("largest", order[::-1][:k])):
            found += [
                RankedToken(among, name, end, rank, int(i), float(values[i]))  # type: ignore[arg-type]
                for rank, i in enumerate(ids, 1)
            ]
    return found
