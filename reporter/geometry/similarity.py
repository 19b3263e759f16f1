"""Similarity of two arrangements of the same rows, and of the occurrences of a token type.

Of many pairs of layers at once, and without each group of rows, or in each.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from reporter.core.threads import spread
from reporter.geometry.arrays import Floats, Ints, wide

_ENTRIES = 2**16  # of each layer's Gram matrix that are in float64 at a time

Dot = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def gram(x: torch.Tensor) -> torch.Tensor:
    """Return X·Xᵀ, U-centred and scaled to entries of about 1, with diagonal zero, shape (n, n); 0 for equal rows.

    U-centring takes from the entries off the diagonal all that belongs to one row or one column alone. HSIC₁ does not
    see it (Székely & Rizzo 2014), nor what it takes away, so nothing large is left to cancel and float32 will do.
    """
    n = len(x)
    centred = x - x.mean(dim=0)
    square = centred.square().sum() / n
    varies = square > 1e-12 * x.square().sum() / n
    centred /= square.sqrt().where(varies, 1.0)
    products = centred @ centred.T
    products.fill_diagonal_(0)
    before = products.square().mean()
    sums = products.sum(dim=1) / (n - 2)
    products += sums.sum() / (n - 1) - sums[:, None]
    products -= sums
    products.fill_diagonal_(0)
    after = products.square().mean()
    varies &= after > 1e-20 * before  # a lone row apart from all others leaves nothing that two rows share
    return (products / after.sqrt()).float().where(varies, 0.0)


def hsic(a: torch.Tensor, b: torch.Tensor, groups: Sequence[slice]) -> Floats:
    """Return n(n − 3)·HSIC₁ of each pair of layers, for all texts and without each group, shape (1 + G, A, B).

    With K, L the Gram matrices without their diagonals (or U-centred), HSIC₁ = [tr KL + (1ᵀK1)(1ᵀL1)/((n − 1)(n − 2)) −
    2·1ᵀKL1/(n − 2)] / (n(n − 3)) (Song et al. 2012, equation 5). What is lost with a group's texts are the rows and the
    columns of the group, so one product of all entries serves for everything.

    Args:
        a: what ``gram`` returns for the layers of one side, shape (A, n, n).
        b: of the other side, shape (B, n, n).
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
    inner = torch.stack([_in_parts(dot, a[:, g, g], b[:, g, g]) for g in groups])
    whole = rows.sum(dim=0)
    # Sums over the texts of each group, for every text, shape (layers, n, G).
    a_sums, b_sums = (torch.stack([x[:, :, g].sum(dim=2, dtype=torch.float64) for g in groups], dim=2) for x in (a, b))
    a_all, b_all = a_sums.sum(dim=2), b_sums.sum(dim=2)
    parts = []
    for index, left in enumerate([None, *groups]):
        a_rows, b_rows, trace, m = a_all, b_all, whole, n
        if left is not None:
            a_rows, b_rows = a_rows - a_sums[:, :, index - 1], b_rows - b_sums[:, :, index - 1]
            a_rows[:, left] = b_rows[:, left] = 0
            trace = whole - 2 * rows[index - 1] + inner[index - 1]
            m = n - (left.stop - left.start)
        both = dot(a_rows.sum(dim=1, keepdim=True), b_rows.sum(dim=1, keepdim=True)) / ((m - 1) * (m - 2))
        parts.append(trace + both - 2 * dot(a_rows, b_rows) / (m - 2))
    return np.asarray(torch.stack(parts).cpu().numpy())


