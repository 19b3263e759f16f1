"""Which blocks of a model can be removed: measured losses without them, and what proxies would have chosen."""

from collections.abc import Iterator, Mapping, Sequence
from math import exp

import numpy as np

from reporter.core.numbers import estimate, short, signed
from reporter.core.places import numbers_of, ranges
from reporter.core.table import Row
from reporter.geometry.intervals import freedom, sign_after
from reporter.geometry.statistics import kendall
from reporter.judge.questions.question import (
    Advice,
    Box,
    BoxColumn,
    Question,
    Read,
    Record,
    gaps,
    grouped,
    measured,
    numeric,
    table,
)
from reporter.metrics.skip import NEGLIGIBLE
from reporter.store.answers import BlockAnswer, BlockOrder

_TRIED = """
WITH repeats AS (
  SELECT study, model, checkpoint, item, min(change) AS twice_change,
    min_by(first || if(first < last, '–' || last, ''), change) AS twice,
    min_by(change_low, change) AS twice_low, min_by(change_high, change) AS twice_high
  FROM repeated_blocks GROUP BY ALL
)
SELECT s.* REPLACE (s.weights / m.parameters AS weights), l.value AS whole, unigram_entropy, twice, twice_change,
  twice_low, twice_high
FROM skipped_blocks s
LEFT JOIN repeats USING (study, model, checkpoint, item)
JOIN models m USING (study, model, checkpoint)
JOIN layer_metrics l ON (l.study, l.model, l.checkpoint, l.corpus) = (s.study, s.model, s.checkpoint, s.item)
     AND l.metric = 'skip' AND l.statistic = 'loss'
WHERE s.study = $study AND m.baseline IS NULL AND m.is_last
ORDER BY s.model, s.item, s.many, s.proposal
"""
_NUMBERS = """
SELECT model, checkpoint, corpus AS item, statistic, layer, value, ci_low, ci_high, n
FROM layer_metrics JOIN models USING (study, model, checkpoint)
WHERE study = $study AND metric = 'skip' AND value IS NOT NULL AND baseline IS NULL AND is_last
ORDER BY model, item, layer
"""


def _block_rows(read: Read) -> Iterator[Row | Advice]:
    tried = read(_TRIED)
    lacks = gaps(read, "skip", "loss")
    for (model, item), why in lacks.items():
        yield Advice(f"{model}, {item}: the loss is unknown: {why}")
    if not tried and not lacks:
        says = "no block was removed: add `skip: {trial: {corpus: NAME}}` (needs a language-model head)"
        yield Advice(says, runs=True)
    for rows in grouped(tried, "model", "checkpoint", "item", "many"):
        best, *rest = sorted(rows, key=lambda row: (row["change"], row["proposal"]))
        yield BlockAnswer.of(
            best,
            ci_low=best["change_low"],
            ci_high=best["change_high"],
            runner_up=rest[0]["blocks"] if rest else None,
            runner_up_change=rest[0]["change"] if rest else None,
        )
    yield from _orders(grouped(read(_NUMBERS), "model", "checkpoint", "item"))


def _orders(trials: Sequence[Sequence[Record]]) -> Iterator[BlockOrder]:
    """Yield the order of the blocks of each trial, beside the other trials of its model."""
    values = [np.array([row["value"] for row in rows if row["statistic"] == "change"]) for rows in trials]
    for rows, mine in zip(trials, values, strict=True):
        if not len(mine):
            continue
        numbers = {(row["statistic"], row["layer"]): row for row in rows}
        changes = [numbers["change", layer] for layer in range(len(mine))]
        steadiest, best = changes[int(np.abs(mine).argmin())], changes[int(mine.argmin())]
        rank, stability = (numbers.get((name, None), {}) for name in ("rank_influence", "stability"))
        signs = [_sign(row, len(mine), stability.get("n")) for row in changes]
        lowers, raises = (
            ranges((block for block, sign in enumerate(signs, 1) if sign == wanted), commas=True) for wanted in (-1, 1)
        )
        least = min((row for row in rows if row["statistic"] == "influence"), key=lambda row: row["value"])
        proxy = numbers["excess", least["layer"]]
        taus = {
            str(other[0]["item"]): float(kendall(mine, theirs))
            for other, theirs in zip(trials, values, strict=True)
            if other is not rows and other[0]["model"] == rows[0]["model"] and len(theirs)
        }
        other_item = min(taus, key=lambda item: taus[item], default=None)
        ties = [row["layer"] + 1 for row in rows if row["statistic"] == "excess" and row["ci_low"] == 0 < row["value"]]
        yield BlockOrder.of(
            steadiest,
            block=steadiest["layer"] + 1,
            change=steadiest["value"],
            best=best["layer"] + 1,
            best_change=best["value"],
            best_low=best["ci_low"],
            best_high=best["ci_high"],
            lowers=lowers,
            raises=raises,
            ties=None if proxy["ci_low"] is None else ranges(ties, commas=True),
            proxy=proxy["layer"] + 1,
            proxy_excess=proxy["value"],
            proxy_low=proxy["ci_low"],
            proxy_high=proxy["ci_high"],
            rank=rank.get("value"),
            rank_low=rank.get("ci_low"),
            rank_high=rank.get("ci_high"),
            stability=stability.get("value"),
            other=other_item,
            tau=None if other_item is None else taus[other_item],
        )


