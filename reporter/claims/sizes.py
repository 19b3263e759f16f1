"""Whether two sets of corpora may be compared on a statistic that moves with the size of the corpus itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reporter.claims.missing import Missing
from reporter.metrics.registry import catalogue

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers

ALIKE = 1.25  # times the words of the other: a third of a doubling, by which a number moves within its interval


def refuse_unequal(numbers: Numbers, measure: str, a: Sequence[str], b: Sequence[str]) -> None:
    """Refuse to compare corpora of different size on a statistic that moves with it.

    Args:
        numbers: the study's numbers.
        measure: the statistic, as metric.statistic.
        a: corpora of one side.
        b: of the other.

    Raises:
        Missing: the statistic moves with the corpus, and one corpus has more than 1.25 times the words of another one;
            the text says which, and what to write.
    """
    metric, _, name = measure.partition(".")
    known = catalogue().get(metric)
    grows = next((one.grows for one in known.statistics if one.name == name), "") if known else ""
    if not grows or set(a) == set(b):
        return
    sizes = {
        row["corpus"]: (int(row["words"]), int(row["texts"]))
        for row in numbers.corpus_sizes()
        if row["corpus"] in {*a, *b}
    }
    if len(sizes) < 2:
        return
    small = min(sizes, key=lambda corpus: sizes[corpus])
    large = max(sizes, key=lambda corpus: sizes[corpus])
    words, texts = sizes[large]
    if words <= ALIKE * sizes[small][0]:
        return
    limit = max(1, round(texts * sizes[small][0] / words))
    raise Missing(
        f"{measure} moves with the size of the corpus, and {large} has {words:,} words where {small} has "
        f"{sizes[small][0]:,}: give corpus {large} the key `limit: {limit}`, or add one like it with that limit and "
        f"compare it instead"
    )
