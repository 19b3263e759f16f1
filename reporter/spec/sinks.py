"""Which tokens a study takes for sinks."""

from __future__ import annotations

from pydantic import Field

from reporter.spec.part import Part


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
