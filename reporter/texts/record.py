"""What a source of texts yields: one text as it was found, before any filter."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """One text as its source holds it.

    Args:
        text: the text, or None where the source has none (an SQL NULL, a JSON null, a missing key).
        label: its label as text, or None where it has none.
    """

    text: str | None
    label: str | None = None
