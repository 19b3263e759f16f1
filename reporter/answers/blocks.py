"""Which blocks can go: the order in which they are proposed, and what the loss is without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from reporter.answers.decision import Box, Decision, Lacks, Read, Record, grouped
from reporter.charts.numbers import interval, short, signed
from reporter.table import Comparable, OfModel, Row, column

# Baselines are no models that anybody prunes.
_TRIED = """
SELECT s.*, l.value AS whole, i.least
FROM skipped_blocks s
JOIN models m USING (study, model, checkpoint)
JOIN layer_metrics l ON (l.study, l.model, l.checkpoint, l.corpus) = (s.study, s.model, s.checkpoint, s.item)
     AND l.metric = 'skip' AND l.statistic = 'loss'
JOIN (SELECT study, model, checkpoint, corpus, string_agg(layer + 1, ', ' ORDER BY value, layer) AS least
      FROM layer_metrics WHERE metric = 'skip' AND statistic = 'influence' AND value IS NOT NULL GROUP BY ALL) i
     ON (i.study, i.model, i.checkpoint, i.corpus) = (s.study, s.model, s.checkpoint, s.item)
WHERE s.study = $study AND m.baseline IS NULL AND m.is_last
ORDER BY s.model, s.item, s.many, s.proposal
"""


_ORDERED = """
SELECT DISTINCT l.model, l.corpus AS item
FROM layer_metrics l JOIN models m USING (study, model, checkpoint)
WHERE study = $study AND metric = 'skip' AND statistic = 'loss' AND value IS NULL AND m.baseline IS NULL ORDER BY ALL
"""


NOTHING = 0.01  # nats, that nobody would keep a block for


class BlockAnswer(Row, table="block_answers"):
    """The blocks that a model loses least by leaving out, of so many: the best of the sets that were run."""

    compared = (Comparable(("change",), "item", of="'the best ' || many || ' to leave out'", interval=True),)

    study = OfModel.study
    model: str = column("name of the model in the study", key=True)
    checkpoint: str = column("its checkpoint, the last one measured", key=True)
    item: str = column("name of the trial in the study", key=True)
    many: int = column("how many blocks are left out", key=True)
    blocks: str = column("which, from 1")
    by: str = column("why they were proposed: 'angle' or 'influence'")
    change: float = column("loss without them minus loss of the whole model, in nats")
    ci_low: float | None = column("lower end of its 95 % interval, paired over texts")
    ci_high: float | None = column("upper end")
    whole: float = column("loss of the whole model on the same texts")
    runner_up: str | None = column("the next best set; NULL where there is none")
    runner_up_change: float | None = column("its change of loss")
    least: str = column("all blocks in the order of their influence, the least first")
    tokens: int = column("tokens that were predicted", "BIGINT")


def _answer(read: Read) -> Iterator[Row | Lacks]:
    tried = read(_TRIED)
    for row in read(_ORDERED):
        yield Lacks(f"{row['model']}, {row['item']}: without a language-model head there is no loss to measure")
    if not tried and not read(_ORDERED):
        yield Lacks("no block was left out: add `skip: {trial: {corpus: NAME}}`, for models with a language-model head")
    for (model, checkpoint, item, many), rows in groupby(
        tried, key=lambda row: (row["model"], row["checkpoint"], row["item"], row["many"])
    ):
        best, *others = sorted(rows, key=lambda row: (row["change"], row["proposal"]))
        yield BlockAnswer(
            model,
            checkpoint,
            item,
            many,
            best["blocks"],
            best["by"],
            best["change"],
            best["change_low"],
            best["change_high"],
            best["whole"],
            others[0]["blocks"] if others else None,
            others[0]["change"] if others else None,
            best["least"],
            best["tokens"],
        )


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    found = grouped(tables["block_answers"], "model", "item")
    return [_box(sorted(own, key=lambda row: row["many"])) for own in found]


def _box(rows: Sequence[Record]) -> Box:
    first = rows[0]
    free = [row for row in rows if row["ci_low"] is not None and row["ci_low"] <= 0]
    said = [
        f"Without {_blocks(first['blocks'])} the loss moves by {_change(first)} nats, from {short(first['whole'])}."
    ]
    if free:
        most = _blocks(free[-1]["blocks"]).capitalize()
        high = free[-1]["ci_high"]
        if high <= NOTHING:
            said.append(f"{most} can go: the loss is no higher without.")
        else:
            said.append(
                f"{most} may go: nothing beyond chance is lost without, though up to {signed(high)} is not ruled out."
            )
    elif all(row["ci_low"] is not None for row in rows):
        said.append("No set of blocks that was tried goes for free.")
    order = first["least"].split(", ")
    shown = ", ".join(order[:8]) + (f" and {len(order) - 8} more" if len(order) > 8 else "")
    return Box(
        about=f"{first['model']}, {first['item']}",
        says=" ".join(said) + f" In the order of their influence, the least first: {shown}.",
        columns=(
            ("blocks left out", True),
            ("best tried", False),
            ("proposed by", False),
            ("change of loss", True),
            ("95 % interval", False),
            ("next best", False),
        ),
        rows=tuple(
            (
                str(row["many"]),
                row["blocks"],
                row["by"],
                signed(row["change"]),
                interval(row["ci_low"], row["ci_high"]),
                "–" if row["runner_up"] is None else f"{row['runner_up']} ({signed(row['runner_up_change'])})",
            )
            for row in rows
        ),
        notes=(
            f"Each is the best of up to three sets on {first['tokens']:,} tokens, without any training afterwards; "
            "chosen as the best, its loss is a little flattered.",
        ),
    )


def _blocks(blocks: str) -> str:
    return f"{'block' if blocks.isdecimal() else 'blocks'} {blocks}"


def _change(row: Record) -> str:
    return f"{signed(row['change'])} {interval(row['ci_low'], row['ci_high'])}".strip()


BLOCKS = Decision("blocks", "Which blocks can go?", (BlockAnswer,), _answer, _boxes)
