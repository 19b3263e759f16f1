"""Judges the claims of a study: tests each, corrects for their number, and says so in rows of the database.

Each claim is two one-sided tests: that it holds, and that it fails. Holm's step-down procedure over the 2m tests of m
claims bounds the probability of even one wrong 'supported' or 'refuted' in the study by 5 %, however the claims depend
on each other. A single claim is decided by whether its 95 % interval excludes the bound.

Source: Holm 1979, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from reporter.core.errors import ReporterError, describe, failures
from reporter.core.numbers import estimates, in_one_precision, p_value, signed
from reporter.core.places import WITHOUT_SINKS
from reporter.geometry.intervals import VERDICT_TEXTS
from reporter.geometry.statistics import holm
from reporter.judge.claims import kind_of, power
from reporter.judge.estimates import ROUNDING, clipped
from reporter.judge.numbers import Incomparable, Missing, Numbers
from reporter.judge.outcomes import Outcome, Shown, ShownProfile
from reporter.metrics.base import Statistic
from reporter.store import Store
from reporter.store.schema import ModelVerdict, Verdict, Word
from reporter.study import Study
from reporter.study.claims import Claim
from reporter.study.references import queries_of, statistics_of

# What another view changes of a claim: the number, the profile behind it, and the verdict.


MOVED = 0.1
"""A peak that moves by more than this share of the depth, or a point that changes by more than half of the range, makes
another profile."""


def change(finding: Outcome, other: Outcome, view: str) -> dict[str, Any]:
    """Say what a view changes against the claim's own.

    Args:
        finding: the finding under the claim's own view.
        other: the finding under the other view.
        view: the other view.

    Returns:
        ``view``, ``says`` (a sentence) and ``turned`` (whether the verdict, the sign of the number or the profile is
        another one).
    """
    sentences = []
    word, other_word = finding.word(finding.p), other.word(other.p)  # without the correction, which others do not have
    turned = word != other_word
    here, after = finding.shown(word), other.shown(other_word)
    if here.value is not None and after.value is not None and here.statistic == after.statistic:
        sentences.append(" becomes ".join(estimates([(one.value, one.low, one.high) for one in (here, after)])))
        turned |= here.value * after.value < 0
    pairs = {place: (profile, other.seen[place]) for place, profile in finding.seen.items() if place in other.seen}
    if pairs:
        (model, corpus), most = max(pairs.items(), key=lambda item: abs(_largest(*item[1])[0]))
        suffix = f" of {model} on '{corpus}'" if len(pairs) > 1 else ""
        sentence, moved = _profile(*most)
        sentences.append(f"the profile{suffix} {sentence}")
        turned |= moved
    sentences.append(
        f"the verdict is {other_word} instead of {word}" if word != other_word else f"the verdict stays {word}"
    )
    return {"view": view, "says": f"{view}: {'; '.join(sentences)}", "turned": bool(turned)}


def _largest(profile: ShownProfile, other: ShownProfile) -> tuple[float, str]:
    values = dict(zip(other.labels, other.values, strict=True))
    mine = zip(profile.labels, profile.values, strict=True)
    changes = [(values[label] - value, label) for label, value in mine if label in values]
    return max(changes, key=lambda change: abs(change[0]), default=(0.0, ""))


def _profile(main: ShownProfile, other: ShownProfile) -> tuple[str, bool]:
    by, place = _largest(main, other)
    size = max(map(abs, (*main.values, *other.values)), default=0.0)
    if abs(by) <= ROUNDING * size:
        return "is unchanged", False
    sentences = [f"changes most at {main.what} {place}, by {signed(by)}"]
    peaks = [max(range(len(profile.values)), key=profile.values.__getitem__) for profile in (main, other)]
    (was, before), (now, after) = ((s.labels[i], s.values[i]) for s, i in zip((main, other), peaks, strict=True))
    old, new = in_one_precision([before, after], 3)
    to = f"{main.what} {now} ({new})"
    stays = f"its peak stays at {to}, before {old}"
    sentences.append(stays if was == now else f"its peak moves from {main.what} {was} ({old}) to {to}")
    spread = max(main.values) - min(main.values)
    moved = abs(peaks[0] - peaks[1]) > MOVED * (len(main.values) - 1) and abs(by) > MOVED * spread
    return ", ".join(sentences), moved or abs(by) > spread / 2


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


CORRECTION = "Holm, two one-sided tests of each claim, 5 %"
"""The rule of :func:`judge` in words, as registrations have it: change both together."""
NOT_REGISTERED = "not registered"


def registration_lines(by_claim: Mapping[str, str]) -> list[str]:
    """Return a line for each claim; one for all if they are equal, none if no claim was registered."""
    different = set(by_claim.values())
    if len(different) > 1:
        return [f"claim {name}: {sentence}" for name, sentence in by_claim.items()]
    return [f"claims: {sentence}" for sentence in different - {NOT_REGISTERED}]


def readings(claim: Claim, numbers: Numbers) -> list[Reading]:
    """Return how a claim is to be read: its first view on the models, then the other views, then the baselines.

    A claim that compares models of both roles is read without sinks unless it says otherwise: whether a word or an
    added token stands at position 0 is no property of the role, and can decide the number.
    """
    kind, study = kind_of(claim), numbers.study
    if not kind.under_views(claim):
        return [Reading(1, None, None)]
    without = (
        WITHOUT_SINKS in study.views
        and kind.compares_roles(claim, numbers)
        and all(numbers.rows(full_name, WITHOUT_SINKS) for full_name in statistics_of(claim))
    )
    views = claim.views or ((WITHOUT_SINKS,) if without else study.views[:1])
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
    tests = {
        (name, reading): find_claim(numbers, claim, reading)
        for name, claim in study.claims.items()
        for reading in readings_of(claim, numbers)
    }
    first = {name: of for (name, reading), of in tests.items() if reading.place == 1 and isinstance(of, Outcome)}
    adjusted = _adjusted(first)
    by_model = _adjusted({(name, model): each for name, of in first.items() for model, each in of.each.items()})
    verdicts = []
    for number, (name, claim) in enumerate(study.claims.items(), 1):
        columns: dict[str, Any] = {"claim": name, "number": number, "kind": kind_of(claim).name}
        columns |= {"says": claim.says, "source": claim.source, "paper": claim.paper}
        about = _statistics_and_tables(numbers, claim)
        of_name = [reading for claim_name, reading in tests if claim_name == name]
        of_claim = []
        for reading in of_name:
            of_test = columns | {"reading": reading.place, "view": reading.view, "baseline": reading.baseline}
            finding = tests[name, reading]
            if isinstance(finding, str):
                of_claim.append(Verdict(**of_test, verdict="failed", detail={"reason": finding, **about}))
                continue
            p = adjusted.get(name) if reading.place == 1 else None
            verdict = _verdict(of_test, finding, p, len(adjusted), about)
            each = [
                _of_model(of_test, model, main_finding, by_model.get((name, model)) if reading.place == 1 else None)
                for model, main_finding in finding.each.items()
            ]
            of_claim.append(replace(verdict, by_model=tuple(each)))
        verdicts += of_claim
        base, others = tests[name, of_name[0]], [reading for reading in of_name[1:] if reading.baseline is None]
        changes = [
            change(base, other, str(reading.view))
            for reading in others
            if isinstance(other := tests[name, reading], Outcome) and isinstance(base, Outcome)
        ]
        if changes:
            of_claim[0].detail["views"] = changes
    return verdicts


Key = TypeVar("Key")


def _adjusted(family: Mapping[Key, Outcome]) -> dict[Key, float]:
    """Return the p-values of the findings that were tested, corrected for their number."""
    tested = {key: (finding.holds or 0.0, finding.fails or 0.0) for key, finding in family.items() if finding.tested}
    return dict(zip(tested, corrected(list(tested.values())), strict=True))


def _of_model(columns: Mapping[str, Any], model: str, finding: Outcome, adjusted: float | None) -> ModelVerdict:
    alone = finding.word(finding.p)
    word = alone if adjusted is None else finding.word(adjusted)
    shown = finding.shown(word)
    return ModelVerdict.of(
        columns,
        model=model,
        verdict=word,
        alone=alone,
        statistic=shown.statistic or None,
        value=shown.value,
        ci_low=shown.low,
        ci_high=shown.high,
        claimed=shown.wanted.text or None,
        p=finding.p,
        p_adjusted=adjusted,
    )


def readings_of(claim: Claim, numbers: Numbers) -> list[Reading]:
    """Return the readings of a claim; without results, only its first token set."""
    try:
        return readings(claim, numbers)
    except failures():  # such as no results yet: the test fails with that reason, under the view that the study says
        return [Reading(1, (claim.views or numbers.study.views)[0], None)]


def find_claim(numbers: Numbers, claim: Claim, reading: Reading) -> Outcome | str:
    """Return what the test finds, or why there is no test."""
    view = reading.view or numbers.study.views[0]
    try:
        finding = kind_of(claim).test(numbers, claim, view, reading.baseline)
    except Incomparable as error:  # the data do not decide, which does not make the claim a failed one
        return Outcome(None, None, None, why=str(error))
    except (Missing, ReporterError) as error:
        return str(error)
    except failures() as error:  # a claim that breaks is no reason to lose the others, nor the run
        return describe(error)
    if few := _few_texts(numbers, claim, finding):
        finding = finding.undecided(few)
    if not claim.views and kind_of(claim).compares_roles(claim, numbers):
        note = (
            "encoders and decoders are compared without sinks, because the claim names no token set (`views`)"
            if view == WITHOUT_SINKS
            else f"warning: this compares encoders with decoders on {view}, so it depends on the token at "
            f"position 0; add '{WITHOUT_SINKS}' to `views`"
        )
        finding = finding.with_detail(notes=[note])
    return finding


def _few_texts(numbers: Numbers, claim: Claim, finding: Outcome) -> str:
    """Say where a corpus has too few texts for a verdict; nothing where none has, or they are no sample of others."""
    if numbers.study.texts == "fixed" or not kind_of(claim).samples:
        return ""
    measured = [name for name in statistics_of(claim) if name.partition(".")[0] not in numbers.study.sections]
    corpora = finding.detail.corpora if measured else ()
    if queries_of(claim) and finding.tested:
        corpora = [*corpora, *numbers.facts.texts]
    texts = {corpus: numbers.facts.texts.get(corpus, VERDICT_TEXTS) for corpus in corpora}
    few = ", ".join(f"{count} in {corpus}" for corpus, count in texts.items() if count < VERDICT_TEXTS)
    return few and (
        f"too few texts: {few}; a verdict needs {VERDICT_TEXTS}, or `texts: fixed` if they are the whole population"
    )


def _statistics_and_tables(numbers: Numbers, claim: Claim) -> dict[str, list[str]]:
    names, tables = list(statistics_of(claim)), list[str]()
    for query in queries_of(claim):
        named, read = numbers.facts.asked(query)
        names += named
        tables += read
    return {"metrics": list(dict.fromkeys(names))} | ({"tables": list(dict.fromkeys(tables))} if tables else {})


def _verdict(
    columns: Mapping[str, Any],
    finding: Outcome,
    adjusted: float | None,
    tested: int,
    about: Mapping[str, Sequence[str]],
) -> Verdict:
    p = finding.p
    final = p if adjusted is None else adjusted
    word, alone = finding.word(final), finding.word(p)
    shown = finding.shown(word)
    claimed = shown.wanted
    needed = (power(finding, 1 if adjusted is None else tested), finding.instead) if word == "inconclusive" else ()
    detail = {key: value for key, value in vars(finding.detail).items() if value not in (None, [], (), "")}
    more = {
        "alone": alone if word != alone else None,
        "tested": None if adjusted is None else tested,
        "statistic": shown.statistic,
        "bound": claimed.text,
        **about,
        "reason": _reason(finding, word, alone, final, tested),
        "power": "; ".join(filter(None, needed)),
    }
    detail |= {key: value for key, value in more.items() if value not in (None, "") or key == "reason"}
    return Verdict(
        **columns,
        verdict=word,
        value=shown.value,
        ci_low=shown.low,
        ci_high=shown.high,
        holds_low=claimed.low,
        holds_high=claimed.high,
        holds_outside=claimed.outside if claimed.known else None,
        p=shown.p,
        p_adjusted=final,
        detail=detail,
    )


def _reason(finding: Outcome, word: Word, alone: Word, p: float | None, tested: int) -> str:
    if p is None:
        return f"not tested: {finding.why}" if word == "inconclusive" else finding.why
    if word != alone:
        return f"{alone} on its own, but not after the correction for {tested} claims ({_p_text(p)})"
    shown = finding.shown(word)
    where = f" ({shown.wanted.text})" if shown.wanted.text else ""
    if word == "supported":
        if finding.supported is not None and finding.part is not None:
            weakest = f"{finding.part.name} {finding.part.wanted.text}"
            return (
                f"the 95 % interval lies entirely in the claimed range{where}; the least certain condition of the "
                f"claim is: {weakest} ({_p_text(p)})"
            )
        return f"the 95 % interval lies entirely in the claimed range{where}; {_p_text(p)}"
    if word == "refuted":
        return f"the 95 % interval lies entirely outside the claimed range{where}; {_p_text(p)}"
    if (side := _side_of_threshold(shown)) is not None:
        return (
            f"the 95 % interval of this number alone lies {side} the claimed range{where}, but the claim as a whole is "
            f"neither supported nor refuted: {_p_text(p)}, corrected for all its comparisons"
        )
    return (
        f"the data do not decide: the 95 % interval lies partly inside and partly outside the claimed range{where}; "
        f"{_p_text(p)}"
    )


def _side_of_threshold(shown: Shown) -> str | None:
    claimed = shown.wanted
    if shown.low is None or shown.high is None or not claimed.known:
        return None
    low, high = clipped((-math.inf, math.inf), (claimed.low, claimed.high))
    assert low is not None and high is not None
    inside, beyond = low < shown.low and shown.high < high, shown.high < low or shown.low > high
    if claimed.outside:
        inside, beyond = beyond, inside
    return "inside" if inside else "outside" if beyond else None


def _p_text(p: float) -> str:
    text = p_value(p, 2)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def corrected(claims: Sequence[tuple[float, float]]) -> list[float]:
    """Return the adjusted p-value of each claim's better side.

    Args:
        claims: for each claim the one-sided p-values that it holds and that it fails.
    """
    adjusted = holm([p for pair in claims for p in pair])
    return [min(adjusted[2 * i], adjusted[2 * i + 1]) for i in range(len(claims))]
