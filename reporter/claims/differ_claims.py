"""``differ:`` claims: two sets of models, or one set of models on two sets of corpora."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.claims.evidence import layer_sql, left_out, on_corpora
from reporter.claims.finding import Finding, number
from reporter.claims.groups import Group, difference, paired
from reporter.claims.intervals import Z
from reporter.claims.missing import Missing
from reporter.claims.points import Estimates
from reporter.claims.profiles import Source
from reporter.claims.sizes import refuse_unequal
from reporter.spec.claim_parts import GROUPS
from reporter.spec.claims import SideParts

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers
    from reporter.spec.claims import Differ

_NO_ERROR = (
    "each side has one model and there is no interval from texts or batches, so nothing tells how sure the difference "
    "is; name several models, or a statistic that has an interval"
)
_RULE = {
    "above": "a exceeds b by more than {by}",
    "below": "b exceeds a by more than {by}",
    "different": "a and b differ by more than {by}",
    "same": "a and b differ by less than {by}",
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
    supported where the 95 % interval excludes everything up to ``by`` on both sides of 0.

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
    found_a, found_b = (_group(source, side, notes) for side in (a, b))
    refuse_unequal(numbers, claim.metric, a.corpora, b.corpora)
    same = set(found_a.models) == set(found_b.models) and a.corpora != b.corpora
    if not same and (both := set(found_a.models) & set(found_b.models)):
        raise Missing(f"{', '.join(sorted(both))} is on both sides")
    if same:
        order = [found_b.models.index(model) for model in found_a.models]
        errors = None if found_b.errors is None else found_b.errors[order]
        found_b = Group(found_a.models, found_b.values[order], errors)
        estimates, g = paired(found_a, found_b)
    else:
        estimates, g = difference(found_a, found_b)
    holds, fails = _decide(estimates, claim.is_, claim.by)
    known = bool(np.isfinite(estimates.error).all())
    low, high = (number(end[0]) for end in estimates.interval())
    where = "mean over layers" if claim.layer is None else f"layer {claim.layer}"
    effect = {"a": a.name, "b": b.name, "mean_a": found_a.mean, "mean_b": found_b.mean, "n_a": len(found_a.values)}
    effect |= {"n_b": len(found_b.values), "g": g}
    corpora = list(dict.fromkeys([*a.corpora, *b.corpora]))
    models = list(dict.fromkeys([*found_a.models, *found_b.models]))
    detail: dict[str, Any] = {
        "statistic": f"{claim.metric} ({where}): {a.name} minus {b.name}",
        "definition": _RULE[claim.is_].format(by=f"{claim.by:g}"),
        "bound": f"{claim.is_}, by {claim.by:g}" if claim.by else claim.is_,
        "effect": effect,
        "evidence": [*_evidence(found_a, a), *_evidence(found_b, b)],
        "notes": [*notes, *([] if known else [_NO_ERROR])],
        "sql": layer_sql(numbers, claim.metric, view, models, corpora, claim.site, claim.layer),
    }
    return Finding(
        holds if known else None, fails if known else None, float(estimates.value[0]), low, high, detail=detail
    )


def _decide(gap: Estimates, is_: str, by: float) -> tuple[float, float]:
    up, down = float(gap.above(by)[0]), float(gap.below(by)[0])
    if is_ == "above":
        return up, down
    minus, plus = float(gap.below(-by)[0]), float(gap.above(-by)[0])  # b exceeds a, or does not
    if is_ == "below":
        return minus, plus
    apart, close = min(up, minus), max(down, plus)
    return (apart, close) if is_ == "different" else (close, apart)


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


def _group(source: Source, side: _Side, notes: list[str]) -> Group:
    def read(model: str) -> tuple[str, float, float | None]:
        found = [source.last(model, corpus) for corpus in side.corpora]
        notes.extend(note for *_, more in found for note in more)
        errors = [error for _, error, _ in found if error is not None]
        error = float(np.hypot.reduce(errors)) / len(found) if len(errors) == len(found) else None
        return model, float(np.mean([value for value, *_ in found])), error

    found, more = left_out(side.models, read, strict=side.named)
    notes += more
    models, values, errors = zip(*found, strict=True)
    known = None if any(error is None for error in errors) else np.array(errors, dtype=float)
    return Group(tuple(models), np.array(values), known)


def _evidence(group: Group, side: _Side) -> Sequence[dict[str, Any]]:
    errors = [None] * len(group.values) if group.errors is None else [Z * e for e in group.errors]
    return [
        {
            "model": model,
            "corpus": ", ".join(side.corpora),
            "value": float(value),
            "ci_low": None if reach is None else float(value - reach),
            "ci_high": None if reach is None else float(value + reach),
        }
        for model, value, reach in zip(group.models, group.values, errors, strict=True)
    ]
