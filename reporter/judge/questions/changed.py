"""The question what changed in a model against its base: from which layer on, how much, which numbers, at what cost.

Both sides are measured on the same texts, so a difference beyond rounding, or beyond what bf16 products do, is no
matter of chance. A difference beyond another seed may be one, so the finding tests it again, corrected for all layers.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from reporter.core.json_text import stored_json
from reporter.core.numbers import compared, counted, estimate, short, signed, with_sign
from reporter.core.places import capital, in_backticks, listed, numbers_of, place, ranges
from reporter.core.table import FREE, Row
from reporter.judge.claims import least_effect
from reporter.judge.estimates import Estimates, measured
from reporter.judge.facts import CORPUS_SIZES, declared
from reporter.judge.questions.question import (
    Advice,
    Box,
    BoxColumn,
    Question,
    Read,
    Record,
    gaps,
    grouped,
    numeric,
    table,
)
from reporter.metrics.base import Statistic
from reporter.store.answers import INDISTINGUISHABLE, NEAR, SAME, SMALL, ChangeAnswer, ChangedNumber
from reporter.store.rows import texts_are_fixed

# Of several token sets the words are read.
_WORDS = "QUALIFY dense_rank() OVER (PARTITION BY l.model, l.corpus ORDER BY (l.view = 'text tokens') DESC, l.view) = 1"
_LAYERS = f"""
SELECT l.model, l.checkpoint, l.corpus, l.view, l.site, l.layer, l.statistic, l.value, l.ci_low, l.ci_high, l.n, m.base
FROM layer_metrics l JOIN models m USING (study, model, checkpoint)
WHERE study = $study AND l.metric = 'change' AND l.site IN ('embedding', 'block') AND m.base IS NOT NULL AND m.is_last
{_WORDS}
"""
_OUTPUTS = f"""
SELECT l.model, l.corpus, l.view, l.statistic, l.value, l.ci_low, l.ci_high, l.n
FROM layer_metrics l JOIN models m USING (study, model, checkpoint)
WHERE study = $study AND l.metric = 'divergence' AND l.statistic IN ('kl', 'kl_median', 'kl_max', 'same_top')
  AND l.value IS NOT NULL AND m.is_last
{_WORDS}
"""
_MODELS = """
SELECT model, base, layers, precision, precision_deviation, weights FROM models
WHERE study = $study AND baseline IS NULL AND status = 'done' AND is_last
"""
_PAIRED = """
SELECT model_a AS model, corpus_a AS corpus, view, metric || '.' || statistic AS name, site, layer, value, ci_low,
       ci_high, n
FROM differences
WHERE study = $study AND kind = 'base' AND value IS NOT NULL AND coalesce(site, '') NOT IN ('final', 'attention')
"""
_NUMBERS = f"""
SELECT l.model, l.checkpoint, l.corpus, l.view, l.metric || '.' || l.statistic AS name, l.site, l.layer, l.value,
       l.ci_low, l.ci_high, l.n, c.texts, p.scale, p.parts
