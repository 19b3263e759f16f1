"""Which numbers moved further than their intervals explain, and which claims came out differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reporter.diff.compared import PLACE, paired
from reporter.store.formats import Result

if TYPE_CHECKING:
    import duckdb

SAME = 1e-5
"""Relative difference up to which two runs of one spec count as the same."""
SMALLEST = 1e-3
"""Numbers below this size are compared as if they had it: what is left of a cancellation is rounding."""

# The interval of b - a if both are independent, from the intervals of a and of b: the root of the summed squares of
# the two distances that face each other (MOVER; Zou & Donner 2008, Statistics in Medicine 27, 1693-1702). For
# symmetric intervals these are the half widths. Of two models of one study, of which one is the other's base, the run
# stored the interval of the difference on the same texts, which is narrower; that one counts where there is one.
#
# Views under which all numbers of a profile are the same on both sides are one: without sinks 'words' is 'no-sinks'.
_WHOSE = "metric, statistic, model, checkpoint, corpus"
_PLACE = ("metric", "statistic", "corpus", "view", "site", "layer")
_JUDGED = f"""
CREATE TEMP TABLE judged AS
WITH signed AS (
  SELECT {_WHOSE}, view, hash(list(
    (site, layer, layer_b, a, b, low_a, high_a, low_b, high_b, in_a, in_b)
    ORDER BY site, layer, layer_b, a, b, low_a, low_b)) AS sign
  FROM paired WHERE view IS NOT NULL GROUP BY ALL
), together AS (
  SELECT {_WHOSE}, min(view) AS view, string_agg(view, ', ' ORDER BY view) AS views FROM signed
  GROUP BY {_WHOSE}, sign
), once AS (
  SELECT paired.* REPLACE (coalesce(views, paired.view) AS view), reach FROM paired LEFT JOIN together
    ON {" AND ".join(f"paired.{name} IS NOT DISTINCT FROM together.{name}" for name in (*_WHOSE.split(", "), "view"))}
  LEFT JOIN paired_over_texts AS texts
    ON {" AND ".join(f"paired.{name} IS NOT DISTINCT FROM texts.{name}" for name in _PLACE)} AND layer_b IS NULL
  WHERE paired.view IS NULL OR views IS NOT NULL
), sized AS (
  SELECT *, b - a AS delta,
    CASE WHEN b >= a THEN high_a - a ELSE a - low_a END AS towards_b,
    CASE WHEN b >= a THEN b - low_b ELSE high_b - b END AS towards_a,
    {SAME} * greatest(abs(a), abs(b), {SMALLEST}) AS tolerance
  FROM once
)
SELECT * EXCLUDE (towards_a, towards_b, in_a, in_b, reach),
  CASE WHEN reach IS NOT NULL THEN reach
    WHEN towards_a IS NOT NULL OR towards_b IS NOT NULL
    THEN sqrt(greatest(coalesce(towards_a, 0), 0) ** 2 + greatest(coalesce(towards_b, 0), 0) ** 2) END AS interval,
  CASE WHEN reach IS NOT NULL THEN 'paired' WHEN interval IS NOT NULL THEN 'not paired' END AS texts,
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
  count(interval) FILTER (delta IS NOT NULL) AS "with interval",
  count(*) FILTER (change = 'same') AS same,
  count(*) FILTER (change = 'within') AS "within interval",
  count(*) FILTER (change = 'moved') AS moved,
  count(*) FILTER (change = 'became NULL') AS "became NULL",
  count(*) FILTER (change = 'was NULL') AS "was NULL",
  count(*) FILTER (change = 'only in A') AS "only in A",
  count(*) FILTER (change = 'only in B') AS "only in B"
FROM judged GROUP BY metric ORDER BY metric
"""

# Largest first: in intervals where there is one, else in parts of the number; never the two kinds in one order. Floors
# come last: they are read beside what they are the floor of.
_CHANGED = f"""
SELECT change, {", ".join(PLACE)}, a, b, delta, interval, texts,
  abs(delta) / nullif(interval, 0) AS intervals,
  abs(delta) / greatest(abs(a), abs(b), {SMALLEST}) AS relative
FROM judged WHERE change NOT IN ('same', 'within')
ORDER BY list_position(['moved', 'became NULL', 'was NULL', 'only in A', 'only in B'], change),
  ends_with(statistic, '_floor'), interval IS NULL, if(interval > 0, -intervals, NULL) NULLS FIRST, relative DESC,
  {", ".join(PLACE)}
"""


def number_changes(connection: duckdb.DuckDBPyConnection) -> tuple[Result, Result]:
    """Compare all numbers of two sides.

    A number moved if it differs by more than the interval of the difference of two independent estimates. Two runs on
    the same texts share their bootstrap weights and are not independent: their true interval is narrower, so that what
    is called moved has moved, and what is called within may have, too. Of estimates that are independent one in twenty
    moves by chance, as the intervals are 95 % ones. A number without an interval moved if it
    differs by more than ``SAME``.

    Args:
        connection: has the views of both sides; gets a temporary table.

    Returns:
        How many numbers of each metric are the same, within their intervals, moved…; and each number that moved, became
        or was NULL, or is on one side only, the largest moves first. Views that are alike count once.
    """
    connection.execute(f"CREATE TEMP VIEW paired AS {paired()}")
    connection.execute(_JUDGED)
    return _result(connection, _SUMMARY), _result(connection, _CHANGED)


# What makes a profile: everything that tells numbers apart but the layer. NULL is a name like others.
_PROFILE = ("metric", "statistic", "model", "checkpoint", "corpus", "view")
_PROFILES = f"""
WITH moved AS (
  SELECT {", ".join(_PROFILE)}, count(*) FILTER (change = 'moved') AS moved,
    max(abs(delta) / nullif(interval, 0)) FILTER (change = 'moved') AS furthest
  FROM judged
  WHERE site IN ('embedding', 'block') AND layer_b IS NULL AND NOT ends_with(statistic, '_floor')
  GROUP BY ALL HAVING moved > 0
  ORDER BY furthest DESC NULLS LAST, moved DESC, {", ".join(_PROFILE)} LIMIT {{most}}
)
SELECT {", ".join(f"judged.{name}" for name in _PROFILE)}, layer, a, b, low_a, high_a, low_b, high_b, change,
  moved, furthest
FROM judged JOIN moved ON {" AND ".join(f"judged.{name} IS NOT DISTINCT FROM moved.{name}" for name in _PROFILE)}
WHERE site IN ('embedding', 'block') AND layer_b IS NULL
ORDER BY furthest DESC NULLS LAST, moved DESC, {", ".join(f"judged.{name}" for name in _PROFILE)}, layer
"""
MOST_PROFILES = 120
"""So many profiles are drawn, those that moved furthest."""


def profiles_that_moved(connection: duckdb.DuckDBPyConnection) -> Result:
    """Return the profiles over layers in which a number moved, whole, the one that moved furthest first.

    Args:
        connection: has been through :func:`number_changes`.

    Returns:
        One row for each layer of each profile: what it is of, the numbers and intervals of both sides, how many numbers
        of the profile moved, and by how many intervals at most.
    """
    return _result(connection, _PROFILES.format(most=MOST_PROFILES))


def _result(connection: duckdb.DuckDBPyConnection, query: str) -> Result:
    cursor = connection.execute(query)
    rows = cursor.fetchall()
    return Result(tuple(column[0] for column in cursor.description), rows, len(rows))


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
