"""Finds the tokens of a text that a study names by a word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reporter.errors import ReporterError

_GAP = 16  # characters that a tokenizer may leave out between two tokens
_SHOWN = 60  # tokens that an error lists


Span = tuple[int, int]


@dataclass(frozen=True)
class Written:
    """A text and its tokens.

    Args:
        text: as the study has it.
        ids: token ids as the model sees them, (tokens,).
        special: True where the tokenizer added the token, (tokens,).
        tokens: how each token reads.
        raw: how the tokenizer writes it.
        bare: its text without marks of a space or of a part of a word.
    """

    text: str
    ids: NDArray[np.int64]
    special: NDArray[np.bool_]
    tokens: tuple[str, ...]
    raw: tuple[str, ...]
    bare: tuple[str, ...]


def followed(words: Sequence[str], texts: Sequence[Written], tokenizer: Any) -> list[NDArray[np.bool_]]:
    """Return for each text which of its tokens are followed, (tokens,).

    A word is looked for in each text by itself: first as a whole word as it is written, with all tokens that it is
    split into; then as a token, with or without the tokenizer's marks; then both again, capitals or not.

    Args:
        words: what a study names; all tokens are followed where it names none.
        texts: the texts.
        tokenizer: their tokenizer.

    Raises:
        ReporterError: if a word is in none of the texts.
    """
    if not words:
        return [np.ones(len(text.ids), dtype=bool) for text in texts]
    spans = [_spans(text, tokenizer) for text in texts]
    found = [np.zeros(len(text.ids), dtype=bool) for text in texts]
    for word in words:
        hits = [_hits(word, text, span) for text, span in zip(texts, spans, strict=True)]
        if not any(hit.any() for hit in hits):
            raise ReporterError(_not_there(word, texts))
        for marked, hit in zip(found, hits, strict=True):
            marked |= hit
    return found


def _hits(word: str, text: Written, spans: Sequence[Span]) -> NDArray[np.bool_]:
    for flags in (0, re.IGNORECASE):
        for hit in (_as_word(word, text, spans, flags), _as_token(word, text, flags)):
            if hit.any():
                return hit
    return np.zeros(len(text.ids), dtype=bool)


def _as_word(word: str, text: Written, spans: Sequence[Span], flags: int) -> NDArray[np.bool_]:
    """Return the tokens that hold a character of the word where it stands in the text."""
    found = np.zeros(len(text.ids), dtype=bool)
    before = r"(?<!\w)" if re.match(r"\w", word) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", word) else ""
    for match in re.finditer(before + re.escape(word) + after, text.text, flags):
        for i, (start, end) in enumerate(spans):
            found[i] |= start < match.end() and end > match.start() and not text.special[i]
    return found


def _as_token(word: str, text: Written, flags: int) -> NDArray[np.bool_]:
    return np.array(
        [
            _same(token, word, flags)
            or _same(raw, word, flags)
            or (bool(bare.strip()) and _same(bare.strip(), word, flags))
            for token, raw, bare in zip(text.tokens, text.raw, text.bare, strict=True)
        ],
        dtype=bool,
    )


def _same(a: str, b: str, flags: int) -> bool:
    return a.casefold() == b.casefold() if flags else a == b


def _spans(text: Written, tokenizer: Any) -> Sequence[Span]:
    """Return where each token stands in the text."""
    if getattr(tokenizer, "is_fast", False):
        options: Mapping[str, Any] = {"return_offsets_mapping": True, "verbose": False}
        whole = tokenizer(text.text, **options)
        if len(whole["input_ids"]) != len(text.ids):  # it was cut
            whole = tokenizer(text.text, truncation=True, max_length=len(text.ids), **options)
        if np.array_equal(whole["input_ids"], text.ids):
            return [(int(start), int(end)) for start, end in whole["offset_mapping"]]
    return _searched(text)


def _searched(text: Written) -> Sequence[Span]:
    """Look for each token after the one before, for a tokenizer that does not say where its tokens stand."""
    spans, at = [], 0
    for token in text.bare:
        part = token.strip()
        match = (
            re.compile(re.escape(part), re.IGNORECASE).search(text.text, at, at + len(part) + _GAP) if part else None
        )
        if match:
            at = match.end()
        spans.append((match.start(), match.end()) if match else (at, at))
    return spans


def _not_there(word: str, texts: Sequence[Written]) -> str:
    tokens = list(dict.fromkeys(token for text in texts for token in text.tokens))
    shown = ", ".join(repr(token) for token in tokens[:_SHOWN])
    more = f", and {len(tokens) - _SHOWN} more" if len(tokens) > _SHOWN else ""
    where = "the text" if len(texts) == 1 else f"the {len(texts)} texts"
    return f"follow: {word!r} is not in {where}; the tokens there are {shown}{more}"
