"""The keys that all corpora share; the sources of texts add theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from reporter.study.offer import Reference
from reporter.study.part import LONGEST_NAME, AsTuple, Name, Part, Text, no_repeats, wrong
from reporter.study.recipes import share_name

ALIKE = 1.25
"""Corpora of which one has at most so many times the words of the other count as equally large: that is a third of a
doubling, by which a statistic that moves with the size of the corpus moves within its interval."""


class CorpusPart(Part):
    """The keys of every corpus that choose its texts; a source of texts derives its own part from it."""

    references: ClassVar[tuple[Reference, ...]] = (Reference("size_of", "corpora", says="takes its size from corpus"),)
    """The keys under which it names models or other corpora, which must be there first."""

    min_words: int = Field(1, ge=1, description="Drop texts with fewer words.")
    max_words: int | None = Field(None, ge=1, description="Drop texts with more words.")
    limit: int | None = Field(
        None, ge=1, description="Keep only this many texts: the first ones that pass the filters."
    )
    size_of: Name | None = Field(
        None,
        description="Another corpus of this study. Texts are sampled until this corpus has as many words as the other. "
        "A hash of each text decides the sample.",
    )
    max_tokens: int = Field(256, ge=2, description="Cut longer texts to this many tokens, including special tokens.")
    window: int | None = Field(
        None,
        ge=4,
        description="Read longer texts whole, in windows of at most this many tokens, including special tokens. Each "
        "token counts once.",
    )
    stride: int | None = Field(
        None,
        ge=1,
        description="Tokens from the start of one window to the start of the next. Default: half of `window`. Repeated "
        "tokens are context and do not count. A smaller stride gives each token more context and takes longer.",
    )

    @property
    def longest(self) -> int:
        """The most tokens that a model reads of a text at once."""
        return self.window or self.max_tokens

    @property
    def shares(self) -> Mapping[str, Self]:
        """The corpora of single labels or roles that ``by`` creates, by label."""
        return {}

    @model_validator(mode="after")
    def _windows_are_whole(self) -> CorpusPart:
        if self.stride is not None and self.window is None:
            raise wrong("needs `window`; add `window: 512`, or remove `stride`", "stride")
        if self.window is not None and "max_tokens" in self.model_fields_set:
            raise wrong("cannot be combined with `window`, which reads whole texts; remove one of them", "max_tokens")
        if self.window is not None and self.stride is not None and self.stride > self.window:
            message = f"must be at most `window` ({self.window}), since a larger stride skips tokens; got {self.stride}"
            raise wrong(message, "stride")
        return self

    @model_validator(mode="after")
    def _some_length_is_left(self) -> CorpusPart:
        if self.max_words is not None and self.max_words < self.min_words:
            raise wrong(f"must be at least `min_words` ({self.min_words}), got {self.max_words}", "max_words")
        return self


class LabelledCorpus(CorpusPart):
    """The keys of a corpus whose source has labels."""

    label: Text | None = Field(None, description="Column with the label of each text.")
    cluster: Text | None = Field(
        None,
        description="Column with the author, document or thread of each text. Texts of one value are one unit of "
        "intervals and tests.",
    )
    only: Annotated[tuple[Text, ...], AsTuple] | None = Field(
        None, min_length=1, description="Keep only texts with these labels."
    )
    by: Annotated[tuple[Text, ...], AsTuple, AfterValidator(no_repeats)] = Field(
        (),
        description="Labels, or roles of a chat, to measure separately as well. Each adds a corpus NAME.LABEL with the "
        "same keys and only that label. `limit` counts the texts of each corpus.",
    )

    @property
    def shares(self) -> Mapping[str, Self]:
        """The corpora of single labels or roles."""
        return {label: self.model_copy(update={**self.share_of(label), "by": ()}) for label in self.by}

    def share_of(self, label: str) -> dict[str, Any]:
        """Return the keys in which the corpus of one label differs."""
        return {"only": (label,)}

    @property
    def marks(self) -> Mapping[str, str | None]:
        """The columns of what a table tells of each text, by key."""
        return {"label": self.label, "cluster": self.cluster}

    @model_validator(mode="after")
    def _labels_are_there(self) -> LabelledCorpus:
        by_label = self.by and "only" in self.share_of("")
        for key, labels in (("only", self.only), ("by", by_label)):
            if labels and self.label is None:
                raise wrong(f"needs labels; add `label: COLUMN`, or remove `{key}`", key)
        for index, label in enumerate(self.by if by_label and self.only is not None else ()):
            if label not in self.only:  # type: ignore[operator]
                raise wrong(f"'{label}' is not in `only`; add it there, or remove it here", "by", index)
        return self


_Corpus = TypeVar("_Corpus", bound=CorpusPart)


def with_shares(corpora: dict[str, _Corpus]) -> dict[str, _Corpus]:
    """Return the corpora of a study and behind each one its shares, by name.

    Raises:
        ValidationError: a share has a name that no corpus may have.
    """
    expanded: dict[str, _Corpus] = {}
    taken = {name.casefold(): name for name in reversed(corpora)}
    for name, corpus in corpora.items():
        expanded[name] = corpus
        for index, (label, share) in enumerate(corpus.shares.items()):
            share_id, trouble = share_name(name, label), ""
            if twin := taken.get(share_id.casefold()):
                trouble = f"'{share_id}', which is taken; rename the other corpus"
                if twin != share_id:
                    trouble = f"'{share_id}', which differs from '{twin}' in case; define one with `only`"
            elif len(share_id) > LONGEST_NAME:
                trouble = (
                    f"'{name}.' and the label, more than {LONGEST_NAME} characters; shorten the name of the corpus"
                )
            if trouble:
                raise wrong(f"`by` adds a corpus named {trouble}", name, "by", index)
            expanded[share_id] = share
            taken[share_id.casefold()] = share_id
    return expanded


# What can be read of a model: under which view, at which site, against which null baseline; what a sink is.


Site = Literal["embedding", "block", "final", "attention"]
"""Where in a model states are read."""

NullBaseline = Literal["random-init", "shuffled"]
"""The same architecture with random weights, or the same weights on shuffled tokens."""


class SinkSpec(Part):
    """Two conditions for a sink, a token that meets both at some block.

    Default: the norm exceeds twice the median norm of the text, and one coordinate outweighs all others together.
    ``factor`` without ``dominance`` uses the norm alone.
    """

    factor: float | None = Field(
        None,
        gt=0,
        description="A sink's norm exceeds this many medians of its text. Default: 2. Without `dominance`, only the "
        "norm decides.",
    )
    dominance: float | None = Field(
        None,
        gt=0,
        description="Minimum weight of the largest coordinate against all others together, (x_j - m_j)² / Σ x_i². "
        "Default: 1 if both keys are left out.",
    )
