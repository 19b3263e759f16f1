"""The last states of a sample of tokens, from which heads make the distributions of two models over the same tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from reporter.forward.batch import HiddenBatch, Keys, LayerStates, key_of
from reporter.forward.observable import Setting
from reporter.forward.readout import next_tokens
from reporter.forward.token_sample import TokenSample
from reporter.geometry.arrays import Ints
from reporter.models.places import Layout, Place

LAST = Place("embedding", 0)
"""The only place of the sample."""
NEXT = 5
"""Column of ``facts``: the token that follows, −1 where a decoder predicts none, and in encoders."""


class Outputs(TokenSample):
    """The states that the head reads of a uniform sample of tokens, after the final norm, and the next tokens.

    They are kept in float32. In bf16 they would add 3e-5 nats to the divergence of SmolLM2 from itself, half of what
    rounding all weights to bf16 does; in the 16 bits of other samples 3e-7 nats.
    """

    name = "outputs"
    version = 1
    columns = 6
    reads_head = True
    rounded = False

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing and has the place ``LAST`` alone."""
        layout = setting.layout
        return cls(Layout(0, layout.final_width or layout.width), setting.size, setting.seed)

    def keys(self, batch: HiddenBatch) -> Keys:
        """Return a hash of each token's place in the corpus, the same as in ``Tokens``."""
        return key_of(self.seed, batch.texts, batch.positions)

    def facts(self, batch: HiddenBatch) -> list[Ints]:
        """Add the next token."""
        predicts = batch.readout is not None and batch.readout.predicts_next
        return [*super().facts(batch), next_tokens(batch) if predicts else np.full(len(batch), -1)]

    def start(self, batch: HiddenBatch) -> None:
        """Choose tokens, unless no head can read them."""
        self._rows = []
        if batch.readout is not None and not batch.readout.lens_problem:
            super().start(batch)

    def observe(self, layer: LayerStates) -> None:
        """Copy the chosen tokens' last states."""
        layout, readout = layer.batch.layout, layer.batch.readout
        final = layout.final_width is not None
        if readout is None or layer.index != layout.layers + final:
            return
        for kept, rows, slots in self._rows:
            states = layer.states.index_select(0, rows)
            kept.states.write(0, slots, states if final else readout.model.close(states))

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk."""
        width = setting.layout.final_width or setting.layout.width
        return (4 * width + 8 * (1 + cls.columns)) * sum(cls.drawn(setting, tokens))
