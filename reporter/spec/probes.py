"""Probes: what a simple classifier can read from the states of each layer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from reporter.spec.part import AsTuple, Complaint, Name, Part, Prose, failure, one_of
from reporter.spec.problems import show


class _Probe(Part):
    folds: int = Field(5, ge=2, le=20, description="Folds of the cross-validation.")
    sample: int = Field(1000, ge=20, le=20000, description="The most texts or words; chosen evenly from the classes.")
    hidden: int = Field(64, ge=0, le=1024, description="Units of the hidden layer of the second probe; 0: linear only.")


class CorpusProbe(_Probe):
    """Reads the label of each text from its pooled vector."""

    corpus: Name = Field(description="A corpus of this study with labels.")


def _words(value: Any) -> Any:
    if isinstance(value, dict):
        for name, words in value.items():
            if not isinstance(words, list | tuple) or len(words) < 2:
                raise failure(Complaint(f"expected a list of two or more words, got {show(words)}", (name,)))
        if len(value) < 2:
            raise failure(Complaint("needs two or more classes, each with its words"))
        return value
    if isinstance(value, str):
        return Path(value) if value != "shipped" else value
    if isinstance(value, Path):
        return value
    raise failure(
        Complaint(
            f"expected 'shipped', a YAML file, or classes such as {{noun: [cat, …], verb: […]}}, got {show(value)}"
        )
    )


class WordsProbe(_Probe):
    """Reads the class of each word from its pooled vector, the word being the whole text."""

    words: Annotated[
        Literal["shipped"] | dict[Name, Annotated[tuple[Prose, ...], AsTuple]] | Path,
        BeforeValidator(_words, json_schema_input_type=str | dict[str, list[str]]),
    ] = Field(
        description="'shipped' (nouns, verbs and adjectives that come with reporter), a YAML file with a mapping "
        "from class to words, or that mapping."
    )


ProbeSpec = Annotated[
    CorpusProbe | WordsProbe,
    BeforeValidator(
        one_of({"corpus": CorpusProbe, "words": WordsProbe}, "{corpus: tweets}"),
        json_schema_input_type=CorpusProbe | WordsProbe,
    ),
]
"""A mapping told apart by its key ``corpus`` or ``words``."""
