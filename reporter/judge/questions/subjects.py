"""Subjects of findings (main statistics, trained models, corpora) and their numbers.

**An untrained model has no findings.** Its states have shapes, too: cosines that grow with depth, a dimension that is
highest at the embedding. They lie beyond any interval over texts and only reflect how weights are drawn. So a model is
a subject only if its weights are not those of an initialisation, which the gains of its norms show
(``models.initialised``). If the study has a random-init baseline, a finding must differ from that baseline as well.

**If a study asks what changed, findings say what changed.** A rounded, pruned or tuned model has its base's peaks,
sinks and cosines, damaged or not. They are no change, so neither the base nor its copy has findings about them. A model
with a trained base is a subject of what compares it with its base; the base has no findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from reporter.core.confined import quoted
from reporter.core.numbers import beside
from reporter.core.places import WITHOUT_SINKS, end, places
from reporter.core.table import LAST_CHECKPOINT
from reporter.geometry.intervals import VERDICT_TEXTS
from reporter.judge.claims import among, least_effect
from reporter.judge.estimates import Array, Bounds, Estimates, bounds_of_difference
from reporter.judge.numbers import PATH, Missing, Numbers
from reporter.judge.points import Points
from reporter.judge.profiles import Profile, Profiles, together
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Statistic, catalogue

NEGLIGIBLE = 0.002
"""A number smaller than this share of the one beside it is written as approximately 0."""
RANDOM, SHUFFLED = "random-init", "shuffled"
UNKNOWN = "add `baselines: [random-init]` to learn how much of this is due to training"
ONE_DRAW = "the baseline is one draw of random weights; the interval is over texts"
ONE_FACT = ("spectrum", "entropy", "outliers")
"""Metrics that show the same fact as those that ask for directions: states that vary along few of them."""
MATERIAL = 0.1
"""The smallest effect of a finding."""
SEARCHED = """
SELECT model, corpus, checkpoint, cells.tokens, cells.texts, sinks,
       bool_or(metric = 'outliers' AND cells.status = 'done') OVER (PARTITION BY model, checkpoint, corpus) AS listed
FROM cells JOIN models USING (study, model, checkpoint) JOIN corpora USING (study, corpus)
WHERE study = $study AND sinks IS NOT NULL AND baseline IS NULL AND is_last
QUALIFY row_number() OVER (PARTITION BY model, corpus) = 1
ORDER BY model, corpus
"""
"""How many tokens are sinks, of each model on each corpus; sinks are searched whenever states are read.

``listed`` tells whether the table ``sinks`` lists them, which the metric ``outliers`` does.
"""
_SINKS = f"""
SELECT model, corpus, position_last, "count", layer_first, layer_last
FROM sinks WHERE study = $study AND {LAST_CHECKPOINT}
"""


def curve(
    label: str, x: Iterable[float], y: Iterable[float], own: bool = True, number: float | None = None
) -> dict[str, Any]:
    """Return a line of the small picture beside a finding.

    Args:
        label: its name.
        x: positions of its points, from 0 to 1.
        y: their values.
        own: whether the finding is about it; other lines are what it is compared with.
        number: the number that the sentence gives for it, which the picture repeats.
    """
    xs, ys = ([float(f"{value:.5g}") for value in values] for values in (x, y))
    repeated = {} if number is None else {"number": float(f"{number:.5g}")}
    return {"label": label, "x": xs, "y": ys, "own": own} | repeated


def topic(full_name: str) -> str:
    """Return what a statistic is about; differences in two statistics of a topic are taken for one fact."""
    metric = full_name.partition(".")[0]
    if metric in ONE_FACT:
        return "directions"
    definition = {**catalogue(), **analyses()}.get(metric)
    return metric if definition is None or definition.question == "other" else definition.question


def share_of_range(statistic: Statistic, difference: float, *values: float) -> float:
    """Return a difference as a share of the statistic's range.

    With an open range it is half the share of the larger number, since nothing tells how far it could go.
    """
    low, high = statistic.bounds
    if low is not None and high is not None:
        return min(1.0, abs(difference) / (high - max(low, 0.0)))
    return min(1.0, abs(difference) / max(map(abs, (*values, difference))) / 2) if difference else 0.0


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A result of a test that is shown as a finding.

    Args:
        says: a sentence.
        full_name: the statistic.
        model: the model; None for roles.
        corpus: the corpus; None for all.
        view: the token set.
        value: the number that the sentence rests on.
        interval: its 95 % interval; its ends are None where there is none to show.
        p: p-value of the whole test, two-sided, with the corrections that the test itself makes.
        effect: its size, see :meth:`Subject.effect`.
        what: what the number is.
        test: how it was tested.
        layers: first and last layer of the finding; None for all.
        curves: lines of the small picture.
        mark: the part of the x axis that is highlighted.
        notes: what a reader must know.
        read: models, token sets and statistics that were read, for SQL.
        weak: whether it is shown only if there are few other findings.
        fact: several observations of one fact become one sentence that names the others. If empty, only the largest
            effect of a statistic on a token set is shown.
        sql: a query that shows the numbers, if ``read`` does not define it.
    """

    says: str
    full_name: str
    model: str | None
    corpus: str | None
    view: str
    value: float
    interval: Bounds
    p: float
    effect: float
    what: str
    test: str
    layers: tuple[int, int] | None = None
    curves: tuple[dict[str, Any], ...] = ()
    mark: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    read: tuple[Sequence[str], Sequence[str], Sequence[str]] = ((), (), ())
    weak: bool = False
    fact: str = ""
    sql: str = ""


