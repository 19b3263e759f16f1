"""The layer card of a model: what a study of ``reporter look`` measured, in ten lines, for a terminal and a page."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reporter.core.numbers import counted, estimate, short
from reporter.core.places import TEXT_TOKENS, WITHOUT_SINKS, in_backticks, listed, place, places
from reporter.geometry.intervals import VERDICT_TEXTS
from reporter.judge.facts import declared
from reporter.judge.questions.blocks import removals
from reporter.judge.questions.changed import CHANGED
from reporter.judge.questions.layer import advices
from reporter.judge.questions.question import Record, boxes_of, gaps, markdown_cell
from reporter.judge.questions.sinks import blocks_of
from reporter.store import Store

ENDS = {
    "anisotropy.mean_cosine": "anisotropy",
    "intrinsic_dimension.twonn": "dimension",
    "entropy.prompt_normalised": "entropy",
}
"""Numbers whose highest and lowest layer the card names, and the labels of their lines."""
_MODELS = """
SELECT model, role, family, layers, width, parameters, device, precision, base, status, error
FROM models WHERE study = $study AND baseline IS NULL AND is_last ORDER BY position, model
"""
_ENDS = """
SELECT metric || '.' || statistic AS name, view, layer, value, ci_low, ci_high,
  row_number() OVER (PARTITION BY name, view ORDER BY value DESC, layer) = 1 AS highest
FROM layers WHERE study = $study AND model = $model AND site IN ('embedding', 'block') AND NOT by_definition
AND value IS NOT NULL AND metric || '.' || statistic IN (SELECT unnest($names))
QUALIFY highest OR row_number() OVER (PARTITION BY name, view ORDER BY value, layer) = 1
"""
_ANSWERS = "SELECT * FROM {table} WHERE study = $study AND model = $model"
_TURNS = """
SELECT layer, value FROM layers WHERE study = $study AND model = $model AND metric = 'motion'
AND statistic = 'block_influence' AND view = 'text tokens' AND value IS NOT NULL ORDER BY value, layer LIMIT 3
"""
_RANGE = """
SELECT layer, max(value) FILTER (statistic = 'largest') AS largest, max(value) FILTER (statistic = 'over_median')
  AS ratio, max(value) FILTER (statistic = 'int8_tensor') AS tensor, max(value) FILTER (statistic = 'int8_token')
  AS token FROM layers WHERE study = $study AND model = $model AND metric IN ('outliers', 'ranges')
