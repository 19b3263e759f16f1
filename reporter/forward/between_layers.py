"""States at two layers: second moments by halves of the texts, and angles between the states of a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from reporter.forward.batch import GROUPS, HALVES, HiddenBatch, LayerStates, groups_of
from reporter.forward.means import PerToken
from reporter.forward.observable import Field, Key, Observable, Setting, Sum
from reporter.forward.token_categories import STRATA, VIEWS
from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.linear import Joint, merged
from reporter.models.places import Layout, Place

SIDES = 2
_Centred = tuple[torch.Tensor, torch.Tensor]  # states, (tokens, d), and their mean in float64, (d,), nearly zero
_NARROW = 128  # up to this width products in float64 cost next to nothing


def half_of(texts: Ints, seed: int) -> Ints:
    """Return the half of the corpus, 0 or 1, that each text is in, by a hash of its place, shape (texts,)."""
    return groups_of(texts, seed) % SIDES


class Cross(Observable):
    """Σ (x − mean)(y − mean)ᵀ for x at a layer and y at the same one, the next and the last, in float64.

    By stratum and by half of the texts, so that a map fitted to one half can be tried on the other. Products of a batch
    are in float32 on centred states, of narrow ones in float64. With P layers of width d it takes about 3·P·d² numbers
    for each half and stratum that any token belongs to.
    """

    name = "cross"
    version = 2
    fields = dict.fromkeys(("count", "mean", "own", "updates", "steps", "last"), Field())

    def __init__(self, layout: Layout, seed: int) -> None:
        self.layout, self.seed = layout, seed
        self.count = np.zeros((SIDES, len(STRATA)))
        """Tokens of each half and stratum; the others are by half and stratum, too."""
        self.mean: dict[Key, torch.Tensor] = {}
        """Mean of each layer, (P, d)."""
        self.own: dict[Key, torch.Tensor] = {}
        """Σ (x − mean)(x − mean)ᵀ of each layer, (P, d, d)."""
        self.updates: dict[Key, torch.Tensor] = {}
        """The same of each layer and what the block adds to it, (P − 1, d, d): a small difference of large products
        would be their rounding."""
        self.steps: dict[Key, torch.Tensor] = {}
        """Σ‖u − mean‖² of what each block adds, (P − 1,)."""
        self.last: dict[Key, torch.Tensor] = {}
        """Of each layer and the last, but for the last two, which the others hold, (max(P − 2, 0), d, d)."""
        self._batch: dict[Key, _OfBatch] = {}

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk."""
        of_part = 8 * 3 * setting.layout.layers * setting.layout.width**2
        return SIDES * of_part * sum(rows > 0 for rows in tokens)

    def start(self, batch: HiddenBatch) -> None:
        """Sort the tokens of a batch by half and stratum."""
        super().start(batch)
        halves = half_of(batch.units, self.seed)
        self._batch = {}
        for half, stratum in np.ndindex(self.count.shape):
            rows = np.flatnonzero((halves == half) & (batch.strata == stratum))
            if len(rows):
                self._batch[half, stratum] = _OfBatch(batch, torch.as_tensor(rows, device=batch.device), self.layout)

    def observe(self, layer: LayerStates) -> None:
        """Add the products of one layer with itself, the next and the last."""
        if layer.index <= self.layout.layers:
            for part in self._batch.values():
                part.observe(layer.index)

    def finish(self, batch: HiddenBatch) -> None:
        """Add the batch."""
        for key, part in self._batch.items():
            self._add(key, float(len(part.rows)), part.mean, part.own, part.updates, part.steps, part.last)
        self._batch = {}

    def _add(self, key: Key, count: float, *sums: torch.Tensor) -> None:
        """Take in other tokens (Chan, Golub & LeVeque 1983)."""
        before, held = float(self.count[key]), (self.mean, self.own, self.updates, self.steps, self.last)
        self.count[key] = total = before + count
        if not before:
            for of_keys, new in zip(held, sums, strict=True):
                of_keys[key] = new.clone()
            return
        mean, own, updates, steps, last = sums
        delta = mean - self.mean[key]
        weight = before * count / total
        self.own[key] += own + weight * delta[:, :, None] * delta[:, None]
        moved = delta[1:] - delta[:-1]
        self.updates[key] += updates + weight * delta[:-1, :, None] * moved[:, None]
        self.steps[key] += steps + weight * moved.square().sum(dim=1)
        self.last[key] += last + weight * delta[: len(last), :, None] * delta[-1]
        self.mean[key] += delta * (count / total)

    def merge(self, other: Cross) -> None:
        """Add the moments of other texts."""
        for key, mean in other.mean.items():
            sums = (other.own[key], other.updates[key], other.steps[key], other.last[key])
            self._add(key, float(other.count[key]), mean, *sums)

    def joint(
        self, layer: int, other: int, strata: tuple[int, ...], half: int | None = None, updates: bool = False
    ) -> Joint | None:
        """Return the second moments of a layer with the next or the last one over some strata; None without tokens."""
        parts = []
        for key, mean in self.mean.items():
            of_half, stratum = key
            if stratum not in strata or half not in (None, of_half):
                continue
            count, square_x, after = float(self.count[key]), self.own[key][layer], self.own[key][other]
            if updates:
                update, step = self.updates[key][layer], float(self.steps[key][layer])
                square = after - square_x - update - update.T  # of what is added, up to the rounding of the states
                parts.append(Joint(count, mean[layer], mean[other] - mean[layer], square_x, update, square, step))
            else:
                cross = square_x + self.updates[key][layer] if other == layer + 1 else self.last[key][layer]
                parts.append(Joint(count, mean[layer], mean[other], square_x, cross, after))
        return merged(parts) if parts else None


