"""How much a state depends on its context rather than on its token (Ethayarajh 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.core.sources import ETHAYARAJH
from reporter.core.threads import spread
from reporter.geometry import noise
from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.intervals import FEWEST_TEXTS, Error, error_over_texts, interval, percentile_interval
from reporter.metrics._intervals import BOOTSTRAP, MORE_TYPES, TO_A_THOUSAND, per_doubling, sampled, texts_of
from reporter.metrics.base import ROUNDING, Options, Statistic, Value, metric

if TYPE_CHECKING:
    import torch

    from reporter.forward.means import TextAverage
    from reporter.forward.observed import Observed, Place
    from reporter.forward.type_sample import Occurrences


_FEWEST = 5  # contexts of a type
_REPLICATES = 1000
_KEPT = 12  # occurrences that the observable keeps of a type

_SAMPLE = (
    f"over up to `types` types, chosen by a hash of their id among those that occur at least {_FEWEST} times in the "
    f"corpus; of each, up to `occurrences` occurrences in different contexts; types with fewer than {_FEWEST} contexts "
    "in the view, and tokens that the tokenizer added, are left out"
)
_OVER_TYPES = (
    f"95 % percentile interval of {_REPLICATES} bootstrap replicates over types; none for fewer than "
    f"{FEWEST_TEXTS} types; it speaks of other types in the same texts, and is about 1.6 times as wide as what other "
    "texts move the number by, since these bring most of the same types"
)
_LESS_COSINE = (
    "the mean cosine of the same view is taken as exact in the interval; where self_similarity is 1 by definition the "
    "interval is that of the mean cosine, by the delta method over texts"
)

STATISTICS = (
    Statistic(
        "self_similarity",
        "self-similarity of a type",
        f"mean over types of the mean cosine of two different occurrences of the type, {_SAMPLE}",
        (ETHAYARAJH,),
        interval=_OVER_TYPES,
        floor=True,
        bounds=(-1, 1),
        smallest=0.01,
        trap="High wherever all states point the same way: see the adjusted form. Every type weighs the same, so "
        "rare words count for more than in a mean over tokens.",
        grows=per_doubling("+1 to +11 %", "2.8 to 5.1", MORE_TYPES),
        fixed=(("first", 1.0),),
        published="The paper's code takes up to 1,000 pairs of all occurrences of a word, not of a bounded number, and "
        "counts occurrences in equal contexts.",
    ),
    Statistic(
        "self_similarity_adjusted",
        "adjusted self-similarity",
        "self_similarity − anisotropy.mean_cosine of the same view",
        (ETHAYARAJH,),
        interval=f"{_OVER_TYPES}; {_LESS_COSINE}",
        bounds=(-2, 2),
        headline=True,
        plainly="How alike one token's states are in different contexts, beyond what any two tokens are.",
        grows=per_doubling("+1 to +13 %", "2.9 to 3.8", MORE_TYPES),
        smallest=0.01,
    ),
    Statistic(
        "explained_by_first",
        "maximum explainable variance",
        "mean over types of σ1²/Σσ², σ the singular values of the matrix of the type's occurrences, not centred, "
        f"{_SAMPLE}",
        (ETHAYARAJH,),
        interval=_OVER_TYPES,
        floor=True,
        bounds=(0, 1),
        smallest=0.01,
        trap="At least 1 over the number of occurrences, and near 1 wherever the common mean is long: see the "
        "baseline.",
        grows=per_doubling("+1 to +7 %", "2.6 to 4.5", "since more types, with other numbers of occurrences, enter"),
        fixed=(("first", 1.0),),
        published="The paper's formula is this one, without a mean taken off. Its code takes one off: "
        "explained_by_first_published is what it computes today, explained_by_first_truncated what it computed when it "
        "was published.",
    ),
    Statistic(
        "explained_by_first_published",
        "maximum explainable variance (centred)",
        "mean over types of λ1/Σλ, λ the eigenvalues of the covariance of the type's occurrences about their mean, "
        f"{_SAMPLE}; types whose occurrences all have the same state are left out",
        (ETHAYARAJH,),
        interval=_OVER_TYPES,
        floor=True,
        bounds=(0, 1),
        trap="The mean, which is what a static vector would keep, is what it leaves out. At least 1 over the number of "
        "occurrences less one: see the floor.",
        grows=per_doubling("−1 to +3 %", "0.0 to 1.1", MORE_TYPES, TO_A_THOUSAND),
        published="`PCA(n_components=1).explained_variance_ratio_[0]` of scikit-learn over all occurrences of a word, "
        "as the paper's code has it since 25 December 2019; the mean over words is ours.",
    ),
    Statistic(
        "explained_by_first_truncated",
        "maximum explainable variance (along the mean)",
        "mean over types of Var(X·v1) / Σ_j Var(x_j), X the matrix of the type's occurrences, v1 its first right "
        f"singular vector, not centred, {_SAMPLE}; types whose occurrences all have the same state are left out",
        (ETHAYARAJH,),
        interval=_OVER_TYPES,
        floor=True,
        bounds=(0, 1),
        trap="The axis v1 points along the mean, so this is the variance of the lengths: 0 does not say that a static "
        "vector is a bad one.",
        grows=per_doubling("−17 to +6 %", "0.3 to 1.8", MORE_TYPES, TO_A_THOUSAND),
        published="`TruncatedSVD(n_components=100).explained_variance_ratio_[0]` of scikit-learn, whose "
        "variances are about the mean: the first version of the paper's code, with whose numbers, stored beside it, it "
        "compares (0.002 to 0.013 for 'one' in BERT).",
    ),
    Statistic(
        "explained_by_first_baseline",
        "maximum explainable variance of random tokens",
        "explained_by_first with the occurrences of each type replaced by as many random occurrences of other types "
        "of the sample",
        (ETHAYARAJH,),
        interval=f"{_OVER_TYPES}; what stands in comes from the same types and texts, which it takes as given",
        bounds=(0, 1),
        grows=per_doubling("−3 to −12 %", "0.9 to 3.6", "since types have more occurrences"),
        smallest=0.01,
    ),
    Statistic(
        "explained_by_first_adjusted",
        "maximum explainable variance (adjusted)",
        "explained_by_first − explained_by_first_baseline",
        (ETHAYARAJH,),
        interval=_OVER_TYPES,
        bounds=(-1, 1),
        trap="Compare at equal `types`: random occurrences of fewer types repeat more of them, which raises the "
        "baseline. On a pretrained encoder 64 types of 12 occurrences read 0.03 less than 256 of 24, 1.8 half widths "
        "of the interval; the similarities and the other explained variances moved by at most 0.4 of theirs.",
        grows=per_doubling("+5 to +22 %", "3.2 to 4.7", "since the baseline falls as types have more occurrences"),
        smallest=0.01,
    ),
    Statistic(
        "intra_text",
        "similarity within a text",
        "mean over texts of the mean cosine of a token's state to the mean state of the text, both over the view's "
        "tokens; texts of fewer than two tokens in the view are left out",
        (ETHAYARAJH,),
        interval=BOOTSTRAP,
        floor=True,
        bounds=(-1, 1),
        smallest=0.01,
        trap="A token is part of the mean that it is compared with: short texts read higher, see the floor.",
    ),
    Statistic(
        "intra_text_adjusted",
        "similarity within a text (adjusted)",
        "intra_text − anisotropy.mean_cosine of the same view",
        (ETHAYARAJH,),
        interval="95 %, Student's t: variance of 1000 bootstrap replicates over texts, that of the mean cosine by the "
        "delta method over texts, and their covariance in the same replicates",
        bounds=(-2, 2),
        smallest=0.01,
    ),
)


class ContextualityOptions(Options):
    """How many types, and how many occurrences of each."""

    types: int = Field(default=64, ge=1, description="token types that are sampled")
    occurrences: int = Field(default=_KEPT, ge=_FEWEST, le=_KEPT, description="occurrences of a type that are read")

    def sample_size(self) -> int:
        """Return the occurrences that are kept of all types; of each type always the same number is kept."""
        return self.types * _KEPT


@metric(
    name="contextuality",
    title="Contextuality",
    summary="How alike the states of one token type are in different contexts, and how alike the tokens of one text.",
    statistics=STATISTICS,
    needs=("moments", "tokens", "type_sample", "intra_text"),
    options=ContextualityOptions,
    version=6,
    cost="a bounded sample; two sums by text for each layer",
)
def contextuality(seen: Observed, options: ContextualityOptions) -> Iterator[Value]:
    """Yield the similarities and explained variances, with their floors, at every place."""
    from reporter.forward.paths import IntraText

    drawn, kept = _draw(seen, options), seen.get(IntraText)
    of_places = seen.once(("contextuality", drawn.strata, options), lambda: _at_places(drawn, seen, options))
    for place in seen.places:
        cosine = _mean_cosine(seen, place)
        of_types = of_places[place]
        yield from _self_similarity(of_types, drawn, cosine, place, seen)
        yield from _explained(of_types, drawn, place, seen)
        average = kept.average("cosine", place, seen.view)
        if not average.n:
            reason = "no text has two tokens whose states are not zero"
            yield Value("intra_text", place, None, 0, reason=reason)
            yield Value("intra_text_adjusted", place, None, 0, reason=reason)
            continue
        ends = percentile_interval(average.replicates, seen.texts)
        yield Value("intra_text", place, average.value, average.n, *ends)
        yield Value("intra_text_floor", place, kept.average("isotropic", place, seen.view).value, average.n)
        yield _adjusted(seen, place, average, cosine)


def _adjusted(seen: Observed, place: Place, within: TextAverage, cosine: float | None) -> Value:
    """Return the similarity within a text less the mean cosine: a text moves both, so their errors go together.

    That of the mean cosine is from influences of sampled tokens, as in ``anisotropy``; what both share from the same
    texts under the weights of the bootstrap. A sample adds to neither on average.
    """
    from reporter.forward.means import poisson_weights

    if cosine is None:
        return Value("intra_text_adjusted", place, None, within.n, reason="fewer than two states that are not zero")
    value, sample = within.value - cosine, sampled(seen)
    error, influence = _error_of_cosine(seen, place)
    drawn = np.isfinite(within.replicates)
    if error is None or drawn.sum() < len(drawn) / 2:
        return Value("intra_text_adjusted", place, value, within.n)
    texts, which = np.unique(texts_of(sample), return_inverse=True)
    of_texts = np.bincount(which, influence) / len(influence)
    other = (of_texts @ poisson_weights(texts, seen.seed, len(drawn)))[drawn]
    shared = np.cov(within.replicates[drawn], other)
    text_sd = float(np.sqrt(shared[0, 0]))
    square = max(shared[0, 0] + error.sd**2 - 2 * shared[0, 1], (text_sd - error.sd) ** 2)
    ends = interval(value, Error(float(np.sqrt(square)), error.df), "plain", (-2.0, 2.0))
    return Value("intra_text_adjusted", place, value, within.n, *ends)


@dataclass(frozen=True)
class _Drawn:
    """Occurrences of types, and the random ones that stand in for them in the baseline.

    Args:
        occurrences: the sample.
        members: where each type's occurrences lie in it, −1 beyond its size, shape (T, m).
        others: the same, of other types; None where the other types have too few.
        strata: the strata they come from.
    """

    occurrences: Occurrences
    members: torch.Tensor
    others: torch.Tensor | None
    strata: tuple[int, ...]


def _draw(seen: Observed, options: ContextualityOptions) -> _Drawn:
    import torch

    from reporter.forward.type_moments import TYPED
    from reporter.forward.type_sample import TypeSample
    from reporter.geometry.similarity import padded

    strata = tuple(stratum for stratum in seen.held if stratum in TYPED)

    def draw() -> _Drawn:
        sample = seen.get(TypeSample)
        occurrences = sample.select(strata, options.types, options.occurrences, _FEWEST, seen.device)
        sizes, ends = occurrences.sizes, np.cumsum(occurrences.sizes)
        members = padded(tuple(sizes.tolist()), options.occurrences)
        substitutes = torch.full_like(members, -1)
        total = int(sizes.sum())
        enough = all(total - size >= size for size in sizes)
        rng = np.random.default_rng([seen.seed, total])
        for row, (size, end) in enumerate(zip(sizes, ends, strict=True)):
            if enough:
                away = rng.choice(total - size, size, replace=False)
                substitutes[row, :size] = torch.from_numpy(away + size * (away >= end - size))
        return _Drawn(occurrences, members, substitutes if enough else None, strata)

    return seen.once(("occurrences", strata, options), draw)


@dataclass(frozen=True)
class _OfTypes:
    """One number for each type, NaN where it has none: self-similarity, MEV in its forms, and that of random tokens."""

    similarity: Floats
    explained: Floats
    published: Floats
    truncated: Floats
    baseline: Floats | None


def _at_places(drawn: _Drawn, seen: Observed, options: ContextualityOptions) -> dict[Place, _OfTypes]:
    memo: dict[bytes, Floats] = seen.once(("contextuality of types", options), dict)
    keys = drawn.occurrences.keys()
    new = np.array([at for at, key in enumerate(keys) if key not in memo], dtype=np.int64)
    of_places = spread(partial(_at_place, drawn, new), seen.places)
    for at, of_type in zip(new, np.stack([numbers for numbers, _ in of_places], axis=1), strict=True):
        memo[keys[at]] = of_type
    numbers = np.stack([memo[key] for key in keys], axis=1) if keys else np.zeros((len(of_places), 0, 4))
    return {
        place: _OfTypes(numbers[at, :, 0], numbers[at, :, 1], numbers[at, :, 2], numbers[at, :, 3], baseline)
        for at, (place, (_, baseline)) in enumerate(zip(seen.places, of_places, strict=True))
    }


def _at_place(drawn: _Drawn, new: Ints, place: Place) -> tuple[Floats, Floats | None]:
    """Return four numbers of some types, shape (types, 4), and that of random tokens for all."""
    import torch

    from reporter.geometry.similarity import explained_by_first, gathered, likeness

    states = drawn.occurrences.states(place)
    device = states.device
    numbers, baseline = np.zeros((len(new), 4)), None
    if len(new):
        measured = likeness(
            gathered(states, drawn.members[new].to(device)), torch.from_numpy(drawn.occurrences.sizes[new]).to(device)
        )
        forms = [measured.similarity, measured.explained, measured.published, measured.truncated]
        numbers = torch.stack(forms, dim=1).cpu().numpy()
    if drawn.others is not None and len(drawn.others):
        baseline = explained_by_first(gathered(states, drawn.others.to(device))).cpu().numpy()
    return numbers, baseline


def _mean_cosine(seen: Observed, place: Place) -> float | None:
    moments = seen.moments(place)
    n = moments.units
    return float((moments.unit_sum @ moments.unit_sum - n) / (n * (n - 1))) if n > 1 else None


def _mean_over_types(statistic: str, place: Place, values: Floats, seed: int) -> Value:
    values = values[np.isfinite(values)]
    n = len(values)
    if n == 0:
        reason = f"no token type has {_FEWEST} different contexts and states that are not zero"
        return Value(statistic, place, None, 0, reason=reason)
    replicates = _draws(n, seed) @ values / n
    return Value(statistic, place, float(values.mean()), n, *percentile_interval(replicates, n))


@lru_cache(maxsize=16)
def _draws(n: int, seed: int) -> Floats:
    """Return how often each of n types is drawn in each bootstrap replicate, shape (R, n)."""
    drawn = np.random.default_rng([seed, n]).integers(0, n, (_REPLICATES, n)) + n * np.arange(_REPLICATES)[:, None]
    return np.bincount(drawn.ravel(), minlength=_REPLICATES * n).reshape(_REPLICATES, n).astype(np.float64)


def _less(statistic: str, cosine: float | None, value: Value) -> Value:
    if value.value is None or cosine is None:
        reason = value.reason or "fewer than two states that are not zero"
        return Value(statistic, value.place, None, value.n, reason=reason)
    low, high = value.ci_low, value.ci_high
    if low is None or high is None:
        return Value(statistic, value.place, value.value - cosine, value.n)
    return Value(statistic, value.place, value.value - cosine, value.n, low - cosine, high - cosine)


def _self_similarity(
    found: _OfTypes, drawn: _Drawn, cosine: float | None, place: Place, seen: Observed
) -> Iterator[Value]:
    value = _mean_over_types("self_similarity", place, found.similarity, seen.seed)
    yield value
    if value.value is not None:
        sizes = tuple(drawn.occurrences.sizes.tolist())
        yield Value("self_similarity_floor", place, noise.self_similarity(sizes, seen.width(place), seen.seed), value.n)
    adjusted = _less("self_similarity_adjusted", cosine, value)
    if adjusted.value is not None and value.value is not None and abs(value.value - 1) <= ROUNDING:
        error, _ = _error_of_cosine(seen, place)  # nothing else varies where a type has one state
        low, high = interval(adjusted.value, error, "plain", (-2.0, 2.0))
        adjusted = replace(adjusted, ci_low=low, ci_high=high)
    yield adjusted


def _error_of_cosine(seen: Observed, place: Place) -> tuple[Error | None, Floats]:
    from reporter.geometry.similarity import influence_on_mean_cosine

    moments, sample = seen.moments(place), sampled(seen)
    influence = influence_on_mean_cosine(wide(sample.states(place)), moments.unit_sum, moments.units)
    influence = influence - influence.mean()
    return error_over_texts(influence, texts_of(sample), moments.n, seen.texts), influence


def _explained(found: _OfTypes, drawn: _Drawn, place: Place, seen: Observed) -> Iterator[Value]:
    from reporter.geometry.similarity import floors

    value = _mean_over_types("explained_by_first", place, found.explained, seen.seed)
    yield value
    if value.value is not None:
        sizes = tuple(drawn.occurrences.sizes.tolist())
        floor = floors(sizes, seen.width(place), seen.seed)["explained"]
        yield Value("explained_by_first_floor", place, floor, value.n)
    yield from _about_mean(found, drawn, place, seen)
    names = ("explained_by_first_baseline", "explained_by_first_adjusted")
    if value.value is None or found.baseline is None:
        for name in names:
            yield Value(name, place, None, value.n, reason=value.reason or "the other types have too few occurrences")
        return
    for name, values in zip(names, (found.baseline, found.explained - found.baseline), strict=True):
        yield _mean_over_types(name, place, values, seen.seed)


def _about_mean(found: _OfTypes, drawn: _Drawn, place: Place, seen: Observed) -> Iterator[Value]:
    from reporter.geometry.similarity import floors

    sizes = tuple(drawn.occurrences.sizes.tolist())
    for form, values in {"published": found.published, "truncated": found.truncated}.items():
        name = f"explained_by_first_{form}"
        if found.explained.size and not np.isfinite(values).any():
            reason = "every occurrence of a type has the same state"
            yield Value(name, place, None, 0, reason=reason)
            continue
        value = _mean_over_types(name, place, values, seen.seed)
        yield value
        if value.value is not None:
            yield Value(f"{name}_floor", place, floors(sizes, seen.width(place), seen.seed)[form], value.n)
