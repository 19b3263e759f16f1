"""How large single activations are, and how much each dimension adds to the cosine of two tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from reporter.forward.places import Layout
from reporter.forward.strata import STRATA
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting

LARGE, MANY_MEDIANS = 100.0, 1000.0  # what a massive activation exceeds: Sun et al. 2024
_BLOCK = 256  # rows added up in float32 before float64 takes over


class Activations(Observable):
    """Massive activations, the largest activation, and Σ u_j² of unit vectors u = x/‖x‖, by place and stratum.

    A token has a massive activation if some |x_j| > 100 and > 1000 times the median |x| over all entries of all tokens
    of its text at that place, special tokens included: a rule inside one text, so that neither batches nor views change
    it. With P places and S strata it holds ``massive`` (P, S): tokens with a massive activation; ``largest`` (P, S):
    max |x_j|; and for each place ``unit_squares`` (S, d): Σ u_j², which is what Σ over pairs of u_j v_j has too much
    when it is taken as (Σ u)_j².

    Args:
        layout: the places that are read.
    """

    name = "activations"

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        shape = (len(layout.places), len(STRATA))
        self.massive = torch.zeros(shape, dtype=torch.float64)
        self.largest = torch.zeros(shape, dtype=torch.float64)
        self.unit_squares = [torch.zeros(len(STRATA), width, dtype=torch.float64) for width in layout.widths]

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout)

    def observe(self, layer: LayerStates) -> None:
        """Add one place of a batch."""
        x, at = layer.states, layer.index
        if not len(x):
            return
        largest = x.abs().amax(dim=1)
        massive = _massive(x, largest, layer.batch)
        units = (x * layer.norms.reciprocal().nan_to_num(posinf=0.0)[:, None]).square_()
        for stratum, rows in enumerate(layer.batch.rows):
            if rows.stop > rows.start:
                self.massive[at, stratum] += massive[rows].sum().item()
                self.largest[at, stratum] = max(self.largest[at, stratum].item(), largest[rows].max().item())
                self.unit_squares[at][stratum] += _sum(units[rows]).cpu()

    def merge(self, other: Activations) -> None:
        """Add the activations of other texts."""
        self.massive += other.massive
        self.largest = torch.maximum(self.largest, other.largest)
        for mine, theirs in zip(self.unit_squares, other.unit_squares, strict=True):
            mine += theirs

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``massive``, ``largest`` and, for each place, ``unit_squares/PLACE``."""
        found = {"massive": self.massive, "largest": self.largest}
        return found | {f"unit_squares/{at}": tensor for at, tensor in enumerate(self.unit_squares)}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        self.massive, self.largest = tensors["massive"], tensors["largest"]
        self.unit_squares = [tensors[f"unit_squares/{at}"] for at in range(len(self.layout.places))]


def _massive(x: torch.Tensor, largest: torch.Tensor, batch: HiddenBatch) -> torch.Tensor:
    """Return which tokens have a massive activation, shape (tokens,)."""
    found = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    large = (largest > LARGE).cpu().numpy()
    for text in np.unique(batch.texts[large]):  # in most models none
        rows = torch.as_tensor(np.flatnonzero(batch.texts == text), device=x.device)
        found[rows] = largest[rows] > max(LARGE, MANY_MEDIANS * _median(x[rows].abs().flatten()))
    return found


def _median(x: torch.Tensor) -> float:
    """Return the median of a vector; the mean of the middle two if its length is even."""
    high = len(x) // 2
    middle = float(x.kthvalue(high + 1).values)
    return middle if len(x) % 2 else (middle + float(x.kthvalue(high).values)) / 2


def _sum(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of the rows of x in float64, shape (width,)."""
    whole = len(x) // _BLOCK * _BLOCK
    found: torch.Tensor = x[:whole].view(-1, _BLOCK, x.shape[1]).sum(dim=1).double().sum(dim=0)
    return found + x[whole:].sum(dim=0).double()
