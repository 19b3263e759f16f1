"""Numbers that changed by more than their intervals explain, and claims that changed their verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reporter.app.diff.contrasts import Blocks, bring_to_common_depths, contrasts
from reporter.judge.facts import declared, main_statistics
from reporter.metrics.analysis import analyses
from reporter.metrics.base import catalogue
from reporter.store.formats import Result
from reporter.store.merging import SAME, SMALLEST
from reporter.store.schema import find_table, number_tables, tables
from reporter.study.corpora import ALIKE

if TYPE_CHECKING:
    import duckdb

NAMES = ("metric", "statistic", "model", "checkpoint", "corpus", "view", "site", "layer", "layer_b")
"""Columns that name a number in every comparison."""


def _pair(column: str) -> str:
    """Return the SQL of the name 'a | b' of a number that compares two models or corpora, like its cell."""
    a, b = f"{column}_a", f"{column}_b"
    return f"CASE WHEN {a} IS NOT DISTINCT FROM {b} THEN {a} ELSE {a} || ' | ' || {b} END"


def _joins() -> Iterator[str]:
    """Yield the queries that join the numbers of both sides.

    Their columns are ``NAMES`` and, for each side ``a`` and ``b``: the number, ``low_…``, ``high_…``, and ``in_…``,
    which is NULL if that side has no such row.
    """
    models = {"model": _pair("model"), "checkpoint": _pair("checkpoint")}
    yield _join("layer_metrics", {})
    yield _join("layer_pairs", models | {"site": "NULL", "layer": "layer_a", "layer_b": "layer_b"})
    yield _join("differences", models | {"corpus": _pair("corpus")})
    correlation = {"statistic": "feature || ' ~ ' || score || ' (' || method || ')'"}
    yield _join("correlations", dict.fromkeys(("model", "checkpoint", "site", "layer"), "NULL") | correlation)
    step = "coalesce('step ' || step, 'the last ones')"
    yield _join("over_models", {"model": "'mean over ' || role || 's'", "checkpoint": step})
    # Tables declare which of their other numbers are compared: of metrics, analyses, answers and findings.
    for table in tables().values():
        metric = "".join(table.holding("metric") * (table.name in number_tables()))
        names = {"metric": metric or f"'{table.fixed.get('metric', table.name)}'"}
        names |= {name: name if name in table.types else "NULL" for name in ("model", "checkpoint", "view")}
        names |= {name: name if name in table.key else "NULL" for name in ("site", "layer")}
        for compared in table.compared:
            interval = ("ci_low", "ci_high") if compared.interval is True else compared.interval or ("", "")
            for value in compared.values:
                title = f"'{value} of ' || {compared.of}" if compared.of else compared.statistic or f"'{value}'"
                full_names = names | {"statistic": title, "corpus": compared.about}
                yield _join(table.name, full_names, value, interval, compared.by, compared.among)


def _join(
    name: str,
    names: Mapping[str, str],
    value: str = "value",
    interval: tuple[str, str] = ("ci_low", "ci_high"),
    keys: Sequence[str] = (),
    among: str = "",
) -> str:
    """Return the full join of a column of both sides; ``keys`` identify a row, the table's key by default."""
    table = find_table(name)
    sql = {column: column for column in NAMES} | {"layer_b": "NULL"} | dict(names)
    columns = [f'"{column}"' for column in table.types if column != "study"]
    numbers = [f"'{name}' AS source"]
    for side in "ab":
        numbers.append(f"{side}.present AS in_{side}")
        for column, alias in zip((value, *interval), (side, f"low_{side}", f"high_{side}"), strict=True):
            numbers.append(f'{side}."{column}"::DOUBLE AS {alias}' if column else f"NULL::DOUBLE AS {alias}")
    on = " AND ".join(f'a."{key}" IS NOT DISTINCT FROM b."{key}"' for key in keys or table.key if key != "study")
    return f"""
(SELECT {", ".join(f"{sql[column]} AS {column}" for column in NAMES)}, source, a, b, low_a, low_b, high_a, high_b,
  in_a, in_b
FROM (
  SELECT {", ".join(f"coalesce(a.{column}, b.{column}) AS {column}" for column in columns)}, {", ".join(numbers)}
  FROM (SELECT *, true AS present FROM a_{name} {among}) AS a
  FULL JOIN (SELECT *, true AS present FROM b_{name} {among}) AS b ON {on}
))"""


