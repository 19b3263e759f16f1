"""What the test of a claim finds, before the correction for the number of claims turns it into a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reporter.judge.estimates import Array, Bounds, Estimates, clipped
from reporter.store.schema import Word

LEVEL = 0.025  # one-sided: a 95 % interval that excludes the bound
FIXED = "the texts are fixed (`texts: fixed`), so numbers are compared as they are, up to rounding"
THESE_MODELS = "it is about these models, not about others like them"


@dataclass(frozen=True)
class Range:
    """The range in which a claim expects a number.

    Args:
        text: in words and rounded, such as ``> 0.01``; empty where there is nothing to say.
        low: the lower end; None where it is open or not known.
        high: the upper end.
        outside: whether the number is to lie outside of both ends.
    """

    text: str = ""
    low: float | None = None
    high: float | None = None
    outside: bool = False

    @classmethod
    def of(cls, claimed: str, by: float, digits: str = ".3g") -> Range:
        """Return where a claim of :func:`inequalities` wants its number."""
        if claimed in ("above", "below"):
            return cls(_end(">", by, digits), low=by) if claimed == "above" else cls(_end("<", -by, digits), high=-by)
        return cls(f"{'within' if claimed == 'same' else 'beyond'} ± {by:{digits}}", -by, by, claimed == "different")

    @property
    def known(self) -> bool:
        """Whether it has an end."""
        return self.low is not None or self.high is not None


def _end(sign: str, end: float, digits: str = ".3g") -> str:
    return f"{sign} {end:{digits}}".replace("-", "−")


@dataclass(frozen=True)
class Inequality:
    """A number and what it must exceed (or, with ``less``, stay below) for the claim to hold.

    Args:
        name: what the number is.
        estimates: the number, P = 1.
        bound: what it is compared with.
        less: whether the claim wants it to be less.
        fails: whether it is tested that the claim is false, so that the number lies on the other side of the bound.
        scale: among how many such tests it was chosen; p and interval are corrected for them (Bonferroni).
        shown: from the scale that it is tested on to the one that people read.
    """

    name: str
    estimates: Estimates
    bound: float | Array = 0.0
    less: bool = False
    fails: bool = False
    scale: float = 1.0
    shown: Callable[[float], float] = float

    @property
    def p(self) -> Array:
        """The one-sided p-value, corrected for ``scale``, shape (...)."""
        side = self.estimates.below if self.less != self.fails else self.estimates.above
        return np.minimum(1.0, self.scale * side(self.bound)[..., 0])

    @property
    def value(self) -> float:
        """The number, of a single repetition."""
        return self.shown(float(np.ravel(self.estimates.value)[0]))

    def interval(self, bounds: Bounds = (None, None)) -> Bounds:
        """Return the 95 % interval, of a single repetition, without what the number cannot be.

        It excludes the bound where p is at most 0.025. Its ends are None where the error is not known.
        """
        low, high = self.estimates.ends(level=1 - 2 * LEVEL / self.scale)
        return (None, None) if low is None or high is None else clipped((self.shown(low), self.shown(high)), bounds)

    @property
    def wanted(self) -> Range:
        """The range in which the claim expects the number."""
        end = self.shown(float(np.ravel(self.bound)[0]))
        return Range(_end("<", end), high=end) if self.less else Range(_end(">", end), low=end)


def deciding(holds: Sequence[Inequality], fails: Sequence[Inequality]) -> Inequality:
    """Return the inequality that the verdict rests on: the one whose p-value is that of the rule.

    A claim needs all of ``holds``, so the weakest speaks for it; one of ``fails`` is enough against it.
    """
    weakest, clearest = max(holds, key=lambda part: float(part.p)), min(fails, key=lambda part: float(part.p))
    return clearest if float(clearest.p) < float(weakest.p) else weakest


def inequalities(
    estimates: Estimates, claimed: str, by: float, name: str, shown: Callable[[float], float] = float
) -> tuple[tuple[Inequality, ...], tuple[Inequality, ...]]:
    """Return the inequalities that a claim about a number needs, and those of which any breaks it.

    Args:
        estimates: the number, P = 1.
        claimed: ``above`` or ``below`` by more than ``by``; ``same`` (within ± ``by``) or ``different`` (beyond it).
        by: the minimum difference.
        name: of the number.
        shown: see :class:`Inequality`.
    """

    def test(bound: float, less: bool, fails: bool = False) -> Inequality:
        return Inequality(name, estimates, bound, less, fails, shown=shown)

    if claimed in ("above", "below"):
        bound, less = (by, False) if claimed == "above" else (-by, True)
        return (test(bound, less),), (test(bound, less, True),)
    if claimed == "same":
        return (test(by, True), test(-by, False)), (test(by, True, True), test(-by, False, True))
    # "different" is two-sided: it needs one of two inequalities, and is broken only if both are
    bound, less = (by, False) if float(estimates.value[0]) >= 0 else (-by, True)
    closer = max((test(by, True), test(-by, False)), key=lambda inequality: float(inequality.p))
    return (test(bound, less),), (test(float(closer.bound), not closer.less, True),)


@dataclass(frozen=True)
class ShownProfile:
    """A profile as a reader sees it: what its points are called, and its numbers."""

    what: str
    labels: tuple[str, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Shown:
    """A number as a reader sees it.

    Args:
        statistic: what it is.
        wanted: where the claim wants it.
        value: the number.
        low: lower end of its 95 % interval; None where it is not known.
        high: upper end.
        p: its own p-value, two-sided; None where there is none.
    """

    statistic: str
    wanted: Range
    value: float | None
    low: float | None
    high: float | None
    p: float | None


@dataclass(frozen=True)
class Detail:
    """What a verdict tells besides its number: the keys of :class:`~reporter.store.schema.Verdict`'s ``detail``."""

    statistic: str = ""
    definition: str = ""
    models: Sequence[str] = ()
    corpora: Sequence[str] = ()
    evidence: Sequence[Mapping[str, Any]] = ()
    parts: Sequence[Mapping[str, Any]] = ()
    bounds: Sequence[Mapping[str, Any]] = ()
    effect: Mapping[str, Any] | None = None
    difference: Mapping[str, Any] | None = None
    n: int | None = None
    notes: Sequence[str] = ()
    sql: str = ""