def _sign(change: Record, blocks: int, texts: int | None) -> int:
    """Return 1 or −1 where a change of the loss is large enough and significant among those of all blocks, else 0."""
    if change["ci_low"] is None or abs(change["value"]) < NEGLIGIBLE:
        return 0
    return sign_after(blocks, change["value"], change["ci_low"], change["ci_high"], freedom(texts))


def _block_boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    orders = {(row["model"], row["item"]): row for row in tables["block_orders"]}
    answers = grouped(tables["block_answers"], "model", "item")
    return [_block_box(rows, orders.get((rows[0]["model"], rows[0]["item"]))) for rows in answers]


def _block_box(rows: Sequence[Record], order: Record | None) -> Box:
    rows = sorted(rows, key=lambda row: row["many"])
    first = rows[0]
    sentences = list(removals(rows, order))
    sentences += _about_order(order) if order is not None else []
    sentences += _about_repeat(first) if first["twice"] is not None else []
    return Box(
        about=f"{first['model']}, {first['item']}",
        says=" ".join(sentences),
        **table(
            rows,
            numeric("blocks removed", lambda row: row["many"]),
            BoxColumn("best set tried", lambda row: row["blocks"]),
            BoxColumn("proposed by", lambda row: row["by"]),
            measured("change of loss", lambda row: (row["change"], row["ci_low"], row["ci_high"]), signed=True),
            numeric("perplexity", lambda row: f"× {short(exp(row['change']))}"),
            numeric("weights saved", lambda row: _share(row["weights"])),
            numeric("multiplications saved", lambda row: _share(row["products"])),
            BoxColumn("next best", _next_best),
        ),
        notes=(
            "Other texts may need other blocks, and training after the removal repairs a part of the loss.",
            f"Each row is the best of up to four sets on {first['tokens']:,} tokens. The choice of the best set makes "
            "its loss look slightly lower than it is.",
        ),
    )


def removals(rows: Sequence[Record], order: Record | None) -> Iterator[str]:
    """Yield what the loss says about removing blocks: the first sentence names no set, the others may.

    A block that lowers the loss comes first, then the block that changes it least, then sets: one that is safe, and a
    larger one that may be.

    Args:
        rows: the best set of each number of blocks, of the table ``block_answers``.
        order: of the single blocks, where each was measured.
    """
    rows = sorted(rows, key=lambda row: row["many"])
    whole = f", from {rows[0]['whole']:.2f}"
    if order is None:
        yield f"Without {_blocks(rows[0]['blocks'])} the loss changes by {_change(rows[0])} nats{whole}."
    else:
        yield from _singles(order, whole, rows[0].get("unigram_entropy"))
    safe = [row for row in rows if row["ci_high"] is not None and row["ci_high"] <= NEGLIGIBLE]
    if safe:
        high = safe[-1]["ci_high"]
        rise = "a rise of the loss" if high <= 0 else f"a rise of the loss by more than {signed(high)} nats"
        yield (
            f"{_blocks(safe[-1]['blocks']).capitalize()} can be removed without {rise}{_inside(safe[-1], order)}."
            f"{_saved(safe[-1])}"
        )
    largest = safe[-1]["many"] if safe else 0
    open_ = [row for row in rows if row["many"] > largest and row["ci_low"] is not None and row["ci_low"] <= 0]
    if open_:
        row = open_[-1]
        yield (
            f"{_blocks(row['blocks']).capitalize()} may be removable: the loss does not rise significantly, but a rise "
            f"of up to {signed(row['ci_high'])} is possible{_inside(row, order)}.{_saved(row)}"
        )
    elif not safe and all(row["ci_low"] is not None for row in rows):
        yield "No tested set of blocks can be removed without a rise of the loss."


