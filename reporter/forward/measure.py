"""The pass: every text through the model once, every observable fed, shard by shard."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.errors import ReporterError
from reporter.forward.contexts import context_keys, embedding_keys
from reporter.forward.hidden_batch import HiddenBatch, LayerStates
from reporter.forward.places import Layout
from reporter.forward.precision import Asked, Chosen, Precision, autocast, choose
from reporter.forward.strata import DEFAULT_RULE, ORDINARY, SPECIAL, STRATA, SinkRule, find_sinks, strata
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
    from reporter.texts.texts import Texts


TOKENS_VERSION = 1  # raise it when a tokenizer's output is read in another way


class Watcher(Protocol):
    """What the pass feeds; every observable is one."""

    def start(self, batch: HiddenBatch) -> None:
        """Look at a new batch before its layers are shown."""

    def observe(self, layer: LayerStates) -> None:
        """Take in one layer of the batch; layers come in the order 0..L."""

    def finish(self, batch: HiddenBatch) -> None:
        """Look at a batch after all its layers were shown."""


@dataclass(frozen=True)
class Counts:
    """What went through the model.

    Args:
        texts: texts.
        tokens: tokens, padding left out.
        ordinary: tokens that are neither special nor set aside.
        special: tokens that are not a text's own.
        sinks: own tokens that are sinks; set aside with each text's first one.
        cut_texts: texts cut at the limit.
        short_texts: texts of at most one own token.
        seconds: how long it took.
        distinct_texts: texts that repeat no earlier one.
        model_seconds: how much of that the model took, finding the sinks in its states included; the rest went into
            observables.
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
    model: LoadedModel | SavedStates, texts: Texts, max_tokens: int, folder: Path | None = None
) -> TokenisedCorpus:
    """Return a corpus as a model reads it, cut at the study's limit or the model's own.

    Args:
        model: whose tokenizer.
        texts: the corpus.
        max_tokens: the study's limit.
        folder: where tokens are kept for all models with the same tokenizer; in memory if left out.
    """
    limit = longest(max_tokens, model)
    if folder is None or isinstance(model, SavedStates):
        return tokenise_corpus(texts, model.tokenizer, limit)
    return tokenise_corpus(texts, model.tokenizer, limit, folder / tokens_name(model, texts, max_tokens))


