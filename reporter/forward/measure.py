"""The pass: every text through the model once, every observable fed, shard by shard."""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.errors import ReporterError, is_out_of_memory
from reporter.forward.contexts import context_keys, embedding_keys
from reporter.forward.hidden_batch import HiddenBatch, LayerStates
from reporter.forward.places import Layout
from reporter.forward.precision import Asked, Chosen, Precision, autocast, choose
from reporter.forward.strata import (
    DEFAULT_RULE,
    ORDINARY,
    SPECIAL,
    STRATA,
    SinkRule,
    Sinks,
    find_sinks,
    first_own,
    strata,
)
from reporter.models.states import SavedStates
from reporter.texts.tokens import (
    Shard,
    TokenBatch,
    TokenisedCorpus,
    TokenisedText,
    batches,
    tokenise,
    tokenise_corpus,
)

if TYPE_CHECKING:
    from pathlib import Path

    from reporter.forward.readout import Readout, Vocabulary
    from reporter.models.load import LoadedModel
    from reporter.texts.chat import Chat
    from reporter.texts.texts import Texts
    from reporter.texts.windows import Windows


SHOWN_TOGETHER = 2048
"""Tokens of small batches that observables see at once, padding included.

Texts of one padded length make a batch, so most batches are small, and what an observable does once a batch (products
of the width squared, thousands of short calls) would cost more than what it does to tokens.
"""

TOKENS_VERSION = 1  # raise it when a tokenizer's output is read in another way


class OutOfMemoryError(ReporterError):
    """Memory did not suffice to show states to the observables, which may have seen some of them.

    Args:
        tokens: of how many tokens, padding included.
    """

    def __init__(self, tokens: int) -> None:
        super().__init__(f"memory does not suffice for the states of {tokens:,} tokens at once")
        self.tokens = tokens


class Watcher(Protocol):
    """What the pass feeds; every observable is one."""

    def start(self, batch: HiddenBatch) -> None:
        """Look at a new batch before its layers are shown."""

    def observe(self, layer: LayerStates) -> None:
        """Take in one layer of the batch; layers come in the order 0..L."""

    def finish(self, batch: HiddenBatch) -> None:
        """Look at a batch after all its layers were shown."""

    def settle(self) -> None:
        """Bring what was gathered on the device to the host, at the end of a shard."""


