"""What a test finds before the correction for the number of claims turns it into a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reporter.claims.points import Array, Estimates
from reporter.store.schema import Word

LEVEL = 0.025  # one-sided: a 95 % interval that excludes the bound
FIXED = "the study says that its texts are fixed: compared as it stands, up to rounding"


@dataclass(frozen=True)
class Range:
    """Where a claim wants a number.

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

    @property
    def known(self) -> bool:
        """Whether it has an end."""
        return self.low is not None or self.high is not None


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

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval, of a single repetition; it excludes the bound where p is at most 0.025."""
        low, high = (float(np.ravel(end)[0]) for end in self.estimates.interval(1 - 2 * LEVEL / self.scale))
        return (self.shown(low), self.shown(high)) if np.isfinite([low, high]).all() else None

    @property
    def wanted(self) -> Range:
        """Where the claim wants the number."""
        end = self.shown(float(np.ravel(self.bound)[0]))
        return Range(f"< {end:.3g}", high=end) if self.less else Range(f"> {end:.3g}", low=end)


def deciding(holds: tuple[Inequality, ...], fails: tuple[Inequality, ...]) -> Inequality:
    """Return the inequality that the verdict rests on: the one whose p-value is that of the rule.

    A claim needs all of ``holds``, so the weakest speaks for it; one of ``fails`` is enough against it.
    """
    weakest, clearest = max(holds, key=lambda part: float(part.p)), min(fails, key=lambda part: float(part.p))
    return clearest if float(clearest.p) < float(weakest.p) else weakest


@dataclass(frozen=True)
class Seen:
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
class Finding:
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
        detail: keys of :class:`~reporter.store.schema.Verdict`'s detail.
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
    seen: Mapping[tuple[str, str], Seen] = field(default_factory=dict)
    each: Mapping[str, Finding] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)

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
        return Shown(str(self.detail.get("statistic", "")), self.wanted, self.value, self.low, self.high, self.p)

    def as_it_stands(self) -> Finding:
        """Return the same for texts that are fixed, and models that speak of themselves: nothing is a sample.

        What is left of the error is rounding, so that the verdict has no p, and the number no interval.
        """
        word = self.word(self.p)
        shown = self.shown(word)
        why = FIXED if word != "inconclusive" else f"{FIXED}, which leaves it open"
        unsure = {"ci_low": None, "ci_high": None, "p_holds": None, "p_fails": None}
        parts = [part | unsure for part in self.detail.get("parts", ())]
        plain = replace(self, holds=None, fails=None, value=shown.value, low=None, high=None, wanted=shown.wanted)
        plain = replace(plain, plain=word, why=why, part=None, supported=None)
        return plain.with_detail(statistic=shown.statistic, notes=[FIXED], **({"parts": parts} if parts else {}))

    def with_detail(self, **more: Any) -> Finding:
        """Return the same with more to tell; notes are added to those that are there."""
        notes = [*self.detail.get("notes", ()), *more.pop("notes", ())]
        merged = self.detail | more | ({"notes": list(dict.fromkeys(notes))} if notes else {})
        return replace(self, detail=merged)


def every(findings: Sequence[Finding]) -> Finding:
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
            low, high = part.interval() or (None, None)
            decides = replace(decides, part=part)
            if decides.value == part.value:
                decides = replace(decides, low=low, high=high)
    else:
        decides = max(findings, key=lambda f: f.holds or 0.0)
    return replace(decides, holds=holds, fails=fails)


def joined_by_model(found: Mapping[str, Sequence[Finding]]) -> dict[str, Finding]:
    """Return what is found of each model by itself, on all corpora together; nothing where there is but one model."""
    return {model: every(own) for model, own in found.items()} if len(found) > 1 else {}


def number(value: Any) -> float | None:
    """Return a plain finite number, or None."""
    found = None if value is None else float(value)
    return found if found is not None and math.isfinite(found) else None


def clipped(ends: tuple[float | None, float | None], bounds: tuple[float | None, float | None]) -> Any:
    """Return the ends of an interval without what the number cannot be; None stays None."""
    least, most = (-math.inf if bounds[0] is None else bounds[0]), (math.inf if bounds[1] is None else bounds[1])
    return tuple(None if end is None else min(max(end, least), most) for end in ends)
