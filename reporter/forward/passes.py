"""Gets the observables of one checkpoint on one corpus: from disk, from the ranges that are done, or by a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reporter.forward.feeding import Feeding
from reporter.forward.inputs import FOLDERS, PRECISIONS, Pass, note_rate, warnings
from reporter.forward.kept import Kept, Parts, PassFacts, Wanted
from reporter.forward.measure import Chosen, Counts, settle_precision
from reporter.forward.observed import Observed
from reporter.texts.tokens import ranges, shards

if TYPE_CHECKING:
    from pathlib import Path

    from reporter.core.progress import Progress
    from reporter.forward.observable import Observable
    from reporter.models.load import LoadedModel
    from reporter.models.states import SavedStates
    from reporter.spec.study import Keep

Loading = Callable[[], "LoadedModel | SavedStates"]


@dataclass(frozen=True)
class Measured:
    """What was measured in a pass."""

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
    """Does passes on this machine, and keeps what they leave."""

    cache: Path
    batch_tokens: int
    offline: bool
    progress: Progress
    device: str = "cpu"
    keep: Keep = "all"
    safe: dict[str, int] = field(default_factory=dict)  # tokens in a batch, by fingerprint, where memory was short
    _said: set[str] = field(default_factory=set)  # what was warned of already

    def measured(self, of: Pass, wanted: Wanted, load: Loading) -> Measured:
        """Return observables of a pass; the corpus goes through the model at most once."""
        of, chosen = self.settled(of, wanted, load)
        kept = self._kept(of)
        with kept.locked(str(of), self.progress.note):
            with self.progress.clock.within("store"):
                kept.heal(wanted)
                missing = kept.missing(wanted)
            forward = Counts()
            if missing:
                forward = self._complete(kept, missing, of, load, chosen)
                note_rate(self.cache, self.device, of.checkpoint, forward.tokens, forward.seconds)
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
        """Return what feeds ranges of a pass; the corpus is tokenised if it was not yet."""
        chosen = chosen or settle_precision(of.precision, model, of.texts, of.max_tokens)
        return Feeding(of, wanted, model, chosen, self._kept(of).facts(), self)

    def _complete(self, kept: Kept, missing: Wanted, of: Pass, load: Loading, chosen: Chosen | None) -> Counts:
        """Have every range of a pass fed, merge what they left, and return what went through the model for it."""
        todo, parts, forward = ranges(shards(of.texts)), self.parts(of, missing), Counts()
        facts = {span.index: parts.facts(span) for span in todo}
        lacks, clock = [span for span in todo if facts[span.index] is None], self.progress.clock
        if lacks:
            feeding = self.feeding(of, parts.wanted, load(), chosen)
            done = sum(map(parts.tokens, todo))
            with self.progress.step(str(of), feeding.tokens, "tokens", done) as step:
                for span in lacks:
                    fed = feeding.feed(span, parts, step.advance)
                    forward += fed.forward
                    with clock.within("store"):
                        if len(todo) == 1:  # needs no file to be merged from
                            self._finish(kept, of, missing, fed.observables.items(), fed.facts, feeding.called, parts)
                            return forward
                        parts.write(span, fed.observables, fed.facts, feeding.called)
                    facts[span.index] = fed.facts
        with clock.within("store"):
            whole = PassFacts.merged([of_range for of_range in facts.values() if of_range is not None])
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
        longest, counts = facts.anatomy.get("max_tokens"), facts.counts
        if of.windows and counts.windows > counts.texts:
            size, stride = (windows := of.windows.within(longest)).size, windows.stride
            message = f"{counts.texts:,} texts in {counts.windows:,} windows of at most {size} tokens"
            self.progress.note(f"  {of}: {message}, each begun {stride} after the last; every token counts once")
        if cut := counts.cut_texts:
            limit = of.max_tokens if longest is None else min(of.max_tokens, longest)
            of_model = f", all that the model takes (max_tokens: {of.max_tokens})," * (limit < of.max_tokens)
            share = f"{cut:,} of {counts.texts:,} texts ({cut / counts.texts:.0%})"
            self.progress.note(f"  {of}: {share} are longer than {limit} tokens{of_model} and were cut there")
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
