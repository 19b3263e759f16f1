"""Sums with bootstrap replicates over texts that need no list of texts: the Poisson bootstrap, keyed by their places.

Drawing n texts with replacement gives each text a Binomial(n, 1/n) weight, which is Poisson(1) but for tiny n. So each
text can draw its own weights, those of its group (:mod:`reporter.forward.parts`), the moment it is seen: sums over
texts become sums over replicates that merge, in memory that does not grow with the corpus. And since the weights know
nothing of model, layer or view, replicates of two models on the same corpus are paired. A text that repeats another, or
is of the cluster of another, is no new observation: it draws the weights of the first text of their unit.

Source: Hanley & MacGibbon 2006, "Creating non-parametric bootstrap samples using Poisson frequencies"; Chamandy et al.
2012, "Estimating uncertainty for massive data streams".
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch

from reporter.forward.batch import HiddenBatch, LayerStates, key_of
from reporter.forward.observable import Field, Observable, Replicates, Setting, Sum
from reporter.forward.parts import REPLICATES, poisson_weights
from reporter.forward.token_categories import STRATA, VIEWS
from reporter.geometry.arrays import Bools, Floats, Ints
from reporter.models.places import Layout, Place


def weights_of(texts: Ints, seed: int, replicates: int, device: torch.device) -> torch.Tensor:
    """Return ``poisson_weights`` on a device in float64, shape (texts, replicates)."""
    return torch.from_numpy(poisson_weights(texts, seed, replicates)).to(device).double()


@dataclass(frozen=True)
class Average:
    """A mean over tokens, or over texts, with its bootstrap replicates over texts.

    Args:
        value: the mean; NaN where nothing has the quantity.
        n: tokens, or texts, that have it.
        replicates: the mean under each set of text weights, shape (R,); NaN where a replicate drew no text.
        distinct: of a mean over texts, those among them that repeat no earlier text.
        square: of a mean over texts, the mean of its square, for a variance over texts; NaN with ``value``.
    """

    value: float
    n: int
    replicates: Floats
    distinct: int = 0
    square: float = np.nan


class Bootstrapped(Observable):
    """Sums that merge by adding: Σ and count of each quantity over texts, and both under each bootstrap replicate.

    With P places, Q quantities and R replicates, ``sums`` and ``counts`` have the shape (P, columns, Q),
    ``replicate_sums`` and ``replicate_counts`` (R, P, columns, Q).
    """

    quantities: ClassVar[tuple[str, ...]]
    columns: ClassVar[Mapping[str, tuple[int, ...]]] = VIEWS  # that each view merges: the strata, unless overridden
    fields: ClassVar[Mapping[str, Field]] = {
        "sums": Sum(),
        "counts": Sum(),
        "replicate_sums": Replicates(),
        "replicate_counts": Replicates(),
    }

    def __init__(self, layout: Layout, seed: int, replicates: int = REPLICATES) -> None:
        self.layout, self.seed, self.replicates = layout, seed, replicates
        columns = 1 + max(index for merged in self.columns.values() for index in merged)
        shape = (len(self.places), columns, len(self.quantities))
        self.sums, self.counts = (torch.zeros(shape, dtype=torch.float64) for _ in range(2))
        self.replicate_sums, self.replicate_counts = (
            torch.zeros(replicates, *shape, dtype=torch.float64) for _ in range(2)
        )

    @property
    def places(self) -> tuple[Place, ...]:
        """The first places of the layout, as many as the quantities are defined at: all unless overridden."""
        return self.layout.places

    def _add(self, sums: torch.Tensor, counts: torch.Tensor, texts: Ints, columns: list[int] | slice) -> None:
        """Add the sums and counts of texts, (texts, P, columns, Q), to all and, weighted, to the replicates.

        Args:
            columns: those that are not empty.
        """
        self.sums += sums.sum(dim=0)
        self.counts += counts.sum(dim=0)
        weights = weights_of(texts, self.seed, self.replicates, sums.device).T
        for total, of_texts in ((self.replicate_sums, sums), (self.replicate_counts, counts)):
            held = of_texts[:, :, columns]
            total[:, :, columns] += (weights @ held.flatten(1)).view(-1, *held.shape[1:])

    def average(self, quantity: str, place: Place, view: str) -> Average:
        """Return the mean of a quantity of a view at one of its places."""
        index = (..., self.layout.index[place], list(self.columns[view]), self.quantities.index(quantity))
        held = (self.sums, self.counts, self.replicate_sums, self.replicate_counts)
        total, count, totals, counts = (x[index].sum(dim=-1).numpy() for x in held)
        with np.errstate(invalid="ignore", divide="ignore"):
            return Average(float(total / count), int(count), totals / counts)


# Means over tokens of a number that each token has, by stratum, with their bootstrap replicates over texts.
#
# To add such a number, subclass :class:`PerToken`, name its ``quantities`` and write ``of_tokens``; or
# :class:`SampledTokens`, where it is too dear for every token of a corpus.


class PerToken(Bootstrapped):
    """Sum and count of each quantity, at each place and stratum, over all texts and under each bootstrap replicate.

    A token for which a quantity is undefined (NaN, or infinite) is left out of its sum and count.
    """

    _of_texts: list[torch.Tensor]  # of the batch at hand, and the units in it
    _row_of_text: torch.Tensor
    _texts: Ints

    @property
    def places(self) -> tuple[Place, ...]:
        """The first places of the layout, as many as the quantities are defined at: its path unless overridden."""
        return self.layout.path

    @abstractmethod
    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return the quantities of every token, NaN where one is undefined, shape (tokens, Q)."""

    def start(self, batch: HiddenBatch) -> None:
        """Give each (unit, stratum) of the batch a row."""
        super().start(batch)
        self._texts, text = np.unique(batch.units, return_inverse=True)
        self._row_of_text = torch.as_tensor(text * len(STRATA) + batch.strata, device=batch.device)
        self._of_texts = []

    def observe(self, layer: LayerStates) -> None:
        """Sum the quantities at one place by text."""
        if layer.index >= len(self.places):
            return
        values = self.of_tokens(layer)
        defined = values.isfinite()
        both = torch.cat([values.where(defined, 0.0), defined], dim=1).double()
        sums = both.new_zeros(len(self._texts) * len(STRATA), both.shape[1]).index_add_(0, self._row_of_text, both)
        self._of_texts.append(sums.view(len(self._texts), len(STRATA), 2, len(self.quantities)))

    def finish(self, batch: HiddenBatch) -> None:
        """Add the batch to the sums and, weighted, to the replicates."""
        of_texts = torch.stack(self._of_texts, dim=1)  # (texts, places, strata, 2, quantities)
        columns = [stratum for stratum, size in enumerate(batch.sizes) if size]
        self._add(of_texts[:, :, :, 0], of_texts[:, :, :, 1], self._texts, columns)
        self._of_texts = []


