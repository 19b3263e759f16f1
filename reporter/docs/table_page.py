"""The page of ``reporter tables``: what SQL can ask, with the comments in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reporter.docs.metric_page import wrapped
from reporter.store.database import Store
from reporter.store.schema import tables
from reporter.store.views import VIEWS
from reporter.table import Column

_TABLES = "SELECT table_name AS name, comment, estimated_size AS rows FROM duckdb_tables() WHERE {here}"
_COLUMNS = (
    "SELECT table_name, column_name AS name, data_type AS type, comment FROM duckdb_columns() WHERE {here} "
    "ORDER BY table_name, column_index"
)
_HERE = "database_name = current_database() AND NOT internal"


@dataclass(frozen=True)
class Described:
    """A table or a view, as a reader meets it.

    Args:
        name: its name.
        comment: what a row is.
        columns: in order.
        rows: how many it has in the results at hand; None without results, and for a view.
        of: the table that a view reads; empty for a table.
        more: what else there is to say of it.
    """

    name: str
    comment: str
    columns: tuple[Column, ...] = field(default=())
    rows: int | None = None
    of: str = ""
    more: str = ""


def described(path: Path) -> dict[str, Described]:
    """Return all tables and views by name: reporter's, and those that plug-ins left in a database.

    Args:
        path: a database, which need not be there.

    Raises:
        ReporterError: the database cannot be read, or is of a newer version.
    """
    stored: dict[str, dict[str, str | int]] = {}
    columns: dict[str, list[Column]] = {}
    if path.exists():
        store = Store(path)
        stored = {row["name"]: row for row in store.records(_TABLES.format(here=_HERE))}
        for row in store.records(_COLUMNS.format(here=_HERE)):
            columns.setdefault(row["table_name"], []).append(Column(row["name"], row["type"], row["comment"] or ""))
    found = {}
    for name, table in tables().items():
        rows = int(stored[name]["rows"]) if name in stored else None
        found[name] = Described(name, table.comment, table.columns, rows, more=table.more)
    for name, row in stored.items():
        if name not in found:
            found[name] = Described(name, str(row["comment"] or ""), tuple(columns[name]), int(row["rows"]))
    for name, view in VIEWS.items():
        found[name] = Described(name, view.comment, view.columns, of=view.of.name)
    return dict(sorted(found.items()))


def tables_page(found: Mapping[str, Described]) -> str:
    """Return each table and view with what a row of it is, and the names of its columns."""
    lines = []
    for table in found.values():
        lines += [_title(table), *wrapped(table.comment, "    ")]
        lines += [*wrapped(f"columns: {', '.join(column.name for column in table.columns)}", "    "), ""]
    return "\n".join([*lines, "`reporter tables NAME` says what each column holds."])


def table_page(table: Described) -> str:
    """Return all that is known of a table or a view: what a row is, and what each column holds."""
    lines = [_title(table), "", *wrapped(table.comment)]
    if table.more:
        lines += ["", *table.more.splitlines()]
    lines += ["", "columns (* together tell its rows apart)"]
    for column in table.columns:
        lines += wrapped(f"{column.name}{' *' if column.key else ''} {column.type}: {column.comment}", "    ")
    return "\n".join(lines)


def _title(table: Described) -> str:
    if table.of:
        return f"{table.name} (view of {table.of})"
    return table.name if table.rows is None else f"{table.name} ({table.rows:,} {'row' if table.rows == 1 else 'rows'})"
