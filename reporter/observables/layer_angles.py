"""The angle between each token's states at any two layers, and that of the last token of each text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.effort import Effort, Scale
from reporter.forward.halves import GROUPS, HALVES, groups_of
from reporter.forward.places import Layout
from reporter.forward.strata import STRATA, VIEWS
from reporter.geometry.arrays import Floats
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting

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

    By group of texts, of which half-samples are made when it is read (``reporter.forward.halves``). With G groups, S
    strata, V views and P pairs: ``sums`` and ``counts`` (G, S, P) of all tokens, ``last_sums`` and ``last_counts``
    (G, V, P) of each text's last token in a view. A token whose state is zero at one of two layers is left out there.

    Args:
        layout: the places that are read; only the path counts.
        seed: the study's seed, for the groups.
    """

    name = "layer_angles"
    in_windows = "each"  # has a last token
    gathered = ("sums", "counts", "last_sums", "last_counts")

    def __init__(self, layout: Layout, seed: int) -> None:
        self.layout, self.seed = layout, seed
        self._first, self._second = np.triu_indices(layout.layers + 1, 1)
        pairs = len(self._first)
        self.sums, self.counts = (torch.zeros(GROUPS, len(STRATA), pairs, dtype=torch.float64) for _ in range(2))
        self.last_sums, self.last_counts = (
            torch.zeros(GROUPS, len(VIEWS), pairs, dtype=torch.float64) for _ in range(2)
        )

    @classmethod
    def effort(cls, scale: Scale, size: int) -> Effort:
        """Return the work of a product of each two layers of a token, in float64."""
        return scale.reading(2.0) + Effort(products=4.0 * scale.places**2 * scale.width * scale.tokens)

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout, setting.seed)

    def observe(self, layer: LayerStates) -> None:
        """Wait for the others: the layers of a token are measured together."""

    def finish(self, batch: HiddenBatch) -> None:
        """Add the angles of a batch."""
        self.follow(batch.device)
        groups, last = groups_of(batch.originals, self.seed), _last_tokens(batch)
        rows = torch.as_tensor(groups * len(STRATA) + batch.strata, device=batch.device)
        last_rows = np.concatenate([groups[of] * len(VIEWS) + view for view, of in enumerate(last)])
        states = batch.states[: self.layout.layers + 1]
        pairs = torch.as_tensor(self._first * len(states) + self._second, device=batch.device)
        step = max(1, _AT_ONCE // (len(states) * states[0].shape[1]))
        found = []
        for start in range(0, len(batch), step):
            cosine = cosines_of_layers([of_layer[start : start + step] for of_layer in states])
            found.append(cosine.flatten(1).index_select(1, pairs).arccos_().div_(torch.pi))
        angles = torch.cat(found)
        self._add(self.sums, self.counts, rows, angles)
        which = torch.as_tensor(np.concatenate(last), device=batch.device)
        at = torch.as_tensor(last_rows, device=batch.device)
        self._add(self.last_sums, self.last_counts, at, angles[which])

    def _add(self, sums: torch.Tensor, counts: torch.Tensor, rows: torch.Tensor, angles: torch.Tensor) -> None:
        """Add angles, NaN where undefined, (tokens, P), to the rows of sums and counts, (G, ·, P)."""
        defined = angles.isfinite()
        sums.flatten(0, 1).index_add_(0, rows, angles.where(defined, 0.0))
        counts.flatten(0, 1).index_add_(0, rows, defined.double())

    def merge(self, other: LayerAngles) -> None:
        """Add the sums of other texts."""
        for name in self.gathered:
            getattr(self, name).add_(getattr(other, name))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the sums and counts."""
        return {name: getattr(self, name) for name in self.gathered}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        for name in self.gathered:
            setattr(self, name, tensors[name])

    def angles(self, which: Which, view: str) -> Angles:
        """Return the mean angles of the tokens of a view, or of its last tokens."""
        if which == "tokens":
            strata = list(VIEWS[view])
            sums, counts = (x[:, strata].sum(dim=1).numpy() for x in (self.sums, self.counts))
        else:
            at = list(VIEWS).index(view)
            sums, counts = (x[:, at].numpy() for x in (self.last_sums, self.last_counts))
        n = counts.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            value, halves = sums.sum(axis=0) / n, (HALVES @ sums) / (HALVES @ counts)
        return Angles(*(self._square(x) for x in (value, n, halves)))

    def _square(self, of_pairs: Floats) -> Floats:
        """Return numbers of pairs, (…, P), as symmetric matrices with zeros on the diagonal."""
        layers = self.layout.layers + 1
        found = np.zeros((*of_pairs.shape[:-1], layers, layers))
        found[..., self._first, self._second] = found[..., self._second, self._first] = of_pairs
        return found


def cosines_of_layers(states: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the cosine of each token's states at any two layers, NaN where one is zero, (tokens, layers, layers).

    In float64, since consecutive states are often nearly parallel, and the angle of a cosine near 1 magnifies its
    rounding.

    Args:
        states: at each layer, (tokens, width).
    """
    x = torch.stack(list(states), dim=1).double()
    x /= torch.linalg.vector_norm(x, dim=2, keepdim=True)
    return (x @ x.mT).clamp_(-1, 1)


def _last_tokens(batch: HiddenBatch) -> list[NDArray[np.int64]]:
    """Return for each view the row of the last token of each text that has one in it."""
    order = np.lexsort((batch.positions, batch.texts))
    found = []
    for strata in VIEWS.values():
        rows = order[np.isin(batch.strata[order], strata)]
        texts = batch.texts[rows]
        found.append(rows[np.flatnonzero(np.append(texts[1:] != texts[:-1], True)[: len(texts)])])
    return found
