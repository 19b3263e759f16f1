"""What findings may be about: headline statistics, trained models, corpora; and how their numbers are read.

**An untrained model has no findings.** Its states have shapes, too: cosines that grow with depth, a dimension that is
highest at the embedding. They are there beyond any interval over texts and say nothing but how weights are drawn. So a
model is a subject only where its weights are not those of an initialisation, which the gains of its norms tell
(``models.initialised``); and where the study has a random-init baseline, whatever is found of a model must differ from
that baseline, too.

**Where a study asks what changed, findings say what changed.** A rounded, pruned or tuned model has its base's peaks,
sinks and cosines, damaged or not. They are no change, so neither the base nor its copy has findings about them. A model
with a trained base is a subject of what compares it with its base, and of its own training; the base is a subject of
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.answers import answered
from reporter.answers.changed import CHANGED
from reporter.answers.sinks import SEARCHED
from reporter.claims.common import among
from reporter.claims.judging import NO_SINKS
from reporter.claims.numbers import PATH, Missing
from reporter.claims.points import ROUNDING, Array, Estimates, Points
from reporter.claims.profiles import Profile, Profiles, together
from reporter.places import end, places
from reporter.store.shape import quoted
from reporter.table import LAST_CHECKPOINT

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers
    from reporter.metrics.base import Statistic

RANDOM, SHUFFLED = "random-init", "shuffled"
UNKNOWN = "there is no baseline with random weights, so it is not known how much of it training made"
ONE_DRAW = "the baseline is one draw of random weights; the interval is over texts"
MATERIAL = 0.1
"""A finding is worth a sentence from this effect on."""
SHARE = 0.01  # of the mean size, for a statistic that says nothing of its smallest difference, as claims take it


@dataclass(frozen=True)
class Subject:
    """A headline statistic of one trained model on one corpus.

    Args:
        study: all of them.
        full_name: the statistic, as metric.statistic.
        statistic: what is known of it.
        model: the model.
        corpus: the corpus.
    """

    study: Subjects
    full_name: str
    statistic: Statistic
    model: str
    corpus: str

    @property
    def step(self) -> bool:
        """Whether it is a number of steps from one layer to the next, which readers know as blocks."""
        return self.statistic.per == "step"

    @property
    def averaged(self) -> str:
        """Over what its mean is taken: ``layers`` or ``blocks``."""
        return "blocks" if self.step else "layers"

    def places(self, layers: Sequence[int], whole: bool = True) -> str:
        """Name layers that numbers are stored at.

        Args:
            layers: the layers.
            whole: whether the number of the model's blocks is named too.
        """
        return places(layers, self.step, self.study.blocks(self.model) if whole else None)

    def end(self, layer: int) -> str:
        """Name the layer at an end of a profile."""
        return end(layer, self.study.blocks(self.model), self.step)

    @property
    def named(self) -> str:
        """What a sentence is about: ``In minilm, the effective rank``."""
        return f"In {self.model}, {self.title}"

    @property
    def title(self) -> str:
        """The statistic, to begin a clause with: ``the effective rank``."""
        title = self.statistic.title
        return f"the {title}{',' * (',' in title)}"

    @property
    def on(self) -> str:
        """On which corpus, where the study has several, to end a sentence with."""
        return f" on {self.corpus}" if len(self.study.corpora) > 1 else ""

    @property
    def view(self) -> str:
        """The view that a number is read under where only one is: without sinks, where there is such a view."""
        return self.study.view(self.full_name)

    def profile(self, view: str, model: str = "", full_name: str = "") -> Profile | None:
        """Return a profile over depth with its errors; None where there is none of at least two points."""
        source = Profiles(self.study.numbers, full_name or self.full_name, view)
        try:
            found = source.over_depth(model or self.model, self.corpus)
        except Missing:
            return None
        return found if len(found.values) > 1 else None

    def points(self, profile: Profile, steps: bool = False) -> Points:
        """Return a profile, over depth or over training, as what tests work on."""
        return together([profile], [[profile.model]], steps, self.statistic.per == "step" and not steps)

    def baseline(self, kind: str) -> str:
        """Return what the database calls a baseline of the model; it may have no numbers."""
        return f"{self.model} ({kind})"

    def sure(self, estimates: Estimates, *corpora: str) -> Estimates:
        """Return estimates with Student's t of as many degrees of freedom as texts allow.

        The corrected levels lie far out, where the normal distribution would claim more than some dozen texts know.

        Args:
            estimates: numbers.
            corpora: the corpora that they were measured on; the subject's own if left out.
        """
        texts = min(self.study.texts.get(corpus, 0) for corpus in corpora or (self.corpus,))
        return replace(estimates, df=min(estimates.df, max(1, texts - 1)))

    def least(self, *values: Array) -> float:
        """Return the smallest difference that counts, as for claims that state none."""
        size = np.concatenate([np.ravel(some) for some in values])
        stated = self.statistic.smallest
        return max(
            SHARE * float(np.abs(size).mean()) if stated is None else stated, ROUNDING * float(np.abs(size).max())
        )

    def effect(self, difference: float, *values: float) -> float:
        """Return a difference as a share of the statistic's range; of one with an open range half its share of the
        larger number, since nothing tells how far it could go.
        """  # noqa: D205
        low, high = self.statistic.bounds
        if low is not None and high is not None:
            return min(1.0, abs(difference) / (high - max(low, 0.0)))
        return min(1.0, abs(difference) / max(map(abs, (*values, difference))) / 2) if difference else 0.0


@dataclass(frozen=True)
class FirstTokens:
    """How many sinks are the first token of their text, and how many at most stand elsewhere.

    The table has equal tokens as one row, from the first layer of any to the last one of any.
    """

    texts: int
    elsewhere: int


@dataclass(frozen=True)
class Subjects:
    """Everything in a study that findings may be about.

    Args:
        numbers: of the study.
        statistics: the headlines, by full name.
        against_base: full names of those that say how far a model lies from its base.
    """

    numbers: Numbers
    statistics: dict[str, Statistic]
    against_base: frozenset[str] = frozenset()

    @cached_property
    def models(self) -> list[str]:
        """The models that were trained, in the order of the study."""
        # Of a model with checkpoints the last one decides: its first may well be an initialisation.
        untrained = self._records("SELECT model FROM models WHERE study = $study AND is_last AND initialised")
        return [model for model in self.numbers.study.models if model not in {row["model"] for row in untrained}]

    @cached_property
    def corpora(self) -> list[str]:
        """The corpora of the study."""
        return list(self.numbers.study.corpora)

    @cached_property
    def texts(self) -> dict[str, int]:
        """How many texts each corpus has."""
        return {row["corpus"]: int(row["texts"]) for row in self.numbers.corpus_sizes()}

    @cached_property
    def sinks(self) -> dict[tuple[str, str], dict[str, Any]]:
        """By model and corpus, of the last checkpoint: tokens, sinks among them, and texts."""
        return {(row["model"], row["corpus"]): row for row in self._records(SEARCHED)}

    def sinks_of(self, subject: Subject, first: int, last: int) -> FirstTokens:
        """Return where the sinks stand that a model has in any of some layers.

        Args:
            subject: the model and the corpus.
            first: first of the layers.
            last: the last one.
        """
        rows = [
            row
            for row in self._records(
                'SELECT model, corpus, position_last, "count", layer_first, layer_last '
                f"FROM sinks WHERE study = $study AND {LAST_CHECKPOINT}"
            )
            if (row["model"], row["corpus"]) == (subject.model, subject.corpus)
            and row["layer_first"] <= last
            and row["layer_last"] >= first
        ]
        begin = sum(int(row["count"]) for row in rows if row["position_last"] == 0)
        return FirstTokens(begin, sum(int(row["count"]) for row in rows) - begin)

    def view(self, full_name: str) -> str:
        """Return the view that a statistic is read under where only one is."""
        views = self.numbers.study.views
        return NO_SINKS if NO_SINKS in views and self.numbers.rows(full_name, NO_SINKS) else views[0]

    def blocks(self, model: str) -> int:
        """Return how many blocks a model has."""
        return self._blocks[model]

    @cached_property
    def _blocks(self) -> dict[str, int]:
        found = self._records(
            "SELECT model, max(layers) AS blocks FROM models WHERE study = $study AND layers IS NOT NULL GROUP BY model"
        )
        return {row["model"]: int(row["blocks"]) for row in found}

    @cached_property
    def with_base(self) -> dict[str, str]:
        """The base of each model whose base is in the study and was trained."""
        specs = self.numbers.study.models
        found = {model: specs[model].base for model in self.models}
        return {model: base for model, base in found.items() if base is not None and base in self.models}

    @cached_property
    def changed(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The answer to what changed against the base, its rows by table; none where no model has a base."""
        if not self.with_base:
            return {}
        return answered(CHANGED, self.numbers.study.study, self._records).tables

    def each(self, *per: str, copies: bool = False) -> Iterator[Subject]:
        """Yield each headline statistic of each model on each corpus that has numbers of it.

        Args:
            per: what the statistic is a number of (:attr:`~reporter.metrics.base.Statistic.per`).
            copies: also of models with a base what they may have from it. Bases have no findings.
        """
        bases = set(self.with_base.values())
        for full_name, statistic in self.statistics.items():
            if statistic.per not in per:
                continue
            there = {(row.model, row.corpus) for row in self.numbers.rows(full_name, self.view(full_name))}
            for model in self.models:
                if model in bases or (model in self.with_base and not (copies or full_name in self.against_base)):
                    continue
                for corpus in self.corpora:
                    if (model, corpus) in there:
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
