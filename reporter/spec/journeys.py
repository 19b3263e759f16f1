"""Journeys: texts whose tokens are followed through the layers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from reporter.spec.part import AsTuple, Complaint, Part, Prose, failure


class JourneySpec(Part):
    """One or several texts, and which of their tokens to follow.

    Several texts share one plane: that is how to look at a word with two meanings.
    """

    text: Prose | None = Field(None, description="The text.")
    texts: Annotated[tuple[Prose, ...], AsTuple] = Field((), description="Several texts, to be seen side by side.")
    follow: Annotated[tuple[Prose, ...], AsTuple] = Field(
        (), description="Words or tokens of the texts to list the nearest vocabulary tokens of; all if left out."
    )
    top: int = Field(15, ge=1, le=100, description="How many nearest vocabulary tokens are listed at each layer.")
    positions: bool = Field(
        False, description="Look also among vocabulary vectors to which the position's own vector is added."
    )

    @model_validator(mode="after")
    def _one_text_or_several(self) -> JourneySpec:
        if self.text is not None and self.texts:
            raise failure(Complaint("'text' and 'texts' exclude each other; keep one of them", ("texts",), "key"))
        if self.text is None and not self.texts:
            raise failure(Complaint("needs 'text', or 'texts' for several", (), "parent"))
        return self

    @property
    def all_texts(self) -> tuple[str, ...]:
        """The texts, also where there is one."""
        return self.texts if self.text is None else (self.text,)
