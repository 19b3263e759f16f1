"""Where a concept is a direction that its pairs of texts share, concept by concept.

Consistency says that the differences of a concept's pairs point the same way. It does not say that a layer serves a
task, so that no layer is recommended here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from reporter.answers.decision import Box, Decision, Lacks, Read, Record, grouped, quoted
from reporter.charts.numbers import interval, p_value, short
from reporter.geometry.best import behind_best
from reporter.geometry.directions import LEVEL, error_of, fewest_pairs, shared_p
from reporter.table import HIGH, LOW, Comparable, OfModel, Row, column

MOST_SENTENCES = 3
"""With more concepts the answer counts them, and the table has each."""

_MODELS = """
SELECT model, checkpoint, base, baseline FROM models
WHERE study = $study AND status = 'done' AND (baseline IS NULL OR baseline = 'random-init') AND is_last
ORDER BY model
"""
_DIRECTIONS = """
WITH influences AS (
  SELECT model, checkpoint, pair_set, concept, site, layer, list(pair ORDER BY pair) AS units,
    list(influence ORDER BY pair) AS influence
  FROM pair_texts WHERE study = $study GROUP BY ALL
)
SELECT d.model, d.checkpoint, d.pair_set, d.concept, pooling, layer, consistency, ci_low, ci_high, p, chance, n, same,
  same_token, units, influence