def _singles(order: Record, whole: str, unigram: float | None) -> Iterator[str]:
    """Yield which block's removal lowers the loss, and which one's changes it least."""
    lowers = numbers_of(order["lowers"])
    if order["best"] in lowers:
        change = _change(order, "best_change", "best_low", "best_high")
        yield f"Without block {order['best']} the loss falls significantly: by {change} nats{whole}."
        whole = ""
    if others := [block for block in lowers if block != order["best"]]:
        also, which = "" if whole else "also ", _blocks(ranges(others, commas=True))
        yield f"The loss {also}falls significantly without {which} alone."
    if lowers:
        than = "" if unigram is None else f": the token frequencies of its training texts alone give {unigram:.2f}"
        yield f"A model that predicts better without a block fits these texts poorly{than}."
    if order["block"] != order["best"] or order["best"] not in lowers:
        yield f"Without block {order['block']} the loss changes least: by {_change(order)} nats{whole}."


def _inside(row: Record, order: Record | None) -> str:
    """Return which blocks of a set raise the loss significantly when each is removed alone."""
    if order is None or row["many"] == 1:
        return ""
    raising = sorted(set(numbers_of(row["blocks"])) & set(numbers_of(order["raises"])))
    if not raising:
        return ""
    return f", though {_blocks(ranges(raising, commas=True))} alone raise{'s' * (len(raising) == 1)} it significantly"


def _change(row: Record, change: str = "change", low: str = "ci_low", high: str = "ci_high") -> str:
    return signed(row[change], row[low], row[high])


def _about_order(order: Record) -> Iterator[str]:
    """Yield what the order by measured loss says: ties, what the proxy costs, correlation, stability."""
    if order["ties"]:
        verb = "does" if order["ties"].isdecimal() else "do"
        yield f"{_blocks(order['ties']).capitalize()} {verb} not differ significantly from block {order['best']}."
    if order["proxy"] == order["best"]:
        yield f"Block {order['best']} also turns the states least (influence)."
    else:
        cost = signed(order["proxy_excess"], order["proxy_low"], order["proxy_high"])
        than = f"removing it costs {cost} nats more than removing block {order['best']}"
        yield f"Block {order['proxy']} turns the states least (influence), but {than}."
    if order["rank"] is not None:
        rank = estimate(order["rank"], order["rank_low"], order["rank_high"])
        yield f"Influence and loss put the blocks in orders whose rank correlation is {rank}."
        stability = short(order["stability"], 2)
        yield f"The order by loss correlates with the order on resampled texts: τ = {stability} (no interval)."
    if order["tau"] is not None:
        yield f"The order of trial {order['other']} correlates with this order: τ = {short(order['tau'], 2)}."


def _about_repeat(row: Record) -> Iterator[str]:
    """Yield what the best repetition changes, with the interval that is corrected for the search."""
    low, high = row["twice_low"], row["twice_high"]
    run = f"{_blocks(row['twice'])} {'runs' if row['twice'].isdecimal() else 'run'} twice"
    change = signed(row["twice_change"], low, high)
    yield f"If {run}, the loss changes by {change} nats, the best repetition of all tried."
    if high is not None:
        verdict = "lowers the loss" if high < 0 else "raises the loss" if low > 0 else "does not change the loss"
        yield f"Corrected for the search, the repetition {verdict} significantly."


def _share(value: float | None) -> str:
    return "–" if value is None else f"{short(100 * value)} %"


def _saved(row: Record) -> str:
    """Return what leaving out a set of blocks saves, and how the perplexity changes; empty where it is unknown."""
    if row.get("weights") is None or row.get("products") is None:
        return ""
    saved = f"{_share(row['weights'])} of the weights and {_share(row['products'])} of the multiplications"
    return f" That saves {saved}; the perplexity is {short(exp(row['change']))} times that of the whole model."


def _next_best(row: Record) -> str:
    return "–" if row["runner_up"] is None else f"{row['runner_up']} ({signed(row['runner_up_change'])})"


def _blocks(blocks: str) -> str:
    return f"{'block' if blocks.isdecimal() else 'blocks'} {blocks}"


BLOCKS = Question("blocks", "Which blocks can go?", (BlockAnswer, BlockOrder), _block_rows, _block_boxes)
