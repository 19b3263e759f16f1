"""What attention and feed-forward add: ``contributions``, from what the norms of each block take and return."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from reporter.verify.by_token import cosines, mean
from reporter.verify.plain_model import PlainModel, calls_of
from reporter.verify.reading import Found, Reading

if TYPE_CHECKING:
    from reporter.verify.tokens import Floats

NO_TWO_NORMS = "its blocks have no two norms between which attention and feed-forward could be told apart"
_ROUNDING = 2.0**-23  # of what the longer of two float32 vectors of which one is the difference


def contributions(seen: Reading, model: PlainModel) -> tuple[list[Found], str]:
    """Return what ``contributions`` measures, and why the sublayers are not among it if so.

    No sublayer is looked at. Before the feed-forward of a pre-norm block its second norm takes s = h + a, so a = s − h
    and m = h' − s. The first norm of a post-norm block takes h + a and returns s, its second one takes s + m.

    Args:
        seen: tokens and states.
        model: the model that they are of.
    """
    found = [
        Found("block_cosine", view, place, mean(cosine, mask))
        for at, place in enumerate(seen.path[:-1])
        for cosine in [cosines(seen.at(seen.path[at + 1]) - seen.at(place), seen.at(place))]
        for view, mask in seen.masks.items()
    ]
    texts = []
    for text in seen.texts:
        with calls_of(model.norms()) as calls:
            path, _ = model.states(text.ids)
        of_text = [_of_block(h, after, calls[at]) for at, (h, after) in enumerate(pairwise(path))]
        if any(one is None for one in of_text):
            return found, NO_TWO_NORMS
        texts.append(np.stack([one for one in of_text if one is not None]))  # (L, quantities, tokens)
    return [*found, *_means(seen, np.concatenate(texts, axis=2))], ""


def _means(seen: Reading, numbers: Floats) -> Iterator[Found]:
    names = ("attention_ratio", "attention_cosine", "feed_forward_ratio", "feed_forward_cosine")
    for place, of_place in zip(seen.path[:-1], numbers, strict=True):
        for name, values, rounding in zip(names, of_place[:4], of_place[4:], strict=True):
            for view, mask in seen.masks.items():
                yield Found(name, view, place, mean(values, mask), mean(rounding, mask & np.isfinite(values)))


def _of_block(before: Tensor, after: Tensor, norms: list[tuple[Tensor, Tensor]]) -> Floats | None:
    """Return ratio and cosine of both additions, and how far rounding may move each, (8, tokens)."""
    h, end = (x.double().numpy() for x in (before, after))
    of_stream = [[x[0].double().numpy() for x in pair] for pair in norms if all(x.shape[1:] == h.shape for x in pair)]
    if len(of_stream) != 2:  # those of queries and keys have other shapes
        return None
    (taken, returned), (second, last) = of_stream
    if np.array_equal(taken, h) and not np.array_equal(second, h):  # pre-norm; in a parallel block both take h
        parts = [(second - h, h, second), (end - second, second, end)]
    elif np.array_equal(last, end):  # post-norm
        parts = [(taken - h, h, taken), (second - returned, returned, second)]
    else:
        return None
    numbers, roundings = [], []
    for added, stream, both in parts:
        length, size, most = (np.linalg.norm(x, axis=1) for x in (added, stream, both))
        most = _ROUNDING * np.maximum(most, size)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(size > 0, length / size, np.nan)
            numbers += [ratio, cosines(added, stream)]
            roundings += [most / size, np.minimum(most / length, 2.0)]
    return np.stack([*numbers, *roundings])
