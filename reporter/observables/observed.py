"""What a metric gets to see: the observables of one checkpoint on one corpus, under one view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from reporter.forward.places import Layout, Place
from reporter.forward.strata import ASIDE, ORDINARY, SPECIAL
from reporter.observables.gram import Gram
from reporter.observables.moments import Moments
from reporter.observables.observable import Observable
from reporter.observables.per_token import PerToken
from reporter.observables.text_sums import TextSums
from reporter.observables.token_sample import Contexts, Selection, Tokens, TokenSample

if TYPE_CHECKING:
    from reporter.observables.per_text import TextAverage

__all__ = ["VIEWS", "Average", "LayerMoments", "Observed", "Place"]

Floats = NDArray[np.float64]
T = TypeVar("T")

VIEWS: dict[str, tuple[int, ...]] = {
    "words": (ORDINARY, ASIDE),
    "all": (ORDINARY, SPECIAL, ASIDE),
    "no-sinks": (ORDINARY,),
}


@dataclass(frozen=True)
class LayerMoments:
    """Moments of the token states x at one layer.

    Args:
        n: tokens.
        mean: μ, shape (width,).
        squares: Σ (x − μ)² for each dimension, shape (width,).
        units: tokens whose state is not zero.
        unit_sum: Σ x/‖x‖ over those, shape (width,).
    """

    n: int
    mean: Floats
    squares: Floats
    units: int
    unit_sum: Floats


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
    replicates: Floats


@dataclass
class Observed:
    """Observables of one checkpoint on one corpus, read under one view.

    Args:
        observables: by name.
        layout: the places that were read.
        texts: texts measured, those that repeat an earlier one left out.
        view: a key of ``VIEWS``.
        seed: the study's seed.
        memo: results that several views or metrics share; one for a checkpoint and corpus.
        corpus: name of the corpus; replicates of two sides are paired where it is the same.
        words: words of the corpus; what moves with them is compared between corpora of equal size only.
        head_problem: why the model has no language-model head to read states with; empty where it has one.
        unfed: observables that saw nothing, each with the reason.
    """

    observables: Mapping[str, Observable]
    layout: Layout
    texts: int
    view: str
    seed: int
    memo: dict[Any, Any] = field(default_factory=dict)
    corpus: str = ""
    words: int = 0
    head_problem: str = ""
    unfed: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def strata(self) -> tuple[int, ...]:
        """The strata that this view merges."""
        return VIEWS[self.view]

    @property
    def layers(self) -> int:
        """Blocks L."""
        return self.layout.layers

    @property
    def path(self) -> tuple[Place, ...]:
        """A token's path: embedding, block 1..L; what is defined from layer to layer is read here."""
        return self.layout.path

    @property
    def places(self) -> tuple[Place, ...]:
        """Every place that was read: the path, then ``final`` and ``attention`` as far as they were asked for."""
        return self.layout.places

    def width(self, place: Place) -> int:
        """Return the dimension d of the states at a place."""
        return self.layout.widths[self.layout.index[place]]

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """Return ``compute()``, computed at most once for this checkpoint and corpus."""
        if key not in self.memo:
            self.memo[key] = compute()
        return cast(T, self.memo[key])

    @cached_property
    def tokens(self) -> int:
        """Number of tokens in this view."""
        return int(self._moments.count[0, list(self.strata)].sum())

    @cached_property
    def held(self) -> tuple[int, ...]:
        """The strata of this view that hold any token: views of which it is equal hold the same tokens."""
        return tuple(s for s in self.strata if self._moments.count[0, s] > 0)

    @property
    def _moments(self) -> Moments:
        return cast(Moments, self.observables[Moments.name])

    def moments(self, place: Place) -> LayerMoments:
        """Return the moments at a place, merged over the view's strata."""
        kept, at, strata = self._moments, self.layout.index[place], list(self.strata)
        count = kept.count[at, strata].numpy()
        means = kept.mean[at][strata].numpy()
        n = count.sum()
        mean = count @ means / n if n else means.sum(axis=0)
        # Chan, Golub & LeVeque 1983 for several parts: squares within the parts plus squares between their means.
        squares = kept.squares[at][strata].numpy().sum(axis=0) + count @ (means - mean) ** 2
        units = kept.unit_count[at, strata].sum()
        unit_sum = kept.unit_sum[at][strata].numpy().sum(axis=0)
        return LayerMoments(int(n), mean, squares, int(units), unit_sum)

    def covariance(self, place: Place) -> Floats:
        """Return the covariance (1/n) at a place, shape (width, width)."""
        gram = cast(Gram, self.observables[Gram.name])
        return cast(Floats, gram.covariance(self.layout.index[place], self.strata)[1].numpy())

    def eigenvalues(self, place: Place) -> Floats:
        """Return the eigenvalues of the covariance, largest first, rounding below zero cut off, shape (width,)."""

        def compute() -> Floats:
            values = np.linalg.eigvalsh(self.covariance(place))[::-1]
            return np.clip(values, 0.0, None)

        return self.once(("eigenvalues", self.held, place), compute)

    def average(self, quantity: str, place: Place) -> Average:
        """Return the mean of a quantity of ``TextSums`` over the view's tokens at a place of the path."""
        return self.per_token(TextSums.name, quantity, place)

    def per_token(self, observable: str, quantity: str, place: Place) -> Average:
        """Return the mean over the view's tokens of a quantity of a ``PerToken`` observable at one of its places."""
        kept, strata = cast(PerToken, self.observables[observable]), list(self.strata)
        at, layer = kept.quantities.index(quantity), self.layout.index[place]
        count = kept.counts[layer, strata, at].sum().item()
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.float64(kept.sums[layer, strata, at].sum().item()) / np.float64(count)
            replicates = (
                kept.replicate_sums[:, layer, strata, at].sum(dim=1).numpy()
                / kept.replicate_counts[:, layer, strata, at].sum(dim=1).numpy()
            )
        return Average(float(value), int(count), replicates)

    def text_average(self, observable: str, quantity: str, place: Place) -> TextAverage:
        """Return the mean over texts of a quantity of a ``PerText`` observable at a place."""
        from reporter.observables.per_text import PerText, text_average  # which knows the views from here

        return text_average(self, type(cast(PerText, self.observables[observable])), quantity, place)

    def token_sample(self, size: int) -> Selection:
        """Return up to ``size`` tokens drawn uniformly from the view, duplicates included, in random order."""
        return self._select(Tokens.name, size)

    def context_sample(self, size: int) -> Selection:
        """Return up to ``size`` distinct contexts drawn uniformly from the view, in random order."""
        return self._select(Contexts.name, size)

    def _select(self, name: str, size: int) -> Selection:
        sample = cast(TokenSample, self.observables[name])
        return self.once((name, self.held, size), lambda: sample.select(self.strata, size))