@dataclass(frozen=True)
class Outcome:
    """One test of one claim.

    Args:
        holds: one-sided p-value that the claim is true; None where nothing could be tested.
        fails: that it is false.
        value: the number that decides.
        low: lower end of its 95 % interval.
        high: upper end.
        wanted: where the claim wants it.
        plain: the verdict where there are no p-values.
        why: why there are none.
        part: the inequality that decides, with its error; None where a number was compared as it stands.
        supported: what to show instead where the verdict is supported, if that is not the least sure part.
        models: over how many independent models an error was taken; 0 where it is one over texts.
        instead: what could be claimed instead, should this be inconclusive.
        seen: the profiles that were looked at, by model and corpus.
        each: what is found of each model by itself, of a claim over several.
        bounds: what its number cannot exceed.
        detail: what else it tells.
    """

    holds: float | None
    fails: float | None
    value: float | None
    low: float | None = None
    high: float | None = None
    wanted: Range = field(default_factory=Range)
    plain: Word = "inconclusive"
    why: str = ""
    part: Inequality | None = None
    supported: Shown | None = None
    models: int = 0
    instead: str = ""
    seen: Mapping[tuple[str, str], ShownProfile] = field(default_factory=dict)
    each: Mapping[str, Outcome] = field(default_factory=dict)
    bounds: Bounds = (None, None)
    detail: Detail = field(default_factory=Detail)

    @classmethod
    def of(
        cls, needs: Sequence[Inequality], breaks: Sequence[Inequality], tested: bool, bounds: Bounds, **more: Any
    ) -> Outcome:
        """Return what a rule finds: all of ``needs`` must hold for the claim, one of ``breaks`` is enough against it.

        Args:
            needs: the inequalities that the claim needs.
            breaks: those that break it.
            tested: whether anything tells how sure they are.
            bounds: what their numbers cannot exceed.
            more: further fields, or others than those of the inequality that decides.
        """
        part = deciding(needs, breaks) if tested else needs[0]
        low, high = part.interval(bounds)
        fields = {"value": part.value, "low": low, "high": high, "wanted": part.wanted, "part": part, "bounds": bounds}
        holds, fails = max(float(need.p) for need in needs), min(float(need.p) for need in breaks)
        return cls(**{"holds": holds if tested else None, "fails": fails if tested else None, **fields, **more})

    @property
    def tested(self) -> bool:
        """Whether there are p-values."""
        return self.holds is not None and self.fails is not None

    @property
    def p(self) -> float | None:
        """Twice the smaller of both p-values; None without any."""
        if self.holds is None or self.fails is None:
            return None
        return min(1.0, 2 * min(self.holds, self.fails))

    def word(self, p: float | None) -> Word:
        """Return the verdict at a two-sided p-value, corrected or not."""
        if p is None or self.holds is None or self.fails is None:
            return self.plain
        if p > 2 * LEVEL:
            return "inconclusive"
        return "supported" if self.holds <= self.fails else "refuted"

    def shown(self, word: Word) -> Shown:
        """Return the number to show beside a verdict."""
        if word == "supported" and self.supported is not None:
            return self.supported
        return Shown(self.detail.statistic, self.wanted, self.value, self.low, self.high, self.p)

    def as_exact(self) -> Outcome:
        """Return the same for texts that are fixed, and models that speak of themselves: nothing is a sample.

        What is left of the error is rounding, so that the verdict has no p, and the number no interval.
        """
        word = self.word(self.p)
        shown = self.shown(word)
        why = FIXED if word != "inconclusive" else f"{FIXED}; they do not decide"
        unsure = {"ci_low": None, "ci_high": None, "p_holds": None, "p_fails": None}
        parts = [{**part, **unsure} for part in self.detail.parts]
        plain = replace(self, holds=None, fails=None, value=shown.value, low=None, high=None, wanted=shown.wanted)
        plain = replace(plain, plain=word, why=why, part=None, supported=None)
        return plain.with_detail(statistic=shown.statistic, notes=[FIXED], parts=parts)

    def undecided(self, why: str) -> Outcome:
        """Return the same without a verdict: its numbers are shown, and nothing is tested."""
        each = {model: finding.undecided(why) for model, finding in self.each.items()}
        plain = replace(self, holds=None, fails=None, plain="inconclusive", why=why, supported=None, each=each)
        word = {"verdict": "inconclusive"}
        return plain.with_detail(
            evidence=[{**row, **word} if word.keys() & row else row for row in self.detail.evidence]
        )

    def evidence(self, model: str, corpus: str, **more: Any) -> dict[str, Any]:
        """Return a row of a claim's evidence: the number that decides for a model, and its verdict."""
        word = self.word(self.p)
        shown = self.shown(word)
        row = {"model": model, "corpus": corpus, "statistic": shown.statistic, "claimed": shown.wanted.text}
        return row | {"value": shown.value, "ci_low": shown.low, "ci_high": shown.high, **more, "verdict": word}

    def with_detail(self, **more: Any) -> Outcome:
        """Return the same with more to tell; notes are added to those that are there."""
        notes = tuple(dict.fromkeys([*self.detail.notes, *more.pop("notes", ())]))
        return replace(self, detail=replace(self.detail, notes=notes, **more))


