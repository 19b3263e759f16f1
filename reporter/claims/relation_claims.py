"""``relation:`` claims: the correlation of two statistics over layers, over token types, or over models.

All are decided on Fisher's z. Over layers, neighbours hang together, so a model's layers count as fewer points
(:func:`~reporter.claims.correlation.effective_points`); with several models each gives one z, and Student's t over them
decides, which needs no such assumption. Over types, each type is one point. Over models, the correlation must also be
rarer than 2.5 % among all orders of the models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import atanh, isfinite, tanh
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.claims.correlation import FEWEST, by_chance, correlation, effective_points, fisher
from reporter.claims.evidence import among, layer_sql, left_out, on_corpora, quoted
from reporter.claims.finding import Finding, every
from reporter.claims.missing import Missing
from reporter.claims.points import Array, Estimates
from reporter.claims.profiles import Source

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers
    from reporter.spec.claims import Relation

TYPES = "variance.tradeoff"
"""The statistic that goes with the table ``token_types``: where it is, token types are."""


@dataclass(frozen=True)
class _Related:
    """A correlation: Fisher's z, its error, how many points, and the chance of as much if nothing is related."""

    model: str
    z: float
    error: float
    n: int
    chance: tuple[float, float] = (0.0, 0.0)


def relation_finding(numbers: Numbers, claim: Relation, view: str, baseline: str | None) -> Finding:
    """Test a correlation on each corpus.

    Args:
        numbers: the study's numbers.
        claim: what is claimed.
        view: the view.
        baseline: a null baseline to read in place of each model.

    Raises:
        Missing: numbers are missing, or too few.
    """
    measure = TYPES if claim.over == "types" else claim.x if not claim.x.startswith("scores.") else claim.y
    if measure.startswith("scores."):
        raise Missing("x and y are both scores; name a statistic of the models")
    models, notes = numbers.models(claim.models, measure, view, baseline)
    corpora = on_corpora(numbers, claim.corpus, measure, view)
    strict = numbers.named(claim.models)
    each = strict if claim.every is None else claim.every
    units: list[Finding] = []
    evidence: list[dict[str, Any]] = []
    for corpus in corpora:
        if claim.over == "models":
            related = [_over_models(numbers, claim, view, corpus, models, baseline, strict)]
        else:
            read = _over_layers if claim.over == "layers" else _over_types
            related, more = left_out(models, _reader(read, numbers, claim, view, corpus), strict)
            notes += more
        alone = [_finding(claim, [one]) for one in related]
        evidence += [_evidence(one, corpus, found) for one, found in zip(related, alone, strict=True)]
        if each:
            units += alone
        else:
            units.append(_finding(claim, related))
        if len(related) > 1 and not each:
            evidence.append(_evidence(_mean(related), corpus, units[-1]))
    found = every(units)
    if claim.over == "layers" and len(models) == 1:
        notes.append("the layers of one model hang together and count as fewer points than there are")
    if len(models) > 1 and claim.over != "models":
        notes.append("it must hold for each model" if each else "it is tested on the mean over models")
    if not found.tested:
        notes.append("there are too few independent points to tell anything")
    if len(corpora) > 1:
        notes.append(f"it must hold on each of {len(corpora)} corpora: {', '.join(corpora)}")
    return found.with_detail(
        evidence=evidence, notes=notes, sql=_sql(numbers, claim, view, models, corpora), n=_points(evidence)
    )


_Read = Callable[["Numbers", "Relation", str, str, str], _Related]


def _reader(read: _Read, numbers: Numbers, claim: Relation, view: str, corpus: str) -> Callable[[str], _Related]:
    return lambda model: read(numbers, claim, view, corpus, model)


def _over_layers(numbers: Numbers, claim: Relation, view: str, corpus: str, model: str) -> _Related:
    sides = [
        Source(numbers, measure, view, claim.site, claim.checkpoint, claim.step).over_depth(model, corpus)
        for measure in (claim.x, claim.y)
    ]
    common = sorted(set(sides[0].labels) & set(sides[1].labels))
    if len(common) < FEWEST:
        raise Missing(f"{claim.x} and {claim.y} of {model} have {len(common)} layers in common; it takes {FEWEST}")
    x, y = (side.values[[side.labels.index(layer) for layer in common]] for side in sides)
    r = _correlation(x, y, claim, f"{model} on '{corpus}'")
    return _Related(model, *fisher(r, effective_points(x, y, claim.method), claim.method), len(common))


def _over_types(numbers: Numbers, claim: Relation, view: str, corpus: str, model: str) -> _Related:
    # The checkpoint and the layers are those of the statistic that is computed with the table.
    rows = [row for row in numbers.rows(TYPES, view) if row.corpus == corpus]
    own = numbers.pick(rows, model, claim.checkpoint, claim.step)
    found = numbers.types(model, own[0].checkpoint, corpus, view, claim.x, claim.y)
    sites = ("embedding", "block") if claim.site is None else (claim.site,)
    layers = {layer: points for (site, layer), points in found.items() if site in sites}
    if claim.layer is not None:
        wanted = max(layers, default=0) if claim.layer == "last" else claim.layer
        layers = {layer: points for layer, points in layers.items() if layer == wanted}
    usable = {layer: points for layer, points in layers.items() if len(points[0]) >= FEWEST}
    if not usable:
        at = "" if claim.layer is None else f" at layer {claim.layer}"
        raise Missing(f"{model} on '{corpus}' has fewer than {FEWEST} token types{at} (table token_types)")
    each = [
        fisher(_correlation(x, y, claim, f"{model} on '{corpus}'"), len(x), claim.method) for x, y in usable.values()
    ]
    # The types are the same at every layer: a mean over layers is no surer than one layer.
    z, error = (float(np.mean(values)) for values in zip(*each, strict=True))
    return _Related(model, z, error, max(len(x) for x, _ in usable.values()))


