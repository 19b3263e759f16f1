"""What sums with bootstrap replicates have in common: they merge by adding, and are saved as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from reporter.forward.places import Layout
from reporter.observables.bootstrap import REPLICATES
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.observables.setting import Setting


class Bootstrapped(Observable):
    """Sums over texts and under each bootstrap replicate, in the attributes that ``sums_kept`` names.

    Args:
        layout: the places that are read.
        seed: the study's seed, for the bootstrap weights.
        replicates: R.
    """

    quantities: ClassVar[tuple[str, ...]]
    sums_kept: ClassVar[tuple[str, ...]]

    def __init__(self, layout: Layout, seed: int, replicates: int = REPLICATES) -> None:
        self.layout, self.seed, self.replicates = layout, seed, replicates

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

    def parameters(self) -> dict[str, Any]:
        """Return layout, seed and replicates."""
        return {"layout": self.layout.as_json(), "seed": self.seed, "replicates": self.replicates}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        for name in self.sums_kept:
            setattr(self, name, tensors[name])
