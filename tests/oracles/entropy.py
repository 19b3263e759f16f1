"""Matrix entropy by singular values, text by text."""

from __future__ import annotations

import numpy as np
from scipy.stats import entropy as shannon


def of_text(x):
    """Return the entropy of the spectrum of one text's centred states, shape (n, d)."""
    return shannon(np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2)


def entropy(tokens):
    """Return {(statistic, layer): (value, n)} of a view's tokens."""
    texts = [np.flatnonzero(tokens.texts == text) for text in np.unique(tokens.texts)]
    long = [rows for rows in texts if len(rows) > 2]
    found = {("skipped", None): (1 - len(long) / len(texts), len(texts))}
    for layer, x in enumerate(tokens.states):
        # Equal states, as of a text of one repeated word at layer 0, have no spectrum.
        kept = [rows for rows in long if np.ptp(x[rows], axis=0).max() > 1e-5]
        values = [of_text(x[rows]) for rows in kept]
        most = [np.log(min(len(rows) - 1, x.shape[1])) for rows in kept]
        found["prompt", layer] = (np.mean(values), len(kept))
        found["prompt_normalised", layer] = (np.mean([v / m for v, m in zip(values, most, strict=True)]), len(kept))
    return found
