"""A question that is asked of a study's numbers, and what may be said to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reporter.claims.points import Array


@dataclass(frozen=True)
class Curve:
    """A line of the small picture beside a finding.

    Args:
        label: what it is.
        x: where its points are, from 0 to 1.
        y: their values.
        own: whether it is what the finding is about; others are what it is compared with.
        number: the number that the sentence gives for it, which the picture shows beside the line.
    """

    label: str
    x: Sequence[float] | Array
    y: Sequence[float] | Array
    own: bool = True
    number: float | None = None


@dataclass(frozen=True)
class Answer:
    """What the numbers say to a question.

    Args:
        says: a sentence.
        full_name: the statistic.
        model: the model that it is about; None for roles.
        corpus: the corpus; None where it is about all.
        view: the view.
        value: the number that it rests on.
        interval: its 95 % interval.
        p: two-sided, or corrected as the question says; the whole question's.
        effect: how large it is, see :func:`~reporter.findings.subjects.Subject.effect`.
        what: what the number is.
        test: how it was tested.
        layers: first and last layer that it is about; None for all.
        training: whether the chart over training shows it.
        curves: for the small picture.
        mark: where on x it is found.
        notes: what a reader must know.
        read: models, views and statistics that it was read from, for SQL.
        weak: whether it is said only where there is not enough else.
        fact: what it is a sign of; of several signs of the same fact one becomes the sentence, and the others are
            named after it. Empty: of a statistic under a view only the largest effect is shown.
        sql: a query that shows the numbers, where ``read`` does not say it.
    """

    says: str
    full_name: str
    model: str | None
    corpus: str | None
    view: str
    value: float
    interval: tuple[float, float]
    p: float
    effect: float
    what: str
    test: str
    layers: tuple[int, int] | None = None
    training: bool = False
    curves: tuple[Curve, ...] = ()
    mark: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    read: tuple[Sequence[str], Sequence[str], Sequence[str]] = ((), (), ())
    weak: bool = False
    fact: str = ""
    sql: str = ""


@dataclass(frozen=True)
class Question:
    """Something that can be tested.

    Args:
        kind: its kind.
        answer: takes the level of a single test, two-sided (0.05 over the number of questions), and returns what can
            be said at that level; None where nothing can.
    """

    kind: str
    answer: Callable[[float], Answer | None]
