"""The pass: every text through the model once, in a settled precision; every observable fed, shard by shard."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.core.errors import ReporterError, is_out_of_memory
from reporter.forward.batch import FLOAT16_END, HiddenBatch, ModelOutput, joined
from reporter.forward.inputs import Pass
from reporter.forward.observable import Observable
from reporter.forward.readout import Readout, Vocabulary
from reporter.forward.token_categories import DEFAULT_RULE, ORDINARY, SPECIAL, STRATA, SinkRule, find_sinks
from reporter.geometry.arrays import Bools, Ints
from reporter.models.load import LoadedModel
from reporter.models.parts import pad_id
from reporter.models.places import Layout
from reporter.models.states import SavedStates
from reporter.texts.chat import Chat
from reporter.texts.texts import Texts
from reporter.texts.tokens import (
    Shard,
    TokenBatch,
    TokenisedCorpus,
    TokenisedText,
    Windows,
    batches,
    padded_length,
    tokenise,
    tokenise_corpus,
    tokenise_texts,
)

# float32, or bf16 products over float32 weights where the machine is made for it and the states hardly change.


Precision = Literal["float32", "mixed"]
Asked = Literal["auto", "float32", "mixed"]

TOLERANCE = 0.02  # mean relative deviation of a state that `auto` accepts; bf16 itself rounds to 0.004
NARROWEST = 256  # below this width the products are too small for bf16 to be faster


@dataclass(frozen=True)
class Chosen:
    """The precision of a pass, and by how much it was seen to differ from float32 (None where it was not tried).

    The deviation is the largest over the layers of the mean over tokens of ‖h_mixed − h_float32‖ / ‖h_float32‖.
    """

    precision: Precision
    deviation: float | None


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Return the context in which a model runs in this precision; weights and residual stream stay float32."""
    return nullcontext() if precision == "float32" else torch.autocast(device.type, dtype=torch.bfloat16)


def expected(precision: Asked, width: int, device: torch.device) -> Precision:
    """Return the precision that a model comes to unless its states deviate too much."""
    if precision == "auto":
        return "mixed" if width >= NARROWEST and _has_bf16(device) else "float32"
    return precision


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        info = Path("/proc/cpuinfo")  # torch tells AVX-512, but not in public whether it comes with bf16
        flags = info.read_text() if info.exists() else ""
        wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
        return wide and ("avx512_bf16" in flags or "amx_bf16" in flags)
    return False


def _deviation(model: LoadedModel, batch: TokenBatch) -> float:
    ids = torch.as_tensor(batch.ids[:8], device=model.device)
    mask = torch.as_tensor(batch.mask[:8], device=model.device)
    with torch.inference_mode():
        exact = model.states(ids, mask)
        with autocast(model.device, "mixed"):
            rough = model.states(ids, mask)
        kept = mask.bool()
        deviations = []
        for x, reference in ((a.float()[kept], b.float()[kept]) for a, b in zip(rough, exact, strict=True)):
            difference = (x - reference).norm(dim=-1)
            deviations.append((difference / reference.norm(dim=-1)).masked_fill(difference == 0, 0.0).mean())
    return float(torch.stack(deviations).max())  # NaN, where one is: then no tolerance holds


SHOWN_TOGETHER = 2048
"""Tokens of small batches that observables see at once, padding included.

Texts of one padded length make a batch, so most batches are small, and what an observable does once a batch (products
of the width squared, thousands of short calls) would cost more than what it does to tokens.
"""

TOKENS_VERSION = 3  # raise it when a tokenizer's output is read in another way


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


@dataclass(frozen=True)
class Settings:
    """Settings of a pass through a model; ``batch_tokens`` changes speed and memory, never a number beyond rounding."""

    batch_tokens: int
    seed: int
    precision: Precision
    layout: Layout
    frequent: Bools
    shuffled: bool = False
    readout: Readout | None = None
    losses: bool = False
    contributions: bool = False
    vocabulary: Vocabulary | None = None
    sinks: SinkRule = DEFAULT_RULE


def longest(max_tokens: int, model: LoadedModel | SavedStates) -> int:
    """Return where texts are cut: the study's limit or the model's own, whichever is smaller."""
    limit = model.anatomy.max_tokens
    return max_tokens if limit is None else min(max_tokens, limit)


