"""What a study may ask for. The room of the spec knows no metric and no statistic: whoever reads a study hands them on.

It travels as Pydantic's validation context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationInfo

Statistics = Mapping[str, Mapping[str, str]]
"""By metric, the names of its statistics and what each has one number for (``Statistic.per``)."""

Fixed = Mapping[str, tuple[tuple[str, float], ...]]
"""By full name of a statistic, the ends of a profile (``first``, ``last``) whose value is fixed by definition."""


@dataclass(frozen=True)
class Offer:
    """What there is to ask for.

    Args:
        metrics: by name, the model of each metric's options.
        statistics: each metric's and analysis's statistics; without them, claims are not checked for statistics that
            do not exist.
        fixed: where statistics have their value by definition, so that a claim of a peak there says nothing.
    """

    metrics: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    statistics: Statistics = field(default_factory=dict)
    fixed: Fixed = field(default_factory=dict)


def offer_of(info: ValidationInfo) -> Offer:
    """Return what the study that is being checked may ask for; nothing where nobody said."""
    return info.context if isinstance(info.context, Offer) else Offer()
