"""Texts written in the study itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reporter.texts.record import Record


def read_inline(texts: Sequence[str]) -> Iterator[Record]:
    """Yield the texts in order."""
    return (Record(text) for text in texts)
