"""Judges the claims of a study: tests each, corrects for their number, and says so in rows of the database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from reporter.claims.differ_claims import differ_finding
from reporter.claims.finding import Finding
from reporter.claims.holm import ALPHA, corrected
from reporter.claims.missing import Missing
from reporter.claims.numbers import Numbers
from reporter.claims.relation_claims import relation_finding
from reporter.claims.shape_claims import shape_finding
from reporter.claims.value_claims import value_finding
from reporter.claims.verdict import Verdict
from reporter.errors import ReporterError
from reporter.spec.claim_parts import SqlNumber
from reporter.spec.claims import DifferClaim, RelationClaim, ShapeClaim, ValueClaim

if TYPE_CHECKING:
    from reporter.spec import Study
    from reporter.store import Store

Claim = ValueClaim | ShapeClaim | DifferClaim | RelationClaim
_KINDS: dict[type, str] = {
    ValueClaim: "value",
    ShapeClaim: "shape",
    DifferClaim: "differ",
    RelationClaim: "relation",
}


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


def readings(claim: Claim, study: Study) -> list[Reading]:
    """Return how a claim is to be read: its first view on the models, then the other views, then the baselines."""
    if isinstance(claim, ValueClaim) and isinstance(claim.value, SqlNumber):
        return [Reading(1, None, None)]
    views = claim.views or study.views[:1]
    pairs = [(view, None) for view in views] + [(views[0], baseline) for baseline in claim.baselines]
    return [Reading(place, view, baseline) for place, (view, baseline) in enumerate(pairs, 1)]


def judge(store: Store, study: Study) -> list[Verdict]:
    """Test every claim of a study against the numbers in the database.

    The claims themselves (each one's first view, on the models) are the family that is corrected for their number;
    claims that cannot be tested, or compare a number that has no interval, are not counted. Other views and baselines
    show what a verdict hangs on; they are judged one by one.

    Whatever goes wrong with one claim is its verdict ('failed', with the reason), and touches no other.

    Args:
        store: the database.
        study: the study.
    """
    numbers = Numbers(store, study)
    found = [
        (number, name, claim, reading, _find(numbers, claim, reading))
        for number, (name, claim) in enumerate(study.claims.items(), 1)
        for reading in readings(claim, study)
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
    return [
        _verdict(number, name, claim, reading, finding, adjusted.get(name) if reading.place == 1 else None, len(family))
        for number, name, claim, reading, finding in found
    ]


def _find(numbers: Numbers, claim: Claim, reading: Reading) -> Finding | str:
    """Return what the test finds, or why there is no test."""
    view = reading.view or numbers.study.views[0]
    try:
        if isinstance(claim, ValueClaim):
            return value_finding(numbers, claim, reading.view, reading.baseline)
        if isinstance(claim, ShapeClaim):
            return shape_finding(numbers, claim.shape, view, reading.baseline)
        if isinstance(claim, DifferClaim):
            return differ_finding(numbers, claim.differ, view, reading.baseline)
        return relation_finding(numbers, claim.relation, view, reading.baseline)
    except (Missing, ReporterError) as error:
        return str(error)
    except Exception as error:  # a claim that breaks is no reason to lose the others, nor the run
        return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _verdict(
    number: int,
    name: str,
    claim: Claim,
    reading: Reading,
    finding: Finding | str,
    adjusted: float | None,
    tested: int,
) -> Verdict:
    said: dict[str, Any] = {
        "claim": name,
        "number": number,
        "reading": reading.place,
        "says": claim.says,
        "source": claim.source,
        "kind": _KINDS[type(claim)],
        "view": reading.view,
        "baseline": reading.baseline,
        "paper": claim.paper,
    }
    if isinstance(finding, str):
        return Verdict(**said, verdict="failed", detail={"reason": finding})
    p = finding.p
    final = p if adjusted is None else adjusted
    word, alone = finding.word(final), finding.word(p)
    detail = {key: value for key, value in finding.detail.items() if value not in (None, [], "")}
    if word != alone:
        detail["alone"] = alone
    if adjusted is not None:
        detail["tested"] = tested
    detail["reason"] = _reason(finding, word, alone, final, tested)
    return Verdict(
        **said,
        verdict=word,
        value=finding.value,
        ci_low=finding.low,
        ci_high=finding.high,
        p=p,
        p_adjusted=final,
        detail=detail,
    )


def _reason(finding: Finding, word: str, alone: str, p: float | None, tested: int) -> str:
    if p is None:
        notes = finding.detail.get("notes") or ["nothing tells how sure the number is"]
        return str(notes[-1])
    if word != alone:
        return f"alone it would be {alone}, but {tested} claims were tested together ({_p(p)} after the correction)"
    if word == "supported":
        return f"what it claims is shown ({_p(p)})"
    if word == "refuted":
        return f"the opposite is shown ({_p(p)})"
    return f"neither it nor its opposite is shown ({_p(p)}; it takes {ALPHA:g})"


def rows_of(verdicts: Sequence[Verdict]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table ``claims``."""
    for verdict in verdicts:
        yield asdict(verdict)


def _p(p: float) -> str:
    return f"p = {p:.2g}" if p >= 1e-12 else "p < 1e-12"  # an exact 0 is what rounding leaves