# Token sets with the same numbers of a profile on both sides count once: no sinks, and two sets are the same.
_WHOSE = "metric, statistic, model, checkpoint, corpus"
_NUMBERS = f"""
CREATE TEMP TABLE numbers AS
WITH signed AS (
  SELECT {_WHOSE}, view, hash(list(
    (site, layer, layer_b, a, b, low_a, high_a, low_b, high_b, in_a, in_b)
    ORDER BY site, layer, layer_b, a, b, low_a, low_b)) AS sign
  FROM paired WHERE view IS NOT NULL GROUP BY ALL
), together AS (
  SELECT {_WHOSE}, min(view) AS view, string_agg(view, ', ' ORDER BY view) AS views FROM signed
  GROUP BY {_WHOSE}, sign
)
SELECT row_number() OVER () AS id, paired.* REPLACE (coalesce(views, paired.view) AS view), paired.view AS one_view,
  b - a AS delta, abs(delta) > {SAME} * greatest(abs(a), abs(b), {SMALLEST}) AS differs
FROM paired LEFT JOIN together
  ON {" AND ".join(f"paired.{name} IS NOT DISTINCT FROM together.{name}" for name in (*_WHOSE.split(", "), "view"))}
WHERE paired.view IS NULL OR views IS NOT NULL
"""
_DIFFERING = """
SELECT numbers.* REPLACE (one_view AS view), down, up FROM numbers LEFT JOIN paired_over_texts AS texts
  ON (numbers.metric, numbers.statistic, numbers.corpus, one_view) = (texts.metric, texts.statistic, texts.corpus,
    texts.view) AND numbers.site IS NOT DISTINCT FROM texts.site AND numbers.layer IS NOT DISTINCT FROM texts.layer
    AND layer_b IS NULL
WHERE differs
"""
_JUDGED = """
CREATE TEMP TABLE judged AS
SELECT numbers.*, ci_low, ci_high, p, texts, if(delta >= 0, delta - ci_low, ci_high - delta) AS interval,
  CASE WHEN in_b IS NULL THEN 'only in A'
    WHEN in_a IS NULL THEN 'only in B'
    WHEN b IS NULL AND a IS NOT NULL THEN 'NULL in B'
    WHEN a IS NULL AND b IS NOT NULL THEN 'NULL in A'
    WHEN differs IS NOT TRUE THEN 'same'
    WHEN abs(delta) <= interval THEN 'within'
    ELSE 'changed' END AS change
FROM numbers LEFT JOIN contrasts USING (id)
"""

_SUMMARY = """
SELECT metric, count(*) FILTER (change NOT IN ('only in A', 'only in B')) AS compared,
  count(*) FILTER (delta IS NOT NULL AND coalesce(low_a, low_b, ci_low) IS NOT NULL) AS "with interval",
  count(*) FILTER (change = 'same') AS same,
  count(*) FILTER (change = 'within') AS "within interval",
  count(*) FILTER (change = 'changed') AS changed,
  count(*) FILTER (change = 'NULL in A') AS "NULL in A",
  count(*) FILTER (change = 'NULL in B') AS "NULL in B",
  count(*) FILTER (change = 'only in A') AS "only in A",
  count(*) FILTER (change = 'only in B') AS "only in B"
FROM judged GROUP BY metric ORDER BY metric
"""

# Largest first: in intervals where there is one, else in parts of the number; never the two kinds in one order. Chance
# levels come last.
_CHANGED = f"""
SELECT change, {", ".join(NAMES)}, a, b, delta, ci_low, ci_high, p, interval, texts,
  abs(delta) / nullif(interval, 0) AS intervals,
  abs(delta) / greatest(abs(a), abs(b), {SMALLEST}) AS relative
FROM judged WHERE change NOT IN ('same', 'within')
ORDER BY list_position(['changed', 'NULL in B', 'NULL in A', 'only in A', 'only in B'], change),
  ends_with(statistic, '_floor'), interval IS NULL, if(interval > 0, -intervals, NULL) NULLS FIRST, relative DESC,
  {", ".join(NAMES)}
"""

_LARGEST = ("layer", "layer_b", "a", "b", "delta", "ci_low", "ci_high")
"""Columns of the largest change of a statistic."""

