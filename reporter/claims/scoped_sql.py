"""One number by SQL: the user's query, sandboxed, over the rows of one study."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from reporter.claims.evidence import quoted
from reporter.claims.missing import Missing
from reporter.claims.numbers import Number, finite
from reporter.errors import ReporterError

if TYPE_CHECKING:
    from reporter.spec import Study
    from reporter.store import Store


def sql_number(store: Store, study: Study, sql: str) -> Number:
    """Return the first row of a query as a number.

    The query sees the rows of this study alone: another study of the same database may well have a model of the same
    name. The rows of ``layer_metrics`` and ``over_models`` come in the order of the study's views and corpora, so that
    "the first row" means something; ``main.layer_metrics`` is everything.

    Args:
        store: the database.
        study: the study.
        sql: one query. Its column ``value``, or its only column, is the number; ``ci_low`` and ``ci_high`` its
        interval.

    Raises:
        Missing: the query is wrong, gives no row, or no number.
    """
    from reporter.store import query

    text = sql.strip().removesuffix(";")
    try:
        rows = json.loads(query(store.path, _scoped(study, text), "json"))
    except ReporterError as error:
        # The query stands below one line of our own.
        message = re.sub(r"\(line (\d+)", lambda found: f"(line {max(1, int(found[1]) - 1)}", str(error))
        raise Missing(f"the query does not work: {message}") from None
    if not rows:
        raise Missing("the query gives no row")
    first: dict[str, Any] = rows[0]
    names = {name.lower(): name for name in first}
    if "value" not in names and len(names) > 1:
        raise Missing(f"the query gives the columns {', '.join(first)}; name one of them 'value'")
    value = _number(first, names.get("value", next(iter(first))))
    if value is None:
        raise Missing("the first row of the query has no value (NULL)")
    low, high = (_number(first, names[name]) if name in names else None for name in ("ci_low", "ci_high"))
    notes = [f"the query gives {len(rows):,} rows; the first was taken"] if len(rows) > 1 else []
    return Number(value, low, high, tuple(notes))


def _scoped(study: Study, sql: str) -> str:
    from reporter.store.schema import tables as known

    own = f"WHERE study = {quoted(study.study)}"
    order = ", ".join(
        f"list_position([{', '.join(map(quoted, names))}], {column})"
        for column, names in (("view", study.views), ("corpus", tuple(study.corpora)))
        if names
    )
    tables = []
    for table in known().values():
        if any(column.name == "study" for column in table.columns):
            sort = f" ORDER BY {order}, rowid" if table.name in ("layer_metrics", "over_models") else ""
            tables.append(f"{table.name} AS (FROM main.{table.name} {own}{sort})")
    return f"WITH {', '.join(tables)} FROM (\n{sql}\n)"


def _number(row: dict[str, Any], name: str) -> float | None:
    value = row[name]
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = float(value)  # DuckDB writes exact decimals as text
        except ValueError:
            raise Missing(f"column {name} of the query is no number: {value!r}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not finite(value):
        raise Missing(f"column {name} of the query is no finite number: {value!r}")
    return float(value)
