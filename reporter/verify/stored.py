"""The numbers of a cell as the database holds them, those of all tables in one form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reporter.verify.deviations import Numbers, numbers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reporter.store import Store

_CELL = "WHERE study = ? AND model = ? AND checkpoint = ? AND corpus = ?"
_FACTS = (
    *("texts", "count", "position_first", "position_last", "layer_first", "layer_last"),
    *("norm_ratio", "dominance", "dimension"),
)
_TABLES = (
    f"SELECT metric, statistic, view, site, layer, value, ci_low, ci_high FROM layer_metrics {_CELL}",
    f"SELECT metric, 'curve' AS statistic, view, site, layer, rank AS other, value FROM spectra {_CELL}",
    f"""SELECT 'sink_cuts' AS metric, unnest([statistic, 'left_out']) AS statistic,
        format('{{}} {{:g}}', rule, cut) AS view, site, layer, unnest([value, left_out]) AS value
        FROM sink_cuts {_CELL}""",
    f"""SELECT 'sinks' AS metric, unnest({list(_FACTS)}) AS statistic, concat('token ', token_id, if(position_first = 0,
        ' at position 0', ' further on'), if(own, '', ', not own')) AS view, NULL AS site, NULL AS layer,
        unnest([{", ".join(_FACTS)}]::DOUBLE[]) AS value FROM sinks {_CELL}""",
    f"""SELECT 'sinks' AS metric, 'types' AS statistic, '' AS view, NULL AS site, NULL AS layer, count(*) AS value
        FROM sinks {_CELL}""",
)
_PAIRS = """SELECT metric, statistic, view, if(layer_a = 0, 'embedding', 'block') AS site, layer_a AS layer,
    layer_b AS other, value, ci_low, ci_high FROM layer_pairs
    WHERE study = ? AND corpus = ? AND model_a = ? AND checkpoint_a = ? AND model_b = ? AND checkpoint_b = ?"""


def stored_numbers(store: Store, study: str, model: str, checkpoint: str, corpus: str) -> dict[str, Numbers]:
    """Return what is stored of a cell by metric; the tables ``sinks`` and ``sink_cuts`` count as metrics of their own.

    Their view says which sinks, or which cut. Numbers without a value are among them.
    """
    found: dict[str, Numbers] = {}
    for query in _TABLES:
        for metric, numbers in numbers_of(store.frame(query, [study, model, checkpoint, corpus])).items():
            found[metric] = {**found.get(metric, {}), **numbers}
    return {**found, **stored_pairs(store, study, corpus, [model, checkpoint] * 2)}


def stored_pairs(store: Store, study: str, corpus: str, sides: Sequence[str]) -> dict[str, Numbers]:
    """Return what is stored of the layers of two sides, each a model and its checkpoint, by metric."""
    return dict(numbers_of(store.frame(_PAIRS, [study, corpus, *sides])))
