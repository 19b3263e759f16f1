"""Sums over tokens of scalar quantities of a token's path through the layers, and their bootstrap replicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from reporter.forward.places import Layout
from reporter.forward.strata import STRATA
from reporter.observables.bootstrap import REPLICATES, poisson_weights
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.setting import Setting

QUANTITIES = (
    "cosine_to_last",
    "violation",
    "norm",
    "step_length",
    "step_cosine",
    "update_ratio",
    "curvature",
    "cosine_frequent",
    "cosine_rare",
    "cosine_to_final",
    "violation_to_final",
    "cosine_to_final_frequent",
    "cosine_to_final_rare",
)


class TextSums(Observable):
    """Sum and count of each quantity, at each layer and stratum, over all texts and under each bootstrap replicate.

    With h_l the state of a token at layer l, the quantities at layer l are

    - ``cosine_to_last``: cos(h_l, h_L)
    - ``violation``: 1 if cos(h_l, h_L) > cos(h_{l+1}, h_L), else 0; l < L
    - ``norm``: ‖h_l‖
    - ``step_length``: ‖h_{l+1} − h_l‖; l < L
    - ``step_cosine``: cos(h_l, h_{l+1}); l < L
    - ``update_ratio``: ‖h_{l+1} − h_l‖ / ‖h_l‖; l < L
    - ``curvature``: angle between h_{l+1} − h_l and h_{l+2} − h_{l+1}, in radians; l < L − 1
    - ``cosine_frequent``, ``cosine_rare``: ``cosine_to_last`` of tokens of frequent types, and of all others
    - the four with ``to_final``: the same with the state after the closing norm in place of h_L; undefined where the
      model has none of its own or it has another width

    A token for which a quantity is undefined (a zero vector) is left out of its sum and count. Shapes: ``sums`` and
    ``counts`` (L + 1, S, Q); ``replicate_sums`` and ``replicate_counts`` (R, L + 1, S, Q).

    Args:
        layout: the places that are read; the quantities are those of the path.
        seed: the study's seed, for the bootstrap weights.
        replicates: R.
    """

    name = "text_sums"
    version = 2

    def __init__(self, layout: Layout, seed: int, replicates: int = REPLICATES) -> None:
        self.layout, self.layers, self.seed, self.replicates = layout, layout.layers, seed, replicates
        shape = (len(layout.path), len(STRATA), len(QUANTITIES))
        self.sums = torch.zeros(shape, dtype=torch.float64)
        self.counts = torch.zeros(shape, dtype=torch.float64)
        self.replicate_sums = torch.zeros(replicates, *shape, dtype=torch.float64)
        self.replicate_counts = torch.zeros(replicates, *shape, dtype=torch.float64)
        self._of_texts: list[torch.Tensor] = []
        self._row_of_text = torch.zeros(0, dtype=torch.int64)
        self._texts = np.zeros(0, dtype=np.int64)
        # Carried from a layer to the next one, which needs the same.
        self._step: tuple[torch.Tensor, torch.Tensor] | None = None
        self._cosine: torch.Tensor | None = None
        self._cosine_to_final: torch.Tensor | None = None
        self._frequent = torch.zeros(0, dtype=torch.bool)

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout, setting.seed)

    def start(self, batch: HiddenBatch) -> None:
        """Give each (text, stratum) of the batch a row."""
        self._texts, text = np.unique(batch.texts, return_inverse=True)
        row = text * len(STRATA) + batch.strata
        self._row_of_text = torch.as_tensor(row, device=batch.states[0].device)
        self._of_texts = []
        self._step = self._cosine = self._cosine_to_final = None
        self._frequent = torch.as_tensor(batch.frequent, device=batch.states[0].device)

    def observe(self, layer: LayerStates) -> None:
        """Sum the quantities of one layer by text."""
        if layer.index > self.layers:  # off the path
            return
        values = self._quantities(layer)
        defined = values.isfinite()
        both = torch.cat([values.nan_to_num(nan=0.0, posinf=0.0), defined], dim=1).double()
        sums = torch.zeros(
            len(self._texts) * len(STRATA), both.shape[1], dtype=torch.float64, device=both.device
        ).index_add_(0, self._row_of_text, both)
        self._of_texts.append(sums.view(len(self._texts), len(STRATA), 2, len(QUANTITIES)).cpu())

    def _quantities(self, layer: LayerStates) -> torch.Tensor:
        """Return the quantities of every token, NaN where one is undefined, shape (tokens, Q)."""
        states, here = layer.batch.states, layer.index
        x, norm = layer.states, layer.norms
        undefined = torch.full_like(norm, torch.nan)
        norms = layer.batch.norms
        cosine = self._cosine if self._cosine is not None else self._cosine_to_last(layer.batch, here)
        violation = step_length = step_cosine = update_ratio = curvature = undefined
        if here < self.layers:
            following = self._cosine_to_last(layer.batch, here + 1)
            violation = (cosine > following).float().where(cosine.isfinite() & following.isfinite(), undefined)
            step, step_length = self._step or _step(x, states[here + 1])
            step_cosine = _cosine(x, states[here + 1], norm, norms[here + 1])
            update_ratio = (step_length / norm).where(norm > 0, undefined)
            self._cosine, self._step = following, None
            if here < self.layers - 1:
                self._step = _step(states[here + 1], states[here + 2])
                curvature = _cosine(step, self._step[0], step_length, self._step[1]).arccos()
        cosines = [cosine, violation, norm, step_length, step_cosine, update_ratio, curvature]
        cosines += [cosine.where(self._frequent, undefined), cosine.where(~self._frequent, undefined)]
        return torch.stack([*cosines, *self._quantities_to_final(layer.batch, here, undefined)], dim=1)

    def _quantities_to_final(self, batch: HiddenBatch, here: int, undefined: torch.Tensor) -> list[torch.Tensor]:
        if self.layout.final_width != self.layout.width:
            return [undefined] * 4
        final = self.layers + 1  # right after the path
        if self._cosine_to_final is None:
            self._cosine_to_final = _cosine(
                batch.states[here], batch.states[final], batch.norms[here], batch.norms[final]
            )
        cosine, violation = self._cosine_to_final, undefined
        if here < self.layers:
            following = _cosine(batch.states[here + 1], batch.states[final], batch.norms[here + 1], batch.norms[final])
            violation = (cosine > following).float().where(cosine.isfinite() & following.isfinite(), undefined)
            self._cosine_to_final = following
        frequent = self._frequent
        return [cosine, violation, cosine.where(frequent, undefined), cosine.where(~frequent, undefined)]

    def _cosine_to_last(self, batch: HiddenBatch, layer: int) -> torch.Tensor:
        last = self.layers
        if layer == last:  # 1 by definition, not up to rounding
            return batch.norms[last] / batch.norms[last]
        return _cosine(batch.states[layer], batch.states[last], batch.norms[layer], batch.norms[last])

    def finish(self, batch: HiddenBatch) -> None:
        """Add the batch to the sums and, weighted, to the replicates."""
        of_texts = torch.stack(self._of_texts, dim=1)  # (texts, layers + 1, strata, 2, quantities)
        total = of_texts.sum(dim=0)
        self.sums += total[:, :, 0]
        self.counts += total[:, :, 1]
        weights = torch.from_numpy(poisson_weights(self._texts, self.seed, self.replicates)).double()
        used = [s for s, size in enumerate(batch.sizes) if size]
        seen = of_texts[:, :, used]
        weighted = (weights.T @ seen.flatten(1)).view(self.replicates, *seen.shape[1:])
        self.replicate_sums[:, :, used] += weighted[:, :, :, 0]
        self.replicate_counts[:, :, used] += weighted[:, :, :, 1]
        self._of_texts = []

    def merge(self, other: TextSums) -> None:
        """Add the sums of other texts."""
        for name, tensor in other.tensors().items():
            getattr(self, name).add_(tensor)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the four arrays named in the class."""
        names = ("sums", "counts", "replicate_sums", "replicate_counts")
        return {name: getattr(self, name) for name in names}

    def parameters(self) -> dict[str, Any]:
        """Return layout, seed and replicates."""
        return {"layout": self.layout.as_json(), "seed": self.seed, "replicates": self.replicates}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        for name, tensor in tensors.items():
            setattr(self, name, tensor)


def _step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y − x and its norms."""
    step = y - x
    return step, step.norm(dim=1)


def _cosine(x: torch.Tensor, y: torch.Tensor, x_norm: torch.Tensor, y_norm: torch.Tensor) -> torch.Tensor:
    """Return cos(x_i, y_i) for each row, given their norms; NaN where one of them is zero."""
    return ((x * y).sum(dim=1) / (x_norm * y_norm)).clamp(-1, 1)
