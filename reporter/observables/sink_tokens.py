"""Which tokens are sinks: how often, where in a text, from which block to which, and on which coordinate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.places import Layout
from reporter.forward.strata import SPECIAL
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting

Ints = NDArray[np.int64]
_MOST, _LEAST = np.iinfo(np.int64).max, -1


@dataclass(frozen=True)
class SinkType:
    """The sinks of one token type that stand at position 0, or that stand further on.

    Args:
        token_id: the type.
        token: as it reads.
        own: whether they are a text's own tokens; else the tokenizer added them, or they are special strings.
        positions: the first and the last position at which one stands.
        texts: texts that have such a sink.
        count: such sinks.
        layers: the first and the last block at which one is a sink.
        ratio: the largest norm over the median norm of its text.
        dominance: the largest weight of one coordinate against all others.
        dimension: that coordinate; −1 where the norm alone decides and none stands out.
    """

    token_id: int
    token: str
    own: bool
    positions: tuple[int, int]
    texts: int
    count: int
    layers: tuple[int, int]
    ratio: float
    dominance: float
    dimension: int


class SinkTokens(Observable):
    """Sinks by token type, those at position 0 apart, in at most two entries a type.

    Held are ``keys`` (K, 3): token id, whether at position 0, whether own; ``facts`` (K, 7): texts, count, first and
    last position, first and last block, dimension; ``sizes`` (K, 2): ratio, dominance; all sorted by key. Beside them
    ``counts`` (2,): own tokens, and how many of them are sinks.

    Args:
        layout: the places that are read.
        tokens: how the tokenizer writes a token, by id.
    """

    name = "sink_tokens"
    version = 2

    def __init__(self, layout: Layout, tokens: Mapping[str, str]) -> None:
        self.layout, self.tokens = layout, tokens
        self.keys: Ints = np.zeros((0, 3), dtype=np.int64)
        self.facts: Ints = np.zeros((0, 7), dtype=np.int64)
        self.sizes: NDArray[np.float64] = np.zeros((0, 2))
        self.counts: Ints = np.zeros(2, dtype=np.int64)

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout, {str(token): name for token, name in setting.tokens.items()})

    def start(self, batch: HiddenBatch) -> None:
        """Take in the sinks of a batch."""
        sinks, own = batch.sinks, batch.strata != SPECIAL
        self.counts += [own.sum(), (own & sinks.sink).sum()]
        rows = np.flatnonzero(sinks.sink)
        if not len(rows):
            return
        keys = np.stack([batch.token_ids[rows], batch.positions[rows] == 0, own[rows]], axis=1).astype(np.int64)
        # Of several sinks of one key in one text, one counts for the text; a text is never in two batches.
        _, first = np.unique(np.column_stack([keys, batch.texts[rows]]), axis=0, return_index=True)
        texts = np.zeros(len(rows), dtype=np.int64)
        texts[first] = 1
        at = sinks.at(rows)
        positions = batch.positions[rows]
        facts = [texts, np.ones_like(texts), positions, positions, at.first, at.last, at.dimension]
        self._add(keys, np.stack(facts, axis=1), np.stack([at.ratio, at.dominance], axis=1))

    def observe(self, layer: LayerStates) -> None:
        """Do nothing: what is needed is known before the first place."""

    def merge(self, other: SinkTokens) -> None:
        """Take in the sinks of other texts."""
        self.counts += other.counts
        self.tokens = {**self.tokens, **other.tokens}
        self._add(other.keys, other.facts, other.sizes)

    def _add(self, keys: Ints, facts: Ints, sizes: NDArray[np.float64]) -> None:
        keys, facts = np.concatenate([self.keys, keys]), np.concatenate([self.facts, facts])
        sizes = np.concatenate([self.sizes, sizes])
        self.keys, group = np.unique(keys, axis=0, return_inverse=True)
        group = group.reshape(-1)
        n = len(self.keys)
        merged: Ints = np.zeros((n, 7), dtype=np.int64)
        merged[:, [2, 4]] = _MOST
        merged[:, [3, 5, 6]] = _LEAST
        for column, into in enumerate((np.add, np.add, np.minimum, np.maximum, np.minimum, np.maximum)):
            into.at(merged[:, column], group, facts[:, column])
        largest = np.zeros((n, 2))
        for column in range(2):
            np.maximum.at(largest[:, column], group, sizes[:, column])
        # The dimension is that of the largest dominance; of equals the smallest, so that no order matters.
        top = sizes[:, 1] == largest[group, 1]
        smallest = np.full(n, _MOST)
        np.minimum.at(smallest, group[top], facts[top, 6])
        merged[:, 6] = smallest
        self.facts, self.sizes = merged, largest

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``keys``, ``facts``, ``sizes`` and ``counts``."""
        return {name: torch.from_numpy(getattr(self, name)) for name in ("keys", "facts", "sizes", "counts")}

    def parameters(self) -> dict[str, Any]:
        """Return the layout and the tokens that are sinks."""
        seen = {str(token) for token in self.keys[:, 0].tolist()}
        names = {token: name for token, name in self.tokens.items() if token in seen}
        return {"layout": self.layout.as_json(), "tokens": names}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        for name, tensor in tensors.items():
            setattr(self, name, tensor.numpy())

    @property
    def own_tokens(self) -> int:
        """Tokens of the texts themselves."""
        return int(self.counts[0])

    @property
    def own_sinks(self) -> int:
        """Those of them that are sinks."""
        return int(self.counts[1])

    def types(self) -> list[SinkType]:
        """Return the sinks by type, those of most texts first."""
        order = np.lexsort((self.keys[:, 1], self.keys[:, 0], -self.facts[:, 1], -self.facts[:, 0]))
        found = []
        for i in order:
            texts, count, low, high, first, last, dimension = self.facts[i].tolist()
            ratio, dominance = self.sizes[i].tolist()
            own, token = bool(self.keys[i, 2]), int(self.keys[i, 0])
            name = self.tokens.get(str(token), "")
            found.append(
                SinkType(token, name, own, (low, high), texts, count, (first, last), ratio, dominance, dimension)
            )
        return found
