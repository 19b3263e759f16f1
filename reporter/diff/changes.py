"""One thing that is not the same on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Change:
    """Something that differs.

    Args:
        where: its name: a path inside the study file, or what was recorded of which model or corpus.
        a: what the first side says; None where it says nothing.
        b: what the second side says.
    """

    where: str
    a: Any
    b: Any
