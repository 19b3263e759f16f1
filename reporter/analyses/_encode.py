"""Sends texts that a study writes itself through a model: every token's state at every place, or one vector a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.errors import ReporterError
from reporter.forward.measure import longest, pad_id
from reporter.forward.places import Place
from reporter.texts.tokens import TokenisedText, batches, tokenise_texts

if TYPE_CHECKING:
    from reporter.analyses.base import Context, Pooling

Vectors = Mapping[Place, NDArray[np.float64]]
PooledVectors = Mapping[Place, NDArray[Any]]
"""Float64 where several tokens are averaged, float32 (as the states are) where one token is read."""


@dataclass(frozen=True)
class EncodedText:
    """One text as the model saw it.

    Args:
        index: which text.
        ids: token ids, (tokens,), special tokens included.
        special: True where the tokenizer added the token, (tokens,).
        states: at each place (tokens, width) in float32, on the CPU.
    """

    index: int
    ids: NDArray[np.int64]
    special: NDArray[np.bool_]
    states: Mapping[Place, torch.Tensor]


def encode(texts: Sequence[str], context: Context, max_tokens: int | None = None) -> Iterator[EncodedText]:
    """Yield each text with its states, in the order in which they were batched (by length, longest first).

    Args:
        texts: what to read.
        context: model, places, batch size.
        max_tokens: where texts are cut; the model's own limit if None.

    Raises:
        ReporterError: if a text gives no token, or states are not finite.
    """
    model, layout = context.model, context.layout
    limit = longest(max_tokens or 10**9, model)
    tokens = tokenise_texts(list(texts), model.tokenizer, limit)
    missing = set(range(len(texts))) - {text.index for text in tokens}
    if missing:
        raise ReporterError(f"its tokenizer finds no token in {texts[min(missing)]!r}")
    for batch in batches(tokens, context.batch_tokens, pad_id(model), model.anatomy.max_tokens):
        ids = torch.as_tensor(batch.ids, device=model.device)
        mask = torch.as_tensor(batch.mask, device=model.device)
        with torch.inference_mode():
            captured = model.run(ids, mask, attention=layout.attention)
            states = list(captured.path)
            if layout.final_width is not None and captured.final is not None:
                states.append(captured.final)
            states += captured.attention or []
            states = [x.float().cpu() for x in states]
        for row, index in enumerate(batch.texts.tolist()):
            n = int(batch.mask[row].sum())
            found = {place: x[row, :n] for place, x in zip(layout.places, states, strict=True)}
            if not all(bool(x.isfinite().all()) for x in found.values()):
                raise ReporterError(f"the states of {texts[index][:60]!r} are not finite; the weights may be damaged")
            yield EncodedText(index, batch.ids[row, :n], batch.special[row, :n], found)


def pooled(texts: Sequence[str], context: Context, max_tokens: int | None = None, what: str = "texts") -> Vectors:
    """Return the vectors of some texts, (texts, width) in float64 at each place, in the order of the texts.

    Args:
        texts: the texts.
        context: model, places, pooling.
        max_tokens: where texts are cut; the model's own limit if None.
        what: what these texts are called, for progress.

    Raises:
        ReporterError: if a text gives no token, or none of its own where those are needed.
    """
    vectors = pooled_by(texts, context, (context.pooling,), max_tokens, what)[context.pooling]
    return {place: x.astype(np.float64, copy=False) for place, x in vectors.items()}


def pooled_by(
    texts: Sequence[str],
    context: Context,
    poolings: Sequence[Pooling],
    max_tokens: int | None = None,
    what: str = "texts",
) -> Mapping[Pooling, PooledVectors]:
    """Return the vectors of some texts by pooling, all from one forward pass; see ``pooled``.

    Texts that come twice are read once. Memory: 8·texts·width bytes for each place and a mean, half of it for the
    first and for the last token.

    Args:
        texts: the texts.
        context: model and places.
        poolings: how a text becomes one vector.
        max_tokens: where texts are cut; the model's own limit if None.
        what: what these texts are called, for progress.
    """
    distinct = list(dict.fromkeys(texts))
    layout = context.layout
    vectors: dict[Pooling, dict[Place, NDArray[Any]]] = {
        pooling: {
            place: np.empty((len(distinct), width), dtype=np.float64 if pooling == "mean" else np.float32)
            for place, width in zip(layout.places, layout.widths, strict=True)
        }
        for pooling in poolings
    }
    for done, text in enumerate(encode(distinct, context, max_tokens), 1):
        for pooling, by_place in vectors.items():
            rows = chosen(text, pooling)
            for place, x in text.states.items():
                by_place[place][text.index] = x[rows].double().mean(dim=0).numpy()
        context.tell(what, done, len(distinct))
    at = {text: row for row, text in enumerate(distinct)}
    order = [at[text] for text in texts]
    return {pooling: {place: x[order] for place, x in by_place.items()} for pooling, by_place in vectors.items()}


def chosen(text: EncodedText | TokenisedText, pooling: Pooling) -> NDArray[np.int64]:
    """Return the positions whose states are averaged.

    ``first``: position 0, whatever stands there ([CLS] where there is one). ``mean``: all tokens of the text itself,
    sinks included (the view ``words``). ``last``: the last token of the text itself. A text without tokens of its own
    falls back on all of its tokens.

    Args:
        text: one text.
        pooling: how.
    """
    if pooling == "first":
        return np.array([0])
    own = np.flatnonzero(~text.special)
    if not len(own):
        own = np.arange(len(text.ids))
    return own if pooling == "mean" else own[-1:]


def same_token(texts: Sequence[str], context: Context) -> str | None:
    """Return the token that is read in every text; None where several tokens are averaged, or texts differ in it.

    Special tokens do not count in an encoder: [CLS] is there to be read.

    Args:
        texts: the texts.
        context: model and pooling.
    """
    if context.pooling == "mean" or len(set(texts)) < 2:
        return None
    model = context.model
    read = {
        (int(text.ids[at]), bool(text.special[at]))
        for text in tokenise_texts(list(dict.fromkeys(texts)), model.tokenizer, longest(10**9, model))
        for at in chosen(text, context.pooling)
    }
    if len(read) > 1:
        return None
    (token, special), *_ = read
    return None if special and model.anatomy.role == "encoder" else str(model.tokenizer.decode([token]))