def settle_precision(precision: Asked, model: LoadedModel | SavedStates, texts: Texts, max_tokens: int) -> Chosen:
    """Choose the precision of a pass by trying it on the first few texts of the corpus.

    ``auto`` is ``mixed`` on a device with bf16 instructions, for a model wide enough to profit, whose states deviate
    by no more than ``TOLERANCE``. Nothing is timed, so that the choice is the same in every run on a machine.
    """
    if isinstance(model, SavedStates):
        return Chosen("float32", None)
    tokens = tokenise(texts, Shard(0, 0, min(4, len(texts))), model.tokenizer, min(128, longest(max_tokens, model)))
    if not tokens or expected(precision, model.anatomy.width, model.device) == "float32":
        return Chosen("float32", None)
    deviation = _deviation(model, next(batched(tokens, 512, model)))
    if precision == "auto" and not deviation <= TOLERANCE:
        return Chosen("float32", deviation)
    return Chosen("mixed", deviation)


def tokenised(
    model: LoadedModel | SavedStates,
    texts: Texts,
    max_tokens: int,
    folder: Path | None = None,
    windows: Windows | None = None,
    chat: Chat | None = None,
    waiting: Callable[[str], None] | None = None,
) -> TokenisedCorpus:
    """Return a corpus as a model reads it, cut at the study's limit or the model's own.

    Args:
        folder: where its tokens are kept, called as :func:`tokens_name` says.
        waiting: called with a message where another process tokenises it already.
    """
    limit, windows = longest(max_tokens, model), windows and windows.within(model.anatomy.max_tokens)
    if isinstance(model, SavedStates):  # whose texts were read elsewhere
        return tokenise_corpus(texts, model.tokenizer, limit)
    return tokenise_corpus(texts, model.tokenizer, limit, folder, windows, chat, waiting)


def tokens_name(model: LoadedModel | SavedStates, forward_pass: Pass) -> str:
    """Return the name of the folder of a corpus' tokens, a hash of what they depend on; empty where they are given."""
    if isinstance(model, SavedStates):
        return ""
    parts: list[Any] = [
        TOKENS_VERSION,
        forward_pass.texts.hash,
        model.tokenizer_hash,
        longest(forward_pass.max_tokens, model),
    ]
    if forward_pass.windows is not None:
        windows = forward_pass.windows.within(model.anatomy.max_tokens)
        parts += [windows.size, windows.stride]
    if forward_pass.chat is not None:
        parts += ["chat", forward_pass.chat.inputs, str(getattr(model.tokenizer, "chat_template", ""))]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


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
    with ThreadPoolExecutor(1) as aside:  # which gets the next shard ready while the model is busy with this one

        def prepared(shard: Shard) -> list[TokenisedText]:
            tokens = corpus.of(shard)
            return [text.shuffled(settings.seed) for text in tokens] if settings.shuffled else tokens

        coming = [aside.submit(prepared, shard) for shard in pending[:1]]
        for place, shard in enumerate(pending):
            began = time.perf_counter()
            tokens = coming.pop().result()
            coming = [aside.submit(prepared, following) for following in pending[place + 1 : place + 2]]
            sizes, sinks, in_model, strained = np.zeros(len(STRATA), dtype=np.int64), 0, 0.0, 0
            waiting = deque(batched(tokens, budget, model))
            while waiting:
                group, given = _next(waiting, budget), time.perf_counter()
                try:
                    parts = [forward(model, batch, settings, corpus.name) for batch in group]
                    seen(parts)
                    hidden = joined(parts, model, corpus, settings)
                except Exception as error:
                    if not is_out_of_memory(error):
                        raise
                    budget = _halved(group, model)
                    shrunk(budget)
                    waiting = deque(part for batch in (*group, *waiting) for part in batch.split(budget))
                    continue
                in_model += time.perf_counter() - given
                _show(hidden, watchers)
                sizes += hidden.sizes
                sinks += int((hidden.sinks.sink & (hidden.strata != SPECIAL)).sum())
                strained += sum(part.strained for part in parts)
                tick(len(hidden))
                del parts, hidden
            for watcher in watchers:
                watcher.settle()
            counts = _counts(tokens, corpus, sizes, sinks)
            took = time.perf_counter() - began
            yield shard, replace(counts, seconds=took, model_seconds=in_model, strained=strained)


def _next(waiting: deque[TokenBatch], budget: int) -> list[TokenBatch]:
    group = [waiting.popleft()]
    room = min(budget, SHOWN_TOGETHER) - group[0].ids.size
    while waiting and waiting[0].ids.size <= room:
        group.append(waiting.popleft())
        room -= group[-1].ids.size
    return group


