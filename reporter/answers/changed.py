"""What changed in a model against its base: from which layer on, by how much, in which numbers, at what cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import hypot
from typing import Any

from reporter.answers.decision import Box, Decision, Lacks, Read, Record, quoted
from reporter.charts.numbers import interval, short, signed
from reporter.geometry.intervals import quantile, standard_error
from reporter.metrics.base import Statistic
from reporter.metrics.registry import catalogue
from reporter.table import Comparable, OfModel, Row, column

# Of several token sets the words are read.
_WORDS = "QUALIFY dense_rank() OVER (PARTITION BY l.model, l.corpus ORDER BY (l.view = 'words') DESC, l.view) = 1"
_LAYERS = f"""
SELECT l.model, l.checkpoint, l.corpus, l.view, l.site, l.layer, l.statistic, l.value, l.ci_low, l.ci_high, l.n, m.base
FROM layer_metrics l JOIN models m USING (study, model, checkpoint)
WHERE study = $study AND l.metric = 'change' AND l.site IN ('embedding', 'block') AND m.base IS NOT NULL AND m.is_last
{_WORDS}
"""
_MODELS = """
SELECT model, base, layers, precision, precision_deviation FROM models
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
       l.ci_low, l.ci_high, l.n
FROM layer_metrics l JOIN models m USING (study, model, checkpoint)
WHERE study = $study AND m.is_last AND l.value IS NOT NULL AND l.site IN ('embedding', 'block')
  AND l.metric || '.' || l.statistic IN (NAMES)
{_WORDS}
"""
_TOKENS = """
SELECT model, corpus, view, token, distance, n
FROM moved_tokens WHERE study = $study AND site IN ('embedding', 'block')
QUALIFY layer = max(layer) OVER (PARTITION BY model, corpus, view)
ORDER BY model, corpus, rank
"""
NO_BASE = "no model names the one that it was made from: add `base: NAME` to a model"
NOT_COMPARED = "no model was compared with its base: add `change` (or `all`) to `metrics`"
MOST_TOKENS = 8
SHARE = 0.01
"""Of the mean size of a number that states no smallest difference worth a word, as claims take it."""


class ChangeAnswer(Row, table="change_answers"):
    """What changed in a model against its base, on a corpus."""

    compared = (
        Comparable(("changed", "small", "first_layer", "largest_step", "last_cosine", "last_linear"), "corpus"),
        Comparable(("last_distance",), "corpus", interval=("last_low", "last_high")),
        Comparable(("loss",), "corpus", interval=("loss_low", "loss_high")),
    )

    study = OfModel.study
    model: str = column("name of the model in the study", key=True)
    checkpoint: str = column("its checkpoint, the last one measured", key=True)
    base: str = column("the model that it was made from")
    corpus: str = column("name of the corpus", key=True)
    view: str = column("which tokens were compared")
    changed: bool = column("whether any layer lies beyond noise")
    small: bool = column(
        "whether nothing changed that is worth a word: mean cosine of each layer, headline numbers and loss keep "
        "within their smallest difference"
    )
    noise: str = column(
        "what counts as noise: 'rounding' of the kept states, 'precision' of bf16 products, or 'seed': as far as the "
        "model lies from the same one from another seed"
    )
    layers: int = column("blocks of the model")
    base_layers: int = column("blocks of the base")
    first_layer: int | None = column("the first layer beyond noise, 0 = embedding; NULL where there is none")
    first_distance: float | None = column("mean of ‖h − h⁰‖ / ‖h⁰‖ there")
    largest_step: int | None = column("the layer at which that distance grows most; NULL where nothing changed")
    last_distance: float | None = column("the distance at the last layer")
    last_low: float | None = column("lower end of its 95 % interval")
    last_high: float | None = column("upper end")
    last_cosine: float | None = column("mean of cos(h, h⁰) at the last layer")
    last_linear: float | None = column("share of the last layer that a linear map of the base's makes, held out")
    loss: float | None = column("loss minus that of the base, in nats; NULL where it was not measured")
    loss_low: float | None = column("lower end of its 95 % interval, paired over texts")
    loss_high: float | None = column("upper end")
    tokens: str = column("the token types that lie farthest from the base at the last layer, farthest first, JSON")
    n: int = column("tokens, or texts where the tokenizers disagree, that were compared", "BIGINT")


class ChangedNumber(Row, table="changed_numbers"):
    """A headline number of a model minus that of its base, at the layer beyond its interval where it moves most.

    Where no layer is beyond, at the one that comes nearest to it.
    """

    compared = (
        Comparable(("value",), "corpus", of="number", interval=True),
        Comparable(("beyond",), "corpus", of="number"),
    )

    study = OfModel.study
    model: str = column("name of the model in the study", key=True)
    corpus: str = column("name of the corpus", key=True)
    number: str = column("metric.statistic", key=True)
    layer: int = column("the layer; of a number of steps the one that the step leaves")
    value: float = column("of the model minus that of its base there")
    ci_low: float | None = column("lower end of its 95 % interval, widened for as many layers as were looked at")
    ci_high: float | None = column("upper end")
    paired: bool = column("whether the interval pairs texts; else both sides count as independent, which is too wide")
    beyond: int = column("layers whose interval, widened likewise, leaves out 0")
    layers: int = column("layers that were looked at")
    smallest: float = column("the smallest difference worth a word, its own or a hundredth of the number's mean size")
    largest: float = column("the largest change among the layers beyond, in units of `smallest`; 0 where there is none")


def _answer(read: Read) -> Iterator[Row | Lacks]:
    models = {str(row["model"]): row for row in read(_MODELS)}
    found = read(_LAYERS)
    if not found:
        yield Lacks(NOT_COMPARED if any(row["base"] for row in models.values()) else NO_BASE)
        return
    paired = read(_PAIRED)
    headlines = _headlines()
    numbers = read(_NUMBERS.replace("NAMES", ", ".join(f"'{name}'" for name in headlines)))
    tokens = read(_TOKENS)
    losses = {(row["model"], row["corpus"], row["view"]): row for row in paired if row["name"] == "loss.lm"}
    if not losses:
        yield Lacks("no change of loss: add `loss` to `metrics`, where the models have a language-model head")
    which = ("model", "corpus", "view")
    for (model, corpus, view), rows in groupby(
        sorted(found, key=lambda row: _at(row, which)), lambda row: _at(row, which)
    ):
        of_layers = list(rows)
        if models.get(model) is None or models.get(str(of_layers[0]["base"])) is None:
            continue
        farthest = [row for row in tokens if _at(row, which) == (model, corpus, view)][:MOST_TOKENS]
        of_numbers = list(_numbers(headlines, model, str(of_layers[0]["base"]), corpus, view, numbers, paired))
        answer = _changed(of_layers, models, losses.get((model, corpus, view)), farthest, of_numbers)
        if answer is None:
            yield Lacks(f"{model} on {corpus}: its states and those of its base cannot be compared, see cells.reasons")
            continue
        yield answer
        yield from of_numbers


def _at(row: Record, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in columns)


def _changed(
    rows: Sequence[Record],
    models: Mapping[str, Record],
    loss: Record | None,
    farthest: Sequence[Record],
    numbers: Sequence[ChangedNumber],
) -> ChangeAnswer | None:
    first = rows[0]
    own, base = models[first["model"]], models[first["base"]]
    of: dict[str, dict[int, Record]] = {}
    for row in rows:
        if row["value"] is not None:
            of.setdefault(row["statistic"], {})[row["layer"]] = row
    distances = of.get("distance", {})
    if not distances:
        return None
    seeds = of.get("distance_seed", {})
    floor = _floor(of, own, base)
    noise = "seed" if seeds else "precision" if floor else "rounding"

    def beyond(layer: int) -> bool:
        here = distances[layer]
        low = here["value"] if here["ci_low"] is None else here["ci_low"]
        if seeds:
            seed = seeds.get(layer)
            return seed is not None and here["ci_low"] is not None and low > float(seed["ci_high"] or seed["value"])
        return bool(of["moved"][layer]["value"] > 0 and low > floor)

    layers = sorted(distances)
    first_layer = next((layer for layer in layers if beyond(layer)), None)
    value = {layer: float(row["value"]) for layer, row in distances.items()}
    grown = {layer: value[layer] - value.get(layer - 1, 0.0) for layer in layers}
    last = max(layers)
    linear = of.get("linear", {}).get(last)
    return ChangeAnswer(
        model=first["model"],
        checkpoint=first["checkpoint"],
        base=first["base"],
        corpus=first["corpus"],
        view=first["view"],
        changed=first_layer is not None,
        small=_small([row["value"] for row in of["cosine"].values()], loss, numbers),
        noise=noise,
        layers=int(own["layers"]),
        base_layers=int(base["layers"]),
        first_layer=first_layer,
        first_distance=None if first_layer is None else value[first_layer],
        largest_step=None if first_layer is None else max(layers, key=lambda layer: grown[layer]),
        last_distance=value[last],
        last_low=distances[last]["ci_low"],
        last_high=distances[last]["ci_high"],
        last_cosine=of["cosine"][last]["value"],
        last_linear=None if linear is None else linear["value"],
        loss=None if loss is None else loss["value"],
        loss_low=None if loss is None else loss["ci_low"],
        loss_high=None if loss is None else loss["ci_high"],
        tokens=json.dumps([str(row["token"]) for row in farthest if row["token"]], ensure_ascii=False),
        n=int(distances[last]["n"]),
    )


def _floor(of: Mapping[str, Mapping[int, Record]], own: Record, base: Record) -> float:
    """Return how far apart bf16 products alone may take two equal models.

    Nothing, where the first block left every state as it was: then both went through the same batches.
    """
    moved = of.get("moved", {}).get(1)
    if moved is None or moved["value"] == 0:
        return 0.0
    return max((float(one["precision_deviation"] or 0.0) for one in (own, base)), default=0.0)


def _small(cosines: Sequence[float], loss: Record | None, numbers: Sequence[ChangedNumber]) -> bool:
    """Tell whether nothing is shown to have changed, and the loss to have kept, within what is worth a word."""
    least = {f"{m.name}.{s.name}": s.smallest or 0.0 for m in catalogue().values() for s in m.statistics}
    ends = [] if loss is None or loss["value"] == 0 else [loss["ci_low"], loss["ci_high"]]
    return (
        len(numbers) > 0
        and min(cosines) > 1 - least["change.cosine"]
        and all(end is not None and abs(end) < least["loss.lm"] for end in ends)
        and all(one.largest < 1 for one in numbers)
    )


def _headlines() -> dict[str, Statistic]:
    """Return the numbers of layers that stand for their metrics; the loss is said apart."""
    return {
        f"{metric.name}.{statistic.name}": statistic
        for metric in catalogue().values()
        for statistic in metric.statistics
        if statistic.headline and statistic.per in ("layer", "step") and not metric.compares_only
    }


def _steps() -> set[str]:
    """Return the numbers of a step: stored at layer l, they are of what block l + 1 does."""
    return {f"{m.name}.{s.name}" for m in catalogue().values() for s in m.statistics if s.per == "step"}


def _numbers(
    headlines: Mapping[str, Statistic],
    model: str,
    base: str,
    corpus: str,
    view: str,
    numbers: Sequence[Record],
    paired: Sequence[Record],
) -> Iterator[ChangedNumber]:
    mine, theirs = (
        {
            (row["name"], row["layer"]): row
            for row in numbers
            if (row["model"], row["corpus"], row["view"]) == (name, corpus, view)
        }
        for name in (model, base)
    )
    known = {
        (row["name"], row["layer"]): row
        for row in paired
        if (row["model"], row["corpus"], row["view"]) == (model, corpus, view) and row["ci_low"] is not None
    }
    for name, statistic in headlines.items():
        shared = [layer for of, layer in mine if of == name and (name, layer) in theirs]
        sizes = [abs(float(side[name, layer]["value"])) for side in (mine, theirs) for layer in shared]
        smallest = SHARE * sum(sizes) / max(len(sizes), 1) if statistic.smallest is None else statistic.smallest
        found: list[tuple[float, int, float, float | None, float | None, bool]] = []
        # An interval for each of so many layers: one of the widest is shown, so all are widened (Bonferroni).
        wider = quantile(1 - 0.025 / max(len(shared), 1)) / quantile(0.975)
        for layer in shared:
            pair = known.get((name, layer))
            difference, error = (
                (float(pair["value"]), standard_error(pair["value"], pair["ci_low"], pair["ci_high"]))
                if pair is not None
                else _independent(mine[name, layer], theirs[name, layer])
            )
            half = None if error is None else quantile(0.975) * wider * error
            low, high = (None, None) if half is None else (difference - half, difference + half)
            sure = 0.0 if half is None or difference == 0 else abs(difference) / max(half, 1e-300)
            found.append((sure, layer, difference, low, high, pair is not None))
        if not found:
            continue
        beyond = [one for one in found if one[0] > 1]
        # The layer that is shown is the one that the sentence above the table speaks of.
        best = max(beyond, key=lambda one: abs(one[2])) if beyond else max(found, key=lambda one: one[0])
        largest = abs(best[2]) / smallest if beyond else 0.0
        yield ChangedNumber(model, corpus, name, *best[1:], len(beyond), len(found), smallest, largest)


def _independent(mine: Record, theirs: Record) -> tuple[float, float | None]:
    """Return the difference of two numbers of the same texts and an error that is no smaller than its own.

    Texts that raise the one raise the other, too, which a root of summed squares leaves out.
    """
    errors = [standard_error(row["value"], row["ci_low"], row["ci_high"]) for row in (mine, theirs)]
    known = [error for error in errors if error is not None]
    return float(mine["value"]) - float(theirs["value"]), hypot(*known) if len(known) == 2 else None


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    numbers = tables["changed_numbers"]
    return [
        _box(row, [one for one in numbers if (one["model"], one["corpus"]) == (row["model"], row["corpus"])])
        for row in tables["change_answers"]
    ]


def _box(row: Record, numbers: Sequence[Record]) -> Box:
    sentences = [_depth(row), _verdict(row), _loss(row)]
    steps = _steps()
    if numbers and row["changed"]:
        sentences.append(_differ(numbers))
    if row["changed"] and (tokens := json.loads(row["tokens"])):
        sentences.append(f"Farthest moved: {', '.join(map(quoted, tokens))}.")
    return Box(
        about=f"{row['model']} against {row['base']}, on {row['corpus']}",
        says=" ".join(sentence for sentence in sentences if sentence),
        columns=(
            ("number", False),
            ("layer", True),
            ("change", True),
            ("95 % interval", False),
            ("smallest worth a word", True),
            ("layers beyond", True),
        ),
        rows=tuple(
            (
                one["number"],
                f"{one['layer']} → {one['layer'] + 1}" if one["number"] in steps else str(one["layer"]),
                signed(one["value"]),
                interval(one["ci_low"], one["ci_high"]) + ("" if one["paired"] else ", not paired"),
                short(one["smallest"], 2),
                f"{one['beyond']} of {one['layers']}",
            )
            for one in sorted(numbers, key=lambda one: one["number"])
        )
        if row["changed"]
        else (),
        notes=_notes(row),
    )


def _differ(numbers: Sequence[Record]) -> str:
    """Say which headline numbers moved, in units of what is worth a word."""
    beyond = sorted((one for one in numbers if one["beyond"]), key=lambda one: -one["largest"])
    told = [one for one in beyond if one["largest"] >= 1]
    if not beyond:
        return "No headline number differs beyond its interval."
    if not told:
        return (
            "No headline number moves by the smallest difference worth a word; nearest comes "
            f"`{beyond[0]['number']}`, by {short(beyond[0]['largest'], 2)} of it."
        )
    named = ", ".join(f"`{one['number']}` (up to {short(one['largest'], 2)} times that)" for one in told)
    return f"Beyond their intervals, and by more than the smallest difference worth a word, differ {named}."


def _depth(row: Record) -> str:
    fewer, first = row["base_layers"] - row["layers"], row["first_layer"]
    if not fewer:
        return ""
    said = f"It has {abs(fewer)} block{'s' if abs(fewer) > 1 else ''} {'fewer' if fewer > 0 else 'more'}"
    if fewer > 0 and first and row["noise"] == "rounding":
        return f"{said}, and block {first} of the base is the first that is missing or another."
    return f"{said}."


def _verdict(row: Record) -> str:
    last = f"{short(row['last_distance'], 2)} {interval(row['last_low'], row['last_high'])}".strip()
    if not row["changed"]:
        if row["noise"] == "seed":
            said = "no layer lies farther from the base than from another seed"
            return f"Nothing beyond noise: {said} (last layer: {last})."
        if row["noise"] == "precision":
            return (
                f"Nothing beyond noise: no layer lies farther than products in bf16 may take it (last layer: {last})."
            )
        return f"Nothing beyond noise: at no layer did any of {row['n']:,} tokens move by more than rounding."
    first = row["first_layer"]
    where = "from the embedding on" if first == 0 else f"from block {first} on"
    where = f"A small change: {where}" if row["small"] else where.capitalize()
    than = {"seed": " farther than another seed takes them", "precision": " farther than bf16 products take them"}
    before = {0: "", 1: "; the embedding is the same"}.get(first, f"; up to block {first - 1} they are the same")
    if row["noise"] != "rounding":
        before = ""
    linear = row["last_linear"]
    map_says = "" if linear is None else f", and a linear map of the base makes {_of_one(linear)} of it"
    if linear is not None and linear <= 0:
        map_says = ", and no linear map of the base foretells it better than its mean does"
    grown = "" if row["largest_step"] == first else f" The distance grows most at layer {row['largest_step']}."
    return (
        f"{where} states lie elsewhere{than.get(row['noise'], '')}: there by {short(row['first_distance'], 2)} of "
        f"their length{before}. At the last layer it is {last}, cosine {_of_one(row['last_cosine'])}{map_says}.{grown}"
    )


def _loss(row: Record) -> str:
    if row["loss"] is None:
        return ""
    low, high = row["loss_low"], row["loss_high"]
    said = f"{signed(row['loss'])} {interval(low, high)}".strip()
    if row["loss"] == 0:
        return "The loss is the same."
    if low is None:
        return f"The loss moves by {said} nats, on too few texts for an interval."
    if low <= 0 <= high:
        return f"The loss moves by {said} nats, no more than chance."
    return f"The loss {'rises' if low > 0 else 'falls'}: {said} nats."


def _notes(row: Record) -> tuple[str, ...]:
    if not row["changed"]:
        return ()
    notes = []
    if row["noise"] == "rounding":
        notes.append(
            "Without another seed to compare with, all that is beyond rounding counts; name one by `twin`, or add the "
            "recipe once more with another `seed`."
        )
    if row["base_layers"] != row["layers"]:
        notes.append(
            "Layers are compared by number, the distance at the last one with the last: behind a block that is missing "
            "the numbers in the table stand beside those of another block, which is part of their change."
        )
    return tuple(notes)


def _of_one(value: float) -> str:
    """Write a number of at most 1 with as many digits as tell it from 1: 0.987, 0.99995."""
    return next((text for digits in range(3, 8) if (text := short(value, digits)) != "1"), "1")


CHANGED = Decision("changed", "What changed against the base?", (ChangeAnswer, ChangedNumber), _answer, _boxes)
