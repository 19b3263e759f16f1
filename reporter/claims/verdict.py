"""What becomes of a claim: one verdict for each view and baseline under which it is tested."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Word = Literal["supported", "refuted", "inconclusive", "failed"]


@dataclass(frozen=True)
class Verdict:
    """One row of the table ``claims``.

    ``detail`` is stored as a JSON object with these keys; a key that has nothing to say is left out:

    ``statistic``
        what ``value`` is, in a few words: ``"middle third minus last third"``.
    ``definition``
        the rule in words, with its numbers filled in: when the claim is supported and when it is refuted.
    ``reason``
        why the verdict is what it is, one sentence; for ``failed``, which numbers are missing.
    ``power``
        of an inconclusive claim: the smallest effect that would have been shown with 80 % power, and about how many
        times as many texts, or how many models, would decide.
    ``views``
        what each other view changes: a list of objects with ``view``, ``says`` (a sentence with the number, the
        profile's peak and its largest change, and the verdict) and ``turned`` (whether any of these is another one).
    ``bound``
        what ``value`` is compared with, as text: ``"0.0826 ± 0.01"``, ``"> 0"``.
    ``alone``
        the verdict that the claim would have without the correction for the number of claims; only where it differs.
    ``tested``
        how many claims of the study were tested (the size of the correction); not for readings after the first.
    ``evidence``
        a list with one object for each model on each corpus: ``model`` (or ``"mean of 6 models"``), ``corpus``,
        ``value``, ``ci_low``, ``ci_high`` (the number that decides for it alone), ``statistic`` and ``claimed`` (which
        number that is, and where the claim wants it) where it is not the same for all, and ``verdict``, what it would
        be by itself; numbers may be null.
    ``parts``
        a list with one object for each inequality that the rule joins: ``name``, ``value``, ``ci_low``, ``ci_high``,
        ``claimed``, and ``p_holds`` of one that the claim needs, ``p_fails`` of one that breaks it (one-sided). The
        claim's own number, interval and p are those of the one that decides; where a bell or a rise and fall is
        supported, of the least sure one that says how high it is, and ``p_adjusted`` is that of the whole claim.
    ``effect``
        for ``differ``: an object with ``a`` and ``b`` (names), ``mean_a``, ``mean_b``, ``n_a``, ``n_b`` and ``g``, the
        standardised difference (Hedges' g over models; null for fewer than two on a side).
    ``n``
        how many points, models or types a ``relation`` rests on.
    ``notes``
        a list of sentences that a reader must know: how uncertainty was had, what was left out, which row was taken.
    ``sql``
        a query that shows the numbers behind the verdict, in ``reporter sql``.

    Args:
        claim: name of the claim.
        number: its place in the study, from 1.
        reading: 1 for the claim itself.
        says: the claim in words.
        source: who says it.
        kind: ``value``, ``shape``, ``differ`` or ``relation``.
        view: the view; None for SQL.
        baseline: None for the models themselves.
        verdict: the verdict.
        value: the number it rests on.
        ci_low: lower end of its 95 % interval.
        ci_high: upper end.
        paper: the work's own number.
        p: of the number, two-sided, not corrected.
        p_adjusted: of the claim, corrected.
        detail: see above.
    """

    claim: str
    number: int
    reading: int
    says: str
    source: str | None
    kind: str
    view: str | None
    baseline: str | None
    verdict: Word
    value: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    paper: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    detail: dict[str, Any] = field(default_factory=dict)
