"""Asks every question, corrects for all of them, and keeps a handful.

Every kind of finding puts the same questions to every headline statistic, trained model and corpus. Their number m is
known before any is answered, and each is answered at the level 0.05/m (Bonferroni). So the probability that even one
sentence says what is not so is at most 5 %, and since sets of layers are made at that level, too, they hold all at
once. Which of the answers are shown (those with the largest effects) makes no difference to that.

Intervals that are shown are 95 % each and not corrected, like those of claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from reporter.claims.numbers import Numbers
from reporter.findings.kinds import KINDS
from reporter.findings.subjects import MATERIAL, Subjects
from reporter.metrics.registry import catalogue
from reporter.places import listed
from reporter.store.schema import Found

if TYPE_CHECKING:
    from reporter.findings.question import Answer, Curve
    from reporter.spec import Study
    from reporter.store import Store

LEVEL = 0.05
MOST = 7
"""How many sentences are shown."""
SAME = 3
"""How many of them may be of one kind: a handful of one kind says less than a few of several."""


@dataclass(frozen=True)
class Findings:
    """What was found.

    Args:
        rows: of the table ``findings``, by rank.
        looked_at: how many questions were asked.
    """

    rows: tuple[dict[str, Any], ...]
    looked_at: int


def find(store: Store, study: Study) -> Findings:
    """Return the findings of a study, from the numbers that the database holds.

    Args:
        store: the database.
        study: the study.
    """
    known = {f"{m.name}.{s.name}": (m, s) for m in catalogue().values() for s in m.statistics if s.headline}
    headlines = {name: statistic for name, (_, statistic) in known.items()}
    against_base = frozenset(name for name, (metric, _) in known.items() if metric.compares_only)
    return look(Subjects(Numbers(store, study, headlines), headlines, against_base))


def look(subjects: Subjects) -> Findings:
    """Ask everything of some subjects and return what is worth a sentence."""
    questions = [question for ask in KINDS.values() for question in ask(subjects)]
    answers: dict[str, list[Answer]] = {kind: [] for kind in KINDS}
    for question in questions:
        found = question.answer(LEVEL / len(questions))
        if found is not None and found.p * len(questions) <= LEVEL and found.effect >= MATERIAL:
            answers[question.kind].append(found)
    shown = _handful({kind: _best(subjects, found) for kind, found in answers.items()})
    rows = (_row(subjects, rank, kind, answer, len(questions)) for rank, (kind, answer) in enumerate(shown, 1))
    return Findings(tuple(rows), len(questions))


def _best(subjects: Subjects, answers: Iterable[Answer]) -> list[Answer]:
    """Return one answer for each fact, that of the largest effect, which names the others; the largest first."""
    found: dict[str, list[Answer]] = {}
    for answer in sorted(answers, key=lambda answer: -answer.effect):
        found.setdefault(answer.fact or f"{answer.full_name} {answer.view}", []).append(answer)
    return [replace(first, says=first.says + _also(subjects, first, rest)) for first, *rest in found.values()]


def _also(subjects: Subjects, first: Answer, rest: Sequence[Answer]) -> str:
    """Name where else a fact is seen: in other statistics, other models, or on other corpora."""
    if not first.fact:
        return ""
    titles = [subjects.statistics[one.full_name].title for one in rest if one.full_name != first.full_name]
    same = [one for one in rest if one.full_name == first.full_name]
    models = [one.model for one in same if one.model not in (first.model, None)]
    corpora = [one.corpus for one in same if one.model == first.model and one.corpus not in (first.corpus, None)]
    named = [
        f"{word} {listed([name for name in dict.fromkeys(names) if name])}"
        for word, names in (("in the", titles), ("in", models), ("on", corpora))
        if names
    ]
    return f" Also seen {', '.join(named)}." if named else ""


def _handful(answers: dict[str, list[Answer]]) -> list[tuple[str, Answer]]:
    """Return the first answers of each kind in turn, weak ones last, up to ``MOST``; then all of one kind together."""
    most = {kind: MOST if kind == "concepts" else SAME for kind in answers}  # each concept is a question of its own
    turns = chain.from_iterable(
        zip_longest(*([(kind, one) for one in of[: most[kind]]] for kind, of in answers.items()))
    )
    chosen = sorted((turn for turn in turns if turn is not None), key=lambda turn: turn[1].weak)[:MOST]
    return [(kind, answer) for kind in answers for of, answer in chosen if of == kind]


def _row(subjects: Subjects, rank: int, kind: str, answer: Answer, looked_at: int) -> dict[str, Any]:
    metric, _, name = answer.full_name.partition(".")
    statistic = subjects.statistics.get(answer.full_name)
    first, last = answer.layers or (None, None)
    detail = {
        "what": answer.what,
        "plainly": statistic.plainly if statistic else "",
        "per": statistic.per if statistic else "",
        "test": answer.test,
        "curves": [_curve(curve) for curve in answer.curves],
        "mark": answer.mark,
        "notes": list(dict.fromkeys(answer.notes)),
        "sql": answer.sql or subjects.sql(answer.full_name, *answer.read, answer.corpus),
    }
    return Found(
        rank=rank,
        kind=kind,
        says=answer.says,
        statistic=name,
        model=answer.model,
        corpus=answer.corpus,
        view=answer.view,
        layer_first=first,
        layer_last=last,
        value=answer.value,
        ci_low=answer.interval[0],
        ci_high=answer.interval[1],
        p=answer.p,
        p_adjusted=min(1.0, answer.p * looked_at),
        looked_at=looked_at,
        effect=answer.effect,
        chart=answer.full_name + ".training" * answer.training,
        detail=detail,
    ).record({"metric": metric}, 0)


def _curve(curve: Curve) -> dict[str, Any]:
    def rounded(values: Sequence[float] | Any) -> Iterator[float]:
        return (float(f"{value:.5g}") for value in values)

    shown = {"label": curve.label, "x": list(rounded(curve.x)), "y": list(rounded(curve.y)), "own": curve.own}
    return shown | ({} if curve.number is None else {"number": float(f"{curve.number:.5g}")})
