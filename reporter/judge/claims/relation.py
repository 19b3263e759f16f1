"""``relation:`` claims: the correlation of two statistics over layers, over token types, or over models.

All are decided on Fisher's z. Over layers, neighbours hang together, so a model's layers count as fewer points
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
from math import atanh, tanh
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationInfo, model_validator

from reporter.geometry.statistics import FEWEST, by_chance, correlation, effective_points, fisher
from reporter.judge import claims, points
from reporter.judge.numbers import Missing, Numbers
from reporter.judge.profiles import Profiles
from reporter.spec import Study
from reporter.spec import claims as forms
from reporter.spec.part import Complaint, failure
from reporter.spec.problems import choices, show
from reporter.store.shape import quoted


class Relation(forms.Selection):
    """A correlation of two statistics."""

    _old_name = model_validator(mode="before")(forms.by_is_at_least)

    x: forms.Related = Field(
        description="metric.statistic; over models also scores.<name>; over types 'count', "
        "'norm_of_mean' or 'variance'."
    )
    y: forms.Related = Field(description="What it is correlated with, named like x.")
    over: Literal["layers", "types", "models"] = Field(description="What the points are.")
    is_: Literal["positive", "negative", "none"] = Field(
        alias="is", description="The correlation's sign; 'none': it is weaker than 'at_least'."
    )
    at_least: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        None,
        description="How strong the correlation is at least, 0.1 if left out (a small one by Cohen 1988); for 'none', "
        "from which strength on it is one.",
    )
    method: Literal["spearman", "pearson"] = Field("spearman", description="Which correlation.")
    layer: forms.Layer | None = Field(
        None, description="over: types and models: a layer, or 'last'; the mean over layers if left out."
    )
    every: forms.Every = None

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Relation:
        complaints = []
        if self.is_ == "none" and not self.at_least:
            message = "'none' needs the key 'at_least': from which strength on it is a correlation"
            complaints.append(Complaint(message, ("is",)))
        for key in ("x", "y"):
            name = getattr(self, key)
            if (name in forms.TYPE_COLUMNS) != (self.over == "types"):
                allowed = choices(forms.TYPE_COLUMNS) if self.over == "types" else "metric.statistic"
                message = f"over {self.over} it must be {allowed}, got {show(name)}"
                complaints.append(Complaint(message, (key,)))
            elif name.startswith("scores.") and self.over != "models":
                complaints.append(Complaint("scores go only with 'over: models'", (key,)))
            elif self.over == "layers" and forms.of_whole_model(name, info):
                message = f"'{name}' is a number of the whole model, and layers do not have it; say 'over: models'"
                complaints.append(Complaint(message, (key,)))
        if self.x == self.y:
            complaints.append(Complaint(f"'{self.x}' is x, too; name another one", ("y",)))
        if self.over == "layers" and self.layer is not None:
            complaints.append(Complaint("does not go with 'over: layers'", ("layer",), "key"))
        if self.over == "layers" and self.site in ("embedding", "final"):
            complaints.append(Complaint(f"'{self.site}' is a single place", ("site",)))
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
    """A correlation: Fisher's z, its error, how many points, and the chance of as much if nothing is related."""

    model: str
    z: float
    error: float
    n: int
    chance: tuple[float, float] = (0.0, 0.0)


def _compares_roles(claim: RelationClaim, numbers: Numbers) -> bool:
    return claim.relation.over == "models" and len(numbers.roles_of(claim.relation.models)) > 1


def _sampled(claim: RelationClaim, study: Study) -> Iterator[Complaint]:
    if study.texts == "fixed" and claim.relation.over != "types":
        message = (
            f"does not go with 'texts: fixed': that leaves out the error of sampling texts, and a correlation over "
            f"{claim.relation.over} has that of {claim.relation.over} alone; leave 'texts' or this claim out"
        )
        yield Complaint(message, ("relation", "over"))


