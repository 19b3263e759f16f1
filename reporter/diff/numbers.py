"""Which numbers moved further than their intervals explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reporter.store.formats import Result
from reporter.store.schema import Table, find_table

if TYPE_CHECKING:
    import duckdb

SAME = 1e-5
"""Relative difference up to which two runs of one spec count as the same."""
SMALLEST = 1e-3
"""Numbers below this size are compared as if they had it: what is left of a cancellation is rounding."""

_TABLES = ("layer_metrics", "layer_pairs", "differences", "correlations")
# Parts of a number's name that all tables share, as SQL; what compares two sides is written 'a | b'.
_PAIRED = "CASE WHEN {0}_a IS NOT DISTINCT FROM {0}_b THEN {0}_a ELSE {0}_a || ' | ' || {0}_b END"
_NAMES = {
    "statistic": {"correlations": "feature || ' ~ ' || score || ' (' || method || ')'"},
    "model": {"layer_pairs": _PAIRED.format("model"), "differences": _PAIRED.format("model"), "correlations": "NULL"},
    "checkpoint": {
        "layer_pairs": _PAIRED.format("checkpoint"),
        "differences": _PAIRED.format("checkpoint"),
        "correlations": "NULL",
    },
    "corpus": {"differences": _PAIRED.format("corpus")},
    "site": {"layer_pairs": "NULL", "correlations": "NULL"},
    "layer": {"layer_pairs": "layer_a", "correlations": "NULL"},
    "layer_b": dict.fromkeys(("layer_metrics", "differences", "correlations"), "NULL"),
}
_WHERE = ("metric", "statistic", "model", "checkpoint", "corpus", "view", "site", "layer", "layer_b")

# The interval of b - a if both are independent, from the intervals of a and of b: the root of the summed squares of
# the two distances that face each other (MOVER; Zou & Donner 2008, Statistics in Medicine 27, 1693-1702). For
# symmetric intervals these are the half widths.
_JUDGED = f"""
CREATE TEMP TABLE judged AS
WITH sized AS (
  SELECT *, b - a AS delta,
    CASE WHEN b >= a THEN high_a - a ELSE a - low_a END AS towards_b,
    CASE WHEN b >= a THEN b - low_b ELSE high_b - b END AS towards_a,
    {SAME} * greatest(abs(a), abs(b), {SMALLEST}) AS tolerance
  FROM paired
)
SELECT * EXCLUDE (towards_a, towards_b, in_a, in_b, low_a, low_b, high_a, high_b),
  CASE WHEN towards_a IS NOT NULL OR towards_b IS NOT NULL
    THEN sqrt(greatest(coalesce(towards_a, 0), 0) ** 2 + greatest(coalesce(towards_b, 0), 0) ** 2) END AS interval,
  CASE WHEN in_b IS NULL THEN 'only in A'
    WHEN in_a IS NULL THEN 'only in B'
    WHEN a IS NULL AND b IS NULL THEN 'same'
    WHEN b IS NULL THEN 'became NULL'
    WHEN a IS NULL THEN 'was NULL'
    WHEN abs(delta) <= tolerance THEN 'same'
    WHEN abs(delta) <= interval THEN 'within'
    ELSE 'moved' END AS change
FROM sized
"""

_SUMMARY = """
SELECT metric, count(*) FILTER (change NOT IN ('only in A', 'only in B')) AS compared,
  count(*) FILTER (change = 'same') AS same,
  count(*) FILTER (change = 'within') AS "within interval",
  count(*) FILTER (change = 'moved') AS moved,
  count(*) FILTER (change = 'became NULL') AS "became NULL",
  count(*) FILTER (change = 'was NULL') AS "was NULL",
  count(*) FILTER (change = 'only in A') AS "only in A",
  count(*) FILTER (change = 'only in B') AS "only in B"
FROM judged GROUP BY metric ORDER BY metric
"""

# Largest first: in intervals where there is one, else in parts of the number; never the two kinds in one order.
_CHANGED = f"""
SELECT change, metric, statistic, model, checkpoint, corpus, view, site, layer, layer_b, a, b, delta, interval,
  abs(delta) / nullif(interval, 0) AS intervals,
  abs(delta) / greatest(abs(a), abs(b), {SMALLEST}) AS relative
FROM judged WHERE change NOT IN ('same', 'within')
ORDER BY list_position(['moved', 'became NULL', 'was NULL', 'only in A', 'only in B'], change),
  interval IS NULL, if(interval > 0, -intervals, NULL) NULLS FIRST, relative DESC,
  metric, statistic, model, checkpoint, corpus, view, site, layer, layer_b
"""


def number_changes(connection: duckdb.DuckDBPyConnection) -> tuple[Result, Result]:
    """Compare all numbers of two sides.

    A number moved if it differs by more than the interval of the difference of two independent estimates. Two runs on
    the same texts share their bootstrap weights and are not independent: their true interval is narrower, so that what
    is called moved has moved, and what is called within may have, too. A number without an interval moved if it
    differs by more than ``SAME``.

    Args:
        connection: has the views of both sides; gets a temporary table.

    Returns:
        How many numbers of each metric are the same, within their intervals, moved…; and each number that moved, became
        or was NULL, or is on one side only, the largest moves first.
    """
    tables = [_paired(find_table(name)) for name in _TABLES]
    connection.execute("CREATE TEMP VIEW paired AS " + " UNION ALL BY NAME ".join(tables))
    connection.execute(_JUDGED)
    return _result(connection, _SUMMARY), _result(connection, _CHANGED)


def _paired(table: Table) -> str:
    """The query that puts both sides of a table's numbers beside each other, under the names that all tables share."""
    columns = {column.name for column in table.columns}
    names = [_NAMES.get(part, {}).get(table.name, part) for part in _WHERE]
    where = ", ".join(f"{name} AS {part}" for name, part in zip(names, _WHERE, strict=True))
    keys = [f'"{key}"' for key in table.key if key != "study"]
    both = " AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys)
    either = ", ".join(f"coalesce(a.{key}, b.{key}) AS {key}" for key in keys)
    assert {"value", "ci_low", "ci_high"} <= columns
    return f"""
(SELECT {where}, a, b, low_a, low_b, high_a, high_b, in_a, in_b FROM (
  SELECT {either}, a.value AS a, b.value AS b, a.ci_low AS low_a, b.ci_low AS low_b, a.ci_high AS high_a,
    b.ci_high AS high_b, a.present AS in_a, b.present AS in_b
  FROM (SELECT *, true AS present FROM a_{table.name}) AS a
  FULL JOIN (SELECT *, true AS present FROM b_{table.name}) AS b ON {both}
))"""


def _result(connection: duckdb.DuckDBPyConnection, query: str) -> Result:
    cursor = connection.execute(query)
    rows = cursor.fetchall()
    return Result(tuple(column[0] for column in cursor.description), rows, len(rows))