class SampledTokens(PerToken):
    """Reads the tokens whose hash of seed, text and position falls below ``share`` of all hashes.

    They are the same ones at every layer and in every model that splits texts alike.
    """

    bounded = "exactly"

    def __init__(self, layout: Layout, seed: int, share: float, replicates: int = REPLICATES) -> None:
        super().__init__(layout, seed, replicates)
        self.share = share

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing and reads about ``size`` tokens of the corpus."""
        return cls(setting.layout, setting.seed, min(1.0, setting.size / max(setting.tokens_in_all, 1)))

    def drawn(self, batch: HiddenBatch) -> Bools:
        """Return whether each token of a batch is read, (tokens,)."""
        keys = key_of(self.seed, batch.texts, batch.positions)
        return keys < np.uint64(min(self.share * 2.0**64, 2.0**64 - 2048)) if self.share < 1 else keys == keys


# Means over texts of a number that each text has as a whole, by view, with their bootstrap replicates.
#
# A view is a union of strata, and a number of a whole text (an entropy, a mean of cosines to the text's own mean) does
# not add up over strata; so it is computed for each view apart, in the order of ``VIEWS``. To add such a number,
# subclass :class:`PerText`, name its ``quantities`` and write ``of_texts``.


class PerText(Bootstrapped):
    """Number of texts, Σ value, Σ value² and weighted sums under each bootstrap replicate, by place, view and quantity.

    A text for which a quantity is undefined, as it is where the view leaves the text no token, is left out of sum and
    count; ``distinct`` counts the texts that repeat no earlier one. With P places, V views and Q quantities the shape
    of ``squares`` and ``distinct`` is (P, V, Q). Replicates of all observables, models, places and views on a corpus
    draw the same texts, so their differences are paired.
    """

    version = 2
    in_windows = "each"
    columns: ClassVar[Mapping[str, tuple[int, ...]]] = {view: (column,) for column, view in enumerate(VIEWS)}
    fields: ClassVar[Mapping[str, Field]] = {**Bootstrapped.fields, "squares": Sum(), "distinct": Sum()}
    texts: Ints  # place in the corpus of each text of the batch at hand, ascending, (texts,)
    _units: Ints
    _is_new: Bools  # whether each text repeats no earlier one
    _row: torch.Tensor  # of each token, by text and stratum
    _of_places: list[torch.Tensor]

    def __init__(self, layout: Layout, seed: int, replicates: int = REPLICATES) -> None:
        super().__init__(layout, seed, replicates)
        self.squares, self.distinct = torch.zeros_like(self.sums), torch.zeros_like(self.sums)

    @abstractmethod
    def of_texts(self, layer: LayerStates) -> torch.Tensor:
        """Return the quantities of each text of a batch in each view, NaN where one is undefined.

        The shape is (texts, views, quantities), in the order of ``self.texts``, ``VIEWS`` and ``self.quantities``.
        """

    def start(self, batch: HiddenBatch) -> None:
        """Number the texts of the batch."""
        super().start(batch)
        self.texts, first, text = batch.by_text
        self._units, self._is_new = batch.units[first], self.texts == batch.originals[first]
        self._row = torch.as_tensor(text * len(STRATA) + batch.strata, device=batch.device)
        self._of_places = []

    def by_view(self, values: torch.Tensor) -> torch.Tensor:
        """Return Σ of a number (or a vector) of each token over the tokens of each text and view."""
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
        self.squares += values.square().sum(dim=0)
        distinct = torch.as_tensor(self._is_new, device=values.device)
        self.distinct += (defined & distinct[:, None, None, None]).sum(dim=0)
        self._add(values, defined.double(), self._units, slice(None))

    def average(self, quantity: str, place: Place, view: str) -> Average:
        """Return the mean over texts of a quantity of a view at a place."""
        mean = super().average(quantity, place, view)
        index = (self.layout.index[place], *self.columns[view], self.quantities.index(quantity))
        square = self.squares[index].item() / mean.n if mean.n else np.nan
        return replace(mean, distinct=int(self.distinct[index].item()), square=square)
