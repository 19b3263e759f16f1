"""The logit lens: what the language-model head reads in a sample of token states at each layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from reporter.forward.places import Layout
from reporter.observables.bootstrap import REPLICATES
from reporter.observables.per_token import SampledTokens

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates


class Lens(SampledTokens):
    """Entropy of the distribution p_l that the head reads at layer l, and its distance from the last layer's p_L.

    - ``entropy``: −Σ p_l log p_l, in nats
    - ``kl``: KL(p_L ‖ p_l) = Σ p_L (log p_L − log p_l), in nats

    States of the residual stream pass through the closing norm first, where the model has one. Only tokens are read
    whose hash of seed, text and position falls below ``share`` of all hashes: the same ones at every layer and in every
    model.

    Args:
        layout: the places that are read.
        seed: the study's seed.
        share: share of the tokens that are read.
        replicates: of the bootstrap.
    """

    name = "lens"
    quantities = ("entropy", "kl")
    reads_head = True

    def __init__(self, layout: Layout, seed: int, share: float, replicates: int = REPLICATES) -> None:
        super().__init__(layout, seed, share, replicates)
        self._rows = torch.zeros(0, dtype=torch.int64)
        self._last: list[torch.Tensor] = []

    def start(self, batch: HiddenBatch) -> None:
        """Choose the tokens, and read the last layer."""
        super().start(batch)
        self._rows = torch.as_tensor(np.flatnonzero(self.drawn(batch)), device=batch.device)
        self._last = []
        if batch.readout is not None and not batch.readout.lens_problem and len(self._rows):
            path = self.layout.layers
            final = self.layout.final_width is not None
            states = batch.states[path + 1 if final else path][self._rows]
            self._last = list(batch.readout.log_probabilities(states, closed=final))

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return entropy and divergence of the chosen tokens, NaN for all others, shape (tokens, 2)."""
        found = torch.full((len(layer.norms), 2), torch.nan, dtype=torch.float64, device=layer.norms.device)
        readout = layer.batch.readout
        if readout is None or not self._last:
            return found
        if layer.index == self.layout.layers:
            read = iter(self._last)
        else:
            read = readout.log_probabilities(layer.states[self._rows], closed=False)
        parts = []
        for here, last in zip(read, self._last, strict=True):
            entropy = -(here.exp() * here).nan_to_num(nan=0.0).sum(dim=1)
            p = last.exp()
            # Where p is 0 the term is 0; elsewhere a token that the layer rules out makes the divergence infinite.
            divergence = (p * (last - here)).where(p > 0, 0.0).sum(dim=1)
            parts.append(torch.stack([entropy, divergence.clamp_min(0.0)], dim=1).double())
        found[self._rows] = torch.cat(parts)
        return found
