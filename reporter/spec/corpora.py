"""Corpora: texts written in the study, read from a file, fetched from a hub, or generated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from reporter.spec.part import AsPath, AsTuple, Complaint, Name, Part, Text, failure, one_of
from reporter.spec.problems import show
from reporter.spec.recipes import LARGEST_SEED

ALIKE = 1.25
"""Corpora of which one has at most so many times the words of the other count as equally large: that is a third of a
doubling, by which a statistic that moves with the size of the corpus moves within its interval."""


class _Corpus(Part):
    """What every corpus may say about which texts it keeps."""

    min_words: int = Field(1, ge=1, description="Texts with fewer words are dropped.")
    max_words: int | None = Field(None, ge=1, description="Texts with more words are dropped.")
    limit: int | None = Field(None, ge=1, description="Keep only the first so many of the texts that pass.")
    size_of: Name | None = Field(
        None,
        description="Another corpus of this study: of the texts that pass, so many are kept, drawn by a hash of their "
        "content, that they have as many words as that corpus.",
    )
    max_tokens: int = Field(256, ge=2, description="Longer texts are cut to this many tokens, special tokens included.")

    @model_validator(mode="after")
    def _some_length_is_left(self) -> _Corpus:
        if self.max_words is not None and self.max_words < self.min_words:
            message = f"must be at least min_words ({self.min_words}), got {self.max_words}"
            raise failure(Complaint(message, ("max_words",)))
        return self


class InlineCorpus(_Corpus):
    """Texts written in the study itself."""

    texts: Annotated[tuple[str, ...], AsTuple] = Field(min_length=1, description="The texts.")


class FileCorpus(_Corpus):
    """Texts from a file: plain text, or a column of a CSV, JSONL or Parquet file."""

    file: Annotated[Path, AsPath] = Field(description="The file, relative to the study file or absolute.")
    unit: Literal["line", "paragraph", "document"] = Field(
        "line", description="What one text is, in a file of plain text."
    )
    column: Text | None = Field(None, description="The column that holds the texts, in a table.")
    label: Text | None = Field(None, description="The column that holds a label for each text.")


class DatasetCorpus(_Corpus):
    """Texts from a dataset of a hub; needs the optional package ``datasets``."""

    dataset: Text = Field(description="The dataset's id.")
    config: Text | None = Field(None, description="Its configuration, where there are several.")
    split: Text = Field("test", description="Its split.")
    revision: Text | None = Field(None, description="A branch, tag or commit.")
    column: Text = Field("text", description="The column that holds the texts.")
    label: Text | None = Field(None, description="The column that holds a label for each text.")


def _two_numbers(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) == 2:
        return tuple(value)
    got = f"a list of {len(value)}" if isinstance(value, list | tuple) else show(value)
    raise failure(Complaint(f"expected two whole numbers, [fewest, most], got {got}"))


class GeneratedCorpus(_Corpus):
    """Texts made by a rule; the same seed always gives the same texts."""

    generate: Literal["random-words", "grammar"] = Field(
        description="random-words: words drawn independently; grammar: sentences with nesting and agreement."
    )
    texts: int = Field(500, ge=1, description="How many texts.")
    words: Annotated[tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]], BeforeValidator(_two_numbers)] = (
        Field((5, 60), description="The fewest and the most words of a text.")
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Another seed gives other texts.")
    vocabulary: Name | None = Field(
        None,
        description="random-words only: the model of this study whose tokenizer's whole words are drawn.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> GeneratedCorpus:
        complaints = []
        fewest, most = self.words
        if fewest > most:
            message = f"the fewest words ({fewest}) must not exceed the most ({most})"
            complaints.append(Complaint(message, ("words",)))
        if self.vocabulary is not None and self.generate != "random-words":
            message = f"goes only with 'generate: random-words', not with '{self.generate}'"
            complaints.append(Complaint(message, ("vocabulary",), "key"))
        if complaints:
            raise failure(*complaints)
        return self


_KINDS: dict[str, type[Part]] = {
    "texts": InlineCorpus,
    "file": FileCorpus,
    "dataset": DatasetCorpus,
    "generate": GeneratedCorpus,
}

CorpusSpec = Annotated[
    InlineCorpus | FileCorpus | DatasetCorpus | GeneratedCorpus,
    BeforeValidator(
        one_of(_KINDS, "{file: texts.txt}"),
        json_schema_input_type=InlineCorpus | FileCorpus | DatasetCorpus | GeneratedCorpus,
    ),
]
"""A mapping told apart by its key ``texts``, ``file``, ``dataset`` or ``generate``."""
