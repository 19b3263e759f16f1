"""How large single activations are, which are massive, and how much each dimension adds to the cosine of two tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.places import Layout
from reporter.forward.strata import SPECIAL, STRATA
from reporter.observables.massive_types import MassiveType, MassiveTypes, Seen
from reporter.observables.moments import sum_of
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting

LARGE, MANY_MEDIANS = 100.0, 1000.0  # what a massive activation exceeds: Sun et al. 2024
_TOP = 4  # of a token's coordinates are looked at: models are known to have one to three such dimensions


class Activations(Observable):
    """Massive activations, the largest activation, and Σ u_j² of unit vectors u = x/‖x‖, by place and stratum.

    A token has a massive activation if some |x_j| > 100 and > 1000 times the median |x| over all entries of all tokens
    of its text at that place, special tokens included: a rule inside one text, so that neither batches nor views change
    it. With P places and S strata it holds ``massive`` (P, S): tokens with a massive activation; ``largest`` (P, S):
    max |x_j|; and for each place ``unit_squares`` (S, d): Σ u_j², which is what Σ over pairs of u_j v_j has too much
    when it is taken as (Σ u)_j².
    Beside them ``types``: on the path, the massive ones among the four largest coordinates of each token, by dimension
    and token type.

    Args:
        layout: the places that are read.
        tokens: how the tokenizer writes a token, by id.
    """

    name = "activations"
    version = 3
    gathered = ("massive", "unit_squares")

    def __init__(self, layout: Layout, tokens: Mapping[str, str]) -> None:
        self.layout, self.tokens = layout, dict(tokens)
        shape = (len(layout.places), len(STRATA))
        self.massive = torch.zeros(shape, dtype=torch.float64)
        self.largest = np.zeros(shape)
        self.unit_squares = [torch.zeros(len(STRATA), width, dtype=torch.float64) for width in layout.widths]
        self.types = MassiveTypes()
        self._text = torch.zeros(0, dtype=torch.int64)  # of each token of the batch at hand
        self._seen: list[Seen] = []  # in this shard

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout, {str(token): name for token, name in setting.tokens.items()})

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
        rows, at, strata = (torch.as_tensor(x, device=device) for x in (large, of_token[large], batch.strata[large]))
        x = layer.states[rows]
        top, dimensions = x.abs().topk(min(_TOP, x.shape[1]), dim=1)
        # What is not large decides nothing: its limit is below any median.
        limits = (top.double() / MANY_MEDIANS).where(top > LARGE, -1.0)
        tokens = np.bincount(of_token, minlength=len(texts))
        of_limit = at.repeat_interleave(limits.shape[1])
        massive = _above_median(layer.states, self._text, tokens, of_limit, limits.flatten()).view_as(top)
        self.massive[layer.index].index_add_(0, strata, massive[:, 0].double())
        if layer.index <= self.layout.layers:
            facts = (batch.token_ids, batch.texts, batch.positions, batch.strata != SPECIAL)
            of_tokens = np.stack([fact[large].astype(np.int64) for fact in facts], axis=1)
            self._seen.append(Seen(layer.place.layer, of_tokens, dimensions, x.gather(1, dimensions), massive))

    def settle(self) -> None:
        """Bring what was gathered to the host, and list what was massive in this shard."""
        super().settle()
        self.types.take([replace(one, **{name: getattr(one, name).cpu() for name in _ON_DEVICE}) for one in self._seen])
        self._seen = []

    def merge(self, other: Activations) -> None:
        """Add the activations of other texts."""
        self.massive += other.massive
        self.largest = np.maximum(self.largest, other.largest)
        for mine, theirs in zip(self.unit_squares, other.unit_squares, strict=True):
            mine += theirs
        self.tokens = {**self.tokens, **other.tokens}
        self.types.merge(other.types)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``massive``, ``largest``, those of ``types`` and, for each place, ``unit_squares/PLACE``."""
        found = {"massive": self.massive, "largest": torch.from_numpy(self.largest)} | self.types.tensors()
        return found | {f"unit_squares/{at}": tensor for at, tensor in enumerate(self.unit_squares)}

    def parameters(self) -> dict[str, Any]:
        """Return the layout and the tokens that are listed."""
        listed = {str(token) for token in self.types.keys[:, 1].tolist()}
        names = {token: name for token, name in self.tokens.items() if token in listed}
        return {"layout": self.layout.as_json(), "tokens": names}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        self.massive, self.largest = tensors["massive"], tensors["largest"].numpy()
        self.unit_squares = [tensors[f"unit_squares/{at}"] for at in range(len(self.layout.places))]
        self.types.restore(tensors)

    def listed(self) -> list[MassiveType]:
        """Return the massive activations of the path by dimension and token type, the largest first."""
        return self.types.listed(self.tokens)


_ON_DEVICE = ("dimensions", "values", "massive")


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
