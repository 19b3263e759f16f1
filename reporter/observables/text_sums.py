"""Sums over tokens of scalar quantities of a token's path through the layers, and their bootstrap replicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from reporter.forward.places import Layout
from reporter.observables.bootstrap import REPLICATES
from reporter.observables.per_token import PerToken

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates

QUANTITIES = (
    "cosine_to_last",
    "violation",
    "norm",
    "step_length",
    "step_cosine",
    "update_ratio",
    "curvature",
    "cosine_to_final",
    "violation_to_final",
    "line_shape",
    "straightness",
)

_TINY = 1e-30  # below any length of a step that is not 0


class TextSums(PerToken):
    """Quantities of a token's path from layer to layer.

    With h_l the state of a token at layer l, the quantities at layer l are

    - ``cosine_to_last``: cos(h_l, h_L)
    - ``violation``: 1 if cos(h_l, h_L) > cos(h_{l+1}, h_L), else 0; l < L
    - ``norm``: ‖h_l‖
    - ``step_length``: ‖h_{l+1} − h_l‖; l < L
    - ``step_cosine``: cos(h_l, h_{l+1}); l < L
    - ``update_ratio``: ‖h_{l+1} − h_l‖ / ‖h_l‖; l < L
    - ``curvature``: angle between h_{l+1} − h_l and h_{l+2} − h_{l+1}, in radians; l < L − 1
    - the two with ``to_final``: the same with the state after the closing norm in place of h_L; undefined where the
      model has none of its own or it has another width
    - ``line_shape``: L over ‖Σ_l s_l/‖s_l‖‖ with s_l = h_{l+1} − h_l, a step of length 0 adding nothing; at l = L
    - ``straightness``: ‖h_L − h_0‖ / Σ_l ‖s_l‖; at l = L

    A token for which a quantity is undefined (a zero vector) is left out of its sum and count.
    """

    name = "text_sums"
    version = 4
    quantities = QUANTITIES

    def __init__(self, layout: Layout, seed: int, replicates: int = REPLICATES) -> None:
        super().__init__(layout, seed, replicates)
        # Carried from a layer to the next one, which needs the same.
        self._step: tuple[torch.Tensor, torch.Tensor] | None = None
        self._turns = self._way = torch.zeros(0)  # Σ of the steps so far: of their directions, of their lengths

    def start(self, batch: HiddenBatch) -> None:
        """Give each (text, stratum) of the batch a row."""
        super().start(batch)
        self._step = None
        self._turns, self._way = torch.zeros_like(batch.states[0]), torch.zeros_like(batch.norms[0])

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return the quantities of every token, NaN where one is undefined, shape (tokens, Q)."""
        states, here = layer.batch.states, layer.index
        x, norm = layer.states, layer.norms
        undefined = torch.full_like(norm, torch.nan)
        cosine, last = layer.batch.cosines(here, self.layout.layers), self.layout.layers
        violation = step_length = step_cosine = update_ratio = curvature = line_shape = straightness = undefined
        if here < last:
            violation = self._violation(layer.batch, here, last)
            step, step_length = self._step or _step(x, states[here + 1])
            step_cosine = layer.batch.cosines(here, here + 1)
            update_ratio = (step_length / norm).where(norm > 0, undefined)
            self._turns.addcdiv_(step, step_length.clamp(min=_TINY)[:, None])
            self._way += step_length
            self._step = None
            if here < last - 1:
                self._step = _step(states[here + 1], states[here + 2])
                curvature = layer.batch.cosine_of(step, self._step[0], step_length, self._step[1]).arccos()
        elif last:
            # Of a straight line both are 1 up to rounding.
            line_shape = (last / self._turns.norm(dim=1)).clamp(min=1)
            straightness = ((x - states[0]).norm(dim=1) / self._way).clamp(max=1)
        to_final = [undefined, undefined]
        if self.layout.final_width == self.layout.width:
            final = last + 1  # right after the path
            to_final[0] = layer.batch.cosines(here, final)
            to_final[1] = self._violation(layer.batch, here, final) if here < last else undefined
        cosines = [cosine, violation, norm, step_length, step_cosine, update_ratio, curvature]
        return torch.stack([*cosines, *to_final, line_shape, straightness], dim=1)

    def _violation(self, batch: HiddenBatch, here: int, target: int) -> torch.Tensor:
        """Return 1 where a token is nearer to the target than it will be after the next block, 0 elsewhere."""
        cosine, following = batch.cosines(here, target), batch.cosines(here + 1, target)
        return (cosine > following).float().masked_fill(~(cosine.isfinite() & following.isfinite()), torch.nan)


def _step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y − x and its norms."""
    step = y - x
    return step, step.norm(dim=1)
