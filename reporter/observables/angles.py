"""The angle between each token's states at any two layers, and that of the last token of each text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from reporter.effort import Effort, Scale
from reporter.forward.halves import GROUPS, HALVES, groups_of
from reporter.forward.places import Layout
from reporter.forward.strata import STRATA, VIEWS
from reporter.geometry.arrays import Floats
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting

WHICH = ("tokens", "last_token")
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
    Products are in float64, since consecutive states are often nearly parallel, and the angle of a cosine near 1
    magnifies its rounding.

    Args:
        layout: the places that are read; only the path counts.
        seed: the study's seed, for the groups.
    """

    name = "layer_angles"
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
        groups = groups_of(batch.originals, self.seed)
        row = torch.as_tensor(groups * len(STRATA) + batch.strata, device=batch.device)
        last_row, last = self._last(batch, groups)
        states = batch.states[: self.layout.layers + 1]
        first, second = (torch.as_tensor(at, device=batch.device) for at in (self._first, self._second))
        of_last = self.sums.new_empty(len(batch), 0)
        found = []
        step = max(1, _AT_ONCE // (len(states) * states[0].shape[1]))
        for start in range(0, len(batch), step):
            part = slice(start, start + step)
            x = torch.stack([of_layer[part] for of_layer in states], dim=1).double()  # (tokens, layers, width)
            x /= torch.linalg.vector_norm(x, dim=2, keepdim=True)
            cosine = (x @ x.mT).flatten(1).index_select(1, first * len(states) + second)
            found.append(cosine.clamp_(-1, 1).arccos_().div_(torch.pi))
        angle = torch.cat(found)
        defined = angle.isfinite()
        both = torch.stack([angle.where(defined, 0.0), defined.double()])
        of_tokens = torch.stack([self.sums, self.counts])
        of_tokens.flatten(1, 2).index_add_(1, row, both)
        self.sums, self.counts = of_tokens
        of_last = torch.stack([self.last_sums, self.last_counts])
        of_last.flatten(1, 2).index_add_(1, last_row, both[:, last])
        self.last_sums, self.last_counts = of_last