@claims.claim_kind("relation", RelationClaim, place=4, compares_roles=_compares_roles, fits=_sampled)
def relation_finding(numbers: Numbers, said: RelationClaim, view: str, baseline: str | None) -> points.Finding:
    """Test a correlation on each corpus.

    Args:
        numbers: the study's numbers.
        said: what is claimed.
        view: the view.
        baseline: a null baseline to read in place of each model.

    Raises:
        Missing: numbers are missing, or too few.
    """
    claim = said.relation
    full_name = TYPES if claim.over == "types" else claim.x if not claim.x.startswith("scores.") else claim.y
    if full_name.startswith("scores."):
        raise Missing("x and y are both scores; name a statistic of the models")
    models, notes = numbers.models(claim.models, full_name, view, baseline)
    corpora = claims.on_corpora(numbers, claim.corpus, full_name, view)
    strict = numbers.named(claim.models)
    each = strict if claim.every is None else claim.every
    fixed = numbers.study.texts == "fixed" and claim.over == "types"
    units: list[points.Finding] = []
    evidence: list[dict[str, Any]] = []
    by_model: dict[str, list[points.Finding]] = defaultdict(list)
    for corpus in corpora:
        if claim.over == "models":
            related, more = _over_models(numbers, claim, view, corpus, models, baseline, strict)
            notes += more
        else:
            read = _over_layers if claim.over == "layers" else _over_types
            related, more = claims.left_out(models, partial(read, numbers, claim, view, corpus), strict)
            kin = claims.Kinship.of(numbers, [correlation.model for correlation in related])
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
            if len(kin.units) < points.FEWEST_MODELS and not fixed:
                notes.append(f"the interval is over {claim.over}: it speaks of these models, not of others like them")
    result = points.every(units)
    if claim.over == "layers" and len(models) == 1:
        notes.append("neighbouring layers of a model are alike: its layers count as fewer points than there are")
    if len(models) > 1 and claim.over != "models":
        notes.append("it must hold for each model" if each else "it is tested on the mean over models")
    if len(corpora) > 1:
        notes.append(f"it must hold on each of {len(corpora)} corpora: {', '.join(corpora)}")
    sql = _sql(numbers, claim, view, models, corpora)
    return replace(result, each=points.joined_by_model(by_model)).with_detail(
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
        raise Missing(f"{claim.x} and {claim.y} of {model} have {len(common)} layers in common; it takes {FEWEST}")
    x, y = (side.values[[side.labels.index(layer) for layer in common]] for side in sides)
    r = _correlation(x, y, claim, f"{model} on '{corpus}'")
    return _Related(model, *fisher(r, effective_points(x, y, claim.method), claim.method), len(common))


def _over_types(numbers: Numbers, claim: Relation, view: str, corpus: str, model: str) -> _Related:
    # The checkpoint and the layers are those of the statistic that is computed with the table.
    rows = [row for row in numbers.rows(TYPES, view) if row.corpus == corpus]
    checkpoint = numbers.pick(rows, model, claim.checkpoint, claim.step)
    by_place = numbers.types(model, checkpoint[0].checkpoint, corpus, view, claim.x, claim.y)
    sites = ("embedding", "block") if claim.site is None else (claim.site,)
    layers = {layer: types for (site, layer), types in by_place.items() if site in sites}
    if claim.layer is not None:
        number = max(layers, default=0) if claim.layer == "last" else claim.layer
        layers = {layer: types for layer, types in layers.items() if layer == number}
    usable = {layer: types for layer, types in layers.items() if len(types[0]) >= FEWEST}
    if not usable:
        at = "" if claim.layer is None else f" at layer {claim.layer}"
        raise Missing(f"{model} on '{corpus}' has fewer than {FEWEST} token types{at} (table token_types)")
    each = [
        fisher(_correlation(x, y, claim, f"{model} on '{corpus}'"), len(x), claim.method) for x, y in usable.values()
    ]
    # The types are the same at points.every layer: a mean over layers is no surer than one layer.
    z, error = (float(np.mean(values)) for values in zip(*each, strict=True))
    return _Related(model, z, error, max(len(x) for x, _ in usable.values()))


def _over_models(
    numbers: Numbers, claim: Relation, view: str, corpus: str, models: Sequence[str], baseline: str | None, strict: bool
) -> tuple[list[_Related], list[str]]:
    def read(model: str) -> tuple[str, tuple[float, float]]:
        x, y = (_of_model(numbers, claim, full_name, view, corpus, model, baseline) for full_name in (claim.x, claim.y))
        return model, (x, y)

    pairs, notes = claims.left_out(models, read, strict)
    by_model = dict(pairs)
    kin = claims.Kinship.of(numbers, list(by_model))
    if len(pairs) < FEWEST:
        raise Missing(f"{len(pairs)} models have both {claim.x} and {claim.y}; it takes {FEWEST}")
    few = len(kin.units) < FEWEST  # enough models, but relatives: their correlation is shown, and nothing tested
    units = [(model,) for model in by_model] if few else kin.units
    x, y = np.array([np.mean([by_model[model] for model in unit], axis=0) for unit in units]).T
    r = _correlation(x, y, claim, f"{len(pairs)} models on '{corpus}'")
    z, error = fisher(r, len(x), claim.method)
    if few:
        error = np.inf
        notes.append(f"{len(pairs)} models count as {len(kin.units)}; a test takes {FEWEST}")
    related = _Related(claims.independent(kin), z, error, len(x), by_chance(x, y, claim.method))
    return [related], [*notes, *kin.notes]


def _of_model(
    numbers: Numbers, claim: Relation, full_name: str, view: str, corpus: str, model: str, baseline: str | None
) -> float:
    if full_name.startswith("scores."):
        plain = model.removesuffix(f" ({baseline})") if baseline else model
        scores = numbers.study.models[plain].scores
        name = full_name.removeprefix("scores.")
        if baseline or name not in scores:
            raise Missing(f"{model} has no score '{name}'")
        return scores[name]
    whole = all(row.layer is None for row in numbers.rows(full_name, view))  # 'layer' is for the other side
    layer = None if whole else claim.layer
    return Profiles(numbers, full_name, view, claim.site, claim.checkpoint, claim.step, layer).last(model, corpus)[0]


def _correlation(x: points.Array, y: points.Array, claim: Relation, where: str) -> float:
    level = any(np.ptp(side) <= points.ROUNDING * np.abs(side).max() for side in (x, y))
    r = None if level else correlation(x, y, claim.method)
    if r is None:
        raise Missing(f"{claim.x} or {claim.y} is the same everywhere ({where})")
    return r


def _joined(related: Sequence[_Related], kin: claims.Kinship) -> list[_Related]:
    by_model = {correlation.model: correlation for correlation in related}
    units = [[by_model[model] for model in unit] for unit in kin.units]
    return [
        _Related(
            " + ".join(correlation.model for correlation in unit),
            float(np.mean([correlation.z for correlation in unit])),
            float(np.mean([correlation.error for correlation in unit])),
            max(correlation.n for correlation in unit),
        )
        for unit in units
    ]


def _finding(claim: Relation, related: Sequence[_Related], fixed: bool = False) -> points.Finding:
    """Decide on one correlation, or on the mean z of several independent models.

    Types of texts that are fixed are no sample of others: what is left of their error is rounding.
    """
    z = np.array([correlation.z for correlation in related])
    errors = np.full(len(z), points.ROUNDING) if fixed else np.array([correlation.error for correlation in related])
    mean_error = errors.mean()
    # Layers of several models are tested by the models alone; types are shared, so that their error stays.
    shared = claim.over == "types" or len(related) < points.FEWEST_MODELS
    texts = np.array([mean_error]) if shared and np.isfinite(mean_error) else None
    estimates = points.over_models(z[:, None], texts, 1.0)
    if claim.over == "layers" and len(related) >= points.FEWEST_MODELS:
        # Models that agree more closely than independent layers could (all ranks equal, say) do so by saturation.
        least = np.sqrt(1 / (min(correlation.n for correlation in related) - 3) / len(related))
        error = np.maximum(np.where(np.isfinite(estimates.error), estimates.error, 0.0), least)
        estimates = points.Estimates(estimates.value, error, estimates.df)
    chance = related[0].chance if len(related) == 1 else (0.0, 0.0)
    strength = SMALL if claim.at_least is None else claim.at_least
    claimed = {"positive": "above", "negative": "below", "none": "same"}[claim.is_]
    wanted = points.Range.of(claimed, strength, "g")
    name = f"{claim.method.capitalize()} correlation of {claim.x} and {claim.y} over {claim.over}"
    needs, breaks = points.inequalities(estimates, claimed, max(atanh(strength), points.ROUNDING), name, shown=tanh)
    certain, several = bool(np.isfinite(estimates.error).all()), len(related) >= points.FEWEST_MODELS
    finding = points.Finding.of(
        needs,
        breaks,
        certain,
        (None, None),
        wanted=wanted,
        why="" if certain else f"there are too few independent {claim.over} to tell anything of a correlation",
        models=len(related) if several else 0,
        detail={"statistic": name, "definition": f"the correlation is {wanted.text}"},
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
    return finding.as_it_stands() if fixed and not several else finding


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
