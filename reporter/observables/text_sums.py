"""Sums over tokens of scalar quantities of a token's path through the layers, and their bootstrap replicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reporter.forward.strata import STRATA
from reporter.observables.bootstrap import REPLICATES, poisson_weights
from reporter.observables.observable import Observable

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

    A token for which a quantity is undefined (a zero vector) is left out of its sum and count. Shapes: ``sums`` and
    ``counts`` (L + 1, S, Q); ``replicate_sums`` and ``replicate_counts`` (R, L + 1, S, Q).

    Args:
        layers: blocks L.
        seed: the study's seed, for the bootstrap weights.
        replicates: R.
    """

    name = "text_sums"

    def __init__(self, layers: int, seed: int, replicates: int = REPLICATES) -> None:
        self.layers, self.seed, self.replicates = layers, seed, replicates
        shape = (layers + 1, len(STRATA), len(QUANTITIES))
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

    def start(self, batch: HiddenBatch) -> None:
        """Give each (text, stratum) of the batch a row."""
        self._texts, text = np.unique(batch.texts, return_inverse=True)
        row = text * len(STRATA) + batch.strata
        self._row_of_text = torch.as_tensor(row, device=batch.states[0].device)
        self._of_texts = []
        self._step = self._cosine = None

    def observe(self, layer: LayerStates) -> None:
        """Sum the quantities of one layer by text."""
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
        return torch.stack([cosine, violation, norm, step_length, step_cosine, update_ratio, curvature], dim=1)

    def _cosine_to_last(self, batch: HiddenBatch, layer: int) -> torch.Tensor:
        if layer == self.layers:  # 1 by definition, not up to rounding
            return batch.norms[-1] / batch.norms[-1]
        return _cosine(batch.states[layer], batch.states[-1], batch.norms[layer], batch.norms[-1])

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
        """Return blocks, seed and replicates."""
        return {"layers": self.layers, "seed": self.seed, "replicates": self.replicates}

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
