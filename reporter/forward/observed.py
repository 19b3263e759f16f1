"""The input of a metric: the observables of one checkpoint on one corpus, under one view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch

from reporter.core.threads import spread
from reporter.forward import between_layers, moments, outliers, paths, readout, text_entropy, type_moments, type_sample
from reporter.forward import token_sample as samples
from reporter.forward.means import Average, Bootstrapped
from reporter.forward.moments import Gram, LayerMoments, Moments
from reporter.forward.observable import Observable
from reporter.forward.token_categories import VIEWS
from reporter.forward.token_sample import Tokens, TokenSelection
from reporter.geometry.arrays import Floats
from reporter.models.head import Head
from reporter.models.places import Layout, Place

# Every observable by name: the classes with a name in these modules.

_MODULES = (moments, paths, samples, readout, type_moments, type_sample, outliers, text_entropy, between_layers)
KINDS: Mapping[str, type[Observable]] = {
    kind.name: kind
    for module in _MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Observable) and hasattr(kind, "name")
}


__all__ = ["Observed", "Place"]

T = TypeVar("T")
K = TypeVar("K", bound=Observable)


@dataclass
class Observed:
    """Observables of one checkpoint on one corpus, read under one view.

    Args:
        observables: by name.
        layout: the places that were read.
        texts: units of observation measured: texts, those that repeat an earlier one left out, or clusters of texts.
        view: a key of :data:`reporter.forward.token_categories.VIEWS`.
        seed: the study's seed.
        memo: results that several views or metrics share; one for a checkpoint and corpus.
        corpus: name of the corpus; replicates of two sides are paired where it is the same.
        words: words of the corpus; what moves with them is compared between corpora of equal size only.
        head_problem: why the model has no language-model head to read states with; empty where it has one.
        unfed: observables that saw nothing, each with the reason.
        device: where sampled states are read.
        views: all views that are read one after the other, if there are others.
        only: the statistics to compute, all if empty; a metric may skip others that take long.
        load_head: loads the language-model head, in float32; None where the model is not here.
        clustered: whether the units are clusters.
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
    device: str = "cpu"
    views: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    load_head: Callable[[], Head] | None = None
    clustered: bool = False

    def wants(self, *statistics: str) -> bool:
        """Return whether any of some statistics is read."""
        return not self.only or any(statistic in self.only for statistic in statistics)

    @cached_property
    def strata(self) -> tuple[int, ...]:
        """The strata that this view merges."""
        return VIEWS[self.view]

    @property
    def head(self) -> Head:
        """The language-model head of the model, loaded at most once. Raises ``LookupError`` where it is not here."""
        if self.load_head is None:
            raise LookupError("the model is not here")
        return self.once("head", self.load_head)

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
        value: T = self.memo[key]
        return value

    def everywhere(self, key: Any, function: Callable[[Place], T]) -> Mapping[Place, T]:
        """Return what a function finds at each place, at most once, as ``once`` does; places share the cores."""
        return self.once(key, lambda: dict(zip(self.places, spread(function, self.places), strict=True)))

    @cached_property
    def tokens(self) -> int:
        """Number of tokens in this view."""
        return int(self.get(Moments).count[0, list(self.strata)].sum())

    @cached_property
    def held(self) -> tuple[int, ...]:
        """The strata of this view that hold any token: views of which it is equal hold the same tokens."""
        return tuple(s for s in self.strata if self.get(Moments).count[0, s] > 0)

    @cached_property
    def alongside(self) -> tuple[Observed, ...]:
        """The same under each view that is read, this one among them; of views that hold the same tokens the first."""
        by_strata: dict[tuple[int, ...], Observed] = {}
        for view in self.views or (self.view,):
            observed = replace(self, view=view)
            by_strata.setdefault(observed.held, observed)
        return tuple(by_strata.values())

    def get(self, kind: type[K]) -> K:
        """Return one of the observables that the metric needs.

        Raises:
            LookupError: the metric does not name it under ``needs``.
        """
        observable = self.observables.get(kind.name)
        if not isinstance(observable, kind):
            raise LookupError(f"the metric does not ask for {kind.name!r}; add it to `needs`")
        return observable

    def average(self, observable: str, quantity: str, place: Place) -> Average:
        """Return the mean of a quantity that one of the observables keeps, over the tokens or texts of the view.

        Raises:
            LookupError: the metric does not name it under ``needs``.
        """
        kept = self.observables.get(observable)
        if not isinstance(kept, Bootstrapped):
            raise LookupError(f"the metric does not ask for {observable!r}; add it to `needs`")
        return kept.average(quantity, place, self.view)

    def moments(self, place: Place) -> LayerMoments:
        """Return the moments at a place, merged over the view's strata."""
        return self.get(Moments).at(place, self.view)

    def covariance(self, place: Place) -> Floats:
        """Return the covariance (1/n) at a place, shape (width, width)."""
        return np.asarray(self.get(Gram).covariance(self.layout.index[place], self.strata)[1].numpy())

    def eigenvalues(self, place: Place) -> Floats:
        """Return the eigenvalues of the covariance, largest first, rounding below zero cut off, shape (width,)."""

        def compute() -> Floats:
            covariance = self.covariance(place)
            if self.device == "cpu":
                values = np.linalg.eigvalsh(covariance)
            else:  # which takes seconds less for wide states
                values = torch.linalg.eigvalsh(torch.from_numpy(covariance).to(self.device)).cpu().numpy()
            return np.clip(values[::-1], 0.0, None)

        return self.once(("eigenvalues", self.held, place), compute)

    def token_sample(self, size: int) -> TokenSelection:
        """Return up to ``size`` tokens drawn uniformly from the view, duplicates included, in random order."""
        return self.once(("tokens", self.held, size), lambda: self.get(Tokens).select(self.strata, size, self.device))

    def context_sample(self, size: int) -> TokenSelection:
        """Return the distinct contexts among ``token_sample(size)``, with how many of its tokens have each."""
        return self.once(("contexts", self.held, size), lambda: self.token_sample(size).distinct())
