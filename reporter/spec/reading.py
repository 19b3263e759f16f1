"""What can be read of a model: under which view, at which site, against which null baseline; what a sink is."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reporter.spec.part import Part

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
