"""How alike two arrangements of the same rows are: debiased linear CKA and shared neighbours.

Of many pairs of layers at once, and without each group of rows, or in each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.arrays import Floats, Ints

Grams = NDArray[np.float32]


def gram(x: Floats) -> Grams:
    """Return X·Xᵀ, U-centred and scaled to entries of about 1, with diagonal zero, shape (n, n); 0 for equal rows.

    U-centring takes from the entries off the diagonal all that belongs to one row or one column alone. HSIC₁ does not
    see it (Székely & Rizzo 2014), nor what it takes away, so nothing large is left to cancel and float32 will do.

    Args:
        x: shape (n, d), n > 2.
    """
    n = len(x)
    centred = x - x.mean(axis=0)
    square = np.square(centred).sum() / n
    if square <= 1e-12 * np.square(x).sum() / n:
        return np.zeros((n, n), dtype=np.float32)
    centred /= np.sqrt(square)
    found: Floats = centred @ centred.T
    np.fill_diagonal(found, 0)
    before = np.square(found).mean()
    sums = found.sum(axis=1) / (n - 2)
    found += sums.sum() / (n - 1) - sums[:, None] - sums[None, :]
    np.fill_diagonal(found, 0)
    after = np.square(found).mean()
    if after <= 1e-20 * before:  # a lone row apart from all others leaves nothing that two rows share
        return np.zeros((n, n), dtype=np.float32)
    found /= np.sqrt(after)
    return found.astype(np.float32)


def hsic(a: Grams, b: Grams, groups: Sequence[slice]) -> Floats:
    """Return n(n − 3)·HSIC₁ of each pair of layers, for all texts and without each group, shape (1 + G, A, B).

    With K, L the Gram matrices without their diagonals (or U-centred), HSIC₁ = [tr KL + (1ᵀK1)(1ᵀL1)/((n − 1)(n − 2)) −
    2·1ᵀKL1/(n − 2)] / (n(n − 3)) (Song et al. 2012, equation 5). What is lost with a group's texts are the rows and the
    columns of the group, so one product of all entries serves for everything.

    Args:
        a: what ``gram`` returns for the layers of one side, shape (A, n, n).
        b: of the other side, shape (B, n, n).
        groups: consecutive slices that cover the texts.
    """
    n = a.shape[1]
    # Rows of each group, and of those the group's own columns.
    rows = np.stack([_products(a[:, g], b[:, g]) for g in groups])
    own = np.stack([_products(a[:, g, g], b[:, g, g]) for g in groups])
    traces = np.concatenate([rows.sum(axis=0)[None], rows.sum(axis=0) - 2 * rows + own])
    # Sums over the texts of each group, for every text, shape (layers, n, G).
    a_sums, b_sums = (np.stack([x[:, :, g].sum(axis=2, dtype=np.float64) for g in groups], axis=2) for x in (a, b))
    found = np.empty_like(traces)
    for at, left in enumerate([None, *groups]):
        a_rows, b_rows = a_sums.sum(axis=2), b_sums.sum(axis=2)
        m = n
        if left is not None:
            a_rows, b_rows = a_rows - a_sums[:, :, at - 1], b_rows - b_sums[:, :, at - 1]
            a_rows[:, left] = b_rows[:, left] = 0
            m = n - (left.stop - left.start)
        both = np.outer(a_rows.sum(axis=1), b_rows.sum(axis=1)) / ((m - 1) * (m - 2))
        found[at] = traces[at] + both - 2 * (a_rows @ b_rows.T) / (m - 2)
    return found


def _products(a: Grams, b: Grams) -> Floats:
    """Return Σ a·b over all entries, for each pair of layers, shape (A, B)."""
    return (a.reshape(len(a), -1) @ b.reshape(len(b), -1).T).astype(np.float64)


def own_hsic(a: Grams, groups: Sequence[slice]) -> Floats:
    """Return n(n − 3)·HSIC₁ of each layer with itself, for all texts and without each group, shape (1 + G, A)."""
    return np.stack([hsic(layer[None], layer[None], groups)[:, 0, 0] for layer in a], axis=1)


def cka_of(hsic_ab: Floats, hsic_aa: Floats, hsic_bb: Floats) -> Floats:
    """Return HSIC(a, b) / √(HSIC(a, a)·HSIC(b, b)), shape (1 + G, A, B); NaN where a layer does not vary."""
    scale = np.sqrt(np.maximum(hsic_aa, 0)[:, :, None] * np.maximum(hsic_bb, 0)[:, None, :])
    ratio: Floats = np.divide(hsic_ab, scale, out=np.full_like(hsic_ab, np.nan), where=scale > 0)
    return ratio.clip(-1, 1)


def by_cosine(x: Floats, k: int) -> Ints:
    """Return the k nearest other rows of each row by cosine distance, in no order, shape (n, k).

    Args:
        x: shape (n, d), n > k; no row is zero.
        k: neighbours.
    """
    units = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    distance = -(units @ units.T)
    np.fill_diagonal(distance, np.inf)
    return np.argpartition(distance, k - 1, axis=1)[:, :k]


def overlaps(a: Ints, b: Ints, groups: Sequence[slice]) -> Floats:
    """Return the mean of |A ∩ B| / k over the texts of each group, for each pair of layers, shape (G, A, B).

    Args:
        a: neighbours in the layers of one side, shape (A, n, k).
        b: in those of the other, shape (B, n, k).
        groups: consecutive slices that cover the texts.
    """
    n, k = a.shape[1:]

    def marked(found: Ints) -> NDArray[np.float32]:
        marks = np.zeros((*found.shape[:2], n), dtype=np.float32)
        np.put_along_axis(marks, found, 1, axis=2)
        return marks.reshape(len(found), -1)

    counts = [marked(a[:, g]) @ marked(b[:, g]).T / (k * (g.stop - g.start)) for g in groups]
    return np.stack(counts).astype(np.float64)
