"""The one comparison: one number on one side minus the same on the other, with what makes it sure.

Claims, findings, answers, the overview and the comparison of two runs ask :func:`difference`, on sides that
:class:`Group` makes of the numbers of models; nothing else averages over models or forms the interval of a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reporter.judge import points
from reporter.judge.kinship import Kinship, Origins


def over_corpora(numbers: Sequence[points.Estimates]) -> points.Estimates:
    """Return the mean of one number on each of several corpora, P = 1: their texts are independent."""
    first, count = numbers[0], len(numbers)
    if count == 1:
        return first
    value, df = np.mean([number.value for number in numbers], axis=0), min(number.df for number in numbers)
    parts = [number.parts for number in numbers if number.parts is not None]
    if len(parts) == count:
        return points.Estimates.of_parts(value, np.concatenate(parts, axis=-1) / count, df)
    error = np.hypot.reduce([points.max_of(number) for number in numbers]) / count
    return points.Estimates(value, error, df, error if np.isfinite(error).all() else None)


@dataclass(frozen=True)
class Group:
    """One number of each of several independent models.

    Args:
        models: their names; those that count as one are joined.
        values: shape (M,).
        errors: standard errors from texts, shape (M,); None where they are not known.
        df: degrees of freedom of these.
        parts: the parts of texts in the numbers, shape (M, G); None where they are not known.
    """

    models: tuple[str, ...]
    values: points.Array
    errors: points.Array | None
    df: float = np.inf
    parts: points.Array | None = None

    @classmethod
    def of(cls, kin: Kinship, numbers: Mapping[str, points.Estimates]) -> Group:
        """Return the means over models that count as one; errors are known if each of these models has one."""

        def means(of: Callable[[points.Estimates], points.Array]) -> points.Array:
            return np.array([np.mean([of(numbers[model])[0] for model in unit], axis=0) for unit in kin.units])

        members = [numbers[model] for unit in kin.units for model in unit]
        known = all(np.isfinite(number.error).all() for number in members)
        paired = known and all(number.parts is not None for number in members)
        return cls(
            tuple(" + ".join(unit) for unit in kin.units),
            means(lambda number: number.value),
            means(points.max_of) if known else None,
            min(number.df for number in members) if known else np.inf,
            means(lambda number: np.asarray(number.parts)) if paired else None,
        )

    def ordered(self, order: Sequence[int]) -> Group:
        """Return its models in another order."""
        errors, parts = (None if array is None else array[order] for array in (self.errors, self.parts))
        return replace(
            self, models=tuple(self.models[i] for i in order), values=self.values[order], errors=errors, parts=parts
        )

    @property
    def over_texts(self) -> points.Estimates | None:
        """The mean over models with its error over texts alone, P = 1; None where that is not known."""
        value = self.values.mean(keepdims=True)
        if self.parts is not None:
            return points.Estimates.of_parts(value, self.parts.mean(axis=0, keepdims=True), self.df)
        if self.errors is None:
            return None
        error = self.errors.mean(keepdims=True)  # models share the texts, so that it does not average out
        return points.Estimates(value, error, self.df, error)

    @property
    def mean(self) -> float:
        """The mean over models."""
        return float(self.values.mean())

    @property
    def size(self) -> float:
        """The largest number by its size."""
        return float(np.abs(self.values).max())

    @property
    def spread(self) -> float:
        """The standard deviation over models; 0 for one."""
        return float(self.values.std(ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def variance(self) -> float:
        """The squared standard error of the mean from models alone; 0 where there are too few to tell."""
        return self.spread**2 / len(self.values) if len(self.values) >= points.FEWEST_MODELS else 0.0

    @property
    def known(self) -> bool:
        """Whether anything tells how sure the mean is: texts, or three models that are not all alike."""
        return self.errors is not None or (
            len(self.values) >= points.FEWEST_MODELS and self.spread > points.ROUNDING * self.size
        )


def difference(a: Group, b: Group, same_texts: bool = True) -> tuple[points.Estimates, float | None]:
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
    sides = [group for group in (a, b) if len(group.values) >= points.FEWEST_MODELS]
    models = sum(group.variance for group in sides)
    spread = sum(group.variance**2 / (len(group.values) - 1) for group in sides)
    df = models**2 / spread if spread > 0 else float(min((len(side.values) - 1 for side in sides), default=np.inf))
    of_a, of_b, value = a.over_texts, b.over_texts, np.array([a.mean - b.mean])
    if not (a.known and b.known):
        return points.Estimates(value, np.array([np.inf]), min(df, a.df, b.df)), _hedges(a, b)
    both = of_a is not None and of_b is not None
    gap = of_a.minus(of_b, paired=same_texts) if of_a is not None and of_b is not None else of_a or of_b
    least = points.ROUNDING * max(a.size, b.size)
    return points.with_spread(gap, value, models, least, df, shared=both), _hedges(a, b)


def _hedges(a: Group, b: Group) -> float | None:
    n, m = len(a.values), len(b.values)
    if n < 2 or m < 2:
        return None
    pooled = np.sqrt(((n - 1) * a.values.var(ddof=1) + (m - 1) * b.values.var(ddof=1)) / (n + m - 2))
    if pooled <= points.ROUNDING * max(a.size, b.size):
        return None
    return float((a.mean - b.mean) / pooled * (1 - 3 / (4 * (n + m) - 9)))


def paired(a: Group, b: Group, same_texts: bool = False) -> tuple[points.Estimates, float | None]:
    """Return the mean over models of a − b, the same models in both, and its standardised size (d of paired samples).

    Student's t over the models' differences from three models on, and the error over texts added in full. One or two
    models have text errors alone.

    Args:
        a: models on one side.
        b: the same models, in the same order, on the other side: on another corpus, or under another token set.
        same_texts: whether both were measured on the same texts.
    """
    gaps, size = a.values - b.values, max(a.size, b.size)
    of_a, of_b = a.over_texts, b.over_texts
    texts = None if of_a is None or of_b is None else of_a.minus(of_b, paired=same_texts)
    estimates = points.over_models(
        gaps[:, None],
        None if texts is None else texts.error,
        size,
        min(a.df, b.df),
        None if texts is None else texts.parts,
    )
    if len(gaps) < points.FEWEST_MODELS:
        return estimates, None
    spread = float(gaps.std(ddof=1))
    d = float(gaps.mean()) / spread * (1 - 3 / (4 * len(gaps) - 5)) if spread > points.ROUNDING * size else None
    return estimates, d


def contrast(
    origins: Origins, of: Mapping[str, points.Estimates], minus: Mapping[str, points.Estimates], same_texts: bool = True
) -> points.Estimates:
    """Return one number of each of some models, P = 1, minus that of others, as the mean over independent models.

    Args:
        origins: which models are copies and relatives.
        of: the numbers of one side, by model.
        minus: those of the other.
        same_texts: whether both were measured on the same texts.
    """
    a, b = (Group.of(Kinship.of(origins, list(side)), side) for side in (of, minus))
    if of.keys() == minus.keys():
        return paired(a, b.ordered([b.models.index(model) for model in a.models]), same_texts)[0]
    return difference(a, b, same_texts)[0]


def mean_over(kin: Kinship, numbers: Mapping[str, points.Estimates]) -> points.Estimates:
    """Return the means of P numbers over independent models, with what is known of their errors."""

    def means(of: Callable[[points.Estimates], points.Array]) -> points.Array:
        return np.array([np.mean([of(numbers[model]) for model in unit], axis=0) for unit in kin.units])

    values, df = means(lambda number: number.value), min(number.df for number in numbers.values())
    size = np.abs(values).max()
    if all(number.parts is not None for number in numbers.values()):
        parts = np.asarray(means(lambda number: np.asarray(number.parts)).mean(axis=0))
        return points.over_models(values, np.linalg.norm(parts, axis=-1), size, df, parts)
    errors = means(points.max_of).mean(axis=0)
    return points.over_models(values, errors if np.isfinite(errors).all() else None, size, df)
