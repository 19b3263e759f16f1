"""What attention, feed-forward and whole blocks add to a token's state, beside the state that they add it to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from reporter.effort import Effort, Scale
from reporter.observables.per_token import PerToken

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import LayerStates
    from reporter.forward.places import Place

READINGS = 6.0  # of states for each place: lengths and products of two sublayers and of the block


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
    quantities = (
        "attention_ratio",
        "attention_cosine",
        "feed_forward_ratio",
        "feed_forward_cosine",
        "block_cosine",
    )
    reads_inside = True

    @classmethod
    def effort(cls, scale: Scale, size: int) -> Effort:
        """Return a few passes through what each sublayer adds."""
        return scale.reading(READINGS)

    @property
    def places(self) -> tuple[Place, ...]:
        """What enters each block."""
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
