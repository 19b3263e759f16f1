"""Numbers of a sample of tokens: what is too dear for every token of a corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from reporter.forward.contexts import key_of
from reporter.forward.places import Layout
from reporter.observables.bootstrap import REPLICATES
from reporter.observables.per_token import PerToken

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch
    from reporter.observables.setting import Setting


class SampledTokens(PerToken):
    """Reads the tokens whose hash of seed, text and position falls below ``share`` of all hashes.

    They are the same ones at every layer and in every model that splits texts alike.

    Args:
        layout: the places that are read.
        seed: the study's seed.
        share: share of the tokens that are read.
        replicates: of the bootstrap.
    """

    bounded = "exactly"

    def __init__(self, layout: Layout, seed: int, share: float, replicates: int = REPLICATES) -> None:
        super().__init__(layout, seed, replicates)
        self.share = share

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing and reads about ``size`` tokens of the corpus."""
        return cls(setting.layout, setting.seed, min(1.0, setting.size / max(setting.tokens_in_all, 1)))

    def drawn(self, batch: HiddenBatch) -> NDArray[np.bool_]:
        """Return whether each token of a batch is read, (tokens,)."""
        keys = key_of(self.seed, batch.texts, batch.positions)
        return keys < np.uint64(min(self.share * 2.0**64, 2.0**64 - 2048)) if self.share < 1 else keys == keys

    def parameters(self) -> dict[str, Any]:
        """Return layout, seed, share and replicates."""
        return {**super().parameters(), "share": self.share}
