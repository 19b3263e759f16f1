"""Static embeddings: the token, position and token-type vectors of a model, from its weights alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from reporter.analyses._pictures import Explained, HistogramBin, Point
from reporter.analyses._vocabulary_charts import CHARTS
from reporter.analyses.base import Context
from reporter.analyses.registry import analysis
from reporter.effort import Effort
from reporter.spec.offer import Reference, Section
from reporter.spec.part import AsTuple, Name, Part
from reporter.table import WEIGHTS, Row
from reporter.weights import rows
from reporter.weights.rows import (
    PositionCosine,
    PositionVector,
    VocabularyExtreme,
    VocabularyFact,
    VocabularyToken,
)

if TYPE_CHECKING:
    from reporter.weights.analyse import StaticReport
    from reporter.weights.positions import PositionReport

MOST_COMPONENTS = 512  # of the curves of explained variance that are kept

Map = Literal["tsne", "umap"]


class Looked(Part):
    """How much of the vectors is listed and drawn."""

    extremes: int = Field(20, ge=0, le=200, description="Tokens and pairs listed at each end of each measure.")
    outlier_threshold: float = Field(
        0.2, gt=0, lt=1, description="From which |cosine| on a token and a position are outliers."
    )
    points: int = Field(2000, ge=10, le=20000, description="Tokens in a picture, drawn at random.")
    maps: Annotated[tuple[Map, ...], AsTuple] = Field(
        ("tsne",), description="Pictures besides the principal components: 'tsne', 'umap' (needs the extra 'umap')."
    )


class VocabularySpec(Looked):
    """Which models, and how much of them is listed and drawn."""

    models: Literal["all"] | Annotated[tuple[Name, ...], AsTuple] = Field(
        "all", description="Models of this study, or 'all'; of each the last checkpoint is looked at."
    )


def _whose(value: Any) -> Any:
    if value == "all" or isinstance(value, list | tuple):
        return {"models": value}
    return value


Vocabulary = Annotated[
    VocabularySpec, BeforeValidator(_whose, json_schema_input_type=Literal["all"] | list[str] | VocabularySpec)
]
"""``all``, a list of models, or a mapping with more to say."""


def _resolve(said: VocabularySpec, folder: Path) -> Looked:
    return Looked.model_validate(said.model_dump(exclude={"models"}))


@analysis(
    name="vocabulary",
    title="Static embeddings",
    summary="Token, position and token-type vectors before any text is read: how long they are, which are alike, and "
    "what the positions' path looks like.",
    statistics=(),
    cost="V² / 2 products of d numbers for a vocabulary of V tokens; no forward pass",
    effort=lambda scale, said: Effort(products=scale.vocabulary**2 * scale.width),
    tables=(*rows.TABLES, Point, HistogramBin, Explained),
    charts=CHARTS,
    version=2,  # tokens are decoded
    section=Section(
        Vocabulary,
        "Whose token, position and type vectors to look at: a list of models, or 'all'.",
        references=(Reference("models", "models", several=True),),
        together=WEIGHTS,
        by_name=False,
    ),
    resolve=_resolve,
    last_only=True,
    rounds=0,
)
def vocabulary(item: Looked, context: Context) -> Iterator[Row]:
    """Yield what is known of the token, position and type vectors of a model.

    Args:
        item: how much is listed and drawn.
        context: the model.
    """
    from reporter.weights.analyse import StaticOptions, analyse

    options = StaticOptions(
        extremes=item.extremes,
        outlier_threshold=item.outlier_threshold,
        points=item.points,
        methods=item.maps,
        seed=context.seed,
    )
    report = analyse(context.model, options, context.tell)
    yield from _vocabulary(report)
    yield from _extremes(report)
    yield from _facts(report)
    yield from _pictures(report)
    if report.positions is not None:
        yield from _positions(report.positions)


def _number(value: Any) -> float | None:
    """Return a number, or None where it is not one."""
    return float(value) if np.isfinite(value) else None


def _coordinates(pc: Any) -> tuple[float | None, float | None, float | None]:
    found = [_number(value) for value in pc[:3]]
    found += [None] * (3 - len(found))
    return found[0], found[1], found[2]


def _vocabulary(report: StaticReport) -> Iterator[Row]:
    table = report.vocabulary
    for row, described in enumerate(table.described):
        yield VocabularyToken(
            int(table.token_id[row]),
            table.token[row],
            described.kind,
            described.subword,
            described.script or None,
            described.length,
            float(table.norm[row]),
            _number(table.mean_cosine[row]),
            float(table.mean_distance[row]),
            bool(table.repeated[row]),
            *_coordinates(table.pc[row]),
        )
    yield from report.shares


def _extremes(report: StaticReport) -> Iterator[Row]:
    token = report.vocabulary.token
    for end in report.ranked:
        yield VocabularyExtreme(
            *(end.among, "token", end.by, end.end, end.rank, end.token_id),
            token[end.token_id],
            None,
            None,
            end.value,
            None,
        )
    for pair in report.pairs:
        yield VocabularyExtreme(
            *(pair.among, "token–token", pair.measure, pair.end, pair.rank),
            *(pair.token_id_a, token[pair.token_id_a], pair.token_id_b, token[pair.token_id_b]),
            *(pair.value, pair.certain),
        )
    for one in report.outliers.listed if report.outliers else ():
        yield VocabularyExtreme(
            *("all", "token–position", "cosine", "outlier", one.rank, one.token_id),
            token[one.token_id],
            one.position,
            str(one.position),
            one.cosine,
            None,
        )


def _facts(report: StaticReport) -> Iterator[Row]:
    vectors = report.vectors
    yield VocabularyFact("positions", None, vectors.position_kind)
    for number, other in enumerate(vectors.also, 1):
        yield VocabularyFact(f"positions, too {number}", None, other)
    for number, note in enumerate(vectors.notes, 1):
        yield VocabularyFact(f"note {number}", None, note)
    for kind, table in vectors.kinds.items():
        yield VocabularyFact(f"{kind} vectors", float(len(table)), f"{table.shape[1]} dimensions")
    yield VocabularyFact("zero vectors", float(len(report.zero)), None)
    if report.outliers is not None:
        found = report.outliers
        yield VocabularyFact("outlier threshold", found.threshold, "|cosine| of a token and a position")
        yield VocabularyFact("outliers", float(found.count), f"of {found.pairs:,} pairs")
        yield VocabularyFact("outliers by chance", found.by_chance, "if one side's directions were random")
    if report.positions is not None:
        period = report.positions.period
        said = period.reason or "positions in one turn of the path in the first three components"
        yield VocabularyFact("period", period.positions, said)
        for name, value in (("period turns", period.turns), ("period share", period.share), ("period p", period.p)):
            if value is not None:
                yield VocabularyFact(name, _number(value), None)
        for change in report.positions.changes:
            said = f"norm {_from_to(change.norm)}, step {_from_to(change.step)}"
            yield VocabularyFact(f"change at position {change.position}", change.p, said)
    for distribution in report.distributions:
        name = _part(distribution.kind_a, distribution.kind_b)
        summary = distribution.summary
        for fact, value in (("mean", summary.mean), ("standard deviation", summary.sd)):
            yield VocabularyFact(f"{distribution.measure} of {name}: {fact}", value, f"n = {summary.n:,}")
    for what, why in report.reasons.items():
        yield VocabularyFact(f"missing: {what}", None, why)


def _from_to(log: tuple[float, float]) -> str:
    return f"{np.exp(log[0]):.3g} → {np.exp(log[1]):.3g}"


def _part(kind_a: str, kind_b: str | None) -> str:
    return kind_a if kind_b is None else f"{kind_a}–{kind_b}"


def _pictures(report: StaticReport) -> Iterator[Row]:
    strings = report.vectors.shown
    for point in report.points:
        method = point.method if len(point.kinds) > 1 else f"{point.method} of {point.kinds[0]}"
        label = strings[point.row] if point.kind == "token" else str(point.row)
        yield Point(method, None, point.kind, point.row, label, point.x, point.y, point.z)
    for found in report.distributions:
        for one in found.summary.bins:
            yield HistogramBin(
                found.measure, _part(found.kind_a, found.kind_b), None, float(one.low), float(one.high), one.count
            )
    for spectrum in report.spectra:
        part = " and ".join(spectrum.kinds)
        for components, share in enumerate(spectrum.explained[:MOST_COMPONENTS].tolist(), 1):
            yield Explained(part, None, components, share, spectrum.n)


def _positions(report: PositionReport) -> Iterator[Row]:
    table, changes = report.table, {change.position: change.p for change in report.changes}
    for row in range(len(table.position)):
        yield PositionVector(
            int(table.position[row]),
            float(table.norm[row]),
            _number(table.step[row]),
            _number(table.mean_cosine[row]),
            float(table.mean_distance[row]),
            *_coordinates(table.pc[row]),
            changes.get(int(table.position[row])),
        )
    for i, a in enumerate(report.heat.positions.tolist()):
        for j, b in enumerate(report.heat.positions.tolist()):
            yield PositionCosine(a, b, _number(report.heat.cosines[i, j]))
    yield from report.offsets
