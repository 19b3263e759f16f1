"""Chance levels of statistics: their values on isotropic Gaussian states of the same number and dimension.

Each floor is drawn, not derived, so that it carries the bias of a finite sample. Where the distribution of what the
statistic needs is known exactly, that is drawn instead of n × d numbers.
"""

from functools import lru_cache

import numpy as np

from reporter.geometry.arrays import Floats
from reporter.geometry.spectra import mean_cosine_of, top_share_of


def gaussian(n: int, d: int, seed: int) -> Floats:
    """Return n independent isotropic Gaussian vectors, shape (n, d)."""
    return np.random.default_rng([seed, n, d]).standard_normal((n, d))


def first_gaussian(n: int, d: int, seed: int) -> Floats:
    """Return the first n of an endless row of isotropic Gaussian vectors, (n, d): the first of them for every n."""
    return np.random.default_rng([seed, d]).standard_normal((n, d))


@lru_cache(maxsize=256)
def eigenvalues(n: int, d: int, seed: int) -> Floats:
    """Return the spectrum of the covariance of n isotropic Gaussian vectors, largest first, shape (min(d, n − 1),).

    It is known up to a factor: the centred second moment is Wishart with n − 1 degrees of freedom, drawn by Bartlett's
    decomposition: A·Aᵀ with A lower triangular, A_ii² ~ χ²(n − 1 − i), A_ij ~ N(0, 1). For n ≤ d the vectors themselves
    are drawn. The array is shared and cannot be written to.
    """
    if n <= d:
        x = gaussian(n, d, seed)
        a = x - x.mean(axis=0)
    else:
        rng = np.random.default_rng([seed, n, d])
        a = np.tril(rng.standard_normal((d, d)), -1)
        a[np.arange(d), np.arange(d)] = np.sqrt(rng.chisquare(n - 1 - np.arange(d)))
    spectrum: Floats = np.linalg.eigvalsh(a @ a.T)[::-1][: max(min(d, n - 1), 0)].clip(0.0)
    spectrum.flags.writeable = False
    return spectrum


@lru_cache(maxsize=256)
def top_variance_share(n: int, d: int, seed: int) -> float:
    """Return λ1/Σλ of the covariance of n isotropic Gaussian vectors in d dimensions."""
    return top_share_of(eigenvalues(n, d, seed))


@lru_cache(maxsize=256)
def mean_cosine(n: int, d: int, seed: int) -> float:
    """Return the mean cosine over pairs of n isotropic vectors in d dimensions, (‖Σu‖² − n)/(n(n − 1)).

    For more than 4096 vectors, Σu is drawn from its limit N(0, n/d).
    """
    if n <= 4096:
        x = gaussian(n, d, seed)
        total = (x / np.linalg.norm(x, axis=1, keepdims=True)).sum(axis=0)
    else:
        total = np.random.default_rng([seed, n, d]).standard_normal(d) * np.sqrt(n / d)
    return mean_cosine_of(total, n)


@lru_cache(maxsize=256)
def pair_cosine(n: int, d: int, seed: int) -> float:
    """Return the mean over n draws of the cosine of two independent isotropic vectors.

    (1 + cos)/2 ~ Beta((d − 1)/2, (d − 1)/2) for d ≥ 2.
    """
    rng = np.random.default_rng([seed, n, d])
    if d == 1:
        return float(rng.choice([-1.0, 1.0], n).mean())
    return float(2 * rng.beta((d - 1) / 2, (d - 1) / 2, n).mean() - 1)


@lru_cache(maxsize=256)
def step_angle(n: int, d: int, seed: int) -> float:
    """Return the mean angle over n draws of isotropic a, b, c between b − a and c − b; 2π/3 for large d.

    At most 4096 triples are drawn: the mean does not depend on n, and its error is below 0.001 by then.
    """
    draws = min(n, 4096)
    a, b, c = (gaussian(draws, d, seed + i) for i in range(3))
    first, second = b - a, c - b
    cosine = (first * second).sum(axis=1) / (np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))
    return float(np.arccos(np.clip(cosine, -1, 1)).mean())


