"""How a token reads: decoded, with its spaces visible. Every table, page and message shows tokens in this spelling.

===================  =======================================================
a space              ``␣``: ``␣the`` begins a word
a line feed, a tab   ``⏎``, ``⇥``
bytes without text   ``<0xE7>``: part of a character, or a control character
WordPiece            ``##ing`` goes on with a word
a special token      as the tokenizer writes it
===================  =======================================================

Two tokens of a vocabulary can read alike; their ids tell them apart.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

SPACE, LINE_FEED, TAB = "␣", "⏎", "⇥"
_VISIBLE = str.maketrans({" ": SPACE, "\n": LINE_FEED, "\t": TAB})
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Marks = Literal["wordpiece", "byte-level", "sentencepiece", "end-of-word", "none"]
"""How a tokenizer marks where words begin or end: ``##`` goes on with a word, ``Ġ`` and ``▁`` begin one, ``</w>``
ends one."""


def marks(tokens: Iterable[str]) -> Marks:
    """Return how a tokenizer marks words: by the mark that most of its tokens bear.

    Args:
        tokens: of its vocabulary, without special ones.
    """
    counts: Counter[Marks] = Counter()
    for token in tokens:
        counts["wordpiece"] += token.startswith("##") and len(token) > 2
        counts["byte-level"] += token.startswith("Ġ")
        counts["sentencepiece"] += token.startswith("▁")
        counts["end-of-word"] += token.endswith("</w>")
    return max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else "none"


@dataclass(frozen=True)
class Spelling:
    """How a tokenizer spells its tokens.

    Args:
        marks: its marks of words.
        bytes: what a character of a token stands for: ``gpt2`` (the byte-level alphabet), ``latin`` (the byte of the
            same number, as in ByT5) or ``text``.
    """

    marks: Marks
    bytes: Literal["gpt2", "latin", "text"]

    @classmethod
    def of(cls, vocabulary: Collection[str], special: Collection[str]) -> Spelling:
        """Return the spelling of a vocabulary.

        Args:
            vocabulary: its tokens.
            special: those that are no text.
        """
        own = set(vocabulary).difference(special)
        marked = marks(own)
        alphabet = byte_alphabet()
        if marked == "byte-level" or own.issuperset(alphabet):
            return cls(marked, "gpt2")
        return cls(marked, "latin" if own.issuperset(map(chr, range(0x80, 0xA0))) else "text")

    def read(self, token: str) -> str:
        """Return how a token that is not special reads."""
        ends = self.marks == "end-of-word" and token.endswith("</w>")
        text = token.removesuffix("</w>") if ends else token
        if self.marks == "sentencepiece":
            text = text.replace("▁", " ")
        elif self.bytes == "gpt2":
            found = from_bytes(text)
            text = text if found is None else found.decode("utf-8", _HANDLER)
        elif self.bytes == "latin" and len(text) == 1 and 0x80 <= ord(text) < 0x100:
            return _byte(ord(text))
        return visible(text + " " * ends)


def visible(text: str) -> str:
    """Return a text whose spaces and control characters can be seen."""
    return _CONTROLS.sub(_control, text.translate(_VISIBLE))


def readable(tokens: Sequence[str | None], special: Collection[int]) -> tuple[str | None, ...]:
    """Return how each token of a vocabulary reads; None for a row that no token has.

    Args:
        tokens: as the tokenizer writes them, by id.
        special: ids of special tokens.
    """
    there = [token for token in tokens if token is not None]
    spelling = Spelling.of(there, {token for i in special if i < len(tokens) and (token := tokens[i]) is not None})
    return tuple(token if token is None or i in special else spelling.read(token) for i, token in enumerate(tokens))


def token_names(tokenizer: Any, ids: Sequence[int]) -> dict[int, str]:
    """Return how some tokens of a tokenizer read, by id.

    Args:
        tokenizer: of transformers, or one that only names given tokens, whose names are kept.
        ids: which tokens.
    """
    written = tokenizer.convert_ids_to_tokens(list(ids))
    if not hasattr(tokenizer, "get_vocab"):
        return dict(zip(ids, map(str, written), strict=True))
    special, vocabulary = special_ids(tokenizer), tokenizer.get_vocab()
    spelling = Spelling.of(vocabulary, {token for token, i in vocabulary.items() if i in special})

    def named(i: int, token: str | None) -> str:
        return f"<id {i}>" if token is None else str(token) if i in special else spelling.read(str(token))

    return {i: named(i, token) for i, token in zip(ids, written, strict=True)}


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids of a tokenizer's special tokens."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return frozenset(tokenizer.all_special_ids) | {i for i, token in added.items() if token.special}


def from_bytes(text: str) -> bytes | None:
    """Return the bytes that a text in the byte-level alphabet stands for; None for an added token, which is text."""
    table = byte_alphabet()
    return bytes(table[character] for character in text) if all(c in table for c in text) else None


@cache
def byte_alphabet() -> dict[str, int]:
    """Return GPT-2's alphabet: bytes that can be printed stand for themselves, the others for characters from 256."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def _byte(number: int) -> str:
    return f"<0x{number:02X}>"


def _control(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _byte(code) if code < 0x80 else f"<U+{code:04X}>"


def _undecoded(error: UnicodeError) -> tuple[str, int]:
    """Write bytes that are no text as their numbers."""
    assert isinstance(error, UnicodeDecodeError)
    return "".join(map(_byte, error.object[error.start : error.end])), error.end


_HANDLER = "reporter-bytes"
codecs.register_error(_HANDLER, _undecoded)
