"""How unevenly states spread over directions: the word names several numbers, each has its own name here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from reporter.metrics import _floors
from reporter.metrics._intervals import OVER_BATCHES, mean_of_batches
from reporter.metrics._sources import ETHAYARAJH, RUDMAN, SHAPE_OF_LEARNING, TIMKEY
from reporter.metrics._spectra import eigenvalues, isoscore
from reporter.metrics.base import Options, SampleOptions, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place

Floats = NDArray[np.float64]

STATISTICS = (
    Statistic(
        "top_variance_share",
        "variance on the first axis",
        "λ1 / Σλ, with λ the eigenvalues of the covariance (1/n) of all token states, centred",
        (SHAPE_OF_LEARNING,),
        floor=True,
        bounds=(0, 1),
        headline=True,
        trap="A single sink token in 64 can move it from 0.003 to 0.995: a bell over the depth of a decoder may be "
        "nothing else. Compare the view 'no-sinks'.",
        published="What the code of the same authors computes (LLM-Microscope: `calculate_anisotropy_torch`), over "
        "every token that the tokenizer returns, so the view 'all' is nearest; it leaves out the last hidden state.",
    ),
    Statistic(
        "top_variance_share_batch",
        "variance on the first axis, by batch",
        "mean over shuffled batches of λ1 / Σλ, each batch centred by itself; batches of `sample` tokens drawn without "
        "replacement, duplicates included",
        (SHAPE_OF_LEARNING,),
        interval=OVER_BATCHES,
        floor=True,
        bounds=(0, 1),
        trap="The published estimator. A batch of n tokens reads higher than the whole corpus, the more so for few "
        "tokens and wide models: see its floor.",
        published="The paper speaks of batches; the code that its authors published later takes all tokens at once: "
        "top_variance_share.",
    ),
    Statistic(
        "mean_cosine",
        "mean cosine of two tokens",
        "mean over all pairs of different tokens of cos(x_i, x_j) = (‖Σu‖² − n) / (n(n − 1)), u = x/‖x‖; exact, no "
        "pairs are sampled",
        (ETHAYARAJH,),
        floor=True,
        bounds=(-1, 1),
        headline=True,
        trap="A common mean vector or a few giant dimensions are enough for a value near 1; see the centred and "
        "standardised forms.",
        published="The code of Ethayarajh draws 1,000 pairs with replacement from 1,000 tokens, one for each sentence; "
        "a token may meet itself.",
    ),
    Statistic(
        "mean_cosine_centred",
        "mean cosine, centred",
        "the mean cosine of x − μ over a uniform sample of tokens, μ the mean of all tokens",
        (ETHAYARAJH, TIMKEY),
        floor=True,
        bounds=(-1, 1),
    ),
    Statistic(
        "mean_cosine_standardised",
        "mean cosine, standardised",
        "the mean cosine of (x − μ)/σ, each dimension by its own standard deviation over all tokens, over a uniform "
        "sample of tokens; dimensions that do not vary are left out",
        (TIMKEY,),
        floor=True,
        bounds=(-1, 1),
        trap="What is left of the mean cosine once no dimension outweighs another.",
    ),
    Statistic(
        "isoscore",
        "IsoScore",
        "((Σλ)²/Σλ² − 1) / (d − 1), with λ the eigenvalues of the covariance (1/n) of all token states, centred: what "
        "the paper's algorithm (principal axes, isotropy defect, rescaling) comes to",
        (RUDMAN,),
        floor=True,
        bounds=(0, 1),
        trap="Isotropy, not anisotropy: 1 where every direction varies alike, 0 where one does alone. Fewer tokens "
        "than dimensions cannot reach 1: see the floor.",
    ),
)


class AnisotropyOptions(SampleOptions):
    """How the sampled statistics draw their tokens."""


@metric(
    name="anisotropy",
    title="Anisotropy",
    summary="How much of the variance lies on one axis, and how much two random tokens point the same way.",
    statistics=STATISTICS,
    needs=("moments", "gram", "tokens"),
    options=AnisotropyOptions,
    version=2,
    cost="a width × width product for each token and layer (about 1/12 of the forward pass); a bounded sample",
)
def anisotropy(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the six statistics and their floors at every layer.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: sample and batches.
    """
    options = cast(AnisotropyOptions, options)
    for place in seen.places:
        sampled = seen.once(("anisotropy", seen.held, place, options), partial(_sampled, seen, place, options))
        moments = seen.moments(place)
        yield from _of_spectrum(seen, place)
        yield from _top_share_of_batches(sampled, seen, place)
        yield from _mean_cosine("mean_cosine", seen, place, moments.unit_sum, moments.units)
        yield from _mean_cosine("mean_cosine_centred", seen, place, *sampled.centred)
        yield from _mean_cosine("mean_cosine_standardised", seen, place, *sampled.standardised)