class _OfBatch:
    """The sums of :class:`Cross` over some rows of a batch."""

    def __init__(self, batch: HiddenBatch, rows: torch.Tensor, layout: Layout) -> None:
        places, d = layout.layers + 1, layout.width
        self.rows, self._states, self._last = rows, batch.states, layout.layers
        shapes = ((places, d), (places, d, d), (places - 1, d, d), (places - 1,), (max(places - 2, 0), d, d))
        self.mean, self.own, self.updates, self.steps, self.last = (
            torch.zeros(shape, dtype=torch.float64, device=rows.device) for shape in shapes
        )
        self._final = self._about_mean(self._last)
        self._centred = self._about_mean(0)

    def _about_mean(self, place: int) -> _Centred:
        x = self._states[place].index_select(0, self.rows)
        near = x.mean(dim=0)
        x -= near
        off = x.mean(dim=0, dtype=torch.float64)
        self.mean[place] = near.double() + off
        return x, off

    def observe(self, index: int) -> None:
        """Add the products of one layer."""
        (x, off), last = self._centred, self._last
        self.own[index] = _product(x, x, off, off)
        if index == last:
            return
        following = self._final if index + 1 == last else self._about_mean(index + 1)
        update = following[0] - x
        step = update.mean(dim=0, dtype=torch.float64)
        self.updates[index] = _product(x, update, off, step)
        self.steps[index] = update.square().sum(dim=0).double().sum() - len(x) * step.square().sum()
        if index + 1 < last:
            z, z_off = self._final
            self.last[index] = _product(x, z, off, z_off)
        self._centred = following


def _product(x: torch.Tensor, y: torch.Tensor, x_off: torch.Tensor, y_off: torch.Tensor) -> torch.Tensor:
    if x.shape[1] <= _NARROW:
        x, y = x.double(), y.double()
    return (x.T @ y).double() - len(x) * torch.outer(x_off, y_off)


# The angle between each token's states at any two layers, and that of the last token of each text.


Which = Literal["tokens", "last_token"]
_AT_ONCE = 2**21  # numbers of states that are side by side in float64: 16 MiB


@dataclass(frozen=True)
class Angles:
    """Means of arccos(cosine)/π of all pairs of layers of a path.

    Args:
        value: shape (layers, layers), zero on the diagonal; NaN where no token has the angle.
        n: tokens that have it, of the same shape.
        halves: the mean in each half-sample of the texts, NaN where it holds no such token, (halves, layers, layers).
    """

    value: Floats
    n: Floats
    halves: Floats


