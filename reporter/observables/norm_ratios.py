"""How much longer sinks, and the token at position 0, are than the other tokens of their text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.effort import Effort, Scale
from reporter.observables.per_token import PerToken

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates


class NormRatios(PerToken):
    """Norms over the median norm of the text's other tokens, those that are no sinks and not at position 0.

    - ``sink``: of a sink
    - ``first``: of the token at position 0, sink or not

    Undefined for all other tokens, in a text without others, and where their median is 0. Of an even number the median
    is the mean of the middle two; tokens that the tokenizer added are among them.
    """

    name = "norm_ratios"
    quantities = ("sink", "first")
    _ratios: torch.Tensor  # of the batch at hand, (places, tokens, 2)

    @classmethod
    def effort(cls, scale: Scale, size: int) -> Effort:
        """Return next to nothing: it reads norms, no states."""
        return scale.reading(0.0)

    def start(self, batch: HiddenBatch) -> None:
        """Take the ratios, which follow from norms that are known on the host."""
        super().start(batch)
        norms = batch.known_norms[: len(self.places)]
        apart = np.stack([batch.sinks.sink, batch.positions == 0], axis=1)
        others = np.flatnonzero(~apart.any(axis=1))
        ratios = norms / _medians(norms, batch.by_text[2], others)
        self._ratios = torch.as_tensor(np.where(apart, ratios[:, :, None], np.float32(np.nan)), device=batch.device)

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return both ratios of every token, shape (tokens, 2)."""
        return self._ratios[layer.index]


def _medians(norms: NDArray[np.float32], text: NDArray[np.int64], inside: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return for each token the median norm of some tokens of its text; NaN where there are none or it is 0.

    Args:
        norms: shape (places, tokens).
        text: which one each token is of, from 0, shape (tokens,).
        inside: of which tokens the medians are.
    """
    count = np.bincount(text[inside], minlength=int(text.max(initial=-1)) + 1)
    start = np.cumsum(count) - count
    found = np.full((len(norms), len(count)), np.nan, dtype=np.float32)
    any_ = count > 0
    low, high = (start + (count - 1) // 2)[any_], (start + count // 2)[any_]
    of_text, values = text[inside], norms[:, inside]
    for place, row in enumerate(values):
        ordered = row[np.lexsort((row, of_text))]
        found[place, any_] = (ordered[low] + ordered[high]) / 2
    found[found == 0] = np.nan
    return found[:, text]
