"""The textbook bootstrap: n texts drawn with replacement, mean over their tokens, percentile interval."""

from __future__ import annotations

import numpy as np


def interval(sums, counts, replicates=2000, seed=0):
    """Return the 95 % percentile interval of Σ sums / Σ counts over resampled texts.

    Args:
        sums: per-text sums of a quantity, shape (texts,).
        counts: per-text numbers of tokens, shape (texts,).
        replicates: how often the texts are drawn again.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=replicates)
    return tuple(np.quantile((weights @ sums) / (weights @ counts), [0.025, 0.975]))
