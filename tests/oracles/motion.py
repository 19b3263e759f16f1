"""Motion, written from its definitions. ``states`` is [(n, d)] * (L + 1)."""

from __future__ import annotations

from itertools import pairwise

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
            found["block_influence", layer] = 1 - found["step_cosine", layer]
            found["update_ratio", layer] = np.linalg.norm(step, axis=1) / np.linalg.norm(x, axis=1)
        if layer < last - 1:
            after = states[layer + 2] - states[layer + 1]
            found["curvature", layer] = np.arccos(np.clip(cosine(step, after), -1, 1))
    steps = [after - before for before, after in pairwise(states)]
    lengths = [np.linalg.norm(step, axis=1) for step in steps]
    # The published form goes on from h_0 by unit steps and looks how far it comes.
    walked = states[0] + sum(
        step / np.maximum(length, 1e-8)[:, None] for step, length in zip(steps, lengths, strict=True)
    )
    found["line_shape", None] = last / np.linalg.norm(walked - states[0], axis=1)
    found["straightness", None] = np.linalg.norm(states[-1] - states[0], axis=1) / sum(lengths)
    return found


def growth(states):
    """The factor of an exponential that is fitted to the mean norms after the blocks, by ``polyfit``."""
    norms = [np.linalg.norm(x, axis=1).mean() for x in states[1:]]
    return np.exp(np.polyfit(range(len(norms)), np.log(norms), 1)[0])
