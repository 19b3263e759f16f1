"""The way of a journey's tokens through the layers, in one plane for all texts and layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from reporter.analyses.encode import EncodedText
from reporter.analyses.results import Point
from reporter.forward.places import Place

Floats = NDArray[np.float64]

JOINT, WITHOUT_LAST = "pca-joint", "pca-joint-without-last"
_DIMENSIONS = 3
_NOISE = 1e-12  # share of the largest variance below which a component is rounding


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
        coordinates = principal_components(np.concatenate([x for *_, x in rows]))
        start = 0
        for text, place, x in rows:
            for position, at in enumerate(coordinates[start : start + len(x)].tolist()):
                yield Point(place, name, f"text {text.index}", position, labels[text.index][position], *at)
            start += len(x)


def principal_components(x: Floats, dimensions: int = _DIMENSIONS) -> Floats:
    """Return coordinates on the first principal components, (points, dimensions), zeros where there are fewer.

    The largest number of each component is positive, so that the picture is not turned round from run to run.

    Args:
        x: (points, width).
        dimensions: how many components.
    """
    from scipy.linalg import eigh

    centred = x - x.mean(axis=0)
    found = np.zeros((len(x), dimensions))
    wide = centred.shape[1] > len(x)
    gram = centred @ centred.T if wide else centred.T @ centred
    count = min(dimensions, len(gram))
    values, vectors = eigh(gram, subset_by_index=[len(gram) - count, len(gram) - 1])
    for i, (value, vector) in enumerate(zip(values[::-1], vectors.T[::-1], strict=True)):
        if value <= _NOISE * max(values[-1], 0.0) or value <= 0:
            break
        component = centred.T @ vector if wide else vector
        component /= np.linalg.norm(component)
        if component[np.abs(component).argmax()] < 0:
            component = -component
        found[:, i] = centred @ component
    return found