class LayerAngles(Observable):
    """Σ arccos(cos(h_l, h_m))/π over tokens and over the last tokens of texts, for all l < m of the path.

    By group of texts, of which half-samples are made when it is read (``reporter.forward.batch``). With G groups, S
    strata, V views and P pairs: ``sums`` and ``counts`` (G, S, P) of all tokens, ``last_sums`` and ``last_counts``
    (G, V, P) of each text's last token in a view. A token whose state is zero at one of two layers is left out there.
    """

    name = "layer_angles"
    in_windows = "each"  # has a last token
    fields = dict.fromkeys(("sums", "counts", "last_sums", "last_counts"), Sum())

    def __init__(self, layout: Layout, seed: int) -> None:
        self.layout, self.seed = layout, seed
        self._first, self._second = np.triu_indices(layout.layers + 1, 1)
        pairs = len(self._first)
        self.sums, self.counts = (torch.zeros(GROUPS, len(STRATA), pairs, dtype=torch.float64) for _ in range(2))
        self.last_sums, self.last_counts = (
            torch.zeros(GROUPS, len(VIEWS), pairs, dtype=torch.float64) for _ in range(2)
        )

    def finish(self, batch: HiddenBatch) -> None:
        """Add the angles of a batch."""
        groups, last = groups_of(batch.units, self.seed), _last_tokens(batch)
        rows = torch.as_tensor(groups * len(STRATA) + batch.strata, device=batch.device)
        last_rows = np.concatenate([groups[text] * len(VIEWS) + view for view, text in enumerate(last)])
        states = batch.states[: self.layout.layers + 1]
        pairs = torch.as_tensor(self._first * len(states) + self._second, device=batch.device)
        step = max(1, _AT_ONCE // (len(states) * states[0].shape[1]))
        parts = []
        for start in range(0, len(batch), step):
            cosine = cosines_of_layers([of_layer[start : start + step] for of_layer in states])
            parts.append(cosine.flatten(1).index_select(1, pairs).arccos_().div_(torch.pi))
        angles = torch.cat(parts)
        self._add(self.sums, self.counts, rows, angles)
        which = torch.as_tensor(np.concatenate(last), device=batch.device)
        self._add(self.last_sums, self.last_counts, torch.as_tensor(last_rows, device=batch.device), angles[which])

    def _add(self, sums: torch.Tensor, counts: torch.Tensor, rows: torch.Tensor, angles: torch.Tensor) -> None:
        defined = angles.isfinite()
        sums.flatten(0, 1).index_add_(0, rows, angles.where(defined, 0.0))
        counts.flatten(0, 1).index_add_(0, rows, defined.double())

    def angles(self, which: Which, view: str) -> Angles:
        """Return the mean angles of the tokens of a view, or of its last tokens."""
        if which == "tokens":
            strata = list(VIEWS[view])
            sums, counts = (x[:, strata].sum(dim=1).numpy() for x in (self.sums, self.counts))
        else:
            index = list(VIEWS).index(view)
            sums, counts = (x[:, index].numpy() for x in (self.last_sums, self.last_counts))
        n = counts.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            value, halves = sums.sum(axis=0) / n, (HALVES @ sums) / (HALVES @ counts)
        return Angles(*(self._square(x) for x in (value, n, halves)))

    def _square(self, of_pairs: Floats) -> Floats:
        layers = self.layout.layers + 1
        matrices = np.zeros((*of_pairs.shape[:-1], layers, layers))
        matrices[..., self._first, self._second] = matrices[..., self._second, self._first] = of_pairs
        return matrices


def cosines_of_layers(states: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the cosine of each token's states at any two layers, NaN where one is zero, (tokens, layers, layers).

    In float64, since consecutive states are often nearly parallel, and the angle of a cosine near 1 magnifies its
    rounding.
    """
    x = wide(torch.stack(list(states), dim=1))
    x /= torch.linalg.vector_norm(x, dim=2, keepdim=True)
    return (x @ x.mT).clamp_(-1, 1)


def _last_tokens(batch: HiddenBatch) -> list[Ints]:
    order = np.lexsort((batch.positions, batch.texts))
    by_view = []
    for strata in VIEWS.values():
        rows = order[np.isin(batch.strata[order], strata)]
        texts = batch.texts[rows]
        by_view.append(rows[np.flatnonzero(np.append(texts[1:] != texts[:-1], True)[: len(texts)])])
    return by_view


# What attention, feed-forward and whole blocks add to a token's state, beside the state that they add it to.


class Contributions(PerToken):
    """Lengths and directions of what block l + 1 adds, kept at layer l.

    With h_l what enters the block, a and m what its attention and feed-forward add, s the stream that m is added to:

    - ``attention_ratio``, ``attention_cosine``: ‖a‖ / ‖h_l‖ and cos(a, h_l)
    - ``feed_forward_ratio``, ``feed_forward_cosine``: ‖m‖ / ‖s‖ and cos(m, s)
    - ``block_cosine``: cos(h_{l+1} − h_l, h_l)

    Of a zero stream all are undefined, of a zero addition the cosine is.
    """

    name = "contributions"
    version = 2
    quantities = ("attention_ratio", "attention_cosine", "feed_forward_ratio", "feed_forward_cosine", "block_cosine")
    reads_inside = True

    @property
    def places(self) -> tuple[Place, ...]:
        """The inputs of the blocks."""
        return self.layout.path[:-1]

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return the quantities of every token, NaN where one is undefined, shape (tokens, 5)."""
        batch, x = layer.batch, layer.states
        step = torch.sub(batch.states[layer.index + 1], x, out=batch.scratch(x))
        cosine = (torch.linalg.vecdot(step, x) / (step.norm(dim=1) * layer.norms)).clamp(-1, 1)
        if batch.contributions is None:
            sublayers = x.new_full((len(x), 4), torch.nan)
        else:
            sublayers = batch.contributions[layer.index].flatten(1)
        return torch.cat([sublayers, cosine[:, None].to(sublayers.dtype)], dim=1)
