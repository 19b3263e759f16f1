"""Which tokens are sinks: those of the table ``sinks``, with what stands at position 0 taken together.

In a decoder whose tokenizer puts no BOS before a text, the sink is whatever word comes first, so that the table has a
row for each of these words. They are one thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from reporter.answers.decision import Box, Decision, Lacks, Read, Record, grouped, quoted
from reporter.charts.numbers import short
from reporter.table import TOKEN, Comparable, OfModel, Row, column

_SINKS = """
SELECT s.*, c.texts AS measured
FROM sinks s
JOIN cells c USING (study, model, checkpoint, corpus, metric)
JOIN models m USING (study, model, checkpoint)
WHERE study = $study AND m.baseline IS NULL AND m.is_last
ORDER BY s.model, s.corpus, s.token_id, s.own, s.position_first
"""
SEARCHED = """
SELECT model, corpus, checkpoint, cells.tokens, cells.texts, sinks,
       bool_or(metric = 'outliers' AND cells.status = 'done') OVER (PARTITION BY model, checkpoint, corpus) AS listed
FROM cells JOIN models USING (study, model, checkpoint) JOIN corpora USING (study, corpus)
WHERE study = $study AND sinks IS NOT NULL AND baseline IS NULL AND is_last
QUALIFY row_number() OVER (PARTITION BY model, corpus) = 1
ORDER BY model, corpus
"""
"""How many tokens are sinks, of each model on each corpus; sinks are searched whenever states are read.

``listed`` says whether the table ``sinks`` lists them, which the metric ``outliers`` does.
"""
MOST_ROWS = 12
"""Rows of a box; the table has them all."""


class SinkAnswer(Row, table="sink_answers"):
    """What is a sink in a model on a corpus: a token, or whatever stands at position 0 of a text."""

    compared = (
        Comparable(
            ("texts", "count", "layer_first", "layer_last", "norm_ratio"),
            "corpus",
            of="coalesce('token ' || token, 'whatever') || if(position_last = 0, ' at position 0', '')",
            by=("model", "checkpoint", "corpus", "token", "own", "position_first"),
        ),
    )

    study = OfModel.study
    model: str = column("name of the model in the study", key=True)
    checkpoint: str = column("its checkpoint, the last one measured", key=True)
    corpus: str = column("name of the corpus", key=True)
    number: int = column("1 = the one that is in most texts, and so on", key=True)
    token: str | None = column(f"{TOKEN}; NULL for whatever stands at position 0")
    types: int = column("different tokens that are meant: 1, or several at position 0")
    own: bool = column("whether it is one of the text's own tokens; else the tokenizer added it")
    position_first: int = column("the first position at which one stands; 0 is the start of the input")
    position_last: int = column("the last such position")
    texts: int = column("texts that have one", "BIGINT")
    measured: int = column("texts that were measured", "BIGINT")
    count: int = column("how many there are", "BIGINT")
    layer_first: int = column("the first block at which one is a sink")
    layer_last: int = column("the last such block")
    norm_ratio: float = column("the largest norm over the median norm of its text, over all blocks")
    dimension: int | None = column("the coordinate on which most of them stand out, from 0; NULL where none does")


def _answer(read: Read) -> Iterator[Row | Lacks]:
    found, searched = read(_SINKS), read(SEARCHED)
    if not searched:
        yield Lacks("no states of a corpus were read: add a corpus and `metrics: [outliers]` (or `all`)")
    for row in searched:
        if row["sinks"] and not row["listed"]:
            yield Lacks(
                f"{row['sinks']:,} of {row['tokens']:,} tokens of {row['corpus']} are sinks in {row['model']}; to list "
                "them, add `metrics: [outliers]` (or `all`)"
            )
    for (model, checkpoint, corpus), rows in groupby(found, key=lambda r: (r["model"], r["checkpoint"], r["corpus"])):
        kinds = sorted(_kinds(list(rows)), key=lambda kind: (-kind["texts"], -kind["count"], kind["position_first"]))
        for number, kind in enumerate(kinds, 1):
            yield SinkAnswer(model, checkpoint, corpus, number, **kind)


def _kinds(rows: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """Yield what is a sink; whatever stands at position 0 is one thing where several tokens do."""
    for own in (False, True):
        at_start = [row for row in rows if row["position_last"] == 0 and row["own"] == own]
        if at_start:
            yield _kind(at_start)
    for row in rows:
        if row["position_last"] != 0:
            yield _kind([row])


def _kind(rows: Sequence[Record]) -> dict[str, Any]:
    dimensions: Counter[int | None] = Counter()
    for row in rows:
        dimensions[row["dimension"]] += row["count"]
    return {
        "token": rows[0]["token"] if len(rows) == 1 else None,
        "types": len(rows),
        "own": rows[0]["own"],
        "position_first": min(row["position_first"] for row in rows),
        "position_last": max(row["position_last"] for row in rows),
        "texts": sum(row["texts"] for row in rows),  # a text has one token at position 0
        "measured": rows[0]["measured"],
        "count": sum(row["count"] for row in rows),
        "layer_first": min(row["layer_first"] for row in rows),
        "layer_last": max(row["layer_last"] for row in rows),
        "norm_ratio": max(row["norm_ratio"] for row in rows),
        "dimension": dimensions.most_common(1)[0][0],
    }


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    found = grouped(tables["sink_answers"], "model", "corpus")
    return [_box(sorted(own, key=lambda row: row["number"])) for own in found]


def _box(rows: Sequence[Record]) -> Box:
    first, more = rows[0], len(rows) - 1
    name = "The first token of a text, whatever it is," if first["token"] is None else quoted(first["token"])
    on = "" if first["dimension"] is None else f", on dimension {first['dimension']}"
    others = "" if not more else f"; {more} other {'token is one' if more == 1 else 'tokens are sinks'}, too"
    return Box(
        about=f"{first['model']} on {first['corpus']}",
        says=f"{name} is a sink in {first['texts']:,} of {first['measured']:,} texts: {_blocks(first)}{on}, with a "
        f"norm up to {short(first['norm_ratio'], 2)} times the median of its text{others}. The view `no-sinks` leaves "
        "them out.",
        columns=(
            ("token", False),
            ("positions", False),
            ("texts", True),
            ("sinks", True),
            ("blocks", False),
            ("dimension", True),
            ("norm, in medians", True),
        ),
        rows=tuple(
            (
                f"any of {row['types']} tokens" if row["token"] is None else quoted(row["token"]),
                _range(row["position_first"], row["position_last"]),
                f"{row['texts']:,}",
                f"{row['count']:,}",
                _range(row["layer_first"], row["layer_last"]),
                "–" if row["dimension"] is None else str(row["dimension"]),
                short(row["norm_ratio"], 2),
            )
            for row in rows[:MOST_ROWS]
        ),
        notes=(f"{len(rows) - MOST_ROWS} more are in the table sink_answers.",) if len(rows) > MOST_ROWS else (),
    )


def _blocks(row: Record) -> str:
    several = row["layer_first"] != row["layer_last"]
    return f"{'blocks' if several else 'block'} {_range(row['layer_first'], row['layer_last'])}"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


SINKS = Decision("sinks", "Which tokens are sinks?", (SinkAnswer,), _answer, _boxes)
