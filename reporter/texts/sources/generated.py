"""Texts made by a rule: sentences of a grammar, or words drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from reporter.errors import ReporterError
from reporter.spec.corpora import CorpusPart
from reporter.spec.offer import Reference
from reporter.spec.part import Complaint, Name, failure
from reporter.spec.problems import show
from reporter.spec.recipes import LARGEST_SEED
from reporter.texts import grammar, random_words
from reporter.texts.lexicon import WORDS
from reporter.texts.origin import Around, Origin, corpus_source, digest


def _two_numbers(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) == 2:
        return tuple(value)
    got = f"a list of {len(value)}" if isinstance(value, list | tuple) else show(value)
    raise failure(Complaint(f"expected two whole numbers, [fewest, most], got {got}"))


class GeneratedCorpus(CorpusPart):
    """Texts made by a rule; the same seed always gives the same texts."""

    references: ClassVar[tuple[Reference, ...]] = (
        *CorpusPart.references,
        Reference("vocabulary", "models", says="draws the words of model"),
    )

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


@corpus_source("generate", GeneratedCorpus, called="generated")
def generated(said: GeneratedCorpus, around: Around) -> Origin:
    """Find the generator and, for words of a model, these."""
    location = f"{said.generate}, seed {said.seed}"
    if said.generate == "grammar":
        state = f"grammar {grammar.VERSION}"
        return Origin(location, state, lambda: grammar.grammar_texts(said.texts, said.words, said.seed))
    words: Sequence[str] = WORDS
    if said.vocabulary is not None:
        if around.words_of is None:
            raise ReporterError(f"the words of model '{said.vocabulary}' are not at hand")
        words = around.words_of(said.vocabulary)
        location += f", words of {said.vocabulary}"
    state = digest(chain([f"random-words {random_words.VERSION}"], words))
    return Origin(location, state, lambda: random_words.random_words(words, said.texts, said.words, said.seed))