def tokens_name(model: LoadedModel | SavedStates, texts: Texts, max_tokens: int) -> str:
    """Return the name of the folder of a corpus' tokens, a hash of what they depend on; empty where they are given."""
    if isinstance(model, SavedStates):
        return ""
    parts = (TOKENS_VERSION, texts.hash, model.tokenizer_hash, longest(max_tokens, model))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def measure(
    model: LoadedModel | SavedStates,
    corpus: TokenisedCorpus,
    watchers: Sequence[Watcher],
    settings: Settings,
    first_shard: int = 0,
    tick: Callable[[int], None] = lambda tokens: None,
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

    Yields:
        each finished shard with its counts.

    Raises:
        ReporterError: if states are not finite.
    """
    first_of = corpus.originals
    for shard in corpus.shards[first_shard:]:
        began = time.perf_counter()
        tokens = corpus.of(shard)
        if settings.shuffled:
            tokens = [text.shuffled(settings.seed) for text in tokens]
        sizes, sinks, in_model = np.zeros(len(STRATA), dtype=np.int64), 0, 0.0
        for batch in batches(tokens, settings.batch_tokens, pad_id(model), model.anatomy.max_tokens):
            given = time.perf_counter()
            hidden = _forward(model, batch, settings, corpus.name, first_of)
            in_model += time.perf_counter() - given
            for watcher in watchers:
                watcher.start(hidden)
            for layer in hidden.layers():
                for watcher in watchers:
                    watcher.observe(layer)
            for watcher in watchers:
                watcher.finish(hidden)
            sizes += hidden.sizes
            sinks += int((hidden.sinks.sink & (hidden.strata != SPECIAL)).sum())
            tick(len(hidden))
        yield (
            shard,
            replace(
                _counts(tokens, first_of, sizes, sinks), seconds=time.perf_counter() - began, model_seconds=in_model
            ),
        )


def _counts(tokens: list[TokenisedText], first_of: NDArray[np.int64], sizes: NDArray[np.int64], sinks: int) -> Counts:
    return Counts(
        texts=len(tokens),
        distinct_texts=sum(int(first_of[text.index]) == text.index for text in tokens),
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


def _forward(
    model: LoadedModel | SavedStates, batch: TokenBatch, settings: Settings, corpus: str, first_of: NDArray[np.int64]
) -> HiddenBatch:
    causal, seen = model.anatomy.role == "decoder", batch.ids
    with torch.inference_mode(), autocast(model.device, settings.precision):
        if isinstance(model, SavedStates):
            captured, seen = model.captured(batch), model.seen(batch, first_of)
        else:
            ids = torch.as_tensor(batch.ids, device=model.device)
            mask = torch.as_tensor(batch.mask, device=model.device)
            captured = model.run(ids, mask, attention=settings.layout.attention)
        losses = None
        if settings.losses and settings.readout is not None and not settings.readout.loss_problem:
            losses = settings.readout.token_losses(batch, captured.last, settings.seed)
    states = list(captured.path)
    if settings.layout.final_width is not None and captured.final is not None:
        states.append(captured.final)
    states += captured.attention or []
    del captured
    with torch.inference_mode():
        norms = torch.stack([x.float().norm(dim=-1) for x in states])
        _check_finite(norms, batch, corpus)
        blocks = slice(1, settings.layout.layers + 1)
        sinks = find_sinks(states[blocks], norms[blocks], batch.mask, settings.sinks)
        kinds = strata(sinks.sink, batch.mask, batch.special)

        rows, positions = np.nonzero(batch.mask)
        order = np.argsort(kinds[rows, positions], kind="stable")
        rows, positions = rows[order], positions[order]
        flat = torch.as_tensor(rows * batch.ids.shape[1] + positions, device=model.device)
        for layer, x in enumerate(states):  # in place, so that padded and flat copies never all live at once
            states[layer] = _with_float64(x.flatten(0, 1).index_select(0, flat).float())
        norms = _with_float64(norms.flatten(1)[:, flat])
        losses = None if losses is None else losses.flatten()[flat]

    lengths = batch.mask.sum(axis=1)
    contexts = context_keys(seen, lengths, causal, settings.seed)
    if isinstance(model, SavedStates) and model.states.begins_mixed:
        embedded = contexts
    else:
        embedded = embedding_keys(seen, model.anatomy.positions == "added")
    return HiddenBatch(
        layout=settings.layout,
        states=states,
        norms=norms,
        token_ids=batch.ids[rows, positions],
        texts=batch.texts[rows],
        originals=first_of[batch.texts[rows]],
        positions=positions.astype(np.int64),
        contexts=contexts[rows, positions],
        frequent=settings.frequent[batch.ids[rows, positions]],
        embedding_contexts=embedded[rows, positions],
        sizes=tuple(np.bincount(kinds[rows, positions], minlength=len(STRATA)).tolist()),
        sinks=sinks.at(rows, positions),
        losses=losses,
        readout=settings.readout,
        vocabulary=settings.vocabulary,
    )


def _with_float64(x: torch.Tensor) -> torch.Tensor:
    """Move states off a device that cannot add in float64 (Apple's)."""
    return x.cpu() if x.device.type == "mps" else x


def _check_finite(norms: torch.Tensor, batch: TokenBatch, corpus: str) -> None:
    real = torch.as_tensor(batch.mask, device=norms.device, dtype=torch.bool)
    bad = (~norms.isfinite() & real).nonzero()
    if len(bad):
        layer, row, position = bad[0].tolist()
        raise ReporterError(
            f"the states are not finite: first at layer {layer}, text {batch.texts[row]} of corpus {corpus!r}, "
            f"token {position}; the weights may be damaged, or try `precision: float32`"
        )
