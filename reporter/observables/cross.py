"""Second moments of each layer with the next one and with the last, by halves of the texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.effort import Effort, Scale
from reporter.forward.halves import groups_of
from reporter.forward.places import Layout
from reporter.forward.strata import STRATA
from reporter.geometry.linear import Joint, merged
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting

HALVES = 2
_Key = tuple[int, int]  # half, stratum
_Centred = tuple[torch.Tensor, torch.Tensor]  # states, (tokens, d), and their mean in float64, (d,), nearly zero
_NARROW = 128  # up to this width products in float64 cost next to nothing
_ARRAYS = ("mean", "own", "updates", "steps", "last")


def half_of(texts: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return the half of the corpus, 0 or 1, that each text is in, by a hash of its place, shape (texts,).

    Args:
        texts: place in the corpus of each text, or of the first one that says the same.
        seed: the study's seed.
    """
    return groups_of(texts, seed) % HALVES


@dataclass
class _Sums:
    """What is kept of the tokens of one half and stratum, with P layers of width d.

    Args:
        count: tokens.
        mean: of each layer, (P, d).
        own: Σ (x − mean)(x − mean)ᵀ of each layer, (P, d, d).
        updates: the same of each layer and what the block adds to it, (P − 1, d, d): a small difference of large
            products would be their rounding.
        steps: Σ‖u − mean‖² of what each block adds, (P − 1,).
        last: of each layer and the last, but for the last two, which the others hold, (max(P − 2, 0), d, d).
    """

    count: float
    mean: torch.Tensor
    own: torch.Tensor
    updates: torch.Tensor
    steps: torch.Tensor
    last: torch.Tensor

    @classmethod
    def empty(cls, places: int, d: int, device: torch.device) -> _Sums:
        shapes = ((places, d), (places, d, d), (places - 1, d, d), (places - 1,), (max(places - 2, 0), d, d))
        return cls(0.0, *(torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes))

    def move(self, device: torch.device) -> None:
        """Move to a device."""
        for name in _ARRAYS:
            setattr(self, name, getattr(self, name).to(device))

    def add(self, other: _Sums) -> None:
        """Take in other tokens (Chan, Golub & LeVeque 1983)."""
        total = self.count + other.count
        if not other.count:
            return
        delta = other.mean - self.mean
        weight = self.count * other.count / total
        self.own += other.own + weight * delta[:, :, None] * delta[:, None]
        moved = delta[1:] - delta[:-1]
        self.updates += other.updates + weight * delta[:-1, :, None] * moved[:, None]
        self.steps += other.steps + weight * moved.square().sum(dim=1)
        self.last += other.last + weight * delta[: len(self.last), :, None] * delta[-1]
        self.mean += delta * (other.count / total)
        self.count = total


