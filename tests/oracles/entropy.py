"""Matrix entropy by singular values, text by text."""

from __future__ import annotations

import numpy as np
from scipy.stats import entropy as shannon


def of_text(x):
    """Return the entropy of the spectrum of one text's centred states, shape (n, d)."""
    return shannon(np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2)


def raw_of_text(x):
    """Return the same without centring, as Skean et al. and Queipo-de-Llano et al. print it."""
    return shannon(np.linalg.svd(x, compute_uv=False) ** 2)


def unit_of_text(x):
    """Return what the code of Skean et al. does: centre, unit rows, smaller product, clamp, positive eigenvalues."""
    n, d = x.shape
    units = x - x.mean(axis=0)
    units = units / np.linalg.norm(units, axis=1, keepdims=True)
    product = np.maximum(units.T @ units if n > d else units @ units.T, 0)
    found = np.linalg.eigvalsh(product / np.trace(product))
    return shannon(found[found > 0])


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
        found["prompt_raw", layer] = (np.mean([raw_of_text(x[rows]) for rows in kept]), len(kept))
        units = [unit_of_text(x[rows]) / np.log(min(len(rows), x.shape[1])) for rows in kept]
        found["prompt_unit", layer] = (np.mean(units), len(kept))
        found["prompt_normalised", layer] = (np.mean([v / m for v, m in zip(values, most, strict=True)]), len(kept))
    return found
