"""How far the states of two models lie apart, token by token in NumPy."""

from __future__ import annotations

import numpy as np

from reporter.app.verify.by_map import explained


def change(mine, theirs, half):
    """Return {(statistic, layer): number} of two models' states at each layer, the same tokens in the same order.

    Args:
        mine: for each layer (tokens, d).
        theirs: of the base, the same.
        half: 0 or 1 for each token.
    """
    found = {}
    for layer, (x, y) in enumerate(zip(mine, theirs, strict=True)):
        cosines, distances = [], []
        for a, b in zip(x, y, strict=True):
            cosines.append(a @ b / np.sqrt((a @ a) * (b @ b)))
            distances.append(np.sqrt(((a - b) ** 2).sum() / (b @ b)))
        found["cosine", layer] = np.mean(cosines)
        found["distance", layer] = np.mean(distances)
        both = [explained(y[half == a], x[half == a], y[half == b], x[half == b]) for a, b in ((0, 1), (1, 0))]
        found["linear", layer] = np.mean(both)
    return found
