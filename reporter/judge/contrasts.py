"""The one comparison: one number on one side minus the same on the other, with what makes it sure.

Claims, findings and the overview ask :func:`contrast`, on sides that :class:`Group` makes of the numbers of models. The
answer to what changed and `diff` compare two models at many layers: they subtract the same numbers
(:meth:`Estimates.minus`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reporter.judge.estimates import FEWEST_MODELS, ROUNDING, Array, Estimates, over_models, stacked
from reporter.judge.kinship import Kinship, Origins


def over_corpora(numbers: Sequence[Estimates]) -> Estimates:
    """Return the mean of one number on each of several corpora, P = 1: their texts are independent."""
    first, count = numbers[0], len(numbers)
    if count == 1:
        return first
    value, df = np.mean([number.value for number in numbers], axis=0), min(number.df for number in numbers)
    parts = [number.parts for number in numbers if number.parts is not None]
    if len(parts) == count:
        units = min(number.units for number in numbers)
        return replace(Estimates.of_parts(value, np.concatenate(parts, axis=-1) / count, units), df=df)
    down, up = (np.hypot.reduce(sides) / count for sides in zip(*(number.errors for number in numbers), strict=True))
    known, fixed = bool(np.isfinite([down, up]).all()), all(number.fixed for number in numbers)
    return Estimates.of_tails(value, down, up, df, known, fixed)


@dataclass(frozen=True)
class Group:
    """P numbers of each of several independent models.

    Args:
        models: their names; those that count as one are joined.
        numbers: shape (M, P), with errors over texts.
        notes: who was left out as a copy, and who counts together, for readers.
    """

    models: tuple[str, ...]
    numbers: Estimates
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, origins: Origins, numbers: Mapping[str, Estimates]) -> Group:
        """Return the means over models that count as one."""
        kin = Kinship.of(origins, list(numbers))
        units = [stacked([numbers[model] for model in unit]).averaged() for unit in kin.units]
        return cls(tuple(" + ".join(unit) for unit in kin.units), stacked(units), kin.notes)

    @property
    def each(self) -> list[Estimates]:
        """The numbers of each model."""
        return [self.numbers.of_models(index) for index in range(len(self.models))]

    @property
    def values(self) -> Array:
        """The first number of each model, shape (M,)."""
        return self.numbers.value[:, 0]

    @property
    def over_texts(self) -> Estimates | None:
        """The means over models with their errors over texts alone; None where these are not known."""
        return self.numbers.averaged() if self.numbers.known else None

    @property
    def means(self) -> Estimates:
        """The means over models with what is known of their errors."""
        return over_models(self.numbers, self.size)

    @property
    def mean(self) -> float:
        """The mean over models of the first number."""
        return float(self.values.mean())

    @property
    def size(self) -> float:
        """The largest number by its size."""
        return float(np.abs(self.numbers.value).max())

    @property
    def spread(self) -> float:
        """The standard deviation over models; 0 for one."""
        return float(self.values.std(ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def variance(self) -> float:
        """The squared standard error of the mean from models alone; 0 where there are too few to tell."""
        return self.spread**2 / len(self.values) if len(self.values) >= FEWEST_MODELS else 0.0

    @property
    def known(self) -> bool:
        """Whether anything tells how sure the mean is: texts, or three models that are not all alike."""
        return self.numbers.known or (len(self.values) >= FEWEST_MODELS and self.spread > ROUNDING * self.size)


def difference(a: Group, b: Group, same_texts: bool = True) -> tuple[Estimates, float | None]:
    """Return mean(a) − mean(b) of different models, and Hedges' g.

    Welch's t-interval over models: SE² = s_a²/M_a + s_b²/M_b with Welch and Satterthwaite's degrees of freedom, and the
    error of the difference from texts added in full. A side of one or two models has text error alone, and speaks of
    itself. Nothing is known where a side has neither three models nor text errors.

    Sources: Welch 1947; Hedges 1981 for g with its correction 1 − 3/(4(M_a + M_b) − 9).

    Args:
        a: models of one side.
        b: models of the other side.
        same_texts: whether both were measured on the same texts.
    """
    sides = [group for group in (a, b) if len(group.values) >= FEWEST_MODELS]
    models = sum(group.variance for group in sides)
    spread = sum(group.variance**2 / (len(group.values) - 1) for group in sides)
    df = models**2 / spread if spread > 0 else float(min((len(side.values) - 1 for side in sides), default=np.inf))
    of_a, of_b, value = a.over_texts, b.over_texts, np.array([a.mean - b.mean])
    if not (a.known and b.known):
        return Estimates(value, np.array([np.inf]), min(df, a.numbers.df, b.numbers.df)), _hedges(a, b)
    least = ROUNDING * max(a.size, b.size)
    texts = of_a.minus(of_b, paired=same_texts) if of_a is not None and of_b is not None else of_a or of_b
    if texts is None:
        return Estimates(value, np.maximum(np.sqrt([models]), least), df), _hedges(a, b)
    gap = replace(texts.spread_by(models, least), value=value, df=min(df, texts.df))
    if of_a is None or of_b is None:  # what is known of the texts of one side is no part of the difference
        gap = replace(gap, texts=None, parts=None, tails=None, fixed=False)
    return gap, _hedges(a, b)


def _hedges(a: Group, b: Group) -> float | None:
    n, m = len(a.values), len(b.values)
    if n < 2 or m < 2:
        return None
    pooled = np.sqrt(((n - 1) * a.values.var(ddof=1) + (m - 1) * b.values.var(ddof=1)) / (n + m - 2))
    if pooled <= ROUNDING * max(a.size, b.size):
        return None
    return float((a.mean - b.mean) / pooled * (1 - 3 / (4 * (n + m) - 9)))


def paired(a: Group, b: Group, same_texts: bool = False) -> tuple[Estimates, float | None]:
    """Return the mean over models of a − b, the same models in both, and its standardised size (d of paired samples).

    Student's t over the models' differences from three models on, and the error over texts added in full. One or two
    models have text errors alone.

    Args:
        a: models on one side.
        b: the same models, in the same order, on the other side: on another corpus, or under another token set.
        same_texts: whether both were measured on the same texts.
    """
    gaps, size = a.values - b.values, max(a.size, b.size)
    numbers = a.numbers.minus(b.numbers, paired=same_texts)
    estimates = over_models(numbers, size)
    if len(gaps) < FEWEST_MODELS:
        return estimates, None
    spread = float(gaps.std(ddof=1))
    d = float(gaps.mean()) / spread * (1 - 3 / (4 * len(gaps) - 5)) if spread > ROUNDING * size else None
    return estimates, d


def contrast(a: Group, b: Group, same_texts: bool = True) -> tuple[Estimates, float | None]:
    """Return the mean over models of one side minus that of the other, P = 1, and its standardised size.

    The same models on both sides are compared by their own differences.
    """
    if {*a.models} != {*b.models}:
        return difference(a, b, same_texts)
    return paired(a, replace(b, numbers=b.numbers.of_models([b.models.index(model) for model in a.models])), same_texts)


def mean_over(origins: Origins, numbers: Mapping[str, Estimates]) -> Estimates:
    """Return the means of P numbers over independent models, with what is known of their errors; of one its numbers."""
    return next(iter(numbers.values())) if len(numbers) == 1 else Group.of(origins, numbers).means
