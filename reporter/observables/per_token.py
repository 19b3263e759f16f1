"""Means over tokens of a number that each token has, by stratum, with their bootstrap replicates over texts.

To add such a number, subclass :class:`PerToken`, name its ``quantities`` and write ``of_tokens``; or
:class:`SampledTokens`, where it is too dear for every token of a corpus.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.contexts import key_of
from reporter.forward.places import Layout, Place
from reporter.forward.strata import STRATA, VIEWS
from reporter.observables.bootstrap import REPLICATES, Bootstrapped, weights_of

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting


@dataclass(frozen=True)
class Average:
    """A mean over tokens with its bootstrap replicates over texts.

    Args:
        value: the mean; NaN where no token has the quantity.
        n: tokens that have it.
        replicates: the mean under each set of text weights, shape (R,); NaN where a replicate drew no text.
    """

    value: float
    n: int
    replicates: NDArray[np.float64]


class PerToken(Bootstrapped):
    """Sum and count of each quantity, at each place and stratum, over all texts and under each bootstrap replicate.

    A token for which a quantity is undefined (NaN, or infinite) is left out of its sum and count. With P places, S
    strata, Q quantities and R replicates the shapes are: ``sums`` and ``counts`` (P, S, Q); ``replicate_sums`` and
    ``replicate_counts`` (R, P, S, Q).

    Args:
        layout: the places that are read.
        seed: the study's seed, for the bootstrap weights.
        replicates: R.
    """

    sums_kept = ("sums", "counts", "replicate_sums", "replicate_counts")

    def __init__(self, layout: Layout, seed: int, replicates: int = REPLICATES) -> None:
        super().__init__(layout, seed, replicates)
        shape = (len(self.places), len(STRATA), len(self.quantities))
        self.sums = torch.zeros(shape, dtype=torch.float64)
        self.counts = torch.zeros(shape, dtype=torch.float64)
        self.replicate_sums = torch.zeros(replicates, *shape, dtype=torch.float64)
        self.replicate_counts = torch.zeros(replicates, *shape, dtype=torch.float64)
        self._of_texts: list[torch.Tensor] = []
        self._row_of_text = torch.zeros(0, dtype=torch.int64)
        self._texts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # of the batch at hand, each content once

    @property
    def places(self) -> tuple[Place, ...]:
        """The first places of the layout, as many as the quantities are defined at: its path unless overridden."""
        return self.layout.path

    @abstractmethod
    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return the quantities of every token, NaN where one is undefined, shape (tokens, Q)."""

    def start(self, batch: HiddenBatch) -> None:
        """Give each (text, stratum) of the batch a row; texts that say the same share it."""
        self._texts, text = np.unique(batch.originals, return_inverse=True)
        row = text * len(STRATA) + batch.strata
        self._row_of_text = torch.as_tensor(row, device=batch.device)
        self.follow(batch.device)
        self._of_texts = []

    def observe(self, layer: LayerStates) -> None:
        """Sum the quantities at one place by text."""
        if layer.index >= len(self.places):
            return
        values = self.of_tokens(layer)
        defined = values.isfinite()
        both = torch.cat([values.where(defined, 0.0), defined], dim=1).double()
        sums = torch.zeros(
            len(self._texts) * len(STRATA), both.shape[1], dtype=torch.float64, device=both.device
        ).index_add_(0, self._row_of_text, both)
        self._of_texts.append(sums.view(len(self._texts), len(STRATA), 2, len(self.quantities)))

    def finish(self, batch: HiddenBatch) -> None:
        """Add the batch to the sums and, weighted, to the replicates."""
        of_texts = torch.stack(self._of_texts, dim=1)  # (texts, places, strata, 2, quantities)
        total = of_texts.sum(dim=0)
        self.sums += total[:, :, 0]
        self.counts += total[:, :, 1]
        weights = weights_of(self._texts, self.seed, self.replicates, of_texts.device)
        for stratum, size in enumerate(batch.sizes):
            if size:
                seen = of_texts[:, :, stratum]
                weighted = (weights.T @ seen.flatten(1)).view(self.replicates, *seen.shape[1:])
                self.replicate_sums[:, :, stratum] += weighted[:, :, 0]
                self.replicate_counts[:, :, stratum] += weighted[:, :, 1]
        self._of_texts = []

    def average(self, quantity: str, place: Place, view: str) -> Average:
        """Return the mean of a quantity over a view's tokens at one of its places."""
        strata, at, layer = list(VIEWS[view]), self.quantities.index(quantity), self.layout.index[place]
        count = self.counts[layer, strata, at].sum().item()
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.float64(self.sums[layer, strata, at].sum().item()) / np.float64(count)
            replicates = (
                self.replicate_sums[:, layer, strata, at].sum(dim=1).numpy()
                / self.replicate_counts[:, layer, strata, at].sum(dim=1).numpy()
            )
        return Average(float(value), int(count), replicates)


class SampledTokens(PerToken):
    """Reads the tokens whose hash of seed, text and position falls below ``share`` of all hashes.

    They are the same ones at every layer and in every model that splits texts alike.

    Args:
        layout: the places that are read.
        seed: the study's seed.
        share: share of the tokens that are read.
        replicates: of the bootstrap.
    """

    bounded = "exactly"

    def __init__(self, layout: Layout, seed: int, share: float, replicates: int = REPLICATES) -> None:
        super().__init__(layout, seed, replicates)
        self.share = share

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing and reads about ``size`` tokens of the corpus."""
        return cls(setting.layout, setting.seed, min(1.0, setting.size / max(setting.tokens_in_all, 1)))

    def drawn(self, batch: HiddenBatch) -> NDArray[np.bool_]:
        """Return whether each token of a batch is read, (tokens,)."""
        keys = key_of(self.seed, batch.texts, batch.positions)
        return keys < np.uint64(min(self.share * 2.0**64, 2.0**64 - 2048)) if self.share < 1 else keys == keys
