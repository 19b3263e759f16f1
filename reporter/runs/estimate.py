"""What the cells that must run will take: time, memory and disk, before anything is loaded.

Every part declares its work in operations (:mod:`reporter.effort`); how long that takes follows from how fast this
machine is (:mod:`reporter.runs.machine`). What the few constants here hold was fitted on pretrained models of 6 blocks
of 384 and of 30 blocks of 576; ``python tests/benchmarks/speed.py --only plan`` compares an estimate with a run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.effort import STATE, Effort, Scale
from reporter.runs.plan import PRECISIONS, AnalysisCell, MetricCell, Pass, or_raise
from reporter.runs.sizes import ADDED, TOKENS_PER_WORD, Size, size_of, tokens_of

if TYPE_CHECKING:
    from reporter.forward.precision import Precision
    from reporter.models.checkpoint import Checkpoint
    from reporter.runs.kept import Wanted
    from reporter.runs.machine import Machine
    from reporter.runs.plan import Plan

# Fitted: how the whole compares with what is counted.
FORWARD = 1.5  # over the products of the blocks: embedding, padding, finding sinks, copies
TRAINING = 5.5  # a step over a forward pass of its tokens: backward, gradients, the optimiser
ANALYSING = 1.2  # texts of an analysis are short

# Small calls, in which the time of fixed work is said, so that it follows the machine.
START = 45e6  # importing, planning, opening the database
LOADING = 15e6  # reading a model and testing it, beside reading its weights
REPORTING = 15e6  # a page
CHARTING = 3e6  # the charts of a metric on a corpus
STORING = 0.3e6  # a cell
STEP = 30e3  # a step of training, for each block
PAGES = 2.0  # readings of the weights when a model is loaded and tested

TOKENS_PER_TYPE = 40  # English: tokens for each type that occurs five times or more

# Bytes.
PROGRAM = 0.75e9  # Python with the libraries, and what they have loaded by the first pass
BATCH = 3.0  # a batch's states at all places, and what a block makes of them, in states at one place each
KEPT = 2.0  # observables while they are fed, over their compact form
WORKING = 8.0  # searches side by side, and what else goes through a sample, in float32 matrices of all pairs
DATABASE = 3e6  # an empty one, and the page's scripts
PAGE = 60e3  # a metric's rows and charts, for each place and view


@dataclass(frozen=True)
class Part:
    """A part of a run.

    Args:
        name: what is done.
        seconds: how long it takes.
        memory: the most bytes that it holds at once, the program itself included.
        disk: bytes that it leaves.
        said: how much there is to do, in words.
    """

    name: str
    seconds: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    said: str = ""


@dataclass(frozen=True)
class Estimate:
    """What a plan will take.

    Args:
        parts: of the run, in their order; those in which nothing is to be done are left out.
        tokens: tokens through models, over all passes.
        passes: passes over a corpus whose observables are not kept.
        analyses: cells of analyses.
        analysed: tokens through models for these.
        unknown: models that are not counted, since their size is not known before they are downloaded.
        machine: how fast this machine is, in words.
    """

    parts: tuple[Part, ...] = ()
    tokens: int = 0
    passes: int = 0
    analyses: int = 0
    analysed: int = 0
    unknown: tuple[str, ...] = ()
    machine: str = ""

    @property
    def seconds(self) -> float:
        """How long all parts take together."""
        return sum(part.seconds for part in self.parts)

    @property
    def memory(self) -> float:
        """The most bytes that one of them holds."""
        return max((part.memory for part in self.parts), default=0.0)

    @property
    def disk(self) -> float:
        """The bytes that all of them leave."""
        return sum(part.disk for part in self.parts)

    def lines(self) -> list[str]:
        """Say it for people: a line for each part, and the whole."""
        if not self.parts:
            return ["nothing to measure"]
        rows = [("estimated", "time", "memory", "disk", "")]
        for part in self.parts:
            disk = _bytes(part.disk) if part.disk else "–"
            rows.append((part.name, _duration(part.seconds), _bytes(part.memory), disk, part.said))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [
            f"{row[0]:<{widths[0]}}  " + "  ".join(f"{row[i]:>{widths[i]}}" for i in (1, 2, 3)) + f"  {row[4]}"
            for row in rows
        ]
        if self.unknown:
            lines.append(f"without {', '.join(self.unknown)}: how large a model is is known once its files are here")
        lines.append(
            f"in all about {_duration(self.seconds)}, {_bytes(self.memory)} of memory and {_bytes(self.disk)} on disk "
            f"({self.machine})"
        )
        return [line.rstrip() for line in lines]


def estimate(plan: Plan, cache: Path, machine: Machine | None = None) -> Estimate:
    """Estimate what a plan's cells will take.

    Args:
        plan: the plan.
        cache: the folder of caches: what is kept there is not done again.
        machine: how fast the machine is; this one if left out.
    """
    todo = [cell for cell in plan.cells if cell.state == "run"]
    if not any(isinstance(cell, MetricCell | AnalysisCell) for cell in todo):
        return Estimate()
    if machine is None:
        from reporter.runs.machine import this_machine
        from reporter.runs.work import pick_device

        machine = this_machine(cache, pick_device(plan.file.study.run.device))
    return _Estimator(plan, cache, machine).whole()


class _Estimator:
    def __init__(self, plan: Plan, cache: Path, machine: Machine) -> None:
        self.plan, self.cache, self.machine = plan, cache, machine
        self.study = plan.file.study
        todo = [cell for cell in plan.cells if cell.state == "run"]
        self.metrics = [cell for cell in todo if isinstance(cell, MetricCell)]
        self.analyses = [cell for cell in todo if isinstance(cell, AnalysisCell)]
        self.unknown: dict[str, None] = {}

    def whole(self) -> Estimate:
        """Return what everything takes."""
        training = self._training()
        tokens, passes, passing, loaded = self._passes()
        computing = self._computing()
        analysed, analysing = self._analyses(loaded)
        found = (training, passing, analysing, computing, self._reporting())
        return Estimate(
            tuple(replace(part, memory=PROGRAM + part.memory) for part in found if part.seconds),
            tokens,
            passes,
            len(self.analyses),
            analysed,
            tuple(self.unknown),
            self.machine.line(),
        )

    def _size(self, checkpoint: Checkpoint) -> Size | None:
        size = size_of(checkpoint)
        if size is None:
            self.unknown[checkpoint.model] = None
        return size

    def _scale(self, of: Pass, size: Size) -> Scale:
        places = size.layers + 1 + ("final" in of.sites) + size.layers * ("attention" in of.sites)
        tokens = tokens_of(of.checkpoint, of.texts, of.max_tokens, of.windows)
        return Scale(len(of.texts), tokens, places, size.width, len(self.study.views), size.vocabulary)

    def _forward(self, checkpoint: Checkpoint, size: Size, tokens: float, length: float, precision: Precision) -> float:
        if checkpoint.states:  # which are read
            return tokens * size.layers * size.width * STATE / self.machine.reading
        return FORWARD * tokens * size.operations(length) / self.machine.rate(precision, size.width)

    def _precision(self, checkpoint: Checkpoint, size: Size) -> Precision:
        import torch

        from reporter.forward.precision import expected
        from reporter.runs.work import pick_device

        asked = self.study.run.precision
        return expected(asked, size.width, torch.device(pick_device(self.study.run.device)))

    def _passes(self) -> tuple[int, int, Part, set[str]]:
        """Return tokens, passes, what they take, and the checkpoints that are loaded for them."""
        from reporter.runs.passes import wanted_by

        of_pass: dict[Any, list[MetricCell]] = defaultdict(list)
        for cell in self.metrics:
            if not cell.compares:  # both sides have cells of their own
                of_pass[cell.key[:3]].append(cell)
        tokens = passes = 0
        seconds = memory = disk = 0.0
        loaded: set[str] = set()
        for cells in of_pass.values():
            of, size = cells[0].passes[0], self._size(cells[0].passes[0].checkpoint)
            if size is None:
                continue
            wanted = self._missing(of, wanted_by((cell.metric, cell.options, cell.views) for cell in cells))
            if not wanted:
                continue
            scale, precision = self._scale(of, size), self._precision(of.checkpoint, size)
            seconds += self._forward(of.checkpoint, size, scale.tokens, scale.length, precision)
            seconds += self.machine.seconds(self._watching(wanted, scale), size.width)
            if of.checkpoint.fingerprint + of.checkpoint.model not in loaded:
                loaded.add(of.checkpoint.fingerprint + of.checkpoint.model)
                seconds += self._loading(size)
            tokens, passes = tokens + scale.tokens, passes + 1
            kept, left = self._kept(of, size, wanted, scale)
            batch = min(scale.tokens, self.study.run.batch_tokens)
            held = 4 * size.parameters + STATE * batch * size.width * (scale.places + BATCH * size.inner / size.width)
            memory, disk = max(memory, held + KEPT * kept), disk + left + 8 * scale.tokens
        return tokens, passes, Part("passes", seconds, memory, disk, _many(tokens, passes, "pass", "passes")), loaded

    def _missing(self, of: Pass, wanted: Wanted) -> Wanted:
        """Return what of some observables is not kept in either precision, where it is open."""
        from reporter.runs.cache import FOLDERS
        from reporter.runs.kept import Kept

        folder = self.cache / FOLDERS["pass"]
        ways = [of.settled(precision) for precision in PRECISIONS]
        return min((Kept(folder, way.inputs).missing(wanted) for way in ways), key=len)

    def _watching(self, wanted: Wanted, scale: Scale) -> Effort:
        from reporter.observables.kinds import KINDS

        found = Effort()
        for name, want in wanted.items():
            found += KINDS[name].effort(scale, want.size)
        return found

    def _kept(self, of: Pass, size: Size, wanted: Wanted, scale: Scale) -> tuple[int, int]:
        """Return the bytes of the observables of a pass while the study runs, and of those that it leaves."""
        from reporter.forward.places import Layout
        from reporter.runs.kept import bytes_kept, stays

        final = size.width if "final" in of.sites else None
        layout = Layout(size.layers, size.width, final, "attention" in of.sites)
        strata = scale.tokens - (ADDED + 1) * scale.texts, ADDED * scale.texts, scale.texts
        types = dict.fromkeys(range(scale.tokens // TOKENS_PER_TYPE), 10)
        found = bytes_kept(layout, wanted, [max(0, tokens) for tokens in strata], scale.texts, types)
        left = {name: size for name, size in found.items() if stays(name, self.study.run.keep)}
        return sum(found.values()), sum(left.values())

    def _loading(self, size: Size) -> float:
        return self.machine.step * LOADING + PAGES * STATE * size.parameters / self.machine.reading

    def _computing(self) -> Part:
        """Return what metrics take on what is kept, once it is there."""
        seconds = memory = 0.0
        for cell in self.metrics:
            of, size = cell.passes[0], self._size(cell.passes[0].checkpoint)
            if size is None:
                continue
            scale = self._scale(of, size)
            seconds += self.machine.seconds(cell.metric.effort(scale, cell.options), size.width)
            points = min(scale.tokens, getattr(cell.options, "sample", 0))
            memory = max(memory, 4 * size.parameters + WORKING * STATE * points**2)
        return Part("metrics", seconds, memory, 0.0, _count(len(self.metrics), "cell", "cells"))

    def _analyses(self, loaded: set[str]) -> tuple[int, Part]:
        analysed, seconds, memory = 0, 0.0, 0.0
        for cell in self.analyses:
            size = self._size(cell.checkpoint)
            if size is None:
                continue
            read = _read(cell)
            analysed += read.tokens
            places = size.layers + 2 + size.layers * ("attention" in cell.sites)
            scale = Scale(read.texts, read.tokens, places, size.width, 1, size.vocabulary)
            seconds += ANALYSING * self._forward(cell.checkpoint, size, read.tokens, scale.length, "float32")
            seconds += self.machine.seconds(cell.analysis.effort(scale, cell.item), size.width)
            if cell.checkpoint.fingerprint + cell.checkpoint.model not in loaded:
                loaded.add(cell.checkpoint.fingerprint + cell.checkpoint.model)
                seconds += self._loading(size)
            memory = max(memory, 4 * size.parameters + 2 * STATE * read.texts * places * size.width)
        return analysed, Part("analyses", seconds, memory, 0.0, _many(analysed, len(self.analyses), "cell", "cells"))

    def _training(self) -> Part:
        """Return what training takes, of recipe models that are not trained, and of those that they continue."""
        import torch

        from reporter.models.pocket import trains_beside

        lacks: dict[Path | None, tuple[Checkpoint, ...]] = {}
        for cell in self.metrics:
            for of in cell.passes:
                base = self.plan.baselines.get(of.checkpoint.model)
                found = self.plan.checkpoints[base.base if base else of.checkpoint.model]
                _untrained(or_raise(found), lacks)
        for other in self.analyses:
            _untrained(or_raise(self.plan.checkpoints.get(other.checkpoint.model, ())), lacks)
        memory = disk = 0.0
        steps = 0
        narrow, wide = [0.0], 0.0  # seconds of those that share the cores, one each, and of those that take all
        beside = min(torch.get_num_threads(), max(1, sum(trains_beside(found[-1]) for found in lacks.values())))
        for checkpoints in lacks.values():
            recipe = checkpoints[-1].recipe
            assert recipe is not None
            size = size_of(checkpoints[-1])
            assert size is not None
            last = max(recipe.checkpoints)
            tokens, rate = recipe.batch * recipe.context, self.machine.rate("float32", size.width)
            known = checkpoints[-1].training_texts
            words = TOKENS_PER_WORD * known.words / max(1, len(known)) + 2 if known is not None else recipe.context
            tokens = int(recipe.batch * min(recipe.context, words))
            head = (
                2
                * size.width
                * min(size.vocabulary, 2000)
                * (1.0 if recipe.architecture in ("gpt2", "llama") else recipe.mask_share)
            )
            each = TRAINING * tokens * (size.operations(recipe.context) + head) / rate
            alone = last * (each + STEP * size.layers * self.machine.step)
            if trains_beside(checkpoints[-1]):
                narrow.append(alone)
            else:
                wide += alone
            steps += last
            held = STATE * size.parameters
            memory = max(memory, beside * (4 * held + 40 * STATE * tokens * size.width * size.layers))
            disk += held * len(recipe.checkpoints)
        seconds = wide + max(sum(narrow) / beside, *narrow)
        return Part("training", seconds, memory, disk, f"{steps:,} steps of {_count(len(lacks), 'model', 'models')}")

    def _reporting(self) -> Part:
        names = {(cell.key.metric, cell.key.corpus) for cell in (*self.metrics, *self.analyses)}
        cells = len(self.metrics) + len(self.analyses)
        seconds = self.machine.step * (START + REPORTING + CHARTING * len(names) + STORING * cells)
        disk = DATABASE
        for cell in self.metrics:
            size = size_of(cell.passes[0].checkpoint)
            disk += PAGE * len(self.study.views) * (size.layers / 10 if size else 1)
        return Part("start, report", seconds, 0.2e9, disk, f"charts of {_count(len(names), 'metric', 'metrics')}")


def _untrained(found: tuple[Checkpoint, ...], lacks: dict[Path | None, tuple[Checkpoint, ...]]) -> None:
    open_ = [one for one in found if one.recipe is not None and one.loss is None and one.initialised is None]
    if open_:
        _untrained(open_[0].origin, lacks)
        lacks[open_[0].path] = found


@dataclass(frozen=True)
class Load:
    """What goes through a model for a cell of an analysis.

    Args:
        tokens: all of them.
        texts: texts, of each of which one vector is kept at each place.
    """

    tokens: int
    texts: int


def _read(cell: AnalysisCell) -> Load:
    """Estimate what a cell of an analysis reads: samples of its corpora, or the texts that its item holds."""
    tokens = texts = 0
    for corpus in cell.corpora.values():
        there = len(corpus.texts)
        drawn = min(getattr(cell.item, "sample", there), there)
        texts += drawn
        tokens += tokens_of(cell.checkpoint, corpus.texts, corpus.max_tokens) * drawn // max(there, 1)
    if not cell.corpora:
        written = list(_strings(cell.settings))
        texts = len(written)
        tokens = int(sum(len(text.split()) for text in written) * TOKENS_PER_WORD)
    return Load(tokens * cell.analysis.rounds, texts * cell.analysis.rounds)


def _strings(item: Any) -> Iterator[str]:
    if isinstance(item, str):
        yield item
    elif isinstance(item, Mapping | list):
        for part in item.values() if isinstance(item, Mapping) else item:
            yield from _strings(part)


def _many(tokens: int, number: int, one: str, many: str) -> str:
    return f"{tokens:,} tokens in {_count(number, one, many)}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _bytes(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"
