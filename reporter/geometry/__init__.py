"""The mathematics of states: arrays in, numbers out; it knows nothing of models, texts or studies.

The functions here take states x of shape (n, d), one state to a row: a NumPy array or a torch tensor, in any precision
and on any device. They are computed in float64 and return a float (an array where they say so). What cannot be computed
is a ``ValueError`` that says why, which is also a :class:`reporter.UsageError`. Numbers may have any size: states
are scaled by a power of two where their squares would not fit. Metrics of the same names call the same code::

    import numpy as np
    from reporter import geometry

    x = np.random.default_rng(0).standard_normal((1000, 5))
    geometry.twonn(x), geometry.isoscore(x), geometry.cka(x, x[:, :3])

The modules of this room hold what these are made of, for whole layers and corpora: :mod:`.neighbours` and :mod:`.pairs`
(exact, at the price of float32 products), :mod:`.ratios`, :mod:`.spectra`, :mod:`.components`, :mod:`.similarity`,
:mod:`.linear`, :mod:`.clouds`, :mod:`.entropy`, :mod:`.statistics`, :mod:`.intervals` and :mod:`.noise` (what a number
reads on nothing).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reporter.geometry import spectra
from reporter.geometry.arrays import (
    ArgumentError,
    Floats,
    Ints,
    all_equal,
    chosen,
    scaled,
    share,
    states,
    unscaled,
    whole,
)

if TYPE_CHECKING:
    from torch import Tensor

    States: TypeAlias = NDArray[np.floating] | Tensor

__all__ = [
    "cka",
    "decay",
    "effective_rank",
    "effective_rank_singular",
    "eigenvalues",
    "gride",
    "isoscore",
    "matrix_entropy",
    "mean_cosine",
    "mutual_knn",
    "nearest_neighbours",
    "participation_ratio",
    "principal_components",
    "rankme",
    "stable_rank",
    "top_variance_share",
    "twonn",
    "twonn_ml",
]


def twonn(x: States, discard: float = 0.1) -> float:
    """Return the intrinsic dimension by TwoNN (Facco et al. 2017).

    With μ_i = r2/r1 the ratio of the distances of state i to its second and first nearest neighbour and F_i = i/N over
    the smallest μ, sorted: the slope through the origin of −log(1 − F) on log μ. Of equal states one counts.

    Args:
        x: states, (n, d).
        discard: share of the largest μ that are left out, 0 to 0.9; 0.1 in the paper.

    Raises:
        ValueError: for fewer than 10 distinct states, and where first and second neighbours are equally far.
    """
    discard = share(discard, "discard", 0.9)
    return spectra.twonn_of(_first_ratios(x, discard), discard)


def twonn_ml(x: States) -> float:
    """Return the intrinsic dimension by the maximum-likelihood form of TwoNN, (N − 1) / Σ log μ (Denti et al. 2022).

    Args:
        x: states, (n, d); μ as in :func:`twonn`.

    Raises:
        ValueError: as for :func:`twonn`.
    """
    return spectra.twonn_ml_of(_first_ratios(x, 0.1))


def gride(x: States, scale: int = 1) -> float:
    """Return the intrinsic dimension at a scale by GRIDE (Denti et al. 2022).

    With μ_i the ratio of the distances of state i to its neighbours 2n and n, the d that maximises the likelihood
    Π d·(μ^d − 1)^(n − 1) / μ^((2n − 1)·d + 1).

    Args:
        x: states, (N, d).
        scale: n, a power of two from 1 to 64.

    Raises:
        ValueError: for another scale, for no more than 2n distinct states or fewer than 10, and where both neighbours
            are equally far from every state.
    """
    scale = chosen(scale, "scale", spectra.SCALES)
    logs, column = _log_ratios(x), spectra.SCALES.index(scale)
    if logs.shape[1] <= column:
        raise ArgumentError(f"scale {scale} needs more than {2 * scale} distinct states in x, got {len(logs)}")
    if logs[:, column].mean() < spectra.EQUALLY_FAR:
        raise ArgumentError(
            f"neighbours {scale} and {2 * scale} are equally far from every state of x; use another scale"
        )
    return spectra.gride_of(logs[:, column], scale)


def eigenvalues(x: States) -> Floats:
    """Return the eigenvalues λ of the covariance (1/n) that are not zero, largest first, (≤ min(d, n − 1),).

    Those up to 1e-12 of Σλ are what rounding leaves of zero.

    Args:
        x: states, (n, d).

    Raises:
        ValueError: where all states are equal.
    """
    both = _spectra(x)
    spectrum = unscaled(both.centred, 2 * both.exponent, "the eigenvalues")
    if spectrum[-1] < np.finfo(np.float64).tiny:
        raise ArgumentError("the eigenvalues of x are too small for float64; multiply x by a constant")
    return spectrum


def top_variance_share(x: States) -> float:
    """Return λ1 / Σλ, the share of the variance on the first axis (the anisotropy of Razzhigaev et al. 2024).

    Args:
        x: states, (n, d).

    Raises:
        ValueError: where all states are equal.
    """
    return spectra.top_share_of(_spectra(x).centred)


def isoscore(x: States) -> float:
    """Return IsoScore (Rudman et al. 2022), ((Σλ)²/Σλ² − 1) / (d − 1): 1 where every direction varies alike.

    Args:
        x: states, (n, d), d ≥ 2.

    Raises:
        ValueError: where all states are equal, or have one dimension.
    """
    both = _spectra(x)
    if both.d < 2:
        raise ArgumentError("IsoScore needs states of two dimensions or more, but x has one column")
    return spectra.isoscore_of(both.centred, both.d)


def participation_ratio(x: States) -> float:
    """Return (Σλ)² / Σλ² (Gao et al. 2017), from 1 to min(d, n − 1).

    Args:
        x: states, (n, d).

    Raises:
        ValueError: where all states are equal.
    """
    return max(1.0, spectra.participation_ratio_of(_spectra(x).centred))


def effective_rank(x: States) -> float:
    """Return exp(−Σ p log p), p = λ/Σλ with λ the eigenvalues of the covariance (after Roy & Vetterli 2007).

    Args:
        x: states, (n, d).

    Raises:
        ValueError: where all states are equal.
    """
    return max(1.0, spectra.effective_rank_of(_spectra(x).centred))


def effective_rank_singular(x: States) -> float:
    """Return exp(−Σ p log p), p = σ/Σσ with σ the singular values of the centred matrix (Roy & Vetterli 2007).

    Eigenvalues σ²/n up to 1e-8 of their sum count as zero.

    Args:
        x: states, (n, d).

    Raises:
        ValueError: where all states are equal.
    """
    spectrum = _spectra(x).centred
    return spectra.rank_of_roots(spectrum, float(spectrum.sum()))


def rankme(x: States) -> float:
    """Return RankMe (Garrido et al. 2023), exp(−Σ p log p), p = σ/Σσ with σ the singular values of the matrix as it is.

    Values σ²/n up to 1e-8 of the total variance count as zero.

    Args:
        x: states, (n, d); they are not centred.

    Raises:
        ValueError: where all states are equal.
    """
    both = _spectra(x)
    return spectra.rank_of_roots(both.uncentred, float(both.centred.sum()))


def stable_rank(x: States) -> float:
    """Return Σλ / λ1 (Rudelson & Vershynin 2007), from 1 to min(d, n − 1).

    Args:
        x: states, (n, d).

    Raises:
        ValueError: where all states are equal.
    """
    return max(1.0, spectra.stable_rank_of(_spectra(x).centred))


def decay(x: States) -> float:
    """Return α of λ_i ∝ i^−α (Stringer et al. 2019), fitted over i = 1…⌊min(d, n − 1)/2⌋ with weights 1/i.

    Args:
        x: states, (n, d).

    Raises:
        ValueError: where all states are equal, and for fewer than three eigenvalues to fit.
    """
    both = _spectra(x)
    alpha = spectra.decay_of(both.centred, spectra.upper_half(both.centred, min(both.d, both.n - 1)))
    if alpha is None:
        raise ArgumentError("decay needs at least three eigenvalues to fit; x has too few rows or dimensions that vary")
    return alpha


def mean_cosine(x: States) -> float:
    """Return the mean cosine of all pairs of different states (Ethayarajh 2019), exactly: (‖Σu‖² − n) / (n(n − 1)).

    u = x/‖x‖; states that are zero have no direction and are left out.

    Args:
        x: states, (n, d).

    Raises:
        ValueError: for fewer than two states that are not zero.
    """
    vectors, _ = scaled(states(x), by_row=True)
    norms = vectors.norm(dim=1)
    units = vectors[norms > 0] / norms[norms > 0, None]
    if len(units) < 2:
        raise ArgumentError("mean_cosine needs at least two states of x that are not zero")
    return spectra.mean_cosine_of(units.sum(dim=0).cpu().numpy(), len(units))


def matrix_entropy(x: States, form: str = "centred") -> float:
    """Return −Σ p log p in nats, p = λ/Σλ, λ the eigenvalues of the Gram matrix of a few states.

    The definition is that of Sanchez Giraldo et al. 2015.

    Args:
        x: states, such as those of one text, (n, d), n ≥ 3.
        form: ``centred`` of the states minus their mean; ``raw`` as they are (Skean et al. 2025); ``unit`` minus their
            mean, each scaled to length 1, negative products taken as 0 (what the code of Skean et al. does).

    Raises:
        ValueError: for another form, and where all states are equal.
    """
    from reporter.geometry.entropy import FEWEST, FORMS, entropies_of

    form = chosen(form, "form", FORMS)
    vectors, _ = scaled(states(x, FEWEST))
    entropy = entropies_of(vectors, [np.arange(len(vectors))], [np.ones((1, len(vectors)), dtype=bool)])[
        0, 0, FORMS.index(form)
    ].item()
    if np.isnan(entropy):
        raise all_equal(vectors)
    return float(entropy)


def cka(x: States, y: States) -> float:
    """Return the similarity of two arrangements of the same rows: linear CKA (Kornblith et al. 2019), debiased.

    HSIC₁(K, L) / √(HSIC₁(K, K)·HSIC₁(L, L)), with K = XXᵀ and L = YYᵀ without their diagonals and HSIC₁ of Song et al.
    2012: about 0 for independent rows, where the biased form is not. Memory: two n × n matrices in float32, to which
    the number is exact within about 1e-6.

    Args:
        x: states, (n, d), n ≥ 4.
        y: other states of the same n rows, (n, e).

    Raises:
        ValueError: where all rows of a side, or all but one, are equal.
    """
    from reporter.geometry import similarity

    sides = [scaled(side)[0] for side in _same_rows(x, y, 4)]
    gram_x, gram_y = (similarity.gram(side)[None] for side in sides)
    for name, side, gram in (("x", sides[0], gram_x), ("y", sides[1], gram_y)):
        if not gram.any():
            raise _no_gram(side, name)
    every = [slice(0, len(sides[0]))]
    own_x, own_y = similarity.own_hsic(gram_x, every), similarity.own_hsic(gram_y, every)
    return float(similarity.cka_of(similarity.hsic(gram_x, gram_y, every), own_x, own_y)[0, 0, 0])


def mutual_knn(x: States, y: States, k: int = 10) -> float:
    """Return the share of its k nearest rows, by cosine, that a row has in common in both (Huh et al. 2024), 0 to 1.

    Args:
        x: states, (n, d), n > k; none of them zero.
        y: other states of the same n rows, (n, e).
        k: neighbours.

    Raises:
        ValueError: for no more rows than neighbours, and where a row is zero.
    """
    from reporter.geometry import similarity

    k = whole(k, "k")
    sides = [scaled(side, by_row=True)[0] for side in _same_rows(x, y, k + 1)]
    for name, side in zip("xy", sides, strict=True):
        zero = (side == 0).all(dim=1)
        if zero.any():
            raise ArgumentError(f"row {int(zero.int().argmax())} of {name} is zero and has no cosine; remove it")
    a, b = (similarity.by_cosine(side, k)[None] for side in sides)
    return float(similarity.overlaps(a, b, [slice(0, a.shape[1])])[0, 0, 0])


def nearest_neighbours(x: States, k: int = 1) -> tuple[Floats, Ints]:
    """Return the Euclidean distances to the k nearest other rows and which rows these are, nearest first, each (n, k).

    Exact: candidates come from products in float32, distances from differences in float64.

    Args:
        x: states, (n, d), n > k.
        k: neighbours.

    Raises:
        ValueError: for no more rows than neighbours.
    """
    from reporter.geometry.neighbours import nearest_of_any

    k = whole(k, "k")
    vectors, exponent = scaled(states(x, fewest=k + 1))
    near = nearest_of_any(vectors, k)
    return unscaled(near.distances.cpu().numpy(), exponent, "the distances"), near.places.cpu().numpy()


def principal_components(x: States, most: int = 2) -> Floats:
    """Return the coordinates of states on their first principal components, largest variance first, (n, ≤ most).

    Of both directions of an axis the one is chosen in which the state farthest out is positive.

    Args:
        x: states, (n, d).
        most: components, of which there are no more than rows or dimensions.

    Raises:
        ValueError: for states that are no matrix of finite numbers.
    """
    from reporter.geometry.components import components

    most = whole(most, "most")
    vectors, exponent = scaled(states(x))
    return unscaled(components(vectors.cpu().numpy(), most).coordinates, exponent, "the coordinates")


def _log_ratios(x: States, scales: int = len(spectra.SCALES)) -> Floats:
    from reporter.geometry.ratios import log_ratios

    logs = log_ratios(scaled(states(x))[0], scales)
    if len(logs) < spectra.FEWEST:
        got = len(logs) or "fewer than 3"
        raise ArgumentError(f"the dimension needs at least {spectra.FEWEST} distinct states in x, got {got}")
    return logs


def _first_ratios(x: States, discard: float) -> Floats:
    logs = _log_ratios(x, scales=1)[:, 0]
    if logs[spectra.kept_of(len(logs), discard) - 1] < spectra.EQUALLY_FAR:
        raise ArgumentError(
            "the first and second neighbours are equally far from the states of x, so the dimension is undefined"
        )
    return logs


@dataclass(frozen=True)
class _Spectra:
    """The eigenvalues of the covariance that are not zero, and of E xxᵀ, of scaled states, each largest first."""

    centred: Floats
    uncentred: Floats
    exponent: int
    n: int
    d: int


def _spectra(x: States) -> _Spectra:
    import torch

    vectors, exponent = scaled(states(x))
    n = len(vectors)
    centred = vectors - vectors.mean(dim=0)

    def squared_singular(matrix: Tensor) -> Floats:
        square = matrix.T @ matrix if len(matrix) > matrix.shape[1] else matrix @ matrix.T
        spectrum: Floats = torch.linalg.eigvalsh(square / n).flip(0).clamp_min(0).cpu().numpy()
        return spectrum

    if not float(centred.square().sum()) > spectra.EQUAL * float(vectors.square().sum()):
        raise all_equal(vectors)
    spectrum = squared_singular(centred)[: n - 1]
    nonzero = spectrum[spectrum > spectra.ZERO * spectrum.sum()]
    return _Spectra(nonzero, squared_singular(vectors), exponent, *vectors.shape)


def _no_gram(x: Tensor, name: str) -> ArgumentError:
    """Return the error that no two rows have anything in common but what :func:`all_equal` says, or for a lone row."""
    centred = x - x.mean(dim=0)
    if not float(centred.square().sum()) > spectra.EQUAL * float(x.square().sum()):
        return all_equal(x, name)
    row = int((x - x.median(dim=0).values).square().sum(dim=1).argmax())
    return ArgumentError(
        f"all rows of {name} but row {row} are equal, at least next to the size of row {row}; remove row {row}"
    )


def _same_rows(x: States, y: States, fewest: int) -> tuple[Tensor, Tensor]:
    a, b = (states(side, fewest, name) for name, side in zip("xy", (x, y), strict=True))
    if len(a) != len(b):
        raise ArgumentError(f"x has {len(a)} rows, but y has {len(b)}; pass states of the same rows")
    return a, b
