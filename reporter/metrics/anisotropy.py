"""How unevenly states spread over directions: the word names several numbers, each has its own name here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.geometry import noise
from reporter.geometry.components import largest_components
from reporter.geometry.intervals import Error, cosine_influence, error_over_texts, interval
from reporter.geometry.spectra import EQUAL, isoscore_of, mean_cosine_of, participation_ratio_of, top_share_of
from reporter.metrics._growth import OWN_MEAN, RARE_TYPES, per_doubling
from reporter.metrics._intervals import described, sampled, texts_of
from reporter.metrics._sources import ETHAYARAJH, RUDMAN, SHAPE_OF_LEARNING, TIMKEY
from reporter.metrics._spectra import eigenvalues, spectral_errors
from reporter.metrics.base import SampleOptions, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.moments import LayerMoments
    from reporter.observables.observed import Observed, Place

Floats = NDArray[np.float64]

STATISTICS = (
    Statistic(
        "top_variance_share",
        "variance on the first axis",
        "λ1 / Σλ, with λ the eigenvalues of the covariance (1/n) of all token states, centred",
        (SHAPE_OF_LEARNING,),
        interval=described("logit", "0.87 to 1.00"),
        floor=True,
        bounds=(0, 1),
        smallest=0.01,
        headline=True,
        trap="A single sink token in 64 can move it from 0.003 to 0.995: a bell over the depth of a decoder may be "
        "nothing else. Compare the view 'no-sinks'.",
        published="What the code of the same authors computes (LLM-Microscope: `calculate_anisotropy_torch`), over "
        "every token that the tokenizer returns, so the view 'all' is nearest; it leaves out the last hidden state.",
        grows=per_doubling("0 to −2 %", "0.0 to 0.7", RARE_TYPES),
    ),
    Statistic(
        "top_variance_share_batch",
        "variance on the first axis, by batch",
        "mean over shuffled batches of λ1 / Σλ, each batch centred by itself; batches of `sample` tokens drawn without "
        "replacement, duplicates included",
        (SHAPE_OF_LEARNING,),
        interval=described("logit", "0.87 to 1.00"),
        floor=True,
        bounds=(0, 1),
        smallest=0.01,
        trap="The published estimator. A batch of n tokens reads higher than the whole corpus, the more so for few "
        "tokens and wide models: see its floor.",
        published="The paper speaks of batches; the code that its authors published later takes all tokens at once: "
        "top_variance_share.",
        grows=per_doubling("0 to −1 %", "0.0 to 0.6", RARE_TYPES),
    ),
    Statistic(
        "mean_cosine",
        "mean cosine of two tokens",
        "mean over all pairs of different tokens of cos(x_i, x_j) = (‖Σu‖² − n) / (n(n − 1)), u = x/‖x‖; exact, no "
        "pairs are sampled",
        (ETHAYARAJH,),
        interval=described("fisher", "0.87 to 1.00"),
        floor=True,
        bounds=(-1, 1),
        smallest=0.01,
        headline=True,
        trap="A common mean vector or a few giant dimensions are enough for a value near 1; see the centred and "
        "standardised forms.",
        published="The code of Ethayarajh draws 1,000 pairs with replacement from 1,000 tokens, one for each sentence; "
        "a token may meet itself.",
        grows=per_doubling("0 to −3 %", "0.1 to 0.5", RARE_TYPES),
    ),
    Statistic(
        "mean_cosine_centred",
        "mean cosine, centred",
        "the mean cosine of x − μ over a uniform sample of tokens, μ the mean of all tokens",
        (ETHAYARAJH, TIMKEY),
        interval=described("fisher", "0.73 to 1.00"),
        floor=True,
        bounds=(-1, 1),
        smallest=0.01,
        grows=per_doubling("+0.0001 to +0.0003", "0.5 to 8.6", OWN_MEAN),
    ),
    Statistic(
        "mean_cosine_standardised",
        "mean cosine, standardised",
        "the mean cosine of (x − μ)/σ, each dimension by its own standard deviation over all tokens, over a uniform "
        "sample of tokens; dimensions that do not vary are left out",
        (TIMKEY,),
        interval=described("fisher", "0.77 to 0.98"),
        floor=True,
        bounds=(-1, 1),
        smallest=0.01,
        trap="What is left of the mean cosine once no dimension outweighs another.",
        grows=per_doubling("+0.0001 to +0.0003", "0.7 to 11.5", OWN_MEAN),
    ),
    Statistic(
        "isoscore",
        "IsoScore",
        "((Σλ)²/Σλ² − 1) / (d − 1), with λ the eigenvalues of the covariance (1/n) of all token states, centred: what "
        "the paper's algorithm (principal axes, isotropy defect, rescaling) comes to",
        (RUDMAN,),
        interval=described("log", "0.87 to 1.00") + "; made of the participation ratio",
        floor=True,
        bounds=(0, 1),
        smallest=0.01,
        trap="Isotropy, not anisotropy: 1 where every direction varies alike, 0 where one does alone. Fewer tokens "
        "than dimensions cannot reach 1: see the floor.",
        grows=per_doubling("+2 to +8 %", "0.4 to 1.7", RARE_TYPES),
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
    version=4,
    cost="a width × width product for each token and layer (about 1/12 of the forward pass); a bounded sample",
)
def anisotropy(seen: Observed, options: AnisotropyOptions) -> Iterator[Value]:
    """Yield the six statistics and their floors at every layer.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: sample and batches.
    """
    for place in seen.places:
        of_sample = seen.once(("anisotropy", seen.held, place, options), partial(_sampled, seen, place, options))
        moments = seen.moments(place)
        yield from _of_spectrum(seen, place)
        yield from _top_share_of_batches(of_sample, seen, place)
        exact = _Cosines(moments.unit_sum, moments.units, _error_of_all(seen, place, moments))
        yield from _mean_cosine("mean_cosine", seen, place, exact)
        yield from _mean_cosine("mean_cosine_centred", seen, place, of_sample.centred)
        yield from _mean_cosine("mean_cosine_standardised", seen, place, of_sample.standardised)


def _of_spectrum(seen: Observed, place: Place) -> Iterator[Value]:
    """Yield what the eigenvalues of the covariance decide."""
    n, d = seen.tokens, seen.width(place)
    spectrum, reason = eigenvalues(seen, place)
    if reason:
        yield Value("top_variance_share", place, None, n, reason=reason)
        yield Value("isoscore", place, None, n, reason=reason)
        return
    share, errors = top_share_of(spectrum), spectral_errors(seen, place)
    least = 1 / min(d, n - 1)
    yield Value(
        "top_variance_share", place, share, n, *interval(share, errors["top_variance_share"], "logit", (least, 1.0))
    )
    yield Value("top_variance_share_floor", place, noise.top_variance_share(n, d, seen.seed), n)
    if d < 2:
        yield Value("isoscore", place, None, n, reason="states of one dimension")
        return
    ratio = participation_ratio_of(spectrum)
    low, high = interval(ratio, errors["participation_ratio"], "log", (1.0, float(min(d, n - 1))))
    # IsoScore is the participation ratio stretched, and its interval is too.
    ends = (None, None) if low is None or high is None else (_stretched(low, d), _stretched(high, d))
    yield Value("isoscore", place, isoscore_of(spectrum, d), n, *ends)
    yield Value("isoscore_floor", place, isoscore_of(noise.eigenvalues(n, d, seen.seed), d), n)


def _stretched(participation: float, d: int) -> float:
    return float(np.clip((participation - 1) / (d - 1), 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class _Cosines:
    """What a mean cosine is made from.

    Args:
        unit_sum: Σu over the states that are not zero, shape (d,).
        n: how many they are.
        error: of the mean cosine; None for few texts.
    """

    unit_sum: Floats
    n: int
    error: Error | None


def _error_of_all(seen: Observed, place: Place, moments: LayerMoments) -> Error | None:
    """Return the error of the mean cosine over all tokens."""
    if moments.units < 2:
        return None
    sample = sampled(seen)
    x = sample.states(place).double().cpu().numpy()
    norms = np.sqrt(np.square(x).sum(axis=1))
    units, mean = x * _reciprocal(norms, norms > 0)[:, None], moments.unit_sum / moments.units
    return error_over_texts(cosine_influence(units, mean), texts_of(sample), moments.n, seen.texts)


@dataclass(frozen=True)
class _Sampled:
    """What the sampled statistics need of a layer.

    Args:
        n: tokens in all batches together.
        shares: λ1/Σλ of each batch, NaN for a batch of equal states.
        error: of their mean; None for few texts.
        size: tokens in a batch.
        centred: of x − μ over the whole sample.
        standardised: of (x − μ)/σ over the whole sample.
    """

    n: int
    shares: list[float]
    error: Error | None
    size: int
    centred: _Cosines
    standardised: _Cosines


def _sampled(seen: Observed, place: Place, options: AnisotropyOptions) -> _Sampled:
    sample, moments = seen.token_sample(options.sample_size()), seen.moments(place)
    batches = options.split(len(sample))
    states = sample.states(place).double().cpu().numpy()
    found = [_first_share(states[batch]) for batch in batches] if len(sample) else []
    shares = [share for share, _ in found]
    texts, error = texts_of(sample), None
    if found:
        influence = np.concatenate([of_batch * len(of_batch) for _, of_batch in found])
        error = error_over_texts(influence, texts[: len(influence)], len(influence), seen.texts)
    states -= moments.mean
    deviation = np.sqrt(moments.squares / max(moments.n, 1))
    inverse = _reciprocal(deviation, deviation > 1e-6 * np.abs(moments.mean))
    # What rounding leaves of states that equal the mean has no direction.
    scale = np.sqrt(moments.mean @ moments.mean + moments.squares.sum() / max(moments.n, 1))
    squares = np.square(states)
    return _Sampled(
        batches[-1].stop,
        shares,
        error,
        batches[0].stop,
        _cosines(states, np.sqrt(squares.sum(axis=1)), 1e-6 * scale, texts, seen.texts),
        _cosines(states * inverse, np.sqrt(squares @ inverse**2), 0.0, texts, seen.texts, standardised=True),
    )


def _cosines(
    x: Floats, norms: Floats, zero: float, texts: NDArray[np.int64], distinct: int, standardised: bool = False
) -> _Cosines:
    """Return the unit vectors' sum and the error of their mean cosine; norms up to ``zero`` count as zero.

    The mean that was taken off the states, and the deviations that they were divided by, are estimates as well: with
    u = x/‖x‖ and m = E u, a shift −δ of the states moves m by −E[(δ − u(u·δ))/‖x‖], and a dimension's log deviation ε_j
    moves ‖m‖² by −2 ε_j (m_j² − E[(m·u)u_j²]).

    Args:
        x: states about the mean, divided by the deviations where ``standardised``, shape (n, d).
        norms: ‖x‖, shape (n,).
        zero: up to which norms count as zero.
        texts: which text each belongs to, shape (n,).
        distinct: texts of the corpus.
        standardised: whether the deviations are estimates, too.
    """
    inverse = _reciprocal(norms, norms > max(zero, 1e-6 * norms.max(initial=0.0)))
    total, count = inverse @ x, int((inverse > 0).sum())
    if count < 2:
        return _Cosines(total, count, None)
    mean = total / count
    along = (x @ mean) * inverse  # m·u
    shift = (mean * inverse.sum() - (along * np.square(inverse)) @ x) / count
    influence = 2 * (along - mean @ mean) - 2 * x @ shift
    if standardised:
        squares = np.square(x)
        weights = np.square(mean) - (along * np.square(inverse)) @ squares / count
        influence -= (squares - (squares.mean(axis=0) > 0)) @ weights
    return _Cosines(total, count, error_over_texts(influence - influence.mean(), texts, len(x), distinct))


def _top_share_of_batches(sampled: _Sampled, seen: Observed, place: Place) -> Iterator[Value]:
    shares, n = sampled.shares, sampled.n
    if n < 2:
        yield Value("top_variance_share_batch", place, None, n, reason="fewer than two tokens")
        return
    if not np.isfinite(shares).all():
        yield Value("top_variance_share_batch", place, None, n, reason="all states of a batch are equal")
        return
    mean = float(np.mean(shares))
    yield Value("top_variance_share_batch", place, mean, n, *interval(mean, sampled.error, "logit", (0.0, 1.0)))
    floor = noise.top_variance_share(sampled.size, seen.width(place), seen.seed)
    yield Value("top_variance_share_batch_floor", place, floor, sampled.size)


def _first_share(x: Floats) -> tuple[float, Floats]:
    """Return λ1/Σλ of the covariance of x, shape (n, d), and what each row adds to it; NaN if all rows are equal."""
    centred = x - x.mean(axis=0)
    squares = np.square(centred).sum(axis=1)
    total = squares.sum()
    if total <= EQUAL * np.square(x).sum():
        return float("nan"), np.zeros(len(x))
    (largest,), along = largest_components(centred, 1)
    share = float(largest / total)
    return share, (np.square(along[:, 0]) - share * squares) / total


def _reciprocal(x: Floats, where: NDArray[np.bool_]) -> Floats:
    """Return 1/x, and 0 elsewhere."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=where)


def _mean_cosine(statistic: str, seen: Observed, place: Place, of: _Cosines) -> Iterator[Value]:
    """Yield (‖Σu‖² − n) / (n(n − 1)) and its floor."""
    n = of.n
    if n < 2:
        yield Value(statistic, place, None, n, reason="fewer than two states that are not zero")
        return
    value = mean_cosine_of(of.unit_sum, n)
    yield Value(statistic, place, value, n, *interval(value, of.error, "fisher", (-1.0, 1.0)))
    yield Value(f"{statistic}_floor", place, noise.mean_cosine(n, seen.width(place), seen.seed), n)
