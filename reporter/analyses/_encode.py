"""Sends texts that a study writes itself through a model: every token's state at every place, or one vector a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.errors import ReporterError
from reporter.forward.measure import longest, pad_id
from reporter.forward.places import Place
from reporter.texts.tokens import batches, tokenise_texts

if TYPE_CHECKING:
    from reporter.analyses.base import Context, Pooling

Vectors = Mapping[Place, NDArray[np.float64]]


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

    Texts that come twice are read once. Memory: 8·texts·width bytes for each place.

    Args:
        texts: the texts.
        context: model, places, pooling.
        max_tokens: where texts are cut; the model's own limit if None.
        what: what these texts are called, for progress.

    Raises:
        ReporterError: if a text gives no token, or none of its own where those are needed.
    """
    distinct = list(dict.fromkeys(texts))
    layout = context.layout
    found = {place: np.empty((len(distinct), width)) for place, width in zip(layout.places, layout.widths, strict=True)}
    for done, text in enumerate(encode(distinct, context, max_tokens), 1):
        rows = chosen(text, context.pooling)
        for place, x in text.states.items():
            found[place][text.index] = x[rows].double().mean(dim=0).numpy()
        context.tell(what, done, len(distinct))
    at = {text: row for row, text in enumerate(distinct)}
    order = [at[text] for text in texts]
    return {place: x[order] for place, x in found.items()}


def chosen(text: EncodedText, pooling: Pooling) -> NDArray[np.int64]:
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
