"""Mean-pooled vectors of a bounded sample of texts, chosen so that any two models keep the same texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.contexts import Keys, key_of
from reporter.observables.token_sample import COUNT, TEXT, TokenSample, _Kept

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.forward.places import Place
    from reporter.observables.observable import Setting

_Part = tuple[_Kept, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class Pooled(TokenSample):
    """Mean state of each text's tokens, at each place and stratum, for ``size`` texts of each stratum.

    What a :class:`TokenSample` does with tokens, this one does with texts: a text's key is a hash of the seed and its
    place in the corpus and of nothing else, so two models on one corpus keep the same texts. Of each stratum the texts
    with the smallest keys among those that have a token there are kept; so the texts with the smallest keys in any
    union of strata are there with all their tokens. A text that repeats an earlier one of the corpus is left out:
    the two are one observation, and would be each other's nearest neighbours. ``facts`` counts a text's tokens in the
    stratum.

    A text must come whole, in one batch, as it does in a pass. Memory: 4·size·d bytes for each place and stratum, half
    of that once the pass is finished.
    """

    name = "pooled"
    in_windows = "first"
    bounded = "at least"
    version = 3  # of its own, not of the sample that it is built on

    @classmethod
    def drawn(cls, setting: Setting, tokens: Sequence[int]) -> list[int]:
        """Return how many texts of each stratum views draw, about: a text has tokens in several."""
        return [min(setting.texts, setting.size, rows) for rows in tokens]

    def keys(self, batch: HiddenBatch) -> Keys:
        """Return the key of each token's text, shape (tokens,)."""
        return key_of(self.seed, batch.texts)

    def start(self, batch: HiddenBatch) -> None:
        """Choose the texts of a batch that enter the sample."""
        self.follow(batch.device)
        keys = self.keys(batch)
        own = batch.texts == batch.originals
        self._parts: list[_Part] = []
        for kept, rows in zip(self._kept, batch.rows, strict=True):
            tokens = np.flatnonzero(own[rows]) + rows.start
            distinct, first, which, count = np.unique(
                keys[tokens], return_index=True, return_inverse=True, return_counts=True
            )
            facts = np.zeros((len(distinct), 5), dtype=np.int64)
            facts[:, COUNT], facts[:, TEXT] = count, batch.texts[tokens][first]
            chosen, slots = kept.admit(distinct, facts, self.size)
            if not len(chosen):
                continue
            segment = np.full(len(distinct), -1)
            segment[chosen] = np.arange(len(chosen))
            of_token = segment[which]
            taken = of_token >= 0
            self._parts.append(
                (
                    kept,
                    torch.from_numpy(tokens[taken]).to(batch.device),
                    torch.from_numpy(of_token[taken]).to(batch.device),
                    torch.from_numpy(count[chosen]).to(batch.device),
                    torch.from_numpy(slots).to(batch.device),
                )
            )

    def observe(self, layer: LayerStates) -> None:
        """Add up the chosen texts' states, in float64."""
        for kept, tokens, segment, count, slots in self._parts:
            states = layer.states.index_select(0, tokens).double()
            sums = states.new_zeros(len(count), states.shape[1]).index_add_(0, segment, states)
            kept.states[layer.index].index_copy_(0, slots, (sums / count[:, None]).float())

    def texts(self, strata: tuple[int, ...], size: int, device: str = "cpu") -> PooledTexts:
        """Return the ``size`` texts with the smallest keys among those that have a token in some of the strata.

        Args:
            strata: which tokens are pooled.
            size: texts.
            device: where their vectors are read.
        """
        held = [self._kept[stratum] for stratum in strata]
        keys, first = np.unique(np.concatenate([kept.keys for kept in held]), return_index=True)
        keys, first = keys[:size], first[:size]
        texts = np.concatenate([kept.facts[:, TEXT] for kept in held])[first]
        counts = np.zeros((len(strata), len(keys)), dtype=np.int64)
        slots = np.zeros_like(counts)
        for at, kept in enumerate(held):
            _, here, there = np.intersect1d(keys, kept.keys, assume_unique=True, return_indices=True)
            counts[at, here], slots[at, here] = kept.facts[there, COUNT], kept.slots[there]
        return PooledTexts(self, strata, texts, counts, slots, device)


@dataclass(frozen=True, eq=False)
class PooledTexts:
    """Some texts of the sample under a view, in the random order of their keys.

    Args:
        sample: the sample.
        strata: which tokens are pooled.
        texts: place of each text in its corpus, shape (n,).
        counts: tokens of each text in each stratum, shape (strata, n).
        slots: where the mean over those tokens lies, shape (strata, n); no meaning where there is no token.
        device: where vectors are read.
    """

    sample: Pooled
    strata: tuple[int, ...]
    texts: NDArray[np.int64]
    counts: NDArray[np.int64]
    slots: NDArray[np.int64]
    device: str = "cpu"

    def __len__(self) -> int:
        return len(self.texts)

    def shared(self, other: PooledTexts) -> tuple[PooledTexts, PooledTexts]:
        """Return both with only the texts that both have, in the same order."""
        _, mine, theirs = np.intersect1d(self.texts, other.texts, assume_unique=True, return_indices=True)
        order = np.argsort(mine)
        return self.take(mine[order]), other.take(theirs[order])

    def take(self, rows: NDArray[np.int64]) -> PooledTexts:
        """Return some of the texts, in the order of ``rows``."""
        return replace(self, texts=self.texts[rows], counts=self.counts[:, rows], slots=self.slots[:, rows])

    def vectors(self, place: Place) -> torch.Tensor:
        """Return the mean state of each text's tokens at a place, float64 on the device, shape (n, width)."""
        at = self.sample.layout.index[place]
        x = torch.zeros(len(self), self.sample.layout.widths[at], dtype=torch.float64, device=self.device)
        for stratum, counts, slots in zip(self.strata, self.counts, self.slots, strict=True):
            rows = np.flatnonzero(counts)
            if len(rows):
                states = self.sample._kept[stratum].read(at, slots[rows], self.device).double()
                share = torch.from_numpy(counts[rows] / self.counts[:, rows].sum(axis=0)).to(self.device)
                x.index_add_(0, torch.from_numpy(rows).to(self.device), states * share[:, None])
        return x
