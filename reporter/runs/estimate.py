"""A guess, before anything is loaded, of what the cells that must run will take."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint
    from reporter.runs.plan import Plan

FLOPS = 100e9  # what a few CPU cores do in float32; a GPU does a thousand times that
TOKENS_PER_WORD = 1.35  # of English under the usual sub-word tokenizers
SAMPLES = {"tokens", "contexts", "type_sample", "pooled"}  # observables that keep states
_DEPTH_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "dim")


@dataclass(frozen=True)
class Estimate:
    """What a plan will take.

    Args:
        tokens: tokens through models, over all passes.
        passes: passes over a corpus.
        memory: bytes of the largest model's weights, observables and one batch; None if no size is known.
        seconds: of the forward passes at ``FLOPS``; None if a size is not known.
    """

    tokens: int
    passes: int
    memory: int | None
    seconds: float | None

    def line(self) -> str:
        """Say it in one line."""
        if not self.passes:
            return "nothing to measure"
        said = f"about {self.tokens:,} tokens in {self.passes} passes, unless observables are cached"
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
    for cell in plan.cells:
        texts = plan.texts.get(cell.key.corpus)
        if cell.compares:
            continue  # both sides have cells of their own
        if cell.state == "run" and cell.asked is None and texts is not None and not isinstance(texts, Exception):
            limit = plan.file.study.corpora[cell.key.corpus].max_tokens
            passes[cell.key[:3]] = min(int(texts.words * TOKENS_PER_WORD), len(texts) * limit)
    memory: list[int] = []
    seconds: float | None = 0.0
    for (model, checkpoint, _), tokens in passes.items():
        size = _size(checkpoints[model, checkpoint])
        if size is None:
            seconds = None
            continue
        layers, width = size
        weights = 12 * layers * width**2
        if seconds is not None:
            seconds += 2 * weights * tokens / FLOPS
        samples: dict[str, int] = {}
        for cell in plan.cells:
            if cell.options is not None:
                for name in SAMPLES & set(plan.metrics[cell.key.metric].needs):
                    samples[name] = max(samples.get(name, 0), cell.options.size_of(name))
        sampled = sum(samples.values())
        states = (layers + 1) * width * 4
        memory.append(
            4 * weights + 8 * (layers + 1) * width**2 + states * (sampled + 2 * plan.file.study.run.batch_tokens)
        )
    return Estimate(sum(passes.values()), len(passes), max(memory, default=None), seconds)


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


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
