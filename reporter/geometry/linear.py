"""The share of one arrangement of states that a linear map explains of another, from their second moments alone.

X (n × d) and Y (n × e) are two arrangements of the same rows, such as the states of the same tokens at two layers. From
the means and the products Σ(x − m)(x − m)ᵀ, Σ(x − m)(y − k)ᵀ, Σ(y − k)(y − k)ᵀ follow the share of Y that the best
linear map of X explains, on the same rows or on others, and the measures of likeness that do not look at single rows:
the angle that no rotation takes away, CKA, the mean squared canonical correlation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from reporter.geometry.spectra import EQUAL

ZERO = 1e-6
"""Eigenvalues of the correlation matrix of X up to it count as zero: products of float32 numbers end there. Such an
axis holds no more than this share of any dimension's variance."""
DEAD = 1e-6
"""Of the root mean square of all deviations: a dimension up to it holds what underflow leaves, no direction."""


@dataclass(frozen=True)
class Joint:
    """Second moments of two arrangements of the same rows.

    Args:
        n: rows.
        mean_x: (d,) in float64, as everything here.
        mean_y: (e,).
        xx: Σ (x − mean)(x − mean)ᵀ, (d, d).
        xy: (d, e).
        yy: (e, e).
        known: Σ‖y − mean‖², where it is known better than the diagonal of ``yy`` says; None where it is not.
    """

    n: float
    mean_x: Tensor
    mean_y: Tensor
    xx: Tensor
    xy: Tensor
    yy: Tensor
    known: float | None = None

    @property
    def spread(self) -> float:
        """Σ‖y − mean‖²."""
        return float(self.yy.trace()) if self.known is None else self.known

    def to(self, device: torch.device) -> Joint:
        """Return the same on a device."""
        moved: dict[str, Any] = {name: x.to(device) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **moved)

    @property
    def vary(self) -> bool:
        """Whether both arrangements vary by more than rounding."""
        sides = zip((float(self.xx.trace()), self.spread), self._sizes, strict=True)
        return all(spread > EQUAL * size for spread, size in sides)

    @property
    def moves(self) -> bool:
        """Whether Y is longer than what rounding leaves of X: of updates, whether there are any."""
        x, y = self._sizes
        return y > EQUAL * x

    @property
    def _sizes(self) -> tuple[float, float]:
        """Σ‖x‖² and Σ‖y‖²."""
        x = float(self.xx.trace()) + self.n * float(self.mean_x @ self.mean_x)
        return x, self.spread + self.n * float(self.mean_y @ self.mean_y)


def merged(parts: Iterable[Joint]) -> Joint:
    """Return the moments of all rows from those of some parts of them (Chan, Golub & LeVeque 1983)."""
    parts = list(parts)
    spread = 0.0
    n = sum(part.n for part in parts)
    x = sum((part.mean_x * (part.n / n) for part in parts), torch.zeros_like(parts[0].mean_x))
    y = sum((part.mean_y * (part.n / n) for part in parts), torch.zeros_like(parts[0].mean_y))
    xx, xy, yy = (torch.zeros_like(m) for m in (parts[0].xx, parts[0].xy, parts[0].yy))
    for part in parts:
        dx, dy = part.mean_x - x, part.mean_y - y
        xx += part.xx + part.n * torch.outer(dx, dx)
        xy += part.xy + part.n * torch.outer(dx, dy)
        yy += part.yy + part.n * torch.outer(dy, dy)
        spread += part.spread + part.n * float(dy @ dy)
    return Joint(n, x, y, xx, xy, yy, spread)


def joint_of(x: Tensor, y: Tensor) -> Joint:
    """Return the second moments of two arrangements in float64.

    Args:
        x: (n, d).
        y: (n, e).
    """
    mean_x, mean_y = x.mean(dim=0), y.mean(dim=0)
    x, y = x - mean_x, y - mean_y
    return Joint(float(len(x)), mean_x, mean_y, x.T @ x, x.T @ y, y.T @ y)


@dataclass(frozen=True)
class Map:
    """The best linear map of some rows: y ≈ mean_y + Aᵀ(x − mean_x).

    Args:
        mean_x: (d,).
        mean_y: (e,).
        a: (d, e).
        rank: directions of X that it reads.
    """

    mean_x: Tensor
    mean_y: Tensor
    a: Tensor
    rank: int

    def residuals(self, x: Tensor, y: Tensor) -> Tensor:
        """Return what the map leaves of y, (n, e)."""
        return (y - self.mean_y) - (x - self.mean_x) @ self.a


