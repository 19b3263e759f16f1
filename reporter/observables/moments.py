"""Count, mean, sums of squares and sum of unit vectors of each layer and stratum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from reporter.forward.places import Layout, Place
from reporter.forward.strata import STRATA, VIEWS
from reporter.geometry.arrays import Floats
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting


# Rows added up in float32 before float64 takes over: one long float32 sum is off by 1e-5 of itself and more, and by how
# much depends on the batch.
_BLOCK = 256
_VECTORS = ("mean", "squares", "unit_sum")


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
    gathered = _VECTORS

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        shape = (len(layout.places), len(STRATA))
        self.count, self.unit_count = np.zeros(shape), np.zeros(shape)
        self.mean, self.squares, self.unit_sum = (
            [torch.zeros(len(STRATA), width, dtype=torch.float64) for width in layout.widths] for _ in range(3)
        )

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout)

    def start(self, batch: HiddenBatch) -> None:
        """Sum where the states are."""
        self.follow(batch.device)

    def observe(self, layer: LayerStates) -> None:
        """Add one layer of a batch."""
        for stratum, rows in enumerate(layer.batch.rows):
            if rows.stop == rows.start:
                continue
            mean, centred = layer.centred[stratum]
            units = float((layer.batch.known_norms[layer.index, rows] > 0).sum())
            squares = _squares(centred, layer.batch.scratch(centred)[: len(centred)])
            sums = (mean, squares, units, sum_of(layer.units[rows]))
            self._add(layer.index, stratum, rows.stop - rows.start, *sums)

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
        found = {"count": torch.from_numpy(self.count), "unit_count": torch.from_numpy(self.unit_count)}
        for name in _VECTORS:
            found |= {f"{name}/{at}": tensor for at, tensor in enumerate(getattr(self, name))}
        return found

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        self.count, self.unit_count = tensors["count"].numpy(), tensors["unit_count"].numpy()
        for name in _VECTORS:
            setattr(self, name, [tensors[f"{name}/{at}"] for at in range(len(self.layout.places))])

    def at(self, place: Place, view: str) -> LayerMoments:
        """Return the moments at a place, merged over a view's strata."""
        at, strata = self.layout.index[place], list(VIEWS[view])
        count = self.count[at, strata]
        means = self.mean[at][strata].numpy()
        n = count.sum()
        mean = count @ means / n if n else means.sum(axis=0)
        # Chan, Golub & LeVeque 1983 for several parts: squares within the parts plus squares between their means.
        squares = self.squares[at][strata].numpy().sum(axis=0) + count @ (means - mean) ** 2
        units = self.unit_count[at, strata].sum()
        unit_sum = self.unit_sum[at][strata].numpy().sum(axis=0)
        return LayerMoments(int(n), mean, squares, int(units), unit_sum)


def sum_of(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of the rows of x in float64, shape (width,)."""
    whole = len(x) // _BLOCK * _BLOCK
    blocks = x[:whole].view(-1, _BLOCK, x.shape[1]).sum(dim=1)
    return blocks.double().sum(dim=0) + x[whole:].sum(dim=0).double()


def _squares(x: torch.Tensor, scratch: torch.Tensor) -> torch.Tensor:
    """Return Σ x_ij² over the rows i of x in float64, shape (width,).

    Each dimension is brought to the size of 1 by a power of two, which rounds nothing: the float32 squares of
    dimensions that training has all but switched off would underflow.

    Args:
        x: shape (tokens, width).
        scratch: of the same shape, to be written over.
    """
    exponent = torch.frexp(torch.maximum(x.amax(dim=0), -x.amin(dim=0))).exponent.clamp(-126, 126).double()
    return sum_of(torch.mul(x, torch.exp2(-exponent).float(), out=scratch).square_()) * torch.exp2(2 * exponent)
