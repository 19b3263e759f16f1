"""The keys that all corpora share; the sources of texts add theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from reporter.spec.offer import Reference
from reporter.spec.part import LONGEST_NAME, AsTuple, Complaint, Name, Part, Text, failure, no_repeats
from reporter.spec.recipes import share_name

ALIKE = 1.25
"""Corpora of which one has at most so many times the words of the other count as equally large: that is a third of a
doubling, by which a statistic that moves with the size of the corpus moves within its interval."""


class CorpusPart(Part):
    """The keys of every corpus that choose its texts; a source of texts derives its own part from it."""

    references: ClassVar[tuple[Reference, ...]] = (Reference("size_of", "corpora", says="gets the size of corpus"),)
    """The keys under which it names models or other corpora, which must be there first."""

    min_words: int = Field(1, ge=1, description="Texts with fewer words are dropped.")
    max_words: int | None = Field(None, ge=1, description="Texts with more words are dropped.")
    limit: int | None = Field(None, ge=1, description="Keep only the first so many of the texts that pass.")
    size_of: Name | None = Field(
        None,
        description="Another corpus of this study: of the texts that pass, so many are kept, drawn by a hash of their "
        "content, that they have as many words as that corpus.",
    )
    max_tokens: int = Field(256, ge=2, description="Longer texts are cut to this many tokens, special tokens included.")
    window: int | None = Field(
        None,
        ge=4,
        description="Longer texts are not cut but read in windows of at most this many tokens, special tokens "
        "included; each token counts once.",
    )
    stride: int | None = Field(
        None,
        ge=1,
        description="How many tokens a window begins after the one before it; half of it if left out. What a window "
        "repeats is context: read, and not counted. A smaller stride leaves each token more context and takes longer.",
    )

    @property
    def longest(self) -> int:
        """The most tokens that a model reads of a text at once."""
        return self.window or self.max_tokens

    @property
    def shares(self) -> Mapping[str, Self]:
        """The shares of it that are corpora of their own, by what their names end in."""
        return {}

    @model_validator(mode="after")
    def _windows_are_whole(self) -> CorpusPart:
        if self.stride is not None and self.window is None:
            raise failure(Complaint("goes with `window`, which is not there", ("stride",)))
        if self.window is not None and "max_tokens" in self.model_fields_set:
            message = "cuts texts, and `window` reads them whole: leave one of the two out"
            raise failure(Complaint(message, ("max_tokens",)))
        if self.window is not None and self.stride is not None and self.stride > self.window:
            message = f"must be at most the window ({self.window}), or tokens would be skipped; got {self.stride}"
            raise failure(Complaint(message, ("stride",)))
        return self

    @model_validator(mode="after")
    def _some_length_is_left(self) -> CorpusPart:
        if self.max_words is not None and self.max_words < self.min_words:
            message = f"must be at least min_words ({self.min_words}), got {self.max_words}"
            raise failure(Complaint(message, ("max_words",)))
        return self


class LabelledCorpus(CorpusPart):
    """The keys of a corpus whose source has labels."""

    label: Text | None = Field(None, description="The column that holds a label for each text.")
    only: Annotated[tuple[Text, ...], AsTuple] | None = Field(
        None, min_length=1, description="Keep only the texts with these labels."
    )
    by: Annotated[tuple[Text, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Labels, or roles of a chat, whose share is measured as well: for each of them there is a corpus "
        "named NAME.LABEL, which says what this one says, with that label alone. A limit counts the texts of each.",
    )

    @property
    def shares(self) -> Mapping[str, Self]:
        """The corpora of single labels or roles."""
        return {label: self.model_copy(update={**self.share_of(label), "by": ()}) for label in self.by}

    def share_of(self, label: str) -> dict[str, Any]:
        """Return what a share says otherwise."""
        return {"only": (label,)}

    @model_validator(mode="after")
    def _labels_are_there(self) -> LabelledCorpus:
        by_label = self.by and "only" in self.share_of("")
        for key, labels in (("only", self.only), ("by", by_label)):
            if labels and self.label is None:
                raise failure(Complaint("goes with `label`, which names the column of the labels", (key,)))
        for index, label in enumerate(self.by if by_label and self.only is not None else ()):
            if label not in self.only:  # type: ignore[operator]
                raise failure(Complaint(f"'{label}' is not among the labels that `only` keeps", ("by", index)))
        return self


_Corpus = TypeVar("_Corpus", bound=CorpusPart)


def with_shares(corpora: dict[str, _Corpus]) -> dict[str, _Corpus]:
    """Return the corpora of a study and behind each one its shares, by name.

    Raises:
        ValidationError: a share has the name of another corpus, or a name that no corpus may have.
    """
    expanded: dict[str, _Corpus] = {}
    for name, corpus in corpora.items():
        expanded[name] = corpus
        for index, (label, share) in enumerate(corpus.shares.items()):
            share_id, trouble = share_name(name, label), ""
            if share_id in corpora or share_id in expanded:
                trouble = f"'{share_id}', and so is another corpus"
            elif len(share_id) > LONGEST_NAME:
                trouble = f"'{name}.' and the label, which are more than {LONGEST_NAME} characters"
            if trouble:
                problem = f"its share is named {trouble}; write it as a corpus of its own"
                raise failure(Complaint(problem, (name, "by", index)))
            expanded[share_id] = share
    return expanded


# What can be read of a model: under which view, at which site, against which null baseline; what a sink is.


View = Literal["words", "all", "no-sinks"]
"""Which tokens count: the text's own, every token, or the text's own without sinks and without its first one."""

Site = Literal["embedding", "block", "final", "attention"]
"""Where in a model states are read."""

NullBaseline = Literal["random-init", "shuffled"]
"""The same architecture with random weights, or the same weights on shuffled tokens."""


class SinkSpec(Part):
    """Two conditions, both of which a token must meet at some block; what is left out follows from the other.

    With neither, a sink is a token whose norm exceeds twice the median norm of its text and of which one coordinate
    outweighs all others together. ``factor`` alone is the rule of the norm alone.
    """

    factor: float | None = Field(
        None,
        gt=0,
        description="What a token's norm must exceed, in medians of its text; alone, the norm decides by itself. "
        "2 if left out.",
    )
    dominance: float | None = Field(
        None,
        gt=0,
        description="What one coordinate must weigh against all others together, (x_j - m_j)² / Σ x_i². 1 if both "
        "are left out.",
    )
