"""Gets the observables of one checkpoint on one corpus: from disk, by a pass, or by finishing a killed one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.errors import ReporterError
from reporter.forward.measure import (
    Counts,
    OutOfMemoryError,
    Settings,
    longest,
    measure,
    settle_precision,
    tokenised,
    tokens_name,
)
from reporter.forward.places import Layout
from reporter.forward.readout import Readout, Vocabulary
from reporter.forward.strata import SinkRule
from reporter.forward.type_counts import TypeCounts, count_types
from reporter.models.head import load_head
from reporter.models.recipe import UNKNOWN
from reporter.models.states import NO_MODEL, SavedStates
from reporter.observables.kinds import KINDS
from reporter.observables.observable import Setting
from reporter.observables.observed import Observed
from reporter.observables.type_moments import FEWEST_OCCURRENCES
from reporter.runs.cache import FOLDERS
from reporter.runs.kept import Kept, PassFacts, Want, Wanted
from reporter.runs.plan import PRECISIONS

if TYPE_CHECKING:
    from pathlib import Path

    from reporter.forward.precision import Chosen
    from reporter.metrics.base import Metric, Options
    from reporter.models.load import LoadedModel
    from reporter.observables.observable import Observable
    from reporter.runs.plan import Pass
    from reporter.runs.progress import Progress
    from reporter.spec.run import Keep
    from reporter.texts.tokens import TokenisedCorpus

Loading = Callable[[], "LoadedModel | SavedStates"]


@dataclass(frozen=True)
class Measured:
    """What was measured in a pass.

    Args:
        of: the pass, in the precision in which it was done.
        observables: by name.
        facts: what is known of the pass besides.
        forward: what went through the model in this run; nothing where all was at hand.
        memo: results that metrics and views share.
        device: where metrics read sampled states.
    """

    of: Pass
    observables: Mapping[str, Observable]
    facts: PassFacts
    forward: Counts
    memo: dict[Any, Any] = field(default_factory=dict)
    device: str = "cpu"

    def seen(self, view: str, views: tuple[str, ...] = ()) -> Observed:
        """Return what a metric gets to see under one view, among others that it will see."""
        facts, texts = self.facts, self.of.texts
        return Observed(
            self.observables,
            facts.layout,
            facts.counts.distinct_texts,
            view,
            self.of.seed,
            self.memo,
            texts.name,
            texts.words,
            facts.head_problem,
            facts.unfed,
            self.device,
            views,
        )


@dataclass(frozen=True)
class Passes:
    """Does passes on this machine, and keeps what they leave.

    Args:
        cache: where observables and tokens are kept.
        batch_tokens: the most tokens in a batch, padding included; changes no number beyond rounding.
        offline: never ask a hub.
        progress: where a pass is shown.
        device: where metrics read sampled states.
        keep: how much of a pass stays once the cells of the study are computed.
    """

    cache: Path
    batch_tokens: int
    offline: bool
    progress: Progress
    device: str = "cpu"
    keep: Keep = "all"
    _safe: dict[str, int] = field(default_factory=dict)  # tokens in a batch, by fingerprint, where memory was short

    def measured(self, of: Pass, wanted: Wanted, load: Loading) -> Measured:
        """Return observables of a pass; the corpus goes through the model at most once.

        Args:
            of: the pass. Where it leaves the precision open, observables that are at hand in either will do; if some
                are missing, the model decides on a few texts.
            wanted: the observables.
            load: loads the checkpoint; called only where the model is needed.
        """
        chosen = None
        if of.precision == "auto":
            found = next((p for p in PRECISIONS if not self._kept(of.settled(p)).missing(wanted)), None)
            if found is None:
                chosen = settle_precision("auto", load(), of.texts, of.max_tokens)
                found = chosen.precision
            of = of.settled(found)
        kept = self._kept(of)
        with kept.locked(str(of), self.progress.note):
            with self.progress.clock.within("store"):
                kept.heal(wanted)
                missing = kept.missing(wanted)
            forward = Counts()
            if missing:
                model = load()
                chosen = chosen or settle_precision(of.precision, model, of.texts, of.max_tokens)
                forward = self._pass(kept, missing, of, model, chosen)
            facts = kept.facts()
            assert facts is not None  # either it was there or the pass wrote it
            with self.progress.clock.within("store"):
                return Measured(of, kept.load(wanted, self.keep), facts, forward, device=self.device)

    def drop(self, of: Pass) -> None:
        """Delete what the study does not keep of a pass, in the precision in which it was done."""
        if self.keep != "all":
            kept = self._kept(of)
            with kept.locked(str(of), self.progress.note):
                kept.drop()

    def _kept(self, of: Pass) -> Kept:
        return Kept(self.cache / FOLDERS["pass"], of.inputs)

    def _pass(self, kept: Kept, wanted: Wanted, of: Pass, model: LoadedModel | SavedStates, chosen: Chosen) -> Counts:
        texts, anatomy = of.texts, model.anatomy
        layout = Layout.of(anatomy, of.sites)
        clock = self.progress.clock
        with clock.within("loading"):
            corpus = tokenised(model, texts, of.max_tokens, self.cache / FOLDERS["tokens"])
            counted = count_types(corpus, anatomy.vocabulary_size, of.seed)
        types = counted.at_least(FEWEST_OCCURRENCES)
        in_all = int(counted.counts.sum() + counted.added.sum())
        ids = np.flatnonzero(counted.counts + counted.added).tolist()
        names = dict(zip(ids, map(str, model.tokenizer.convert_ids_to_tokens(ids)), strict=True))
        setting = Setting(layout, of.seed, len(texts), 0, types, names, in_all, counted.splits)
        readout, problem = _readout(model, wanted, self.offline)
        unfed = _unfed(model)
        known = kept.facts()
        if known is not None and not any(KINDS[name].reads_head for name in wanted):
            problem = known.head_problem  # of an earlier pass, whose observables are still read
        settings = Settings(
            batch_tokens=min(self.batch_tokens, self._safe.get(of.checkpoint.fingerprint, self.batch_tokens)),
            seed=of.seed,
            precision=chosen.precision,
            layout=layout,
            frequent=counted.frequent,
            shuffled=of.shuffled,
            readout=readout,
            losses="losses" in wanted,
            contributions="contributions" in wanted and "contributions" not in unfed,
            vocabulary=_vocabulary(model, wanted),
            sinks=SinkRule.of(of.sinks.factor, of.sinks.dominance),
        )
        if known is not None and known.batch_tokens is not None:
            settings = replace(settings, batch_tokens=min(settings.batch_tokens, known.batch_tokens))
        while True:
            found = kept.unfinished(wanted)
            if found is None:
                observables = {
                    name: KINDS[name].empty(replace(setting, size=want.size, views=want.views))
                    for name, want in wanted.items()
                }
                counts, first = Counts(), 0
            else:
                observables, counts, first = found.observables, found.counts, found.next_shard
                self.progress.note(f"  {of.checkpoint.model} × {texts.name}: going on after {counts.texts:,} texts")
            before = counts
            try:
                counts = self._feed(
                    kept, wanted, of, model, corpus, observables, unfed, counts, first, settings, in_all
                )
                break
            except OutOfMemoryError as error:
                # What the observables held is lost: once more, from where it was saved, in smaller batches.
                observables = {}
                if error.tokens <= 1 or settings.batch_tokens <= 1:
                    raise
                self._shrunk(of, min(settings.batch_tokens, error.tokens) // 2)
                settings = replace(settings, batch_tokens=self._safe[of.checkpoint.fingerprint])
        safe = self._safe.get(of.checkpoint.fingerprint, None if known is None else known.batch_tokens)
        facts = PassFacts(
            asdict(anatomy), layout, counts, str(model.device), chosen.precision, chosen.deviation, problem, unfed, safe
        )
        facts = replace(facts, warning="; ".join(_warnings(model, texts.name, counts, counted)))
        if facts.warning:
            self.progress.note(f"  {of}: {facts.warning}")
        if counts.cut_texts:
            limit = longest(of.max_tokens, model)
            share = f"{counts.cut_texts:,} of {counts.texts:,} texts ({counts.cut_texts / counts.texts:.0%})"
            self.progress.note(f"  {of}: {share} are longer than {limit} tokens and were cut there")
        said = {"model": of.checkpoint.model, "checkpoint": of.checkpoint.name, "corpus": texts.name}
        said |= {"tokens": tokens_name(model, texts, of.max_tokens)}
        with clock.within("store"):
            kept.finish(observables, wanted, facts, self.keep, said)
        return _minus(counts, before)

    def _feed(
        self,
        kept: Kept,
        wanted: Wanted,
        of: Pass,
        model: LoadedModel | SavedStates,
        corpus: TokenisedCorpus,
        observables: Mapping[str, Observable],
        unfed: Mapping[str, str],
        counts: Counts,
        first: int,
        settings: Settings,
        tokens: int,
    ) -> Counts:
        """Show the observables what is left of a corpus; return what went through the model, the rest included."""
        saver, clock = _Saver(kept, wanted), self.progress.clock
        fed = [observable for name, observable in observables.items() if name not in unfed]
        with self.progress.step(str(of), tokens, "tokens", counts.tokens) as step, clock.within("observables"):
            shrunk = partial(self._shrunk, of)
            for shard, more in measure(model, corpus, fed, settings, first, step.advance, shrunk):
                counts = counts + more
                clock.take("forward", more.model_seconds)
                if shard.stop < len(of.texts):
                    with clock.within("store"):
                        saver.save(observables, counts, shard.index + 1)
        return counts

    def _shrunk(self, of: Pass, tokens: int) -> None:
        """Remember for which batches memory sufficed; it is said when it is first found out that it may not."""
        if of.checkpoint.fingerprint not in self._safe:
            self.progress.note(f"  {of.checkpoint.model}: memory is short; going on in smaller batches")
        self._safe[of.checkpoint.fingerprint] = max(1, tokens)


def wanted_by(chosen: Iterable[tuple[Metric, Options, Sequence[str]]]) -> dict[str, Want]:
    """Return the observables that some metrics need under some views, each as large as the most demanding one asks."""
    wanted: dict[str, Want] = {}
    for metric, options, views in chosen:
        for name in metric.needs:
            size = options.size_of(name) if KINDS[name].bounded != "no" else 0
            wanted[name] = wanted.get(name, Want()) | Want(size, tuple(views) if KINDS[name].tells_views else ())
    return wanted


def _unfed(model: LoadedModel | SavedStates) -> dict[str, str]:
    """Return which observables cannot see anything of this model, and why: of some there are only states."""
    if not isinstance(model, SavedStates):
        return {"contributions": model.contributions_problem} if model.contributions_problem else {}
    typed = {name: model.unfed for name, kind in KINDS.items() if kind.reads_types and model.unfed}
    inside = (name for name, kind in KINDS.items() if kind.reads_head or kind.reads_vocabulary or kind.reads_inside)
    return typed | dict.fromkeys(inside, NO_MODEL)


def _vocabulary(model: LoadedModel | SavedStates, wanted: Wanted) -> Vocabulary | None:
    if isinstance(model, SavedStates) or not any(KINDS[name].reads_vocabulary for name in wanted):
        return None
    return Vocabulary.of(model)


def _readout(model: LoadedModel | SavedStates, wanted: Wanted, offline: bool) -> tuple[Readout | None, str]:
    """Return the model with its head where an observable reads it, or why it has none."""
    if isinstance(model, SavedStates) or not any(KINDS[name].reads_head for name in wanted):
        return None, ""
    try:
        readout = Readout(model, load_head(model.checkpoint, model, offline))
    except ReporterError as error:
        return None, str(error)
    return readout, readout.loss_problem or readout.lens_problem


def _warnings(model: LoadedModel | SavedStates, corpus: str, counts: Counts, counted: TypeCounts) -> Iterator[str]:
    """Yield what is to be known of a pass: states at the end of float16's range, and a corpus of unknown tokens."""
    if counts.strained:
        yield (
            f"{counts.strained:,} of {counts.tokens:,} tokens of corpus '{corpus}' have a state within a tenth of the "
            "end of float16's range, where it is clamped or lost; write `dtype: float32` or `dtype: bfloat16`"
        )
    unknown = None if isinstance(model, SavedStates) else getattr(model.tokenizer, "unk_token_id", None)
    if unknown is None or not 0 <= unknown < len(counted.counts):
        return
    lost, own = int(counted.counts[unknown]), int(counted.counts.sum())
    if lost > UNKNOWN * own:
        yield (
            f"{lost / own:.0%} of the tokens of corpus '{corpus}' are unknown to its tokenizer "
            f"({model.tokenizer.convert_ids_to_tokens([unknown])[0]})"
        )


SAVE_EVERY = 20.0  # seconds of work are worth saving
MOST_SAVING = 0.05  # of the time of a pass may go into saving unfinished work


class _Saver:
    """Saves unfinished work after a shard, every ``SAVE_EVERY`` seconds and at no more cost than ``MOST_SAVING``."""

    def __init__(self, kept: Kept, wanted: Wanted) -> None:
        self._kept, self._wanted = kept, wanted
        self._cost = 0.0
        self._last = time.perf_counter()

    def save(self, observables: Mapping[str, Observable], counts: Counts, next_shard: int) -> None:
        began = time.perf_counter()
        if began - self._last < max(SAVE_EVERY, self._cost / MOST_SAVING):
            return
        self._kept.save_unfinished(observables, self._wanted, counts, next_shard)
        self._last = time.perf_counter()
        self._cost = self._last - began


def _minus(counts: Counts, before: Counts) -> Counts:
    return Counts(*(getattr(counts, f.name) - getattr(before, f.name) for f in fields(Counts)))
