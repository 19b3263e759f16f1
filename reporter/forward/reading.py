"""How a model reads texts: where they are cut, how they are tokenised, and in which batches."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from reporter.core.errors import is_out_of_memory
from reporter.core.threads import Ahead, spread, suited_to, tasks_at_once
from reporter.forward.inputs import Pass
from reporter.geometry.arrays import products_are_exact
from reporter.models.load import LoadedModel
from reporter.models.parts import pad_id
from reporter.models.places import Layout
from reporter.models.states import SavedStates
from reporter.texts.chat import Chat
from reporter.texts.texts import Texts
from reporter.texts.tokens import (
    TokenBatch,
    TokenisedCorpus,
    TokenisedText,
    Windows,
    batches,
    padded_length,
    tokenise_corpus,
    tokenise_texts,
)

T = TypeVar("T")
R = TypeVar("R")
MOST_WAITING = 3 * 2**29
"""Bytes of states that may wait to be read, where several batches go through a model at the same time."""
TOKENS_VERSION = 3  # raise it when a tokenizer's output is read in another way


def longest(max_tokens: int, model: LoadedModel | SavedStates) -> int:
    """Return where texts are cut: the study's limit or the model's own, whichever is smaller."""
    limit = model.anatomy.max_tokens
    return max_tokens if limit is None else min(max_tokens, limit)


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


def at_once(model: LoadedModel | SavedStates, layout: Layout, batch_tokens: int) -> int:
    """Return how many batches may go through a model at the same time, if each has one thread.

    More than one on a processor, where passes leave nothing behind in the model, the caller's program lets products
    round as float32, and as far as the states that wait need little memory.
    """
    if not isinstance(model, LoadedModel) or not _may_run_beside(model):
        return 1
    return max(1, MOST_WAITING // (4 * batch_tokens * sum(layout.widths)))


def _may_run_beside(model: LoadedModel) -> bool:
    return model.device.type == "cpu" and model.steady and products_are_exact()


def run_together(function: Callable[[T], R], items: Sequence[T], model: LoadedModel) -> list[R]:
    """Return what a function makes of each of a few items in a pass; the passes run at the same time where they may."""
    if _may_run_beside(model):
        results = spread(function, items)
        if model.steady:  # no pass changed what another one read
            return results
    return [function(item) for item in items]


def run_batches(
    function: Callable[[TokenBatch], R], batches: Iterable[TokenBatch], model: LoadedModel, layout: Layout
) -> Iterator[tuple[TokenBatch, R]]:
    """Yield batches, the longest text first, with what a function makes of each in a pass; see :func:`run_ahead`.

    The first one runs alone: what a model does at some length only shows there.
    """
    items = list(batches)
    size = max((batch.ids.size for batch in items), default=1)
    most = min(at_once(model, layout, size), len(items))
    with suited_to(model.anatomy.width, model.device.type, most):
        yield from run_ahead(function, items, size, model, layout, first_alone=True)


def run_ahead(
    function: Callable[[T], R],
    items: Iterable[T],
    size: int,
    model: LoadedModel | SavedStates,
    layout: Layout,
    smaller: Callable[[list[T]], Iterable[T]] | None = None,
    first_alone: bool = False,
) -> Generator[tuple[T, R], None, None]:
    """Yield items with what a function makes of each in a pass, in their order; some run while the caller reads others.

    After a lack of memory, one runs after the other. Where one changed the model, those that ran beside it run again.

    Args:
        function: what is done with an item; several threads may call it.
        items: batches, or groups of some.
        size: tokens in an item at most, padding included.
        model: the model.
        layout: the places that are read.
        smaller: what to read in place of items, the first of which needs too much memory alone.
        first_alone: whether the first item runs before the others.
    """
    waiting, most = deque(items), min(tasks_at_once(), at_once(model, layout, size))
    together = 1 if first_alone else most
    with Ahead(function, most) as running:
        while waiting or running:
            while waiting and len(running) < together:
                running.give(waiting.popleft())
            try:
                item, result = running.next()
            except Exception as error:
                left, lacking = [*running.take_back(), *waiting], is_out_of_memory(error)
                if together > 1 and (lacking or at_once(model, layout, size) < together):
                    waiting = deque(left)
                elif lacking and smaller is not None:
                    waiting = deque(smaller(left))
                else:
                    raise
                most = together = 1
                continue
            before, together = together, min(most, at_once(model, layout, size))
            if together < before:  # a pass changed the model, perhaps while others ran
                waiting.extendleft(reversed([item, *running.take_back()]))
                continue
            yield item, result
            del item, result  # memory for the next
