"""What kind of text each token of a vocabulary is, by the tokenizer's own marks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from reporter.models.token_text import Marks, from_bytes, marks

TokenClass = Literal[
    "special", "unused", "alphabetic", "numeric", "alphanumeric", "punctuation", "mixed", "space", "bytes", "missing"
]
"""Letters (with their accents) alone; digits alone; both; punctuation and symbols alone; anything else that has
characters; white space or nothing but a mark; bytes that are no text by themselves; rows that no token has."""

NO_TEXT: frozenset[TokenClass] = frozenset({"special", "unused", "bytes", "missing"})
"""Classes of tokens that stand for no text of their own."""

_UNUSED = re.compile(r"\W*(?:unused|madeupword|reserved[a-z_]*)_?\d+\W*")
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_WIDTHS = {"FULLWIDTH", "HALFWIDTH"}


@dataclass(frozen=True)
class Token:
    """What one token is.

    Args:
        text: without marks, decoded from bytes; of a token that is no text, as it is written.
        kind: its class.
        subword: whether it is written as a part of a word: with ``##``, or without ``Ġ``, ``▁`` or ``</w>``. A word
            at the beginning of a text, or after a bracket, is written so, too. None where nothing is marked, and for
            tokens that are no text.
        script: of its letters; ``mixed`` where there are several, empty where there are no letters.
        length: its characters; of bytes, how many there are.
    """

    text: str
    kind: TokenClass
    subword: bool | None
    script: str
    length: int


def classify(strings: Sequence[str | None], special: Collection[int]) -> list[Token]:
    """Return what each token is.

    Args:
        strings: tokens by id, None for rows that no token has.
        special: ids of special tokens.
    """
    found = marks(token for i, token in enumerate(strings) if token and i not in special)
    return [_token(token, i in special, found) for i, token in enumerate(strings)]


def _token(token: str | None, special: bool, marked: Marks) -> Token:
    if token is None:
        return Token("", "missing", None, "", 0)
    if _UNUSED.fullmatch(token):
        return Token(token, "unused", None, "", len(token))
    if special:
        return Token(token, "special", None, "", len(token))
    if _BYTE.fullmatch(token) and marked != "byte-level":
        return Token(token, "bytes", None, "", 1)
    subword, bare = _unmarked(token, marked)
    text = _decoded(bare) if marked == "byte-level" else bare
    if text is None:
        return Token(token, "bytes", None, "", len(token))
    return Token(text, _class(text), subword, _script(text), len(text))


def _unmarked(token: str, marked: Marks) -> tuple[bool | None, str]:
    """Return whether a token is written as a part of a word, and the token without its mark."""
    if marked == "wordpiece":
        goes_on = token.startswith("##") and len(token) > 2
        return goes_on, token[2:] if goes_on else token
    if marked == "end-of-word":
        return not token.endswith("</w>"), token.removesuffix("</w>")
    if marked in ("byte-level", "sentencepiece"):
        mark = "Ġ" if marked == "byte-level" else "▁"
        return not token.startswith(mark), token.removeprefix(mark)
    return None, token


def _class(text: str) -> TokenClass:
    kinds = {unicodedata.category(c)[0] for c in text if c != "▁"}
    letters, digits = "L" in kinds, "N" in kinds
    kinds.discard("M")  # accents and vowel signs go with what they stand on
    if kinds <= {"Z", "C"} or not text.strip():
        return "space"
    if kinds == {"L"}:
        return "alphabetic"
    if kinds == {"N"}:
        return "numeric"
    if letters and digits and kinds == {"L", "N"}:
        return "alphanumeric"
    return "punctuation" if kinds <= {"P", "S"} else "mixed"


def _script(text: str) -> str:
    found = {_script_of(c) for c in text if unicodedata.category(c)[0] == "L"}
    return "" if not found else found.pop() if len(found) == 1 else "mixed"


@cache
def _script_of(letter: str) -> str:
    """Return the first word of a letter's Unicode name, which is its script as a rule."""
    words = unicodedata.name(letter, "other").split()
    word = words[1] if words[0] in _WIDTHS and len(words) > 1 else words[0]
    return "Han" if word == "CJK" else word.capitalize()


def _decoded(text: str) -> str | None:
    """Undo byte-level BPE's alphabet; None for bytes that are no text. Added tokens are text already."""
    found = from_bytes(text)
    try:
        return text if found is None else found.decode("utf-8")
    except UnicodeDecodeError:
        return None
