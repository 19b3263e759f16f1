"""``differ:`` claims: two sets of models, or one set of models on two sets of corpora."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from reporter.core.numbers import short
from reporter.core.places import place
from reporter.judge import claims
from reporter.judge.contrasts import Group, contrast
from reporter.judge.estimates import FEWEST_MODELS, Bounds, Estimates
from reporter.judge.facts import declared
from reporter.judge.numbers import Missing, Numbers
from reporter.judge.outcomes import THESE_MODELS, Detail, Outcome, Range, inequalities
from reporter.judge.profiles import Profile, Profiles, means_in_common
from reporter.metrics.base import Statistic
from reporter.study import Study
from reporter.study import claims as forms
from reporter.study.part import Complaint, Part, failure
from reporter.study.problems import show


class SideParts(Part):
    """One of the two sets that are compared."""

    models: forms.Models | None = Field(None, description="Models, or 'encoders', 'decoders' or 'all'.")
    corpus: forms.Corpora | None = Field(None, description="Corpora.")

    @model_validator(mode="after")
    def _names_something(self) -> SideParts:
        if self.models is None and self.corpus is None:
            raise failure(Complaint("missing key; add `models` or `corpus`", (), "parent"))
        return self


def _parsed_side(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, dict):
        return SideParts.model_validate(value, context=info.context)
    if isinstance(value, str | list | tuple | SideParts):
        return value
    message = f"expected a name, a list of names or a mapping such as {{models: encoders}}, got {show(value)}"
    raise failure(Complaint(message))


Compared = Annotated[
    SideParts | forms.Names,
    BeforeValidator(_parsed_side, json_schema_input_type=SideParts | forms.Names),
    forms.Refers("either"),
]
"""Names, all of models or all of corpora, or :class:`SideParts`."""


class Differ(Part):
    """Two sets of models or of corpora, and on what they differ."""

    _old_name = model_validator(mode="before")(forms.by_is_at_least)

    metric: forms.StatisticName = Field(description="The statistic, as metric.statistic.")
    a: Compared = Field(description="The first set: models, a role, or corpora.")
    b: Compared = Field(description="The second set.")
    is_: Literal["above", "below", "different", "same"] = Field(
        alias="is",
        description="above, below: the mean of a exceeds the mean of b by more than 'at_least', or the reverse. "
        "different: the means differ by more than 'at_least'. same: they differ by less.",
    )
    at_least: forms.AtLeast = None
    models: forms.Models = Field(("all",), description="If a and b are corpora: the models. Default: all.")
    corpus: forms.Corpora | None = Field(
        None, description="If a and b are models: the corpus, or several to average over. Default: every corpus."
    )
    layer: forms.Layer | None = Field(None, description="Number of a layer, or 'last'. Default: the mean over layers.")
    site: forms.OneSite | None = Field(
        None, description="Position in the block. Default: the embedding and the output of each block."
    )

    @model_validator(mode="after")
    def _can_be_shown(self, info: ValidationInfo) -> Differ:
        if self.is_ == "same" and not self.at_least:
            message = "'same' needs `at_least`; add `at_least: NUMBER`, the largest difference that counts as none"
            raise failure(Complaint(message, ("is",)))
        if forms.of_whole_model(self.metric, info) and (complaints := forms.no_layers(self, self.metric)):
            raise failure(*complaints)
        return self


class DifferClaim(forms.Claim):
    """Two sets of models or corpora differ on a statistic."""

    differ: Differ = Field(description="The two sets and the statistic.")


def _rule(is_: str, a: str, b: str, by: float) -> str:
    more = f" by more than {short(by)}" if by else ""
    if is_ in ("above", "below"):
        high, low = (a, b) if is_ == "above" else (b, a)
        return f"the mean of {high} exceeds the mean of {low}{more}"
    return f"the means of {a} and of {b} differ" + (f" by less than {short(by)}" if is_ == "same" else more)


@dataclass(frozen=True)
class _Side:
    name: str
    models: tuple[str, ...]
    named: bool
    corpora: tuple[str, ...]


def _compares_roles(claim: DifferClaim, numbers: Numbers) -> bool:
    named = [_named(numbers.study, side)[0] for side in (claim.differ.a, claim.differ.b)]
    a, b = (numbers.facts.roles_of(models) for models in named)
    return all(named) and len(a | b) > 1 and a != b  # else two corpora, on the same models


def _foresees(study: Study, claim: DifferClaim, words: Mapping[str, int]) -> str:
    differ = claim.differ
    _, statistic = declared().get(differ.metric, (None, None))
    a, b = (_named(study, side)[1] or differ.corpus or tuple(study.corpora) for side in (differ.a, differ.b))
    if statistic is None or not statistic.grows or set(a) == set(b):
        return ""
    counts = {corpus: words[corpus] for corpus in dict.fromkeys(a + b) if corpus in words}
    return claims.unequal(study, differ.metric, counts)


@claims.claim_kind("differ", DifferClaim, place=3, compares_roles=_compares_roles, foresees=_foresees)
def differ_finding(numbers: Numbers, written_claim: DifferClaim, view: str, baseline: str | None) -> Outcome:
    """Test how two sets differ on a statistic: at a layer, or on its mean over layers.

    Each model has one number on a side: the mean over the side's corpora. Different models are compared by Welch's
    interval, the same models on two corpora by the models' own differences. 'different' is tested two-sided: it is
    supported where the 95 % interval excludes everything up to ``at_least`` on both sides of 0.

    Args:
        numbers: the study's numbers.
        written_claim: what is claimed.
        view: the view.
        baseline: a null baseline to read in place of each model.

    Raises:
        Missing: numbers are missing.
    """
    claim = written_claim.differ
    notes: list[str] = []
    a, b = (_read_side(numbers, side, claim, view, baseline, notes) for side in (claim.a, claim.b))
    source = Profiles(numbers, claim.metric, view, claim.site, layer=claim.layer)
    notes += claims.at_equal_size(numbers, claim.metric, a.corpora, b.corpora)
    (found_a, each_a), (found_b, each_b) = _groups(source, (a, b), notes)
    same = each_a.keys() == each_b.keys() and a.corpora != b.corpora
    if not same and (both := each_a.keys() & each_b.keys()):
        raise Missing(f"`a` and `b` both include {', '.join(sorted(both))}; remove them from one side")
    estimates, g = contrast(found_a, found_b, same_texts=a.corpora == b.corpora)
    least, note = claims.smallest_effect(
        numbers, claim.metric, claim.at_least, np.concatenate([found_a.values, found_b.values])
    )
    notes += [note] if note else []
    certain, bounds = estimates.known, numbers.facts.bounds(claim.metric)
    where = _layer_text(numbers.facts.statistic(claim.metric), claim.layer)
    corpora = list(dict.fromkeys([*a.corpora, *b.corpora]))
    models = list({**each_a, **each_b})
    few = [side for side in (found_a, found_b) if len(side.models) < FEWEST_MODELS]
    if certain and few and not estimates.fixed:
        whom = dict.fromkeys(model for side in few for model in side.models)
        notes.append(f"the interval for {', '.join(whom)} is over texts: {THESE_MODELS}")
    if not same and (begins := claims.first_token_differences(numbers, models, view)):
        notes.append(
            f"warning: texts begin differently ({begins}), and {view} include these first tokens; the token "
            "set without sinks leaves them out"
        )
    notes += [] if same else _copies(numbers, each_a, each_b)
    detail = Detail(
        statistic=f"{claim.metric} ({where}): {a.name} minus {b.name}",
        definition=_rule(claim.is_, a.name, b.name, least),
        models=models,
        corpora=corpora,
        effect={"a": a.name, "b": b.name, "mean_a": found_a.mean, "mean_b": found_b.mean}
        | {"n_a": len(found_a.values), "n_b": len(found_b.values), "g": g},
        evidence=[*_evidence(each_a, a, bounds), *_evidence(each_b, b, bounds)],
        notes=notes,
        sql=claims.layer_sql(numbers, claim.metric, view, models, corpora, claim.site, claim.layer),
    )
    unsure = next((side for side in (found_a, found_b) if not side.known), found_a)
    alone = _by_itself(numbers, claim, each_a, each_b, least) if same and len(each_a) > 1 else {}
    more: dict[str, Any] = {"why": "" if certain else claims.no_error(len(unsure.values), unsure.models), "each": alone}
    more |= {"models": 0 if few else min(len(found_a.values), len(found_b.values)), "detail": detail}
    return _tested(numbers, claim, estimates, least, f"{a.name} minus {b.name}", **more)


def _layer_text(statistic: Statistic | None, layer: int | str | None) -> str:
    step = statistic is not None and statistic.per == "step"
    kind = "block" if step else "layer"
    return f"mean over {kind}s" if layer is None else f"the last {kind}" if layer == "last" else place(int(layer), step)


def _by_itself(numbers: Numbers, claim: Differ, a: _Each, b: _Each, least: float) -> dict[str, Outcome]:
    """Return what is found of each model by itself, on both sides' corpora."""
    gaps = {model: number.minus(b[model]) for model, number in a.items()}
    why = {model: "" if gap.known else claims.no_error(1, [model]) for model, gap in gaps.items()}
    detail = Detail("the difference")
    return {
        m: _tested(numbers, claim, gap, least, detail.statistic, why=why[m], detail=detail) for m, gap in gaps.items()
    }


