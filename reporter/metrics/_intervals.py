"""Intervals over texts, of bootstrap replicates or of the delta method: how they are made and described."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.intervals import FEWEST_TEXTS, Error, error_over_texts, percentile_interval
from reporter.geometry.spectra import EQUAL, ZERO, gradients
from reporter.metrics.base import INFLUENCES, Value

if TYPE_CHECKING:
    from reporter.forward.means import Average
    from reporter.forward.observed import Observed, Place
    from reporter.forward.token_sample import TokenSelection

# How a statistic itself moves with the size of the corpus, as measured.


RARE_TYPES = "Rare tokens open further directions."
OWN_MEAN = "The mean that is subtracted includes every state, which lowers the cosines by about 1/n."
LARGEST = "The number is a maximum."
DENSER = "Neighbours come nearer, and the curve over scales shifts."
MORE_NEIGHBOURS = "The k nearest of more texts are a smaller share of them."
ON_TWEETS = "Measured on tweets: eight disjoint samples of 100 against all 1,000."
MORE_TYPES = "More and rarer types occur the five times that are required."


def per_doubling(change: str, deviations: str, *why: str) -> str:
    """Return the text of ``Statistic.grows``.

    Args:
        change: of the number itself, such as ``"Rises by 4 to 9 %"``; absolute where the number is near 0.
        deviations: the same in standard deviations of the statistic over corpora of 100 texts.
        why: the reason, and on which texts it was measured where not on those of ``METHODS``.
    """
    in_deviations = f"In standard deviations over corpora of 100 texts: {deviations}."
    return " ".join((f"{change} per doubling of the corpus.", in_deviations, *why))


# How intervals are made: one line at each statistic, and the methods once for all.


WHOLE_LAYERS = "Its ends are whole layers."

METHODS: Mapping[str, str] = {
    "Corpus size": "How a number changes per doubling of the corpus. Unless stated otherwise, measured on 50 to 400 "
    "short texts with an encoder of six layers.",
    "Delta method": f"Influences of up to {INFLUENCES:,} sampled tokens on the number are summed by distinct text. "
    "Their variance and Student's t give the interval.",
    "Bootstrap": "1,000 replicates weight texts at random (Poisson). The percentile interval is widened as Student's t "
    "requires.",
    "Half-samples": "The number is computed on 63 (or 31) balanced halves of the texts. The interval is the number ± t "
    "standard deviations of these.",
    "Jackknife": "The number is computed without each of 8 or 10 groups of texts in turn. Student's t gives the "
    "interval.",
    "Scale of an interval": "An interval on the log, logit or Fisher's z scale is computed there and mapped back. A "
    "share of exactly 0 or 1 has Wilson's.",
}
"""What the lines of intervals and of the size of the corpus refer to, for the glossary and for pages of metrics."""


def mean_or_reason(
    statistic: str,
    place: Place | None,
    mean: Average,
    reason: str,
    texts: int | None = None,
    floor: float | None = None,
) -> Value:
    """Return a mean with its bootstrap replicates, or, where nothing has the quantity, NULL with the reason."""
    if not mean.n:
        return Value(statistic, place, None, 0, reason=reason)
    return Value(statistic, place, mean.value, mean.n, texts=texts, spread=mean.replicates, floor=floor)


FEW_WITHOUT = 0.025
"""Share of resamples without a layer up to which the interval of the others is shown."""


def layer_with_interval(
    statistic: str, profile: Sequence[Average], rule: Callable[[Floats], Floats], texts: int, absent: str, none: str
) -> Value:
    """Return the layer that a rule finds in a profile, with the interval of the layers that it finds in replicates.

    Args:
        statistic: its name.
        profile: the mean at each layer.
        rule: takes profiles as columns, (layers, profiles), and returns the layer of each, NaN where there is none.
        texts: distinct texts of the corpus.
        absent: why there is no profile.
        none: why the rule finds no layer.
    """
    n = min(average.n for average in profile)
    value = rule(np.array([[average.value] for average in profile])).item()
    if not np.isfinite(value):
        return Value(statistic, None, None, n, reason=none if n else absent)
    layers = rule(np.stack([average.replicates for average in profile]))
    if np.isnan(layers).mean() > FEW_WITHOUT:
        return Value(statistic, None, value, n, reason="too many resamples of the texts have no such layer")
    low, high = percentile_interval(layers, texts)
    if low is None or high is None:
        return Value(statistic, None, value, n)
    return Value(statistic, None, value, n, min(value, float(np.floor(low))), max(value, float(np.ceil(high))))


def sampled(seen: Observed, strata: tuple[int, ...] | None = None) -> TokenSelection:
    """Return the tokens whose influences are taken: the same ones for every number of a view, or of some strata."""
    if strata is None:
        return seen.token_sample(INFLUENCES)
    from reporter.forward.token_sample import Tokens

    return seen.once(("influences", strata), lambda: seen.get(Tokens).select(strata, INFLUENCES))


def group_of_state(texts: Ints, groups: int) -> Ints:
    """Return the group of each state, 0…``groups`` − 1: texts in their order of appearance, dealt in turn, shape (n,).

    Of fewer texts than make an interval the states are dealt to two groups: there is none then.

    Args:
        texts: of each state of a sample in random order, shape (n,).
        groups: how many.
    """
    _, first, which = np.unique(texts, return_index=True, return_inverse=True)
    if len(first) < FEWEST_TEXTS:
        return np.arange(len(texts)) % 2
    turn = np.empty(len(first), dtype=np.int64)
    turn[np.argsort(first)] = np.arange(len(first)) % groups
    groups_of_states: Ints = turn[which]
    return groups_of_states


# The eigenvalues of a corpus, and the errors of numbers of them: one decomposition for each place and its tokens.


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The spectrum of the states at a place.

    Args:
        values: its eigenvalues that are not zero, largest first.
        reason: why there are none; empty where there are.
        errors: of numbers of them, by the names that ``gradients`` gives them.
    """

    values: Floats
    reason: str
    errors: Mapping[str, Error | None]


