"""One vector for each text at each place: its first token, the mean of its own tokens, or the last of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.analyses.encode import EncodedText, encode
from reporter.forward.places import Place

if TYPE_CHECKING:
    from reporter.analyses.analysis import Context, Pooling

Vectors = Mapping[Place, NDArray[np.float64]]


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