def _over_models(
    numbers: Numbers, claim: Relation, view: str, corpus: str, models: Sequence[str], baseline: str | None, strict: bool
) -> _Related:
    def read(model: str) -> tuple[float, float]:
        x, y = (_of_model(numbers, claim, measure, view, corpus, model, baseline) for measure in (claim.x, claim.y))
        return x, y

    found, _ = left_out(models, read, strict)
    if len(found) < FEWEST:
        raise Missing(f"{len(found)} models have both {claim.x} and {claim.y}; it takes {FEWEST}")
    x, y = np.array(found, dtype=float).T
    r = _correlation(x, y, claim, f"{len(found)} models on '{corpus}'")
    z, error = fisher(r, len(x), claim.method)
    return _Related(f"{len(found)} models", z, error, len(x), by_chance(x, y, claim.method))


def _of_model(
    numbers: Numbers, claim: Relation, measure: str, view: str, corpus: str, model: str, baseline: str | None
) -> float:
    if measure.startswith("scores."):
        plain = model.removesuffix(f" ({baseline})") if baseline else model
        scores = numbers.study.models[plain].scores
        name = measure.removeprefix("scores.")
        if baseline or name not in scores:
            raise Missing(f"{model} has no score '{name}'")
        return scores[name]
    whole = all(row.layer is None for row in numbers.rows(measure, view))  # 'layer' is for the other side
    layer = None if whole else claim.layer
    return Source(numbers, measure, view, claim.site, claim.checkpoint, claim.step, layer).last(model, corpus)[0]


def _correlation(x: Array, y: Array, claim: Relation, where: str) -> float:
    r = correlation(x, y, claim.method)
    if r is None:
        raise Missing(f"{claim.x} or {claim.y} is the same everywhere ({where})")
    return r


def _mean(related: Sequence[_Related]) -> _Related:
    return _Related(f"mean of {len(related)} models", 0.0, 0.0, max(one.n for one in related))


def _finding(claim: Relation, related: Sequence[_Related]) -> Finding:
    """Decide on one correlation, or on the mean z of several models."""
    if len(related) == 1:
        only = related[0]
        estimates = Estimates(np.array([only.z]), np.array([only.error]), np.inf)
        chance = only.chance
    else:
        z = np.array([one.z for one in related])
        error = float(z.std(ddof=1)) / np.sqrt(len(z))
        estimates, chance = Estimates(np.array([z.mean()]), np.array([error]), len(z) - 1), (0.0, 0.0)
    bound = atanh(claim.by)
    up = max(float(estimates.above(bound)[0]), chance[0])  # r > by
    down = max(float(estimates.below(-bound)[0]), chance[1])  # r < -by
    not_up, not_down = float(estimates.below(bound)[0]), float(estimates.above(-bound)[0])
    if claim.by == 0:
        not_up, not_down = down, up
    holds, fails = {
        "positive": (up, not_up),
        "negative": (down, not_down),
        "none": (max(not_up, not_down), min(up, down)),
    }[claim.is_]
    low, high = (tanh(float(end[0])) for end in estimates.interval())
    known = isfinite(float(estimates.error[0]))
    bounds = {"positive": f"> {claim.by:g}", "negative": f"< {-claim.by:g}", "none": f"within ± {claim.by:g}"}
    detail: dict[str, Any] = {
        "statistic": f"{claim.method} correlation of {claim.x} and {claim.y} over {claim.over}",
        "definition": f"the correlation is {bounds[claim.is_]}",
        "bound": bounds[claim.is_],
    }
    return Finding(
        holds if known else None,
        fails if known else None,
        tanh(float(estimates.value[0])),
        low if known else None,
        high if known else None,
        detail=detail,
    )


def _evidence(one: _Related, corpus: str, found: Finding) -> dict[str, Any]:
    numbers = {"value": found.value, "ci_low": found.low, "ci_high": found.high}
    return {"model": one.model, "corpus": corpus, **numbers, "n": one.n, "verdict": found.word(found.p)}


def _points(evidence: Sequence[dict[str, Any]]) -> int:
    return max((int(one["n"]) for one in evidence), default=0)


def _sql(numbers: Numbers, claim: Relation, view: str, models: Sequence[str], corpora: Sequence[str]) -> str:
    if claim.over != "types":
        measures = [m for m in (claim.x, claim.y) if not m.startswith("scores.")]
        parts = [layer_sql(numbers, m, view, models, corpora, claim.site, claim.layer) for m in measures]
        return (
            parts[0]
            if len(parts) == 1
            else "\nUNION ALL\n".join(
                f"({part.replace('SELECT model', f'SELECT {quoted(m)} AS number, model', 1)})"
                for m, part in zip(measures, parts, strict=True)
            )
        )
    layer = f" AND layer = {claim.layer}" if isinstance(claim.layer, int) else ""
    return (
        f"SELECT model, checkpoint, corpus, layer, token, {claim.x}, {claim.y} FROM token_types WHERE study = "
        f"{quoted(numbers.study.study)} AND view = {quoted(view)} AND {among('model', models)} AND "
        f"{among('corpus', corpora)}{layer} ORDER BY corpus, model, layer, token"
    )