@dataclass(frozen=True, eq=False)
class Directions:
    """The directions in which X varies, those of its correlations: serves every Y on the same rows.

    Args:
        inverse: 1/√(xx_ii), 0 for a dimension that does not vary, (d,).
        values: eigenvalues of the correlation matrix that are not zero, ascending, (r,).
        vectors: their eigenvectors, (d, r).
    """

    inverse: Tensor
    values: Tensor
    vectors: Tensor

    def coordinates(self, x: Tensor) -> Tensor:
        """Return rows of X minus their mean, (n, d), along the directions, each of squared length 1 over the rows of X.

        Their squared lengths are the leverages of the rows, less 1/n.
        """
        rows: Tensor = (x * self.inverse) @ (self.vectors / self.values.sqrt())
        return rows


def directions(xx: Tensor, n: float) -> Directions:
    """Return the directions in which n rows vary.

    Args:
        xx: Σ (x − mean)(x − mean)ᵀ, (d, d).
    """
    scale = xx.diagonal().clamp(min=0).sqrt()
    inverse = torch.where(scale > DEAD * scale.square().mean().sqrt(), 1 / scale, 0.0)
    # Of correlations rather than covariances: else the small dimensions drown in the rounding of the large ones.
    values, vectors = torch.linalg.eigh(xx * inverse[:, None] * inverse)
    kept = values > ZERO
    values, vectors = values[kept], vectors[:, kept]
    # No more than n − 1 directions are real, whatever rounding makes of the others.
    if len(values) > (most := max(int(n) - 1, 0)):
        values, vectors = values[len(values) - most :], vectors[:, len(values) - most :]
    return Directions(inverse, values, vectors)


def fit(joint: Joint, along: Directions | None = None) -> Map:
    """Return the least-squares map of X on Y; along directions in which X does not vary it is zero."""
    along = along or directions(joint.xx, joint.n)
    inner = (along.vectors / along.values) @ (along.vectors.T @ (joint.xy * along.inverse[:, None]))
    return Map(joint.mean_x, joint.mean_y, inner * along.inverse[:, None], len(along.values))


def explained(by: Map, joint: Joint) -> float:
    """Return 1 − Σ‖y − map(x)‖² / Σ‖y − mean_y‖² over rows, both with the map's own mean of y.

    On the rows that the map was fitted to this is R²; on others it may be negative.
    """
    dx, dy = joint.mean_x - by.mean_x, joint.mean_y - by.mean_y
    off = dy - dx @ by.a  # the mean residual
    left = joint.spread - 2 * (by.a * joint.xy).sum() + (by.a * (joint.xx @ by.a)).sum() + joint.n * off @ off
    return float(1 - left / (joint.spread + joint.n * dy @ dy))


def push(by: Map, along: Directions, joint: Joint, share: float, x: Tensor, y: Tensor) -> Tensor:
    """Return what each row adds to the share that a map explains of the rows that it was fitted to, (m,).

    The map is the best one there, so to first order a row changes the share by its own residual alone: by r², which a
    map with few rows to a dimension has drawn near zero, over 1 − leverage, as leaving the row out does.

    Args:
        x: some of the rows, (m, d).
        y: the same on the other side, (m, e).
    """
    return _by_residuals(by, joint, share, x, y, _residual_leverage(along.coordinates(x - by.mean_x), joint.n))


def _by_residuals(by: Map, on: Joint, share: float, x: Tensor, y: Tensor, free: Tensor | float = 1.0) -> Tensor:
    dy = on.mean_y - by.mean_y
    left = by.residuals(x, y).square().sum(dim=1) / free
    whole = (y - by.mean_y).square().sum(dim=1)
    influence: Tensor = ((1 - share) * whole - left) / (on.spread / on.n + float(dy @ dy))
    return influence


def pull(by: Map, along: Directions, fitted: Joint, tried: Joint, share: float, x: Tensor, y: Tensor) -> Tensor:
    """Return by how much each row that a map was fitted to moves what it explains of others, to first order, (m,).

    A residual of row i moves the mean by r_i/n and the map by S⁺x_i r_iᵀ; residuals are divided by 1 − leverage, as a
    jackknife would have them (MacKinnon & White 1985).

    Args:
        x: some of the rows that it was fitted to, (m, d).
        y: the same on the other side, (m, e).
    """
    dx, dy = tried.mean_x - by.mean_x, tried.mean_y - by.mean_y
    spread = tried.spread + tried.n * float(dy @ dy)
    # Σ (x − mean) leftᵀ over the rows that it is tried on, with the map's own means.
    turned = tried.xy + tried.n * torch.outer(dx, dy) - (tried.xx + tried.n * torch.outer(dx, dx)) @ by.a
    rows = along.coordinates(x - by.mean_x)
    residuals = by.residuals(x, y) / _residual_leverage(rows, fitted.n)[:, None]
    influence: Tensor = (
        (rows @ along.coordinates(turned.T).T + tried.n / fitted.n * (dy - dx @ by.a)) * residuals
    ).sum(dim=1)
    influence -= (1 - share) * tried.n / fitted.n * ((y - by.mean_y) @ dy)
    return 2 * influence / spread


