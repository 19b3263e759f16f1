"""Numbers from the eigenvalues of a covariance, and dimension from the distances to neighbours."""

import numpy as np

from reporter.geometry.arrays import Floats, Ints

ZERO = 1e-12  # of Σλ: an eigenvalue up to it is what rounding leaves of zero
ROOTS_ZERO = 1e-8
"""Of Σλ, where roots are taken: a LayerNorm leaves a direction without variance, float32 products some 1e-9 there, and
the root of that would count as an axis."""
EQUAL = 1e-12
"""Of the mean square of the states: a variance up to it is what rounding leaves of equal float32 states."""


def top_share_of(spectrum: Floats) -> float:
    """Return λ1 / Σλ."""
    return float(spectrum[0] / spectrum.sum())


def effective_rank_of(spectrum: Floats) -> float:
    """Return exp(−Σ p log p), p = λ/Σλ; of singular values where they are given instead."""
    p = spectrum / spectrum.sum()
    p = p[p > 0]
    return float(np.exp(-(p @ np.log(p))))


def rank_of_roots(squares: Floats, variance: float) -> float:
    """Return the effective rank of singular values from their squares over n, those without a root left out."""
    return max(1.0, effective_rank_of(np.sqrt(squares[squares > ROOTS_ZERO * variance])))


def participation_ratio_of(spectrum: Floats) -> float:
    """Return (Σλ)² / Σλ²."""
    p = spectrum / spectrum.sum()
    return float(1 / (p @ p))


def stable_rank_of(spectrum: Floats) -> float:
    """Return Σλ / λ1."""
    return float(spectrum.sum() / spectrum[0])


def isoscore_of(spectrum: Floats, d: int) -> float:
    """Return IsoScore in d ≥ 2 dimensions: the participation ratio, 1…d, stretched to 0…1.

    With Σ̂ = √d·λ/‖λ‖ the paper's isotropy defect is δ = ‖Σ̂ − 1‖ / √(2(d − √d)), its φ = (d − δ²(d − √d))² / d² and
    its score (dφ − 1)/(d − 1). Since ‖Σ̂ − 1‖² = 2d − 2√d·Σλ/‖λ‖, dφ = (Σλ)²/Σλ².
    """
    return float(np.clip((participation_ratio_of(spectrum) - 1) / (d - 1), 0.0, 1.0))


def entropy_of(rank: float, most: int) -> float:
    """Return −Σ p log p / log m from the effective rank exp(−Σ p log p) and how many eigenvalues m ≥ 2 there can be."""
    return float(np.log(rank) / np.log(most))


def tail(spectrum: Floats) -> slice:
    """Return the ranks 12 … 100, of which the code for language models takes αReQ, those without a root left out.

    A LayerNorm leaves an axis without variance, and what rounding makes of it would decide the slope of few ranks.
    """
    return slice(11, min(100, _with_roots(spectrum)))


def _with_roots(spectrum: Floats) -> int:
    return int((spectrum > ROOTS_ZERO * spectrum.sum()).sum())


def decay_of(spectrum: Floats, ranks: slice) -> float | None:
    """Return α of λ_i ∝ i^−α: minus the slope of log λ on log i over some ranks, each weighted by 1/i.

    None for fewer than three eigenvalues there.
    """
    slopes = _slope(spectrum, ranks)
    return None if slopes is None else max(0.0, float(-slopes @ np.log(spectrum[ranks])))  # a sorted one never rises


