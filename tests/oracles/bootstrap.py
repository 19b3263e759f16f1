"""The textbook bootstrap: n texts drawn with replacement, mean over their tokens, expanded percentile interval."""

import numpy as np
from scipy import stats


def interval(sums, counts, replicates=2000, seed=0):
    """Return the expanded 95 % percentile interval of Σ sums / Σ counts over resampled texts.

    Args:
        sums: per-text sums of a quantity, shape (texts,).
        counts: per-text numbers of tokens, shape (texts,).
        replicates: how often the texts are drawn again.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=replicates)
    return expanded((weights @ sums) / (weights @ counts), len(sums))


def expanded(replicates, texts):
    """Return the percentiles that reach as far as Student's t of the texts (Hesterberg 2015, section 5.3)."""
    tail = stats.norm.cdf(stats.t.ppf(0.025, texts - 1) * np.sqrt(texts / (texts - 1)))
    return tuple(np.quantile(replicates, [tail, 1 - tail]))
