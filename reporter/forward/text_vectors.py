"""One vector a text, gathered while a pass reads the texts, so that analyses need not read them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reporter.core.places import Pooling
from reporter.forward.batch import HiddenBatch
from reporter.forward.inputs import Pass
from reporter.forward.observable import Observable
from reporter.forward.token_categories import SPECIAL
from reporter.geometry.arrays import Bools, Ints

MOST_GATHERED = 2000
"""Texts; of more, analyses read a sample, and to gather all would take longer."""
MOST_BYTES = 2**28
"""Of vectors; analyses read the texts beyond it themselves."""
OfText = Mapping[Pooling, Sequence[NDArray[Any]]]
"""By pooling the vector of a text at each place, in float64."""


def rows_pooled(special: Bools, pooling: Pooling) -> Ints:
    """Return the positions whose states are averaged.

    ``first``: position 0, whatever stands there ([CLS] where there is one). ``mean``: all tokens of the text itself,
    sinks included (``text tokens``). ``last``: the last token of the text itself. A text without tokens of its own
    falls back on all of its tokens.

    Args:
        special: whether the tokenizer added a token, (tokens,).
        pooling: how states are averaged.
    """
    if pooling == "first":
        return np.array([0])
    text_tokens = np.flatnonzero(~special)
    if not len(text_tokens):
        text_tokens = np.arange(len(special))
    return text_tokens if pooling == "mean" else text_tokens[-1:]


class TextVectors(Observable):
    """Gathers the vectors of the texts that a pass in float32 reads: an observable that is not kept."""

    def __init__(self, of: Pass, poolings: Sequence[Pooling]) -> None:
        self.of, self._poolings = of, poolings
        self.by_text: dict[str, OfText] = {}
        self._bytes = 0

    def watches(self, of: Pass) -> bool:
        """Return whether a pass reads the same texts in the same way; ``auto`` may have come to a precision by then."""
        return replace(of, precision=self.of.precision).inputs == self.of.inputs

    def finish(self, batch: HiddenBatch) -> None:
        """Pool the states of each text at all places, while there is room for them."""
        if self._bytes >= MOST_BYTES:
            return
        order, special = np.lexsort((batch.positions, batch.texts)), batch.strata == SPECIAL
        numbers, starts = np.unique(batch.texts[order], return_index=True)
        for number, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            pooled = {pooling: rows[rows_pooled(special[rows], pooling)] for pooling in self._poolings}
            self.by_text[self.of.texts[number]] = {
                pooling: [x[chosen].double().mean(dim=0).cpu().numpy() for x in batch.states]
                for pooling, chosen in pooled.items()
            }
        self._bytes += len(numbers) * len(self._poolings) * sum(8 * x.shape[1] for x in batch.states)
