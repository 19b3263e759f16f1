"""The question which concepts are directions that pairs of texts share, concept by concept.

Consistency tells that the differences of a concept's pairs point the same way. It does not tell that a layer serves a
task, so no layer is recommended here. The finding corrects the answer's p-values for all tests of the study.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from reporter.core.numbers import Measured, p_value, short
from reporter.core.places import in_backticks, listed, ranges
from reporter.core.table import Row
from reporter.geometry.clouds import LEVEL, error_of, fewest_pairs, shared_p
from reporter.geometry.statistics import behind_best
from reporter.judge.questions.question import (
    Advice,
    Box,
    BoxColumn,
    Question,
    Read,
    Record,
    grouped,
    measured,
    numeric,
    table,
)
from reporter.metrics.analysis import texts_share
from reporter.store.answers import ConceptAnswer

MOST_SENTENCES = 3
"""With more concepts the answer counts them, and the table has each."""
MOST_NAMED = 6
"""The most concepts that a sentence names."""
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
_ROWS = "SELECT * FROM concept_answers WHERE study = $study ORDER BY model, pair_set, concept, layer"


def _concept_rows(read: Read) -> Iterator[Row | Advice]:
    models = read(_MODELS)
    by_model = {
        (rows[0]["model"], rows[0]["checkpoint"]): rows for rows in grouped(read(_DIRECTIONS), "model", "checkpoint")
    }
    if not by_model:
        yield Advice("no pairs of texts that differ in one concept: add `pairs: {concepts: shipped}`", runs=True)
    untrained = {
        model["base"]: {
            (row["pair_set"], row["concept"], row["layer"]): row
            for row in by_model.get((model["model"], model["checkpoint"]), [])
        }
        for model in models
        if model["baseline"]
    }
    for model in models:
        if not model["baseline"]:
            for rows in grouped(by_model.get((model["model"], model["checkpoint"]), []), "pair_set"):
                concepts = grouped(rows, "concept")
                for concept in concepts:
                    yield from _rows(concept, len(concepts), untrained.get(model["model"], {}))


def _rows(
    rows: Sequence[Record], concepts: int, untrained: Mapping[tuple[str, str, int], Record]
) -> Iterator[ConceptAnswer]:
    """Yield the rows of one concept in one model."""
    tested = [row for row in rows if row["consistency"] is not None and row["influence"]]
    strongest = max(tested, key=lambda row: row["consistency"], default=None)
    alike = _ties_by_layer(tested)
    p = _corrected_p(tested, [row["chance"] or 0.0 for row in tested], [0.0] * len(tested), concepts)
    baselines = [untrained.get((row["pair_set"], row["concept"], row["layer"]), {}) for row in tested]
    pairs = [(row, base) for row, base in zip(tested, baselines, strict=True) if base.get("influence")]
    errors = [error_of(np.array(base["influence"])) for _, base in pairs]
    p_untrained = _corrected_p([row for row, _ in pairs], [base["consistency"] for _, base in pairs], errors, concepts)
    for row in rows:
        layer = row["layer"]
        yield ConceptAnswer.of(
            row,
            p=p.get(layer),
            p_untrained=p_untrained.get(layer),
            shared=p.get(layer, 1.0) <= LEVEL,
            strongest=row is strongest,
            alike=alike.get(layer),
        )


def _corrected_p(
    rows: Sequence[Record], than: Sequence[float], errors: Sequence[float], concepts: int
) -> dict[int, float]:
    if not rows:
        return {}
    influence = [np.array(row["influence"]) for row in rows]
    p_values = shared_p(
        over=np.array([row["consistency"] for row in rows]) - than,
        error=np.hypot([error_of(pairs) for pairs in influence], errors),
        turned=np.array([row["p"] for row in rows]),
        pairs=np.array([len(pairs) for pairs in influence]),
        concepts=concepts,
    )
    return {row["layer"]: min(1.0, float(p) * concepts) for row, p in zip(rows, p_values, strict=True)}


def _ties_by_layer(rows: Sequence[Record]) -> dict[int, bool]:
    rows = [row for row in rows if not row["same"]]
    if not rows:
        return {}
    influence = np.array([row["influence"] for row in rows]).T
    values = influence - influence.mean(axis=0) + np.array([row["consistency"] for row in rows])
    behind = behind_best(values)
    return {} if behind is None else {row["layer"]: not low for row, low in zip(rows, behind.low, strict=True)}


def layers_of(rows: Sequence[Record]) -> str:
    """Write the layers at which a concept is a shared direction: ``from layer 2 on``, ``in layers 3–8 and 10``."""
    layers, shared = [row["layer"] for row in rows], [row["layer"] for row in rows if row["shared"]]
    if len(shared) > 1 and shared == layers[-len(shared) :]:
        return f"from layer {shared[0]} on"
    return f"in layer{'s' * (len(shared) > 1)} {ranges(shared)}"


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    return [_box(rows) for rows in grouped(tables["concept_answers"], "model", "pair_set")]


def _box(rows: Sequence[Record]) -> Box:
    concepts = [sorted(concept, key=lambda row: row["layer"]) for concept in grouped(rows, "concept")]
    return Box(
        about=f"{rows[0]['model']}, pairs {rows[0]['pair_set']}",
        says=_says(concepts),
        **table(
            [(concept, _strongest(concept)) for concept in concepts],
            BoxColumn("concept", lambda row: row[0][0]["concept"]),
            BoxColumn("shared direction", partial(_layers_text, concepts=len(concepts))),
            numeric("strongest at layer", lambda row: "–" if row[1] is None else row[1]["layer"]),
            measured("consistency", _consistency),
            measured("chance level", lambda row: None if row[1] is None else row[1]["chance"], 2),
            numeric("corrected p", lambda row: "–" if row[1] is None else p_value(row[1]["p"], 2)),
            BoxColumn("not significantly weaker at layers", _similar),
            numeric("pairs", lambda row: row[0][0]["n"]),
        ),
        notes=tuple(_notes(concepts)),
    )


def _shared(rows: Sequence[Record]) -> bool:
    return any(row["shared"] for row in rows)


def _consistency(row: tuple[Sequence[Record], Record | None]) -> Measured | None:
    _, strongest = row
    return None if strongest is None else (strongest["consistency"], strongest["ci_low"], strongest["ci_high"])


def _strongest(rows: Sequence[Record]) -> Record | None:
    return next((row for row in rows if row["strongest"]), None)


def _says(concepts: Sequence[Sequence[Record]]) -> str:
    sentences = (
        [_counted(concepts)] if len(concepts) > MOST_SENTENCES else [_sentence(c, len(concepts)) for c in concepts]
    )
    start = sum(any(row["shared"] and row["layer"] == 0 for row in rows) for rows in concepts)
    if start:
        which = "It is" if len(concepts) == 1 else f"{start} of them {'are' if start > 1 else 'is'}"
        enough = "a word that all second texts share is enough for that, and says nothing about the model"
        sentences.append(f"{which} so at the embedding already: {enough}.")
    return " ".join(sentences)


def _counted(concepts: Sequence[Sequence[Record]]) -> str:
    """Return how many concepts are shared directions, which are the clearest, and which are not shown to be any."""
    shared = sorted(filter(_shared, concepts), key=lambda rows: -max(row["consistency"] or 0.0 for row in rows))
    says = f"{len(shared)} of {len(concepts)} concepts are shared directions at some layer"
    if not shared:
        return f"{says}."
    missing = [rows for rows in concepts if not _shared(rows)]
    lack = (
        f"; not shown for {_named(missing)}{_reason([row for rows in missing for row in rows], len(concepts))}"
        if missing
        else ""
    )
    return f"{says}: {_named(shared)}{lack}."


def _named(concepts: Sequence[Sequence[Record]]) -> str:
    names = [in_backticks(rows[0]["concept"]) for rows in concepts]
    more = len(names) - MOST_NAMED
    return listed(names if more <= 1 else [*names[:MOST_NAMED], f"{more} more"])


def _sentence(rows: Sequence[Record], concepts: int) -> str:
    name, best = in_backticks(rows[0]["concept"]), _strongest(rows)
    if best is None or not _shared(rows):
        return f"{name} is not shown to be a shared direction at any layer{_reason(rows, concepts)}."
    level = f"{short(best['consistency'], 2)}; chance level {short(best['chance'], 2)}"
    return f"{name} is a shared direction {layers_of(rows)}, strongest at layer {best['layer']} ({level})."


def _reason(rows: Sequence[Record], concepts: int) -> str:
    """Return why concepts are not shown to be shared directions: too few pairs, or the smallest of their p-values."""
    fewest, pairs = fewest_pairs(concepts), max(row["n"] for row in rows)
    if pairs < fewest:
        return f" ({pairs} pairs are too few to test; at least {fewest} are needed)"
    p = min((row["p"] for row in rows if row["p"] is not None), default=None)
    return "" if p is None else f" (smallest corrected p {p_value(p, 2)})"


def _layers_text(concept: tuple[Sequence[Record], Record | None], concepts: int) -> str:
    rows, best = concept
    if best is None:
        return "not tested"
    return layers_of(rows) if _shared(rows) else f"not shown at any layer{_reason(rows, concepts)}"


def _similar(concept: tuple[Sequence[Record], Record | None]) -> str:
    rows, best = concept
    if best is None:
        return ""
    similar = [{"layer": row["layer"], "shared": row["alike"] and not row["strongest"]} for row in rows]
    if _shared(similar):
        return layers_of(similar).removeprefix("in layers ").removeprefix("in layer ")
    return "–" if best["alike"] is None else "none"


def _notes(concepts: Sequence[Sequence[Record]]) -> Iterator[str]:
    for rows in grouped((rows[0] for rows in concepts if rows[0]["same_token"] is not None), "same_token"):
        names = ", ".join(in_backticks(row["concept"]) for row in rows)
        yield same_token_warning(rows[0], "texts of these pairs" if len(rows) == len(concepts) else f"texts of {names}")
    yield "A shared direction shows what states contain, not which layer is best for a task. Layer 0 is the embedding."
    yield (
        "A concept is a shared direction at layers where its consistency is significantly above the chance level, and "
        "random turns of its pairs confirm it. The test is corrected for the layers"
        f"{f' and the {len(concepts)} concepts of the set' if len(concepts) > 1 else ''}."
    )


def same_token_warning(row: Record, texts: str) -> str:
    """Return a warning if pooling reads the same token in every text of a row; else an empty text."""
    if row["same_token"] is None:
        return ""
    warning = texts_share(texts, in_backticks(row["same_token"]), row["pooling"])
    return f"Warning: {warning}. Set `pooling: mean` in the study to read all tokens."


CONCEPTS = Question("concepts", "Which concepts are directions?", (ConceptAnswer,), _concept_rows, _boxes)
