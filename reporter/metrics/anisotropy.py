"""Anisotropy, the uneven spread of states over directions: the word names several numbers, which have names here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry import noise
from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.intervals import Error, error_over_texts
from reporter.geometry.spectra import isoscore_of, mean_cosine_of, participation_ratio_of, top_share_of
from reporter.metrics._intervals import OWN_MEAN, RARE_TYPES, per_doubling, sampled, spectrum_of
from reporter.metrics.base import Cosine, SampleOptions, Share, Value, metric, undefined

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.forward.observed import Observed, Place
    from reporter.forward.token_sample import TokenSelection


_SAMPLE = (
    "Computed from `sample` times `batches` tokens. The default of 4,096 instead of 16,384 moved the number by up to "
    "0.0015 and made the interval twice as wide."
)

_cosine = partial(Cosine, floor=True)
_share = partial(Share, floor=True, skewed=True)

STATISTICS = (
    _share(
        "top_variance_share",
        "variance explained by the first principal component",
        "λ1 / Σλ, with λ the eigenvalues of the covariance (1/n) of all token states, centred. This is the "
        "explained-variance ratio of the first principal component.",
        ("razzhigaev2024shape",),
        short="variance explained by PC 1",
        scale="logit",
        plainly="Share of the variance of token states along their first principal component.",
        trap="One sink among 64 tokens can raise it from 0.003 to 0.995. A bell over depth may be due to sinks alone; "
        "compare without sinks.",
        published="The paper takes the mean over shuffled batches, which is higher with few tokens and wide models. "
        "The authors' later code (LLM-Microscope: `calculate_anisotropy_torch`) computes this number over every token "
        "that the tokenizer returns (`with special tokens` is nearest). The code leaves out the last hidden state.",
        grows=per_doubling("Falls by up to 2 %", "0.0 to 0.7", RARE_TYPES),
    ),
    _cosine(
        "mean_cosine",
        "mean cosine of two tokens",
        "Mean over all pairs of different tokens of cos(x_i, x_j), which is (‖Σu‖² − n) / (n(n − 1)) with u = x/‖x‖. "
        "Exact: no pairs are sampled.",
        ("ethayarajh2019contextual",),
        scale="fisher",
        plainly="How similar in direction the states of two random tokens are.",
        trap="A common mean vector or a few giant dimensions alone can bring it near 1. Compare the centred and "
        "standardised forms.",
        published="The code of Ethayarajh draws 1,000 pairs with replacement from 1,000 tokens, one per sentence. A "
        "token may be paired with itself.",
        grows=per_doubling("Falls by up to 3 %", "0.1 to 0.5", RARE_TYPES),
    ),
    _cosine(
        "mean_cosine_centred",
        "mean cosine (centred)",
        "Mean cosine of x − μ over all pairs of a uniform sample of tokens, with μ the mean of all tokens.",
        ("ethayarajh2019contextual", "timkey2021bark"),
        scale="fisher",
        interval=_SAMPLE,
        grows=per_doubling("Rises by 0.0001 to 0.0003", "0.5 to 8.6", OWN_MEAN),
    ),
    _cosine(
        "mean_cosine_standardised",
        "mean cosine (standardised)",
        "Mean cosine of (x − μ)/σ over all pairs of a uniform sample of tokens, with σ the standard deviation of each "
        "dimension over all tokens. Dimensions that do not vary are left out. Their deviation is at most 1e-6 of their "
        "mean, or of the root mean square of all deviations (what underflow leaves of a dead dimension).",
        ("timkey2021bark",),
        scale="fisher",
        interval=_SAMPLE,
        trap="What remains of the mean cosine once no dimension outweighs another.",
        grows=per_doubling("Rises by 0.0001 to 0.0003", "0.7 to 11.5", OWN_MEAN),
    ),
    _share(
        "isoscore",
        "IsoScore",
        "((Σλ)²/Σλ² − 1) / (d − 1), with λ the eigenvalues of the covariance (1/n) of all token states, centred. The "
        "paper's algorithm (principal axes, isotropy defect, rescaling) gives the same number.",
        ("rudman2022isoscore",),
        scale="log",
        interval="Derived from the interval of the participation ratio.",
        trap="Isotropy, not anisotropy: 1 if all directions vary equally, 0 if only one varies. Cannot reach 1 with "
        "fewer tokens than dimensions.",
        grows=per_doubling("Rises by 2 to 8 %", "0.4 to 1.7", RARE_TYPES),
    ),
)


TOP_SHARE, ISOSCORE = STATISTICS[0], STATISTICS[-1]


class AnisotropyOptions(SampleOptions):
    """The sample of tokens."""


@metric(
    title="Anisotropy",
    summary="Does one direction dominate, and how similar are two random tokens?",
    statistics=STATISTICS,
    question="directions",
    needs=("moments", "gram", "tokens"),
    options=AnisotropyOptions,
    version=9,
    cost="a width × width product per token and layer (about 1/12 of the forward pass); a bounded sample",
    against_base=("top_variance_share", "mean_cosine"),
)
def anisotropy(seen: Observed, options: AnisotropyOptions) -> Iterator[Value]:
    """Yield the share of the first axis, the mean cosines and IsoScore at every place."""
    sample, influencing = seen.token_sample(options.sample_size()), sampled(seen)
    of_sample = seen.everywhere(
        ("anisotropy", seen.held, seen.only, options), lambda place: list(_of_sample(seen, place, sample, influencing))
    )
    for place in seen.places:
        yield from _of_spectrum(seen, place)
        yield from of_sample[place]


def _of_spectrum(seen: Observed, place: Place) -> Iterator[Value]:
    """Yield what the eigenvalues of the covariance decide."""
    n, d = seen.tokens, seen.width(place)
    state_spectrum = spectrum_of(seen, place)
    if state_spectrum.reason:
        yield from undefined(("top_variance_share", "isoscore"), place, n, state_spectrum.reason)
        return
    spectrum, errors = state_spectrum.values, state_spectrum.errors
    share, most, error = top_share_of(spectrum), float(min(d, n - 1)), errors["top_variance_share"]
    ends, floor = TOP_SHARE.ends(share, error, within=(1 / most, 1.0)), noise.top_variance_share(n, d, seen.seed)
    yield Value("top_variance_share", place, share, n, *ends, spread=error, floor=floor)
    if d < 2:
        yield Value("isoscore", place, None, n, reason="states of one dimension")
        return
    # IsoScore is the participation ratio stretched, and its interval is too.
    ratio = participation_ratio_of(spectrum)
    ends = ISOSCORE.ends(ratio, errors["participation_ratio"], within=(1.0, most))
    low, high = (None if end is None else float(np.clip((end - 1) / (d - 1), 0.0, 1.0)) for end in ends)
    floor = isoscore_of(noise.eigenvalues(n, d, seen.seed), d)
    yield Value("isoscore", place, isoscore_of(spectrum, d), n, low, high, floor=floor)


def _of_sample(seen: Observed, place: Place, sample: TokenSelection, influencing: TokenSelection) -> Iterator[Value]:
    """Yield the mean cosines."""
    import torch

    moments = seen.moments(place)
    states = wide(sample.states(place))
    of_all = _error_of_all(seen, place, influencing, states if influencing is sample else None)
    yield _mean_cosine("mean_cosine", seen, place, moments.unit_sum, moments.units, of_all)
    if not seen.wants("mean_cosine_centred", "mean_cosine_standardised"):
        return
    mean = torch.from_numpy(moments.mean).to(states.device)
    states -= mean
    squares = states.square()
    deviation = torch.from_numpy(moments.squares).to(states.device).div_(max(moments.n, 1)).sqrt_()
    # What rounding leaves of states that equal the mean has no direction.
    scale = float((mean.square() + deviation.square()).sum().sqrt())
    # Samples hold no coordinate that is 2^28 times smaller than its state: a dead dimension would count as rounding.
    least = 1e-6 * mean.abs().clamp(min=float(deviation.square().mean().sqrt()))
    inverse = _reciprocal(deviation, deviation > least)
    centred = _cosines(states, squares, squares.sum(dim=1).sqrt(), 1e-6 * scale, sample.texts, seen.texts)
    yield _mean_cosine("mean_cosine_centred", seen, place, *centred)
    norms = (squares @ inverse.square()).sqrt_()
    standardised = _cosines(states, squares, norms, 0.0, sample.texts, seen.texts, inverse)
    yield _mean_cosine("mean_cosine_standardised", seen, place, *standardised)


def _error_of_all(seen: Observed, place: Place, sample: TokenSelection, states: Tensor | None) -> Error | None:
    from reporter.geometry.similarity import influence_on_mean_cosine

    moments = seen.moments(place)
    if moments.units < 2:
        return None
    x = wide(sample.states(place)) if states is None else states
    influence = influence_on_mean_cosine(x, moments.unit_sum, moments.units)
    return error_over_texts(influence, sample.texts, moments.n, seen.texts, sample.keys)


def _cosines(
    states: Tensor, squares: Tensor, norms: Tensor, zero: float, texts: Ints, distinct: int, each: Tensor | None = None
) -> tuple[Floats, int, Error | None]:
    """Return the unit vectors' sum, their number and the error of their mean cosine; norms up to ``zero`` are zero.

    The mean that was taken off the states, and the deviations that they were divided by, are estimates as well: with
    u = x/‖x‖ and m = E u, a shift −δ of the states moves m by −E[(δ − u(u·δ))/‖x‖], and a dimension's log deviation ε_j
    moves ‖m‖² by −2 ε_j (m_j² − E[(m·u)u_j²]).

    Every step is a product of all states and one vector: x itself, divided by the deviations, is never written down.
    """
    if not len(states):
        return np.zeros(states.shape[1]), 0, None
    inverse = _reciprocal(norms, norms > (1e-6 * norms.max()).clamp(min=zero))
    scale = states.new_ones(states.shape[1]) if each is None else each
    total, count = (inverse @ states) * scale, int((inverse > 0).sum())
    if count < 2:
        return total.cpu().numpy(), count, None
    mean = total / count
    along = (states @ (mean * scale)) * inverse  # m·u
    weights = along * inverse.square()
    shift = (mean * inverse.sum() - (weights @ states) * scale) / count
    influence = 2 * (along - mean @ mean) - 2 * (states @ (shift * scale))
    if each is not None:
        varies = (squares.sum(dim=0) > 0) & (each > 0)
        of_each = mean.square() - (weights @ squares) * scale.square() / count
        influence -= squares @ (of_each * scale.square()) - varies.double() @ of_each
    # About their mean, unit vectors nearly add up to zero, which leaves a cosine of −1/(n − 1): other texts have more
    # tokens or fewer.
    _, which, sizes = np.unique(texts, return_inverse=True, return_counts=True)
    more = 1 - len(states) / distinct / sizes[which]
    influence += float(len(states) * (1 - mean @ mean) / (count - 1) ** 2) * states.new_tensor(more)
    influence -= influence.mean()
    return total.cpu().numpy(), count, error_over_texts(influence.cpu().numpy(), texts, len(states), distinct)


def _reciprocal(x: Tensor, where: Tensor) -> Tensor:
    return x.reciprocal().masked_fill_(~where, 0.0)


def _mean_cosine(statistic: str, seen: Observed, place: Place, unit_sum: Floats, n: int, error: Error | None) -> Value:
    if n < 2:
        return Value(statistic, place, None, n, reason="fewer than two states that are not zero")
    floor = noise.mean_cosine(n, seen.width(place), seen.seed)
    return Value(statistic, place, mean_cosine_of(unit_sum, n), n, spread=error, floor=floor)
