"""What a study's page shows of each corpus beside its counts: some of its texts, and how many were cut, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.charts.numbers import whole
from reporter.report import queries

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]


@dataclass(frozen=True)
class TextsOfCorpus:
    """What is shown of one corpus.

    Args:
        samples: rows of the table ``corpus_texts``.
        cut: which share of its texts is longer than what models read of them, one line for models that agree.
    """

    samples: Sequence[Row] = ()
    cut: Sequence[str] = ()


def read_texts(
    read: Callable[[str], pd.DataFrame], rows_of: Callable[[pd.DataFrame], list[Row]], study: str
) -> dict[str, TextsOfCorpus]:
    """Read what is shown of each corpus, by its name; what has neither samples nor passes is missing.

    Args:
        read: runs a query.
        rows_of: turns a frame into rows.
        study: id of the study.
    """
    samples, cut = (
        _by_corpus(rows_of(read(queries.CORPUS_TEXTS.fill(study=study)))),
        _by_corpus(rows_of(read(queries.CUT_TEXTS.fill(study=study)))),
    )
    return {name: TextsOfCorpus(samples.get(name, []), _cut(cut.get(name, []))) for name in samples.keys() | cut.keys()}


def _by_corpus(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["corpus"]), []).append(row)
    return found


def _cut(rows: Sequence[Row]) -> list[str]:
    """Say how many texts each model read only the beginning of; models that read the same are named together."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["texts"]:
            found.setdefault(_share(row), []).append(str(row["model"]))
    if len(found) < 2:
        return list(found)
    return [f"{', '.join(models)}: {share}" for share, models in found.items()]


def _share(row: Row) -> str:
    if not row["cut"]:
        return "none"
    limits = [limit for limit in (row["own"], row["asked"]) if limit is not None]
    share = f"{whole(row['cut'])} of {whole(row['texts'])} ({row['cut'] / row['texts']:.0%})".replace("%", " %")
    return share + (f", at {whole(min(limits))} tokens" if limits else "")
