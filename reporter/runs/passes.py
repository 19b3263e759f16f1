"""Gets the observables of one checkpoint on one corpus: from disk, from the ranges that are done, or by a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reporter.forward.measure import Counts, settle_precision
from reporter.observables.kinds import KINDS
from reporter.observables.observed import Observed
from reporter.runs.cache import FOLDERS
from reporter.runs.feeding import Feeding, How
from reporter.runs.kept import Kept, PassFacts, Want, Wanted
from reporter.runs.parts import Parts
from reporter.runs.plan import PRECISIONS
from reporter.runs.records import warnings
from reporter.texts.ranges import ranges
from reporter.texts.tokens import shards

if TYPE_CHECKING:
    from pathlib import Path

    from reporter.forward.precision import Chosen
    from reporter.metrics.base import Metric, Options
    from reporter.models.load import LoadedModel
    from reporter.models.states import SavedStates
    from reporter.observables.observable import Observable
    from reporter.runs.plan import Pass
    from reporter.runs.progress import Progress
    from reporter.spec.run import Keep

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
    _said: set[str] = field(default_factory=set)  # what was warned of already

    def measured(self, of: Pass, wanted: Wanted, load: Loading) -> Measured:
        """Return observables of a pass; the corpus goes through the model at most once.

        Args:
            of: the pass. Where it leaves the precision open, observables that are at hand in either will do; if some
                are missing, the model decides on a few texts.
            wanted: the observables.
            load: loads the checkpoint; called only where the model is needed.
        """
        of, chosen = self.settled(of, wanted, load)
        kept = self._kept(of)
        with kept.locked(str(of), self.progress.note):
            with self.progress.clock.within("store"):
                kept.heal(wanted)
                missing = kept.missing(wanted)
            forward = Counts()
            if missing:
                forward = self._complete(kept, missing, of, load, chosen)
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

    def settled(self, of: Pass, wanted: Wanted, load: Loading) -> tuple[Pass, Chosen | None]:
        """Return a pass in the precision in which it is done, and how that was found out if it was just now.

        What is at hand decides, in either precision, then what was begun; else the model, on a few texts.
        """
        if of.precision != "auto":
            return of, None
        ways = [of.settled(precision) for precision in PRECISIONS]
        lacks = {way.precision: self._kept(way).missing(wanted) for way in ways}
        for way in ways:
            if not lacks[way.precision]:
                return way, None
        begun = {way.precision: self.parts(way, lacks[way.precision]) for way in ways}
        if any(parts.begun for parts in begun.values()):
            return max(ways, key=lambda way: (begun[way.precision].begun, begun[way.precision].count)), None
        chosen = settle_precision("auto", load(), of.texts, of.max_tokens)
        return of.settled(chosen.precision), chosen

    def missing(self, of: Pass, wanted: Wanted) -> Wanted:
        """Return what is not kept of a pass whose precision is settled."""
        return self._kept(of).missing(wanted)

    def parts(self, of: Pass, wanted: Wanted) -> Parts:
        """Return the ranges of a pass in which some observables are fed."""
        return Parts.of(self._kept(of).folder, wanted)

    def feeding(self, of: Pass, wanted: Wanted, model: LoadedModel | SavedStates, chosen: Chosen | None) -> Feeding:
        """Return what feeds ranges of a pass; the corpus is tokenised if it was not yet.

        Args:
            of: the pass, its precision settled.
            wanted: how much of each observable.
            model: loaded.
            chosen: how the precision was settled, if it was just now.
        """
        chosen = chosen or settle_precision(of.precision, model, of.texts, of.max_tokens)
        how = How(self.cache, self.batch_tokens, self.offline, self.progress, self._safe)
        return Feeding(of, wanted, model, chosen, self._kept(of).facts(), how)

    def _complete(self, kept: Kept, missing: Wanted, of: Pass, load: Loading, chosen: Chosen | None) -> Counts:
        """Have every range of a pass fed, merge what they left, and return what went through the model for it."""
        todo, parts, forward = ranges(shards(of.texts)), self.parts(of, missing), Counts()
        facts = {one.index: parts.facts(one) for one in todo}
        lacks, clock = [one for one in todo if facts[one.index] is None], self.progress.clock
        if lacks:
            feeding = self.feeding(of, parts.wanted, load(), chosen)
            done = sum(map(parts.tokens, todo))
            with self.progress.step(str(of), feeding.tokens, "tokens", done) as step:
                for one in lacks:
                    fed = feeding.feed(one, parts, step.advance)
                    forward += fed.forward
                    with clock.within("store"):
                        if len(todo) == 1:  # needs no file to be merged from
                            self._finish(kept, of, missing, fed.observables.items(), fed.facts, feeding.called, parts)
                            return forward
                        parts.write(one, fed.observables, fed.facts, feeding.called)
                    facts[one.index] = fed.facts
        with clock.within("store"):
            whole = PassFacts.merged([found for found in facts.values() if found is not None])
            self._finish(kept, of, missing, parts.merged(todo), whole, parts.called(todo[0]), parts)
        return forward

    def _finish(
        self,
        kept: Kept,
        of: Pass,
        missing: Wanted,
        observables: Iterable[tuple[str, Observable]],
        facts: PassFacts,
        called: Mapping[str, str],
        parts: Parts,
    ) -> None:
        own, counts = facts.anatomy.get("max_tokens"), facts.counts
        if of.windows and counts.windows > counts.texts:
            size, stride = (windows := of.windows.within(own)).size, windows.stride
            said = f"{counts.texts:,} texts in {counts.windows:,} windows of at most {size} tokens"
            self.progress.note(f"  {of}: {said}, each begun {stride} after the last; every token counts once")
        if cut := counts.cut_texts:
            limit = of.max_tokens if own is None else min(of.max_tokens, own)
            share = f"{cut:,} of {counts.texts:,} texts ({cut / counts.texts:.0%})"
            self.progress.note(f"  {of}: {share} are longer than {limit} tokens and were cut there")
        if strained := strained_warning(counts, of.texts.name):
            facts = replace(facts, warning=warnings(strained, facts.warning) or "")
        for warning in facts.warning.splitlines():
            if warning not in self._said:  # other checkpoints would say the same; the report has all
                self._said.add(warning)
                self.progress.note(f"  {of}: {warning}")
        kept.finish(((n, x) for n, x in observables if n in missing), parts.wanted, facts, self.keep, called)
        parts.remove()


def strained_warning(counts: Counts, corpus: str) -> str:
    """Return a warning of states at the end of float16's range; empty mostly."""
    if not counts.strained:
        return ""
    return (
        f"{counts.strained:,} of {counts.tokens:,} tokens of corpus '{corpus}' have a state within a tenth of the "
        "end of float16's range, where it is clamped or lost; write `dtype: float32` or `dtype: bfloat16`"
    )


def wanted_by(chosen: Iterable[tuple[Metric, Options, Sequence[str]]]) -> dict[str, Want]:
    """Return the observables that some metrics need under some views, each as large as the most demanding one asks."""
    wanted: dict[str, Want] = {}
    for metric, options, views in chosen:
        for name in metric.needs:
            size = options.size_of(name) if KINDS[name].bounded != "no" else 0
            wanted[name] = wanted.get(name, Want()) | Want(size, tuple(views) if KINDS[name].tells_views else ())
    return wanted
