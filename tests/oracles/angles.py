"""Angular distance of two layers as Gromov et al. 2024 define it, token by token."""

from __future__ import annotations

import math

import numpy as np


def angle(x, y):
    """Return arccos(cos)/π of each token, NaN where a state is zero."""
    found = []
    for a, b in zip(x, y, strict=True):
        lengths = math.sqrt(a @ a) * math.sqrt(b @ b)
        found.append(math.acos(min(1.0, max(-1.0, a @ b / lengths))) / math.pi if lengths else np.nan)
    return np.array(found)


def distances(tokens, first, second):
    """Return the means over all tokens, and over the last token of each text."""
    every = angle(tokens.states[first], tokens.states[second])
    last = [np.flatnonzero(tokens.texts == text)[-1] for text in np.unique(tokens.texts)]
    return {"tokens": np.nanmean(every), "last_token": np.nanmean(every[last])}
