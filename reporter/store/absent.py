"""Why a query finds nothing: values that it compares with a column of names and that the column does not have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from reporter.core.confined import quoted
from reporter.core.errors import hint, one_line
from reporter.store.schema import tables
from reporter.store.views import VIEWS

if TYPE_CHECKING:
    import duckdb

_FEW = 6
"""Names that a sentence lists rather than to guess the one that is meant."""


def is_nothing(rows: Sequence[Sequence[Any]]) -> bool:
    """Return whether a query found nothing: no row, or one row that counts or aggregates none."""
    return len(rows) < 2 and all(
        value is None or (isinstance(value, int | float) and value == 0) for row in rows for value in row
    )


def absent_values(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[str]:
    """Yield a sentence for each name that a statement looks for in vain; DuckDB parses the statement.

    Args:
        connection: of the results.
        sql: a statement that found nothing.
    """
    parsed = connection.execute("SELECT json_serialize_sql(?)", [sql.rstrip().removesuffix(";")]).fetchone()
    nodes = list(_nodes(json.loads(parsed[0]) if parsed else {}))
    columns = {name: {c.name for c in t.columns if c.type == "VARCHAR" and (c.key or c.part)} for name, t in _all()}
    read = {
        node["alias"].lower() or name: name
        for node in nodes
        if (name := str(node.get("table_name")).lower()) in columns
    }
    told = set()
    for (*table, column), values in _compared(nodes):
        owners = {read.get(table[-1].lower())} if table else set(read.values())
        places = sorted(name for name in owners if name and column.lower() in columns[name])
        if not places or (column, *values) in told:
            continue
        told.add((column, *values))
        names = [f'SELECT "{column}" AS name FROM {name}' for name in places]
        query = f"SELECT DISTINCT name FROM ({' UNION ALL '.join(names)}) WHERE name IS NOT NULL ORDER BY name"
        present = [name for (name,) in connection.execute(query).fetchall()]
        if present and not set(values) & set(present):
            for value in values:
                meant = hint(value if len(present) > _FEW else "", present, "there are")
                yield f"no {column} {quoted(one_line(value))}{meant}"


def _all() -> Iterable[tuple[str, Any]]:
    return {**tables(), **VIEWS}.items()


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every node of a parsed statement but what a NOT is about."""
    if isinstance(node, dict) and node.get("type") != "OPERATOR_NOT":
        yield node
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from _nodes(part)


def _compared(nodes: Iterable[dict[str, Any]]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the columns that must equal one of some texts, each as its path, with the texts."""
    for node in nodes:
        if node.get("type") == "COMPARE_EQUAL":
            yield from _equal(node["left"], [node["right"]])
            yield from _equal(node["right"], [node["left"]])
        elif node.get("type") == "COMPARE_IN":
            yield from _equal(node["children"][0], node["children"][1:])


def _equal(column: dict[str, Any], values: list[dict[str, Any]]) -> Iterator[tuple[list[str], list[str]]]:
    if column.get("function_name") == "row":
        rows = [value["arguments"] for value in values if value.get("function_name") == "row"]
        for part, *of_part in zip(column["arguments"], *rows, strict=False):
            yield from _equal(part["expression"], [value["expression"] for value in of_part])
    literals = [value.get("literal", {}) for value in values]
    if column.get("type") == "COLUMN_REF" and all(literal.get("kind") == "STRING" for literal in literals):
        yield column["column_names"], [literal["text"] for literal in literals]