class Cross(Observable):
    """Σ (x − mean)(y − mean)ᵀ for x at a layer and y at the same one, the next and the last, in float64.

    By stratum and by half of the texts, so that a map fitted to one half can be tried on the other. Products of a batch
    are in float32 on centred states, of narrow ones in float64. With P layers of width d it takes about 3·P·d² numbers
    for each half and stratum that any token belongs to.

    Args:
        layout: the places that are read; only the path counts.
        seed: the study's seed, which decides the halves.
    """

    name = "cross"

    def __init__(self, layout: Layout, seed: int) -> None:
        self.layout, self.seed = layout, seed
        self.sums: dict[_Key, _Sums] = {}
        self._parts: list[tuple[_Key, torch.Tensor]] = []
        self._batch: dict[_Key, _Sums] = {}
        self._centred: dict[_Key, _Centred] = {}
        self._final: dict[_Key, _Centred] = {}

    @classmethod
    def effort(cls, scale: Scale, size: int) -> Effort:
        """Return the work of three width × width products for each token and place."""
        return super().effort(scale, size) + Effort(products=6.0 * scale.width**2 * scale.tokens * scale.places)

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk."""
        of_part = 8 * 3 * setting.layout.layers * setting.layout.width**2
        return HALVES * of_part * sum(rows > 0 for rows in tokens)

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout, setting.seed)

    def follow(self, device: torch.device) -> None:
        """Move the sums to where the states are."""
        for sums in self.sums.values():
            sums.move(device)

    def start(self, batch: HiddenBatch) -> None:
        """Sort the tokens of a batch by half and stratum."""
        self.follow(batch.device)
        halves, device = half_of(batch.originals, self.seed), batch.device
        self._parts, self._batch, self._centred, self._final = [], {}, {}, {}
        places = self.layout.layers + 1
        for half in range(HALVES):
            for stratum in range(len(STRATA)):
                rows = np.flatnonzero((halves == half) & (batch.strata == stratum))
                if len(rows):
                    key = half, stratum
                    at = torch.as_tensor(rows, device=device)
                    self._parts.append((key, at))
                    self._batch[key] = _Sums.empty(places, self.layout.width, device)
                    self._batch[key].count = float(len(rows))
                    self._final[key] = self._about_mean(key, batch, places - 1, at)
                    self._centred[key] = self._about_mean(key, batch, 0, at)

    def _about_mean(self, key: _Key, batch: HiddenBatch, place: int, rows: torch.Tensor) -> _Centred:
        """Return states about a mean in float32 that is near theirs, and what it is off; theirs goes to the sums."""
        x = batch.states[place].index_select(0, rows)
        near = x.mean(dim=0)
        x -= near
        off = x.mean(dim=0, dtype=torch.float64)
        self._batch[key].mean[place] = near.double() + off
        return x, off

    def observe(self, layer: LayerStates) -> None:
        """Add the products of one layer with itself, the next and the last."""
        at, last = layer.index, self.layout.layers
        if at > last:
            return
        for key, rows in self._parts:
            sums, (x, off) = self._batch[key], self._centred[key]
            sums.own[at] = _product(x, x, off, off)
            if at == last:
                continue
            following = self._final[key] if at + 1 == last else self._about_mean(key, layer.batch, at + 1, rows)
            update = following[0] - x
            step = update.mean(dim=0, dtype=torch.float64)
            sums.updates[at] = _product(x, update, off, step)
            sums.steps[at] = update.square().sum(dim=0).double().sum() - len(x) * step.square().sum()
            if at + 1 < last:
                z, z_off = self._final[key]
                sums.last[at] = _product(x, z, off, z_off)
            self._centred[key] = following

    def finish(self, batch: HiddenBatch) -> None:
        """Add the batch."""
        for key, sums in self._batch.items():
            self._add(key, sums)
        self._parts, self._batch, self._centred, self._final = [], {}, {}, {}

    def _add(self, key: _Key, sums: _Sums) -> None:
        if key in self.sums:
            self.sums[key].add(sums)
        else:
            self.sums[key] = sums

    def merge(self, other: Cross) -> None:
        """Add the moments of other texts."""
        for key, sums in other.sums.items():
            mine = _Sums.empty(len(sums.mean), sums.mean.shape[1], sums.mean.device)
            mine.add(sums)  # a copy: the other one may go on
            self._add(key, mine)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``count/HALF/STRATUM`` and so on for ``mean``, ``own``, ``updates``, ``steps`` and ``last``."""
        found = {}
        for (half, stratum), sums in self.sums.items():
            at = f"{half}/{stratum}"
            found[f"count/{at}"] = torch.tensor([sums.count], dtype=torch.float64)
            for name in _ARRAYS:
                found[f"{name}/{at}"] = getattr(sums, name)
        return found

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        for name, tensor in tensors.items():
            kind, half, stratum = name.split("/")
            if kind == "count":
                at = f"{half}/{stratum}"
                parts = (tensors[f"{part}/{at}"] for part in _ARRAYS)
                self.sums[int(half), int(stratum)] = _Sums(float(tensor[0]), *parts)

    def joint(
        self, layer: int, other: int, strata: tuple[int, ...], half: int | None = None, updates: bool = False
    ) -> Joint | None:
        """Return the second moments of a layer with the next or the last one over some strata; None without tokens.

        Args:
            layer: 0…L − 1.
            other: layer + 1 or L.
            strata: which tokens.
            half: of the texts; None for both.
            updates: with what the block adds to the layer, in the place of the next one.
        """
        parts = []
        for (of_half, stratum), sums in self.sums.items():
            if stratum in strata and half in (None, of_half):
                mean, own, after = sums.mean[layer], sums.own[layer], sums.own[other]
                if updates:
                    update, step = sums.updates[layer], float(sums.steps[layer])
                    square = after - own - update - update.T  # of what is added, up to the rounding of the states
                    parts.append(Joint(sums.count, mean, sums.mean[other] - mean, own, update, square, step))
                else:
                    cross = own + sums.updates[layer] if other == layer + 1 else sums.last[layer]
                    parts.append(Joint(sums.count, mean, sums.mean[other], own, cross, after))
        return merged(parts) if parts else None


def _product(x: torch.Tensor, y: torch.Tensor, x_off: torch.Tensor, y_off: torch.Tensor) -> torch.Tensor:
    """Return Σ (x − its mean)(y − its mean)ᵀ of rows whose means are nearly zero, in float64, shape (d, d)."""
    if x.shape[1] <= _NARROW:
        x, y = x.double(), y.double()
    return (x.T @ y).double() - len(x) * torch.outer(x_off, y_off)