def every(findings: Sequence[Outcome]) -> Outcome:
    """Join findings that must all hold, such as those on several corpora; the one that decides speaks for all.

    The claim holds with the largest p-value (no correction is needed), and fails with the smallest times their number.
    Of those without a p-value one that is refuted decides, else one that is not decided; where all of these hold as
    they stand, the others decide.
    """
    plain = [finding for finding in findings if not finding.tested]
    for word in ("refuted", "inconclusive"):
        if decides := next((finding for finding in plain if finding.plain == word), None):
            return decides
    findings = [finding for finding in findings if finding.tested] or plain[:1]
    if len(findings) == 1:
        return findings[0]
    holds = max(finding.holds or 0.0 for finding in findings)
    fails = min(1.0, len(findings) * min(1.0 if f.fails is None else f.fails for f in findings))
    if fails < holds:
        decides = min(findings, key=lambda f: 1.0 if f.fails is None else f.fails)
        if decides.part is not None and decides.part.fails:  # chosen among so many, its interval is wider
            part = replace(decides.part, scale=decides.part.scale * len(findings))
            low, high = part.interval(decides.bounds)
            decides = replace(decides, part=part)
            if decides.value == part.value:
                decides = replace(decides, low=low, high=high)
    else:
        decides = max(findings, key=lambda f: f.holds or 0.0)
    return replace(decides, holds=holds, fails=fails)


def joined_by_model(findings_by_model: Mapping[str, Sequence[Outcome]]) -> dict[str, Outcome]:
    """Return what is found of each model by itself, on all corpora together; nothing where there is but one model."""
    return (
        {model: every(findings) for model, findings in findings_by_model.items()} if len(findings_by_model) > 1 else {}
    )
