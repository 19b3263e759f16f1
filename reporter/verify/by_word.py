"""Words against the vocabulary: ``journey``, each sampled word beside every row of the input embedding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from reporter.verify.by_token import mean
from reporter.verify.plain_model import PlainModel
from reporter.verify.reading import Found, Reading
from reporter.verify.tokens import Floats, Ints, key

NO_MARK = "its tokenizer marks words by their ends, which no second path reads"
OTHER_WIDTH = "its input embedding has other dimensions than its states"
_EQUAL = 2e-6  # two cosines of float32 states that differ by less may stand in either order


def journey(
    seen: Reading, model: PlainModel, options: Mapping[str, Any], moved: float = 0.0
) -> tuple[list[Found], str]:
    """Return what ``journey`` measures, and why there is nothing if so.

    Args:
        seen: tokens and states.
        model: the model that they are of.
        options: about how many tokens are read.
        moved: by how much, relative, the states of the run differ from these on average.
    """
    vectors: Floats = model.embedding().weight.detach().double().numpy()
    words = _Words(model.tokenizer, len(vectors))
    if words.by_end:
        return [], NO_MARK
    if any(width != vectors.shape[1] for width in seen.widths.values()):
        return [], OTHER_WIDTH
    # A state that is moved by a share of its length in no direction of its own moves the difference of two cosines by
    # √(2/d) of that on average; three times as far, either row may be the nearer one.
    equal = _EQUAL + 3 * moved * math.sqrt(2 / vectors.shape[1])
    return list(_journey(seen, vectors, words, options, equal)), ""


def _journey(
    seen: Reading, vectors: Floats, words: _Words, options: Mapping[str, Any], equal: float
) -> Iterator[Found]:
    limit = min(1.0, options["sample"] / len(seen.ids)) * 2.0**64
    kinds = [kind for text in seen.texts for kind in words.kinds(list(text.ids))]
    pairs = zip(seen.text.tolist(), seen.position.tolist(), strict=True)
    drawn = [limit >= 2.0**64 or key(seen.seed, *pair) < limit for pair in pairs]
    rows = np.array([at for at, kind in enumerate(kinds) if kind and drawn[at]], dtype=np.int64)
    with np.errstate(invalid="ignore", divide="ignore"):
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for place in seen.places:
        rank, near, cosine = (np.full(len(seen.ids), np.nan) for _ in range(3))
        for some in np.array_split(rows, max(1, len(rows) // 64)):
            rank[some], near[some], cosine[some] = _against(seen.at(place)[some], seen.ids[some], units, equal)
        for kind in ("function", "content"):
            own = np.array([one == kind for one in kinds])
            for view, mask in seen.masks.items():
                yield Found(f"rank_{kind}", view, place, mean(rank, mask & own), mean(near, mask & own))
                yield Found(f"cosine_{kind}", view, place, mean(cosine, mask & own))


def _against(x: Floats, ids: Ints, units: Floats, equal: float) -> tuple[Floats, Floats, Floats]:
    """Return how many rows lie nearer than a word's own, how many about as near, and its cosine, each (n,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        all_cosines = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ units.T
    own = all_cosines[np.arange(len(x)), ids]
    others = np.nan_to_num(all_cosines, nan=-2.0)
    others[np.arange(len(x)), ids] = -2.0
    nearer = (others > own[:, None]).sum(axis=1)
    near = (np.abs(others - own[:, None]) < equal).sum(axis=1)
    return np.where(np.isfinite(own), nearer, np.nan), near.astype(np.float64), own


class _Words:
    """Which tokens are whole words where they stand, from how the tokenizer itself writes them.

    A word begins with the mark of a space where the vocabulary has one, else with anything but ``##``; a token that is
    followed by one that goes on with its word is none.

    Args:
        tokenizer: a transformers tokenizer.
        size: rows of the embedding.
    """

    def __init__(self, tokenizer: Any, size: int) -> None:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        self.stop, self.tokenizer = ENGLISH_STOP_WORDS, tokenizer
        added = {str(token) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()}
        self.special = {*tokenizer.all_special_tokens, *added}
        vocabulary = {piece: at for piece, at in tokenizer.get_vocab().items() if at < size}
        pieces = [piece for piece in vocabulary if piece not in self.special]
        counts = {mark: sum(piece.startswith(mark) for piece in pieces) for mark in "Ġ▁"}
        self.space = max("Ġ▁", key=lambda mark: counts[mark]) if any(counts.values()) else ""
        self.by_end = not self.space and any(piece.endswith("</w>") for piece in pieces)
        self.piece_of = {at: piece for piece, at in vocabulary.items()}

    def kinds(self, ids: list[int]) -> list[str]:
        """Return ``function``, ``content`` or nothing for each token of a text."""
        pieces = [self.piece_of.get(one, "") for one in ids]
        on = [self._goes_on(piece) for piece in pieces]
        found = []
        for piece, own, following in zip(pieces, on, [*on[1:], False], strict=True):
            word = "" if own or following or piece in self.special else self._word(piece)
            letters = word.isalpha() and (len(word) > 1 or word in ("a", "A", "I"))
            found.append(("function" if word.lower() in self.stop else "content") if letters else "")
        return found

    def _word(self, piece: str) -> str:
        return self._text(piece).strip() if not self.space or piece.startswith(self.space) else ""

    def _text(self, piece: str) -> str:
        """Return what a piece stands for; the alphabet of bytes is undone by the tokenizer."""
        return str(self.tokenizer.convert_tokens_to_string([piece])) if self.space == "Ġ" else piece.lstrip("▁")

    def _goes_on(self, piece: str) -> bool:
        if not piece or piece in self.special:
            return False
        if not self.space:
            return piece.startswith("##") and len(piece) > 2
        if piece.startswith(self.space):
            return False
        text = self._text(piece)
        return not text or text[0] == "\ufffd" or text[0].isalnum() or text[0] in "'’"
