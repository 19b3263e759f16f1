"""Words against the vocabulary: how many other tokens' vectors are nearer to a word's state than its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.places import Layout, Place
from reporter.forward.readout import CONTENT, FUNCTION
from reporter.geometry.neighbours import compare
from reporter.geometry.rows import Rows
from reporter.observables.bootstrap import REPLICATES
from reporter.observables.per_token import SampledTokens

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates


class Journey(SampledTokens):
    """Rank by cosine, and cosine, of a word's state and its row of the input embedding, at every place that is read.

    - ``rank_function``, ``cosine_function``: of function words
    - ``rank_content``, ``cosine_content``: of content words
    - ``other_width``: dimensions of the input embedding where they are not those of the states, of all words

    Only tokens are read whose hash of seed, text and position falls below ``share`` of all hashes, and of those the
    whole words.

    Args:
        layout: the places that are read.
        seed: the study's seed.
        share: share of the tokens that are read.
        replicates: of the bootstrap.
    """

    name = "journey"
    quantities = ("rank_function", "rank_content", "cosine_function", "cosine_content", "other_width")
    reads_vocabulary = True

    def __init__(self, layout: Layout, seed: int, share: float, replicates: int = REPLICATES) -> None:
        super().__init__(layout, seed, share, replicates)
        self._kinds: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._rows: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    @property
    def places(self) -> tuple[Place, ...]:
        """All places that are read."""
        return self.layout.places

    def start(self, batch: HiddenBatch) -> None:
        """Choose the tokens."""
        super().start(batch)
        self._rows = np.zeros(0, dtype=np.int64)
        if batch.vocabulary is None:
            return
        kinds = batch.vocabulary.kinds_in(batch.token_ids, batch.texts, batch.positions)
        self._rows = np.flatnonzero(self.drawn(batch) & ((kinds == FUNCTION) | (kinds == CONTENT)))
        self._kinds = kinds[self._rows]

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return rank and cosine of the chosen words, NaN for all other tokens, shape (tokens, 5)."""
        found = np.full((len(layer.norms), len(self.quantities)), np.nan)
        vocabulary, rows = layer.batch.vocabulary, self._rows
        if vocabulary is not None and len(rows):
            if vocabulary.table.shape[1] == layer.states.shape[1]:
                states = layer.states[torch.from_numpy(rows).to(layer.states.device)]
                own = layer.batch.token_ids[rows]
                closeness = compare(states, own, Rows(vocabulary.table), ("cosine",))
                rank = closeness.ranks["cosine"]
                for kind, column in ((FUNCTION, 0), (CONTENT, 1)):
                    chosen = self._kinds == kind
                    found[rows[chosen], column] = np.where(rank < 0, np.nan, rank)[chosen]
                    found[rows[chosen], column + 2] = closeness.cosine[chosen]
            else:
                found[rows, 4] = vocabulary.table.shape[1]
        return torch.from_numpy(found).to(self._row_of_text.device)
