"""Concepts of pairs: from which layer on a concept is a direction that its pairs share, and where it is strongest.

The tests are those of the answer about concepts, whose table holds the p-value of each layer; here they are corrected
for all questions of the study. With a random-init baseline the consistency must exceed that of random weights, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from reporter.findings.question import Answer, Curve, Question
from reporter.findings.subjects import ONE_DRAW, UNKNOWN
from reporter.findings.words import number
from reporter.places import place, places
from reporter.store.shape import quoted

if TYPE_CHECKING:
    from reporter.findings.subjects import Subjects

Record = dict[str, Any]

_ROWS = "SELECT * FROM concept_answers WHERE study = $study ORDER BY model, pair_set, concept, layer"


def ask(subjects: Subjects) -> Iterator[Question]:
    """Ask of each concept of each trained model whether it is a direction that its pairs share."""
    specs = subjects.numbers.study.models
    found: dict[tuple[str, str, str], list[Record]] = {}
    for row in subjects.numbers.store.records(_ROWS, {"study": subjects.numbers.study.study}):
        found.setdefault((row["model"], row["pair_set"], row["concept"]), []).append(row)
    for (model, _, _), rows in found.items():
        if model in subjects.models and specs[model].base not in subjects.models:
            yield Question("concepts", partial(_answer, subjects, rows))


def _answer(subjects: Subjects, rows: Sequence[Record], level: float) -> Answer | None:
    read = [row for row in rows if row["p"] is not None and row["ci_low"] is not None]
    p = {row["layer"]: max(row["p"], row["p_untrained"] or 0.0) for row in read}
    shared = [layer for layer in p if p[layer] <= level]
    best = max(read, key=lambda row: row["consistency"], default=None)
    if best is None or best["layer"] not in shared:
        return None
    model, depth = best["model"], max(row["layer"] for row in rows)
    start = shared[0]
    onwards = len(shared) > 1 and shared == [layer for layer in p if layer >= start] and shared[-1] == depth
    where = f"from {place(start)} on" if onwards else f"in {places(shared)}"
    set_of = f" of '{best['pair_set']}'" * (len(subjects.numbers.study.sections.get("pairs") or ()) > 1)
    untrained = any(row["p_untrained"] is not None for row in read)
    more = ", more than with random weights," * untrained
    says = f"In {model}, '{best['concept']}'{set_of} is a direction that its pairs share{more} {where}; it is "
    says += f"strongest at {places([best['layer']], blocks=depth)}: consistency {number(best['consistency'])}, "
    says += f"chance level {number(best['chance'] or 0.0, best['consistency'])}."
    notes = [ONE_DRAW if untrained else UNKNOWN]
    if best["same_token"] is not None:
        notes.append(
            f"all texts of the concept {'end' if best['pooling'] == 'last' else 'begin'} in the token "
            f"'{best['same_token']}', whose state is read as the vector of each text"
        )
    return Answer(
        says=says,
        full_name="pairs.consistency",
        model=model,
        corpus=f"{best['pair_set']}: {best['concept']}",
        view="words",
        value=best["consistency"] - (best["chance"] or 0.0),
        interval=tuple(best[end] - (best["chance"] or 0.0) for end in ("ci_low", "ci_high")),
        p=p[best["layer"]],
        effect=min(1.0, best["consistency"] - (best["chance"] or 0.0)),
        what=f"consistency of the pairs minus the chance level, layer {best['layer']}",
        test=f"the consistency exceeds its chance level{' and that of random weights' * untrained} in these layers, "
        f"corrected for {len(read)} layers; random turns of the pairs confirm it",
        layers=(shared[0], shared[-1]),
        curves=(
            Curve(best["concept"], [row["layer"] / depth for row in read], [row["consistency"] for row in read]),
            Curve(
                "chance level", [row["layer"] / depth for row in read], [row["chance"] or 0.0 for row in read], False
            ),
        ),
        mark=(shared[0] / depth, shared[-1] / depth),
        notes=tuple(notes),
        fact=f"{best['pair_set']}: {best['concept']}",
        sql="SELECT model, checkpoint, pair_set, concept, pooling, site, layer, consistency, ci_low, ci_high, chance, "
        f"p, n FROM pair_directions WHERE study = {quoted(subjects.numbers.study.study)} AND model = {quoted(model)} "
        f"AND pair_set = {quoted(best['pair_set'])} AND concept = {quoted(best['concept'])} ORDER BY checkpoint, layer",
    )