def _of_spectrum(seen: Observed, place: Place) -> Iterator[Value]:
    """Yield what the eigenvalues of the covariance decide."""
    n, d = seen.tokens, seen.width(place)
    spectrum, reason = eigenvalues(seen, place)
    if reason:
        yield Value("top_variance_share", place, None, n, reason=reason)
        yield Value("isoscore", place, None, n, reason=reason)
        return
    yield Value("top_variance_share", place, float(spectrum[0] / spectrum.sum()), n)
    yield Value("top_variance_share_floor", place, _floors.top_variance_share(n, d, seen.seed), n)
    if d < 2:
        yield Value("isoscore", place, None, n, reason="states of one dimension")
        return
    yield Value("isoscore", place, isoscore(spectrum, d), n)
    yield Value("isoscore_floor", place, isoscore(_floors.eigenvalues(n, d, seen.seed), d), n)


@dataclass(frozen=True)
class _Sampled:
    """What the sampled statistics need of a layer.

    Args:
        n: tokens in all batches together.
        shares: λ1/Σλ of each batch, NaN for a batch of equal states.
        size: tokens in a batch.
        centred: Σu of x − μ over the whole sample, and how many of its states are not zero.
        standardised: the same of (x − μ)/σ.
    """

    n: int
    shares: list[float]
    size: int
    centred: tuple[Floats, int]
    standardised: tuple[Floats, int]


def _sampled(seen: Observed, place: Place, options: AnisotropyOptions) -> _Sampled:
    sample, moments = seen.token_sample(options.sample_size()), seen.moments(place)
    batches = options.split(len(sample))
    states = sample.states(place).astype(np.float64)
    shares = [_first_share(states[batch]) for batch in batches] if len(sample) else []
    states -= moments.mean
    deviation = np.sqrt(moments.squares / max(moments.n, 1))
    inverse = _reciprocal(deviation, deviation > 1e-6 * np.abs(moments.mean))
    # What rounding leaves of states that equal the mean has no direction.
    scale = np.sqrt(moments.mean @ moments.mean + moments.squares.sum() / max(moments.n, 1))
    squares = np.square(states)
    centred, n_centred = _unit_sum(states, np.sqrt(squares.sum(axis=1)), 1e-6 * scale)
    standardised, n_standardised = _unit_sum(states, np.sqrt(squares @ inverse**2))
    return _Sampled(
        batches[-1].stop,
        shares,
        batches[0].stop,
        (centred, n_centred),
        (standardised * inverse, n_standardised),
    )


def _top_share_of_batches(sampled: _Sampled, seen: Observed, place: Place) -> Iterator[Value]:
    shares, n = sampled.shares, sampled.n
    if n < 2:
        yield Value("top_variance_share_batch", place, None, n, reason="fewer than two tokens")
        return
    if not np.isfinite(shares).all():
        yield Value("top_variance_share_batch", place, None, n, reason="all states of a batch are equal")
        return
    mean, low, high = mean_of_batches(shares)
    yield Value("top_variance_share_batch", place, mean, n, low, high)
    floor = _floors.top_variance_share(sampled.size, seen.width(place), seen.seed)
    yield Value("top_variance_share_batch_floor", place, floor, sampled.size)


def _first_share(x: Floats) -> float:
    """Return λ1/Σλ of the covariance of x, shape (n, d); NaN if all rows are equal."""
    centred = x - x.mean(axis=0)
    total = np.square(centred).sum()
    if total <= 1e-12 * np.square(x).sum():
        return float("nan")
    # The smaller of the two products has the same eigenvalues that are not zero.
    product = centred.T @ centred if x.shape[0] >= x.shape[1] else centred @ centred.T
    return float(_largest_eigenvalue(product) / total)


def _largest_eigenvalue(symmetric: Floats) -> float:
    from scipy.linalg import eigh

    size = len(symmetric)
    return float(eigh(symmetric, eigvals_only=True, subset_by_index=[size - 1, size - 1], check_finite=False)[0])


def _unit_sum(x: Floats, norms: Floats, zero: float = 0.0) -> tuple[Floats, int]:
    """Return Σ x/‖x‖ over the rows that are not zero, and their number; norms up to ``zero`` count as zero."""
    kept = norms > max(zero, 1e-6 * norms.max(initial=0.0))
    return _reciprocal(norms, kept) @ x, int(kept.sum())


def _reciprocal(x: Floats, where: NDArray[np.bool_]) -> Floats:
    """Return 1/x, and 0 elsewhere."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=where)


def _mean_cosine(statistic: str, seen: Observed, place: Place, unit_sum: Floats, n: int) -> Iterator[Value]:
    """Yield (‖Σu‖² − n) / (n(n − 1)) and its floor."""
    if n < 2:
        yield Value(statistic, place, None, n, reason="fewer than two states that are not zero")
        return
    yield Value(statistic, place, float((unit_sum @ unit_sum - n) / (n * (n - 1))), n)
    yield Value(f"{statistic}_floor", place, _floors.mean_cosine(n, seen.width(place), seen.seed), n)
