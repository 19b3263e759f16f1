"""Metrics: one short file each, a pure function from observables to values.

Analyses are metrics of single tokens, sentences and vocabularies: what a corpus average hides.
"""

from reporter.core.table import NUMBER_ROWS, Row


def _number_rows() -> dict[str, tuple[type[Row], ...]]:
    from reporter.metrics.analysis import analyses
    from reporter.metrics.base import TextInfluence, TextParts, Value, catalogue

    definitions = {**catalogue(), **analyses()}
    return {
        "": (Value, TextParts, TextInfluence),
        **{name: definition.tables for name, definition in definitions.items()},
    }


NUMBER_ROWS.append(_number_rows)
