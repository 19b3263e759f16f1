"""Texts written in the study itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from reporter.spec.corpora import CorpusPart
from reporter.spec.part import AsTuple
from reporter.texts.origin import Around, Origin, corpus_source
from reporter.texts.record import Record


class InlineCorpus(CorpusPart):
    """Texts written in the study itself."""

    texts: Annotated[tuple[str, ...], AsTuple] = Field(min_length=1, description="The texts.")


def read_inline(texts: Sequence[str]) -> Iterator[Record]:
    """Yield the texts in order."""
    return (Record(text) for text in texts)


@corpus_source("texts", InlineCorpus, called="inline")
def inline(said: InlineCorpus, around: Around) -> Origin:
    """Find the texts in the study."""
    return Origin("the study file", "", lambda: read_inline(said.texts))