def _in_parts(dot: Dot, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x, y = a.flatten(1), b.flatten(1)
    parts = [slice(start, start + _ENTRIES) for start in range(0, x.shape[1], _ENTRIES)]
    return torch.stack([dot(x[:, part].double(), y[:, part].double()) for part in parts]).sum(dim=0)


def cka_of(hsic_ab: Floats, hsic_aa: Floats, hsic_bb: Floats) -> Floats:
    """Return HSIC(a, b) / √(HSIC(a, a)·HSIC(b, b)), shape (1 + G, A, B); NaN where a layer does not vary."""
    scale = np.sqrt(np.maximum(hsic_aa, 0)[:, :, None] * np.maximum(hsic_bb, 0)[:, None, :])
    ratio: Floats = np.divide(hsic_ab, scale, out=np.full_like(hsic_ab, np.nan), where=scale > 0)
    return ratio.clip(-1, 1)


def by_cosine(x: torch.Tensor, k: int) -> torch.Tensor:
    """Return the k nearest other rows of each row by cosine distance, nearest first, shape (n, k)."""
    # In float32, rows that are much alike would be equally near, and their order would be left to the machine.
    exact = wide(x)
    units = exact / torch.linalg.vector_norm(exact, dim=1, keepdim=True)
    cosine = units @ units.T
    cosine.fill_diagonal_(-torch.inf)
    nearest: torch.Tensor = cosine.topk(k, dim=1).indices.to(x.device)
    return nearest


def overlaps(a: torch.Tensor, b: torch.Tensor, groups: Sequence[slice]) -> Floats:
    """Return the mean of |A ∩ B| / k over the texts of each group, for each pair of layers, shape (G, A, B)."""
    n, k = a.shape[1:]

    def marked(neighbours: torch.Tensor) -> torch.Tensor:
        return marks_of(neighbours, n).flatten(1)

    counts = [marked(a[:, g]) @ marked(b[:, g]).T / (k * (g.stop - g.start)) for g in groups]
    return np.asarray(torch.stack(counts).double().cpu().numpy())


def overlaps_without(a: torch.Tensor, b: torch.Tensor, k: int, groups: Sequence[slice]) -> Floats:
    """Return the mean of |A ∩ B| / k over the texts outside each group, for each pair of layers, shape (G, A, B).

    The k neighbours are the nearest outside the group as well.
    """
    shares = []
    for left_out in groups:
        kept = []
        for near in (a, b):
            inside = (near >= left_out.start) & (near < left_out.stop)
            kept.append(near.gather(2, inside.to(torch.uint8).argsort(dim=2, stable=True))[:, :, :k])
        remaining = [group for group in groups if group != left_out]
        sizes = np.array([group.stop - group.start for group in remaining])
        shares.append(np.tensordot(sizes / sizes.sum(), overlaps(kept[0], kept[1], remaining), axes=1))
    return np.stack(shares)


def marks_of(neighbours: torch.Tensor, n: int) -> torch.Tensor:
    """Return 1 where a row has another as a neighbour, else 0, shape (layers, n, n).

    Args:
        neighbours: of each row, shape (layers, n, k).
        n: the number of rows.
    """
    return torch.zeros(*neighbours.shape[:2], n, device=neighbours.device).scatter_(2, neighbours, 1.0)


def permuted_products(a: torch.Tensor, b: torch.Tensor, orders: Iterable[Ints]) -> Floats:
    """Return Σᵢⱼ aᵢⱼ·b_π(i)π(j) of each two layers, for each order π of the rows, shape (orders, A, B).

    Args:
        a: matrices of the layers of one side, shape (A, n, n).
        b: of the other side, whose rows and columns are permuted, shape (B, n, n).
        orders: the permutations, the same for all layers.
    """
    products = []
    for order in orders:
        where = torch.from_numpy(order).to(b.device)
        parts = []
        for start in range(0, len(b), 8):  # few layers at a time, since each is copied
            moved = b[start : start + 8][:, where[:, None], where]
            parts.append(a.flatten(1) @ moved.flatten(1).T)
        products.append(torch.cat(parts, dim=1))
    return np.asarray(torch.stack(products).double().cpu().numpy())


def calibrated(value: Floats, chance: Floats, level: float = 0.05) -> tuple[Floats, Floats, Floats]:
    """Return max(0, (T − τ)/(1 − τ)), the threshold τ, and p, of similarities T that are at most 1.

    τ is the ⌈(1 − level)(K + 1)⌉-th smallest of T and its K values by chance; p = (1 + #{Tₖ ≥ T})/(K + 1)
    (Gröger, Wen & Brbić 2026, algorithms 1 and 2).

    Args:
        value: T, of any shape.
        chance: the same with permuted rows, shape (K, …).
        level: the share of values by chance that are above 0.
    """
    k = len(chance)
    every = np.sort(np.concatenate([value[None], chance]), axis=0)
    threshold: Floats = every[min(k, int(np.ceil((1 - level) * (k + 1) - 1e-9)) - 1)]
    p = (1 + (chance >= value).sum(axis=0)) / (k + 1)
    return np.maximum(0.0, (value - threshold) / np.maximum(1 - threshold, 1e-12)), threshold, p


def influence_on_mean_cosine(x: torch.Tensor, unit_sum: Floats, n: int) -> Floats:
    """Return the influence of states on ‖mean of u‖², which the mean cosine of n states is but for n/(n − 1), (m,)."""
    mean = torch.from_numpy(unit_sum / n).to(x.device)
    norms = x.norm(dim=1)
    along = (x @ mean) * torch.where(norms > 0, 1 / norms, 0.0)
    influence: Floats = (2 * (along - mean @ mean)).cpu().numpy()
    return influence


# Information imbalance: does the neighbourhood of a row in one space say who is near in another?
#
# Source: Glielmo, Zeni, Cheng, Csányi & Laio 2022, "Ranking the information content of distance measures".


def imbalances(spaces: Sequence[Callable[[], Tensor]], groups: Ints) -> Floats:
    """Return Δ(A → B) of each two spaces, of all rows and without each group of them, shape (1 + G, A, B).

    Δ(A → B) is 2/n times the mean, over rows, of the rank in B of the row's nearest neighbour in A. Distances are
    Euclidean, in float64; ranks run from 1 to n − 1. Rows that are equally far in B have the mean of their ranks; of
    rows that are all equal in A each one has the next of them as its neighbour, and the last one the first. Without a
    group both neighbours and ranks are those among the rows that are left.

    Args:
        spaces: return the same n rows in each space, in random order, (n, d); d may differ.
        groups: of each row, 0…G − 1; no group is empty or lacks fewer than two of the rows, (n,).
    """
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)

    def neighbours(space: Callable[[], Tensor]) -> Tensor:
        squares = _squares(space, order, cyclic=True)
        least = [part.min(dim=1) for part in torch.split(squares, sizes.tolist(), dim=1)]
        values = torch.stack([part.values for part in least], dim=1)
        starts = torch.as_tensor(np.cumsum(sizes) - sizes, device=squares.device)
        places = torch.stack([part.indices for part in least], dim=1) + starts
        nearest_rows = [places.gather(1, values.argmin(dim=1, keepdim=True))]
        for group in range(len(sizes)):
            left = values.clone()
            left[:, group] = torch.inf
            nearest_rows.append(places.gather(1, left.argmin(dim=1, keepdim=True)))
        return torch.cat(nearest_rows, dim=1)  # (n, 1 + G)

    near = torch.stack(list(spread(neighbours, spaces)), dim=2)  # (n, 1 + G, A)
    of_row = torch.as_tensor(groups[order], device=near.device)

    def ranks(space: Callable[[], Tensor]) -> Tensor:
        squares = _squares(space, order)
        ordered, which = squares.sort(dim=1)
        of_sorted = of_row[which]
        mean_ranks = []
        for group in range(-1, len(sizes)):
            theirs = squares.gather(1, near[:, group + 1])
            below, up_to = (torch.searchsorted(ordered, theirs, right=right) for right in (False, True))
            twice = below + 1 + up_to  # twice the mean rank of those as far as the neighbour
            n = len(squares)
            if group >= 0:
                inside = (of_sorted == group).cumsum(dim=1, dtype=torch.int32)
                inside = torch.nn.functional.pad(inside, (1, 0))  # how many of the first so many are in the group
                twice = (twice - inside.gather(1, below) - inside.gather(1, up_to))[of_row != group]
                n = len(twice)
            mean_ranks.append(twice.double().mean(dim=0) / n)
        return torch.stack(mean_ranks)  # (1 + G, A)

    return np.asarray(torch.stack(list(spread(ranks, spaces)), dim=2).cpu().numpy())


