"""How alike two arrangements of the same rows are: debiased linear CKA and shared neighbours.

Of many pairs of layers at once, and without each group of rows, or in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from reporter.geometry.arrays import Floats

_ENTRIES = 2**16  # of each layer's Gram matrix that are in float64 at a time

Dot = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def gram(x: torch.Tensor) -> torch.Tensor:
    """Return X·Xᵀ, U-centred and scaled to entries of about 1, with diagonal zero, shape (n, n); 0 for equal rows.

    U-centring takes from the entries off the diagonal all that belongs to one row or one column alone. HSIC₁ does not
    see it (Székely & Rizzo 2014), nor what it takes away, so nothing large is left to cancel and float32 will do.

    Args:
        x: float64, shape (n, d), n > 2.
    """
    n = len(x)
    centred = x - x.mean(dim=0)
    square = centred.square().sum() / n
    varies = square > 1e-12 * x.square().sum() / n
    centred /= square.sqrt().where(varies, 1.0)
    found = centred @ centred.T
    found.fill_diagonal_(0)
    before = found.square().mean()
    sums = found.sum(dim=1) / (n - 2)
    found += sums.sum() / (n - 1) - sums[:, None]
    found -= sums
    found.fill_diagonal_(0)
    after = found.square().mean()
    varies &= after > 1e-20 * before  # a lone row apart from all others leaves nothing that two rows share
    return (found / after.sqrt()).float().where(varies, 0.0)


def hsic(a: torch.Tensor, b: torch.Tensor, groups: Sequence[slice]) -> Floats:
    """Return n(n − 3)·HSIC₁ of each pair of layers, for all texts and without each group, shape (1 + G, A, B).

    With K, L the Gram matrices without their diagonals (or U-centred), HSIC₁ = [tr KL + (1ᵀK1)(1ᵀL1)/((n − 1)(n − 2)) −
    2·1ᵀKL1/(n − 2)] / (n(n − 3)) (Song et al. 2012, equation 5). What is lost with a group's texts are the rows and the
    columns of the group, so one product of all entries serves for everything.

    Args:
        a: what ``gram`` returns for the layers of one side, shape (A, n, n).
        b: of the other side, shape (B, n, n).
        groups: consecutive slices that cover the texts.
    """
    return _hsic(a, b, groups, lambda x, y: x @ y.T)


def own_hsic(a: torch.Tensor, groups: Sequence[slice]) -> Floats:
    """Return n(n − 3)·HSIC₁ of each layer with itself, for all texts and without each group, shape (1 + G, A)."""
    return _hsic(a, a, groups, lambda x, y: (x * y).sum(dim=1))


def _hsic(a: torch.Tensor, b: torch.Tensor, groups: Sequence[slice], dot: Dot) -> Floats:
    """Return it with Σ over the second axis as ``dot`` takes it, of each pair of rows or of each row with itself."""
    n = a.shape[1]
    # Rows of each group, and of those the group's own columns.
    rows = torch.stack([_in_parts(dot, a[:, g], b[:, g]) for g in groups])
    own = torch.stack([_in_parts(dot, a[:, g, g], b[:, g, g]) for g in groups])
    whole = rows.sum(dim=0)
    # Sums over the texts of each group, for every text, shape (layers, n, G).
    a_sums, b_sums = (torch.stack([x[:, :, g].sum(dim=2, dtype=torch.float64) for g in groups], dim=2) for x in (a, b))
    a_all, b_all = a_sums.sum(dim=2), b_sums.sum(dim=2)
    found = []
    for at, left in enumerate([None, *groups]):
        a_rows, b_rows, trace, m = a_all, b_all, whole, n
        if left is not None:
            a_rows, b_rows = a_rows - a_sums[:, :, at - 1], b_rows - b_sums[:, :, at - 1]
            a_rows[:, left] = b_rows[:, left] = 0
            trace = whole - 2 * rows[at - 1] + own[at - 1]
            m = n - (left.stop - left.start)
        both = dot(a_rows.sum(dim=1, keepdim=True), b_rows.sum(dim=1, keepdim=True)) / ((m - 1) * (m - 2))
        found.append(trace + both - 2 * dot(a_rows, b_rows) / (m - 2))
    return np.asarray(torch.stack(found).cpu().numpy())


def _in_parts(dot: Dot, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return ``dot`` over all entries of each layer, in float64 but with few of them at a time in it."""
    x, y = a.flatten(1), b.flatten(1)
    parts = [slice(start, start + _ENTRIES) for start in range(0, x.shape[1], _ENTRIES)]
    return torch.stack([dot(x[:, part].double(), y[:, part].double()) for part in parts]).sum(dim=0)


def cka_of(hsic_ab: Floats, hsic_aa: Floats, hsic_bb: Floats) -> Floats:
    """Return HSIC(a, b) / √(HSIC(a, a)·HSIC(b, b)), shape (1 + G, A, B); NaN where a layer does not vary."""
    scale = np.sqrt(np.maximum(hsic_aa, 0)[:, :, None] * np.maximum(hsic_bb, 0)[:, None, :])
    ratio: Floats = np.divide(hsic_ab, scale, out=np.full_like(hsic_ab, np.nan), where=scale > 0)
    return ratio.clip(-1, 1)


def by_cosine(x: torch.Tensor, k: int) -> torch.Tensor:
    """Return the k nearest other rows of each row by cosine distance, in no order, shape (n, k).

    Args:
        x: float64, shape (n, d), n > k; no row is zero.
        k: neighbours.
    """
    units = (x / torch.linalg.vector_norm(x, dim=1, keepdim=True)).float()
    cosine = units @ units.T
    cosine.fill_diagonal_(-torch.inf)
    nearest: torch.Tensor = cosine.topk(k, dim=1, sorted=False).indices
    return nearest


def overlaps(a: torch.Tensor, b: torch.Tensor, groups: Sequence[slice]) -> Floats:
    """Return the mean of |A ∩ B| / k over the texts of each group, for each pair of layers, shape (G, A, B).

    Args:
        a: neighbours in the layers of one side, shape (A, n, k).
        b: in those of the other, shape (B, n, k).
        groups: consecutive slices that cover the texts.
    """
    n, k = a.shape[1:]

    def marked(found: torch.Tensor) -> torch.Tensor:
        marks = torch.zeros(*found.shape[:2], n, device=found.device)
        return marks.scatter_(2, found, 1.0).flatten(1)

    counts = [marked(a[:, g]) @ marked(b[:, g]).T / (k * (g.stop - g.start)) for g in groups]
    return np.asarray(torch.stack(counts).double().cpu().numpy())


def influence_on_mean_cosine(x: torch.Tensor, unit_sum: Floats, n: int) -> Floats:
    """Return the influence of states on ‖mean of u‖², which the mean cosine of n states is but for n/(n − 1), (m,).

    Args:
        x: some of the states, (m, d).
        unit_sum: Σu over all that are not zero, (d,).
        n: how many they are.
    """
    mean = torch.from_numpy(unit_sum / n).to(x.device)
    norms = x.norm(dim=1)
    along = (x @ mean) * torch.where(norms > 0, 1 / norms, 0.0)
    found: Floats = (2 * (along - mean @ mean)).cpu().numpy()
    return found
