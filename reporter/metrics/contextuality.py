"""Dependence of a state on its context rather than on its token (Ethayarajh 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.geometry import noise
from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.intervals import FEWEST_TEXTS, Error, error_over_texts
from reporter.geometry.spectra import mean_cosine_of
from reporter.metrics._intervals import MORE_TYPES, per_doubling, sampled
from reporter.metrics.base import Options, Statistic, Value, metric, undefined

if TYPE_CHECKING:
    import torch

    from reporter.forward.means import Average
    from reporter.forward.observed import Observed, Place
    from reporter.forward.type_sample import Occurrences


_FEWEST = 5  # contexts of a type
_KEPT = 12  # occurrences that the observable keeps of a type

_SAMPLE = (
    "A hash of their ids chooses up to `types` token types among the types that occur at least "
    f"{_FEWEST} times in the corpus. Of each type, up to `occurrences` occurrences in different contexts are read. "
    f"Types with fewer than {_FEWEST} contexts in the token set are left out, as are tokens that the tokenizer added."
)
_TYPES_ENTER = (
    "The influences are those of occurrences on the number of their type. The variance of the types that other texts "
    "would add or remove is included."
)


_of_types = partial(Statistic, sources=("ethayarajh2019contextual",))
_explained_share = partial(_of_types, scale="logit", interval=_TYPES_ENTER, floor=True, bounds=(0, 1))

STATISTICS = (
    _of_types(
        "self_similarity",
        "self-similarity of a type",
        f"Mean over types of the mean cosine of two different occurrences of the type. {_SAMPLE}",
        scale="fisher",
        interval=_TYPES_ENTER,
        floor=True,
        bounds=(-1, 1),
        trap="High wherever all states point the same way. Every type counts equally, so rare words weigh more than in "
        "a mean over tokens.",
        grows=per_doubling("Rises by 1 to 11 %", "2.8 to 5.1", MORE_TYPES),
        fixed=(("first", 1.0),),
        published="The paper's code takes up to 1,000 pairs of all occurrences of a word, however many there are. It "
        "includes occurrences in equal contexts.",
    ),
    _of_types(
        "self_similarity_adjusted",
        "adjusted self-similarity",
        "self_similarity − anisotropy.mean_cosine, on the same token set.",
        scale="plain",
        interval=f"{_TYPES_ENTER} So are the error of the mean cosine and its covariance with the first term.",
        bounds=(-2, 2),
        plainly="How similar a token's states are across contexts, beyond any two tokens.",
        grows=per_doubling("Rises by 1 to 13 %", "2.9 to 3.8", MORE_TYPES),
    ),
    _explained_share(
        "explained_by_first",
        "maximum explainable variance",
        "Mean over types of σ1²/Σσ², with σ the singular values of the matrix of the type's occurrences, not centred. "
        f"{_SAMPLE}",
        trap="At least 1 / (number of occurrences), and near 1 wherever the common mean is long; compare "
        "explained_by_first_baseline.",
        grows=per_doubling("Rises by 1 to 7 %", "2.6 to 4.5", "More types enter, with other numbers of occurrences."),
        fixed=(("first", 1.0),),
        published="This is the paper's formula, in which no mean is subtracted. The paper's code subtracts one: today "
        "it computes λ1/Σλ of the occurrences about their mean, when published the variance along the mean.",
    ),
    _explained_share(
        "explained_by_first_baseline",
        "maximum explainable variance of random tokens",
        "explained_by_first with the occurrences of each type replaced by equally many random occurrences of other "
        "types in the sample.",
        floor=False,
        grows=per_doubling("Falls by 3 to 12 %", "0.9 to 3.6", "Types have more occurrences."),
    ),
    _of_types(
        "explained_by_first_adjusted",
        "maximum explainable variance (adjusted)",
        "explained_by_first − explained_by_first_baseline. On a pretrained encoder, 64 types of 12 occurrences gave "
        "0.03 less than 256 types of 24, which is 1.8 half widths of the interval. The similarities and the other "
        "explained variances moved by at most 0.4 half widths.",
        scale="plain",
        interval=_TYPES_ENTER,
        bounds=(-1, 1),
        trap="Compare at equal `types`: random occurrences of fewer types repeat the same types more often, which "
        "raises the baseline.",
        grows=per_doubling("Rises by 5 to 22 %", "3.2 to 4.7", "The baseline falls as types have more occurrences."),
    ),
    _of_types(
        "intra_text",
        "similarity within a text",
        "Mean over texts of the mean cosine between a token's state and the mean state of its text. Both means are "
        "over the token set. Texts with fewer than two tokens in it are left out.",
        method="bootstrap",
        floor=True,
        bounds=(-1, 1),
        trap="A token is part of the mean that it is compared with, so short texts have higher values; compare the "
        "chance level.",
    ),
    _of_types(
        "intra_text_adjusted",
        "similarity within a text (adjusted)",
        "intra_text − anisotropy.mean_cosine, on the same token set.",
        scale="plain",
        interval="95 % CI over texts (bootstrap and delta method). The variance of intra_text is from 1000 bootstrap "
        "replicates, the variance of the mean cosine from the delta method. Their covariance is from the same "
        "replicates. Student's t.",
        bounds=(-2, 2),
    ),
)


class ContextualityOptions(Options):
    """The number of types, and of occurrences of each."""

    types: int = Field(default=64, ge=1, description="token types that are sampled")
    occurrences: int = Field(default=_KEPT, ge=_FEWEST, le=_KEPT, description="occurrences of a type that are read")

    def sample_size(self) -> int:
        """Return the occurrences that are kept of all types; of each type always the same number is kept."""
        return self.types * _KEPT


@metric(
    name="contextuality",
    title="Contextuality",
    summary="How similar the states of a token type are across contexts, and how similar the tokens of a text are.",
    statistics=STATISTICS,
    question="similarity",
    needs=("moments", "tokens", "type_sample", "intra_text"),
    options=ContextualityOptions,
    version=8,
    cost="a bounded sample; two sums by text per layer",
)
def contextuality(seen: Observed, options: ContextualityOptions) -> Iterator[Value]:
    """Yield the similarities and explained variances, with their floors, at every place."""
    drawn = _draw(seen, options)
    of_places = seen.everywhere(("contextuality", drawn.strata, options), partial(_at_place, drawn))
    for place in seen.places:
        cosine = _mean_cosine(seen, place)
        means = _means_over_types(drawn, seen, of_places[place])
        yield from _self_similarity(means["similarity"], drawn, cosine, place, seen)
        yield from _explained(means, drawn, place, seen)
        average = seen.average("intra_text", "cosine", place)
        if not average.n:
            reason = "no text has two tokens whose states are not zero"
            yield from undefined(("intra_text", "intra_text_adjusted"), place, 0, reason)
            continue
        floor = seen.average("intra_text", "isotropic", place).value
        yield Value("intra_text", place, average.value, average.n, spread=average.replicates, floor=floor)
        yield _adjusted(seen, place, average, cosine)


def _adjusted(seen: Observed, place: Place, within: Average, cosine: _Cosine | None) -> Value:
    """Return the similarity within a text less the mean cosine: a text moves both, so their errors go together.

    That of the mean cosine is from influences of sampled tokens, as in ``anisotropy``; what both share from the same
    texts under the weights of the bootstrap. A sample adds to neither on average.
    """
    from reporter.forward.parts import poisson_weights

    if cosine is None:
        return Value("intra_text_adjusted", place, None, within.n, reason=_NO_COSINE)
    value, drawn = within.value - cosine.value, np.isfinite(within.replicates)
    if cosine.error is None or drawn.sum() < len(drawn) / 2:
        return Value("intra_text_adjusted", place, value, within.n)
    other = (cosine.of_texts @ poisson_weights(cosine.texts, seen.seed, len(drawn)))[drawn]
    shared = np.cov(within.replicates[drawn], other)
    of_text = Error(float(np.sqrt(shared[0, 0])), cosine.error.df)
    error = _of_difference(of_text, cosine.error, float(shared[0, 1]))
    return Value("intra_text_adjusted", place, value, within.n, spread=error)


@dataclass(frozen=True)
class _DrawnTypes:
    """Occurrences of types, and the random ones that stand in for them in the baseline.

    Args:
        occurrences: the sample.
        members: where each type's occurrences lie in it, −1 beyond its size, shape (T, m).
        others: the same, of other types; None where the other types have too few.
        strata: the strata they come from.
        texts: distinct texts of the occurrences, ascending.
        which_text: which of these each occurrence belongs to.
    """

    occurrences: Occurrences
    members: torch.Tensor
    others: torch.Tensor | None
    strata: tuple[int, ...]
    texts: Ints
    which_text: Ints


def _draw(seen: Observed, options: ContextualityOptions) -> _DrawnTypes:
    import torch

    from reporter.forward.type_moments import TYPED
    from reporter.forward.type_sample import TypeSample
    from reporter.geometry.similarity import padded

    strata = tuple(stratum for stratum in seen.held if stratum in TYPED)

    def draw() -> _DrawnTypes:
        occurrences = seen.get(TypeSample).select(strata, options.types, options.occurrences, _FEWEST, seen.device)
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
        texts, which_text = np.unique(occurrences.texts, return_inverse=True)
        return _DrawnTypes(occurrences, members, substitutes if enough else None, strata, texts, which_text)

    return seen.once(("occurrences", strata, options), draw)


FORMS = ("similarity", "explained")
OfTypes = dict[str, tuple[Floats, Floats]]
"""By form, and as ``baseline`` of random tokens: the number of each type, NaN where it has none, shape (T,), and what
each of its occurrences adds to it, shape (T, m)."""


def _at_place(drawn: _DrawnTypes, place: Place) -> OfTypes:
    """Return each form of each type, and where the types have enough others the same of random tokens."""
    import torch

    from reporter.geometry.similarity import explained_by_first, gathered, likeness

    states = drawn.occurrences.states(place)
    if not len(drawn.members):
        return {form: (np.zeros(0), np.zeros(drawn.members.shape)) for form in FORMS}
    sizes = torch.from_numpy(drawn.occurrences.sizes).to(states.device)
    measured = likeness(gathered(states, drawn.members.to(states.device)), sizes)
    forms = dict(zip(FORMS, zip((measured.similarity, measured.explained), measured.added, strict=True), strict=True))
    if drawn.others is not None:
        forms["baseline"] = explained_by_first(gathered(states, drawn.others.to(states.device)))
    return {form: (number.cpu().numpy(), added.cpu().numpy()) for form, (number, added) in forms.items()}


_NO_COSINE = "fewer than two states that are not zero"


@dataclass(frozen=True)
class _Cosine:
    """The mean cosine of a view at a place.

    Args:
        value: the mean.
        error: over texts, from influences of sampled tokens.
        texts: distinct texts of the sample, ascending.
        of_texts: what each of them adds to the mean, shape (texts,).
    """

    value: float
    error: Error | None
    texts: Ints
    of_texts: Floats


def _mean_cosine(seen: Observed, place: Place) -> _Cosine | None:
    from reporter.geometry.similarity import influence_on_mean_cosine

    moments, sample = seen.moments(place), sampled(seen)
    n = moments.units
    if n < 2:
        return None
    influence = influence_on_mean_cosine(wide(sample.states(place)), moments.unit_sum, n)
    influence = influence - influence.mean()
    texts, which = np.unique(sample.texts, return_inverse=True)
    error = error_over_texts(influence, sample.texts, moments.n, seen.texts)
    of_texts = np.bincount(which, influence) / len(influence)
    return _Cosine(mean_cosine_of(moments.unit_sum, n), error, texts, of_texts)


@dataclass(frozen=True)
class _Mean:
    """A mean over types.

    Args:
        value: the mean.
        n: types that it was taken over.
        error: over texts.
        of_texts: what each text adds to the mean, shape (texts of the occurrences,), as ``texts`` of _Drawn lists them.
    """

    value: float
    n: int
    error: Error | None
    of_texts: Floats


def _means_over_types(drawn: _DrawnTypes, seen: Observed, types: OfTypes) -> dict[str, _Mean | None]:
    means = {form: _mean_over_types(drawn, seen, types, form) for form in types}
    if "baseline" in types:
        means["adjusted"] = _mean_over_types(drawn, seen, types, "explained", less="baseline")
    return means


def _mean_over_types(drawn: _DrawnTypes, seen: Observed, types: OfTypes, form: str, less: str = "") -> _Mean | None:
    """Return the mean of a form over types, or that of its difference from another one; None where no type has it.

    The error has two independent parts: what texts do to the types that they have, and which types have the contexts
    that they need. With N contexts in this corpus, another corpus gives a type too few with the probability
    P(Poisson(N) < 5); the mean then lacks what the type adds to it. The spread of the numbers of types bounds both from
    above: they differ by their few contexts, and in themselves. That of the baseline does not: its types share tokens.
    """
    from scipy.special import pdtr

    numbers = types[form][0] - types[less][0] if less else types[form][0]
    finite = np.isfinite(numbers)
    n = int(finite.sum())
    if not n:
        return None
    mean = float(numbers[finite].mean())
    occurrences = drawn.occurrences
    each = np.zeros(len(occurrences.texts))
    for sign, name in ((1, form), (-1, less)) if less else ((1, form),):
        which = drawn.members if drawn.others is None or name != "baseline" else drawn.others
        rows, added = which.numpy()[finite], types[name][1][finite]
        np.add.at(each, rows[rows >= 0], sign * added[rows >= 0] / n)
    error = None
    if n >= FEWEST_TEXTS:
        error = error_over_texts(each * len(each), occurrences.texts, len(each), seen.texts)
    if error is not None:
        lost = pdtr(_FEWEST - 1, occurrences.sizes[finite])
        apart = np.square(numbers[finite] - mean)
        entry = float((lost * apart).sum()) / n**2
        square, most = error.sd**2 + entry, float(apart.sum()) / (n * (n - 1))
        if square > most and "baseline" not in (form, less):
            error = Error(float(np.sqrt(most)), n - 1)
        elif square > 0:
            freedom = square**2 / (error.sd**4 / error.df + entry**2 / (n - 1))
            error = Error(float(np.sqrt(square)), freedom)
    return _Mean(mean, n, error, np.bincount(drawn.which_text, each).astype(np.float64))


_NO_TYPE = f"no token type has {_FEWEST} different contexts and states that are not zero"


def _value(statistic: str, place: Place, mean: _Mean | None, floor: float | None = None) -> Value:
    if mean is None:
        return Value(statistic, place, None, 0, reason=_NO_TYPE)
    return Value(statistic, place, mean.value, mean.n, spread=mean.error, floor=floor)


def _self_similarity(
    mean: _Mean | None, drawn: _DrawnTypes, cosine: _Cosine | None, place: Place, seen: Observed
) -> Iterator[Value]:
    sizes = tuple(drawn.occurrences.sizes.tolist())
    floor = None if mean is None else noise.self_similarity(sizes, seen.width(place), seen.seed)
    yield _value("self_similarity", place, mean, floor)
    if mean is None or cosine is None:
        reason = _NO_COSINE if mean else _NO_TYPE
        yield Value("self_similarity_adjusted", place, None, mean.n if mean else 0, reason=reason)
        return
    error = None
    if mean.error is not None and cosine.error is not None:
        _, of_both, of_these = np.intersect1d(drawn.texts, cosine.texts, assume_unique=True, return_indices=True)
        error = _of_difference(mean.error, cosine.error, float(mean.of_texts[of_both] @ cosine.of_texts[of_these]))
    yield Value("self_similarity_adjusted", place, mean.value - cosine.value, mean.n, spread=error)


def _of_difference(a: Error, b: Error, shared: float) -> Error:
    """Return the error of a difference from those of both sides and their covariance."""
    square = max(a.sd**2 + b.sd**2 - 2 * shared, (a.sd - b.sd) ** 2)
    return Error(float(np.sqrt(square)), min(a.df, b.df))


def _explained(means: dict[str, _Mean | None], drawn: _DrawnTypes, place: Place, seen: Observed) -> Iterator[Value]:
    from reporter.geometry.similarity import explained_floor

    sizes, whole = tuple(drawn.occurrences.sizes.tolist()), means["explained"]
    floor = None if whole is None else explained_floor(sizes, seen.width(place), seen.seed)
    yield _value("explained_by_first", place, whole, floor)
    names = ("explained_by_first_baseline", "explained_by_first_adjusted")
    if whole is None or "baseline" not in means:
        reason = "the other types have too few occurrences" if whole else _NO_TYPE
        yield from undefined(names, place, whole.n if whole else 0, reason)
        return
    for name, form in zip(names, ("baseline", "adjusted"), strict=True):
        yield _value(name, place, means[form])
