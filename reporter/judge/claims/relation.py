"""``relation:`` claims: the correlation of two statistics over layers, over token types, or over models.

All are decided on Fisher's z. The error of Pearson's correlation is the jackknife's where points lie far out; ranks in
perfect order say little of few points. Few texts scramble the points: what their errors may have done to a correlation
over layers or models is added in full. Over layers, neighbours hang together, so a model's layers count as fewer points
(:func:`~reporter.geometry.statistics.effective_points`); from three independent models on each gives one z, and
Student's t over them decides, which needs no such assumption; two have the mean of their own errors. Over types, each
type is one point; models share the types, whose error does not average out over models. Over models, relatives count as
one point, and the correlation must also be rarer than 2.5 % among all orders of the models.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import atanh, isfinite, tanh
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationInfo, model_validator

from reporter.core.confined import quoted
from reporter.geometry.intervals import quantile
from reporter.geometry.statistics import (
    FEWEST,
    SATURATED,
    by_chance,
    correlation,
    effective_points,
    far_points,
    fisher,
    near_perfect,
)
from reporter.judge import claims
from reporter.judge.estimates import FEWEST_MODELS, ROUNDING, Array, Estimates, over_models
from reporter.judge.kinship import Kinship
from reporter.judge.numbers import PATH, Missing, Numbers
from reporter.judge.outcomes import (
    LEVEL,
    THESE_MODELS,
    Detail,
    Inequality,
    Outcome,
    Range,
    every,
    inequalities,
    joined_by_model,
)
from reporter.judge.profiles import Profile, Profiles
from reporter.study import Study
from reporter.study import claims as forms
from reporter.study.part import Complaint, failure
from reporter.study.problems import choices, show


class Relation(forms.Selection):
    """A correlation of two statistics."""

    _old_name = model_validator(mode="before")(forms.by_is_at_least)

    x: forms.Related = Field(
        description="Statistic, as metric.statistic. Over models also scores.NAME. Over types only 'count', "
        "'norm_of_mean' or 'variance'."
    )
    y: forms.Related = Field(description="The other statistic, named like x.")
    over: Literal["layers", "types", "models"] = Field(description="The points of the correlation.")
    is_: Literal["positive", "negative", "none"] = Field(
        alias="is", description="Sign of the correlation. 'none': it is weaker than 'at_least'."
    )
    at_least: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        None,
        description="Minimum strength of the correlation. Default: 0.1, a small correlation (Cohen 1988). For 'none', "
        "weaker correlations count as none.",
    )
    method: Literal["spearman", "pearson"] = Field("spearman", description="Which correlation.")
    layer: forms.Layer | None = Field(
        None, description="Over types and models: number of a layer, or 'last'. Default: the mean over layers."
    )
    every: forms.Every = None

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Relation:
        complaints = []
        if self.is_ == "none" and not self.at_least:
            message = "'none' needs `at_least`; add `at_least: NUMBER`, the strength below which there is none"
            complaints.append(Complaint(message, ("is",)))
        for key in ("x", "y"):
            name = getattr(self, key)
            if (name in forms.TYPE_COLUMNS) != (self.over == "types"):
                allowed = choices(forms.TYPE_COLUMNS) if self.over == "types" else "metric.statistic"
                message = f"expected {allowed} with `over: {self.over}`, got {show(name)}"
                complaints.append(Complaint(message, (key,)))
            elif name.startswith("scores.") and self.over != "models":
                complaints.append(Complaint("a score needs `over: models`", (key,)))
            elif self.over == "layers" and forms.of_whole_model(name, info):
                message = f"'{name}' is one number for the whole model, not one for each layer; write `over: models`"
                complaints.append(Complaint(message, (key,)))
        if self.x == self.y:
            complaints.append(Complaint(f"`x` and `y` are both '{self.x}'; name another statistic", ("y",)))
        if self.over == "layers" and self.layer is not None:
            complaints.append(Complaint("cannot be combined with `over: layers`; remove `layer`", ("layer",), "key"))
        if self.over == "layers" and self.site in ("embedding", "final"):
            message = f"'{self.site}' is a single layer; remove `site`, or write `site: block`"
            complaints.append(Complaint(message, ("site",)))
        if complaints:
            raise failure(*complaints)
        return self


class RelationClaim(forms.Claim):
    """Two statistics go together, or do not."""

    relation: Relation = Field(description="The two statistics and how they go together.")


TYPES = "variance.tradeoff"
"""The statistic that goes with the table ``token_types``: where it is, token types are."""

SMALL = 0.1
"""The smallest correlation that counts where a claim states none: a small one by Cohen 1988."""


@dataclass(frozen=True)
class _Related:
    """A correlation.

    Args:
        model: whose it is.
        z: Fisher's z.
        error: its standard error over points.
        n: how many points there are.
        chance: how often it is as high, and as low, if nothing is related.
        moved: by how much errors of the points over texts may have raised z, and lowered it.
    """

    model: str
    z: float
    error: float
    n: int
    chance: tuple[float, float] = (0.0, 0.0)
    moved: tuple[float, float] = (0.0, 0.0)


def _compares_roles(claim: RelationClaim, numbers: Numbers) -> bool:
    return claim.relation.over == "models" and len(numbers.facts.roles_of(claim.relation.models)) > 1


def _sampled(claim: RelationClaim, study: Study) -> Iterator[Complaint]:
    if study.texts == "fixed" and claim.relation.over != "types":
        message = (
            f"cannot be combined with `texts: fixed`: the error of this correlation is an error over "
            f"{claim.relation.over}, not over texts; remove `texts` or this claim"
        )
        yield Complaint(message, ("relation", "over"))


@claims.claim_kind("relation", RelationClaim, place=4, compares_roles=_compares_roles, fits=_sampled)
def relation_finding(numbers: Numbers, written_claim: RelationClaim, view: str, baseline: str | None) -> Outcome:
    """Test a correlation on each corpus.

    Args:
        numbers: the study's numbers.
        written_claim: what is claimed.
        view: the view.
        baseline: a null baseline to read in place of each model.

    Raises:
        Missing: numbers are missing, or too few.
    """
    claim = written_claim.relation
    full_name = TYPES if claim.over == "types" else claim.x if not claim.x.startswith("scores.") else claim.y
    if full_name.startswith("scores."):
        raise Missing("`x` and `y` are both scores; name a statistic as one of them")
    models, notes = numbers.models(claim.models, full_name, view, baseline)
    corpora = claims.on_corpora(numbers, claim.corpus, full_name, view)
    strict = numbers.facts.named(claim.models)
    each = strict if claim.every is None else claim.every
    fixed = numbers.study.texts == "fixed" and claim.over == "types"
    units: list[Outcome] = []
    evidence: list[dict[str, Any]] = []
    by_model: dict[str, list[Outcome]] = defaultdict(list)
    for corpus in corpora:
        if claim.over == "models":
            related, more = _over_models(numbers, claim, view, corpus, models, baseline, strict)
            notes += more
        else:
            read = _over_layers if claim.over == "layers" else _over_types
            related, more = claims.left_out(models, partial(read, numbers, claim, view, corpus), strict)
            kin = Kinship.of(numbers.facts.origins, [correlation.model for correlation in related])
            notes += [*more, *kin.notes]
        alone = [_finding(claim, [pair], fixed) for pair in related]
        for pair, finding in zip(related, alone, strict=True) if claim.over != "models" else ():
            by_model[pair.model].append(finding)
        evidence += [
            finding.evidence(pair.model, corpus, n=pair.n) for pair, finding in zip(related, alone, strict=True)
        ]
        if each:
            units += alone
            continue
        units.append(_finding(claim, related if claim.over == "models" else _joined(related, kin), fixed))
        if len(related) > 1:
            most = max(pair.n for pair in related)
            evidence.append(units[-1].evidence(f"mean of {claims.independent(kin)}", corpus, n=most))
            if len(kin.units) < FEWEST_MODELS and not fixed:
                notes.append(f"the interval is over {claim.over}: {THESE_MODELS}")
    result = every(units)
    if claim.over == "layers" and len(models) == 1:
        notes.append("adjacent layers of a model are similar, so its layers count as fewer points")
    if len(models) > 1 and claim.over != "models":
        notes.append("the claim must hold for each model" if each else "the claim is tested on the mean over models")
    if len(corpora) > 1:
        notes.append(f"the claim must hold on each of {len(corpora)} corpora: {', '.join(corpora)}")
    sql = _sql(numbers, claim, view, models, corpora)
    return replace(result, each=joined_by_model(by_model)).with_detail(
        models=models,
        corpora=corpora,
        evidence=claims.different_statistics(evidence),
        notes=notes,
        sql=sql,
        n=max(row["n"] for row in evidence),
    )


def _over_layers(numbers: Numbers, claim: Relation, view: str, corpus: str, model: str) -> _Related:
    sides = [
        Profiles(numbers, full_name, view, claim.site, claim.checkpoint, claim.step).over_depth(model, corpus)
        for full_name in (claim.x, claim.y)
    ]
    common = sorted(set(sides[0].labels) & set(sides[1].labels))
    if len(common) < FEWEST:
        raise Missing(
            f"{claim.x} and {claim.y} of {model} have {len(common)} layers in common; at least {FEWEST} are needed"
        )
    places = [[side.labels.index(layer) for layer in common] for side in sides]
    x, y = (side.values[rows] for side, rows in zip(sides, places, strict=True))
    z, error = _fisher(x, y, claim, f"{model} on '{corpus}'", effective_points(x, y, claim.method))
    squares = [_squared_error(side, rows) for side, rows in zip(sides, places, strict=True)]
    return _Related(model, z, error, len(common), moved=_moved((x, y), squares, claim, z))


def _squared_error(side: Profile, rows: Sequence[int]) -> float:
    """Return how much errors over texts add to the variance between the layers of a profile."""
    numbers = side.numbers.some(rows)
    if not numbers.known:
        return 0.0
    if numbers.parts is None:
        return float(np.square(numbers.larger).mean())
    parts = numbers.parts - numbers.parts.mean(axis=0)  # what moves all layers alike changes no correlation
    return float(np.square(parts).sum(axis=-1).mean())


def _moved(
    sides: tuple[Array, Array], squared_errors: Sequence[float], claim: Relation, z: float
) -> tuple[float, float]:
    """Return by how much errors over texts may have raised Fisher's z, and lowered it; infinite where they are all.

    Errors that are independent from point to point weaken a correlation; errors that both sides have in common make
    one. Nothing is known of the latter but that it is at most the geometric mean of both.
    """
    shares = []
    for side, square in zip(sides, squared_errors, strict=True):
        low, high = np.quantile(side, [0.25, 0.75])
        variance = float(side.var())
        if claim.method == "spearman":  # single points far out do not set the ranks of the others
            variance = min(variance, ((float(high) - float(low)) / 1.349) ** 2)
        shares.append(0.0 if not square else square / variance if variance else np.inf)
    if max(shares) >= 1:
        return np.inf, np.inf
    common, left = np.sqrt(shares[0] * shares[1]), np.sqrt((1 - shares[0]) * (1 - shares[1]))
    low, high = np.arctanh(np.clip([(tanh(z) - common) / left, (tanh(z) + common) / left], -SATURATED, SATURATED))
    return max(0.0, z - float(low)), max(0.0, float(high) - z)


def _over_types(numbers: Numbers, claim: Relation, view: str, corpus: str, model: str) -> _Related:
    # The checkpoint and the layers are those of the statistic that is computed with the table.
    rows = [row for row in numbers.rows(TYPES, view) if row.corpus == corpus]
    checkpoint = numbers.pick(rows, model, claim.checkpoint, claim.step)
    by_place = numbers.types(model, checkpoint[0].checkpoint, corpus, view, claim.x, claim.y)
    sites = PATH if claim.site is None else (claim.site,)
    layers = {layer: types for (site, layer), types in by_place.items() if site in sites}
    if claim.layer is not None:
        number = max(layers, default=0) if claim.layer == "last" else claim.layer
        layers = {layer: types for layer, types in layers.items() if layer == number}
    usable = {layer: types for layer, types in layers.items() if len(types[0]) >= FEWEST}
    if not usable:
        suffix = "" if claim.layer is None else f" at layer {claim.layer}"
        raise Missing(f"{model} on '{corpus}' has fewer than {FEWEST} token types{suffix} (table token_types)")
    each = [_fisher(x, y, claim, f"{model} on '{corpus}'") for x, y in usable.values()]
    # The types are the same at every layer: a mean over layers is no surer than one layer.
    z, error = (float(np.mean(values)) for values in zip(*each, strict=True))
    return _Related(model, z, error, max(len(x) for x, _ in usable.values()))


def _over_models(
    numbers: Numbers, claim: Relation, view: str, corpus: str, models: Sequence[str], baseline: str | None, strict: bool
) -> tuple[list[_Related], list[str]]:
    def read(model: str) -> tuple[str, tuple[tuple[float, float], tuple[float, float]]]:
        x, y = (_of_model(numbers, claim, full_name, view, corpus, model, baseline) for full_name in (claim.x, claim.y))
        return model, (x, y)

    pairs, notes = claims.left_out(models, read, strict)
    by_model = dict(pairs)
    kin = Kinship.of(numbers.facts.origins, list(by_model))
    if len(pairs) < FEWEST:
        raise Missing(f"{len(pairs)} models have both {claim.x} and {claim.y}; at least {FEWEST} are needed")
    few = len(kin.units) < FEWEST  # enough models, but relatives: their correlation is shown, and nothing tested
    units = [(model,) for model in by_model] if few else kin.units
    (x, x_errors), (y, y_errors) = np.array(
        [np.mean([by_model[model] for model in unit], axis=0) for unit in units]
    ).T.swapaxes(0, 1)
    z, error = _fisher(x, y, claim, f"{len(pairs)} models on '{corpus}'")
    if few:
        error = np.inf
        notes.append(f"{len(pairs)} models count as {len(kin.units)}; a test needs at least {FEWEST}")
    squares = [float(np.square(errors).mean()) for errors in (x_errors, y_errors)]
    moved = _moved((x, y), squares, claim, z)
    related = _Related(claims.independent(kin), z, error, len(x), by_chance(x, y, claim.method), moved)
    return [related], [*notes, *kin.notes]


def _of_model(
    numbers: Numbers, claim: Relation, full_name: str, view: str, corpus: str, model: str, baseline: str | None
) -> tuple[float, float]:
    """Return a number of a model, and its error over texts, 0 where there is none."""
    if full_name.startswith("scores."):
        plain = model.removesuffix(f" ({baseline})") if baseline else model
        scores = numbers.study.models[plain].scores
        name = full_name.removeprefix("scores.")
        if baseline or name not in scores:
            raise Missing(f"{model} has no score '{name}'")
        return scores[name], 0.0
    whole = all(row.layer is None for row in numbers.rows(full_name, view))  # 'layer' is for the other side
    layer = None if whole else claim.layer
    source = Profiles(numbers, full_name, view, claim.site, claim.checkpoint, claim.step, layer)
    number = source.last(model, corpus).mean
    error = float(number.larger[0])
    return float(number.value[0]), error if isfinite(error) else 0.0


def _fisher(x: Array, y: Array, claim: Relation, where: str, worth: float | None = None) -> tuple[float, float]:
    """Return Fisher's z of a correlation and its error.

    Args:
        x: the one statistic, shape (n,).
        y: the other one.
        claim: what is claimed.
        where: of what, for a reader.
        worth: how many independent points the n are worth; n if left out.

    Raises:
        Missing: a statistic does not vary.
    """
    level = any(np.ptp(side) <= ROUNDING * np.abs(side).max() for side in (x, y))
    r = None if level else correlation(x, y, claim.method)
    if r is None:
        raise Missing(f"{claim.x} or {claim.y} is constant ({where}), so it has no correlation")
    z, error = fisher(r, len(x) if worth is None else worth, claim.method)
    wider = far_points(x, y) if claim.method == "pearson" else near_perfect(r, len(x), _strength(claim))
    return z, error * wider


def _strength(claim: Relation) -> float:
    return SMALL if claim.at_least is None else claim.at_least


def _joined(related: Sequence[_Related], kin: Kinship) -> list[_Related]:
    by_model = {correlation.model: correlation for correlation in related}
    units = [[by_model[model] for model in unit] for unit in kin.units]
    return [
        _Related(
            " + ".join(correlation.model for correlation in unit),
            float(np.mean([correlation.z for correlation in unit])),
            float(np.mean([correlation.error for correlation in unit])),
            max(correlation.n for correlation in unit),
            moved=_mean_moved(unit),
        )
        for unit in units
    ]


def _mean_moved(related: Sequence[_Related]) -> tuple[float, float]:
    raised, lowered = np.mean([correlation.moved for correlation in related], axis=0)
    return float(raised), float(lowered)


def _in_full(part: Inequality, moved: tuple[float, float]) -> Inequality:
    """Return a test whose error includes in full, at its level, what is not random and speaks against it."""
    raised, lowered = moved
    by, estimates = raised if part.less == part.fails else lowered, part.estimates
    return replace(part, estimates=replace(estimates, error=estimates.error + by / quantile(1 - LEVEL, estimates.df)))


def _finding(claim: Relation, related: Sequence[_Related], fixed: bool = False) -> Outcome:
    """Decide on one correlation, or on the mean z of several independent models.

    Types of texts that are fixed are no sample of others: what is left of their error is rounding.
    """
    z = np.array([correlation.z for correlation in related])
    errors = np.full(len(z), ROUNDING) if fixed else np.array([correlation.error for correlation in related])
    mean_error = errors.mean()
    # Layers of several models are tested by the models alone; types are shared, so that their error stays.
    shared = claim.over == "types" or len(related) < FEWEST_MODELS
    over_texts = np.full((len(z), 1), mean_error if shared else np.inf)
    estimates = over_models(Estimates.of_texts(z[:, None], over_texts), 1.0)
    if claim.over == "layers" and len(related) >= FEWEST_MODELS:
        # Models that agree more closely than independent layers could (all ranks equal, say) do so by saturation.
        least = np.sqrt(1 / (min(correlation.n for correlation in related) - 3) / len(related))
        error = np.maximum(np.where(np.isfinite(estimates.error), estimates.error, 0.0), least)
        estimates = Estimates(estimates.value, error, estimates.df)
    moved = _mean_moved(related)
    chance = related[0].chance if len(related) == 1 else (0.0, 0.0)
    strength = _strength(claim)
    claimed = {"positive": "above", "negative": "below", "none": "same"}[claim.is_]
    claimed_range = Range.of(claimed, strength, "g")
    name = f"{claim.method.capitalize()} correlation of {claim.x} and {claim.y} over {claim.over}"
    needs, breaks = inequalities(estimates, claimed, max(atanh(strength), ROUNDING), name, shown=tanh)
    needs, breaks = (tuple(_in_full(part, moved) for part in parts) for parts in (needs, breaks))
    several = len(related) >= FEWEST_MODELS
    certain = bool(np.isfinite([*estimates.error, *moved]).all())
    few = f"there are too few independent {claim.over} for a correlation"
    if np.isinf(moved).any():
        few = f"errors over texts are as large as the differences between {claim.over}; add texts"
    finding = Outcome.of(
        needs,
        breaks,
        certain,
        (None, None),
        wanted=claimed_range,
        why="" if certain else few,
        models=len(related) if several else 0,
        detail=Detail(name, f"the correlation is {claimed_range.text}"),
    )
    if finding.holds is not None and finding.fails is not None:
        holds, fails = finding.holds, finding.fails
        if claim.is_ == "none":
            fails = max(fails, min(chance))
        else:
            same, other = chance if claim.is_ == "positive" else chance[::-1]
            holds = max(holds, same)
            # Too few points for a correlation the other way are too few to refute by one.
            fails = max(fails, other) if (float(estimates.value[0]) < 0) == (claim.is_ == "positive") else fails
        finding = replace(finding, holds=holds, fails=fails)
    return finding.as_exact() if fixed and not several else finding


def _sql(numbers: Numbers, claim: Relation, view: str, models: Sequence[str], corpora: Sequence[str]) -> str:
    if claim.over != "types":
        full_names = [m for m in (claim.x, claim.y) if not m.startswith("scores.")]
        parts = [claims.layer_sql(numbers, m, view, models, corpora, claim.site, claim.layer) for m in full_names]
        if len(parts) == 1:
            return parts[0]
        return "\nUNION ALL\n".join(
            f"({part.replace('SELECT model', f'SELECT {quoted(m)} AS number, model', 1)})"
            for m, part in zip(full_names, parts, strict=True)
        )
    layer = f" AND layer = {claim.layer}" if isinstance(claim.layer, int) else ""
    return (
        f"SELECT model, checkpoint, corpus, layer, token, {claim.x}, {claim.y} FROM token_types WHERE study = "
        f"{quoted(numbers.study.study)} AND view = {quoted(view)} AND {claims.among('model', models)} AND "
        f"{claims.among('corpus', corpora)}{layer} ORDER BY corpus, model, layer, token"
    )