@dataclass(frozen=True)
class Counts:
    """What went through the model.

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
        distinct_texts: texts that repeat no earlier one.
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
    """How texts go through a model; ``batch_tokens`` changes speed and memory, never a number beyond rounding.

    Args:
        batch_tokens: the most tokens in a batch, padding included.
        seed: the study's seed.
        precision: of the products.
        layout: the places that are read.
        frequent: for each token id whether its type is a frequent one, shape (vocabulary,).
        shuffled: whether the tokens of each text are shuffled; those that the tokenizer added stay.
        readout: the model with its language-model head, for watchers that read states with it.
        losses: whether the loss of each token is wanted.
        contributions: whether what sublayers add is wanted.
        vocabulary: the vector and kind of each token, for watchers that compare states with them.
        sinks: which tokens are sinks.
    """

    batch_tokens: int
    seed: int
    precision: Precision
    layout: Layout
    frequent: NDArray[np.bool_]
    shuffled: bool = False
    readout: Readout | None = None
    losses: bool = False
    contributions: bool = False
    vocabulary: Vocabulary | None = None
    sinks: SinkRule = DEFAULT_RULE


def longest(max_tokens: int, model: LoadedModel | SavedStates) -> int:
    """Return where texts are cut: the study's limit or the model's own, whichever is smaller."""
    own = model.anatomy.max_tokens
    return max_tokens if own is None else min(max_tokens, own)


def settle_precision(asked: Asked, model: LoadedModel | SavedStates, texts: Texts, max_tokens: int) -> Chosen:
    """Choose the precision of a pass by trying it on the first few texts of the corpus."""
    if isinstance(model, SavedStates):
        return Chosen("float32", None)
    few = Shard(0, 0, min(4, len(texts)))
    tokens = tokenise(texts, few, model.tokenizer, min(128, longest(max_tokens, model)))
    if not tokens:
        return Chosen("float32", None)
    return choose(asked, model, next(batches(tokens, 512, pad_id(model), model.anatomy.max_tokens)))


def tokenised(
    model: LoadedModel | SavedStates,
    texts: Texts,
    max_tokens: int,
    folder: Path | None = None,
    windows: Windows | None = None,
    chat: Chat | None = None,
) -> TokenisedCorpus:
    """Return a corpus as a model reads it, cut at the study's limit or the model's own.

    Args:
        model: whose tokenizer.
        texts: the corpus.
        max_tokens: the study's limit.
        folder: where tokens are kept for all models with the same tokenizer; in memory if left out.
        windows: how a longer text is read instead of being cut.
        chat: whose turns count, where texts are conversations.
    """
    limit, windows = longest(max_tokens, model), windows and windows.within(model.anatomy.max_tokens)
    if isinstance(model, SavedStates):  # whose texts were read elsewhere
        return tokenise_corpus(texts, model.tokenizer, limit)
    place = None if folder is None else folder / tokens_name(model, texts, max_tokens, windows, chat)
    return tokenise_corpus(texts, model.tokenizer, limit, place, windows, chat)


def tokens_name(
    model: LoadedModel | SavedStates,
    texts: Texts,
    max_tokens: int,
    windows: Windows | None = None,
    chat: Chat | None = None,
) -> str:
    """Return the name of the folder of a corpus' tokens, a hash of what they depend on; empty where they are given."""
    if isinstance(model, SavedStates):
        return ""
    parts: tuple[Any, ...] = (TOKENS_VERSION, texts.hash, model.tokenizer_hash, longest(max_tokens, model))
    if windows is not None:
        windows = windows.within(model.anatomy.max_tokens)
        parts = (*parts, windows.size, windows.stride)
    if chat is not None:
        template = str(getattr(model.tokenizer, "chat_template", ""))
        parts = (*parts, "chat", chat.role, template)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def measure(
    model: LoadedModel | SavedStates,
    corpus: TokenisedCorpus,
    watchers: Sequence[Watcher],
    settings: Settings,
    first_shard: int = 0,
    tick: Callable[[int], None] = lambda tokens: None,
    shrunk: Callable[[int], None] = lambda tokens: None,
) -> Iterator[tuple[Shard, Counts]]:
    """Send a corpus through a model and show its states to the watchers.

    After each shard it yields, so that the caller can save what the watchers hold before going on.

    Args:
        model: a loaded model, or states that take its place.
        corpus: the corpus as the model reads it.
        watchers: observables; they see every batch of every shard from ``first_shard`` on.
        settings: limits, batch size, precision.
        first_shard: the first shard that the watchers have not seen yet.
        tick: called with the number of tokens after each batch, padding left out.
        shrunk: called with the tokens of a batch that is tried next, when memory did not suffice for a larger one.

    Yields:
        each finished shard with its counts.

    Raises:
        ReporterError: if states are not finite, or a single text is too long for the memory.
        OutOfMemoryError: if memory does not suffice to show the states; what the watchers hold is lost.
    """
    budget = settings.batch_tokens
    pending = corpus.shards[first_shard:]
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
            waiting = deque(batches(tokens, budget, pad_id(model), model.anatomy.max_tokens))
            while waiting:
                group, given = _next(waiting, budget), time.perf_counter()
                try:
                    parts = [_forward(model, batch, settings, corpus.name) for batch in group]
                    hidden = _together(parts, model, settings, corpus)
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
    """Take the batches that are shown together: one, and as many small ones as fit."""
    group = [waiting.popleft()]
    room = min(budget, SHOWN_TOGETHER) - group[0].ids.size
    while waiting and waiting[0].ids.size <= room:
        group.append(waiting.popleft())
        room -= group[-1].ids.size
    return group