def _squares(space: Callable[[], Tensor], order: Ints, *, cyclic: bool = False) -> Tensor:
    """Return squared distances without the own square of each row, infinite to itself, (n, n)."""
    given = wide(space())
    x = given - given.mean(dim=0)
    x = x[torch.as_tensor(order, device=x.device)]
    squares = torch.addmm(x.square().sum(dim=1), x, x.T, alpha=-2)
    largest = squares.abs().max()
    _, which, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
    if len(counts) < len(x):
        for same in torch.split(which.argsort(stable=True), counts.tolist()):
            if len(same) > 1:
                squares[:, same] = squares[:, same[:1]].clone()  # which rounding would set apart
                if cyclic:
                    step = torch.arange(len(same), device=x.device)
                    after = (step - step[:, None]) % len(same) / len(same)  # from 0 to 1
                    squares[same[:, None], same] = (after.double() - 2) * largest  # nearer than any other row
    return squares.fill_diagonal_(torch.inf)


# How alike a type's occurrences are, and how much of them one axis explains, in the forms that are published.
#
# Of many types at once, from small Gram matrices. Products are in the precision of the states, on their device;
# eigenvalues in float64.


@dataclass(frozen=True, eq=False)
class Likeness:
    """Numbers of some types; NaN where one is not defined, shape (T,) each.

    Args:
        similarity: mean cosine of two different occurrences, zero states left out; for two or more.
        explained: σ1²/Σσ², σ the singular values of the occurrences, not centred.
        added: what each occurrence adds to both, to first order, shape (2, T, m). Over a type they sum to 0, and
            their squares to the variance over fresh occurrences.
    """

    similarity: torch.Tensor
    explained: torch.Tensor
    added: torch.Tensor


