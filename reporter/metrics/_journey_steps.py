"""Each token of a journey at each place: against the vocabulary, the place before, and in one plane with all."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch

from reporter.core.errors import ReporterError
from reporter.geometry.arrays import Bools, Ints, Progress, silent
from reporter.geometry.components import coordinates
from reporter.geometry.neighbours import BOTH, against, compare
from reporter.geometry.pairs import TableRows
from reporter.geometry.spectra import mean_cosine_of
from reporter.metrics._items import EncodedText, Point, number_or_null
from reporter.metrics._static_vectors import StaticVectors
from reporter.metrics.base import Value
from reporter.metrics.journeys import JourneyStep, Measure, Neighbour, Norm, TokenPair, WithPositions
from reporter.models.places import Layout, Place

# Finds the tokens of a text that a study names by a word.


_GAP = 16  # characters that a tokenizer may leave out between two tokens
_SHOWN = 60  # tokens that an error lists


Span = tuple[int, int]


@dataclass(frozen=True)
class TokenText:
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
    special: Bools
    tokens: tuple[str, ...]
    raw: tuple[str, ...]
    bare: tuple[str, ...]


def followed(words: Sequence[str], texts: Sequence[TokenText], tokenizer: Any) -> list[Bools]:
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


def _hits(word: str, text: TokenText, spans: Sequence[Span]) -> Bools:
    """Return the tokens of a whole word of the text, or those that read or are written so, capitals or not."""
    before, after = r"(?<!\w)" * bool(re.match(r"\w", word)), r"(?!\w)" * bool(re.search(r"\w\Z", word))
    mask = np.zeros(len(text.ids), dtype=bool)
    for flags, same in ((re.NOFLAG, str), (re.IGNORECASE, str.casefold)):
        for match in re.finditer(before + re.escape(word) + after, text.text, flags):
            inside = [start < match.end() and end > match.start() for start, end in spans]
            mask |= np.array(inside, dtype=bool) & ~text.special
        if not mask.any():
            spellings = zip(text.tokens, text.raw, (bare.strip() for bare in text.bare), strict=True)
            mask = np.array([same(word) in map(same, of_token) for of_token in spellings], dtype=bool)
        if mask.any():
            break
    return mask


def _spans(text: TokenText, tokenizer: Any) -> Sequence[Span]:
    if getattr(tokenizer, "is_fast", False):
        options: Mapping[str, Any] = {"return_offsets_mapping": True, "verbose": False}
        whole = tokenizer(text.text, **options)
        if len(whole["input_ids"]) != len(text.ids):  # it was cut
            whole = tokenizer(text.text, truncation=True, max_length=len(text.ids), **options)
        if np.array_equal(whole["input_ids"], text.ids):
            return [(int(start), int(end)) for start, end in whole["offset_mapping"]]
    return _searched(text)


def _searched(text: TokenText) -> Sequence[Span]:
    spans, start = [], 0
    for token in text.bare:
        part = token.strip()
        match = (
            re.compile(re.escape(part), re.IGNORECASE).search(text.text, start, start + len(part) + _GAP)
            if part
            else None
        )
        if match:
            start = match.end()
        spans.append((match.start(), match.end()) if match else (start, start))
    return spans


def _not_there(word: str, texts: Sequence[TokenText]) -> str:
    tokens = list(dict.fromkeys(token for text in texts for token in text.tokens))
    shown = ", ".join(repr(token) for token in tokens[:_SHOWN])
    more = f", and {len(tokens) - _SHOWN} more" if len(tokens) > _SHOWN else ""
    where = "the text" if len(texts) == 1 else f"the {len(texts)} texts"
    return f"follow: {word!r} is not a token of {where}; the tokens are {shown}{more}"


JOINT, WITHOUT_LAST = "pca-joint", "pca-joint-without-last"
_DIMENSIONS = 3
MOST_PAIRED = 12  # followed tokens of which each two are compared
MOST_EQUAL = 66  # pairs of equal tokens that are compared: as many as of these
TURNOVER = 100  # nearest vectors whose coming and going is counted
_TINY = 1e-18
Close = Callable[[torch.Tensor], torch.Tensor]
"""What a model does after its last block, for any states, (n, width)."""


@dataclass(frozen=True)
class TextJourney:
    """One text on its way.

    Args:
        text: its states.
        tokens: how its tokens read.
        followed: whose neighbours are wanted, (tokens,).
    """

    text: EncodedText
    tokens: Sequence[str]
    followed: Bools


def steps(
    journeys: Sequence[TextJourney],
    vectors: StaticVectors,
    layout: Layout,
    top: int,
    positions: bool,
    close: Close | None = None,
    tell: Progress = silent,
) -> Iterator[Value | JourneyStep | Neighbour]:
    """Yield all steps of all tokens, and the neighbours of those that are followed."""
    size = len(vectors.tokens)
    width, problem = vectors.tokens.shape[1], ""
    if width not in layout.widths:
        problem = f"its token vectors have {width} dimensions, its states {layout.width}, so they cannot be compared"
    yield Value("vocabulary", None, None if problem else float(size), size, reason=problem)
    variants: list[WithPositions] = ["without"]
    if positions:
        missing = problem or _no_positions(vectors, journeys)
        yield Value("vocabulary_with_positions", None, None if missing else float(size), size, reason=missing)
        variants += [] if missing else ["with"]
    total = sum(len(journey.text.ids) for journey in journeys) * len(variants)
    done = 0
    for variant in variants:
        for journey in journeys:
            every = np.arange(len(journey.text.ids), dtype=np.int64)
            # Each position has vectors of its own where positions are added to them.
            for tokens in [every] if variant == "without" else np.split(every, len(every)):
                yield from _portion(journey, tokens, vectors, layout, variant, top, close)
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


def _no_positions(vectors: StaticVectors, journeys: Sequence[TextJourney]) -> str:
    table = vectors.positions
    if table is None:
        return "it adds no position vectors to its token vectors"
    if table.shape[1] != vectors.tokens.shape[1]:
        return f"its position vectors have {table.shape[1]} dimensions, its token vectors {vectors.tokens.shape[1]}"
    longest = max(len(journey.text.ids) for journey in journeys)
    return "" if longest <= len(table) else f"it has {len(table)} position vectors for {longest} tokens"


def _portion(
    journey: TextJourney,
    tokens: Ints,
    vectors: StaticVectors,
    layout: Layout,
    variant: WithPositions,
    top: int,
    close: Close | None,
) -> Iterator[JourneyStep | Neighbour]:
    """Yield some tokens of a text at all places against the same vectors, and the neighbours of followed ones."""
    text, closed = journey.text, close if variant == "without" else None
    norm: Norm = "none" if closed is None else "closing"
    shift = None
    if variant == "with":
        assert vectors.positions is not None
        shift = vectors.positions[int(tokens[0])].detach()
    vocabulary = TableRows(vectors.tokens, shift=shift)
    states = {place: x[torch.from_numpy(tokens)] for place, x in text.states.items()}
    compared = {place: x if closed is None or place.site == "final" else closed(x) for place, x in states.items()}
    same = [place for place, x in compared.items() if x.shape[1] == vectors.tokens.shape[1]]
    first = {place: i * len(tokens) for i, place in enumerate(same)}
    if same:  # all places at once, so that the vocabulary is read once
        ids = np.tile(text.ids[tokens], len(same))
        closeness = compare(torch.cat([compared[place] for place in same]), ids, vocabulary, BOTH, max(top, TURNOVER))

    def nearest(place: Place | None, measure: Measure, i: int) -> Ints:
        if place not in first:
            return np.zeros(0, dtype=np.int64)
        ids: Ints = closeness.nearest[measure][first[place] + i]
        return ids[ids >= 0]

    def turnover(place: Place, measure: Measure, i: int) -> float | None:
        now, then = (nearest(side, measure, i)[:TURNOVER] for side in (place, before[place]))
        if not len(now) or not len(then) or len(vocabulary) <= TURNOVER:
            return None
        return 1.0 - len(np.intersect1d(now, then)) / len(now)

    before = places_before(layout)
    after = {then: place for place, then in before.items() if then is not None}
    for place in layout.places:
        norms, lengths, cosines = _moved(states[place], states[after[place]] if place in after else None)
        for i, position in enumerate(tokens.tolist()):
            which = (text.index + 1, position, int(text.ids[position]), journey.tokens[position])
            marks = (bool(journey.followed[position]), bool(text.special[position]), place, variant)
            near: tuple[float | None, float | None, int | None, int | None] = (None, None, None, None)
            if place in first:
                row = first[place] + i
                rank, rank_distance = (int(closeness.ranks[measure][row]) for measure in BOTH)
                distance = float(closeness.distance[row])
                near = (
                    number_or_null(float(closeness.cosine[row])),
                    distance,
                    None if rank < 0 else rank,
                    rank_distance,
                )
            gone = (turnover(place, measure, i) for measure in BOTH)
            yield JourneyStep(*which, *marks, norm, *near, norms[i], lengths[i], cosines[i], *gone)
            for measure in BOTH if journey.followed[position] else ():
                ids = nearest(place, measure, i)[:top]
                if not len(ids):
                    continue
                measured = against(compared[place][i : i + 1], ids[None], vocabulary)
                for rank, (other, cosine, distance) in enumerate(
                    zip(ids.tolist(), *(neighbours[0].tolist() for neighbours in measured), strict=True), 1
                ):
                    yield Neighbour(
                        *(*which, place, variant, norm, measure, rank),
                        *(other, vectors.shown[other], number_or_null(cosine), distance),
                    )


def _moved(
    states: torch.Tensor, following: torch.Tensor | None
) -> tuple[list[float], Sequence[float | None], Sequence[float | None]]:
    """Return the norm of each state, how far it is from the next one, and the cosine of the two."""
    x = states.double()
    norms = x.norm(dim=1)
    if following is None:
        return norms.tolist(), [None] * len(x), [None] * len(x)
    y = following.double()
    size = norms * y.norm(dim=1)
    cosines = ((x * y).sum(dim=1) / size.clamp_min(_TINY)).clamp(-1, 1)
    moved = [c if s > _TINY else None for c, s in zip(cosines.tolist(), size.tolist(), strict=True)]
    return norms.tolist(), (x - y).norm(dim=1).tolist(), moved


def between(journeys: Sequence[TextJourney], places: Sequence[Place], named: bool) -> Iterator[TokenPair]:
    """Yield how alike two tokens are at every place, within a text and between texts.

    Args:
        journeys: the texts.
        places: where the states are compared.
        named: whether the study names the tokens, each two of which are compared; otherwise equal tokens of two texts
            are, such as a word in two contexts.
    """
    followed = [(journey, int(position)) for journey in journeys for position in np.flatnonzero(journey.followed)]
    if named:
        chosen = followed[:MOST_PAIRED]
        pairs = list(combinations(range(len(chosen)), 2))
    else:
        chosen = [(journey, position) for journey, position in followed if not journey.text.special[position]]
        pairs = _equal_tokens(chosen)[:MOST_EQUAL]
    for place in places if pairs else ():
        x = np.stack([journey.text.states[place][position].double().numpy() for journey, position in chosen])
        text_states = [
            journey.text.states[place][torch.from_numpy(~journey.text.special)].double() for journey in journeys
        ]
        every = torch.cat(text_states).numpy()
        lengths = np.linalg.norm(every, axis=1)
        units = every[lengths > 0] / lengths[lengths > 0, None]
        mean = None if len(units) < 2 else mean_cosine_of(units.sum(axis=0), len(units))
        norms = np.linalg.norm(x, axis=1)
        for i, j in pairs:
            (a, at_a), (b, at_b) = chosen[i], chosen[j]
            size = float(norms[i] * norms[j])
            cosine = float(np.clip(x[i] @ x[j] / size, -1, 1)) if size > _TINY else None
            yield TokenPair(
                *(a.text.index + 1, at_a, a.tokens[at_a], b.text.index + 1, at_b, b.tokens[at_b], place),
                *(cosine, float(np.linalg.norm(x[i] - x[j])), mean),
            )


def _equal_tokens(chosen: Sequence[tuple[TextJourney, int]]) -> list[tuple[int, int]]:
    """Return each two equal tokens of different texts, the tokens that occur in the fewest places first."""
    ids = [int(journey.text.ids[position]) for journey, position in chosen]
    pairs = [
        (i, j) for i, j in combinations(range(len(chosen)), 2) if ids[i] == ids[j] and chosen[i][0] is not chosen[j][0]
    ]
    return sorted(pairs, key=lambda pair: ids.count(ids[pair[0]]))


def paths(texts: Sequence[EncodedText], labels: Mapping[int, Sequence[str]], path: Sequence[Place]) -> Iterator[Point]:
    """Yield where each token is at each place of its path, on principal components of all tokens at all places.

    The last layer often lies far from the others and takes the plane for itself, so the same is done without it, too.
    """
    for name, part in ((JOINT, path), (WITHOUT_LAST, path[:-1])):
        rows = [(text, place, text.states[place].double().numpy()) for text in texts for place in part]
        if not rows:
            continue
        scores = coordinates(np.concatenate([x for *_, x in rows]), _DIMENSIONS)
        start = 0
        for text, place, x in rows:
            for position, point in enumerate(scores[start : start + len(x)].tolist()):
                yield Point(name, place, f"text {text.index + 1}", position, labels[text.index][position], *point)
            start += len(x)
