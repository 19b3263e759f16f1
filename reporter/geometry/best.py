"""Which of several alternatives is the best, and how far each lies behind it, from numbers of the same units.

Several layers are tried on the same texts. The best one that is *seen* is best in part by luck, so that an interval of
its lead over another, as if the two had been named beforehand, is too sure of itself. Here each alternative l has an
interval of what it loses against the best one that there *is*, max_j θ_j − θ_l:

    from max_j (θ̂_j − θ̂_l − c_l·s_jl), at least 0, to max_j (θ̂_j − θ̂_l + c_l·s_jl),

s_jl the standard error of the difference, paired over units, and c_l the 95 % quantile of the largest |t_jl| under the
joint distribution of all differences to l. Where the interval begins at 0, l is *not told apart* from the best: however
many are tried, the set of all such l holds the best one in at least 95 % of cases.

Sources: Hsu 1984, "Constrained simultaneous confidence intervals for multiple comparisons with the best", Annals of
Statistics 12; Dunnett 1955 for the quantile, here by drawing from Student's joint distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.intervals import FEWEST_TEXTS, quantile

DRAWS = 4000
"""Of the joint distribution: the quantile is then known to about 2 %."""
_POWER = 0.8
_ROUNDING = 1e-7  # of the largest number: a difference that small is none


@dataclass(frozen=True)
class Behind:
    """How far alternatives lie behind the best.

    Args:
        values: the mean of each, (k,).
        loss: what each loses against the best one seen, (k,).
        low: lower end of what it loses against the best one that there is, (k,).
        high: upper end, (k,).
        needed: units with which the difference from the best one seen, if it is as large as it is seen, would be
            significant with a probability of 80 %, (k,); NaN where there is no difference.
    """

    values: Floats
    loss: Floats
    low: Floats
    high: Floats
    needed: Floats

    @property
    def best(self) -> int:
        """The best one seen; of equals the first."""
        return int(np.argmax(self.values))


def behind_best(values: Floats, strata: Ints | None = None, inflation: float = 1.0) -> Behind | None:
    """Return how far alternatives lie behind the best; None for fewer than five units.

    Args:
        values: a number of each unit for each alternative, more being better, (n, k).
        strata: the stratum of each unit, (n,): the mean is then that of the strata's means, each of which keeps its
            number of units; all of one stratum if None.
        inflation: by how much the variance is larger than that of independent units.
    """
    n, k = values.shape
    if n < FEWEST_TEXTS:
        return None
    means, covariance, free = _mean_of(values, np.zeros(n, dtype=np.int64) if strata is None else strata)
    draws = _student(covariance, free)
    gaps = means[:, None] - means[None, :]  # gaps[j, l]: what l lies behind j
    variances = covariance.diagonal()
    spread = np.sqrt(np.maximum(variances[:, None] + variances[None, :] - 2 * covariance, 0.0))
    tiny = _ROUNDING * max(float(np.abs(values).max()), np.finfo(float).tiny)
    sure = spread <= tiny  # itself, and what differs by the same in every unit
    half, error = np.zeros((k, k)), np.sqrt(inflation) * spread
    for one in range(k):
        others = ~sure[:, one]
        t = np.abs(draws[:, others] - draws[:, [one]]) / spread[others, one]
        c = float(np.quantile(t.max(axis=1, initial=0.0), 0.95))
        half[others, one] = c * error[others, one]
    low, best = (gaps - half).max(axis=0), int(means.argmax())
    loss, reach = gaps[best], half[best] + quantile(_POWER) * error[best]
    needed = n * np.divide(reach, loss, out=np.full(k, np.nan), where=loss > tiny) ** 2
    return Behind(means, loss, np.where(low <= tiny, 0.0, low), (gaps + half).max(axis=0), needed)


def _mean_of(values: Floats, strata: Ints) -> tuple[Floats, Floats, int]:
    """Return the mean of the strata's means, (k,), its covariance, (k, k), and the degrees of freedom of that."""
    kinds = np.unique(strata)
    means, covariance, free = np.zeros(values.shape[1]), np.zeros((values.shape[1], values.shape[1])), 0
    for kind in kinds:
        own = values[strata == kind]
        means += own.mean(axis=0) / len(kinds)
        if len(own) > 1:
            centred = own - own.mean(axis=0)
            covariance += centred.T @ centred / (len(own) * (len(own) - 1)) / len(kinds) ** 2
            free += len(own) - 1
    return means, covariance, max(free, 1)


def _student(covariance: Floats, free: int) -> Floats:
    """Return ``DRAWS`` draws of Student's joint distribution with this scale, (DRAWS, k)."""
    rng = np.random.default_rng(0)
    eigenvalues, vectors = np.linalg.eigh(covariance)
    normal = rng.standard_normal((DRAWS, len(eigenvalues))) * np.sqrt(np.maximum(eigenvalues, 0.0))
    return np.asarray(normal @ vectors.T / np.sqrt(rng.chisquare(free, (DRAWS, 1)) / free))
