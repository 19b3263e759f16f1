"""The way of a journey's tokens through the layers, in one plane for all texts and layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from reporter.analyses.encode import EncodedText
from reporter.analyses.pictures import Point
from reporter.forward.places import Place
from reporter.geometry.components import coordinates

JOINT, WITHOUT_LAST = "pca-joint", "pca-joint-without-last"
_DIMENSIONS = 3


def paths(texts: Sequence[EncodedText], labels: Mapping[int, Sequence[str]], path: Sequence[Place]) -> Iterator[Point]:
    """Yield where each token is at each place of its path, on principal components of all tokens at all places.

    The last layer often lies far from the others and takes the plane for itself, so the same is done without it, too.

    Args:
        texts: the texts of a journey; all of them share a plane.
        labels: the tokens of each text, by its index.
        path: the places, first to last.
    """
    for name, part in ((JOINT, path), (WITHOUT_LAST, path[:-1])):
        rows = [(text, place, text.states[place].double().numpy()) for text in texts for place in part]
        if not rows:
            continue
        at = coordinates(np.concatenate([x for *_, x in rows]), _DIMENSIONS)
        start = 0
        for text, place, x in rows:
            for position, own in enumerate(at[start : start + len(x)].tolist()):
                yield Point(name, place, f"text {text.index}", position, labels[text.index][position], *own)
            start += len(x)
