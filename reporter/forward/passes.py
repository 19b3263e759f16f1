"""Gets the observables of one checkpoint on one corpus: from disk, from the ranges that are done, or by a pass.

A pass feeds the observables range by range: texts through the model, from where a killed process got.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from reporter.core.errors import ReporterError
from reporter.core.progress import Progress
from reporter.core.threads import suited_to
from reporter.forward.alone import AloneCheck
from reporter.forward.inputs import FOLDERS, PRECISIONS, Pass, note_rate, warnings
from reporter.forward.kept import Parts, PassFacts, PassFolder, Wanted
from reporter.forward.measure import SHOWN_TOGETHER, Counts, OutOfMemoryError, measure, most_shown
from reporter.forward.observable import Observable, Setting
from reporter.forward.observed import KINDS, Observed
from reporter.forward.output import Settings
from reporter.forward.precision import Chosen, settle_precision
from reporter.forward.reading import at_once, longest, tokenised, tokens_name
from reporter.forward.readout import Readout, Vocabulary
from reporter.forward.text_vectors import TextVectors
from reporter.forward.token_categories import SinkRule
from reporter.forward.type_moments import FEWEST_OCCURRENCES
from reporter.forward.type_sample import TypeCounts, count_types
from reporter.models.head import Head, load_head
from reporter.models.load import LoadedModel
from reporter.models.places import Layout
from reporter.models.sentence import unused_settings
from reporter.models.states import NO_MODEL, SavedStates
from reporter.models.toy.training import UNKNOWN
from reporter.models.words import token_names
from reporter.study.study import Keep
from reporter.texts import Texts
from reporter.texts.tokens import ShardRange, ranges, shards

Loading = Callable[[], "LoadedModel | SavedStates"]


@dataclass(frozen=True)
class Measured:
    """The measurements of a pass."""

    of: Pass
    observables: Mapping[str, Observable]
    facts: PassFacts
    forward: Counts
    memo: dict[Any, Any] = field(default_factory=dict)
    device: str = "cpu"
    load: Loading | None = None

    def seen(self, view: str, views: tuple[str, ...] = ()) -> Observed:
        """Return the input of a metric for one token set; ``views`` are all that it will read."""
        facts, texts = self.facts, self.of.texts
        read = (self.observables, facts.layout, facts.counts.distinct_texts, view, self.of.seed, self.memo)
        device = "cpu" if self.device == "mps" else self.device  # Apple's has no float64, in which metrics compute
        facts_of_texts = (texts.name, texts.words, facts.head_problem, facts.unfed, device, views)
        return Observed(*read, *facts_of_texts, load_head=self._head, clustered=texts.clusters is not None)

    def forget(self) -> None:
        """Let go of what metrics computed: it refers to the states, which would stay until a collection of garbage."""
        self.memo.clear()

    def _head(self) -> Head:
        model = self.load and self.load()
        if not isinstance(model, LoadedModel):
            raise ReporterError(NO_MODEL)
        return load_head(model.checkpoint, model, offline=True).in_float32()


@dataclass(frozen=True)
class Passes:
    """Runs forward passes on this machine, and keeps their results."""

    cache: Path
    batch_tokens: int
    offline: bool
    progress: Progress
    device: str = "cpu"
    keep: Keep = "all"
    safe: dict[str, int] = field(default_factory=dict)  # tokens in a batch, by fingerprint, where memory was short
    gathering: list[TextVectors] = field(default_factory=list)  # what gathers vectors while a pass runs
    _said: set[str] = field(default_factory=set)  # what was warned of already

    def measured(self, forward_pass: Pass, amounts: Wanted, load: Loading) -> Measured:
        """Return observables of a pass; the corpus goes through the model at most once."""
        forward_pass, chosen = self.settled(forward_pass, amounts, load)
        kept = self.folder(forward_pass)
        with kept.locked(str(forward_pass), self.progress.note):
            with self.progress.clock.within("store"):
                kept.set_aside_damaged(amounts)
                missing = kept.missing(amounts)
            forward = Counts()
            if missing:
                forward = self._complete(kept, missing, forward_pass, load, chosen)
                note_rate(self.cache, self.device, forward_pass.checkpoint, forward.tokens, forward.seconds)
            facts = kept.facts()
            assert facts is not None  # either it was there or the pass wrote it
            with self.progress.clock.within("store"):
                observables = kept.load(amounts, self.keep)
                return Measured(forward_pass, observables, facts, forward, device=self.device, load=load)

    def drop(self, forward_pass: Pass) -> None:
        """Delete the parts of a pass that ``run.keep`` does not keep."""
        if self.keep != "all":
            kept = self.folder(forward_pass)
            with kept.locked(str(forward_pass), self.progress.note):
                kept.drop()

    def folder(self, forward_pass: Pass) -> PassFolder:
        """Return the folder of a pass with a settled precision."""
        return PassFolder(self.cache / FOLDERS["pass"], forward_pass.inputs)

    def settled(self, forward_pass: Pass, amounts: Wanted, load: Loading) -> tuple[Pass, Chosen | None]:
        """Return a pass with its precision settled, and the self-check if it ran just now.

        Finished results decide, then unfinished results; else a self-check of the model on a few texts.
        """
        if forward_pass.precision != "auto":
            return forward_pass, None
        ways = [forward_pass.settled(precision) for precision in PRECISIONS]
        lacks = {way.precision: self.folder(way).missing(amounts) for way in ways}
        for way in ways:
            if not lacks[way.precision]:
                return way, None
        begun = {way.precision: self.folder(way).parts(lacks[way.precision]) for way in ways}
        if any(parts.begun for parts in begun.values()):
            return max(ways, key=lambda way: (begun[way.precision].begun, begun[way.precision].count)), None
        chosen = settle_precision("auto", load(), forward_pass.texts, forward_pass.max_tokens)
        return forward_pass.settled(chosen.precision), chosen

    def _complete(
        self, kept: PassFolder, missing: Wanted, forward_pass: Pass, load: Loading, chosen: Chosen | None
    ) -> Counts:
        """Feed every missing range of a pass, merge the results, and return the counts of the forward passes."""
        todo, parts, forward = ranges(shards(forward_pass.texts)), kept.parts(missing), Counts()
        facts = {span.index: parts.facts(span) for span in todo}
        lacks, clock = [span for span in todo if facts[span.index] is None], self.progress.clock
        fed: Mapping[str, Observable] = {}
        if lacks:
            ready = ReadyPass(forward_pass, parts.wanted, load(), chosen, self)
            done = sum(map(parts.tokens, todo))
            with self.progress.step(str(forward_pass), ready.tokens, "tokens", done) as advance:
                for span in lacks:
                    fed, of_range, counts = ready.feed(span, parts, advance)
                    forward, facts[span.index] = forward + counts, of_range
                    if len(todo) > 1:
                        with clock.within("store"):
                            parts.write(span, fed, of_range, ready.called)
        with clock.within("store"):
            whole = PassFacts.merged([of_range for of_range in facts.values() if of_range is not None])
            if len(todo) == 1 and lacks:  # needs no file to be merged from
                observables, called = iter(fed.items()), ready.called
            else:
                observables, called = parts.merged(todo), parts.called(todo[0])
            of_missing = ((name, observable) for name, observable in observables if name in missing)
            self._finish(kept, forward_pass, of_missing, whole, called, parts)
        return forward

    def _finish(
        self,
        kept: PassFolder,
        forward_pass: Pass,
        observables: Iterable[tuple[str, Observable]],
        facts: PassFacts,
        called: Mapping[str, str],
        parts: Parts,
    ) -> None:
        of_own, counts = facts.anatomy.get("max_tokens"), facts.counts
        if forward_pass.windows and counts.windows > counts.texts:
            size, stride = (windows := forward_pass.windows.within(of_own)).size, windows.stride
            message = f"{counts.texts:,} texts in {counts.windows:,} windows of at most {size} tokens"
            self.progress.note(f"  {forward_pass}: {message}, one every {stride} tokens; each token counts once")
        if cut := counts.cut_texts:
            limit = forward_pass.max_tokens if of_own is None else min(forward_pass.max_tokens, of_own)
            of_model = f", the limit of the model (max_tokens: {forward_pass.max_tokens})" * (
                limit < forward_pass.max_tokens
            )
            share = f"{cut:,} of {counts.texts:,} texts ({cut / counts.texts:.0%})"
            self.progress.note(f"  {forward_pass}: {share} were cut at {limit} tokens{of_model}")
        cautions = strained_warning(counts, forward_pass.texts.name), repeats_warning(counts, forward_pass.texts)
        facts = replace(facts, warning=warnings(*cautions, facts.warning) or "")
        for warning in facts.warning.splitlines():
            if warning not in self._said:  # other checkpoints would say the same; the report has all
                self._said.add(warning)
                self.progress.note(f"  {forward_pass}: {warning}")
        kept.finish(observables, parts.wanted, facts, self.keep, called)
        parts.remove()


def strained_warning(counts: Counts, corpus: str) -> str:
    """Return a warning about states near the limit of float16; usually empty."""
    if not counts.strained:
        return ""
    return (
        f"{counts.strained:,} of {counts.tokens:,} tokens of corpus '{corpus}' have states near the limit of float16, "
        "where values are lost; add `dtype: float32` or `dtype: bfloat16` to the model"
    )


MOST_REPEATED = 0.05
"""Share of texts above which a reader should know that they repeat others."""


def repeats_warning(counts: Counts, texts: Texts) -> str:
    """Return a warning that many texts or clusters are the same to the model; usually empty."""
    if texts.clusters is None:
        units, what = counts.texts, "texts"
        consequence = "are the same as another text to the model; intervals count each text once"
    else:
        units, what = texts.units, "clusters"
        consequence = "only repeat texts of other clusters, as the model reads them; intervals leave them out"
    repeated = units - counts.distinct_texts
    if repeated <= MOST_REPEATED * units:
        return ""
    return f"{repeated:,} of {units:,} {what} of corpus '{texts.name}' {consequence}"


# Ranges of a pass, fed one after another.


SAVE_EVERY = 20.0  # seconds of work are worth saving
MOST_SAVING = 0.05  # of the time of a pass may go into saving unfinished work


class ReadyPass:
    """A pass that is ready to feed ranges: its model is loaded, its corpus tokenised, its types counted."""

    def __init__(
        self,
        forward_pass: Pass,
        amounts: Wanted,
        model: LoadedModel | SavedStates,
        chosen: Chosen | None,
        passes: Passes,
    ) -> None:
        texts, anatomy, most = forward_pass.texts, model.anatomy, forward_pass.max_tokens
        chosen = chosen or settle_precision(forward_pass.precision, model, texts, most)
        known_facts = passes.folder(forward_pass).facts()
        self._of, self._wanted, self._model, self._passes = forward_pass, amounts, model, passes
        self._clock = passes.progress.clock
        with self._clock.within("tokenising"):
            name = tokens_name(model, forward_pass)
            folder = passes.cache / FOLDERS["tokens"] / name
            how = (forward_pass.max_tokens, folder, forward_pass.windows, forward_pass.chat)
            self._corpus = tokenised(model, texts, *how, passes.progress.note)
            counted = count_types(self._corpus, anatomy.vocabulary_size, forward_pass.seed)
        self.tokens = int(counted.counts.sum() + counted.added.sum())
        """Of the corpus, those that the tokenizer adds included."""
        checkpoint = forward_pass.checkpoint
        names_of_pass = {"model": checkpoint.model, "checkpoint": checkpoint.name, "corpus": texts.name}
        self.called = names_of_pass | {"tokens": name}
        """What ``reporter cache`` says of the pass."""
        names = token_names(model.tokenizer, np.flatnonzero(counted.counts + counted.added).tolist())
        types, layout = counted.at_least(FEWEST_OCCURRENCES), Layout.of(anatomy, forward_pass.sites)
        read = max(len(texts), self._corpus.windows)
        self._setting = Setting(layout, forward_pass.seed, read, 0, types, names, self.tokens, counted.splits)
        readout, problem = _readout(model, amounts, passes.offline)
        if known_facts is not None and not any(KINDS[name].reads_head for name in amounts):
            problem = known_facts.head_problem  # of an earlier pass, whose observables are still read
        sentence = unused_settings(checkpoint.folder, longest(most, model))
        self._facts = PassFacts(
            asdict(anatomy),
            layout,
            Counts(),
            str(model.device),
            chosen.precision,
            chosen.deviation,
            head_problem=problem,
            unfed=_unfed(model),
            batch_tokens=None if known_facts is None else known_facts.batch_tokens,
            warning=warnings(unknown_warning(model, texts.name, counted), sentence) or "",
            weights={} if isinstance(model, SavedStates) else dict(model.groups),
        )
        limits = (passes.batch_tokens, passes.safe.get(checkpoint.fingerprint), self._facts.batch_tokens)
        self._settings = Settings(
            batch_tokens=min(limit for limit in limits if limit is not None),
            seed=forward_pass.seed,
            precision=chosen.precision,
            layout=layout,
            frequent=counted.frequent,
            shuffled=forward_pass.shuffled,
            readout=readout,
            losses="losses" in amounts,
            contributions="contributions" in amounts and "contributions" not in self._facts.unfed,
            vocabulary=_vocabulary(model, amounts),
            sinks=SinkRule.of(forward_pass.sinks.factor, forward_pass.sinks.dominance),
        )
        self._check: AloneCheck | None = None
        if isinstance(model, LoadedModel):
            with self._clock.within("forward"), suited_to(anatomy.width, model.device.type):
                self._check = AloneCheck(model, self._corpus, self._settings)
                self._check.run()
            if self._check.unpadded:
                passes.progress.note(f"  {forward_pass}: padding changes its states, so no text is padded")

    def feed(
        self, part: ShardRange, parts: Parts, advance: Callable[[int], None]
    ) -> tuple[Mapping[str, Observable], PassFacts, Counts]:
        """Send the rest of a range through the model; return its results, facts and the counts of this call.

        Raises:
            ReporterError: states are not finite, or memory ran out.
        """
        while True:
            unfinished = parts.unfinished(part)
            if unfinished is None:
                observables = {
                    name: KINDS[name].empty(replace(self._setting, size=want.size, views=want.views))
                    for name, want in self._wanted.items()
                }
                before, first = Counts(), part.shards[0].index
            else:
                observables, before, first = unfinished
                texts = part.start + before.texts
                self._passes.progress.note(
                    f"  {self._of.checkpoint.model} × {self._of.texts.name}: resuming after {texts:,} texts"
                )
            done: list[int] = []

            def progress(tokens: int, done: list[int] = done) -> None:
                done.append(tokens)
                advance(tokens)

            try:
                forward = self._feed(part, parts, observables, before, first, progress)
                break
            except OutOfMemoryError as error:
                # What the observables held is lost: once more, from where it was saved, in smaller batches.
                observables = {}
                if error.tokens <= 1 or self._settings.batch_tokens <= 1:
                    raise
                advance(-sum(done))
                self._shrunk(min(self._settings.batch_tokens, error.tokens) // 2)
                safe = self._passes.safe[self._of.checkpoint.fingerprint]
                self._settings = replace(self._settings, batch_tokens=safe)
        facts = replace(
            self._facts,
            counts=before + forward,
            batch_tokens=self._passes.safe.get(self._of.checkpoint.fingerprint, self._facts.batch_tokens),
            alone=None if self._check is None else self._check.largest,
        )
        return observables, facts, forward

    def _feed(
        self,
        part: ShardRange,
        parts: Parts,
        observables: Mapping[str, Observable],
        before: Counts,
        first: int,
        advance: Callable[[int], None],
    ) -> Counts:
        """Feed the observables the shards from ``first`` on; return the counts of what went through the model."""
        fed = [observable for name, observable in observables.items() if name not in self._facts.unfed]
        if self._settings.precision == "float32":
            fed += [gathering for gathering in self._passes.gathering if gathering.watches(self._of)]
        corpus = replace(self._corpus, shards=tuple(shard for shard in part.shards if shard.index >= first))
        forward, last, cost = Counts(), time.perf_counter(), 0.0
        width = max(self._setting.layout.widths)
        tokens = most_shown(self._settings.batch_tokens)
        tasks = min(self.tokens // SHOWN_TOGETHER, at_once(self._model, self._setting.layout, tokens))
        with self._clock.within("observables"), suited_to(width, str(self._model.device), tasks):
            check = self._check.compare if self._check else lambda parts: None
            for shard, more in measure(self._model, corpus, fed, self._settings, advance, self._shrunk, check):
                forward = forward + more
                self._clock.take("forward", more.model_seconds)
                began = time.perf_counter()
                if shard.stop < part.stop and began - last >= max(SAVE_EVERY, cost / MOST_SAVING):
                    with self._clock.within("store"):
                        parts.save_unfinished(part, observables, before + forward, shard.index + 1)
                    last = time.perf_counter()
                    cost = last - began
        return forward

    def _shrunk(self, tokens: int) -> None:
        safe, checkpoint = self._passes.safe, self._of.checkpoint
        if checkpoint.fingerprint not in safe:
            self._passes.progress.note(f"  {checkpoint.model}: little memory is left; continuing with smaller batches")
        safe[checkpoint.fingerprint] = max(1, tokens)


def _unfed(model: LoadedModel | SavedStates) -> dict[str, str]:
    if not isinstance(model, SavedStates):
        return {"contributions": model.contributions_problem} if model.contributions_problem else {}
    typed = {name: model.unfed for name, kind in KINDS.items() if kind.reads_types and model.unfed}
    inside = (name for name, kind in KINDS.items() if kind.reads_head or kind.reads_vocabulary or kind.reads_inside)
    return typed | dict.fromkeys(inside, NO_MODEL)


def _vocabulary(model: LoadedModel | SavedStates, amounts: Wanted) -> Vocabulary | None:
    if isinstance(model, SavedStates) or not any(KINDS[name].reads_vocabulary for name in amounts):
        return None
    return Vocabulary.of(model)


def _readout(model: LoadedModel | SavedStates, amounts: Wanted, offline: bool) -> tuple[Readout | None, str]:
    if isinstance(model, SavedStates) or not any(KINDS[name].reads_head for name in amounts):
        return None, ""
    try:
        readout = Readout(model, load_head(model.checkpoint, model, offline))
    except ReporterError as error:
        return None, str(error)
    return readout, readout.loss_problem or readout.lens_problem


def unknown_warning(model: LoadedModel | SavedStates, corpus: str, counted: TypeCounts) -> str:
    """Return a warning about a corpus with many tokens that the tokenizer does not know; usually empty."""
    unknown = getattr(model.tokenizer, "unk_token_id", None)
    if unknown is None or not 0 <= unknown < len(counted.counts):
        return ""
    lost, total = int(counted.counts[unknown]), int(counted.counts.sum())
    if lost <= UNKNOWN * total:
        return ""
    return f"the tokenizer does not know {100 * lost / total:.0f} % of the tokens of corpus '{corpus}'"
