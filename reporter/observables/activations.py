"""How large single activations are, and how much each dimension adds to the cosine of two tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.places import Layout
from reporter.forward.strata import STRATA
from reporter.observables.moments import sum_of
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting

LARGE, MANY_MEDIANS = 100.0, 1000.0  # what a massive activation exceeds: Sun et al. 2024


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
    gathered = ("massive", "unit_squares")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        shape = (len(layout.places), len(STRATA))
        self.massive = torch.zeros(shape, dtype=torch.float64)
        self.largest = np.zeros(shape)
        self.unit_squares = [torch.zeros(len(STRATA), width, dtype=torch.float64) for width in layout.widths]
        self._text = torch.zeros(0, dtype=torch.int64)  # of each token of the batch at hand

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout)

    def start(self, batch: HiddenBatch) -> None:
        """Take in the largest activations, which are known."""
        self.follow(batch.device)
        self._text = torch.as_tensor(batch.by_text[2], device=batch.device)
        for stratum, rows in enumerate(batch.rows):
            if batch.sizes[stratum]:
                self.largest[:, stratum] = np.maximum(self.largest[:, stratum], batch.peaks[:, rows].max(axis=1))

    def observe(self, layer: LayerStates) -> None:
        """Add one place of a batch."""
        at, batch = layer.index, layer.batch
        squares = torch.square(layer.units, out=batch.scratch(layer.units))
        for stratum, rows in enumerate(batch.rows):
            if batch.sizes[stratum]:
                self.unit_squares[at][stratum] += sum_of(squares[rows])
        self._add_massive(layer)

    def _add_massive(self, layer: LayerStates) -> None:
        """Count the massive activations at one place; in most models no token can have one."""
        batch, peaks = layer.batch, layer.batch.peaks[layer.index]
        large = np.flatnonzero(peaks > LARGE)
        if not len(large):
            return
        texts, _, of_token = batch.by_text
        device = layer.states.device
        at, limit, strata = (
            torch.as_tensor(x, device=device)
            for x in (of_token[large], peaks[large] / np.float64(MANY_MEDIANS), batch.strata[large])
        )
        massive = _above_median(layer.states, self._text, np.bincount(of_token, minlength=len(texts)), at, limit)
        self.massive[layer.index].index_add_(0, strata, massive.double())

    def merge(self, other: Activations) -> None:
        """Add the activations of other texts."""
        self.massive += other.massive
        self.largest = np.maximum(self.largest, other.largest)
        for mine, theirs in zip(self.unit_squares, other.unit_squares, strict=True):
            mine += theirs

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``massive``, ``largest`` and, for each place, ``unit_squares/PLACE``."""
        found = {"massive": self.massive, "largest": torch.from_numpy(self.largest)}
        return found | {f"unit_squares/{at}": tensor for at, tensor in enumerate(self.unit_squares)}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        self.massive, self.largest = tensors["massive"], tensors["largest"].numpy()
        self.unit_squares = [tensors[f"unit_squares/{at}"] for at in range(len(self.layout.places))]


def _above_median(
    x: torch.Tensor, text: torch.Tensor, tokens: NDArray[np.int64], of_limit: torch.Tensor, limit: torch.Tensor
) -> torch.Tensor:
    """Return whether limits exceed the median |entry| of their text, of an even number the mean of the middle two.

    Floats that are not negative are ordered as their bits are. So the bits of the one in the middle are found from the
    highest on, by counting what comes next in those entries of the text that begin like it: a fraction of the time of
    a selection text by text, without padding, and nothing has to wait for the device. Where looking costs nothing, that
    ends when the bits which are known settle all limits: mostly after the first eleven.

    Args:
        x: float32, (tokens, width).
        text: which text each token is of, (tokens,).
        tokens: how many tokens each text has, (texts,).
        of_limit: which text each limit is for, (limits,).
        limit: float64, (limits,).
    """
    count = len(tokens)
    entries = torch.as_tensor(tokens * x.shape[1], device=x.device)[:, None]
    row = text.to(torch.int32)[:, None]
    bits = x.contiguous().abs().view(torch.int32)
    rank = entries // 2  # of the middle one, or the upper one of two, among those that begin like it; from 0
    middle = torch.zeros(count, dtype=torch.int32, device=x.device)  # its bits as far as they are known
    for known, digits in ((0, 11), (11, 10), (21, 10)):
        size, rest = 1 << digits, 31 - known - digits
        which = bits >> rest
        if known:
            which.bitwise_and_(size - 1)
        which.add_(row * size)
        if known:
            which.masked_fill_(bits >> (rest + digits) != middle[text][:, None], count * size)
        found = _counted(which, count * size + 1)[:-1].view(count, size).cumsum(dim=1)
        digit = torch.searchsorted(found, rank, right=True)
        rank = rank - torch.where(digit > 0, found.gather(1, (digit - 1).clamp(min=0)), 0)
        middle = (middle << digits) | digit[:, 0].to(torch.int32)
        if x.device.type == "cpu" and (rank > 0).all():  # so that the lower one of two begins like the upper one
            least, most = ((start << rest).view(torch.float32)[of_limit] for start in (middle, middle + 1))
            if ((limit <= least) | (limit >= most)).all():
                return limit >= most
    # The lower one is equal to it, unless exactly half of the entries are less: then all that remain are not.
    less = bits < middle[text][:, None]
    below = torch.zeros_like(middle).scatter_reduce_(0, text, bits.where(less, 0).amax(dim=1), "amax")
    half = entries[:, 0] // 2 == torch.zeros_like(entries[:, 0]).index_add_(0, text, less.sum(dim=1))
    lower = below.where((entries[:, 0] % 2 == 0) & half, middle)
    return limit > ((middle.view(torch.float32).double() + lower.view(torch.float32).double()) / 2)[of_limit]


def _counted(numbers: torch.Tensor, size: int) -> torch.Tensor:
    """Return how often each of the numbers 0 … size − 1 occurs, shape (size,)."""
    flat = numbers.flatten()
    if flat.device.type == "cpu":
        return torch.bincount(flat, minlength=size)
    # Where ``bincount`` would ask the device for the largest one.
    return torch.zeros(size, dtype=torch.int64, device=flat.device).index_add_(0, flat, torch.ones_like(flat).long())
