"""Motion, written from its definitions. ``states`` is [(n, d)] * (L + 1)."""

from __future__ import annotations

import numpy as np


def cosine(a, b):
    return (a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def motion(states):
    """Return {(statistic, layer): value per token}."""
    last = len(states) - 1
    found = {}
    for layer, x in enumerate(states):
        found["norm", layer] = np.linalg.norm(x, axis=1)
        if layer < last:
            step = states[layer + 1] - x
            found["step_length", layer] = np.linalg.norm(step, axis=1)
            found["step_cosine", layer] = cosine(x, states[layer + 1])
            found["update_ratio", layer] = np.linalg.norm(step, axis=1) / np.linalg.norm(x, axis=1)
        if layer < last - 1:
            after = states[layer + 2] - states[layer + 1]
            found["curvature", layer] = np.arccos(np.clip(cosine(step, after), -1, 1))
    return found
