"""Feeds the observables of one range of a corpus: texts through the model, from where a killed process got."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reporter.core.errors import ReporterError
from reporter.core.files import SEAL, held
from reporter.forward.inputs import FOLDERS, Pass, lock_of
from reporter.forward.kept import Parts, PassFacts, Wanted
from reporter.forward.measure import Chosen, Counts, OutOfMemoryError, Settings, measure, tokenised, tokens_name
from reporter.forward.observable import Observable, Setting
from reporter.forward.observed import KINDS
from reporter.forward.readout import Readout, Vocabulary
from reporter.forward.token_categories import SinkRule
from reporter.forward.type_moments import FEWEST_OCCURRENCES
from reporter.forward.type_sample import TypeCounts, count_types
from reporter.models.head import load_head
from reporter.models.places import Layout
from reporter.models.states import NO_MODEL, SavedStates
from reporter.models.toy.training import UNKNOWN
from reporter.models.words import token_names

if TYPE_CHECKING:
    from reporter.forward.passes import Passes
    from reporter.models.load import LoadedModel
    from reporter.texts.tokens import Range, TokenisedCorpus


@dataclass(frozen=True)
class Fed:
    """What a range left."""

    observables: Mapping[str, Observable]
    facts: PassFacts
    forward: Counts


class Feeding:
    """A pass that is ready to feed ranges: its model is loaded, its corpus tokenised, its types counted."""

    def __init__(
        self,
        of: Pass,
        wanted: Wanted,
        model: LoadedModel | SavedStates,
        chosen: Chosen,
        known: PassFacts | None,
        passes: Passes,
    ) -> None:
        self._of, self._wanted, self._model, self._chosen, self._passes = of, wanted, model, chosen, passes
        self._clock, texts, anatomy = passes.progress.clock, of.texts, model.anatomy
        with self._clock.within("tokenising"):
            self._corpus = _tokenised(model, of, passes)
            counted = count_types(self._corpus, anatomy.vocabulary_size, of.seed)
        self.tokens = int(counted.counts.sum() + counted.added.sum())
        """Of the corpus, those that the tokenizer adds included."""
        self.called = {"model": of.checkpoint.model, "checkpoint": of.checkpoint.name, "corpus": texts.name}
        """What ``reporter cache`` says of the pass."""
        self.called |= {"tokens": tokens_name(model, texts, of.max_tokens, of.windows, of.chat)}
        ids = np.flatnonzero(counted.counts + counted.added).tolist()
        names = token_names(model.tokenizer, ids)
        types, self._layout = counted.at_least(FEWEST_OCCURRENCES), Layout.of(anatomy, of.sites)
        read = max(len(texts), self._corpus.windows)
        self._setting = Setting(self._layout, of.seed, read, 0, types, names, self.tokens, counted.splits)
        readout, self._problem = _readout(model, wanted, passes.offline)
        self._unfed, self._warning = _unfed(model), unknown_warning(model, texts.name, counted)
        if known is not None and not any(KINDS[name].reads_head for name in wanted):
            self._problem = known.head_problem  # of an earlier pass, whose observables are still read
        self._sufficed = None if known is None else known.batch_tokens
        self._settings = Settings(
            batch_tokens=min(passes.batch_tokens, passes.safe.get(of.checkpoint.fingerprint, passes.batch_tokens)),
            seed=of.seed,
            precision=chosen.precision,
            layout=self._layout,
            frequent=counted.frequent,
            shuffled=of.shuffled,
            readout=readout,
            losses="losses" in wanted,
            contributions="contributions" in wanted and "contributions" not in self._unfed,
            vocabulary=_vocabulary(model, wanted),
            sinks=SinkRule.of(of.sinks.factor, of.sinks.dominance),
        )
        if self._sufficed is not None:
            self._settings = replace(self._settings, batch_tokens=min(self._settings.batch_tokens, self._sufficed))

    def feed(self, part: Range, parts: Parts, advance: Callable[[int], None]) -> Fed:
        """Send what is left of a range through the model, and return what the range left.

        Raises:
            ReporterError: states are not finite, or memory does not suffice.
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
                    f"  {self._of.checkpoint.model} × {self._of.texts.name}: going on after {texts:,} texts"
                )
            progress = _Advance(advance)
            try:
                counts = self._feed(part, parts, observables, before, first, progress)
                break
            except OutOfMemoryError as error:
                # What the observables held is lost: once more, from where it was saved, in smaller batches.
                observables = {}
                if error.tokens <= 1 or self._settings.batch_tokens <= 1:
                    raise
                progress.take_back()
                self._shrunk(min(self._settings.batch_tokens, error.tokens) // 2)
                safe = self._passes.safe[self._of.checkpoint.fingerprint]
                self._settings = replace(self._settings, batch_tokens=safe)
        model, chosen = self._model, self._chosen
        facts = PassFacts(
            asdict(model.anatomy),
            self._layout,
            counts,
            str(model.device),
            chosen.precision,
            chosen.deviation,
            self._problem,
            self._unfed,
            self._passes.safe.get(self._of.checkpoint.fingerprint, self._sufficed),
            self._warning,
            {} if isinstance(model, SavedStates) else dict(model.groups),
        )
        return Fed(observables, facts, _minus(counts, before))

    def _feed(
        self,
        part: Range,
        parts: Parts,
        observables: Mapping[str, Observable],
        counts: Counts,
        first: int,
        advance: Callable[[int], None],
    ) -> Counts:
        """Show the observables the shards from ``first`` on; return what went through the model, the rest included."""
        saver = _Saver(partial(parts.save_unfinished, part))
        fed = [observable for name, observable in observables.items() if name not in self._unfed]
        corpus = replace(self._corpus, shards=tuple(shard for shard in part.shards if shard.index >= first))
        with self._clock.within("observables"):
            for shard, more in measure(self._model, corpus, fed, self._settings, 0, advance, self._shrunk):
                counts = counts + more
                self._clock.take("forward", more.model_seconds)
                if shard.stop < part.stop:
                    with self._clock.within("store"):
                        saver.save(observables, counts, shard.index + 1)
        return counts

    def _shrunk(self, tokens: int) -> None:
        safe, checkpoint = self._passes.safe, self._of.checkpoint
        if checkpoint.fingerprint not in safe:
            self._passes.progress.note(f"  {checkpoint.model}: memory is short; going on in smaller batches")
        safe[checkpoint.fingerprint] = max(1, tokens)


class _Advance:
    """Tells how many tokens more are done, and can take it back."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance, self._tokens = advance, 0

    def __call__(self, tokens: int) -> None:
        self._tokens += tokens
        self._advance(tokens)

    def take_back(self) -> None:
        self._advance(-self._tokens)


def _tokenised(model: LoadedModel | SavedStates, of: Pass, passes: Passes) -> TokenisedCorpus:
    folder = passes.cache / FOLDERS["tokens"]
    name = tokens_name(model, of.texts, of.max_tokens, of.windows, of.chat)
    with ExitStack() as stack:
        if name and not (folder / name / SEAL).exists():
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(held(lock_of(folder / name), f"tokens of {of.texts.name}", passes.progress.note))
        return tokenised(model, of.texts, of.max_tokens, folder, of.windows, of.chat)


def _unfed(model: LoadedModel | SavedStates) -> dict[str, str]:
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
    if isinstance(model, SavedStates) or not any(KINDS[name].reads_head for name in wanted):
        return None, ""
    try:
        readout = Readout(model, load_head(model.checkpoint, model, offline))
    except ReporterError as error:
        return None, str(error)
    return readout, readout.loss_problem or readout.lens_problem


def unknown_warning(model: LoadedModel | SavedStates, corpus: str, counted: TypeCounts) -> str:
    """Return a warning of a corpus of which much is unknown to the tokenizer; empty mostly."""
    unknown = None if isinstance(model, SavedStates) else getattr(model.tokenizer, "unk_token_id", None)
    if unknown is None or not 0 <= unknown < len(counted.counts):
        return ""
    lost, total = int(counted.counts[unknown]), int(counted.counts.sum())
    if lost <= UNKNOWN * total:
        return ""
    return f"{100 * lost / total:.0f} % of the tokens of corpus '{corpus}' are unknown to the tokenizer"


SAVE_EVERY = 20.0  # seconds of work are worth saving
MOST_SAVING = 0.05  # of the time of a pass may go into saving unfinished work


class _Saver:
    """Saves unfinished work after a shard, every ``SAVE_EVERY`` seconds and at no more cost than ``MOST_SAVING``."""

    def __init__(self, save: Callable[[Mapping[str, Observable], Counts, int], None]) -> None:
        self._save = save
        self._cost = 0.0
        self._last = time.perf_counter()

    def save(self, observables: Mapping[str, Observable], counts: Counts, next_shard: int) -> None:
        began = time.perf_counter()
        if began - self._last < max(SAVE_EVERY, self._cost / MOST_SAVING):
            return
        self._save(observables, counts, next_shard)
        self._last = time.perf_counter()
        self._cost = self._last - began


def _minus(counts: Counts, before: Counts) -> Counts:
    return Counts(*(getattr(counts, f.name) - getattr(before, f.name) for f in fields(Counts)))
