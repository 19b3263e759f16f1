"""Variance within and between token types by brute force, one type at a time."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr


def variance(tokens, corpus):
    """Return {(statistic, layer): (value, n)} of a view's tokens; the types are those of the whole corpus."""
    known, counts = np.unique(corpus.ids[~corpus.special], return_counts=True)
    rows = [np.flatnonzero((tokens.ids == i) & ~tokens.special) for i in known[counts >= 5]]
    rows = [of_type for of_type in rows if len(of_type)]
    found = {("coverage", None): (sum(map(len, rows)) / len(tokens.ids), len(tokens.ids))}
    for layer, x in enumerate(tokens.states):
        for statistic, value in _of_types([x[of_type] for of_type in rows]).items():
            found[statistic, layer] = value
    return found


def _of_types(types):
    x = np.concatenate(types)
    mean = x.mean(axis=0)
    within = sum(np.square(y - y.mean(axis=0)).sum() for y in types) / len(x)
    between = sum(len(y) * np.square(y.mean(axis=0) - mean).sum() for y in types) / len(x)
    total = np.square(x - mean).sum() / len(x)
    twice = [y for y in types if len(y) > 1]
    norms = [np.linalg.norm(y.mean(axis=0)) for y in twice]
    variances = [np.square(y - y.mean(axis=0)).sum(axis=1).mean() for y in twice]
    found = {
        "total": total,
        "within": within,
        "between": between,
        "within_share": within / total,
        "between_share": between / total,
        "norm_of_mean": np.linalg.norm(mean),
        "mean_square_norm": np.square(x).sum(axis=1).mean(),
    }
    result = {name: (value, len(x)) for name, value in found.items()}
    varies = max(variances) > 1e-12 * found["mean_square_norm"]
    return result | {"tradeoff": (spearmanr(norms, variances).statistic if varies else None, len(twice))}
