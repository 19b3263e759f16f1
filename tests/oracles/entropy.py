"""Matrix entropy by singular values, text by text."""

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