AND view = 'text tokens' AND site IN ('embedding', 'block')
GROUP BY layer HAVING ratio IS NOT NULL AND tensor IS NOT NULL ORDER BY layer
"""

WRITTEN = "# Written by `reporter look`. Edit it and run it again:"
"""A line at the beginning of a study that ``reporter look`` wrote."""
_TEXTS = "SELECT corpus, texts, available FROM corpora WHERE study = $study AND status = 'done'"


@dataclass(frozen=True)
class Card:
    """Lines about one model, each a label and a text in Markdown.

    Args:
        model: its name.
        lines: the lines.
        folded: whether a terminal shows the first line alone, since another card compares a model with this one.
    """

    model: str
    lines: tuple[tuple[str, str], ...]
    folded: bool = False


def cards(store: Store, study: str, seconds: float | None = None) -> list[Card]:
    """Return the card of each model of a study that ran, a base after the models that are compared with it.

    Args:
        store: the results.
        study: its id.
        seconds: how long the run took; None if there was nothing to compute.
    """
    with store.kept_open():
        models, corpora = (store.records(query, {"study": study}) for query in (_MODELS, _TEXTS))
        texts = listed(f"{_read_of(row)} of {row['corpus']}" for row in corpora)
        if any(row["texts"] < VERDICT_TEXTS for row in corpora):
            texts += ", too few for a conclusion"
        bases = {model["base"] for model in models}
        return [
            Card(model["model"], tuple(_lines(store, study, model, texts, seconds)), model["model"] in bases)
            for model in sorted(models, key=lambda model: model["model"] in bases)
        ]


def _read_of(row: Record) -> str:
    left_out = row["available"] is not None and row["available"] > row["texts"]
    return f"{row['texts']:,} of {counted(row['available'], 'text')}" if left_out else counted(row["texts"], "text")


def as_text(made: Sequence[Card], width: int) -> str:
    """Return cards for a terminal of ``width`` columns."""
    label_width = max((len(label) for card in made for label, _ in card.lines), default=0) + 2
    parts = []
    for card in made:
        rows = [f"{card.model} (the base; the report has its card)" if card.folded else card.model]
        for label, text in card.lines[: 1 if card.folded else None]:
            first, rest = f"  {label:<{label_width}}", " " * (label_width + 2)
            rows.append(textwrap.fill(text, width, initial_indent=first, subsequent_indent=rest))
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def as_markdown(made: Sequence[Card]) -> str:
    """Return cards as Markdown, a table for each model."""
    parts = []
    for card in made:
        rows = (f"| {label} | {markdown_cell(text)} |" for label, text in card.lines)
        parts.append("\n".join([f"## Layer card: {card.model}", "", "| | |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _lines(store: Store, study: str, model: Record, texts: str, seconds: float | None) -> Iterator[tuple[str, str]]:
    def read(query: str, **more: Any) -> Sequence[Record]:
        return store.records(query, {"study": study, "model": model["model"], **more})

    def why(metric: str, statistic: str, otherwise: str) -> str:
        reasons = gaps(lambda query: store.records(query, {"study": study}), metric, statistic)
        reason = next((reason for (name, _), reason in reasons.items() if name == model["model"]), otherwise)
        return reason.partition("; they lack")[0]

    if model["status"] != "done":
        yield "failed", str(model["error"])
        return
    if model["base"]:
        tables = {name: read(_ANSWERS.format(table=name)) for name in ("change_answers", "changed_numbers")}
        says = [box.says for box in boxes_of(CHANGED, tables)]
        yield f"against {model['base']}", " ".join(says or [f"not compared: {why('change', 'distance', 'it failed')}"])
    blocks = int(model["layers"])
    parameters = f"{model['parameters']:,}"
    if model["parameters"] >= 1e6:
        parameters = f"{short(model['parameters'] / 1e6)} million"
    yield (
        "model",
        f"{model['role']} ({model['family']}), {blocks} blocks, width {model['width']:,}, {parameters} parameters",
    )
    ends = {(row["name"], row["view"], row["highest"]): row for row in read(_ENDS, names=list(ENDS))}
    for name, label in ENDS.items():
        if any((name, TEXT_TOKENS, highest) in ends for highest in (True, False)):
            named = [
                f"{word} at {_peak(ends[name, TEXT_TOKENS, highest], ends.get((name, WITHOUT_SINKS, highest)), blocks)}"
                for word, highest in (("highest", True), ("lowest", False))
                if (name, TEXT_TOKENS, highest) in ends
            ]
            yield label, f"{declared()[name][1].title} is {'; '.join(named)}"
    yield "sinks", _sinks(read(_ANSWERS.format(table="sink_answers") + " ORDER BY number"))
    yield "range", _range(read(_RANGE))
    advice = dict(advices(read(_ANSWERS.format(table="layer_answers"))))
    yield from zip(("vectors", "search"), advice.values(), strict=False)
    if not advice:
        yield "vectors", f"unknown: {why('partners', 'recall', 'add pairs of texts or labels')}"
    no_loss = why("skip", "loss", "the model has one block" if blocks == 1 else "not measured")
    answers, orders = (read(_ANSWERS.format(table=table)) for table in ("block_answers", "block_orders"))
    yield "blocks", _blocks(answers, orders, read(_TURNS), no_loss)
    took = "" if seconds is None else f"; the run took {short(seconds, 2)} s"
    yield "measured on", f"{texts}; {model['device']}, {model['precision']} precision{took}"


def _peak(row: Record, without: Record | None, blocks: int) -> str:
    if without is None:
        return _of(row, blocks)
    if without["layer"] == row["layer"]:
        value, other = _value(row), _value(without)
        return _of(row, blocks) + ("" if value == other else f" (without sinks {other})")
    return f"{_of(row, blocks)} (without sinks at {_of(without, blocks)})"


def _of(row: Record, blocks: int) -> str:
    return f"{places([row['layer']], blocks=blocks)}: {_value(row)}"


def _value(row: Record) -> str:
    return estimate(row["value"], row["ci_low"], row["ci_high"])


def _sinks(rows: Sequence[Record]) -> str:
    if not rows:
        return "none: no token has an unusually large state; without sinks, each text's first token is left out"
    return "; ".join(map(_sink, rows[:2])) + (f"; {len(rows) - 2} more" if len(rows) > 2 else "")


def _sink(row: Record) -> str:
    name = "the first token of a text" if row["token"] is None else in_backticks(row["token"])
    return (
        f"{name} in {row['texts']:,} of {row['measured']:,} texts, {blocks_of(row)}, norm up to "
        f"{short(row['norm_ratio'], 2)} times the median"
    )


def _range(rows: Sequence[Record]) -> str:
    if not rows:
        return "not measured"
    top, worst = (max(rows, key=lambda row: row[name]) for name in ("largest", "tensor"))
    tensor, token = (f"{short(100 * worst[name], 2)} %" for name in ("tensor", "token"))
    return (
        f"the largest activation is {short(top['largest'])} at {place(top['layer'])}, {short(top['ratio'], 2)} times "
        f"the median; at {place(worst['layer'])}, INT8 loses {tensor} of a state's energy with one scale for all "
        f"tokens, and {token} with one scale per token"
    )


def _blocks(answers: Sequence[Record], orders: Sequence[Record], turns: Sequence[Record], no_loss: str) -> str:
    if answers:
        return " ".join(removals(answers, next(iter(orders), None)))
    if not turns:
        return "not measured"
    least = listed(str(row["layer"] + 1) for row in turns)
    says = f"{'blocks' if len(turns) > 1 else 'block'} {least} turn{'s' * (len(turns) == 1)} the states least"
    return f"{says}; the loss without {'them' if len(turns) > 1 else 'it'} is unknown ({no_loss})"