@lru_cache(maxsize=256)
def path_shape(layers: int, d: int, seed: int) -> tuple[float, float]:
    """Return the means of L/‖Σ s_l/‖s_l‖‖ and of ‖h_L − h_0‖/Σ‖s_l‖, s_l = h_{l+1} − h_l, of isotropic h_0 … h_L.

    About L and 1/L in many dimensions; of 256 draws, which do not hang on how many tokens there are.
    """
    h = gaussian(256, (layers + 1) * d, seed).reshape(256, layers + 1, d)
    steps = np.diff(h, axis=1)
    lengths = np.linalg.norm(steps, axis=2)
    turned = np.linalg.norm((steps / lengths[:, :, None]).sum(axis=1), axis=1)
    return (
        float(np.maximum(layers / turned[turned > 0], 1.0).mean()),  # 0 happens in one dimension
        float(np.minimum(np.linalg.norm(h[:, -1] - h[:, 0], axis=1) / lengths.sum(axis=1), 1.0).mean()),
    )


@lru_cache(maxsize=256)
def subspaces(d: int, k: int, seed: int) -> float:
    """Return the mean over 32 draws of √Σθ², θ the principal angles of two random k-dimensional subspaces of d."""
    rng = np.random.default_rng([seed, d, k])
    fixed = np.eye(d)[:k]  # the angles with any one subspace have the same distribution
    drawn = (np.linalg.qr(rng.standard_normal((d, k)))[0] for _ in range(32))
    cosines = [np.linalg.svd(fixed @ axes, compute_uv=False).clip(0, 1) for axes in drawn]
    return float(np.mean(np.sqrt(np.square(np.arccos(cosines)).sum(axis=1))))


def cosine_above(threshold: float, d: int) -> float:
    """Return P(|cosine| > t) of a direction drawn evenly from the sphere in d dimensions.

    cos² has a Beta(1/2, (d − 1)/2) distribution.
    """
    from scipy.special import betainc

    if threshold >= 1:
        return 0.0
    return 1.0 if d == 1 else float(betainc((d - 1) / 2, 0.5, 1 - threshold**2))


def isotropic_cosine(n: Floats, d: int) -> Floats:
    """Return E cos(x_1, x_1 + … + x_n) of n isotropic Gaussian vectors in d dimensions.

    It is the mean of an uncentred sample correlation of d pairs with ρ = 1/√n:
    E r = ρ·(2/d)·(Γ((d + 1)/2)/Γ(d/2))²·₂F₁(½, ½; d/2 + 1; ρ²) (Muirhead 1982, section 5.1).
    """
    from scipy.special import gammaln, hyp2f1

    sizes, which = np.unique(n, return_inverse=True)
    rho = 1 / np.sqrt(np.maximum(sizes, 1))
    factor = 2 / d * np.exp(2 * (gammaln((d + 1) / 2) - gammaln(d / 2)))
    return np.asarray((rho * factor * hyp2f1(0.5, 0.5, d / 2 + 1, rho**2))[which].reshape(n.shape))


@lru_cache(maxsize=256)
def self_similarity(sizes: tuple[int, ...], d: int, seed: int) -> float:
    """Return the mean over types of the mean cosine of m isotropic Gaussian vectors each.

    The cosines of pairs are uncorrelated with mean 0 and variance 1/d; the mean over types is drawn from its normal
    limit.
    """
    m = np.array(sizes)
    error = np.sqrt((2 / (m * (m - 1) * d)).sum()) / len(m)
    return float(np.clip(error * np.random.default_rng([seed, d, *sizes]).standard_normal(), -1, 1))


@lru_cache(maxsize=256)
def between_share(n: int, types: int, d: int, seed: int) -> float:
    """Return V_B/V of n isotropic Gaussian states in d dimensions to which T types mean nothing.

    V_B/V ~ Beta(d(T − 1)/2, d(n − T)/2), whatever the counts; its mean is (T − 1)/(n − 1).
    """
    if types <= 1 or types >= n:
        return float(types > 1)
    return float(np.random.default_rng([seed, n, types, d]).beta(d * (types - 1) / 2, d * (n - types) / 2))


@lru_cache(maxsize=256)
def linear_fit(n: int, d: int, e: int, seed: int) -> float:
    """Return R² of the best linear map of n isotropic Gaussian vectors in d dimensions on others in e dimensions.

    The explained sum of squares is χ² with e·d degrees of freedom, what is left with e·(n − 1 − d); so R² has a Beta
    distribution with half of each.
    """
    if n - 1 <= d:
        return 1.0
    return float(np.random.default_rng([seed, n, d, e]).beta(e * d / 2, e * (n - 1 - d) / 2))
