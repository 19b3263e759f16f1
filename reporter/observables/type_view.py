"""What ``TypeMoments`` says of one place under one view, with its sums checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.errors import ReporterError
from reporter.observables.type_moments import TYPED, TypeMoments, types_within

if TYPE_CHECKING:
    from reporter.forward.places import Place
    from reporter.observables.observed import Observed

Floats = NDArray[np.float64]

WITHIN, ROUNDED_WITHIN = (
    1e-9,
    1e-3,
)  # of the variance, by which its two parts may miss it; 16 bits hold squares to 2^-10
_ROUNDING = 1e-16  # of E‖x‖², which float64 does not resolve
_EQUAL = 1e-12
"""Of E‖x‖²: a variance below it is what rounding in float32 leaves of equal states."""


@dataclass(frozen=True, eq=False)
class TypeView:
    """Variance within and between token types at one place, over the tokens that the types cover.

    Args:
        n: covered tokens.
        centre: μ, shape (width,).
        within: Σ p_t E‖x − μ_t‖², p_t = n_t/n.
        between: Σ p_t ‖μ_t − μ‖².
        ranks: of the types seen in the view, ascending; 0 is the most frequent in the corpus; shape (T,).
        count: n_t, shape (T,).
        means: μ_t, shape (T, width).
        variances: E‖x − μ_t‖², shape (T,).
    """

    n: int
    centre: Floats
    within: float
    between: float
    ranks: NDArray[np.int64]
    count: Floats
    means: Floats
    variances: Floats

    @cached_property
    def norm_of_mean(self) -> float:
        """‖μ‖."""
        return float(np.linalg.norm(self.centre))

    @cached_property
    def norms(self) -> Floats:
        """‖μ_t‖, shape (T,)."""
        return np.asarray(np.linalg.norm(self.means, axis=1))

    @property
    def total(self) -> float:
        """V = E‖x − μ‖²."""
        return self.within + self.between

    @property
    def mean_square(self) -> float:
        """E‖x‖² = ‖μ‖² + V."""
        return self.norm_of_mean**2 + self.total

    @property
    def varies(self) -> bool:
        """Whether the variance is more than what float32 leaves of equal states."""
        return self.total > _EQUAL * self.mean_square

    @property
    def varies_within(self) -> bool:
        """Whether the variance within types is: the states of a type are equal where no position is added."""
        return self.within > _EQUAL * self.mean_square


def type_view(seen: Observed, place: Place, memory: int) -> TypeView:
    """Return variance within and between the types that fit a memory budget, whatever larger one was kept.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        place: site and layer.
        memory: the budget in MiB.

    Raises:
        ReporterError: if V = V_W + V_B or E‖x‖² = ‖μ‖² + V fails for the sums that were kept.
    """
    kept, strata = seen.get(TypeMoments), typed_strata(seen)
    at = kept.layout.index[place]
    ranks, count, mean, scatter = _merged(kept, at, strata)
    whole = _view_of(ranks, count, mean, scatter)
    _check(kept, at, strata, whole, place)
    few = types_within(memory, kept.layout)
    if few >= len(kept.types):
        return whole
    inside = ranks < few
    return _view_of(ranks[inside], count[inside], mean[inside], scatter[inside])


def typed_strata(seen: Observed) -> tuple[int, ...]:
    """Return the view's strata in which kept types were seen; views of which they are equal have the same types."""
    kept = seen.get(TypeMoments)
    return tuple(stratum for stratum in seen.strata if stratum in TYPED and len(kept.strata[stratum].ranks))


def _merged(kept: TypeMoments, at: int, strata: tuple[int, ...]) -> tuple[NDArray[np.int64], Floats, Floats, Floats]:
    """Return rank, count, mean and scatter of each type seen in some strata, by rank."""
    parts = [kept.strata[stratum] for stratum in strata]
    ranks = np.unique(np.concatenate([part.ranks for part in parts] or [np.zeros(0, dtype=np.int64)]))
    count, scatter = np.zeros(len(ranks)), np.zeros(len(ranks))
    mean = np.zeros((len(ranks), kept.layout.widths[at]))
    for part in parts:
        used = len(part.ranks)
        rows = np.searchsorted(ranks, part.ranks)
        more, its_mean = part.count[:used], part.mean[at][:used].numpy()
        known, total = count[rows], count[rows] + more
        delta = its_mean - mean[rows]
        mean[rows] += delta * (more / total)[:, None]
        scatter[rows] += part.scatter[at][:used].numpy() + np.square(delta).sum(axis=1) * known * more / total
        count[rows] = total
    return ranks, count, mean, scatter


def _view_of(ranks: NDArray[np.int64], count: Floats, mean: Floats, scatter: Floats) -> TypeView:
    n = max(count.sum(), 1.0)
    centre = count @ mean / n
    between = count @ np.square(mean - centre).sum(axis=1) / n
    return TypeView(
        int(count.sum()),
        centre,
        float(scatter.sum() / n),
        float(between),
        ranks,
        count,
        mean,
        scatter / np.maximum(count, 1.0),
    )


def _check(kept: TypeMoments, at: int, strata: tuple[int, ...], found: TypeView, place: Place) -> None:
    """Compare with sums over the same tokens that know nothing of types."""
    n, mean, scatter, squares = 0.0, np.zeros(kept.layout.widths[at]), 0.0, 0.0
    for stratum in strata:
        part = kept.strata[stratum].whole(at)
        delta = part.mean.numpy() - mean
        scatter += float(part.scatter) + float(delta @ delta) * n * part.count / (n + part.count)
        mean = mean + delta * (part.count / (n + part.count))
        n, squares = n + part.count, squares + float(part.squares)
    if n == 0:
        return
    total, square = scatter / n, squares / n
    within = ROUNDED_WITHIN if kept.rounded else WITHIN
    # Of states that are equal up to rounding the variance is rounding itself, and so is its difference.
    residue = _EQUAL if total <= _EQUAL * square else _ROUNDING
    if n != found.n or abs(total - found.total) > within * total + residue * square:
        raise ReporterError(
            f"at {place} the variance within ({found.within}) and between ({found.between}) token types does not add "
            f"up to the total ({total}): what was kept of this pass is damaged"
        )
    if abs(square - found.mean_square) > within * square:
        raise ReporterError(
            f"at {place} the mean square norm ({square}) is not the squared norm of the mean plus the variance "
            f"({found.mean_square}): what was kept of this pass is damaged"
        )