def _halved(group: list[TokenBatch], model: LoadedModel | SavedStates) -> int:
    size = sum(batch.ids.size for batch in group)
    if sum(len(batch.texts) for batch in group) == 1:
        raise ReporterError(
            f"out of memory on {model.device} for one text of {size:,} tokens; lower `max_tokens` of the corpus"
        )
    return size // 2


def _show(hidden: HiddenBatch, watchers: Sequence[Observable]) -> None:
    try:
        for watcher in watchers:
            watcher.start(hidden)
        for layer in hidden.layers():
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


def tokenised_texts(
    texts: Sequence[str], model: LoadedModel | SavedStates, max_tokens: int = sys.maxsize
) -> list[TokenisedText]:
    """Return texts as a model reads them, without those in which its tokenizer finds no token."""
    return tokenise_texts(list(texts), model.tokenizer, longest(max_tokens, model))


def batched(
    tokens: list[TokenisedText], batch_tokens: int, model: LoadedModel | SavedStates, *others: LoadedModel
) -> Iterator[TokenBatch]:
    """Yield tokenised texts in batches for a model; see :func:`reporter.texts.tokens.batches`.

    Every batch of a model comes from here, so that a model whose states depend on padding is never padded.

    Args:
        tokens: the texts.
        batch_tokens: the most tokens in a batch, padding included.
        model: the model.
        others: further models that read the same batches.
    """
    padding = pad_id(model.tokenizer, model.anatomy.vocabulary_size)
    return batches(tokens, batch_tokens, padding, model.anatomy.max_tokens, unpadded(tokens, model, *others))


def unpadded(tokens: Iterable[TokenisedText], *models: LoadedModel | SavedStates) -> bool:
    """Return whether texts are read without padding, because padding changes the states of one of the models."""
    limit = models[0].anatomy.max_tokens
    most = max((padded_length(length, limit) for length in {len(text) for text in tokens}), default=0)
    return not all(model.may_pad(most) for model in models if isinstance(model, LoadedModel))


def forward(model: LoadedModel | SavedStates, batch: TokenBatch, settings: Settings, corpus: str) -> ModelOutput:
    """Return what a model makes of one batch.

    Raises:
        ReporterError: states are not finite.
    """
    with torch.inference_mode(), autocast(model.device, settings.precision):
        if isinstance(model, SavedStates):
            captured = model.captured(batch)
        else:
            ids = torch.as_tensor(batch.ids, device=model.device)
            mask = torch.as_tensor(batch.mask, device=model.device)
            captured = model.run(ids, mask, settings.layout.attention, settings.contributions)
        losses = None
        if settings.losses and settings.readout is not None and not settings.readout.loss_problem:
            losses = settings.readout.token_losses(batch, captured.last, settings.seed)
    states = captured.at(settings.layout)
    contributions = captured.contributions
    del captured
    with torch.inference_mode():
        norms = torch.stack([x.float().norm(dim=-1) for x in states])
        peaks = torch.stack([torch.maximum(x.amax(dim=-1), -x.amin(dim=-1)).float() for x in states])
        # The one time that the device is waited for, but for the sinks: which rows belong together hangs on them.
        sizes = torch.stack([norms, peaks]).cpu().numpy()
        half = states[0].dtype == torch.float16
        _check_finite(sizes[0], sizes[1], batch, corpus, half)
        blocks = slice(1, settings.layout.layers + 1)
        sinks = find_sinks(states[blocks], sizes[0, blocks], batch.mask, settings.sinks)
    return ModelOutput(batch, states, norms, sizes, sinks, losses, contributions, half)


_LARGEST = 1e16  # a norm; squares of larger ones leave float32


def _check_finite(
    norms: NDArray[np.float32], peaks: NDArray[np.float32], batch: TokenBatch, corpus: str, half: bool
) -> None:
    bad = np.argwhere(~(norms <= _LARGEST) & (batch.mask == 1))
    if len(bad):
        layer, row, position = bad[0].tolist()
        what, why = "not finite", "write `run: {precision: float32}`, or check the weights"
        if np.isfinite(peaks[layer, row, position]):
            what, why = "too large", "float32 cannot hold their squares. Divide the states by a constant"
        elif half:
            why = f"float16 ends at {FLOAT16_END:g}. Add `dtype: float32` or `dtype: bfloat16` to the model"
        raise ReporterError(
            f"states are {what}, first at layer {layer}, text {batch.texts[row]} of corpus {corpus!r}, "
            f"token {position}; {why}"
        )
