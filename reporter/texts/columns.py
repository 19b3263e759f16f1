"""Finds a column in a table, or says which ones there are."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from reporter.errors import ReporterError


def require_column(column: str | None, columns: Sequence[str], where: str, key: str = "column") -> str:
    """Return ``column`` if the table has it.

    Args:
        column: the name that the study gives; None if it gives none.
        columns: the table's columns.
        where: the table, as the message should name it.
        key: the study's key that names the column: ``column`` or ``label``.

    Raises:
        ReporterError: there is no such column, or two of that name; the message lists the columns.
    """
    if column is None:
        raise ReporterError(f"{where} is a table: say which column holds the texts, {key}: one of {listed(columns)}")
    if list(columns).count(column) > 1:
        raise ReporterError(f"{where} has more than one column '{column}'")
    if column not in columns:
        raise ReporterError(f"{where} has no column '{column}' ({key}){did_you_mean(column, columns)}")
    return column


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return "; did you mean 'text'? It has text, label" or just what there is."""
    folded = {other.casefold(): other for other in known}
    close = get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    hint = f"; did you mean '{folded[close[0]]}'?" if close else "."
    return f"{hint} It has {listed(known)}"


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names as one list, at most ``most`` of them."""
    if not names:
        return "no columns"
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
