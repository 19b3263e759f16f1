"""Differences of probes: a model and its base, layers of a model."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import Literal

import numpy as np

from reporter.core.places import in_backticks, together
from reporter.core.table import Row
from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.intervals import FEWEST_TEXTS, of_units, quantile
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
from reporter.store.answers import ProbeDifference

_MODELS = """
SELECT model, checkpoint, base, is_last AS last
FROM models WHERE study = $study AND status = 'done' AND baseline IS NULL ORDER BY model, position
"""
_TOLD = """
SELECT model, checkpoint, probe, statistic, layer, list(text ORDER BY text) AS texts,
  list(told::DOUBLE ORDER BY text) AS told, list(coalesce(unit, text) ORDER BY text) AS clusters,
  count(DISTINCT fold) AS folds
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


def difference(
    a: Floats, b: Floats, folds: int, many: int = 1, units: Ints | None = None
) -> tuple[float, float | None, float | None]:
    """Return the mean of a − b and its interval, from the same texts in both.

    The variance is 1 + J/(J − 1) times that of independent texts, J the number of folds, since classifiers of different
    folds share training texts (Nadeau & Bengio 2003); the interval is Student's, widened for ``many`` (Bonferroni).

    Args:
        a: 1 where the first side told a text rightly, else 0, (n,).
        b: the same of the second side.
        folds: of the cross-validation.
        many: how many differences are looked at together.
        units: the unit of each text, (n,); each text is one if None.
    """
    steps = of_units(a - b, units)
    value, n = float(steps.mean()), len(steps)
    if n < FEWEST_TEXTS:
        return value, None, None
    error = sqrt((1 + folds / max(folds - 1, 1)) * float(steps.var(ddof=1)) / n)
    half = quantile(1 - 0.025 / many, n - 1) * error
    return value, max(value - half, -1.0), min(value + half, 1.0)


def _probe_rows(read: Read) -> Iterator[Row | Advice]:
    models = {(row["model"], row["checkpoint"]): row for row in read(_MODELS)}
    last = {row["model"]: row["checkpoint"] for row in models.values() if row["last"]}
    results: dict[tuple[str, str, str, str], dict[int, Record]] = {}
    for row in read(_TOLD):
        if (row["model"], row["checkpoint"]) in models:
            key = (row["model"], row["checkpoint"], row["probe"], row["statistic"])
            results.setdefault(key, {})[row["layer"]] = row
    if not results:
        says = "no probe: add `probes: {mine: {words: shipped}}`, or a corpus with labels and `{corpus: NAME}`"
        lacks = list(unprobed(read)) or [Advice(says, runs=True)]
        yield from lacks
        return
    for (model, checkpoint, probe, statistic), layers in results.items():
        tuned = models[model, checkpoint]
        pairs = [(layers[i], layers[j]) for i, j in combinations(sorted(layers), 2)]
        yield from _rows("layers", tuned, pairs)
        base = str(tuned["base"])
        theirs = results.get((base, last.get(base, ""), probe, statistic), {})
        yield from _rows("base", tuned, [(layers[i], theirs[i]) for i in sorted(layers) if i in theirs])


def unprobed(read: Read) -> Iterator[Advice]:
    """Yield each probe that has no accuracy, with the reason."""
    for (model, probe), why in gaps(read, "probes", "linear").items():
        yield Advice(f"probe {probe} of {model} has no accuracy: {why}")


def _rows(
    kind: Literal["base", "layers"], model: Record, pairs: Sequence[tuple[Record, Record]]
) -> Iterator[ProbeDifference]:
    for mine, theirs in pairs:
        texts, index, at_other = np.intersect1d(mine["texts"], theirs["texts"], return_indices=True)
        if not len(texts):
            continue
        a, b = np.array(mine["told"])[index], np.array(theirs["told"])[at_other]
        units = np.array(mine.get("clusters") or mine["texts"])[index]
        value, low, high = difference(a, b, min(mine["folds"], theirs["folds"]), len(pairs), units)
        apart = low is not None and high is not None and not low <= 0 <= high
        yield ProbeDifference.of(
            mine,
            kind=kind,
            last=bool(model["last"]),
            other=theirs["model"],
            layer_b=theirs["layer"],
            value=value,
            ci_low=low,
            ci_high=high,
            n=len(texts),
            apart=apart,
        )


def _probe_boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    rows = [row for row in tables["probe_differences"] if row["last"]]
    of_base = grouped((row for row in rows if row["kind"] == "base"), "model", "other", "probe", "statistic")
    of_layers = grouped((row for row in rows if row["kind"] == "layers"), "model", "probe", "statistic")
    return [*map(_against_base, of_base), *([_of_layers(of_layers)] if of_layers else [])]


def _against_base(rows: Sequence[Record]) -> Box:
    rows = sorted(rows, key=lambda row: row["layer"])
    model, base, probe = (rows[0][name] for name in ("model", "other", "probe"))
    kind = KINDS[rows[0]["statistic"]]
    more, less = ([row["layer"] for row in rows if row["apart"] and sign * row["value"] > 0] for sign in (1, -1))
    differences = [
        f"{word} accurate at {_layers(layers)}" for word, layers in (("more", more), ("less", less)) if layers
    ]
    says = f"The {kind} probe {in_backticks(probe)} is " + (
        " and ".join(differences) + f" than on {base}."
        if differences
        else f"not significantly more or less accurate than on {base} at any layer."
    )
    return Box(
        about=f"{model} against {base}",
        says=says,
        **table(
            rows,
            numeric("layer", lambda row: row["layer"]),
            measured("change of accuracy", lambda row: (row["value"], row["ci_low"], row["ci_high"]), signed=True),
            numeric("texts", lambda row: row["n"]),
        ),
        notes=("Intervals are paired over texts and corrected for the number of layers.",),
    )


def _of_layers(by_probe: Sequence[Sequence[Record]]) -> Box:
    """Count for each model the pairs of layers that differ significantly, and name the neighbours among them."""

    def neighbours(pairs: Sequence[Record]) -> str:
        steps = sorted((row["layer"], row["layer_b"]) for row in pairs if row["apart"])
        return ", ".join(f"{a}–{b}" for a, b in steps if b - a == 1) or "none"

    apart = [row["apart"] for pairs in by_probe for row in pairs]
    return Box(
        about=together(pairs[0]["model"] for pairs in by_probe),
        says=(
            f"{sum(apart)} of {len(apart)} pairs of layers differ significantly. "
            if any(apart)
            else "No layer of a model is significantly better than another. "
        )
        + "Layers are compared on the same texts. Two layers differ if the interval of their difference excludes 0, "
        "corrected for all pairs of layers of the model and probe.",
        **table(
            by_probe,
            BoxColumn("model", lambda pairs: pairs[0]["model"]),
            BoxColumn("probe", lambda pairs: pairs[0]["probe"]),
            BoxColumn("kind", lambda pairs: KINDS[pairs[0]["statistic"]]),
            numeric("pairs that differ", lambda pairs: f"{sum(row['apart'] for row in pairs)} of {len(pairs)}"),
            BoxColumn("adjacent layers that differ", neighbours),
        ),
    )


def _layers(layers: Sequence[int]) -> str:
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


PROBED = Question("probes", "Where do probes differ?", (ProbeDifference,), _probe_rows, _probe_boxes)
