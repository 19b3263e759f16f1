"""Lee's definitions, written as sums over tokens. ``states`` is [(n, d)] * (L + 1)."""

from __future__ import annotations

import numpy as np
from oracles.motion import cosine


def convergence(states):
    """Return {(statistic, layer): value}."""
    last = len(states) - 1
    cosines = [cosine(x, states[last]) for x in states]
    similarity = [c.mean() for c in cosines]
    found = {("similarity", layer): value for layer, value in enumerate(similarity)}
    gradient = [similarity[layer + 1] - similarity[layer] for layer in range(last)]
    for layer in range(last):
        found["gradient", layer] = gradient[layer]
        found["bound", layer] = min(gradient[layer:])
        found["violations", layer] = np.mean(cosines[layer] > cosines[layer + 1])
    found["rate", None] = (similarity[last] - similarity[0]) / last
    if last > 1:
        found["rate_published", None] = (similarity[last] - similarity[0]) / (last - 1)
    return found
