"""Which tokens count, and which are drawn: the rules of the README and of ``reporter metrics``, written once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rule:
    """What makes a token special or a sink, and what a text's first token is.

    Args:
        factor: a sink's norm exceeds this times the median norm of its text's tokens at some block.
        dominant: and there, with j its largest coordinate by size, (x_j − median of coordinate j over the text's
            tokens)² exceeds the sum of the squares of all other coordinates: a massive activation (Sun et al. 2024).
        inside: whether a special string standing inside a text is special, as what the tokenizer added is.
        first_is_sink: whether a decoder's token at position 0 is a sink if it is not special. If not, the view
            ``no-sinks`` leaves out the first token of each text that is not special, in every model.
    """

    factor: float
    dominant: bool
    inside: bool
    first_is_sink: bool


BY_NORM = Rule(8.0, dominant=False, inside=False, first_is_sink=True)
BY_MASSIVE_DIMENSION = Rule(2.0, dominant=True, inside=True, first_is_sink=False)
RULE = BY_NORM
"""The rule that runs follow."""


@dataclass(frozen=True)
class Kinds:
    """What the tokens of one text, or of a corpus, are; each of shape (tokens,).

    Args:
        special: added by the tokenizer, or a special string where the rule says so.
        sink: a sink, and not special.
        left_out: what the view ``no-sinks`` leaves out beside special tokens.
    """

    special: Mask
    sink: Mask
    left_out: Mask

    def view(self, name: str) -> Mask:
        """Return which tokens a view holds, shape (tokens,)."""
        if name == "all":
            return np.ones(len(self.special), dtype=bool)
        return ~self.special if name == "words" else ~self.special & ~self.left_out


def special_tokens(ids: Sequence[int], added: Sequence[int], strings: frozenset[int], rule: Rule) -> Mask:
    """Return which tokens of a text are special, shape (tokens,).

    Args:
        ids: token ids of the text.
        added: 1 where the tokenizer added the token.
        strings: ids of the tokenizer's special strings, without the unknown token.
        rule: what is special.
    """
    return np.array([bool(a) or (rule.inside and i in strings) for i, a in zip(ids, added, strict=True)], dtype=bool)


def kinds_of_text(blocks: Sequence[Floats], special: Mask, causal: bool, rule: Rule) -> Kinds:
    """Return what each token of one text is.

    Args:
        blocks: what each block returned for the text, L matrices (tokens, width).
        special: which tokens are special, shape (tokens,).
        causal: whether the model is a decoder.
        rule: what makes a sink.
    """
    sink = np.zeros(len(special), dtype=bool)
    for x in blocks:
        norms = np.sqrt((x * x).sum(axis=1))
        large = norms > rule.factor * np.median(norms)
        if rule.dominant:
            medians = np.median(x, axis=0)
            for token in np.flatnonzero(large):
                j = int(np.argmax(np.abs(x[token])))
                large[token] = (x[token, j] - medians[j]) ** 2 > np.delete(x[token] ** 2, j).sum()
        sink |= large
    first = np.zeros(len(special), dtype=bool)
    if rule.first_is_sink:
        sink[0] |= causal
    elif not special.all():
        first[np.flatnonzero(~special)[0]] = True
    sink &= ~special
    return Kinds(special, sink, sink | first)


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


def context_keys(ids: Sequence[int], causal: bool, seed: int) -> list[int]:
    """Return a hash of what decided each token's block states: its prefix (decoder), its text and place (encoder)."""
    running, prefixes = key(seed), []
    for token in ids:
        running = scrambled(running ^ token)
        prefixes.append(running)
    if causal:
        return prefixes
    return [scrambled(running ^ scrambled(position)) for position in range(len(prefixes))]
