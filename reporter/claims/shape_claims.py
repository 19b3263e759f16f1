"""``shape:`` claims, from the database to a finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.claims.evidence import layer_sql, left_out, on_corpora
from reporter.claims.finding import LEVEL, Finding, every, number
from reporter.claims.missing import Missing
from reporter.claims.profiles import Profile, Source, together
from reporter.claims.shapes import Inequality, Ruling, rule

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers
    from reporter.spec.claims import Shape

_NO_ERROR = (
    "there is one model and no interval from texts or batches, so nothing tells how sure the profile is; name several "
    "models, or a statistic that has an interval"
)


def shape_finding(numbers: Numbers, shape: Shape, view: str, baseline: str | None) -> Finding:
    """Test a shape on each corpus, on each model that is named, or on the mean of a group (``every`` can say so).

    Args:
        numbers: the study's numbers.
        shape: what is claimed.
        view: the view.
        baseline: a null baseline to read in place of each model.

    Raises:
        Missing: numbers are missing.
    """
    source = Source(numbers, shape.metric, view, shape.site, shape.checkpoint, shape.step, shape.layer)
    models, notes = numbers.models(shape.models, shape.metric, view, baseline)
    corpora = on_corpora(numbers, shape.corpus, shape.metric, view)
    steps, named = shape.over == "step", numbers.named(shape.models)
    each = named if shape.every is None else shape.every
    units: list[Finding] = []
    evidence: list[dict[str, Any]] = []
    for corpus in corpora:
        profiles, more = _profiles(source, models, corpus, steps, named)
        notes += more
        alone = {p.model: _test([p], shape) for p in profiles}
        evidence += [_evidence(model, corpus, finding) for model, finding in alone.items()]
        if len(profiles) == 1 or each:
            units += alone.values()
        else:
            joined = _test(profiles, shape)
            evidence.append(_evidence(f"mean of {len(profiles)} models", corpus, joined))
            units.append(joined)
    found = every(units)
    if not found.tested:
        notes.append(_NO_ERROR)
    if len(corpora) > 1:
        notes.append(f"it must hold on each of {len(corpora)} corpora: {', '.join(corpora)}")
    if len(models) > 1:
        notes.append("it must hold for each model" if each else "it is tested on the mean over models")
    sql = layer_sql(numbers, shape.metric, view, models, corpora, shape.site, None if not steps else shape.layer)
    return found.with_detail(evidence=evidence, notes=notes, sql=sql)


def _profiles(
    source: Source, models: Sequence[str], corpus: str, steps: bool, named: bool
) -> tuple[list[Profile], list[str]]:
    """Return the models' profiles; of a group, models whose numbers are missing are left out, with a note."""
    read = source.over_training if steps else source.over_depth
    found, notes = left_out(models, lambda model: read(model, corpus), strict=named)
    return found, [*notes, *(note for profile in found for note in profile.notes)]


def _test(profiles: Sequence[Profile], shape: Shape) -> Finding:
    from reporter.metrics.registry import statistics

    steps = shape.over == "step"
    metric, _, name = shape.metric.partition(".")
    per_step = not steps and statistics().get(metric, {}).get(name) == "step"
    points = together(profiles, steps, any_correlation=per_step)
    try:
        ruling = rule(shape.is_, points, by=shape.by, tolerance=shape.tolerance, at=shape.at, within=shape.within)
    except ValueError as error:
        raise Missing(f"{error} ({profiles[0].model} on '{profiles[0].corpus}')") from None
    return _finding(ruling, known=points.errors is not None or len(profiles) > 1)


def _finding(ruling: Ruling, known: bool) -> Finding:
    holds, fails = (float(ruling.holds), float(ruling.fails)) if known else (None, None)
    detail: dict[str, Any] = {"definition": ruling.definition}
    if ruling.head is not None:
        name, value, least, most = ruling.head
        return Finding(holds, fails, value, number(least), number(most), detail=detail | {"statistic": name})
    part = _deciding(ruling)
    low, high = (number(end[..., 0]) for end in part.estimates.interval())
    bound = float(np.ravel(part.bound)[0])
    detail |= {"statistic": part.name, "bound": f"{'<' if part.less else '>'} {bound:.4g}"}
    detail["parts"] = [_part(one, known) for one in ruling.parts]
    if ruling.remark:
        detail["notes"] = [ruling.remark]
    return Finding(holds, fails, number(part.estimates.value[..., 0]), low, high, detail=detail)


def _deciding(ruling: Ruling) -> Inequality:
    """Return the inequality that speaks for the rule: the clearest breach where it is refuted, else the weakest.

    Where it is supported, what is not there (a fall of more than the tolerance) says less than what is.
    """
    if float(ruling.fails) <= LEVEL:
        return min(ruling.parts, key=lambda part: float(part.fails))
    there = [part for part in ruling.parts if not part.less] if float(ruling.holds) <= LEVEL else []
    return max(there or ruling.parts, key=lambda part: float(part.holds))


def _part(part: Inequality, known: bool) -> dict[str, Any]:
    low, high = (number(end[..., 0]) for end in part.estimates.interval())
    value = number(part.estimates.value[..., 0])
    found = {"name": part.name, "value": value, "ci_low": low, "ci_high": high}
    return found | ({"p_holds": float(part.holds), "p_fails": float(part.fails)} if known else {})


def _evidence(model: str, corpus: str, found: Finding) -> dict[str, Any]:
    numbers = {"value": found.value, "ci_low": found.low, "ci_high": found.high}
    return {"model": model, "corpus": corpus, **numbers, "verdict": found.word(found.p)}
