"""The numbers of each table under the names that all of them share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace

from reporter.store.schema import find_table

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
    """A column of numbers with the columns of its interval (empty without one), and where a number of it stands."""

    table: str
    place: Place
    value: str = "value"
    low: str = "ci_low"
    high: str = "ci_high"


PLACE = tuple(field.name for field in fields(Place))


def _columns(table: str, metric: str, corpus: str, values: Sequence[str]) -> tuple[Compared, ...]:
    """Columns of numbers without intervals, each of which is a statistic by its own name."""
    return tuple(
        Compared(table, Place(metric, f"'{value}'", corpus=corpus, view="NULL"), value, "", "") for value in values
    )


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
# Analyses name what they look at in their own ways: it stands where the corpus of a metric stands.
_GROUP = "if(control = 'none', text_group, text_group || ', ' || control)"
_CONCEPTS = "pairs || ': ' || concept_a || ' | ' || concept_b"
_TOKEN = "journey || ', text ' || text || ', position ' || position || ', ' || positions || ' positions'"
_ANALYSES = (
    *_columns("groups", "'groups'", _GROUP, ("silhouette", "within", "between", "ratio")),
    *_columns("pair_directions", "'pairs'", "pairs || ': ' || concept", ("norm", "relative_norm")),
    replace(
        _columns("pair_directions", "'pairs'", "pairs || ': ' || concept", ("consistency",))[0],
        low="ci_low",
        high="ci_high",
    ),
    *_columns("direction_cosines", "'pairs'", _CONCEPTS, ("cosine",)),
    *_columns("journeys", "'journeys'", _TOKEN, ("cosine", "distance", "rank_cosine", "rank_distance", "norm")),
    Compared(
        "explained_variance",
        Place("analysis", "'share of ' || components", corpus="item || ': ' || part", view="NULL"),
        "share",
        "",
        "",
    ),
    Compared(
        "vocabulary_facts",
        Place("'vocabulary'", "fact", corpus="NULL", view="NULL", site="NULL", layer="NULL"),
        "value",
        "",
        "",
    ),
    Compared(
        "vocabulary_shares",
        Place("'vocabulary'", "'share of ' || sort", corpus="NULL", view="NULL", site="NULL", layer="NULL"),
        "share",
        "",
        "",
    ),
)
COMPARED = (*_METRICS, *_ANALYSES)


def paired() -> str:
    """Return the query that puts the numbers of both sides beside each other.

    Its columns are those of :class:`Place`, and for each side, ``a`` or ``b``: the number, ``low_…``, ``high_…`` and
    ``in_…``, which is NULL where that side has no such row.
    """
    return " UNION ALL BY NAME ".join(map(_paired, COMPARED))


def _paired(compared: Compared) -> str:
    names = zip(astuple(compared.place), PLACE, strict=True)
    keys = [f'"{key}"' for key in find_table(compared.table).key if key != "study"]
    return f"""
(SELECT {", ".join(f"{sql} AS {name}" for sql, name in names)}, a, b, low_a, low_b, high_a, high_b, in_a, in_b FROM (
  SELECT {", ".join(f"coalesce(a.{key}, b.{key}) AS {key}" for key in keys)}, {", ".join(_of_side(compared))}
  FROM (SELECT *, true AS present FROM a_{compared.table}) AS a
  FULL JOIN (SELECT *, true AS present FROM b_{compared.table}) AS b
    ON {" AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{key}" for key in keys)}
))"""


def _of_side(compared: Compared) -> Iterator[str]:
    for side in "ab":
        yield f"{side}.present AS in_{side}"
        for column, name in ((compared.value, side), (compared.low, f"low_{side}"), (compared.high, f"high_{side}")):
            yield f'{side}."{column}"::DOUBLE AS {name}' if column else f"NULL::DOUBLE AS {name}"
