"""Gets the observables of one checkpoint on one corpus: from disk, by a pass, or by finishing a killed one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from reporter.errors import ReporterError
from reporter.forward.measure import Counts, Settings, measure, settle_precision
from reporter.forward.places import Layout, Site
from reporter.forward.readout import Readout, Vocabulary
from reporter.forward.strata import SinkRule
from reporter.forward.type_counts import count_types
from reporter.models.head import load_head
from reporter.models.states import NO_MODEL, SavedStates
from reporter.observables.kinds import KINDS
from reporter.observables.setting import Setting
from reporter.observables.type_moments import FEWEST_OCCURRENCES
from reporter.runs.kept import Kept, PassFacts, Wanted

if TYPE_CHECKING:
    from pathlib import Path

    from reporter.metrics.base import Metric, Options
    from reporter.models.load import LoadedModel
    from reporter.observables.observable import Observable
    from reporter.runs.plan import Side
    from reporter.runs.progress import Progress
    from reporter.spec.reading import SinkSpec
    from reporter.spec.run import RunSpec
    from reporter.texts import Texts


@dataclass(frozen=True)
class Measured:
    """Observables of one checkpoint on one corpus.

    Args:
        observables: by name.
        facts: what is known of the pass that made them.
        forward: what went through the model in this run; nothing where all was at hand.
    """

    observables: Mapping[str, Observable]
    facts: PassFacts
    forward: Counts


def measured(
    side: Side,
    wanted: Wanted,
    model: Callable[[], LoadedModel | SavedStates],
    texts: Texts,
    run: RunSpec,
    max_tokens: int,
    sinks: SinkRule,
    sites: tuple[Site, ...],
    folder: Path,
    offline: bool,
    progress: Progress,
) -> Measured:
    """Return what the cells need, running at most one pass.

    Args:
        side: the checkpoint and the corpus.
        wanted: the observables.
        model: loads the checkpoint; called only if a pass is needed.
        texts: the corpus.
        run: device, precision, batch size, seed.
        max_tokens: where texts are cut.
        sinks: which tokens are sinks.
        sites: where states are read.
        folder: where observables are kept.
        offline: never ask a hub.
        progress: where the pass is shown.
    """
    kept = Kept(folder, side.of_pass)
    with kept.locked(_name(side), progress.note):
        missing = kept.missing(wanted)
        forward = Counts()
        if missing:
            part = {name: wanted[name] for name in missing}
            forward = _pass(kept, part, side, model(), texts, run, max_tokens, sinks, sites, offline, progress)
        facts = kept.facts()
        assert facts is not None  # either it was there or the pass wrote it
        return Measured(kept.load(wanted), facts, forward)


def _pass(
    kept: Kept,
    wanted: Wanted,
    side: Side,
    model: LoadedModel | SavedStates,
    texts: Texts,
    run: RunSpec,
    max_tokens: int,
    sinks: SinkRule,
    sites: tuple[Site, ...],
    offline: bool,
    progress: Progress,
) -> Counts:
    chosen = settle_precision(run.precision, model, texts, max_tokens)
    anatomy = model.anatomy
    layout = Layout.of(anatomy, sites)
    counted = count_types(model, texts, max_tokens, run.seed)
    found = kept.unfinished(wanted)
    if found is None:
        types = counted.at_least(FEWEST_OCCURRENCES)
        in_all = int(counted.counts.sum() + counted.added.sum())
        ids = np.flatnonzero(counted.counts + counted.added).tolist()
        names = dict(zip(ids, map(str, model.tokenizer.convert_ids_to_tokens(ids)), strict=True))
        observables = {
            name: KINDS[name].empty(Setting(layout, run.seed, len(texts), size, types, names, in_all, counted.splits))
            for name, size in wanted.items()
        }
        counts, first = Counts(), 0
    else:
        observables, counts, first = found.observables, found.counts, found.next_shard
        progress.note(f"  {side.model} × {side.corpus}: going on after {counts.texts:,} texts")
    before = counts
    readout, problem = _readout(model, wanted, offline)
    unfed = _unfed(model)
    known = kept.facts()
    if known is not None and not any(KINDS[name].reads_head for name in wanted):
        problem = known.head_problem  # of an earlier pass, whose observables are still read
    settings = Settings(
        max_tokens=max_tokens,
        batch_tokens=run.batch_tokens,
        seed=run.seed,
        precision=chosen.precision,
        layout=layout,
        frequent=counted.frequent,
        shuffled=bool(side.of_pass["shuffled"]),
        readout=readout,
        losses="losses" in wanted,
        vocabulary=_vocabulary(model, wanted),
        sinks=sinks,
    )
    saver = _Saver(kept, wanted)
    with progress.step(_name(side), len(texts), "texts") as step:
        step.advance(counts.texts)
        fed = [observable for name, observable in observables.items() if name not in unfed]
        for shard, more in measure(model, texts, fed, settings, first, step.advance):
            counts = counts + more
            if shard.stop < len(texts):
                saver.save(observables, counts, shard.index + 1)
        device = str(model.device)
        facts = PassFacts(asdict(anatomy), layout, counts, device, chosen.precision, chosen.deviation, problem, unfed)
        kept.finish(observables, wanted, facts)
    return _minus(counts, before)


def wanted_by(chosen: Iterable[tuple[Metric, Options]]) -> dict[str, int]:
    """Return the observables that some metrics need, each of the size that the most demanding one asks for."""
    wanted: dict[str, int] = {}
    for metric, options in chosen:
        for name in metric.needs:
            size = options.size_of(name) if KINDS[name].bounded != "no" else 0
            wanted[name] = max(wanted.get(name, 0), size)
    return wanted


def _name(side: Side) -> str:
    return f"{side.model} {side.checkpoint} × {side.corpus}"


def sink_rule(spec: SinkSpec) -> SinkRule:
    """Return the rule that a study asks for."""
    if spec.factor is None:
        return SinkRule() if spec.dominance is None else SinkRule(spec.dominance)
    return SinkRule(spec.dominance, spec.factor)


def _unfed(model: LoadedModel | SavedStates) -> dict[str, str]:
    """Return which observables cannot see anything of this model, and why: of some there are only states."""
    if not isinstance(model, SavedStates):
        return {}
    typed = {name: model.unfed for name, kind in KINDS.items() if kind.reads_types and model.unfed}
    return typed | {name: NO_MODEL for name, kind in KINDS.items() if kind.reads_head or kind.reads_vocabulary}


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


MOST_SAVING = 0.05  # of the time of a pass may go into saving unfinished work


class _Saver:
    """Saves unfinished work after a shard, unless saving would cost more than ``MOST_SAVING`` of the time."""

    def __init__(self, kept: Kept, wanted: Wanted) -> None:
        self._kept, self._wanted = kept, wanted
        self._cost = 0.0
        self._last = time.perf_counter()

    def save(self, observables: Mapping[str, Observable], counts: Counts, next_shard: int) -> None:
        began = time.perf_counter()
        if (began - self._last) * MOST_SAVING < self._cost:
            return
        self._kept.save_unfinished(observables, self._wanted, counts, next_shard)
        self._last = time.perf_counter()
        self._cost = self._last - began


def _minus(counts: Counts, before: Counts) -> Counts:
    return Counts(*(getattr(counts, f.name) - getattr(before, f.name) for f in fields(Counts)))
