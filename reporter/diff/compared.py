"""The numbers of each table under the names that all of them share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields

from reporter.store.schema import find_table, number_tables, tables

# What compares two sides is written 'a | b', like the name of its cell.
_PAIRED = "CASE WHEN {0}_a IS NOT DISTINCT FROM {0}_b THEN {0}_a ELSE {0}_a || ' | ' || {0}_b END"


@dataclass(frozen=True)
class Place:
    """The shared names of a number, each with the SQL that gives it in one table."""

    metric: str = "metric"
    statistic: str = "statistic"
    model: str = "model"
    checkpoint: str = "checkpoint"
    corpus: str = "corpus"
    view: str = "view"
    site: str = "site"
    layer: str = "layer"
    layer_b: str = "NULL"


@dataclass(frozen=True)
class Compared:
    """A column of numbers with the columns of its interval (empty without one), and where a number of it stands.

    ``by`` are the columns that both sides' rows are told apart by: the table's key where there are none. ``among`` is
    the SQL clause that leaves rows out.
    """

    table: str
    place: Place
    value: str = "value"
    low: str = "ci_low"
    high: str = "ci_high"
    by: tuple[str, ...] = ()
    among: str = ""


PLACE = tuple(field.name for field in fields(Place))


_METRICS = (
    Compared("layer_metrics", Place()),
    Compared(
        "layer_pairs",
        Place(
            model=_PAIRED.format("model"),
            checkpoint=_PAIRED.format("checkpoint"),
            site="NULL",
            layer="layer_a",
            layer_b="layer_b",
        ),
    ),
    Compared(
        "differences",
        Place(model=_PAIRED.format("model"), checkpoint=_PAIRED.format("checkpoint"), corpus=_PAIRED.format("corpus")),
    ),
    Compared(
        "correlations",
        Place(
            statistic="feature || ' ~ ' || score || ' (' || method || ')'",
            model="NULL",
            checkpoint="NULL",
            site="NULL",
            layer="NULL",
        ),
    ),
    Compared(
        "over_models",
        Place(model="'mean over ' || role || 's'", checkpoint="coalesce('step ' || step, 'the last ones')"),
    ),
)


def _declared() -> Iterator[Compared]:
    """Yield the numbers that tables themselves say are to be compared: of metrics, analyses, answers and findings."""
    for table in tables().values():
        own = table.name not in number_tables()  # an answer, or findings: no metric's numbers
        metric = "".join(table.holding("metric") * (not own)) or f"'{table.fixed.get('metric', table.name)}'"
        there = {name: name if name in table.types else "NULL" for name in ("model", "checkpoint", "view")}
        there |= {name: name if name in table.key else "NULL" for name in ("site", "layer")}
        for told in table.compared:
            ends = told.interval or ("", "")
            ends = ("ci_low", "ci_high") if ends is True else ends
            for value in told.values:
                name = f"'{value} of ' || {told.of}" if told.of else told.statistic or f"'{value}'"
                place = Place(metric, name, corpus=told.about, **there)
                yield Compared(table.name, place, value, *ends, told.by, told.among)


def paired() -> str:
    """Return the query that puts the numbers of both sides beside each other.

    Its columns are those of :class:`Place`, and for each side, ``a`` or ``b``: the number, ``low_…``, ``high_…`` and
    ``in_…``, which is NULL where that side has no such row.
    """
    return " UNION ALL BY NAME ".join(map(_paired, (*_METRICS, *_declared())))


def _paired(compared: Compared) -> str:
    names = zip(astuple(compared.place), PLACE, strict=True)
    table = find_table(compared.table)
    keys = [f'"{key}"' for key in compared.by or table.key if key != "study"]
    columns = [f'"{name}"' for name in table.types if name != "study"]
    return f"""
(SELECT {", ".join(f"{sql} AS {name}" for sql, name in names)}, a, b, low_a, low_b, high_a, high_b, in_a, in_b FROM (
  SELECT {", ".join(f"coalesce(a.{name}, b.{name}) AS {name}" for name in columns)}, {", ".join(_of_side(compared))}
  FROM (SELECT *, true AS present FROM a_{compared.table} {compared.among}) AS a
  FULL JOIN (SELECT *, true AS present FROM b_{compared.table} {compared.among}) AS b
    ON {" AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys)}
))"""


def _of_side(compared: Compared) -> Iterator[str]:
    for side in "ab":
        yield f"{side}.present AS in_{side}"
        for column, name in ((compared.value, side), (compared.low, f"low_{side}"), (compared.high, f"high_{side}")):
            yield f'{side}."{column}"::DOUBLE AS {name}' if column else f"NULL::DOUBLE AS {name}"
