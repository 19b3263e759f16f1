"""``differ:`` claims: two sets of models, or one set of models on two sets of corpora."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.claims.effects import difference_bounds, smallest_effect
from reporter.claims.evidence import layer_sql, left_out, no_error, on_corpora
from reporter.claims.finding import Finding, clipped
from reporter.claims.groups import Group, difference, paired
from reporter.claims.inequality import Inequality, Range, deciding
from reporter.claims.kinship import Kinship
from reporter.claims.missing import Missing
from reporter.claims.points import FEWEST_MODELS, Estimates
from reporter.claims.profiles import Source
from reporter.claims.sizes import at_equal_size
from reporter.geometry.intervals import quantile
from reporter.spec.claim_parts import GROUPS
from reporter.spec.claims import SideParts

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers
    from reporter.spec.claims import Differ

_RULE = {
    "above": "a exceeds b by more than {by:.3g}",
    "below": "b exceeds a by more than {by:.3g}",
    "different": "a and b differ by more than {by:.3g}",
    "same": "a and b differ by less than {by:.3g}",
}


@dataclass(frozen=True)
class _Side:
    name: str
    models: tuple[str, ...]
    named: bool
    corpora: tuple[str, ...]


def differ_finding(numbers: Numbers, claim: Differ, view: str, baseline: str | None) -> Finding:
    """Test how two sets differ on a statistic: at a layer, or on its mean over layers.

    Each model has one number on a side: the mean over the side's corpora. Different models are compared by Welch's
    interval, the same models on two corpora by the models' own differences. 'different' is tested two-sided: it is
    supported where the 95 % interval excludes everything up to ``at_least`` on both sides of 0.

    Args:
        numbers: the study's numbers.
        claim: what is claimed.
        view: the view.
        baseline: a null baseline to read in place of each model.

    Raises:
        Missing: numbers are missing.
    """
    notes: list[str] = []
    a, b = (_side(numbers, side, claim, view, baseline, notes) for side in (claim.a, claim.b))
    source = Source(numbers, claim.metric, view, claim.site, layer=claim.layer)
    notes += at_equal_size(numbers, claim.metric, a.corpora, b.corpora)
    (found_a, each_a), (found_b, each_b) = (_group(source, side, notes) for side in (a, b))
    same = {m for m, *_ in each_a} == {m for m, *_ in each_b} and a.corpora != b.corpora
    if not same and (both := {m for m, *_ in each_a} & {m for m, *_ in each_b}):
        raise Missing(f"{', '.join(sorted(both))} is on both sides")
    if same:
        order = [found_b.models.index(model) for model in found_a.models]
        errors = None if found_b.errors is None else found_b.errors[order]
        found_b = Group(found_a.models, found_b.values[order], errors)
        estimates, g = paired(found_a, found_b)
    else:
        estimates, g = difference(found_a, found_b)
    least, note = smallest_effect(
        numbers, claim.metric, claim.at_least, np.concatenate([found_a.values, found_b.values])
    )
    notes += [note] if note else []
    needs, breaks = _decide(estimates, claim.is_, least, f"{a.name} minus {b.name}")
    known = bool(np.isfinite(estimates.error).all())
    part = deciding(needs, breaks)
    low, high = clipped(part.interval() or (None, None), difference_bounds(numbers, claim.metric))
    where = "mean over layers" if claim.layer is None else f"layer {claim.layer}"
    effect = {"a": a.name, "b": b.name, "mean_a": found_a.mean, "mean_b": found_b.mean, "n_a": len(found_a.values)}
    effect |= {"n_b": len(found_b.values), "g": g}
    corpora = list(dict.fromkeys([*a.corpora, *b.corpora]))
    models = list(dict.fromkeys(model for model, *_ in (*each_a, *each_b)))
    few = [side for side in (found_a, found_b) if len(side.values) < FEWEST_MODELS]
    if known and few:
        whom = dict.fromkeys(model for side in few for model in side.models)
        notes.append(
            f"the interval is over texts for {', '.join(whom)}: it speaks of these models, not of others like them"
        )
    notes += _first_tokens(numbers, models, view, differ=not same)
    notes += [] if same else _copies(numbers, [model for model, *_ in each_a], [model for model, *_ in each_b])
    statistic = numbers.statistic(claim.metric)
    bounds = (None, None) if statistic is None else statistic.bounds
    detail: dict[str, Any] = {
        "statistic": f"{claim.metric} ({where}): {a.name} minus {b.name}",
        "definition": _RULE[claim.is_].format(by=least),
        "effect": effect,
        "evidence": [*_evidence(each_a, a, bounds), *_evidence(each_b, b, bounds)],
        "notes": notes,
        "sql": layer_sql(numbers, claim.metric, view, models, corpora, claim.site, claim.layer),
    }
    unknown = [side for side in (found_a, found_b) if not side.known]
    why = "" if known else no_error(len((unknown or [found_a])[0].values), (unknown or [found_a])[0].models)
    return Finding(
        float(np.max([one.p for one in needs])) if known else None,
        float(np.min([one.p for one in breaks])) if known else None,
        float(estimates.value[0]),
        low,
        high,
        _wanted(claim.is_, least),
        why=why,
        part=part,
        models=0 if few else min(len(found_a.values), len(found_b.values)),
        detail=detail,
    )


def _wanted(is_: str, by: float) -> Range:
    """Return where the claim wants a minus b."""
    if is_ == "above":
        return Range(f"> {by:.3g}", low=by)
    if is_ == "below":
        return Range(f"< -{by:.3g}", high=-by)
    return Range(f"{'within' if is_ == 'same' else 'beyond'} ± {by:.3g}", -by, by, outside=is_ == "different")


def _decide(gap: Estimates, is_: str, by: float, name: str) -> tuple[tuple[Inequality, ...], tuple[Inequality, ...]]:
    """Return the inequalities that the claim needs, and those of which one breaks it."""

    def test(bound: float, less: bool, scale: float = 1.0) -> Inequality:
        return Inequality(name, gap, bound, less, scale=scale)

    def against(one: Inequality, scale: float = 1.0) -> Inequality:
        return Inequality(name, gap, one.bound, one.less, fails=True, scale=scale)

    if is_ in ("above", "below"):
        only = test(by, False) if is_ == "above" else test(-by, True)
        return (only,), (against(only),)
    inside = (test(by, True), test(-by, False))
    outside = (test(by, False), test(-by, True))
    if is_ == "same":
        return inside, tuple(against(one) for one in inside)
    # "they differ" is two-sided: it takes one of both, and is broken where both are
    value = float(gap.value[0])
    near = outside[0] if value >= 0 else outside[1]
    closer = min(inside, key=lambda one: -float(one.p))
    return (near,), (Inequality(name, gap, closer.bound, not closer.less, fails=True),)


def _first_tokens(numbers: Numbers, models: Sequence[str], view: str, differ: bool) -> list[str]:
    """Warn where the models compared begin their texts differently, and the view counts that."""
    found = numbers.first_tokens(models)
    if not differ or view == "no-sinks" or len(set(found.values())) < 2:
        return []
    told = ", ".join(f"{model} with {'a word' if token == 'word' else token}" for model, token in found.items())
    return [
        f"warning: the models begin their texts differently ({told}), and the view '{view}' counts what stands there; "
        "the view 'no-sinks' does not"
    ]


def _copies(numbers: Numbers, a: Sequence[str], b: Sequence[str]) -> list[str]:
    """Warn where a model stands on both sides under two names: then nothing is compared."""
    prints = numbers.fingerprints()
    same = [(one, two) for one in a for two in b if one in prints and prints[one] == prints.get(two)]
    return [f"warning: {one} and {two} have the same weights, so that they cannot differ" for one, two in same]


def _side(numbers: Numbers, side: Any, claim: Differ, view: str, baseline: str | None, notes: list[str]) -> _Side:
    if isinstance(side, SideParts):
        names, corpora = side.models, side.corpus
    elif not any(name in numbers.study.models or name in GROUPS for name in side):
        names, corpora = None, side
    else:
        names, corpora = side, None
    asked = claim.models if names is None else names
    models, more = numbers.models(asked, claim.metric, view, baseline)
    notes += more
    on = on_corpora(numbers, claim.corpus if corpora is None else corpora, claim.metric, view)
    name = ", ".join(names or ()) + (" on " if names and corpora else "") + ", ".join(corpora or ())
    named = all(model in numbers.study.models for model in asked)
    return _Side(name, tuple(models), named, tuple(on))


_Each = Sequence[tuple[str, float, float | None]]


def _group(source: Source, side: _Side, notes: list[str]) -> tuple[Group, _Each]:
    """Return a side's numbers by independent model, and by model with their standard errors."""

    def read(model: str) -> tuple[str, float, float | None]:
        found = [source.last(model, corpus) for corpus in side.corpora]
        notes.extend(note for *_, more in found for note in more)
        errors = [error for _, error, _ in found if error is not None]
        error = float(np.hypot.reduce(errors)) / len(found) if len(errors) == len(found) else None
        return model, float(np.mean([value for value, *_ in found])), error

    found, more = left_out(side.models, read, strict=side.named)
    kin = Kinship.of(source.numbers, [model for model, *_ in found])
    notes += [*more, *kin.notes]
    values, errors = {m: value for m, value, _ in found}, {m: error for m, _, error in found if error is not None}
    known = all(model in errors for unit in kin.units for model in unit)
    group = Group(
        tuple(" + ".join(unit) for unit in kin.units),
        np.array([np.mean([values[model] for model in unit]) for unit in kin.units]),
        np.array([np.mean([errors[model] for model in unit]) for unit in kin.units]) if known else None,
    )
    return group, found


def _evidence(each: _Each, side: _Side, bounds: tuple[float | None, float | None]) -> Sequence[dict[str, Any]]:
    rows, reach = [], quantile(0.975)
    for model, value, error in each:
        ends = (None, None) if error is None else (value - reach * error, value + reach * error)
        low, high = clipped(ends, bounds)
        corpus = ", ".join(side.corpora)
        rows.append({"model": model, "corpus": corpus, "value": value, "ci_low": low, "ci_high": high})
    return rows