def likeness(x: torch.Tensor, sizes: torch.Tensor) -> Likeness:
    """Return how alike the occurrences of each type are.

    One Gram matrix of the occurrences minus their mean serves for both; the mean comes back in float64.

    What an occurrence adds is found by leaving it out for the similarity, and otherwise the derivative by its weight:
    ((x·v1)² − r‖x‖²)/Σ‖x‖² for r = λ1/Σ‖x‖². Both are times √(m/(m − 1)), as for a mean.

    Args:
        x: shape (T, m, d); rows beyond a type's size are zero.
        sizes: occurrences of each, shape (T,).
    """
    x = _scaled(x)
    norms = torch.linalg.vector_norm(x, dim=2, dtype=torch.float64)
    m, inside = sizes.double(), torch.arange(x.shape[1], device=x.device) < sizes[:, None]
    mean = (x.sum(dim=1, dtype=torch.float64) / m[:, None]).to(x.dtype)
    x.sub_(mean[:, None]).mul_(inside[:, :, None])
    centred = (x @ x.mT).double()
    along = (x @ mean[:, :, None]).double() + mean.double().square().sum(dim=1)[:, None, None] / 2
    gram = (centred + along + along.mT) * inside[:, :, None] * inside[:, None]

    inverse = norms.reciprocal().where(norms > 0, 0.0)
    cosines = gram * inverse[:, :, None] * inverse[:, None]
    n = (norms > 0).sum(dim=1).double()
    with_others = cosines.sum(dim=2) - cosines.diagonal(dim1=1, dim2=2)
    similarity = (with_others.sum(dim=1) / (n * (n - 1))).where(n > 1, torch.nan).clamp(-1, 1)
    without = (n * (n - 1) * similarity)[:, None] - 2 * with_others
    without = without / ((n - 1) * (n - 2)).clamp(min=1)[:, None]
    left_out = (similarity[:, None] - without) * ((n - 1) / n)[:, None] * (norms > 0)

    squares, left = torch.linalg.eigh(gram)
    explained = _share(squares[:, -1], norms.square().sum(dim=1))
    added = [left_out, _added(squares[:, -1:] * left[:, :, -1].square(), norms.square(), explained)]
    of_mean = (m / (m - 1)).sqrt()[:, None]
    return Likeness(similarity, explained, torch.stack(added) * of_mean)


def explained_by_first(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return σ1²/Σσ² of each matrix, not centred, (T,), and what each row adds to it, (T, m); NaN for zeros."""
    x = _scaled(x)
    gram = (x @ x.mT).double()
    squares, left = torch.linalg.eigh(gram)
    each = gram.diagonal(dim1=1, dim2=2)
    share, m = _share(squares[:, -1], each.sum(dim=1)), (each > 0).sum(dim=1)
    of_mean = (m / (m - 1).clamp(min=1)).sqrt()[:, None]
    return share, _added(squares[:, -1:] * left[:, :, -1].square(), each, share) * of_mean


def _added(on_axis: Tensor, squares: Tensor, share: Tensor) -> Tensor:
    """Return what each row adds to the share that one axis has of Σ‖x‖², given (x·v)² and ‖x‖² of each, (T, m)."""
    return (on_axis - share[:, None] * squares) / squares.sum(dim=1, keepdim=True)


def _scaled(x: torch.Tensor) -> torch.Tensor:
    largest = torch.linalg.vector_norm(x, torch.inf, dim=(1, 2))[:, None, None]
    scaled: torch.Tensor = x / largest.where(largest > 0, 1.0)
    return scaled


def _share(first: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    share: torch.Tensor = (first / total).where(total > 0, torch.nan).clamp(max=1)
    return share


def padded(sizes: tuple[int, ...], most: int) -> torch.Tensor:
    """Return where the rows of each type lie that come type after type, −1 beyond its size, shape (T, most)."""
    of_type = torch.tensor(sizes, dtype=torch.int64)
    column = torch.arange(most)
    rows = (of_type.cumsum(0) - of_type)[:, None] + column
    return rows.where(column < of_type[:, None], -1)


def gathered(states: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return some rows of states in matrices, a row of zeros for −1, shape (T, m, d)."""
    return torch.cat([states, states.new_zeros(1, states.shape[1])])[rows]


@lru_cache(maxsize=256)
def explained_floor(sizes: tuple[int, ...], d: int, seed: int) -> float:
    """Return the mean over types of ``explained`` of m isotropic Gaussian vectors."""
    x = torch.from_numpy(np.random.default_rng([seed, d, *sizes]).standard_normal((sum(sizes), d)))
    return float(likeness(gathered(x, padded(sizes, max(sizes))), torch.tensor(sizes)).explained.mean())
