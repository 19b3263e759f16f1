"""``shape:`` claims, from the database to a finding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationInfo, model_validator

from reporter.core.numbers import short
from reporter.judge import claims
from reporter.judge.estimates import FEWEST_MODELS, Bounds
from reporter.judge.kinship import Kinship
from reporter.judge.numbers import Missing, Numbers
from reporter.judge.outcomes import (
    LEVEL,
    THESE_MODELS,
    Inequality,
    Outcome,
    Shown,
    ShownProfile,
    every,
    joined_by_model,
)
from reporter.judge.profiles import Profile, Profiles, together
from reporter.judge.shapes import PEAK_WITHIN, rule
from reporter.study import claims as forms
from reporter.study.offer import Fixed
from reporter.study.part import Complaint, failure

ShapeName = Literal["bell", "flat", "increasing", "decreasing", "rise-then-fall", "peak-at"]


class Shape(forms.Selection):
    """The shape of a profile over depth or training."""

    _old_name = model_validator(mode="before")(forms.by_is_at_least)

    metric: forms.StatisticName = Field(description="The statistic, as metric.statistic.")
    over: Literal["depth", "step"] = Field("depth", description="The axis: the layers, or the training checkpoints.")
    is_: ShapeName = Field(
        alias="is",
        description="bell: the middle third is higher than both outer thirds. rise-then-fall: some inner point is "
        "higher than both ends. increasing, decreasing: no later point is lower (higher) by more than 'tolerance'. "
        "flat: every point is within 'tolerance' of the mean. peak-at: the maximum is within 'within' of 'at'. Values "
        "that are fixed by definition do not count.",
    )
    at_least: forms.AtLeast = None
    tolerance: float | None = Field(
        None,
        gt=0,
        description="In the unit of the statistic. flat: largest distance from the mean; default: 10 % of the mean, at "
        "least the minimum meaningful difference. increasing, decreasing: largest change against the trend; default: "
        "'at_least'. bell, rise-then-fall: largest depth of a valley between two peaks; default: 25 % of the height of "
        "the peak above the higher end, at least 'at_least'.",
    )
    at: float | None = Field(None, ge=0, description="peak-at: the depth (0 to 1) or the training step of the maximum.")
    within: float | None = Field(
        None, gt=0, description="peak-at: largest distance of the maximum from 'at'. Default over depth: 0.1."
    )
    layer: forms.Layer | None = Field(
        None, description="Only with 'over: step': the layer. Default: the mean over layers."
    )
    every: forms.Every = None

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Shape:
        complaints = []
        whole = forms.of_whole_model(self.metric, info)
        if self.is_ == "peak-at":
            if self.at is None:
                complaints.append(Complaint("'peak-at' needs `at`; add `at: NUMBER`", ("is",)))
            elif self.over == "depth" and self.at > 1:
                complaints.append(Complaint(f"must be a depth between 0 and 1, got {self.at:g}", ("at",)))
            elif self.over == "step" and self.within is None:
                complaints.append(Complaint("'peak-at' over steps needs `within`; add `within: STEPS`", ("is",)))
        else:
            for key in ("at", "within"):
                if getattr(self, key) is not None:
                    complaints.append(Complaint(f"needs `is: peak-at`; change `is`, or remove `{key}`", (key,), "key"))
        if self.is_ == "flat" and self.at_least is not None:
            message = "cannot be combined with `is: flat`; use `tolerance`, the largest distance from the mean"
            complaints.append(Complaint(message, ("at_least",), "key"))
        if self.is_ == "peak-at" and self.tolerance is not None:
            complaints.append(Complaint("cannot be combined with `is: peak-at`; use `within`", ("tolerance",), "key"))
        if self.over == "depth":
            if whole:
                message = f"'{self.metric}' is one number for the whole model, without a profile over layers"
                complaints.append(Complaint(f"{message}; use `value:`, or write `over: step`", ("metric",)))
            if self.layer is not None:
                complaints.append(Complaint("needs `over: step`; change `over`, or remove `layer`", ("layer",), "key"))
            if self.site in ("embedding", "final"):
                message = f"'{self.site}' is a single layer, not a profile; remove `site`, or write `site: block`"
                complaints.append(Complaint(message, ("site",)))
        elif self.checkpoint is not None or self.step is not None:
            key = "checkpoint" if self.checkpoint is not None else "step"
            complaints.append(Complaint(f"cannot be combined with `over: step`; remove `{key}`", (key,), "key"))
        if whole and self.over == "step":
            complaints += forms.no_layers(self, self.metric)
        if complaints:
            raise failure(*complaints)
        return self


class ShapeClaim(forms.Claim):
    """A profile over depth or training steps has a shape."""

    shape: Shape = Field(description="The profile and its shape.")


def _fixed_peaks(claim: ShapeClaim, fixed: Fixed, plain: Collection[str]) -> Iterator[Complaint]:
    shape = claim.shape
    if shape.at is None or shape.over != "depth" or shape.site not in (None, "block"):
        return
    for end, value in fixed.get(shape.metric, ()):
        if shape.at == (1 if end == "last" else 0) and shape.metric.partition(".")[0] in plain:
            message = (
                f"{shape.metric} is {value:g} at the {end} layer by definition, so a peak there says nothing about a "
                "model; change `at`, or claim another shape"
            )
            yield Complaint(message, ("shape", "at"))


@claims.claim_kind("shape", ShapeClaim, place=2, refuses=_fixed_peaks)
def shape_finding(numbers: Numbers, claim: ShapeClaim, view: str, baseline: str | None) -> Outcome:
    """Test a shape on each corpus, on each model that is named, or on the mean of a group (``every`` can say so).

    Args:
        numbers: the study's numbers.
        claim: what is claimed.
        view: the view.
        baseline: a null baseline to read in place of each model.

    Raises:
        Missing: numbers are missing, or the claim speaks of a value that is fixed by definition.
    """
    shape = claim.shape
    source = Profiles(numbers, shape.metric, view, shape.site, shape.checkpoint, shape.step, shape.layer)
    models, notes = numbers.models(shape.models, shape.metric, view, baseline)
    corpora = claims.on_corpora(numbers, shape.corpus, shape.metric, view)
    steps, named = shape.over == "step", numbers.facts.named(shape.models)
    each = named if shape.every is None else shape.every
    read = source.over_training if steps else source.over_depth
    units: list[Outcome] = []
    evidence: list[dict[str, Any]] = []
    by_model: dict[str, list[Outcome]] = defaultdict(list)
    for corpus in corpora:
        profiles, left_out = claims.left_out(models, partial(read, corpus=corpus), strict=named)
        notes += [*left_out, *(note for profile in profiles for note in profile.notes)]
        for profile in profiles:
            _refuse_what_is_fixed(profile, shape)
        kin = Kinship.of(numbers.facts.origins, [profile.model for profile in profiles])
        notes += kin.notes
        alone = {p.model: _test(numbers, [p], ((p.model,),), shape) for p in profiles}
        evidence += [finding.evidence(model, corpus) for model, finding in alone.items()]
        for model, finding in alone.items():
            by_model[model].append(finding)
        if len(profiles) == 1 or each:
            units += alone.values()
            continue
        joined, count = _test(numbers, profiles, kin.units, shape), len(kin.units)
        evidence.append(joined.evidence(f"mean of {claims.independent(kin)}", corpus))
        units.append(replace(joined, instead=_each_by_itself(alone, count)))
        if count < FEWEST_MODELS and joined.tested:
            notes.append(f"the interval is over texts: {THESE_MODELS}")
    result = every(units)
    if len(corpora) > 1:
        notes.append(f"the claim must hold on each of {len(corpora)} corpora: {', '.join(corpora)}")
    if len(models) > 1:
        notes.append("the claim must hold for each model" if each else "the claim is tested on the mean over models")
    shown = result.shown(result.word(result.p)).statistic
    if result.part is not None and result.part.scale > 1 and result.part.name == shown:
        notes.append(f"p and interval are corrected for the choice among {result.part.scale:g} tests")
    sql = claims.layer_sql(numbers, shape.metric, view, models, corpora, shape.site, shape.layer if steps else None)
    seen = {place: profile for finding in units for place, profile in finding.seen.items()}
    return replace(result, seen=seen, each=joined_by_model(by_model)).with_detail(
        models=models, corpora=corpora, evidence=claims.different_statistics(evidence), notes=notes, sql=sql
    )


def _each_by_itself(alone: Mapping[str, Outcome], units: int) -> str:
    most = min(1.0, 2 * max(1.0 if finding.holds is None else finding.holds for finding in alone.values()))
    if units < FEWEST_MODELS or most > 2 * LEVEL:
        return ""
    return (
        f"each of the {len(alone)} models shows the shape on its own (p = {short(most, 2)} or less), which `every: "
        f"true` claims for these models; the mean is about similar models as well"
    )


def _refuse_what_is_fixed(profile: Profile, shape: Shape) -> None:
    if shape.at is None:
        return
    within = PEAK_WITHIN if shape.within is None else shape.within
    for x, layer, value in profile.fixed:
        free = np.abs(profile.x - shape.at) <= within + 1e-9
        if abs(x - shape.at) <= 1e-9 or (abs(x - shape.at) <= within + 1e-9 and not free.any()):
            raise Missing(
                f"{shape.metric} is {value:g} at layer {layer} of {profile.model} by definition, so a peak at "
                f"{shape.at:g} says nothing about the model; claim a peak at other layers"
            )


def _test(numbers: Numbers, profiles: Sequence[Profile], units: Sequence[Sequence[str]], shape: Shape) -> Outcome:
    statistic, steps = numbers.facts.statistic(shape.metric), shape.over == "step"
    per_step = not steps and statistic is not None and statistic.per == "step"
    common = together(profiles, units, steps, any_correlation=per_step)
    least, note = claims.smallest_effect(numbers, shape.metric, shape.at_least, common.mean)
    try:
        ruling = rule(shape.is_, common, at_least=least, tolerance=shape.tolerance, at=shape.at, within=shape.within)
    except ValueError as error:
        raise Missing(f"{error} ({profiles[0].model} on '{profiles[0].corpus}')") from None
    several = len(units) >= FEWEST_MODELS
    tested, bounds = common.numbers.known or several, claims.difference_bounds(numbers, shape.metric)
    finding = Outcome.of(
        ruling.needs,
        ruling.breaks,
        tested,
        bounds,
        seen={
            (p.model, p.corpus): ShownProfile(what, labels, tuple(p.values.tolist()))
            for p in profiles
            for labels, what in [p.names(steps, per_step)]
        },
        models=len(units) if several else 0,
        why="" if tested else claims.no_error(len(units), [model for unit in units for model in unit]),
    )
    part = finding.part
    name = "" if part is None else part.name
    if ruling.head is not None:
        name, value, ends, claimed_range = ruling.head
        low, high = ends or (None, None)
        finding = replace(finding, value=value, low=low, high=high, wanted=claimed_range)
    good = ruling.positive
    if tested and good is not None and good is not part:
        shown = Shown(good.name, good.wanted, good.value, *good.interval(bounds), min(1.0, 2 * float(good.p)))
        finding = replace(finding, supported=shown)
    parts = [_part(inequality, tested, bounds) for inequality in (*ruling.needs, *ruling.breaks)]
    finding = finding.with_detail(definition=ruling.definition, parts=parts, statistic=name)
    if numbers.study.texts == "fixed" and not several:
        finding = finding.as_exact()
    return finding.with_detail(notes=[note] if note else [])


def _part(part: Inequality, tested: bool, bounds: Bounds) -> dict[str, Any]:
    low, high = part.interval(bounds)
    row = {"name": part.name, "value": part.value, "ci_low": low, "ci_high": high, "claimed": part.wanted.text}
    p = float(part.p) if tested else None
    return row | {"p_holds": None if part.fails else p, "p_fails": p if part.fails else None}