# The numbers of a statistic at all layers are one row. Main statistics come first, and numbers that a run derives
# from others (answers, findings) last.
_PROFILES = f"""
WITH located AS (
  SELECT *, if(site IN ('embedding', 'block'), NULL, site) AS position,
    list_contains($main, metric || '.' || statistic) AS main, list_contains($measured, metric) AS measured
  FROM judged
), counted AS (
  SELECT *, count(delta) OVER (
    PARTITION BY metric, statistic, model, checkpoint, corpus, view, position
  ) AS compared
  FROM located
)
SELECT metric, statistic, model, checkpoint, corpus, view, position AS site, interval IS NOT NULL AS with_interval,
  count(*) AS changed, any_value(compared) AS compared, min(texts) AS texts,
  {", ".join(f"max_by({name}, abs(delta)) AS {name}" for name in _LARGEST)}
FROM counted WHERE change = 'changed'
GROUP BY metric, statistic, model, checkpoint, corpus, view, position, with_interval
ORDER BY NOT any_value(main), NOT any_value(measured), ends_with(statistic, '_floor'),
  max(abs(delta) / nullif(interval, 0)) DESC NULLS FIRST, max(abs(delta) / greatest(abs(a), abs(b), {SMALLEST})) DESC,
  metric, statistic, model, checkpoint, corpus, view, position
"""


def number_changes(connection: duckdb.DuckDBPyConnection, blocks: Blocks) -> tuple[Result, Result, Result]:
    """Return counts by metric, each number that changed, and the changes of each statistic over layers.

    A number changed if both sides differ by more than the interval of their difference: on the same texts, where both
    have their parts, else as if independent, which is too wide on the same texts: every "changed" is a change then, and
    some "within" are too. Of independent estimates one in twenty changes by chance. A number without an
    interval changed if it differs by more than ``SAME``. Views with equal numbers count once. The largest changes come
    first. Models that differ in their number of ``blocks`` are compared at the relative depths of the shallower one.
    """
    if blocks is not None:
        bring_to_common_depths(connection, blocks)
    connection.execute(f"CREATE TEMP VIEW paired AS {' UNION ALL BY NAME '.join(_joins())}")
    connection.execute(_NUMBERS)
    connection.register("contrasts", contrasts(connection, connection.execute(_DIFFERING).df(), blocks))
    connection.execute(_JUDGED)
    profiles = _result(connection, _PROFILES, {"main": [*main_statistics()], "measured": [*catalogue(), *analyses()]})
    return _result(connection, _SUMMARY), _result(connection, _CHANGED), profiles


_GROWING = """
SELECT corpus, a_corpora.words, b_corpora.words, list_sort(list(DISTINCT metric || '.' || statistic))
FROM judged JOIN a_corpora USING (corpus) JOIN b_corpora USING (corpus)
WHERE change IN ('changed', 'within') AND list_contains($growing, metric || '.' || statistic)
  AND greatest(a_corpora.words, b_corpora.words) > $alike * least(a_corpora.words, b_corpora.words)
GROUP BY ALL ORDER BY corpus
"""


def size_notes(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return a caution for each corpus of unequal size with numbers that change with it, after `number_changes`."""
    growing = [name for name, (_, statistic) in declared().items() if statistic.grows]
    rows = connection.execute(_GROWING, {"growing": growing, "alike": ALIKE}).fetchall()
    return [
        f"Caution: corpus '{corpus}' has {a:,} words in A and {b:,} in B. These numbers change with the size of a "
        f"corpus and are not comparable: {', '.join(names)}"
        for corpus, a, b, names in rows
    ]


def _result(connection: duckdb.DuckDBPyConnection, query: str, values: Mapping[str, Any] | None = None) -> Result:
    cursor = connection.execute(query, values)
    rows = cursor.fetchall()
    return Result(tuple(column[0] for column in cursor.description), rows, len(rows))


# A claim is identified by its name, the view and the null baseline under which it was tested.
_VERDICTS = """
SELECT coalesce(a.claim, b.claim) AS claim, coalesce(a.view, b.view) AS view,
  coalesce(a.baseline, b.baseline) AS baseline, a.verdict AS a, b.verdict AS b, a.value AS value_a,
  b.value AS value_b, coalesce(b.says, a.says) AS says
FROM a_claims AS a FULL JOIN b_claims AS b
  ON a.claim = b.claim AND a.view IS NOT DISTINCT FROM b.view AND a.baseline IS NOT DISTINCT FROM b.baseline
WHERE a.verdict IS DISTINCT FROM b.verdict
ORDER BY 1, 3 NULLS FIRST, 2
"""


def verdict_changes(connection: duckdb.DuckDBPyConnection) -> Result:
    """Return each claim, view and baseline whose verdict differs; a claim of one side has no verdict on the other."""
    return _result(connection, _VERDICTS)
