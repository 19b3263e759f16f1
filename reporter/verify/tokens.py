"""Which tokens count, and which are drawn: the rules of the README and of ``reporter metrics``, written once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rule:
    """What makes a sink: both must hold at some block.

    Args:
        factor: a token's norm exceeds this times the median norm of its text's tokens.
        dominance: its weight (see :class:`Kinds`) exceeds this; None: the norm alone decides.
    """

    factor: float = 2.0
    dominance: float | None = 1.0


_HEAVIEST = float(np.finfo(np.float32).max)
LONG = 2.0
"""Medians of the norm up to which a token is given no weight."""


@dataclass(frozen=True)
class Kinds:
    """What the tokens of one text, or of a corpus, are; each of shape (tokens,).

    The weight of a token is (x_j − m_j)² over the sum of the squares of all other coordinates, j its largest coordinate
    by size and m_j the median of coordinate j over the text's tokens (massive activations, Sun et al. 2024).

    Args:
        special: no token of the text's own.
        first: the text's first own token.
        sink: a sink, special ones included.
        layer_first: the first block at which it is a sink; 0 for none.
        layer_last: the last such block; 0 for none.
        ratio: the largest norm in medians of the text, over all blocks.
        weight: the largest weight over the blocks where the norm exceeds ``LONG`` medians; 0 where there is none.
        dimension: the coordinate j of that weight; −1 where there is none.
    """

    special: Mask
    first: Mask
    sink: Mask
    layer_first: Ints
    layer_last: Ints
    ratio: Floats
    weight: Floats
    dimension: Ints

    @classmethod
    def joined(cls, texts: Sequence[Kinds]) -> Kinds:
        """Return the kinds of a corpus from those of its texts."""
        return cls(*(np.concatenate([getattr(text, part.name) for text in texts]) for part in fields(cls)))

    def view(self, name: str) -> Mask:
        """Return which tokens a view holds, shape (tokens,)."""
        if name == "all":
            return np.ones(len(self.special), dtype=bool)
        return ~self.special if name == "words" else ~self.special & ~self.sink & ~self.first


def never_a_word(tokenizer: Any) -> set[int]:
    """Return the ids that are no word wherever they stand; the unknown token is one, unless it has another role."""
    others = {getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "cls", "sep", "mask")}
    return {i for i in tokenizer.all_special_ids if i != tokenizer.unk_token_id or i in others}


def kinds_of_text(blocks: Sequence[Floats], special: Mask, rule: Rule) -> Kinds:
    """Return what each token of one text is.

    Args:
        blocks: what each block returned for the text, L matrices (tokens, width).
        special: which tokens are special, shape (tokens,).
        rule: what makes a sink.
    """
    n = len(special)
    first = np.zeros(n, dtype=bool)
    first[np.flatnonzero(~special)[:1]] = True
    none, zeros = np.zeros(n, dtype=np.int64), np.zeros(n)
    found = Kinds(special, first, np.zeros(n, dtype=bool), none, none.copy(), zeros, zeros.copy(), none - 1)
    for layer, x in enumerate(blocks, start=1):
        norms = np.sqrt((x * x).sum(axis=1))
        ratio = norms / (np.median(norms) or np.inf)
        for token in np.flatnonzero(ratio > min(LONG, rule.factor)):
            j = int(np.argmax(np.abs(x[token])))
            others = float(np.delete(x[token] ** 2, j).sum())
            weight = float((x[token, j] - np.median(x[:, j])) ** 2) / others if others else _HEAVIEST
            if ratio[token] > LONG and weight > found.weight[token]:
                found.weight[token], found.dimension[token] = weight, j
            if ratio[token] > rule.factor and (rule.dominance is None or weight > rule.dominance):
                found.layer_first[token] = found.layer_first[token] or layer
                found.layer_last[token] = layer
        np.maximum(found.ratio, ratio, out=found.ratio)
    found.sink[:] = found.layer_first > 0
    return found


_64 = 2**64 - 1


def scrambled(x: int) -> int:
    """Return the finaliser of SplitMix64 (Steele, Lea & Flood 2014), which every draw of a run goes by."""
    x = (x + 0x9E3779B97F4A7C15) & _64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _64
    return x ^ (x >> 31)


def key(*parts: int) -> int:
    """Return the hash of some integers in their order: of seed, text and position for a token that is drawn."""
    found = 0
    for part in parts:
        found = scrambled(found ^ part)
    return found


def half_of(seed: int, text: int) -> int:
    """Return the half of the corpus, 0 or 1, that a text is in, by the place of the first text that says the same."""
    return scrambled(key(seed, text)) >> 58 & 1


def context_keys(ids: Sequence[int], causal: bool, seed: int) -> list[int]:
    """Return a hash of what decided each token's block states: its prefix (decoder), its text and place (encoder)."""
    running, prefixes = key(seed), []
    for token in ids:
        running = scrambled(running ^ token)
        prefixes.append(running)
    if causal:
        return prefixes
    return [scrambled(running ^ scrambled(position)) for position in range(len(prefixes))]