FROM layer_metrics l JOIN models m USING (study, model, checkpoint) LEFT JOIN ({CORPUS_SIZES}) AS c USING (corpus)
LEFT JOIN text_parts p USING (study, model, checkpoint, corpus, view, metric, statistic, layer)
WHERE study = $study AND m.is_last AND l.value IS NOT NULL AND l.site IN ('embedding', 'block')
  AND l.metric || '.' || l.statistic IN (NAMES) AND {FREE}
{_WORDS}
"""
_ADDED = """
SELECT model, token FROM tuning_words WHERE study = $study AND positions = 'first' AND direction = 'up'
QUALIFY layer = max(layer) OVER (PARTITION BY model) AND item = min(item) OVER (PARTITION BY model)
ORDER BY model, rank
"""
_TOKENS = """
SELECT model, corpus, view, token, distance, n
FROM moved_tokens WHERE study = $study AND site IN ('embedding', 'block')
QUALIFY layer = max(layer) OVER (PARTITION BY model, corpus, view)
ORDER BY model, corpus, rank
"""
NO_BASE = "no model has a base, the model that it was made from: add `base: NAME` to a model"
NOT_COMPARED = "no model was compared with its base: add `change` (or `all`) to `metrics`"
MOST_TOKENS = 8
MOST_CHANGES = 3
DISTANCE, LOSS = "change.distance", "loss.lm"
_OUTSIDE = {"embeddings": "embedding", "head": "head"}  # groups of weights outside of blocks, and their names
DOMINANT = 0.05
"""Share of the mean divergence from which on the answer names that one token makes it up."""
_CASE = ("model", "corpus", "view")


Numbered = Mapping[tuple[str, int], Record]
"""Rows by the full name of a number and the layer."""


def _case(row: Record) -> tuple[Any, ...]:
    return tuple(row[name] for name in _CASE)


def _changes(read: Read) -> Iterator[Row | Advice]:
    models = {str(row["model"]): row for row in read(_MODELS)}
    layers = read(_LAYERS)
    reasons = gaps(read, "change", "distance")
    if not layers:
        lacks = NOT_COMPARED if any(row["base"] for row in models.values()) else NO_BASE
        yield from [Advice(f"{model} on {corpus}: {why}") for (model, corpus), why in reasons.items()] or [
            Advice(lacks)
        ]
        return
    main = {
        name: statistic
        for name, (metric, statistic) in declared().items()
        if statistic.main and statistic.per in ("layer", "step") and not metric.compares_only
    }
    paired, tokens, added = read(_PAIRED), read(_TOKENS), read(_ADDED)
    numbers = read(_NUMBERS.replace("NAMES", ", ".join(f"'{name}'" for name in main)))
    outputs = read(_OUTPUTS)
    fixed = any(texts_are_fixed(row["spec"]) for row in read("SELECT spec FROM studies WHERE study = $study"))
    losses = {_case(row): row for row in paired if row["name"] == LOSS}
    if not losses:
        yield Advice("the change of the loss is unknown: add `loss` to `metrics` (needs a language-model head)")
    if not outputs:
        yield Advice("the divergence of the predictions is unknown: add `divergence` to `metrics` (needs a head)")
    for rows in grouped(sorted(layers, key=_case), *_CASE):
        case, base = _case(rows[0]), models.get(str(rows[0]["base"]))
        if case[0] not in models or base is None:
            continue
        after, before = (
            {(row["name"], row["layer"]): row for row in numbers if _case(row) == (model, *case[1:])}
            for model in (case[0], base["model"])
        )
        pairs = {(row["name"], row["layer"]): row for row in paired if _case(row) == case and row["ci_low"] is not None}
        moved = _without_unchanged(after, rows, main)
        changed_numbers = [
            ChangedNumber(case[0], case[1], name, *change)
            for name, statistic in main.items()
            if (change := _change_of_number(name, statistic, moved, before, pairs, fixed)) is not None
        ]
        farthest = [row for row in tokens if _case(row) == case][:MOST_TOKENS]
        words = [str(row["token"]) for row in added if row["model"] == case[0]][:MOST_TOKENS]
        predictions = {row["statistic"]: row for row in outputs if _case(row) == case}
        answer = _change_of_states(
            rows, models[case[0]], base, losses.get(case), predictions, farthest, words, changed_numbers
        )
        if answer is None:
            why = reasons.get((case[0], case[1]), "a measurement failed")
            yield Advice(f"{case[0]} on {case[1]} cannot be compared with its base: {why}")
            continue
        yield answer
        yield from changed_numbers


def _without_unchanged(numbers: Numbered, rows: Sequence[Record], main: Mapping[str, Statistic]) -> Numbered:
    """Leave out numbers of layers at which no state moved: they differ only as far as they refer to later layers."""
    still = {row["layer"] for row in rows if row["statistic"] == "moved" and row["value"] == 0}
    return {
        (name, layer): row
        for (name, layer), row in numbers.items()
        if layer not in still or (main[name].per == "step" and layer + 1 not in still)
    }


def _change_of_states(
    rows: Sequence[Record],
    tuned: Record,
    base: Record,
    loss: Record | None,
    predictions: Mapping[str, Record],
    farthest: Sequence[Record],
    words: Sequence[str],
    numbers: Sequence[ChangedNumber],
) -> ChangeAnswer | None:
    by_statistic: dict[str, dict[int, Record]] = {}
    for row in rows:
        if row["value"] is not None:
            by_statistic.setdefault(row["statistic"], {})[row["layer"]] = row
    distances, seeds = by_statistic.get("distance", {}), by_statistic.get("distance_seed", {})
    if not distances:
        return None
    deviation = _deviation(by_statistic, tuned, base)

    def beyond(layer: int) -> bool:
        row = distances[layer]
        low = row["value"] if row["ci_low"] is None else row["ci_low"]
        if seeds:
            seed = seeds.get(layer)
            return seed is not None and row["ci_low"] is not None and low > float(seed["ci_high"] or seed["value"])
        # a moved token is no matter of chance, so that the interval counts against bf16 products alone
        return bool(by_statistic["moved"][layer]["value"] > 0 and (not deviation or low > deviation))

    value = {layer: float(distances[layer]["value"]) for layer in sorted(distances)}
    first_layer = next((layer for layer in value if beyond(layer)), None)
    steepest = max(value, key=lambda layer: value[layer] - value.get(layer - 1, 0.0))
    last, linear = max(value), by_statistic.get("linear", {})
    none = {"value": None, "ci_low": None, "ci_high": None}
    loss = loss or none
    divergence, median, most, same = (predictions.get(name, none) for name in ("kl", "kl_median", "kl_max", "same_top"))
    changed = first_layer is not None
    largest = max(row["value"] if row["ci_high"] is None else row["ci_high"] for row in distances.values())
    verdict = "seed" if seeds and not changed else _verdict(divergence["ci_high"], changed, float(largest), loss)
    return ChangeAnswer(
        **{name: rows[0][name] for name in ("model", "checkpoint", "base", "corpus", "view")},
        verdict=verdict,
        **_with_interval("divergence", "divergence", divergence),
        **_with_interval("median", "median", median),
        largest_share=most["value"] / divergence["value"] / most["n"] if most["value"] else None,
        **_with_interval("same_top", "same", same),
        untouched=_untouched(tuned, base),
        changed=changed,
        small=changed and verdict in ("indistinguishable", "small"),
        noise="seed" if seeds else "precision" if deviation else "rounding",
        layers=int(tuned["layers"]),
        base_layers=int(base["layers"]),
        first_layer=first_layer,
        first_distance=None if first_layer is None else value[first_layer],
        largest_step=None if first_layer is None else steepest,
        largest_distance=float(largest),
        **_with_interval("last_distance", "last", distances[last]),
        last_cosine=by_statistic["cosine"][last]["value"],
        last_linear=linear[last]["value"] if last in linear else None,
        **_with_interval("loss", "loss", loss),
        tokens=json.dumps([str(row["token"]) for row in farthest if row["token"]], ensure_ascii=False),
        words=json.dumps(words, ensure_ascii=False),
        n=int(distances[last]["n"]),
    )


def _with_interval(name: str, ends: str, number: Record) -> dict[str, Any]:
    return {name: number["value"], f"{ends}_low": number["ci_low"], f"{ends}_high": number["ci_high"]}


def _verdict(most: float | None, changed: bool, largest: float, loss: Record) -> str:
    """Return the verdict by the upper end of the mean divergence; without one by the states and the loss."""
    if most is not None:
        return "indistinguishable" if most < INDISTINGUISHABLE else "small" if most < SMALL else "changed"
    ends = [loss["ci_low"], loss["ci_high"]] if loss["value"] else []
    if any(end is None or abs(end) >= _least_loss() for end in ends):
        return "changed"
    if not changed:
        return "indistinguishable"
    return "changed" if largest >= NEAR else "indistinguishable" if largest < SAME else "small"


def _least_loss() -> float:
    return least_effect(declared()[LOSS][1], [])


def _untouched(tuned: Record, base: Record) -> str | None:
    """Return what has exactly the weights of the base, by hashes; None where these are unknown."""
    mine, theirs = (stored_json(model.get("weights") or "{}") for model in (tuned, base))
    blocks = [group for group in mine if group.isdigit()]
    if not blocks or not theirs:
        return None
    alike = [group for group in mine if mine[group] == theirs.get(group)]
    outside = [_OUTSIDE[group] for group in alike if group in _OUTSIDE]
    numbers = ranges([int(group) for group in alike if group.isdigit()], commas=True)
    return ", ".join([numbers] * bool(numbers) + outside)


def _deviation(by_statistic: Mapping[str, Mapping[int, Record]], tuned: Record, base: Record) -> float:
    """Return how far apart bf16 products alone may take two equal models.

    It is 0 if the first block left every state as it was: then both models went through the same batches.
    """
    moved = by_statistic.get("moved", {}).get(1)
    if moved is None or moved["value"] == 0:
        return 0.0
    return max(float(model["precision_deviation"] or 0.0) for model in (tuned, base))


def _change_of_number(
    name: str, statistic: Statistic, tuned: Numbered, before: Numbered, pairs: Numbered, fixed: bool
) -> tuple[Any, ...] | None:
    """Return the columns of a changed number from ``layer`` on; None if no layer is shared."""
    shared = [layer for other, layer in tuned if other == name and (name, layer) in before]
    if not shared:
        return None
    sizes = [float(side[name, layer]["value"]) for side in (tuned, before) for layer in shared]
    smallest = least_effect(statistic, sizes)
    gap = _estimates([tuned[name, layer] for layer in shared], statistic, fixed).minus(
        _estimates([before[name, layer] for layer in shared], statistic, fixed), paired=True
    )
    stored = {} if gap.parts is not None or fixed else {layer: pairs.get((name, layer)) for layer in shared}
    changes: list[tuple[float, int, float, float | None, float | None, bool]] = []
    for index, layer in enumerate(shared):
        pair, number = stored.get(layer), gap.some([index])
        if pair is not None:
            number = Estimates.of_pair(pair["value"], pair["ci_low"], pair["ci_high"], tuned[name, layer].get("texts"))
        # The table shows one of the widest of these intervals, so all are widened for their number (Bonferroni).
        level, value = 1 - 0.05 / len(shared), float(gap.value[index])
        (low,), (high,) = number.interval(level)
        certainty = 0.0 if value == 0 else abs(value) / max(value - low if value > 0 else high - value, 1e-300)
        paired = pair is not None or gap.parts is not None
        changes.append((float(certainty), layer, value, *number.ends(level=level), paired))
    beyond = [change for change in changes if change[0] > 1]
    # The table shows the layer that the sentence above it names, or of numbers without intervals the largest change.
    best = max(beyond or changes, key=lambda change: abs(change[2]) if beyond else (change[0], abs(change[2])))
    largest = abs(best[2]) / smallest if beyond else 0.0
    before_and_after = (float(side[name, best[1]]["value"]) for side in (before, tuned))
    return *best[1:], len(beyond), len(changes), smallest, largest, *before_and_after


def _estimates(rows: Sequence[Record], statistic: Statistic, fixed: bool) -> Estimates:
    parts = [None if row.get("parts") is None else row["scale"] * np.array(row["parts"]) for row in rows]
    ends, texts = [(row["ci_low"], row["ci_high"]) for row in rows], rows[0].get("texts")
    return measured(np.array([row["value"] for row in rows], dtype=float), ends, parts, texts, statistic.bounds, fixed)


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    numbers = tables["changed_numbers"]
    return [
        _box(
            row, [change for change in numbers if (change["model"], change["corpus"]) == (row["model"], row["corpus"])]
        )
        for row in tables["change_answers"]
    ]


def _box(row: Record, numbers: Sequence[Record]) -> Box:
    sentences = [_verdict_line(row), _depth(row), _outputs(row), _states(row), _weights(row), _loss(row)]
    if numbers and row["changed"]:
        sentences.append(_differ(numbers))
    if row["changed"] and (tokens := stored_json(row["tokens"])):
        sentences.append(f"Tokens that moved most on average: {', '.join(map(in_backticks, tokens))}.")
    if row["verdict"] == "changed" and (words := stored_json(row["words"])):
        sentences.append(f"Words read from the mean change of early tokens: {', '.join(map(in_backticks, words))}.")
    shown = sorted(numbers, key=lambda change: change["number"]) if row["changed"] else []
    return Box(
        about=f"{row['model']} against {row['base']}, on {row['corpus']}",
        says=" ".join(sentence for sentence in sentences if sentence),
        **table(
            shown,
            BoxColumn("number", lambda change: change["number"]),
            BoxColumn("at", _place),
            numeric("base", lambda change: _written(change)[1]),
            numeric("model", lambda change: _written(change)[0]),
            numeric("change", lambda change: _written(change)[2]),
            numeric("minimum meaningful difference", lambda change: short(change["smallest"], 2)),
            numeric("layers changed", lambda change: f"{change['beyond']} of {change['layers']}"),
        ),
        notes=_notes(row, shown),
    )


def _place(change: Record) -> str:
    """Return the layer of a changed number, or the block."""
    _, statistic = declared().get(change["number"], (None, None))
    return place(change["layer"], statistic is not None and statistic.per == "step")


def _written(change: Record) -> tuple[str, str, str]:
    """Return the number of the model, of its base, and the difference, which is that of the numbers as written."""
    gap = change["value"]
    after, before = (change["after"], None, None), (change["before"], None, None)
    model, base, difference = compared(after, before, (gap, change["ci_low"], change["ci_high"]))
    paired = change["paired"] or change["ci_low"] is None
    return model, base, with_sign(gap, difference) + ", not paired" * (not paired)


def _differ(numbers: Sequence[Record]) -> str:
    beyond = sorted((change for change in numbers if change["beyond"]), key=lambda change: -change["largest"])
    large = [change for change in beyond if change["largest"] >= 1]
    if not beyond:
        tested = any(change["ci_low"] is not None for change in numbers)
        return f"{'No main statistic changed significantly' if tested else 'No change of a main statistic was tested'}."
    if not large:
        return (
            "No main statistic changes enough to matter: the largest significant change is "
            f"{short(beyond[0]['largest'], 2)} of the minimum meaningful difference, in the {_titled(beyond[0])}."
        )
    changes = [
        f"{_titled(change)} from {_written(change)[1]} to {_written(change)[0]}" for change in large[:MOST_CHANGES]
    ]
    more = f", and {len(large) - MOST_CHANGES} more" if len(large) > MOST_CHANGES else ""
    what = "1 main statistic changes" if len(large) == 1 else f"{len(large)} main statistics change"
    return f"{what} significantly, by the minimum meaningful difference or more: {'; '.join(changes)}{more}."


def _titled(change: Record) -> str:
    """Return the title of a changed number, and the layer."""
    _, statistic = declared().get(change["number"], (None, None))
    return f"{statistic.title if statistic else change['number']} at {_place(change)}"


def _depth(row: Record) -> str:
    fewer, first = row["base_layers"] - row["layers"], row["first_layer"]
    if not fewer:
        return ""
    says = f"The model has {counted(abs(fewer), 'block')} {'fewer' if fewer > 0 else 'more'} than its base."
    if fewer > 0 and first and row["noise"] == "rounding":
        return f"{says} Block {first} of the base is the first block that is missing or different."
    return says


def _verdict_line(row: Record) -> str:
    verdict, first, known = row["verdict"], row["first_layer"], row["divergence_high"] is not None
    if verdict == "seed":
        return f"Verdict: not changed significantly more than another seed changes {row['base']}."
    if verdict == "indistinguishable":
        limit = f"mean divergence below {INDISTINGUISHABLE:g} nats" if known else _largest(SAME)
        limit = f" ({limit})" if known or row["changed"] else ""
        return f"Verdict: indistinguishable from the base on these texts{limit}{_only(row)}."
    where = "in the predictions alone" if first is None else f"from {place(first)} on"
    limit = f" (mean divergence {'not ' * (verdict == 'changed')}below {SMALL:g} nats)" if known else ""
    if not known and verdict == "small":
        limit = f" ({_largest(NEAR)})"
    return f"Verdict: {'changed' if verdict == 'changed' else 'a small change'} {where}{limit}{_only(row)}."


def _largest(limit: float) -> str:
    return f"states differ by less than {limit:g} of their norm on average at every layer"


def _outputs(row: Record) -> str:
    if row["divergence"] is None:
        return ""
    mean = estimate(row["divergence"], row["divergence_low"], row["divergence_high"])
    median = estimate(row["median"], row["median_low"], row["median_high"]) if row["median"] is not None else ""
    says = [f"The mean divergence is {mean} nats{', the median ' * bool(median)}{median}."]
    if (row["largest_share"] or 0.0) > DOMINANT:
        says.append(f"One token makes up {100 * row['largest_share']:.0f} % of the mean.")
    if row["divergence"] and row["divergence_high"] is not None:
        says.append("The interval of the mean is too narrow if rarer tokens, which these texts lack, diverge most.")
    same = estimate(row["same_top"], row["same_low"], row["same_high"])
    return " ".join([*says, f"The most likely token is the same for {same} of the tokens."])


_UNCHANGED = {
    "seed": "no layer differs significantly from the base by more than a different seed would explain (last layer: "
    "{last})",
    "precision": "no layer differs significantly from the base by more than bf16 rounding (last layer: {last})",
    "rounding": "none of {n:,} states moved by more than rounding at any layer",
}
_BEYOND = {
    "seed": " by more than a different seed would explain",
    "precision": " by more than bf16 rounding",
    "rounding": "",
}


def _states(row: Record) -> str:
    last = estimate(row["last_distance"], row["last_low"], row["last_high"])
    first, noise, linear = row["first_layer"], row["noise"], row["last_linear"]
    if not row["changed"]:
        return f"{capital(_UNCHANGED[noise].format(last=last, n=row['n']))}."
    before = ""
    if noise == "rounding" and first:
        before = f"; {'the embedding is' if first == 1 else f'up to {place(first - 1)} states are'} unchanged"
    mapped = ""
    if linear is not None and linear <= 0:
        mapped = " No linear map from the states of the base predicts these states better than their mean does."
    elif linear is not None:
        mapped = f" A linear map from the states of the base explains {_below_one(linear)} of the variance."
    steepest = "" if row["largest_step"] == first else f" The distance grows most at layer {row['largest_step']}."
    return (
        f"States differ from the base{_BEYOND[noise]}: first at {place(first)}, by "
        f"{short(row['first_distance'], 2)} of their norm{before}. At the last layer they differ by {last} of their "
        f"norm, with cosine {_below_one(row['last_cosine'])}.{mapped}{steepest}"
    )


def _alike(row: Record) -> tuple[str, list[str]]:
    """Return the blocks of a changed model that have the weights of the base, and what else has them."""
    alike = (row["untouched"] or "").split(", ") if row["changed"] else []
    outside = [f"the {part}" for part in alike if part in _OUTSIDE.values()]
    return ", ".join(part for part in alike if part not in _OUTSIDE.values()), outside


def _only(row: Record) -> str:
    """Return which blocks alone have other weights than the base, where these are half of the blocks at most."""
    same = numbers_of(_alike(row)[0])
    others = [block for block in range(1, row["layers"] + 1) if block not in same]
    if not 0 < len(others) <= row["layers"] // 2:
        return ""
    several = len(others) > 1
    which = f"block{'s' * several} {ranges(others, commas=True)}"
    return f"; of the blocks, only {which} {'have' if several else 'has'} other weights"


def _weights(row: Record) -> str:
    blocks, named = _alike(row)
    if blocks and not _only(row):
        named = [f"block{'s' * bool(set(blocks) & set('–,'))} {blocks}", *named]
    if not named:
        return ""
    have = "have" if len(named) > 1 or named[0].startswith("blocks") else "has"
    return f"{capital(listed(named))} {have} exactly the weights of the base."


def _loss(row: Record) -> str:
    low, high = row["loss_low"], row["loss_high"]
    if row["loss"] is None:
        return ""
    if row["loss"] == 0:
        return "The loss is unchanged."
    change = signed(row["loss"], low, high)
    if low is None:
        return f"The loss changes by {change} nats, with too few texts for an interval."
    if low <= 0 <= high:
        return f"The loss changes by {change} nats, which is not significant."
    if max(-low, high) < _least_loss():
        return f"The loss changes by {change} nats, less than the minimum meaningful difference of {_least_loss():g}."
    return f"The loss {'rises' if low > 0 else 'falls'} significantly: {change} nats."


def _notes(row: Record, shown: Sequence[Record]) -> tuple[str, ...]:
    unseen = row["verdict"] == "indistinguishable"
    notes = ["Other texts may show a change." if unseen else "Other texts may show a larger change, or a smaller one."]
    if any(change["ci_low"] is not None for change in shown):
        notes.append(
            "Intervals of the table, and what is significant, are corrected for the layers of a statistic, not for the "
            "number of statistics."
        )
    if row["changed"] and row["base_layers"] != row["layers"]:
        notes.append(
            "Layers are compared by number, and the last layer with the last layer. After a missing or an added block, "
            "the table compares different blocks, which adds to their change."
        )
    return tuple(notes)


def _below_one(value: float) -> str:
    """Write a share with as many digits as keep it from reading 1."""
    return next((text for digits in range(3, 8) if (text := short(value, digits)) != "1"), "1")


CHANGED = Question("changed", "What changed against the base?", (ChangeAnswer, ChangedNumber), _changes, _boxes)
