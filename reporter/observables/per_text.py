"""Means over texts of a number that each text has as a whole, by view, with their bootstrap replicates.

A view is a union of strata, and a number of a whole text (an entropy, a mean of cosines to the text's own mean) does
not add up over strata; so it is computed for each view apart, in the order of ``VIEWS``. To add such a number, subclass
:class:`PerText`, name its ``quantities`` and write ``of_texts``.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.places import Layout, Place
from reporter.forward.strata import STRATA, VIEWS
from reporter.observables.bootstrap import REPLICATES, Bootstrapped, weights_of

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates


@dataclass(frozen=True)
class TextAverage:
    """A mean over texts with its bootstrap replicates.

    Args:
        value: the mean; NaN where no text has the quantity.
        n: texts that have it.
        distinct: those among them that repeat no earlier text.
        square: the mean of its square, for a variance over texts; NaN with ``value``.
        replicates: the mean under each set of text weights, shape (R,); NaN where a replicate drew no text.
    """

    value: float
    n: int
    distinct: int
    square: float
    replicates: NDArray[np.float64]


class PerText(Bootstrapped):
    """Number of texts, Σ value, Σ value² and weighted sums under each bootstrap replicate, by place, view and quantity.

    A text for which a quantity is undefined, as it is where the view leaves the text no token, is left out of sum and
    count; ``distinct`` counts the texts that repeat no earlier one. With P places, V views, Q quantities and R
    replicates the shapes are: ``sums``, ``squares``, ``counts`` and ``distinct`` (P, V, Q); ``replicate_sums`` and
    ``replicate_counts`` (R, P, V, Q). Replicates of all observables, models, places and views on a corpus draw the same
    texts, so their differences are paired.

    Args:
        layout: the places that are read.
        seed: the study's seed, for the bootstrap weights.
        replicates: R.
    """

    version = 2
    in_windows = "each"
    sums_kept = ("sums", "squares", "counts", "distinct", "replicate_sums", "replicate_counts")

    def __init__(self, layout: Layout, seed: int, replicates: int = REPLICATES) -> None:
        super().__init__(layout, seed, replicates)
        shape = (len(layout.places), len(VIEWS), len(self.quantities))
        self.sums, self.squares, self.counts, self.distinct = (
            torch.zeros(shape, dtype=torch.float64) for _ in range(4)
        )
        self.replicate_sums, self.replicate_counts = (
            torch.zeros(replicates, *shape, dtype=torch.float64) for _ in range(2)
        )
        self.texts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Place in the corpus of each text of the batch at hand, ascending, shape (texts,)."""
        self.text_of_token = torch.zeros(0, dtype=torch.int64)
        """Which one of ``texts`` each token belongs to, shape (tokens,)."""
        self._originals = self.texts
        self._row = torch.zeros(0, dtype=torch.int64)  # of each token, by text and stratum
        self._of_places: list[torch.Tensor] = []

    @abstractmethod
    def of_texts(self, layer: LayerStates) -> torch.Tensor:
        """Return the quantities of each text of a batch in each view, NaN where one is undefined.

        The shape is (texts, views, quantities), in the order of ``self.texts``, ``VIEWS`` and ``self.quantities``.
        """

    def start(self, batch: HiddenBatch) -> None:
        """Number the texts of the batch."""
        self.texts, first, text = batch.by_text
        self._originals = batch.originals[first]
        self.text_of_token = torch.as_tensor(text, device=batch.device)
        self._row = torch.as_tensor(text * len(STRATA) + batch.strata, device=batch.device)
        self.follow(batch.device)
        self._of_places = []

    def by_view(self, values: torch.Tensor) -> torch.Tensor:
        """Return Σ of a number (or a vector) of each token over the tokens of each text and view.

        Args:
            values: shape (tokens, k); float64, unless rounding does not matter.

        Returns:
            sums of shape (texts, views, k) in the type of the values.
        """
        sums = values.new_zeros(len(self.texts) * len(STRATA), values.shape[1]).index_add_(0, self._row, values)
        by_stratum = sums.view(len(self.texts), len(STRATA), -1).unbind(dim=1)
        views = [torch.stack([by_stratum[stratum] for stratum in strata]).sum(dim=0) for strata in VIEWS.values()]
        return torch.stack(views, dim=1)

    def observe(self, layer: LayerStates) -> None:
        """Compute the quantities at one place."""
        self._of_places.append(self.of_texts(layer).double())

    def finish(self, batch: HiddenBatch) -> None:
        """Add the batch to the sums and, weighted, to the replicates."""
        values = torch.stack(self._of_places, dim=1)  # (texts, places, views, quantities)
        self._of_places = []
        defined = values.isfinite()
        values = values.where(defined, 0.0)
        self.sums += values.sum(dim=0)
        self.squares += values.square().sum(dim=0)
        self.counts += defined.sum(dim=0)
        distinct = torch.as_tensor(self.texts == self._originals, device=values.device)
        self.distinct += (defined & distinct[:, None, None, None]).sum(dim=0)
        weights = weights_of(self._originals, self.seed, self.replicates, values.device).T
        self.replicate_sums += (weights @ values.flatten(1)).view_as(self.replicate_sums)
        self.replicate_counts += (weights @ defined.flatten(1).double()).view_as(self.replicate_counts)

    def average(self, quantity: str, place: Place, view: str) -> TextAverage:
        """Return the mean over texts of a quantity of a view at a place."""
        at = (self.layout.index[place], list(VIEWS).index(view), self.quantities.index(quantity))
        count = self.counts[at].item()
        with np.errstate(invalid="ignore", divide="ignore"):
            value, square = (np.float64(x[at].item()) / np.float64(count) for x in (self.sums, self.squares))
            replicates = self.replicate_sums[:, *at].numpy() / self.replicate_counts[:, *at].numpy()
        return TextAverage(float(value), int(count), int(self.distinct[at].item()), float(square), replicates)
