"""How far the states of a model lie from those of its base: ``change``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from reporter.verify.by_map import explained
from reporter.verify.by_token import cosines
from reporter.verify.reading import Found, Place, Reading
from reporter.verify.tokens import Floats, Ints, half_of, key

MOVED = 2.0**-10  # of ‖h⁰ − μ⁰‖: beyond the 16 bits in which the states of both are kept
TEXTS = 1024  # whose mean states are compared where the tokenizers disagree

LOST = 2.0**-39  # of the largest entry of a state: what lies below is 0 in these 16 bits, however it varies

States = Callable[[Place], Floats]  # of the rows that are compared


def change(seen: Reading, base: Reading, options: Mapping[str, Any], ending: str = "") -> Iterator[Found]:
    """Yield what ``change`` measures of a model and its base, or of it and its twin (``ending`` is ``_seed``).

    Args:
        seen: what the model reads.
        base: what the other one reads, of the same corpus.
        options: how many tokens are drawn.
        ending: what the names of the numbers end in.
    """
    pairs = [(place, place) for place in seen.path[:-1] if place in base.path] + [(seen.path[-1], base.path[-1])]
    finals = [[place for place in one.places if place.site == "final"] for one in (seen, base)]
    for view in seen.masks:
        texts, mine, theirs = _same_tokens(seen, base, view, options["sample"])
        if len(texts) < 2:
            continue
        half = np.array([half_of(seen.seed, text) for text in texts.tolist()])
        for place, counterpart in (*pairs, *zip(*finals, strict=False)):
            for name, value, slack in _numbers(mine(place), theirs(counterpart), half):
                if not ending or name in ("distance", "linear"):
                    yield Found(f"{name}{ending}", view, place, value, slack)


def _same_tokens(seen: Reading, base: Reading, view: str, sample: int) -> tuple[Ints, States, States]:
    """Return the text of each row, and the rows of both: tokens that both draw, or means where these are others."""
    drawn = []
    for one in (seen, base):
        rows = one.drawn(one.masks[view], sample)
        names = zip(one.text[rows].tolist(), one.position[rows].tolist(), strict=True)
        drawn.append(dict(zip(names, rows.tolist(), strict=True)))
    both = [name for name in drawn[0] if name in drawn[1]]
    mine, theirs = (np.array([rows[name] for name in both], dtype=np.int64) for rows in drawn)
    if np.array_equal(seen.ids[mine], base.ids[theirs]):
        first = {text.index: text.original for text in seen.texts}
        texts = np.array([first[text] for text, _ in both], dtype=np.int64)
        return texts, lambda place: seen.at(place)[mine], lambda place: base.at(place)[theirs]
    spans = [_spans(one, view, min(sample, TEXTS)) for one in (seen, base)]
    shared = [text for text in spans[0] if text in spans[1]]

    def of(which: int, place: Place) -> Floats:
        x = (seen, base)[which].at(place)
        return np.stack([x[spans[which][text]].mean(axis=0) for text in shared])

    return np.array(shared, dtype=np.int64), partial(of, 0), partial(of, 1)


def _spans(seen: Reading, view: str, wanted: int) -> dict[int, Ints]:
    """Return the rows of a view of each of the texts with the smallest hashes; repetitions are left out."""
    own, mask = {text.original for text in seen.texts}, seen.masks[view]
    rows = {text: np.flatnonzero(mask[span]) + span.start for text, span in seen.spans if text in own}
    drawn = sorted((key(seen.seed, text), text) for text in rows if len(rows[text]))[:wanted]
    return {text: rows[text] for _, text in drawn}


def _numbers(x: Floats, y: Floats, half: Ints) -> Iterator[tuple[str, float, float]]:
    """Yield each number with its slack: what the 16 bits of both states may move it by."""
    fewest = min((half == one).sum() for one in (0, 1))
    if fewest >= 2 * y.shape[1]:
        off = np.abs(y - np.median(y, axis=0))
        read = np.where((off < LOST * off.max(axis=1, keepdims=True)).all(axis=0), 0.0, y)
        shares = [explained(read[half == a], x[half == a], read[half != a], x[half != a]) for a in (0, 1)]
        yield "linear", float(np.mean(shares)), 0.0
    sizes = np.linalg.norm(y, axis=1)
    if x.shape != y.shape or not sizes.any():
        return
    rows = (sizes > 0) & (np.linalg.norm(x, axis=1) > 0)
    x, y, sizes = x[rows], y[rows], sizes[rows]
    step = np.linalg.norm(x - y, axis=1)
    centred = [np.linalg.norm(side - np.median(side, axis=0), axis=1) for side in (x, y)]
    rounding = np.where(step > 0, 2.0**-11 * np.hypot(*centred), 0.0)  # the same number is rounded to the same
    yield "distance", float((step / sizes).mean()), float((rounding / sizes).mean())
    yield "cosine", float(cosines(x, y).mean()), float((rounding / sizes).mean())
    limit = MOVED * np.linalg.norm(y - y.mean(axis=0), axis=1) + 1e-6 * sizes
    near = (step > 0) & (np.abs(step - limit) <= 2 * rounding)
    yield "moved", float((step > limit).mean()), float(near.mean())
