"""A guess, before anything is loaded, of what the cells that must run will take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reporter.runs.plan import AnalysisCell, MetricCell

if TYPE_CHECKING:
    from reporter.analyses.base import Corpus
    from reporter.models.checkpoint import Checkpoint
    from reporter.runs.plan import Pass, Plan

FLOPS = 100e9  # what a few CPU cores do in float32; a GPU does a thousand times that
TOKENS_PER_WORD = 1.35  # of English under the usual sub-word tokenizers
SAMPLES = {"tokens", "type_sample", "pooled"}  # observables that keep states
_DEPTH_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "dim")


@dataclass(frozen=True)
class Estimate:
    """What a plan will take.

    Args:
        tokens: tokens through models, over all passes.
        passes: passes over a corpus.
        analyses: cells of analyses.
        analysed: tokens through models for these.
        memory: bytes of the largest model's weights, observables and one batch; None if no size is known.
        seconds: of what goes through models at ``FLOPS``; None if a size is not known.
    """

    tokens: int
    passes: int
    analyses: int
    analysed: int
    memory: int | None
    seconds: float | None

    def line(self) -> str:
        """Say it in one line."""
        parts = []
        if self.passes:
            parts.append(
                f"{self.tokens:,} tokens in {_many(self.passes, 'pass', 'passes')}, unless observables are cached"
            )
        if self.analyses:
            parts.append(f"{self.analysed:,} tokens in {_many(self.analyses, 'cell', 'cells')} of analyses")
        if not parts:
            return "nothing to measure"
        said = f"about {', and '.join(parts)}"
        if self.memory is not None:
            said += f"; {self.memory / 2**30:.1f} GiB of memory"
        if self.seconds is not None:
            said += f"; {_duration(self.seconds)} at {FLOPS / 1e9:.0f} GFLOP/s"
        return said + " (a guess)"


def estimate(plan: Plan) -> Estimate:
    """Guess what a plan's cells will take; training of recipe models is not included."""
    checkpoints = {
        (model, checkpoint.name): checkpoint
        for model, found in plan.checkpoints.items()
        if isinstance(found, tuple)
        for checkpoint in found
    }
    passes: dict[tuple[str, str, str], int] = {}
    analyses: list[tuple[tuple[str, str], Load]] = []
    for cell in plan.cells:
        if cell.state != "run" or cell.compares:
            continue  # both sides of a comparison have cells of their own
        if isinstance(cell, AnalysisCell):
            analyses.append((cell.key[:2], _read(cell)))
        elif isinstance(cell, MetricCell):
            passes[cell.key[:3]] = _tokens(cell.passes[0])
    samples: dict[str, int] = {}
    for cell in plan.cells:
        if isinstance(cell, MetricCell):
            for name in SAMPLES & set(cell.metric.needs):
                samples[name] = max(samples.get(name, 0), cell.options.size_of(name))
    kept = sum(samples.values()) + 2 * plan.file.study.run.batch_tokens
    loads = [((model, checkpoint), tokens, kept) for (model, checkpoint, _), tokens in passes.items()]
    loads += [(of, reading.tokens, reading.texts) for of, reading in analyses]
    memory: list[int] = []
    seconds: float | None = 0.0
    for of, tokens, states in loads:
        size = _size(checkpoints[of])
        if size is None:
            seconds = None
            continue
        layers, width = size
        weights = 12 * layers * width**2
        if seconds is not None:
            seconds += 2 * weights * tokens / FLOPS
        memory.append(4 * weights + 8 * (layers + 1) * width**2 + 4 * (layers + 1) * width * states)
    analysed = sum(reading.tokens for _, reading in analyses)
    most = max(memory, default=None)
    return Estimate(sum(passes.values()), len(passes), len(analyses), analysed, most, seconds)


@dataclass(frozen=True)
class Load:
    """What goes through a model for a cell of an analysis.

    Args:
        tokens: all of them.
        texts: texts, of each of which one vector is kept at each place.
    """

    tokens: int
    texts: int


def _tokens(of: Pass | Corpus) -> int:
    return min(int(of.texts.words * TOKENS_PER_WORD), len(of.texts) * of.max_tokens)


def _read(cell: AnalysisCell) -> Load:
    """Guess what a cell of an analysis reads: samples of its corpora, or the texts that its item holds."""
    tokens = texts = 0
    for corpus in cell.corpora.values():
        there = len(corpus.texts)
        drawn = min(getattr(cell.item, "sample", there), there)
        texts += drawn
        tokens += _tokens(corpus) * drawn // max(there, 1)
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


def _size(checkpoint: Checkpoint) -> tuple[int, int] | None:
    """Return blocks and width where they can be read without loading anything."""
    if checkpoint.recipe is not None:
        return checkpoint.recipe.layers, checkpoint.recipe.width
    if checkpoint.path is None:
        return None
    folder = checkpoint.path / (checkpoint.subfolder or "")
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    depth = next((config[key] for key in _DEPTH_KEYS if isinstance(config.get(key), int)), None)
    width = next((config[key] for key in _WIDTH_KEYS if isinstance(config.get(key), int)), None)
    return (depth, width) if depth and width else None


def _many(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
