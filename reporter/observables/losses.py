"""The language-model loss of each token, by stratum, with bootstrap replicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from reporter.observables.per_token import PerToken

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import LayerStates
    from reporter.forward.places import Place


class Losses(PerToken):
    """−log p of each token that the model predicts, in nats; tokens that it does not predict are left out.

    It is kept at the embedding's place, the first one, since it belongs to no layer.
    """

    name = "losses"
    quantities = ("loss",)
    reads_head = True

    @property
    def places(self) -> tuple[Place, ...]:
        """One: a loss belongs to the whole model."""
        return self.layout.path[:1]

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return the losses, NaN everywhere for a model without a head, shape (tokens, 1)."""
        losses = layer.batch.losses
        return torch.full_like(layer.norms, torch.nan)[:, None] if losses is None else losses[:, None]