def upper_half(spectrum: Floats, most: int) -> slice:
    """Return the ranks 1 … ⌊most/2⌋, those without a root left out; see :func:`tail`."""
    return slice(0, min(most // 2, _with_roots(spectrum)))


def _slope(spectrum: Floats, ranks: slice) -> Floats | None:
    rank = np.arange(1, len(spectrum) + 1)[ranks]
    if len(rank) < 3:
        return None
    weight, x = 1 / rank, np.log(rank)
    x = x - weight @ x / weight.sum()
    return np.asarray(weight * x / (weight @ x**2))


def mean_cosine_of(total: Floats, n: int) -> float:
    """Return the mean cosine over pairs of n vectors from the sum of their unit vectors: (‖Σu‖² − n) / (n(n − 1))."""
    return float((total @ total - n) / (n * (n - 1)))


def thinned(count: int) -> Ints:
    """Return which ranks of ``count`` eigenvalues make the curve: all up to 512; else 1…64, then evenly in log."""
    if count <= 512:
        return np.arange(1, count + 1)
    beyond = np.rint(np.geomspace(64, count, 193)).astype(np.int64)
    return np.unique(np.concatenate([np.arange(1, 65), beyond]))


def gradients(spectrum: Floats, most: int) -> dict[str, Floats]:
    """Return the derivative of each number by each eigenvalue, each of shape (eigenvalues,)."""
    total, squares = spectrum.sum(), spectrum @ spectrum
    p = spectrum / total
    share = -p[0] * np.ones_like(p)
    share[0] += 1
    participation = total**2 / squares
    return {
        "top_variance_share": share / total,
        "participation_ratio": participation * 2 * (1 / total - spectrum / squares),
        "effective_rank": _gradient_of_rank(spectrum),
        "effective_rank_without_first": np.concatenate([[0.0], _gradient_of_rank(spectrum[1:])]),
        "decay": _gradient_of_decay(spectrum, upper_half(spectrum, most)),
        "alpha_req": _gradient_of_decay(spectrum, tail(spectrum)),
    }


def _gradient_of_rank(spectrum: Floats) -> Floats:
    if not len(spectrum):
        return spectrum
    total = spectrum.sum()
    p = spectrum / total
    entropy = -(p @ np.log(p))
    return np.asarray(-np.exp(entropy) * (np.log(p) + entropy) / total)


def _gradient_of_decay(spectrum: Floats, ranks: slice) -> Floats:
    gradient, slopes = np.zeros_like(spectrum), _slope(spectrum, ranks)
    if slopes is not None:
        gradient[ranks] = -slopes / spectrum[ranks]
    return gradient


# Dimension from the ratios of distances to neighbours: TwoNN (Facco et al. 2017) and GRIDE (Denti et al. 2022).


SCALES = (1, 2, 4, 8, 16, 32, 64)
RANKS = (*SCALES, 2 * SCALES[-1])  # the neighbours whose distances are needed

FEWEST = 10  # distinct states below which a slope means nothing
EQUALLY_FAR = 1e-9  # a log ratio below it is none
NAMES = ("twonn", *(f"gride_{scale}" for scale in SCALES))


def estimate(name: str, logs: Floats, discard: float) -> float:
    """Return the estimate called ``name`` from log ratios at all scales, ascending in the first column."""
    if name == "twonn":
        return twonn_of(logs[:, 0], discard)
    scale = int(name.removeprefix("gride_"))
    return gride_of(logs[:, SCALES.index(scale)], scale)


def kept_of(n: int, discard: float) -> int:
    """Return how many of n ratios are fitted: ⌊(1 − discard)·n⌋, but no more than n − 1, since F = 1 has no log."""
    return min(int((1 - discard) * n + 1e-9), n - 1)  # 1 − 0.8 is a little less than 0.2


def twonn_of(logs: Floats, discard: float = 0.1) -> float:
    """Return the slope through the origin of −log(1 − F) on log μ over the smallest μ.

    Args:
        logs: log μ, ascending, shape (N,), N ≥ 10.
    """
    n = len(logs)
    kept = logs[: kept_of(n, discard)]
    empirical = -np.log1p(-np.arange(1, len(kept) + 1) / n)
    return float(kept @ empirical / (kept @ kept))


def twonn_ml_of(logs: Floats) -> float:
    """Return (N − 1) / Σ log μ."""
    return float((len(logs) - 1) / logs.sum())


def gride_of(logs: Floats, n: int) -> float:
    """Return the maximum-likelihood dimension from the ratios of the distances to neighbours 2n and n.

    The ratio μ has the density d·(μ^d − 1)^(n−1) / (B(n, n)·μ^((2n−1)d+1)), so d is the only root of

        N/d − (2n − 1)·Σ log μ + (n − 1)·Σ log μ / (1 − μ^−d)

    which falls and is convex: from anywhere Newton's method comes to the left of the root in one step, and from there
    climbs to it. From 1 + x/2 ≤ x/(1 − e^−x) ≤ 1 + x the root is at least 2n·N / ((3n − 1)·Σ log μ).

    Args:
        logs: log μ ≥ 0, not all of them 0, shape (N,).
    """
    import torch

    from reporter.geometry.ratios import most_likely

    given = torch.from_numpy(np.ascontiguousarray(logs, dtype=np.float64))[None, None]
    count = given.new_full((1, 1), given.shape[2])
    return float(most_likely(given, count, given.sum(dim=2), torch.tensor([n])))
