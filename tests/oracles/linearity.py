"""Linearity, Procrustes, CKA and CCA by least squares and singular values of the states themselves."""

from __future__ import annotations

import numpy as np


def linearity(states, half):
    """Return {(statistic, layer): number} of states (tokens, d) at each layer; ``half`` is 0 or 1 for each token."""
    found = {}
    last = len(states) - 1
    for layer in range(last):
        x, y, z = states[layer], states[layer + 1], states[last]
        for name, other in (("linearity", y), ("update_linearity", y - x), ("to_last", z)):
            found[name, layer] = _explained(x, other, x, other)
            both = [
                _explained(x[half == a], other[half == a], x[half == b], other[half == b]) for a, b in ((0, 1), (1, 0))
            ]
            found[f"{name}_heldout", layer] = np.mean(both)
        a, b = x - x.mean(axis=0), y - y.mean(axis=0)
        sizes = np.linalg.norm(a) * np.linalg.norm(b)
        found["procrustes", layer] = np.arccos(min(np.linalg.svd(a.T @ b, compute_uv=False).sum() / sizes, 1))
        found["cka", layer] = np.linalg.norm(a.T @ b) ** 2 / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
        bases = [_basis(side) for side in (a, b)]
        canonical = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
        found["cca", layer] = np.square(canonical).sum() / min(base.shape[1] for base in bases)
    return found


def _explained(x, y, other_x, other_y):
    """Share of the other rows that the map of the first ones explains."""
    centre, mean = x.mean(axis=0), y.mean(axis=0)
    a = np.linalg.lstsq(x - centre, y - mean, rcond=1e-6)[0]
    left = (other_y - mean) - (other_x - centre) @ a
    return 1 - np.square(left).sum() / np.square(other_y - mean).sum()


def _basis(x):
    left, singular, _ = np.linalg.svd(x, full_matrices=False)
    return left[:, singular > 1e-6 * singular[0]]