FROM pair_directions AS d LEFT JOIN influences USING (model, checkpoint, pair_set, concept, site, layer)
WHERE d.study = $study AND site IN ('embedding', 'block') ORDER BY d.model, d.checkpoint, pair_set, concept, layer
"""


class ConceptAnswer(Row, table="concept_answers"):
    """A concept of a set of pairs at one layer of a model: is it a direction that its pairs share?"""

    compared = (
        Comparable(("consistency",), "pair_set || ': ' || concept", interval=True),
        Comparable(("strongest",), "pair_set || ': ' || concept"),
    )

    study = OfModel.study
    model: str = column("name of the model in the study", key=True)
    checkpoint: str = column("its checkpoint, the last one measured", key=True)
    pair_set: str = column("name of the set of pairs in the study", key=True)
    concept: str = column("the concept", key=True)
    layer: int = column("0 = embedding, 1..L = blocks", key=True)
    pooling: str = column("how a text became one vector")
    consistency: float | None = column(
        "mean cosine of each difference with the mean of the others; NULL where fewer than two pairs have texts with "
        "different vectors"
    )
    ci_low: float | None = column(LOW)
    ci_high: float | None = column(HIGH)
    chance: float | None = column("chance level: the same of texts of the set paired at random")
    p: float | None = column(
        "p-value of a consistency above the chance level, corrected for the layers (Holm); 1 where random turns of the "
        "pairs do not confirm it; NULL for fewer than three different pairs"
    )
    p_untrained: float | None = column(
        "p-value, corrected likewise, of a consistency above that of the same model with random weights; NULL without "
        "that baseline"
    )
    shared: bool = column("whether the concept is a shared direction here: p ≤ 0.05 over the number of concepts")
    strongest: bool = column("whether its consistency is highest at this layer")
    alike: bool | None = column(
        "whether its consistency does not differ significantly from the highest; NULL where that is not known"
    )
    n: int = column("pairs", "BIGINT")
    same_token: str | None = column("the token that is read in every text of the concept, where it is the same in all")


def _answer(read: Read) -> Iterator[Row | Lacks]:
    models = read(_MODELS)
    found = {(of[0]["model"], of[0]["checkpoint"]): of for of in grouped(read(_DIRECTIONS), "model", "checkpoint")}
    if not found:
        yield Lacks("no pairs of texts that differ in one concept: add `pairs: {concepts: shipped}`")
    untrained = {
        row["base"]: {
            (of["pair_set"], of["concept"], of["layer"]): of for of in found.get((row["model"], row["checkpoint"]), [])
        }
        for row in models
        if row["baseline"]
    }
    for model in models:
        if not model["baseline"]:
            for of_set in grouped(found.get((model["model"], model["checkpoint"]), []), "pair_set"):
                concepts = grouped(of_set, "concept")
                for rows in concepts:
                    yield from _rows(rows, len(concepts), untrained.get(model["model"], {}))


def _rows(
    rows: Sequence[Record], concepts: int, untrained: Mapping[tuple[str, str, int], Record]
) -> Iterator[ConceptAnswer]:
    """Yield the rows of one concept in one model."""
    tested = [row for row in rows if row["consistency"] is not None and row["influence"]]
    strongest = max(tested, key=lambda row: row["consistency"], default=None)
    alike = _alike(tested)
    p = _p(tested, [row["chance"] or 0.0 for row in tested], [0.0] * len(tested), concepts)
    others = [untrained.get((row["pair_set"], row["concept"], row["layer"]), {}) for row in tested]
    known = [(row, of) for row, of in zip(tested, others, strict=True) if of.get("influence")]
    errors = [error_of(np.array(of["influence"])) for _, of in known]
    p_untrained = _p([row for row, _ in known], [of["consistency"] for _, of in known], errors, concepts)
    for row in rows:
        layer = row["layer"]
        yield ConceptAnswer(
            **{name: row[name] for name in ("model", "checkpoint", "pair_set", "concept", "layer", "pooling", "n")},
            **{name: row[name] for name in ("consistency", "ci_low", "ci_high", "chance", "same_token")},
            p=p.get(layer),
            p_untrained=p_untrained.get(layer),
            shared=p.get(layer, 1.0) <= LEVEL / concepts,
            strongest=row is strongest,
            alike=alike.get(layer),
        )


def _p(rows: Sequence[Record], than: Sequence[float], errors: Sequence[float], concepts: int) -> dict[int, float]:
    """Return for each layer the p-value of a consistency that is larger than another number with a standard error."""
    if not rows:
        return {}
    influence = [np.array(row["influence"]) for row in rows]
    found = shared_p(
        over=np.array([row["consistency"] for row in rows]) - than,
        error=np.hypot([error_of(of) for of in influence], errors),
        turned=np.array([row["p"] for row in rows]),
        pairs=np.array([len(of) for of in influence]),
        concepts=concepts,
    )
    return {row["layer"]: float(p) for row, p in zip(rows, found, strict=True)}


def _alike(rows: Sequence[Record]) -> dict[int, bool]:
    """Return for each layer where all pairs differ whether its consistency is not significantly below the highest."""
    rows = [row for row in rows if not row["same"]]
    if not rows:
        return {}
    influence = np.array([row["influence"] for row in rows]).T
    values = influence - influence.mean(axis=0) + np.array([row["consistency"] for row in rows])
    behind = behind_best(values)
    return {} if behind is None else {row["layer"]: not low for row, low in zip(rows, behind.low, strict=True)}


def layers_of(rows: Sequence[Record]) -> str:
    """Write the layers at which a concept is a shared direction: ``from layer 2 on``, ``in layers 3–8 and 10``.

    Args:
        rows: of one concept, all layers in order.
    """
    shared = [bool(row["shared"]) for row in rows]
    layers = [row["layer"] for row in rows]
    first = shared.index(True)
    if len(shared) - first > 1 and all(shared[first:]):
        return f"from layer {layers[first]} on"
    runs: list[list[int]] = []
    for at in np.flatnonzero(shared).tolist():
        if runs and at == runs[-1][-1] + 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    names = [f"{layers[run[0]]}–{layers[run[-1]]}" if len(run) > 1 else str(layers[run[0]]) for run in runs]
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"in layer{'s' * (sum(shared) > 1)} {listed}"


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    return [_box(rows) for rows in grouped(tables["concept_answers"], "model", "pair_set")]


def _box(rows: Sequence[Record]) -> Box:
    model, pairs = rows[0]["model"], rows[0]["pair_set"]
    concepts = [sorted(of, key=lambda row: row["layer"]) for of in grouped(rows, "concept")]
    return Box(
        about=f"{model}, pairs {pairs}",
        says=_says(concepts),
        columns=(
            ("concept", False),
            ("shared direction", False),
            ("strongest at layer", True),
            ("consistency", True),
            ("95 % interval", False),
            ("chance level", True),
            ("p, corrected for layers", True),
            ("no significant difference at layers", False),
            ("pairs", True),
        ),
        rows=tuple(_line(of, len(concepts)) for of in concepts),
        notes=tuple(_notes(concepts)),
    )


def _strongest(rows: Sequence[Record]) -> Record | None:
    return next((row for row in rows if row["strongest"]), None)


def _says(concepts: Sequence[Sequence[Record]]) -> str:
    shared = [of for of in concepts if any(row["shared"] for row in of)]
    if len(concepts) <= MOST_SENTENCES:
        return " ".join(_sentence(of, len(concepts)) for of in concepts)
    says = f"{len(shared)} of {len(concepts)} concepts are shared directions at some layer"
    start = sum(bool(of[0]["shared"]) for of in shared)
    says += f", {start} of them from the embedding on." if start else "."
    missing = [quoted(of[0]["concept"]) for of in concepts if not any(row["shared"] for row in of)]
    if missing and shared:
        says += f" Not shown for {', '.join(missing)}."
    return says


def _sentence(rows: Sequence[Record], concepts: int) -> str:
    name, best = quoted(rows[0]["concept"]), _strongest(rows)
    if best is None or not any(row["shared"] for row in rows):
        return f"{name} is not shown to be a shared direction at any layer{_too_few(rows, concepts)}."
    level = f"{short(best['consistency'], 2)}; chance level {short(best['chance'], 2)}"
    return f"{name} is a shared direction {layers_of(rows)}, strongest at layer {best['layer']} ({level})."


def _too_few(rows: Sequence[Record], concepts: int) -> str:
    """Say so where a concept has too few pairs; empty where it has enough."""
    fewest, pairs = fewest_pairs(concepts), rows[0]["n"]
    return f": {pairs} pairs are too few to test, {fewest} are needed" if pairs < fewest else ""


def _line(rows: Sequence[Record], concepts: int) -> tuple[str, ...]:
    best = _strongest(rows)
    if best is None:
        return (rows[0]["concept"], "not tested", "–", "–", "", "–", "–", "", str(rows[0]["n"]))
    shared = (
        layers_of(rows) if any(row["shared"] for row in rows) else f"not shown at any layer{_too_few(rows, concepts)}"
    )
    others = [{"layer": row["layer"], "shared": row["alike"] and not row["strongest"]} for row in rows]
    alike = "–" if best["alike"] is None else "none"
    if any(row["shared"] for row in others):
        alike = layers_of(others).removeprefix("in layers ").removeprefix("in layer ")
    return (
        best["concept"],
        shared,
        str(best["layer"]),
        short(best["consistency"], 2),
        interval(best["ci_low"], best["ci_high"]),
        short(best["chance"], 2),
        p_value(best["p"], 2),
        alike,
        str(best["n"]),
    )


def _notes(concepts: Sequence[Sequence[Record]]) -> Iterator[str]:
    for of in grouped((of[0] for of in concepts if of[0]["same_token"] is not None), "same_token"):
        names = ", ".join(quoted(row["concept"]) for row in of)
        yield same_token_note(of[0], "texts of these pairs" if len(of) == len(concepts) else f"texts of {names}")
    yield "Layer 0 is the embedding. A shared direction shows what states hold, not which layer serves a task."
    yield (
        "A word that all second texts share makes the consistency large at the embedding already, whatever the "
        "model knows."
    )
    yield (
        f"A concept is a shared direction where its consistency exceeds its chance level, corrected for the layers "
        f"and the {len(concepts)} concepts of the set, and random turns of its pairs confirm it."
    )


def same_token_note(row: Record, texts: str) -> str:
    """Return a warning where pooling reads the same token in every text; empty where it does not.

    Args:
        row: with ``pooling`` and ``same_token``.
        texts: what the texts are called.
    """
    if row["same_token"] is None:
        return ""
    end = "end" if row["pooling"] == "last" else "begin"
    return (
        f"Warning: all {texts} {end} in the token {quoted(row['same_token'])}, and its state is read as the vector of "
        "each text. Set `pooling: mean` in the study to read all tokens."
    )


CONCEPTS = Decision("concepts", "Which concepts are directions?", (ConceptAnswer,), _answer, _boxes)