Test = Callable[[float], Observation | None]
"""Takes the two-sided level of one test (0.05 over the number of tests); returns None if nothing is significant."""


@dataclass(frozen=True)
class Subject:
    """A main statistic of one trained model on one corpus, among all subjects of the study."""

    study: Subjects
    full_name: str
    statistic: Statistic
    model: str
    corpus: str

    @property
    def texts(self) -> int | None:
        """How many texts its corpus has; None if they are fixed, so that the intervals are not over texts."""
        numbers = self.study.numbers
        return None if numbers.study.texts == "fixed" else numbers.facts.texts.get(self.corpus)

    @property
    def step(self) -> bool:
        """Whether it is a number of steps from one layer to the next, which readers know as blocks."""
        return self.statistic.per == "step"

    @property
    def averaged(self) -> str:
        """The unit of its mean: ``layers`` or ``blocks``."""
        return "blocks" if self.step else "layers"

    def places(self, layers: Sequence[int], whole: bool = True) -> str:
        """Name stored layers, with the number of the model's blocks if ``whole``."""
        return places(layers, self.step, self.study.blocks[self.model] if whole else None)

    def end(self, layer: int) -> str:
        """Name the layer at an end of a profile."""
        return end(layer, self.study.blocks[self.model], self.step)

    @property
    def named(self) -> str:
        """The start of a sentence about it: ``In minilm, the effective rank``."""
        return f"In {self.model}, {self.title}"

    @property
    def title(self) -> str:
        """The statistic, to begin a clause with: ``the effective rank``."""
        title = self.statistic.title
        return f"the {title}{',' * (',' in title)}"

    @property
    def on(self) -> str:
        """The corpus, if the study has several, to end a sentence with."""
        return f" on {self.corpus}" if len(self.study.corpora) > 1 else ""

    @property
    def view(self) -> str:
        """The token set of numbers that are read on one only: without sinks, if the study has that set."""
        return self.study.view(self.full_name)

    def profile(self, view: str, model: str = "", full_name: str = "") -> Profile | None:
        """Return a profile over depth with its errors; None if it has fewer than two points."""
        source = Profiles(self.study.numbers, full_name or self.full_name, view)
        try:
            profile = source.over_depth(model or self.model, self.corpus)
        except Missing:
            return None
        return profile if len(profile.values) > 1 else None

    def tested(
        self, view: str = "", baseline: str = "", like: Profile | None = None, fewest: int = 2
    ) -> Profile | None:
        """Return a profile over depth whose errors are known; None if there is none.

        Args:
            view: the token set; that of the subject by default.
            baseline: the null baseline that is read in place of the model.
            like: the profile that it is compared with, which must have the same layers.
            fewest: the fewest points.
        """
        profile = self.profile(view or self.view, self.baseline(baseline) if baseline else "")
        if profile is None or not profile.known or len(profile.values) < fewest:
            return None
        return profile if like is None or profile.labels == like.labels else None

    def points(self, profile: Profile) -> Points:
        """Return a profile over depth for tests."""
        return together([profile], [[profile.model]], False, self.statistic.per == "step")

    def baseline(self, kind: str) -> str:
        """Return the database's name for a baseline of the model, which may have no numbers."""
        return f"{self.model} ({kind})"

    def least(self, *values: Array) -> float:
        """Return the minimum meaningful difference, as for claims that state none."""
        return least_effect(self.statistic, np.concatenate([np.ravel(array) for array in values]))

    def effect(self, difference: float, *values: float) -> float:
        """Return a difference as a share of the statistic's range."""
        return share_of_range(self.statistic, difference, *values)

    def beside(self, gap: Estimates, a: float, b: float, *more: float) -> list[str]:
        """Write the two numbers that a difference is between, and more that stand with them, in one precision."""
        low, high = gap.ends(bounds_of_difference(self.statistic.bounds))
        return beside((float(gap.value[0]), low, high), a, b, *more)

    def observe(self, gap: Estimates, beside: Sequence[float], *, sign: int = 1, **more: Any) -> Observation:
        """Return an observation about this subject.

        Args:
            gap: the difference that it rests on, P = 1.
            beside: the numbers that the difference is between, for the effect.
            sign: -1 if the difference was taken upside down.
            more: fields of :class:`Observation`; those of the subject if left out.
        """
        gap = gap.times(np.array([sign]))
        fields: dict[str, Any] = {
            "full_name": self.full_name,
            "model": self.model,
            "corpus": self.corpus,
            "view": self.view,
            "value": float(gap.value[0]),
            "interval": gap.ends(bounds_of_difference(self.statistic.bounds)),
            "effect": self.effect(float(gap.value[0]), *beside),
            "read": ((self.model,), (more.get("view", self.view),), (self.statistic.name,)),
        }
        return Observation(**fields | more)


