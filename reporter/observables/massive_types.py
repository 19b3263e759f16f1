"""Massive activations by dimension and token type: how many, where in a text, from which layer to which, how large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_MOST, _LEAST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@dataclass(frozen=True)
class MassiveType:
    """The massive activations of one dimension in one token type, at position 0 of a text or further on.

    Args:
        dimension: counted from 0.
        token_id: the type.
        token: as it reads.
        own: whether the tokens are a text's own; else the tokenizer added them, or they are special strings.
        positions: the first and the last position at which one stands.
        texts: texts that have such a token.
        count: such tokens.
        layers: the first and the last layer at which one has it, 0 = embedding.
        value: the activation of the largest size.
        layer: where that is; the first such layer.
    """

    dimension: int
    token_id: int
    token: str
    own: bool
    positions: tuple[int, int]
    texts: int
    count: int
    layers: tuple[int, int]
    value: float
    layer: int


@dataclass(frozen=True, eq=False)
class Seen:
    """Activations at one layer of which some are massive; all that is not an array of the host is where states are.

    Args:
        layer: where.
        tokens: token id, text, position, whether own of each token, on the host, (m, 4).
        dimensions: which coordinates of each token are its largest, (m, k).
        values: these, (m, k).
        massive: whether they are massive, (m, k).
    """

    layer: int
    tokens: Ints
    dimensions: torch.Tensor
    values: torch.Tensor
    massive: torch.Tensor


class MassiveTypes:
    """Sorted by key: ``keys`` (K, 4), ``facts`` (K, 7) and ``values`` (K,).

    A key is dimension, token id, whether at position 0, whether own; the facts are texts, tokens, first and last
    position, first and last layer, layer of the value; the value is the activation of the largest size.
    """

    def __init__(self) -> None:
        self.keys: Ints = np.zeros((0, 4), dtype=np.int64)
        self.facts: Ints = np.zeros((0, 7), dtype=np.int64)
        self.values: Floats = np.zeros(0)

    def take(self, seen: list[Seen]) -> None:
        """Take in the activations of whole texts, none of which came before."""
        if not seen:
            return
        parts = []
        for one in seen:
            row, column = np.nonzero(one.massive.numpy())
            layer = np.full(len(row), one.layer)
            dimensions, values = one.dimensions.numpy()[row, column], one.values.double().numpy()[row, column]
            parts.append((np.column_stack([dimensions, one.tokens[row], layer]), values))
        facts, values = np.concatenate([facts for facts, _ in parts]), np.concatenate([values for _, values in parts])
        dimension, token, text, position, own, layer = facts.T
        keys = np.column_stack([dimension, token, position == 0, own])
        # A token is counted once, though it has the activation at many layers; and a text once, with several of them.
        tokens, texts = _first(dimension, text, position), _first(*keys.T, text)
        self._add(keys, np.column_stack([texts, tokens, position, position, layer, layer, layer]), values)

    def merge(self, other: MassiveTypes) -> None:
        """Take in those of other texts."""
        self._add(other.keys, other.facts, other.values)

    def _add(self, keys: Ints, facts: Ints, values: Floats) -> None:
        keys, facts = np.concatenate([self.keys, keys]), np.concatenate([self.facts, facts])
        values = np.concatenate([self.values, values])
        self.keys, group = np.unique(keys, axis=0, return_inverse=True)
        group = group.reshape(-1)
        merged: Ints = np.zeros((len(self.keys), 7), dtype=np.int64)
        merged[:, [2, 4]] = _MOST
        merged[:, [3, 5]] = _LEAST
        for column, into in enumerate((np.add, np.add, np.minimum, np.maximum, np.minimum, np.maximum)):
            into.at(merged[:, column], group, facts[:, column])
        # The last one of each group: of the largest size, of equals positive, of equals at the first layer.
        order = np.lexsort((-facts[:, 6], values, np.abs(values), group))
        last = order[np.flatnonzero(np.diff(group[order], append=len(self.keys)))]
        merged[:, 6] = facts[last, 6]
        self.facts, self.values = merged, values[last]

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``types/keys``, ``types/facts`` and ``types/values``."""
        return {f"types/{name}": torch.from_numpy(getattr(self, name)) for name in ("keys", "facts", "values")}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        for name in ("keys", "facts", "values"):
            setattr(self, name, tensors[f"types/{name}"].numpy())

    def listed(self, names: dict[str, str]) -> list[MassiveType]:
        """Return them, those of the largest value first.

        Args:
            names: how the tokenizer writes a token, by id.
        """
        found = []
        for i in np.lexsort((*self.keys.T[::-1], -np.abs(self.values))):
            dimension, token, _, own = self.keys[i].tolist()
            texts, count, low, high, first, last, layer = self.facts[i].tolist()
            name, value = names.get(str(token), ""), float(self.values[i])
            where = (low, high), texts, count, (first, last)
            found.append(MassiveType(dimension, token, name, bool(own), *where, value, layer))
        return found


def _first(*columns: Ints) -> Ints:
    """Return 1 for the first row of its like, 0 for the others, (n,)."""
    found = np.zeros(len(columns[0]), dtype=np.int64)
    found[np.unique(np.column_stack(columns), axis=0, return_index=True)[1]] = 1
    return found