def _residual_leverage(rows: Tensor, n: float) -> Tensor:
    return (1 - 1 / n - rows.square().sum(dim=1)).clamp(min=0.1)


def held_out(
    joints: Sequence[Joint], along: Sequence[Directions], x: Tensor, y: Tensor, half: Tensor
) -> tuple[float, Tensor]:
    """Return what the map of each half of the rows explains of the other, mean of both, and what each row adds, (m,).

    A row counts twice: for what is left of it, and for how it pulls the map that is tried on the other half.

    Args:
        x: some of the rows, (m, d).
        y: the same on the other side, (m, e).
        half: which half each is of, 0 or 1, (m,).
    """
    n = sum(joint.n for joint in joints)
    shares, influence = [], torch.zeros(len(x), dtype=x.dtype, device=x.device)
    for half_tried, on in enumerate(joints):
        moments, axes = joints[1 - half_tried], along[1 - half_tried]
        rows, fitted = half == half_tried, half != half_tried
        by = fit(moments, axes)
        share = explained(by, on)
        shares.append(share)
        influence[rows] += n / (2 * on.n) * _by_residuals(by, on, share, x[rows], y[rows])
        influence[fitted] += n / 2 * pull(by, axes, moments, on, share, x[fitted], y[fitted])
    return sum(shares) / 2, influence


@dataclass(frozen=True)
class Similarity:
    """The similarity of two arrangements, and the matrices that say how each row changes it.

    Args:
        value: the measure.
        xy: W with xᵀWy the row's part.
        xx: W with −xᵀWx; a number for a multiple of the identity.
        yy: W with −yᵀWy; a number likewise.
    """

    value: float
    xy: Tensor
    xx: Tensor | float
    yy: Tensor | float

    def influence(self, x: Tensor, y: Tensor) -> Tensor:
        """Return what each row adds to the measure, whose mean over all rows is zero, (n,).

        Args:
            x: rows minus their mean, (n, d).
            y: the same rows on the other side, (n, e).
        """
        influence: Tensor = ((x @ self.xy) * y).sum(dim=1)
        for side, by in ((x, self.xx), (y, self.yy)):
            influence -= ((side @ by) * side).sum(dim=1) if isinstance(by, Tensor) else by * side.square().sum(dim=1)
        return influence


def procrustes(joint: Joint) -> Similarity:
    """Return ‖Σxyᵀ‖_* / √(tr Σxxᵀ · tr Σyyᵀ), the cosine of the angle that no rotation takes away.

    arccos of it is a metric between arrangements up to rotation and scale (Williams et al. 2021).
    """
    left, singular, right = torch.linalg.svd(joint.xy / joint.n, full_matrices=False)
    a, b, total = float(joint.xx.trace()) / joint.n, joint.spread / joint.n, float(singular.sum())
    value = min(total / (a**0.5 * b**0.5), 1.0)  # a · b may be too small for a float
    if total == 0:
        return Similarity(0.0, torch.zeros_like(joint.xy), 0.0, 0.0)
    return Similarity(value, value / total * (left @ right), value / (2 * a), value / (2 * b))


def token_cka(joint: Joint) -> Similarity:
    """Return linear CKA, ‖Σxyᵀ‖² / (‖Σxxᵀ‖ ‖Σyyᵀ‖) in Frobenius norms (Kornblith et al. 2019)."""
    xx, xy, yy = joint.xx / joint.n, joint.xy / joint.n, joint.yy / joint.n
    a, b, both = float(xx.square().sum()), float(yy.square().sum()), float(xy.square().sum())
    value = both / (a**0.5 * b**0.5)
    if both == 0:
        return Similarity(0.0, torch.zeros_like(xy), 0.0, 0.0)
    return Similarity(min(value, 1.0), (2 * value / both) * xy, (value / a) * xx, (value / b) * yy)


def canonical(joint: Joint, x: Directions | None = None, y: Directions | None = None) -> float:
    """Return the mean squared canonical correlation, over as many as the narrower side has directions.

    tr(Sxx⁺ Sxy Syy⁺ Syx) / min(rank X, rank Y) (Raghu et al. 2017; R²_CCA of Kornblith et al. 2019).
    """
    forth = fit(joint, x)
    back = fit(Joint(joint.n, joint.mean_y, joint.mean_x, joint.yy, joint.xy.T, joint.xx), y)
    fewest = min(forth.rank, back.rank)
    return min(max(float((forth.a * back.a.T).sum()) / fewest, 0.0), 1.0) if fewest else 0.0
