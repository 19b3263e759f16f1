"""The pass: every text through the model once, in a settled precision; every observable fed, shard by shard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, fields, replace
from operator import methodcaller

import numpy as np

from reporter.core.errors import ReporterError, is_out_of_memory
from reporter.core.threads import spread, tasks_at_once
from reporter.forward.batch import HiddenBatch
from reporter.forward.observable import Observable
from reporter.forward.output import ModelOutput, Settings, forward, joined
from reporter.forward.reading import batched, run_ahead
from reporter.forward.token_categories import ORDINARY, SPECIAL, STRATA
from reporter.geometry.arrays import Ints, exact_products
from reporter.models.load import LoadedModel
from reporter.models.states import SavedStates
from reporter.texts.tokens import (
    Shard,
    TokenBatch,
    TokenisedCorpus,
    TokenisedText,
)

SHOWN_TOGETHER = 2048
"""Tokens of small batches that observables see at once, padding included.

Texts of one padded length make a batch, so most batches are small, and what an observable does once a batch (products
of the width squared, thousands of short calls) would cost more than what it does to tokens.
"""


class OutOfMemoryError(ReporterError):
    """Memory ran out while observables read states; they may have read some of them.

    Args:
        tokens: of how many tokens, padding included.
    """

    def __init__(self, tokens: int) -> None:
        super().__init__(f"out of memory for the states of {tokens:,} tokens at once; lower `batch_tokens`")
        self.tokens = tokens


@dataclass(frozen=True)
class Counts:
    """Counts of what went through the model.

    Args:
        texts: texts.
        tokens: tokens that count.
        ordinary: tokens that are neither special nor set aside.
        special: tokens that are not a text's own.
        sinks: own tokens that are sinks; set aside with each text's first one.
        cut_texts: texts cut at the limit.
        short_texts: texts of at most one own token.
        strained: tokens with a state in float16 that comes near the end of its range.
        seconds: how long it took.
        distinct_texts: units of observation: texts that repeat no earlier one, or clusters of texts.
        model_seconds: how much of that the model took, finding the sinks in its states included; the rest went into
            observables.
        windows: what the model read at once: texts, or windows of long ones.
    """

    texts: int = 0
    distinct_texts: int = 0
    tokens: int = 0
    ordinary: int = 0
    special: int = 0
    sinks: int = 0
    cut_texts: int = 0
    short_texts: int = 0
    seconds: float = 0.0
    model_seconds: float = 0.0
    windows: int = 0
    strained: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def measure(
    model: LoadedModel | SavedStates,
    corpus: TokenisedCorpus,
    watchers: Sequence[Observable],
    settings: Settings,
    tick: Callable[[int], None] = lambda tokens: None,
    shrunk: Callable[[int], None] = lambda tokens: None,
    seen: Callable[[Sequence[ModelOutput]], None] = lambda parts: None,
) -> Iterator[tuple[Shard, Counts]]:
    """Send a corpus through a model and show its states to the watchers.

    After each shard it yields, so that the caller can save what the watchers hold before going on.

    Raises:
        ReporterError: if states are not finite, or a single text is too long for the memory.
        OutOfMemoryError: if memory does not suffice to show the states; what the watchers hold is lost.
    """
    budget = settings.batch_tokens
    pending = corpus.shards

    def run(group: list[TokenBatch]) -> tuple[HiddenBatch, int]:
        parts = [forward(model, batch, settings, corpus.name) for batch in group]
        seen(parts)
        strained = sum(part.strained for part in parts)
        return joined(parts, model, corpus, settings), strained

    def smaller(groups: list[list[TokenBatch]]) -> Iterator[list[TokenBatch]]:
        nonlocal budget
        budget = _halved(groups[0], model)
        shrunk(budget)
        return _grouped((part for group in groups for batch in group for part in batch.split(budget)), budget)

    # One thread gets the next shard ready while the model is busy with this one.
    with ThreadPoolExecutor(1) as aside:

        def prepared(shard: Shard) -> list[TokenisedText]:
            tokens = corpus.of(shard)
            return [text.shuffled(settings.seed) for text in tokens] if settings.shuffled else tokens

        coming = [aside.submit(prepared, shard) for shard in pending[:1]]
        for place, shard in enumerate(pending):
            began = time.perf_counter()
            tokens = coming.pop().result()
            coming = [aside.submit(prepared, following) for following in pending[place + 1 : place + 2]]
            sizes, sinks, in_model, strained = np.zeros(len(STRATA), dtype=np.int64), 0, 0.0, 0
            groups = _grouped(batched(tokens, budget, model), budget)
            passes = run_ahead(run, groups, most_shown(budget), model, settings.layout, smaller)
            given = time.perf_counter()
            with closing(passes):  # at once, if observables lack memory
                for _, (hidden, strained_here) in passes:
                    in_model += time.perf_counter() - given
                    _show(hidden, watchers)
                    sizes += hidden.sizes
                    sinks += int((hidden.sinks.sink & (hidden.strata != SPECIAL)).sum())
                    strained += strained_here
                    tick(len(hidden))
                    del hidden
                    given = time.perf_counter()
            for watcher in watchers:
                watcher.settle()
            counts = _counts(tokens, corpus, sizes, sinks)
            took = time.perf_counter() - began
            yield shard, replace(counts, seconds=took, model_seconds=in_model, strained=strained)


def most_shown(batch_tokens: int) -> int:
    """Return how many tokens observables see at once at most, padding included."""
    return max(SHOWN_TOGETHER, batch_tokens)


def _grouped(batches: Iterable[TokenBatch], budget: int) -> Iterator[list[TokenBatch]]:
    """Yield batches, small ones together."""
    group: list[TokenBatch] = []
    room = 0
    for batch in batches:
        if group and batch.ids.size > room:
            yield group
            group = []
        if not group:
            room = min(budget, SHOWN_TOGETHER)
        group.append(batch)
        room -= batch.ids.size
    if group:
        yield group


def _halved(group: list[TokenBatch], model: LoadedModel | SavedStates) -> int:
    size = sum(batch.ids.size for batch in group)
    if sum(len(batch.texts) for batch in group) == 1:
        raise ReporterError(
            f"out of memory on {model.device} for one text of {size:,} tokens; lower `max_tokens` of the corpus"
        )
    return size // 2


@exact_products()
def _show(hidden: HiddenBatch, watchers: Sequence[Observable]) -> None:
    try:
        for watcher in watchers:
            watcher.start(hidden)
        for layer in hidden.layers():
            if tasks_at_once() > 1:  # not on an accelerator, nor where operations have all cores
                spread(methodcaller("observe", layer), watchers)
            else:
                for watcher in watchers:
                    watcher.observe(layer)
        for watcher in watchers:
            watcher.finish(hidden)
    except Exception as error:
        if is_out_of_memory(error):
            raise OutOfMemoryError(len(hidden)) from error
        raise


def _counts(windows: list[TokenisedText], corpus: TokenisedCorpus, sizes: Ints, sinks: int) -> Counts:
    tokens = list({text.index % len(corpus): text for text in reversed(windows)}.values())  # a window of each text
    return Counts(
        texts=len(tokens),
        windows=len(windows),
        distinct_texts=int(corpus.representatives[[text.index % len(corpus) for text in tokens]].sum()),
        tokens=int(sizes.sum()),
        ordinary=int(sizes[ORDINARY]),
        special=int(sizes[SPECIAL]),
        sinks=sinks,
        cut_texts=sum(text.cut for text in tokens),
        short_texts=sum(int((~text.special).sum()) <= 1 for text in tokens),
    )
