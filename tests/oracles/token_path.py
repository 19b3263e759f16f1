"""Curvature of the path from token to token, angle by angle, as Hosseini & Fedorenko 2023 define it."""

from __future__ import annotations

import math

import numpy as np


def of_text(states, positions):
    """Return the mean angle of one text, NaN without one; a missing position cuts the path."""
    order = np.argsort(positions)
    states, positions = states[order], positions[order]
    angles = []
    for t in range(1, len(states) - 1):
        if positions[t + 1] - positions[t - 1] != 2:
            continue
        before, after = states[t] - states[t - 1], states[t + 1] - states[t]
        lengths = math.sqrt(before @ before) * math.sqrt(after @ after)
        if lengths > 0:
            angles.append(math.acos(min(1.0, max(-1.0, (before @ after) / lengths))))
    return np.mean(angles) if angles else np.nan


def curvature(tokens, layer):
    """Return {text: curvature} of the texts that have one; ``tokens`` are those of ``oracles.tokens``."""
    found = {}
    for text in np.unique(tokens.texts):
        at = tokens.texts == text
        found[text] = of_text(tokens.states[layer][at], tokens.positions[at])
    return {text: angle for text, angle in found.items() if np.isfinite(angle)}
