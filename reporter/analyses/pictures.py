"""Texts as points: their vectors at one place on the first two principal components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from reporter.analyses.results import Point
from reporter.analyses.samples import evenly, label
from reporter.geometry.arrays import Floats
from reporter.geometry.components import coordinates

if TYPE_CHECKING:
    from reporter.forward.places import Place

MOST_POINTS = 300  # of one part


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
            yield Point(place, "pca", part, row, label(texts[part][row]), *at[start + row].tolist())
        start += len(x)
