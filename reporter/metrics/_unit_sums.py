"""Sums of quantities over the tokens of texts, or of clusters of texts, with what resampling them gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reporter.geometry.arrays import Floats


@dataclass(frozen=True, eq=False)
class UnitSums:
    """Sums of a quantity over the tokens of each unit, (units, …), and how many tokens have it, (units,)."""

    sums: Floats
    counts: Floats

    def means(self) -> Floats:
        """Return the mean over tokens of each quantity, (…)."""
        return np.asarray(self.sums.sum(axis=0) / max(self.counts.sum(), 1.0))

    def replicates(self, seed: int) -> Floats:
        """Return the means under each set of Poisson weights of the units, paired between calls, (R, …)."""
        from reporter.forward.parts import poisson_weights

        weights = poisson_weights(np.arange(len(self.counts)), seed).T.astype(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(((weights @ self.sums).T / (weights @ self.counts)).T)

    def column(self, number: int) -> UnitSums:
        """Return one quantity of several, (texts, k)."""
        return UnitSums(self.sums[:, number], self.counts)

    def beside(self, others: UnitSums) -> UnitSums:
        """Return these quantities and others over the same tokens."""
        return UnitSums(np.column_stack([self.sums, others.sums]), self.counts)

    def changes(self, seed: int) -> tuple[Floats, Floats]:
        """Return how far the later quantities are from the first, (k − 1,), and the same of each replicate."""
        means, drawn = self.means(), self.replicates(seed)
        return means[1:] - means[0], drawn[:, 1:] - drawn[:, :1]
