"""Each token of a journey at each place: against the vocabulary, the place before, and in one plane with all."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.core.errors import ReporterError
from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.components import coordinates
from reporter.geometry.neighbours import BOTH, Closeness, against, compare
from reporter.geometry.pairs import Rows
from reporter.metrics._items import EncodedText, Point
from reporter.metrics._static_vectors import StaticVectors
from reporter.metrics.analysis import Tell, silent
from reporter.metrics.base import Value
from reporter.metrics.journeys import JourneyStep, Measure, Neighbour, Norm, TokenPair, WithPositions
from reporter.models.places import Layout, Place

# Finds the tokens of a text that a study names by a word.


_GAP = 16  # characters that a tokenizer may leave out between two tokens
_SHOWN = 60  # tokens that an error lists


Span = tuple[int, int]


@dataclass(frozen=True)
class Written:
    """A text and its tokens.

    Args:
        text: as the study has it.
        ids: token ids as the model sees them, (tokens,).
        special: True where the tokenizer added the token, (tokens,).
        tokens: how each token reads.
        raw: how the tokenizer writes it.
        bare: its text without marks of a space or of a part of a word.
    """

    text: str
    ids: Ints
    special: NDArray[np.bool_]
    tokens: tuple[str, ...]
    raw: tuple[str, ...]
    bare: tuple[str, ...]


def followed(words: Sequence[str], texts: Sequence[Written], tokenizer: Any) -> list[NDArray[np.bool_]]:
    """Return for each text which of its tokens are followed, (tokens,).

    A word is looked for in each text by itself: first as a whole word as it is written, with all tokens that it is
    split into; then as a token, with or without the tokenizer's marks; then both again, capitals or not.

    Raises:
        ReporterError: if a word is in none of the texts.
    """
    if not words:
        return [np.ones(len(text.ids), dtype=bool) for text in texts]
    spans = [_spans(text, tokenizer) for text in texts]
    masks = [np.zeros(len(text.ids), dtype=bool) for text in texts]
    for word in words:
        hits = [_hits(word, text, span) for text, span in zip(texts, spans, strict=True)]
        if not any(hit.any() for hit in hits):
            raise ReporterError(_not_there(word, texts))
        for marked, hit in zip(masks, hits, strict=True):
            marked |= hit
    return masks


def _hits(word: str, text: Written, spans: Sequence[Span]) -> NDArray[np.bool_]:
    for flags in (0, re.IGNORECASE):
        for hit in (_as_word(word, text, spans, flags), _as_token(word, text, flags)):
            if hit.any():
                return hit
    return np.zeros(len(text.ids), dtype=bool)


def _as_word(word: str, text: Written, spans: Sequence[Span], flags: int) -> NDArray[np.bool_]:
    mask = np.zeros(len(text.ids), dtype=bool)
    before = r"(?<!\w)" if re.match(r"\w", word) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", word) else ""
    for match in re.finditer(before + re.escape(word) + after, text.text, flags):
        for i, (start, end) in enumerate(spans):
            mask[i] |= start < match.end() and end > match.start() and not text.special[i]
    return mask


def _as_token(word: str, text: Written, flags: int) -> NDArray[np.bool_]:
    return np.array(
        [
            _same(token, word, flags)
            or _same(raw, word, flags)
            or (bool(bare.strip()) and _same(bare.strip(), word, flags))
            for token, raw, bare in zip(text.tokens, text.raw, text.bare, strict=True)
        ],
        dtype=bool,
    )


def _same(a: str, b: str, flags: int) -> bool:
    return a.casefold() == b.casefold() if flags else a == b


def _spans(text: Written, tokenizer: Any) -> Sequence[Span]:
    if getattr(tokenizer, "is_fast", False):
        options: Mapping[str, Any] = {"return_offsets_mapping": True, "verbose": False}
        whole = tokenizer(text.text, **options)
        if len(whole["input_ids"]) != len(text.ids):  # it was cut
            whole = tokenizer(text.text, truncation=True, max_length=len(text.ids), **options)
        if np.array_equal(whole["input_ids"], text.ids):
            return [(int(start), int(end)) for start, end in whole["offset_mapping"]]
    return _searched(text)


def _searched(text: Written) -> Sequence[Span]:
    spans, at = [], 0
    for token in text.bare:
        part = token.strip()
        match = (
            re.compile(re.escape(part), re.IGNORECASE).search(text.text, at, at + len(part) + _GAP) if part else None
        )
        if match:
            at = match.end()
        spans.append((match.start(), match.end()) if match else (at, at))
    return spans


def _not_there(word: str, texts: Sequence[Written]) -> str:
    tokens = list(dict.fromkeys(token for text in texts for token in text.tokens))
    shown = ", ".join(repr(token) for token in tokens[:_SHOWN])
    more = f", and {len(tokens) - _SHOWN} more" if len(tokens) > _SHOWN else ""
    where = "the text" if len(texts) == 1 else f"the {len(texts)} texts"
    return f"follow: {word!r} is not in {where}; the tokens there are {shown}{more}"


JOINT, WITHOUT_LAST = "pca-joint", "pca-joint-without-last"
_DIMENSIONS = 3
MOST_PAIRED = 12  # followed tokens of which each two are compared
TURNOVER = 100  # nearest vectors whose coming and going is counted
_TINY = 1e-18
Close = Callable[[torch.Tensor], torch.Tensor]
"""What a model does after its last block, for any states, (n, width)."""


@dataclass(frozen=True)
class Journey:
    """One text on its way.

    Args:
        text: its states.
        tokens: how its tokens read.
        followed: whose neighbours are wanted, (tokens,).
    """

    text: EncodedText
    tokens: Sequence[str]
    followed: NDArray[np.bool_]


def steps(
    journeys: Sequence[Journey],
    vectors: StaticVectors,
    layout: Layout,
    top: int,
    positions: bool,
    close: Close | None = None,
    tell: Tell = silent,
) -> Iterator[Value | JourneyStep | Neighbour]:
    """Yield all steps of all tokens, and the neighbours of those that are followed."""
    size = len(vectors.tokens)
    problem = _problem(vectors, layout)
    yield Value("vocabulary", None, None if problem else float(size), size, reason=problem)
    variants: list[WithPositions] = ["without"]
    if positions:
        missing = problem or _no_positions(vectors, journeys)
        yield Value("vocabulary_with_positions", None, None if missing else float(size), size, reason=missing)
        variants += [] if missing else ["with"]
    before = places_before(layout)
    after = {then: place for place, then in before.items() if then is not None}
    total = sum(len(journey.text.ids) for journey in journeys) * len(variants)
    done = 0
    for variant in variants:
        for journey in journeys:
            for tokens, shift in _portions(journey, vectors, variant):
                portion = _Portion(
                    journey, tokens, vectors, shift, variant, top, close if variant == "without" else None
                )
                for place in layout.places:
                    yield from portion.rows(place, before[place], after.get(place))
                done += len(tokens)
                tell("tokens against the vocabulary", done, total)


def places_before(layout: Layout) -> dict[Place, Place | None]:
    """Return the place that a token was at before: on its path, after attention, and block L before ``final``."""
    before: dict[Place, Place | None] = dict(zip(layout.path, (None, *layout.path[:-1]), strict=True))
    for place in layout.places[len(layout.path) :]:
        if place.site == "final":
            before[place] = layout.path[-1] if layout.final_width == layout.width else None
        else:
            before[place] = Place("attention", place.layer - 1) if place.layer > 1 else None
    return before


def _problem(vectors: StaticVectors, layout: Layout) -> str:
    width = vectors.tokens.shape[1]
    if width in layout.widths:
        return ""
    return f"its token vectors have {width} dimensions, its states {layout.width}: they cannot be compared"


def _no_positions(vectors: StaticVectors, journeys: Sequence[Journey]) -> str:
    table = vectors.positions
    if table is None:
        return "it adds no position vectors to its tokens'"
    if table.shape[1] != vectors.tokens.shape[1]:
        return f"its position vectors have {table.shape[1]} dimensions, its token vectors {vectors.tokens.shape[1]}"
    longest = max(len(journey.text.ids) for journey in journeys)
    return "" if longest <= len(table) else f"it has {len(table)} position vectors for {longest} tokens"


def _portions(
    journey: Journey, vectors: StaticVectors, variant: WithPositions
) -> Iterator[tuple[Ints, torch.Tensor | None]]:
    every = np.arange(len(journey.text.ids), dtype=np.int64)
    if variant == "without":
        yield every, None
        return
    assert vectors.positions is not None
    for position in every:
        yield every[position : position + 1], vectors.positions[position].detach()


class _Portion:
    """Some tokens of a text, at all places, against the same vectors."""

    def __init__(
        self,
        journey: Journey,
        tokens: Ints,
        vectors: StaticVectors,
        shift: torch.Tensor | None,
        variant: WithPositions,
        top: int,
        close: Close | None,
    ) -> None:
        self.text, self.journey, self.tokens = journey.text, journey, tokens
        self.strings, self.variant, self.top = vectors.shown, variant, top
        self.norm_before: Norm = "none" if close is None else "closing"
        self.vectors = Rows(vectors.tokens, shift=shift)
        self.states = {place: x[torch.from_numpy(tokens)] for place, x in self.text.states.items()}
        self.compared = {
            place: x if close is None or place.site == "final" else close(x) for place, x in self.states.items()
        }
        same = [place for place, x in self.compared.items() if x.shape[1] == vectors.tokens.shape[1]]
        self.at = {place: i * len(tokens) for i, place in enumerate(same)}
        self.found: Closeness | None = None
        if same:  # all places at once, so that the vocabulary is read once
            states = torch.cat([self.compared[place] for place in same])
            token_ids = np.tile(self.text.ids[tokens], len(same))
            self.found = compare(states, token_ids, self.vectors, BOTH, max(top, TURNOVER))

    def rows(self, place: Place, before: Place | None, after: Place | None) -> Iterator[JourneyStep | Neighbour]:
        """Yield each token at a place, its step from there on, and the neighbours of those that are followed."""
        norms, lengths, cosines = self._moved(place, after)
        for i, position in enumerate(self.tokens.tolist()):
            token_id, token = int(self.text.ids[position]), self.journey.tokens[position]
            cosine, distance, rank_cosine, rank_distance = self._own(place, i)
            yield JourneyStep(
                place=place,
                text=self.text.index,
                position=position,
                token_id=token_id,
                token=token,
                followed=bool(self.journey.followed[position]),
                special=bool(self.text.special[position]),
                positions=self.variant,
                norm_before=self.norm_before,
                cosine=cosine,
                distance=distance,
                rank_cosine=rank_cosine,
                rank_distance=rank_distance,
                norm=norms[i],
                step_length=lengths[i],
                step_cosine=cosines[i],
                turnover_cosine=self._turnover(place, before, "cosine", i),
                turnover_distance=self._turnover(place, before, "distance", i),
            )
            for measure in BOTH if self.journey.followed[position] else ():
                yield from self._neighbours(place, i, position, token_id, token, measure)

    def _own(self, place: Place, i: int) -> tuple[float | None, float | None, int | None, int | None]:
        if self.found is None or place not in self.at:
            return None, None, None, None
        row = self.at[place] + i
        cosine, rank = float(self.found.cosine[row]), int(self.found.ranks["cosine"][row])
        return (
            None if np.isnan(cosine) else cosine,
            float(self.found.distance[row]),
            None if rank < 0 else rank,
            int(self.found.ranks["distance"][row]),
        )

    def _moved(
        self, place: Place, after: Place | None
    ) -> tuple[list[float], Sequence[float | None], Sequence[float | None]]:
        """Return the norm of each state, how far it is from the next one, and the cosine of the two."""
        x = self.states[place].double()
        if after is None:
            return x.norm(dim=1).tolist(), [None] * len(x), [None] * len(x)
        y = self.states[after].double()
        size = x.norm(dim=1) * y.norm(dim=1)
        cosines = ((x * y).sum(dim=1) / size.clamp_min(_TINY)).clamp(-1, 1)
        return (
            x.norm(dim=1).tolist(),
            (x - y).norm(dim=1).tolist(),
            [c if s > _TINY else None for c, s in zip(cosines.tolist(), size.tolist(), strict=True)],
        )

    def _nearest(self, place: Place | None, measure: Measure, i: int) -> Ints:
        if self.found is None or place not in self.at:
            return np.zeros(0, dtype=np.int64)
        ids: Ints = self.found.nearest[measure][self.at[place] + i]
        return ids[ids >= 0]

    def _turnover(self, place: Place, before: Place | None, measure: Measure, i: int) -> float | None:
        now, then = (self._nearest(p, measure, i)[:TURNOVER] for p in (place, before))
        if not len(now) or not len(then) or len(self.vectors) <= TURNOVER:
            return None
        return 1.0 - len(np.intersect1d(now, then)) / len(now)

    def _neighbours(
        self, place: Place, i: int, position: int, token_id: int, token: str, measure: Measure
    ) -> Iterator[Neighbour]:
        ids = self._nearest(place, measure, i)[: self.top]
        if not len(ids):
            return
        cosines, distances = against(self.compared[place][i : i + 1], ids[None], self.vectors)
        for rank, (near, cosine, distance) in enumerate(
            zip(ids.tolist(), cosines[0].tolist(), distances[0].tolist(), strict=True), 1
        ):
            yield Neighbour(
                *(self.text.index, position, token_id, token, place, self.variant, self.norm_before, measure, rank),
                *(near, self.strings[near], None if np.isnan(cosine) else cosine, distance),
            )


def between(journeys: Sequence[Journey], places: Sequence[Place]) -> Iterator[TokenPair]:
    """Yield how alike each two followed tokens are at every place, within a text and between texts."""
    chosen = [(journey, int(position)) for journey in journeys for position in np.flatnonzero(journey.followed)][
        :MOST_PAIRED
    ]
    for place in places:
        x = np.stack([journey.text.states[place][position].double().numpy() for journey, position in chosen])
        text_states = [
            journey.text.states[place][torch.from_numpy(~journey.text.special)].double() for journey in journeys
        ]
        mean = _mean_cosine(torch.cat(text_states).numpy())
        norms = np.linalg.norm(x, axis=1)
        for i, j in combinations(range(len(chosen)), 2):
            (a, at_a), (b, at_b) = chosen[i], chosen[j]
            size = float(norms[i] * norms[j])
            cosine = float(np.clip(x[i] @ x[j] / size, -1, 1)) if size > _TINY else None
            yield TokenPair(
                *(a.text.index, at_a, a.tokens[at_a], b.text.index, at_b, b.tokens[at_b], place),
                *(cosine, float(np.linalg.norm(x[i] - x[j])), mean),
            )


def _mean_cosine(x: Floats) -> float | None:
    norms = np.linalg.norm(x, axis=1)
    units = x[norms > 0] / norms[norms > 0, None]
    n = len(units)
    return None if n < 2 else float((np.square(units.sum(axis=0)).sum() - n) / (n * (n - 1)))


def paths(texts: Sequence[EncodedText], labels: Mapping[int, Sequence[str]], path: Sequence[Place]) -> Iterator[Point]:
    """Yield where each token is at each place of its path, on principal components of all tokens at all places.

    The last layer often lies far from the others and takes the plane for itself, so the same is done without it, too.
    """
    for name, part in ((JOINT, path), (WITHOUT_LAST, path[:-1])):
        rows = [(text, place, text.states[place].double().numpy()) for text in texts for place in part]
        if not rows:
            continue
        at = coordinates(np.concatenate([x for *_, x in rows]), _DIMENSIONS)
        start = 0
        for text, place, x in rows:
            for position, point in enumerate(at[start : start + len(x)].tolist()):
                yield Point(name, place, f"text {text.index}", position, labels[text.index][position], *point)
            start += len(x)