def _halved(group: list[TokenBatch], model: LoadedModel | SavedStates) -> int:
    """Return half the tokens of what memory did not suffice for, padding included."""
    size = sum(batch.ids.size for batch in group)
    if sum(len(batch.texts) for batch in group) == 1:
        raise ReporterError(
            f"the memory of {model.device} does not suffice for a single text of {size:,} tokens; cut texts with "
            "`max_tokens`"
        )
    return size // 2


def _show(hidden: HiddenBatch, watchers: Sequence[Watcher]) -> None:
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


def _counts(windows: list[TokenisedText], corpus: TokenisedCorpus, sizes: NDArray[np.int64], sinks: int) -> Counts:
    tokens = list({text.index % len(corpus): text for text in reversed(windows)}.values())  # a window of each text
    return Counts(
        texts=len(tokens),
        windows=len(windows),
        distinct_texts=sum(int(corpus.originals[i]) == i for i in {text.index % len(corpus) for text in windows}),
        tokens=int(sizes.sum()),
        ordinary=int(sizes[ORDINARY]),
        special=int(sizes[SPECIAL]),
        sinks=sinks,
        cut_texts=sum(text.cut for text in tokens),
        short_texts=sum(int((~text.special).sum()) <= 1 for text in tokens),
    )


def pad_id(model: LoadedModel | SavedStates) -> int:
    """Return any valid token id: padding is masked, so which one does not matter, and no embedding is resized."""
    for token in (model.tokenizer.pad_token_id, model.tokenizer.eos_token_id):
        if token is not None and 0 <= token < model.anatomy.vocabulary_size:
            return int(token)
    return 0


@dataclass(eq=False)
class _Part:
    """What the model made of one batch, padding included.

    Args:
        batch: the token ids.
        states: at each place, (texts, length, width); a place is let go of once its states lie among others.
        norms: of the states, (places, texts, length).
        sizes: norms and, second, max |x_j|, on the host, (2, places, texts, length).
        sinks: arrays (texts, length).
        losses: (texts, length), where somebody asked.
        contributions: (L, texts, length, 2, 2), where somebody asked.
        half: whether the states are float16.
    """

    batch: TokenBatch
    states: list[torch.Tensor]
    norms: torch.Tensor
    sizes: NDArray[np.float32]
    sinks: Sinks
    losses: torch.Tensor | None
    contributions: torch.Tensor | None
    half: bool = False

    @property
    def strained(self) -> int:
        """Tokens with a state in float16 that comes near the end of its range; a model may clamp it there."""
        if not self.half:
            return 0
        return int(((self.sizes[1] > _NEAR_THE_END).any(axis=0) & (self.batch.mask == 1)).sum())


def _forward(model: LoadedModel | SavedStates, batch: TokenBatch, settings: Settings, corpus: str) -> _Part:
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
    states = list(captured.path)
    if settings.layout.final_width is not None and captured.final is not None:
        states.append(captured.final)
    states += captured.attention or []
    contributions = captured.contributions
    del captured
    with torch.inference_mode():
        norms = torch.stack([x.float().norm(dim=-1) for x in states])
        peaks = torch.stack([torch.maximum(x.amax(dim=-1), -x.amin(dim=-1)).float() for x in states])
        # The one time that the device is waited for, but for the sinks: which rows belong together hangs on them.
        sizes = torch.stack([norms, peaks]).cpu().numpy()
        half = states[0].dtype == torch.float16
        _check_finite(sizes[0], batch, corpus, half)
        blocks = slice(1, settings.layout.layers + 1)
        sinks = find_sinks(states[blocks], sizes[0, blocks], batch.mask, settings.sinks)
    return _Part(batch, states, norms, sizes, sinks, losses, contributions, half)