def spectrum_of(seen: Observed, place: Place) -> Spectrum:
    """Return the eigenvalues at a place; those of all places are taken at once.

    n tokens span n − 1 directions about their mean: what lies beyond is rounding and left out.
    """
    if seen.tokens < 2:
        return Spectrum(np.zeros(0), "fewer than two tokens", {})
    sample = sampled(seen)  # before threads ask for it, each for itself
    return seen.everywhere(("spectra", seen.held), lambda place: _decomposed(seen, place, sample))[place]


def _decomposed(seen: Observed, place: Place, sample: TokenSelection) -> Spectrum:
    import torch

    n, states = seen.tokens, sample.states(place)
    device = "cpu" if states.device.type == "mps" else str(states.device)
    values, vectors = torch.linalg.eigh(torch.from_numpy(seen.covariance(place)).to(device))
    spectrum = values.flip(0).clamp(min=0)[: n - 1].cpu().numpy()
    total = spectrum.sum()
    moments = seen.moments(place)
    if not total > EQUAL * (moments.mean @ moments.mean + moments.squares.sum() / n):
        return Spectrum(np.zeros(0), "all states are equal", {})
    spectrum = spectrum[spectrum > ZERO * total]
    numbers = gradients(spectrum, min(seen.width(place), n - 1))
    by = torch.from_numpy(np.stack(list(numbers.values()), axis=1)).to(vectors.device)
    # Products in float32 move an influence, and so an interval, by some 1e-6 of itself.
    x = wide(states).sub_(torch.from_numpy(moments.mean).to(vectors.device)).float()
    along = x @ vectors.flip(1)[:, : len(spectrum)].float()
    influences = (along.square_() @ by.float()).double() - torch.from_numpy(spectrum).to(by.device) @ by
    errors = {
        name: error_over_texts(influence, sample.texts, n, seen.texts, sample.keys)
        for name, influence in zip(numbers, influences.T.cpu().numpy(), strict=True)
    }
    return Spectrum(spectrum, "", errors)
