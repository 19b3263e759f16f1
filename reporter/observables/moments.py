"""Count, mean, sums of squares and sum of unit vectors of each layer and stratum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch

from reporter.forward.places import Layout, Place
from reporter.forward.strata import STRATA, VIEWS
from reporter.geometry.arrays import Floats
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import LayerStates
    from reporter.observables.observable import Setting


# Rows added up in float32 before float64 takes over: one long float32 sum is off by 1e-5 of itself and more, and by how
# much depends on the batch.
_BLOCK = 256
_VECTORS = ("mean", "squares", "unit_sum")
_TINY = 1e-24  # mean squares below it are not taken in float32, whose numbers end at 1e-38


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


class Moments(Observable):
    """First and second moments, per dimension, in float64.

    Squares are summed about the mean and merged by the formula of Chan, Golub & LeVeque 1983; E‖x‖² − ‖μ‖² would
    cancel. With S strata and P places it holds:

    - ``count`` (P, S): tokens; ``unit_count`` (P, S): tokens whose state is not zero
    - for each place, d wide: ``mean`` (S, d); ``squares`` (S, d): Σ (x − mean)² for each dimension;
      ``unit_sum`` (S, d): Σ x/‖x‖

    Args:
        layout: the places that are read.
    """

    name = "moments"
    version = 2

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        shape = (len(layout.places), len(STRATA))
        self.count = torch.zeros(shape, dtype=torch.float64)
        self.unit_count = torch.zeros(shape, dtype=torch.float64)
        self.mean, self.squares, self.unit_sum = (
            [torch.zeros(len(STRATA), width, dtype=torch.float64) for width in layout.widths] for _ in range(3)
        )

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout)

    def observe(self, layer: LayerStates) -> None:
        """Add one layer of a batch."""
        for stratum, rows in enumerate(layer.batch.rows):
            size = rows.stop - rows.start
            if size == 0:
                continue
            mean, centred = layer.centred[stratum]
            squares = _squares(centred)
            inverse = layer.norms[rows].reciprocal().nan_to_num(posinf=0.0)
            unit_sum = _weighted_sum(inverse, layer.states[rows])
            units = int((inverse > 0).sum())
            self._add(layer.index, stratum, size, mean.cpu(), squares.cpu(), units, unit_sum.cpu())

    def _add(
        self,
        layer: int,
        stratum: int,
        count: float,
        mean: torch.Tensor,
        squares: torch.Tensor,
        units: float,
        unit_sum: torch.Tensor,
    ) -> None:
        if count == 0:
            return
        known = float(self.count[layer, stratum])
        total = known + count
        delta = mean - self.mean[layer][stratum]
        self.mean[layer][stratum] += delta * (count / total)
        self.squares[layer][stratum] += squares + delta.square() * (known * count / total)
        self.count[layer, stratum] = total
        self.unit_count[layer, stratum] += units
        self.unit_sum[layer][stratum] += unit_sum

    def merge(self, other: Moments) -> None:
        """Add the moments of other texts."""
        for layer in range(len(self.layout.places)):
            for stratum in range(len(STRATA)):
                at = (layer, stratum)
                self._add(
                    layer,
                    stratum,
                    float(other.count[at]),
                    other.mean[layer][stratum],
                    other.squares[layer][stratum],
                    float(other.unit_count[at]),
                    other.unit_sum[layer][stratum],
                )

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``count``, ``unit_count`` and, for each place, ``mean/PLACE`` and so on."""
        found = {"count": self.count, "unit_count": self.unit_count}
        for name in _VECTORS:
            found |= {f"{name}/{at}": tensor for at, tensor in enumerate(getattr(self, name))}
        return found

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        self.count, self.unit_count = tensors["count"], tensors["unit_count"]
        for name in _VECTORS:
            setattr(self, name, [tensors[f"{name}/{at}"] for at in range(len(self.layout.places))])

    def at(self, place: Place, view: str) -> LayerMoments:
        """Return the moments at a place, merged over a view's strata."""
        at, strata = self.layout.index[place], list(VIEWS[view])
        count = self.count[at, strata].numpy()
        means = self.mean[at][strata].numpy()
        n = count.sum()
        mean = count @ means / n if n else means.sum(axis=0)
        # Chan, Golub & LeVeque 1983 for several parts: squares within the parts plus squares between their means.
        squares = self.squares[at][strata].numpy().sum(axis=0) + count @ (means - mean) ** 2
        units = self.unit_count[at, strata].sum()
        unit_sum = self.unit_sum[at][strata].numpy().sum(axis=0)
        return LayerMoments(int(n), mean, squares, int(units), unit_sum)


def _weighted_sum(weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return Σ w_i x_i over the rows of x in float64, shape (width,)."""
    whole = len(x) // _BLOCK * _BLOCK
    blocks = weights[:whole].view(-1, 1, _BLOCK) @ x[:whole].view(-1, _BLOCK, x.shape[1])
    return blocks.double().sum(dim=(0, 1)) + (weights[whole:] @ x[whole:]).double()


def _squares(x: torch.Tensor) -> torch.Tensor:
    """Return Σ x_ij² over the rows i of x in float64, shape (width,)."""
    whole = len(x) // _BLOCK * _BLOCK
    blocks = torch.linalg.vector_norm(x[:whole].view(-1, _BLOCK, x.shape[1]), dim=1)
    found: torch.Tensor = (
        blocks.double().square().sum(dim=0) + torch.linalg.vector_norm(x[whole:], dim=0).double().square()
    )
    tiny = found < _TINY * len(x)
    if tiny.any():  # dimensions that training has all but switched off: their float32 squares underflow
        found[tiny] = x[:, tiny].double().square().sum(dim=0)
    return found
