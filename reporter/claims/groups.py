"""Means of groups of models, and of their differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reporter.claims.points import FEWEST_MODELS, ROUNDING, Array, Estimates, over_models


@dataclass(frozen=True)
class Group:
    """One number of each of several independent models.

    Args:
        models: their names; those that count as one are joined.
        values: shape (M,).
        errors: standard errors from texts, shape (M,); None where they are not known.
    """

    models: tuple[str, ...]
    values: Array
    errors: Array | None

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
        return self.spread**2 / len(self.values) if len(self.values) >= FEWEST_MODELS else 0.0

    @property
    def texts(self) -> float:
        """The standard error from texts, which the models share: it does not average out."""
        return 0.0 if self.errors is None else float(self.errors.mean())

    @property
    def known(self) -> bool:
        """Whether anything tells how sure the mean is: texts, or three models that are not all alike."""
        return self.errors is not None or (len(self.values) >= FEWEST_MODELS and self.spread > ROUNDING * self.size)


def difference(a: Group, b: Group) -> tuple[Estimates, float | None]:
    """Return mean(a) − mean(b) of different models, and Hedges' g.

    Welch's t-interval over models: SE² = s_a²/M_a + s_b²/M_b with Welch and Satterthwaite's degrees of freedom, and the
    text errors of both sides added in full, as if independent. A side of one or two models has text error alone, and
    speaks of itself. Nothing is known where a side has neither three models nor text errors.

    Sources: Welch 1947; Hedges 1981 for g with its correction 1 − 3/(4(M_a + M_b) − 9).
    """
    parts = [(group.variance, len(group.values) - 1) for group in (a, b) if len(group.values) >= FEWEST_MODELS]
    models, texts = sum(v for v, _ in parts), a.texts**2 + b.texts**2
    spread = sum(v**2 / df for v, df in parts)
    df = models**2 / spread if spread > 0 else float(min((df for _, df in parts), default=np.inf))
    least = ROUNDING * max(a.size, b.size)
    error = max(np.sqrt(models + texts), least) if a.known and b.known else np.inf
    shared = np.array([np.sqrt(texts)]) if a.errors is not None and b.errors is not None else None
    return Estimates(np.array([a.mean - b.mean]), np.array([error]), df, shared), _hedges(a, b)


def _hedges(a: Group, b: Group) -> float | None:
    n, m = len(a.values), len(b.values)
    if n < 2 or m < 2:
        return None
    pooled = np.sqrt(((n - 1) * a.values.var(ddof=1) + (m - 1) * b.values.var(ddof=1)) / (n + m - 2))
    if pooled <= ROUNDING * max(a.size, b.size):
        return None
    return float((a.mean - b.mean) / pooled * (1 - 3 / (4 * (n + m) - 9)))


def paired(a: Group, b: Group) -> tuple[Estimates, float | None]:
    """Return the mean over models of a − b, the same models in both, and its standardised size (d of paired samples).

    Student's t over the models' differences from three models on, and the text errors of both corpora added in full, as
    if independent. One or two models have text errors alone.
    """
    gaps, size = a.values - b.values, max(a.size, b.size)
    known = a.errors is not None and b.errors is not None
    texts = np.array([np.hypot(a.texts, b.texts)]) if known else None
    estimates = over_models(gaps[:, None], texts, size)
    if len(gaps) < FEWEST_MODELS:
        return estimates, None
    spread = float(gaps.std(ddof=1))
    d = float(gaps.mean()) / spread * (1 - 3 / (4 * len(gaps) - 5)) if spread > ROUNDING * size else None
    return estimates, d
