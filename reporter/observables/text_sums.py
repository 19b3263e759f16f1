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
)


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

    A token for which a quantity is undefined (a zero vector) is left out of its sum and count.
    """

    name = "text_sums"
    version = 3
    quantities = QUANTITIES

    def __init__(self, layout: Layout, seed: int, replicates: int = REPLICATES) -> None:
        super().__init__(layout, seed, replicates)
        # Carried from a layer to the next one, which needs the same.
        self._step: tuple[torch.Tensor, torch.Tensor] | None = None
        self._cosine: torch.Tensor | None = None
        self._cosine_to_final: torch.Tensor | None = None

    def start(self, batch: HiddenBatch) -> None:
        """Give each (text, stratum) of the batch a row."""
        super().start(batch)
        self._step = self._cosine = self._cosine_to_final = None

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return the quantities of every token, NaN where one is undefined, shape (tokens, Q)."""
        states, here = layer.batch.states, layer.index
        x, norm = layer.states, layer.norms
        undefined = torch.full_like(norm, torch.nan)
        norms = layer.batch.norms
        cosine = self._cosine if self._cosine is not None else self._cosine_to_last(layer.batch, here)
        violation = step_length = step_cosine = update_ratio = curvature = undefined
        if here < self.layout.layers:
            following = self._cosine_to_last(layer.batch, here + 1)
            violation = (cosine > following).float().where(cosine.isfinite() & following.isfinite(), undefined)
            step, step_length = self._step or _step(x, states[here + 1])
            step_cosine = cosine_of(x, states[here + 1], norm, norms[here + 1])
            update_ratio = (step_length / norm).where(norm > 0, undefined)
            self._cosine, self._step = following, None
            if here < self.layout.layers - 1:
                self._step = _step(states[here + 1], states[here + 2])
                curvature = cosine_of(step, self._step[0], step_length, self._step[1]).arccos()
        cosines = [cosine, violation, norm, step_length, step_cosine, update_ratio, curvature]
        return torch.stack([*cosines, *self._quantities_to_final(layer.batch, here, undefined)], dim=1)

    def _quantities_to_final(self, batch: HiddenBatch, here: int, undefined: torch.Tensor) -> list[torch.Tensor]:
        if self.layout.final_width != self.layout.width:
            return [undefined] * 2
        final = self.layout.layers + 1  # right after the path
        if self._cosine_to_final is None:
            self._cosine_to_final = cosine_of(
                batch.states[here], batch.states[final], batch.norms[here], batch.norms[final]
            )
        cosine, violation = self._cosine_to_final, undefined
        if here < self.layout.layers:
            following = cosine_of(
                batch.states[here + 1], batch.states[final], batch.norms[here + 1], batch.norms[final]
            )
            violation = (cosine > following).float().where(cosine.isfinite() & following.isfinite(), undefined)
            self._cosine_to_final = following
        return [cosine, violation]

    def _cosine_to_last(self, batch: HiddenBatch, layer: int) -> torch.Tensor:
        last = self.layout.layers
        if layer == last:  # 1 by definition, not up to rounding
            return batch.norms[last] / batch.norms[last]
        return cosine_of(batch.states[layer], batch.states[last], batch.norms[layer], batch.norms[last])


def _step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y − x and its norms."""
    step = y - x
    return step, step.norm(dim=1)


def cosine_of(x: torch.Tensor, y: torch.Tensor, x_norm: torch.Tensor, y_norm: torch.Tensor) -> torch.Tensor:
    """Return cos(x_i, y_i) for each row, given their norms; NaN where one of them is zero."""
    return ((x * y).sum(dim=1) / (x_norm * y_norm)).clamp(-1, 1)