def _tested(numbers: Numbers, claim: Differ, estimates: Estimates, least: float, name: str, **more: Any) -> Outcome:
    certain, bounds = estimates.known, claims.difference_bounds(numbers, claim.metric)
    tests = inequalities(estimates, claim.is_, least, name)
    finding = Outcome.of(*tests, certain, bounds, wanted=Range.of(claim.is_, least), **more)
    return finding.as_exact() if certain and estimates.fixed else finding


def _copies(numbers: Numbers, a: _Each, b: _Each) -> list[str]:
    prints = numbers.facts.origins.fingerprints
    same = [(first, two) for first in a for two in b if first in prints and prints[first] == prints.get(two)]
    return [f"warning: {first} and {two} have the same weights, so they cannot differ" for first, two in same]


def _named(study: Study, side: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the models and the corpora that a side names."""
    if not isinstance(side, SideParts):
        of_models = any(name in study.models or name in forms.GROUPS for name in side)
        side = SideParts(models=side) if of_models else SideParts(corpus=side)
    return side.models or (), side.corpus or ()


def _read_side(numbers: Numbers, side: Any, claim: Differ, view: str, baseline: str | None, notes: list[str]) -> _Side:
    names, corpora = _named(numbers.study, side)
    models, more = numbers.models(names or claim.models, claim.metric, view, baseline)
    notes += more
    on = claims.on_corpora(numbers, corpora or claim.corpus, claim.metric, view)
    name = " on ".join(", ".join(part) for part in (names, corpora) if part)
    return _Side(name, tuple(models), numbers.facts.named(names or claim.models), tuple(on))


_Each = Mapping[str, Estimates]


def _groups(source: Profiles, sides: Sequence[_Side], notes: list[str]) -> Iterator[tuple[Group, _Each]]:
    """Yield each side's numbers by independent model, and by model with their errors: means over common layers."""
    found = []
    for side in sides:
        read = partial(_profiles, source, side)
        profiles, more = claims.left_out(side.models, read, strict=side.named)
        notes += more
        found.append({of[0].model: of for of in profiles})
    means, more = means_in_common(found)
    notes += [*(note for side in found for of in side.values() for profile in of for note in profile.notes), *more]
    for numbers in means:
        group = Group.of(source.numbers.facts.origins, numbers)
        notes += group.notes
        yield group, numbers


def _profiles(source: Profiles, side: _Side, model: str) -> list[Profile]:
    return [source.last(model, corpus) for corpus in side.corpora]


def _evidence(each: _Each, side: _Side, bounds: Bounds) -> Iterator[dict[str, Any]]:
    for model, number in each.items():
        ends = dict(zip(("ci_low", "ci_high"), number.ends(bounds), strict=True))
        yield {"model": model, "corpus": ", ".join(side.corpora), "value": float(number.value[0]), **ends}
