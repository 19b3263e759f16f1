"""How alike a type's occurrences are, and how much of them one axis explains, in the forms that are published.

Of many types at once, from small Gram matrices. Products are in the precision of the states, on their device;
eigenvalues in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

_EQUAL = 1e-12  # of Σ‖x‖²: a Σ‖x − mean‖² below it is what float32 leaves of equal states


@dataclass(frozen=True, eq=False)
class Likeness:
    """Numbers of some types; NaN where one is not defined, shape (T,) each.

    Args:
        similarity: mean cosine of two different occurrences, zero states left out; for two or more.
        explained: σ1²/Σσ², σ the singular values of the occurrences, not centred.
        published: λ1/Σλ, λ the eigenvalues of their covariance.
        truncated: what share of their variance is on the first right singular vector of the matrix as it is.
    """

    similarity: torch.Tensor
    explained: torch.Tensor
    published: torch.Tensor
    truncated: torch.Tensor


def likeness(x: torch.Tensor, sizes: torch.Tensor) -> Likeness:
    """Return how alike the occurrences of each type are.

    One Gram matrix of the occurrences minus their mean serves for all; the mean comes back in float64. With σ1 and u1
    from XXᵀ = UΣ²Uᵀ, X·v1 = σ1·u1, whose variance is σ1²·(1/m − (mean u1)²).

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
    pairs = cosines.sum(dim=(1, 2)) - cosines.diagonal(dim1=1, dim2=2).sum(dim=1)
    similarity = (pairs / (n * (n - 1))).where(n > 1, torch.nan).clamp(-1, 1)

    squares, left = torch.linalg.eigh(gram)
    total, variance = norms.square().sum(dim=1), centred.diagonal(dim1=1, dim2=2).sum(dim=1)
    varies = variance > _EQUAL * total
    on_first = squares[:, -1] * (1 - left[:, :, -1].sum(dim=1).square() / m)
    shares = torch.stack([torch.linalg.eigvalsh(centred)[:, -1], on_first]) / variance
    published, truncated = shares.clamp(0, 1).where(varies, torch.nan)
    return Likeness(similarity, _share(squares[:, -1], total), published, truncated)


def explained_by_first(x: torch.Tensor) -> torch.Tensor:
    """Return σ1²/Σσ² of each matrix, not centred, shape (T,); NaN for a matrix of zeros.

    Args:
        x: shape (T, m, d).
    """
    x = _scaled(x)
    gram = (x @ x.mT).double()
    return _share(torch.linalg.eigvalsh(gram)[:, -1], gram.diagonal(dim1=1, dim2=2).sum(dim=1))


def _scaled(x: torch.Tensor) -> torch.Tensor:
    """Return a copy of each matrix over its largest entry, so that squares neither overflow nor vanish."""
    largest = torch.linalg.vector_norm(x, torch.inf, dim=(1, 2))[:, None, None]
    return x / largest.where(largest > 0, 1.0)


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
    """Return some rows of states in matrices, a row of zeros for −1, shape (T, m, d).

    Args:
        states: shape (n, d).
        rows: shape (T, m).
    """
    return torch.cat([states, states.new_zeros(1, states.shape[1])])[rows]


@lru_cache(maxsize=256)
def floors(sizes: tuple[int, ...], d: int, seed: int) -> dict[str, float]:
    """Return the means over types of ``explained``, ``published`` and ``truncated`` of m isotropic Gaussian vectors."""
    x = torch.from_numpy(np.random.default_rng([seed, d, *sizes]).standard_normal((sum(sizes), d)))
    found = likeness(gathered(x, padded(sizes, max(sizes))), torch.tensor(sizes))
    return {name: float(getattr(found, name).mean()) for name in ("explained", "published", "truncated")}