@dataclass(frozen=True)
class Subjects:
    """Everything in a study that findings may be about.

    Args:
        numbers: of the study.
        statistics: the main statistics, by full name.
        against_base: full names of those that measure the distance from the base.
    """

    numbers: Numbers
    statistics: dict[str, Statistic]
    against_base: frozenset[str] = frozenset()

    @cached_property
    def models(self) -> list[str]:
        """The models that were trained, in the order of the study."""
        # The last checkpoint decides: the first one may well be an initialisation.
        untrained = self._records("SELECT model FROM models WHERE study = $study AND is_last AND initialised")
        return [model for model in self.numbers.study.models if model not in {row["model"] for row in untrained}]

    @cached_property
    def corpora(self) -> list[str]:
        """The corpora of the study."""
        return list(self.numbers.study.corpora)

    @cached_property
    def asked(self) -> list[str]:
        """The corpora with as many texts as a verdict needs."""
        texts, fixed = self.numbers.facts.texts, self.numbers.study.texts == "fixed"
        return [corpus for corpus in self.corpora if fixed or texts.get(corpus, 0) >= VERDICT_TEXTS]

    @cached_property
    def sinks(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Tokens, sinks and texts of the last checkpoint, by model and corpus."""
        return {(row["model"], row["corpus"]): row for row in self._records(SEARCHED)}

    def first_tokens(self, subject: Subject, first: int, last: int) -> tuple[int, int]:
        """Count the sinks of some layers that are the first token of their text, and at most the other sinks there.

        The table has equal tokens as one row, from the first layer of any to the last one of any.
        """
        rows = [
            row
            for row in self._records(_SINKS)
            if (row["model"], row["corpus"]) == (subject.model, subject.corpus)
            and row["layer_first"] <= last
            and row["layer_last"] >= first
        ]
        begin = sum(int(row["count"]) for row in rows if row["position_last"] == 0)
        return begin, sum(int(row["count"]) for row in rows) - begin

    def view(self, full_name: str) -> str:
        """Return the token set of a statistic that is read on one only."""
        views = self.numbers.study.views
        return WITHOUT_SINKS if WITHOUT_SINKS in views and self.numbers.rows(full_name, WITHOUT_SINKS) else views[0]

    @cached_property
    def blocks(self) -> dict[str, int]:
        """How many blocks each model has."""
        rows = self._records(
            "SELECT model, max(layers) AS blocks FROM models WHERE study = $study AND layers IS NOT NULL GROUP BY model"
        )
        return {row["model"]: int(row["blocks"]) for row in rows}

    @cached_property
    def with_base(self) -> dict[str, str]:
        """The base of each model whose base is in the study and was trained."""
        bases = {model: self.numbers.study.models[model].base for model in self.models}
        return {model: base for model, base in bases.items() if base is not None and base in self.models}

    def each(self, *per: str, relatives: bool = False) -> Iterator[Subject]:
        """Yield each main statistic of each model on each corpus that has numbers of it.

        Args:
            per: kinds of statistics (:attr:`~reporter.metrics.base.Statistic.per`).
            relatives: whether bases and what was made from them are among the models, as in means over a role.
        """
        with_base = {} if relatives else self.with_base
        bases = set(with_base.values())
        for full_name, statistic in self.statistics.items():
            if statistic.per not in per:
                continue
            measured = {(row.model, row.corpus) for row in self.numbers.rows(full_name, self.view(full_name))}
            for model in self.models:
                if model in bases or (model in with_base and full_name not in self.against_base):
                    continue
                for corpus in self.asked:
                    if (model, corpus) in measured:
                        yield Subject(self, full_name, statistic, model, corpus)

    def sql(
        self, full_name: str, models: Sequence[str], views: Sequence[str], names: Sequence[str], corpus: str | None
    ) -> str:
        """Return a query that shows numbers of a metric."""
        where = [
            f"study = {quoted(self.numbers.study.study)}",
            f"metric = {quoted(full_name.partition('.')[0])}",
            among("statistic", names),
            among("view", views),
            among("model", models),
            *([f"corpus = {quoted(corpus)}"] if corpus is not None else []),
            f"(site IS NULL OR {among('site', PATH)})",
        ]
        return (
            "SELECT model, checkpoint, step, corpus, view, statistic, layer, depth, value, ci_low, ci_high, n FROM "
            f"layer_metrics WHERE {' AND '.join(where)} ORDER BY statistic, view, corpus, model, step, layer"
        )

    def _records(self, sql: str) -> list[dict[str, Any]]:
        return self.numbers.store.records(sql, {"study": self.numbers.study.study})
