"""What probes tell apart: a tuned model from its base at each layer, and the layers of a model from each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import Literal

import numpy as np

from reporter.answers.decision import Box, Decision, Lacks, Read, Record, grouped, quoted, together
from reporter.charts.numbers import interval, short
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import FEWEST_TEXTS, quantile
from reporter.table import Comparable, OfModel, Row, column

_MODELS = """
SELECT model, checkpoint, base, is_last AS last
FROM models WHERE study = $study AND status = 'done' AND baseline IS NULL ORDER BY model, position
"""
_TOLD = """
SELECT model, checkpoint, probe, statistic, layer, list(text ORDER BY text) AS texts,
  list(told::DOUBLE ORDER BY text) AS told, count(DISTINCT fold) AS folds
FROM (UNPIVOT (
    SELECT * FROM probe_texts SEMI JOIN (SELECT * FROM probe_poolings WHERE main)
      USING (study, model, checkpoint, probe, pooling, site, layer)
    WHERE study = $study AND site IN ('embedding', 'block')
  )
  ON linear, hidden INTO NAME statistic VALUE told)
GROUP BY model, checkpoint, probe, statistic, layer ORDER BY model, checkpoint, probe, statistic DESC, layer
"""
KINDS = {"linear": "linear", "hidden": "one-hidden-layer"}
"""Kinds of probes, by their column in ``probe_texts``, as people call them."""


class ProbeDifference(Row, table="probe_differences"):
    """The accuracy of a probe on one side minus that on another, on the same held-out texts.

    The sides are a checkpoint of a tuned model and the last one of its base at the same layer, or two layers of one
    checkpoint. Both sides have the main pooling (``probe_poolings.main``). Of the share of neighbours of the same class
    (``probes.label_overlap``) there is none: it has no right or wrong of a text, and its own jackknife over texts.
    """

    compared = (
        Comparable(
            ("value",),
            "probe",
            of="statistic || ' accuracy at layer ' || layer || ' minus ' || other || ' at ' || layer_b",
            interval=True,
        ),
    )

    study = OfModel.study
    kind: Literal["base", "layers"] = column("'base': a model minus its base; 'layers': two layers of one", key=True)
    model: str = column("name of the model in the study", key=True)
    checkpoint: str = column("its checkpoint", key=True)
    last: bool = column("whether that is the model's last one")
    other: str = column("the model that is subtracted: its base (the last checkpoint), or itself", key=True)
    probe: str = column("name of the probe in the study", key=True)
    statistic: Literal["linear", "hidden"] = column(
        "kind of probe: 'linear', or 'hidden', the one with a hidden layer", key=True
    )
    layer: int = column("layer of the first side, 0 = embedding", key=True)
    layer_b: int = column("layer of the side that is subtracted", key=True)
    value: float = column("share of texts told rightly, first side minus second, on the same texts")
    ci_low: float | None = column(
        "lower end of its 95 % interval, paired over texts, for classifiers that share training texts, and widened for "
        "as many differences as this checkpoint and probe have of the kind and statistic; NULL for fewer than 5 texts"
    )
    ci_high: float | None = column("upper end")
    n: int = column("texts that both sides told, rightly or not", "BIGINT")
    apart: bool = column("whether the interval leaves out 0")


def difference(a: Floats, b: Floats, folds: int, many: int = 1) -> tuple[float, float | None, float | None]:
    """Return the mean of a − b and its interval, from the same texts in both.

    The variance is 1 + J/(J − 1) times that of independent texts, J the number of folds, since classifiers of different
    folds share training texts (Nadeau & Bengio 2003); the interval is Student's, widened for ``many`` (Bonferroni).

    Args:
        a: 1 where the first side told a text rightly, else 0, (n,).
        b: the same of the second side.
        folds: of the cross-validation.
        many: how many differences are looked at together.
    """
    steps = a - b
    value, n = float(steps.mean()), len(steps)
    if n < FEWEST_TEXTS:
        return value, None, None
    error = sqrt((1 + folds / max(folds - 1, 1)) * float(steps.var(ddof=1)) / n)
    half = quantile(1 - 0.025 / many, n - 1) * error
    return value, max(value - half, -1.0), min(value + half, 1.0)


def _answer(read: Read) -> Iterator[Row | Lacks]:
    models = {(row["model"], row["checkpoint"]): row for row in read(_MODELS)}
    last = {row["model"]: row["checkpoint"] for row in models.values() if row["last"]}
    told: dict[tuple[str, str, str, str], dict[int, Record]] = {}
    for row in read(_TOLD):
        if (row["model"], row["checkpoint"]) in models:
            key = (row["model"], row["checkpoint"], row["probe"], row["statistic"])
            told.setdefault(key, {})[row["layer"]] = row
    if not told:
        yield Lacks("no probe: add a corpus with labels and `probes: {mine: {corpus: …}}`, or `{words: shipped}`")
        return
    for (model, checkpoint, probe, statistic), layers in told.items():
        own = models[model, checkpoint]
        pairs = [(layers[i], layers[j]) for i, j in combinations(sorted(layers), 2)]
        yield from _rows("layers", own, pairs)
        base = str(own["base"])
        theirs = told.get((base, last.get(base, ""), probe, statistic), {})
        yield from _rows("base", own, [(layers[i], theirs[i]) for i in sorted(layers) if i in theirs])


def _rows(
    kind: Literal["base", "layers"], model: Record, pairs: Sequence[tuple[Record, Record]]
) -> Iterator[ProbeDifference]:
    for mine, theirs in pairs:
        texts, at, there = np.intersect1d(mine["texts"], theirs["texts"], return_indices=True)
        if not len(texts):
            continue
        a, b = np.array(mine["told"])[at], np.array(theirs["told"])[there]
        value, low, high = difference(a, b, min(mine["folds"], theirs["folds"]), len(pairs))
        apart = low is not None and high is not None and not low <= 0 <= high
        yield ProbeDifference(
            kind=kind,
            model=mine["model"],
            checkpoint=mine["checkpoint"],
            last=bool(model["last"]),
            other=theirs["model"],
            probe=mine["probe"],
            statistic=mine["statistic"],
            layer=mine["layer"],
            layer_b=theirs["layer"],
            value=value,
            ci_low=low,
            ci_high=high,
            n=len(texts),
            apart=apart,
        )


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    rows = [row for row in tables["probe_differences"] if row["last"]]
    of_base = grouped((row for row in rows if row["kind"] == "base"), "model", "other", "probe", "statistic")
    of_layers = grouped((row for row in rows if row["kind"] == "layers"), "model", "probe", "statistic")
    return [*map(_against_base, of_base), _of_layers(of_layers)]


def _against_base(rows: Sequence[Record]) -> Box:
    rows = sorted(rows, key=lambda row: row["layer"])
    model, base, probe = (rows[0][name] for name in ("model", "other", "probe"))
    kind = KINDS[rows[0]["statistic"]]
    more, less = ([row["layer"] for row in rows if row["apart"] and sign * row["value"] > 0] for sign in (1, -1))
    said = [f"{word} accurate at {_layers(layers)}" for word, layers in (("more", more), ("less", less)) if layers]
    says = f"The {kind} probe {quoted(probe)} is " + (
        " and ".join(said) + f" than on {base}."
        if said
        else f"neither more nor less accurate than on {base} at any layer, as far as can be told."
    )
    return Box(
        about=f"{model} against {base}",
        says=says,
        columns=(("layer", True), ("change of accuracy", True), ("95 % interval", False), ("texts", True)),
        rows=tuple(
            (str(row["layer"]), short(row["value"], 2), interval(row["ci_low"], row["ci_high"]), str(row["n"]))
            for row in rows
        ),
        notes=("Intervals are paired over texts and hold for all layers together.",),
    )


def _of_layers(found: Sequence[Sequence[Record]]) -> Box:
    """Say of each model how many of its pairs of layers are told apart, and where neighbours are."""
    lines = []
    for own in found:
        model, probe, kind = (own[0][name] for name in ("model", "probe", "statistic"))
        steps = [
            f"{a}–{b}" for a, b in sorted((row["layer"], row["layer_b"]) for row in own if row["apart"]) if b - a == 1
        ]
        apart = f"{sum(row['apart'] for row in own)} of {len(own)}"
        lines.append((model, probe, KINDS[kind], apart, ", ".join(steps) or "none"))
    return Box(
        about=together(line[0] for line in lines),
        says="No two layers of a model are told apart by these probes. "
        * (not any(row["apart"] for own in found for row in own))
        + "Layers are compared on the same texts: a difference counts where its interval, which holds for all pairs "
        "of layers of a model and probe together, leaves out 0.",
        columns=(
            ("model", False),
            ("probe", False),
            ("kind", False),
            ("pairs told apart", True),
            ("neighbours told apart", False),
        ),
        rows=tuple(lines),
    )


def _layers(layers: Sequence[int]) -> str:
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


PROBED = Decision("probes", "What do probes tell apart?", (ProbeDifference,), _answer, _boxes)