def _together(
    parts: list[_Part], model: LoadedModel | SavedStates, settings: Settings, corpus: TokenisedCorpus
) -> HiddenBatch:
    """Lay the states of some batches side by side, without padding and context; the batches lose theirs."""
    causal = model.anatomy.role == "decoder"
    mixed = isinstance(model, SavedStates) and model.states.begins_mixed
    positions_added = model.anatomy.positions == "added"
    columns: list[list[NDArray[Any]]] = []
    kinds, firsts, before = [], [], 0
    for part in parts:
        batch = part.batch
        rows, positions = np.nonzero(batch.counted)
        seen = model.seen(batch, corpus.originals) if isinstance(model, SavedStates) else batch.ids
        contexts = context_keys(seen, batch.mask.sum(axis=1), causal, settings.seed)
        embedded = contexts if mixed else embedding_keys(seen, positions_added)
        facts = (batch.ids, contexts, np.broadcast_to(embedded, contexts.shape))
        columns.append(
            [
                before + rows * batch.ids.shape[1] + positions,
                batch.texts[rows],
                positions.astype(np.int64),
                *(column[rows, positions] for column in (*facts, *part.sinks.columns())),
            ]
        )
        kinds.append(strata(part.sinks.sink, batch.mask, batch.special)[rows, positions])
        firsts.append(first_own(batch.mask, batch.special)[rows, positions])
        before += batch.ids.size
    of_token = np.concatenate(kinds)
    order = np.argsort(of_token, kind="stable")
    joined = (np.concatenate(column)[order] for column in zip(*columns, strict=True))
    index, texts, positions, ids, keys, embedded, *sinks = joined
    with torch.inference_mode():
        flat = torch.as_tensor(index, device=model.device)
        states = []
        for place in range(len(parts[0].states)):
            of_place = [part.states[place].flatten(0, 1) for part in parts]
            for part in parts:  # let go, so that padded and flat copies never all live at once
                part.states[place] = part.norms
            x = of_place[0] if len(of_place) == 1 else torch.cat(of_place)
            states.append(_with_float64(x.index_select(0, flat).float()))
        norms = _with_float64(torch.cat([part.norms.flatten(1) for part in parts], dim=1)[:, flat])
        losses = None
        if parts[0].losses is not None:
            losses = torch.cat([part.losses.flatten() for part in parts if part.losses is not None])[flat]
        contributions = None
        if parts[0].contributions is not None:
            every = [part.contributions.flatten(1, 2) for part in parts if part.contributions is not None]
            contributions = torch.cat(every, dim=1).index_select(1, flat)
    known_norms, peaks = np.concatenate([part.sizes.reshape(2, len(states), -1) for part in parts], axis=2)[:, :, index]
    return HiddenBatch(
        layout=settings.layout,
        states=states,
        norms=norms,
        known_norms=known_norms,
        peaks=peaks,
        token_ids=ids,
        texts=texts,
        originals=corpus.original(texts),
        positions=positions,
        first_own=np.concatenate(firsts)[order],
        contexts=keys,
        frequent=settings.frequent[ids],
        embedding_contexts=embedded,
        sizes=tuple(np.bincount(of_token, minlength=len(STRATA)).tolist()),
        sinks=Sinks(*sinks),
        losses=losses,
        contributions=contributions,
        readout=settings.readout,
        vocabulary=settings.vocabulary,
    )


def _with_float64(x: torch.Tensor) -> torch.Tensor:
    """Move states off a device that cannot add in float64 (Apple's)."""
    return x.cpu() if x.device.type == "mps" else x


_FLOAT16_END = 65504.0
_NEAR_THE_END = 0.9 * _FLOAT16_END


def _check_finite(norms: NDArray[np.float32], batch: TokenBatch, corpus: str, half: bool) -> None:
    bad = np.argwhere(~np.isfinite(norms) & (batch.mask == 1))
    if len(bad):
        layer, row, position = bad[0].tolist()
        why = "the weights may be damaged, or try `precision: float32`"
        if half:
            why = f"float16 ends at {_FLOAT16_END:g}; write `dtype: float32` or `dtype: bfloat16` for this model"
        raise ReporterError(
            f"the states are not finite: first at layer {layer}, text {batch.texts[row]} of corpus {corpus!r}, "
            f"token {position}; {why}"
        )
