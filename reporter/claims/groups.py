"""Means of groups of models, and of their differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reporter.claims.points import Array, Estimates


@dataclass(frozen=True)
class Group:
    """One number of each of several models.

    Args:
        models: their names.
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
    def variance(self) -> float:
        """The squared standard error of the mean from models alone; 0 for one model."""
        return float(self.values.var(ddof=1) / len(self.values)) if len(self.values) > 1 else 0.0

    @property
    def texts(self) -> float:
        """The standard error from texts, which the models share: it does not average out."""
        return 0.0 if self.errors is None else float(self.errors.mean())


def difference(a: Group, b: Group) -> tuple[Estimates, float | None]:
    """Return mean(a) − mean(b) of different models, and Hedges' g.

    Welch's t-interval over models: SE² = s_a²/M_a + s_b²/M_b with Welch and Satterthwaite's degrees of freedom, and the
    text errors of both sides added in full, as if independent. A side of one model has text error alone, and stands for
    itself. Nothing is known where both sides have one model and there are no text errors.

    Sources: Welch 1947; Hedges 1981 for g with its correction 1 − 3/(4(M_a + M_b) − 9).
    """
    parts = [(group.variance, len(group.values) - 1) for group in (a, b) if len(group.values) > 1]
    models, texts = sum(v for v, _ in parts), a.texts**2 + b.texts**2
    spread = sum(v**2 / df for v, df in parts)
    df = models**2 / spread if spread > 0 else float(min((df for _, df in parts), default=np.inf))
    known = bool(parts) or (a.errors is not None and b.errors is not None)
    error = np.sqrt(models + texts) if known else np.inf
    return Estimates(np.array([a.mean - b.mean]), np.array([error]), df), _hedges(a, b)


def _hedges(a: Group, b: Group) -> float | None:
    n, m = len(a.values), len(b.values)
    if n < 2 or m < 2:
        return None
    pooled = np.sqrt(((n - 1) * a.values.var(ddof=1) + (m - 1) * b.values.var(ddof=1)) / (n + m - 2))
    if pooled == 0:
        return None
    return float((a.mean - b.mean) / pooled * (1 - 3 / (4 * (n + m) - 9)))


def paired(a: Group, b: Group) -> tuple[Estimates, float | None]:
    """Return the mean over models of a − b, the same models in both, and its standardised size (d of paired samples).

    Student's t over the models' differences, and the text errors of both corpora added in full, as if independent. One
    model has text errors alone.
    """
    gaps = a.values - b.values
    texts = a.texts**2 + b.texts**2
    known = a.errors is not None and b.errors is not None
    if len(gaps) == 1:
        return Estimates(gaps, np.array([np.sqrt(texts) if known else np.inf]), np.inf), None
    spread = float(gaps.std(ddof=1))
    error = np.sqrt(spread**2 / len(gaps) + texts)
    size = float(gaps.mean()) / spread * (1 - 3 / (4 * len(gaps) - 5)) if spread > 0 else None
    return Estimates(np.array([gaps.mean()]), np.array([error]), len(gaps) - 1), size
