"""Excerpts of texts for tables: their beginnings, and what stands around a token."""

import re
from collections.abc import Collection, Iterator

EXCERPT = 200
"""The most characters of an excerpt."""
_LONGEST = 24  # characters of a token that are looked for


def begins(text: str) -> str:
    """Return the beginning of a text; an ellipsis says that it goes on."""
    return text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1]}…"


def bare(token: str) -> str:
    """Return a token without marks of a space or of a part of a word, in lower case."""
    return re.sub(r"^##|[␣Ġ▁\s]", "", token).lower()


def around(text: str, token: str, position: int, tokens: Collection[str]) -> str:
    """Return what stands around a token of a text; its beginning where the token is not found.

    The text is cut into the longest tokens that fit, as most tokenizers cut it. Of the places of the token, the one
    that is nearest to its position counts.

    Args:
        text: the text.
        token: as tables show it.
        position: of the token in its text, from 0, special tokens counted.
        tokens: bare tokens of the corpus.
    """
    wanted, places = bare(token), [(abs(i - position), start) for i, (start, piece) in enumerate(_cut(text, tokens))
                                   if piece == bare(token)]  # fmt: skip
    if len(text) <= EXCERPT or not wanted or not places:
        return begins(text)
    first = max(0, min(min(places)[1] - EXCERPT // 2, len(text) - EXCERPT + 1))
    last = first + EXCERPT - (first > 0)
    last -= last < len(text)
    return f"{'…' * (first > 0)}{text[first:last]}{'…' * (last < len(text))}"


def _cut(text: str, tokens: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield the start and the lower-case text of each piece."""
    low, start = text.lower(), 0
    while start < len(low):
        if low[start].isspace():
            start += 1
            continue
        ends = range(min(start + _LONGEST, len(low)), start + 1, -1)
        end = next((end for end in ends if low[start:end] in tokens), start + 1)
        yield start, low[start:end]
        start = end
