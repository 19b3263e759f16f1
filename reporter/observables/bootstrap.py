"""Sums with bootstrap replicates over texts that need no list of texts: the Poisson bootstrap, keyed by their places.

Drawing n texts with replacement gives each text a Binomial(n, 1/n) weight, which is Poisson(1) but for tiny n. So each
text can draw its own weights, from a hash of its place in the corpus, the moment it is seen: sums over texts become
sums over replicates that merge, in memory that does not grow with the corpus. And since the weights know nothing of
model, layer or view, replicates of two models on the same corpus are paired. A text that repeats another is no new
observation: it draws the weights of the first text of the corpus with its content.

Source: Hanley & MacGibbon 2006, "Creating non-parametric bootstrap samples using Poisson frequencies"; Chamandy et al.
2012, "Estimating uncertainty for massive data streams".
"""

from __future__ import annotations

from functools import cache
from math import exp, factorial
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.contexts import key_of, mix
from reporter.forward.places import Layout
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.observables.observable import Setting

REPLICATES = 1000


@cache
def _quantiles() -> NDArray[np.uint8]:
    """Return Poisson(1) by its inverse distribution function on a grid of 2**16, shape (65536,)."""
    cumulative = np.cumsum([exp(-1) / factorial(k) for k in range(20)])
    return np.searchsorted(cumulative, (np.arange(2**16) + 0.5) / 2**16).astype(np.uint8)


def poisson_weights(texts: NDArray[np.int64], seed: int, replicates: int = REPLICATES) -> NDArray[np.uint8]:
    """Return each text's weight in each replicate, shape (texts, replicates): Poisson(1), the same in every call.

    Args:
        texts: place in the corpus of each text, or of the first one that says the same, shape (texts,).
        seed: the study's seed.
        replicates: a multiple of 4, since one 64-bit hash gives four weights.
    """
    draws = key_of(seed, texts)[:, None] ^ mix(np.arange(replicates // 4, dtype=np.uint64))[None, :]
    uniform = mix(draws).view(np.uint16).reshape(len(texts), replicates)
    return _quantiles()[uniform]


_REPLICATED = "replicate_"


def weights_of(texts: NDArray[np.int64], seed: int, replicates: int, device: torch.device) -> torch.Tensor:
    """Return ``poisson_weights`` on a device in float64, shape (texts, replicates)."""
    return torch.from_numpy(poisson_weights(texts, seed, replicates)).to(device).double()


class Bootstrapped(Observable):
    """What merges by adding: sums over texts and under each replicate, in the attributes that ``sums_kept`` names.

    Args:
        layout: the places that are read.
        seed: the study's seed, for the bootstrap weights.
        replicates: R.
    """

    quantities: ClassVar[tuple[str, ...]]
    sums_kept: ClassVar[tuple[str, ...]]

    def __init__(self, layout: Layout, seed: int, replicates: int = REPLICATES) -> None:
        self.layout, self.seed, self.replicates = layout, seed, replicates

    @property
    def gathered(self) -> tuple[str, ...]:  # type: ignore[override]
        """All that is kept."""
        return self.sums_kept

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout, setting.seed)

    def merge(self, other: Self) -> None:
        """Add the sums of other texts."""
        for name in self.sums_kept:
            getattr(self, name).add_(getattr(other, name))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the arrays that ``sums_kept`` names."""
        return {name: getattr(self, name) for name in self.sums_kept}

    def compact(self) -> dict[str, torch.Tensor]:
        """Return the same with replicates in float32: intervals need no more, and there are a thousand of them."""
        return {name: x.float() if name.startswith(_REPLICATED) else x for name, x in self.tensors().items()}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        for name in self.sums_kept:
            setattr(self, name, tensors[name].double() if name.startswith(_REPLICATED) else tensors[name])
