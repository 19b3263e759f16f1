"""Which claims came out differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reporter.store.formats import Result

if TYPE_CHECKING:
    import duckdb

# A claim is told by its name, the view and the null baseline that it was tested under.
_QUERY = """
SELECT coalesce(a.claim, b.claim) AS claim, coalesce(a.view, b.view) AS view,
  coalesce(a.baseline, b.baseline) AS baseline, a.verdict AS a, b.verdict AS b, a.value AS value_a,
  b.value AS value_b, coalesce(b.says, a.says) AS says
FROM a_claims AS a FULL JOIN b_claims AS b
  ON a.claim = b.claim AND a.view IS NOT DISTINCT FROM b.view AND a.baseline IS NOT DISTINCT FROM b.baseline
WHERE a.verdict IS DISTINCT FROM b.verdict
ORDER BY 1, 3 NULLS FIRST, 2
"""


def verdict_changes(connection: duckdb.DuckDBPyConnection) -> Result:
    """Compare the verdicts of two sides; a claim that only one side has has no verdict on the other.

    Args:
        connection: has the views of both sides.

    Returns:
        One row for each claim, view and baseline whose verdict is not the same.
    """
    cursor = connection.execute(_QUERY)
    rows = cursor.fetchall()
    return Result(tuple(column[0] for column in cursor.description), rows, len(rows))
