"""Judges the claims of a study: tests each, corrects for their number, and says so in rows of the database.

Each claim is two one-sided tests: that it holds, and that it fails. Holm's step-down procedure over the 2m tests of m
claims bounds the probability of even one wrong 'supported' or 'refuted' in the study by 5 %, however the claims depend
on each other. A single claim is decided by whether its 95 % interval excludes the bound.

Source: Holm 1979, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from reporter.claims.changes import change
from reporter.claims.finding import Finding, Shown
from reporter.claims.kind import kind_of
from reporter.claims.numbers import Missing, Numbers
from reporter.claims.power import power
from reporter.errors import ReporterError, describe
from reporter.geometry.correction import holm
from reporter.spec.claim_references import queries_of, statistics_of
from reporter.store.schema import ModelVerdict, Verdict, Word

if TYPE_CHECKING:
    from reporter.metrics.base import Statistic
    from reporter.spec import Study
    from reporter.spec.claims import Claim
    from reporter.store import Store


@dataclass(frozen=True)
class Reading:
    """A claim under one view, on the models or on a null baseline.

    Args:
        place: 1 for the claim itself.
        view: the view; None for a claim by SQL.
        baseline: None for the models.
    """

    place: int
    view: str | None
    baseline: str | None


NO_SINKS = "no-sinks"


def readings(claim: Claim, numbers: Numbers) -> list[Reading]:
    """Return how a claim is to be read: its first view on the models, then the other views, then the baselines.

    A claim that compares models of both roles is read without sinks unless it says otherwise: whether a word or an
    added token stands at position 0 is no property of the role, and can decide the number.
    """
    kind, study = kind_of(claim), numbers.study
    if not kind.under_views(claim):
        return [Reading(1, None, None)]
    without = (
        NO_SINKS in study.views
        and kind.compares_roles(claim, numbers)
        and all(numbers.rows(full_name, NO_SINKS) for full_name in statistics_of(claim))
    )
    views = claim.views or ((NO_SINKS,) if without else study.views[:1])
    pairs = [(view, None) for view in views] + [(views[0], baseline) for baseline in claim.baselines]
    return [Reading(place, view, baseline) for place, (view, baseline) in enumerate(pairs, 1)]


def judge(store: Store, study: Study, statistics: Mapping[str, Statistic] | None = None) -> list[Verdict]:
    """Test every claim of a study against the numbers in the database.

    The claims themselves (each one's first view, on the models) are the family that is corrected for their number;
    claims that cannot be tested, or compare a number that has no interval, are not counted. Other views and baselines
    show what a verdict hangs on; they are judged one by one. What each model by itself says to a claim about several
    is a family of its own, corrected for all models of all claims.

    Whatever goes wrong with one claim is its verdict ('failed', with the reason), and touches no other.

    Args:
        store: the database.
        study: the study.
        statistics: by full name what is known of each statistic; those of metrics if left out.
    """
    numbers = Numbers(store, study, statistics)
    found = [
        (number, name, claim, reading, _find(numbers, claim, reading))
        for number, (name, claim) in enumerate(study.claims.items(), 1)
        for reading in _readings(claim, numbers)
    ]
    family = [
        (name, finding)
        for _, name, _, reading, finding in found
        if reading.place == 1 and isinstance(finding, Finding) and finding.tested
    ]
    adjusted = dict(
        zip(
            (name for name, _ in family),
            corrected([(f.holds or 0.0, f.fails or 0.0) for _, f in family]),
            strict=True,
        )
    )
    verdicts = [
        _verdict(
            number,
            name,
            claim,
            reading,
            finding,
            adjusted.get(name) if reading.place == 1 else None,
            len(family),
            _about(numbers, claim),
        )
        for number, name, claim, reading, finding in found
    ]
    verdicts = _with_models(verdicts, [finding for *_, finding in found])
    for name in study.claims:
        _tell_changes(
            [(v, f) for v, (*_, f) in zip(verdicts, found, strict=True) if v.claim == name and v.baseline is None]
        )
    return verdicts


def _with_models(verdicts: Sequence[Verdict], findings: Sequence[Finding | str]) -> list[Verdict]:
    """Add to verdicts what each model by itself says, corrected for all models of all claims together."""
    each = [{} if isinstance(finding, str) else finding.each for finding in findings]
    family = [
        (index, model, one)
        for index, found in enumerate(each)
        if verdicts[index].reading == 1
        for model, one in found.items()
        if one.tested
    ]
    p = corrected([(one.holds or 0.0, one.fails or 0.0) for *_, one in family])
    adjusted = {(index, model): value for (index, model, _), value in zip(family, p, strict=True)}
    return [
        replace(
            verdict,
            by_model=tuple(
                _of_model(verdict, model, one, adjusted.get((index, model))) for model, one in found.items()
            ),
        )
        for index, (verdict, found) in enumerate(zip(verdicts, each, strict=True))
    ]


def _of_model(verdict: Verdict, model: str, found: Finding, adjusted: float | None) -> ModelVerdict:
    alone = found.word(found.p)
    word = alone if adjusted is None else found.word(adjusted)
    shown = found.shown(word)
    return ModelVerdict(
        claim=verdict.claim,
        reading=verdict.reading,
        view=verdict.view,
        baseline=verdict.baseline,
        model=model,
        verdict=word,
        alone=alone,
        statistic=shown.statistic or None,
        value=shown.value,
        ci_low=shown.low,
        ci_high=shown.high,
        claimed=shown.wanted.text or None,
        p=found.p,
        p_adjusted=adjusted,
    )


def _readings(claim: Claim, numbers: Numbers) -> list[Reading]:
    try:
        return readings(claim, numbers)
    except Exception:  # such as no results yet: the test fails with that reason, under the view that the study says
        return [Reading(1, (claim.views or numbers.study.views)[0], None)]


def _tell_changes(tests: list[tuple[Verdict, Finding | str]]) -> None:
    """Add what each other view changes to the first verdict's detail."""
    (first, own), *others = tests
    if isinstance(own, str):
        return
    # The verdicts are compared as they are without the correction, which other readings do not have.
    changes = [
        change(own, own.word(own.p), finding, finding.word(finding.p), str(verdict.view))
        for verdict, finding in others
        if not isinstance(finding, str)
    ]
    if changes:
        first.detail["views"] = changes


def _find(numbers: Numbers, claim: Claim, reading: Reading) -> Finding | str:
    """Return what the test finds, or why there is no test."""
    view = reading.view or numbers.study.views[0]
    try:
        found = kind_of(claim).test(numbers, claim, view, reading.baseline)
    except (Missing, ReporterError) as error:
        return str(error)
    except Exception as error:  # a claim that breaks is no reason to lose the others, nor the run
        return describe(error)
    if not claim.views and kind_of(claim).compares_roles(claim, numbers):
        if view == NO_SINKS:
            note = f"models of both roles are compared under the view '{NO_SINKS}', since the claim names no view"
        else:
            note = (
                f"warning: this compares models of both roles under the view '{view}', so that it hangs on what stands "
                f"at position 0; add '{NO_SINKS}' to 'views'"
            )
        found = found.with_detail(notes=[note])
    return found


def _about(numbers: Numbers, claim: Claim) -> dict[str, list[str]]:
    """Return which statistics a claim is about and, where it asks by SQL, which tables."""
    names, tables = list(statistics_of(claim)), list[str]()
    for query in queries_of(claim):
        named, read = numbers.asked(query)
        names += named
        tables += read
    return {"metrics": list(dict.fromkeys(names))} | ({"tables": list(dict.fromkeys(tables))} if tables else {})


def _verdict(
    number: int,
    name: str,
    claim: Claim,
    reading: Reading,
    finding: Finding | str,
    adjusted: float | None,
    tested: int,
    about: Mapping[str, Sequence[str]],
) -> Verdict:
    said: dict[str, Any] = {
        "claim": name,
        "number": number,
        "reading": reading.place,
        "says": claim.says,
        "source": claim.source,
        "kind": kind_of(claim).name,
        "view": reading.view,
        "baseline": reading.baseline,
        "paper": claim.paper,
    }
    if isinstance(finding, str):
        return Verdict(**said, verdict="failed", detail={"reason": finding, **about})
    p = finding.p
    final = p if adjusted is None else adjusted
    word, alone = finding.word(final), finding.word(p)
    detail = {key: value for key, value in finding.detail.items() if value not in (None, [], "")}
    if word != alone:
        detail["alone"] = alone
    if adjusted is not None:
        detail["tested"] = tested
    shown = finding.shown(word)
    wanted = shown.wanted
    detail |= {key: text for key, text in (("statistic", shown.statistic), ("bound", wanted.text)) if text}
    detail |= about
    detail["reason"] = _reason(finding, word, alone, final, tested)
    if word == "inconclusive":
        needed = (power(finding, 1 if adjusted is None else tested), finding.instead)
        detail |= {"power": "; ".join(filter(None, needed))} if any(needed) else {}
    return Verdict(
        **said,
        verdict=word,
        value=shown.value,
        ci_low=shown.low,
        ci_high=shown.high,
        holds_low=wanted.low,
        holds_high=wanted.high,
        holds_outside=wanted.outside if wanted.known else None,
        p=shown.p,
        p_adjusted=final,
        detail=detail,
    )


def _reason(finding: Finding, word: Word, alone: Word, p: float | None, tested: int) -> str:
    if p is None:
        return f"not tested: {finding.why}" if word == "inconclusive" else finding.why
    if word != alone:
        return f"{alone} if tested on its own, but not once corrected for the {tested} claims tested together ({_p(p)})"
    shown = finding.shown(word)
    where = f" ({shown.wanted.text})" if shown.wanted.text else ""
    if word == "supported":
        if finding.supported is not None and finding.part is not None:
            weakest = f"{finding.part.name} {finding.part.wanted.text}"
            return (
                f"the 95 % interval lies entirely in the claimed range{where}; of all that the claim requires, the "
                f"least certain is: {weakest} ({_p(p)})"
            )
        return f"the 95 % interval lies entirely in the claimed range{where}; {_p(p)}"
    if word == "refuted":
        return f"the 95 % interval lies entirely outside the claimed range{where}; {_p(p)}"
    if (side := _side(shown)) is not None:
        return (
            f"the 95 % interval of this number alone lies {side} the claimed range{where}, but the claim as a whole is "
            f"neither shown nor refuted: {_p(p)}, corrected for all comparisons that it makes"
        )
    return (
        f"the data do not decide: the 95 % interval lies partly inside and partly outside the claimed range{where}; "
        f"{_p(p)}"
    )


def _side(shown: Shown) -> str | None:
    """Say where an interval lies that has all its values on one side; None where it has not, or is not known."""
    wanted = shown.wanted
    if shown.low is None or shown.high is None or not wanted.known:
        return None
    low, high = (-math.inf if wanted.low is None else wanted.low), (math.inf if wanted.high is None else wanted.high)
    inside, beyond = low < shown.low and shown.high < high, shown.high < low or shown.low > high
    if wanted.outside:
        inside, beyond = beyond, inside
    return "inside" if inside else "outside" if beyond else None


def rows_of(verdicts: Sequence[Verdict]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table ``claims``."""
    for verdict in verdicts:
        yield {name: value for name, value in asdict(verdict).items() if name != "by_model"}


def _p(p: float) -> str:
    return f"p = {p:.2g}" if p >= 1e-12 else "p < 1e-12"  # an exact 0 is what rounding leaves


def corrected(claims: Sequence[tuple[float, float]]) -> list[float]:
    """Return the adjusted p-value of each claim's better side.

    Args:
        claims: for each claim the one-sided p-values that it holds and that it fails.
    """
    adjusted = holm([p for pair in claims for p in pair])
    return [min(adjusted[2 * i], adjusted[2 * i + 1]) for i in range(len(claims))]
