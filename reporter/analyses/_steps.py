"""Each token of a journey at each place: against the vocabulary, the place before, and in one plane with all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.analyses._encode import EncodedText
from reporter.analyses._journey_rows import JourneyStep, Measure, Neighbour, Norm, TokenPair, WithPositions
from reporter.analyses._pictures import Point
from reporter.analyses.base import Tell, silent
from reporter.forward.places import Layout, Place
from reporter.geometry.components import coordinates
from reporter.geometry.neighbours import BOTH, Closeness, against, compare
from reporter.geometry.rows import Rows
from reporter.metrics.base import Value
from reporter.weights.kinds import StaticVectors

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
    """Yield all steps of all tokens, and the neighbours of those that are followed.

    Args:
        journeys: the texts.
        vectors: of the model.
        layout: the places that were read.
        top: how many neighbours are listed.
        positions: whether to look also among vectors to which the token's own position vector is added; that is what
            enters the first block, so these are compared with states as they are.
        close: what states pass before they are compared; None where that is nothing.
        tell: told of progress.
    """
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
    found: dict[Place, Place | None] = dict(zip(layout.path, (None, *layout.path[:-1]), strict=True))
    for place in layout.places[len(layout.path) :]:
        if place.site == "final":
            found[place] = layout.path[-1] if layout.final_width == layout.width else None
        else:
            found[place] = Place("attention", place.layer - 1) if place.layer > 1 else None
    return found


def _problem(vectors: StaticVectors, layout: Layout) -> str:
    width = vectors.tokens.shape[1]
    if width in layout.widths:
        return ""
    return f"its token vectors have {width} dimensions, its states {layout.width}: they cannot be compared"


def _no_positions(vectors: StaticVectors, journeys: Sequence[Journey]) -> str:
    table = vectors.positions
    if table is None:
        return f"it adds no position vectors to its tokens' (positions: {vectors.position_kind})"
    if table.shape[1] != vectors.tokens.shape[1]:
        return f"its position vectors have {table.shape[1]} dimensions, its token vectors {vectors.tokens.shape[1]}"
    longest = max(len(journey.text.ids) for journey in journeys)
    return "" if longest <= len(table) else f"it has {len(table)} position vectors for {longest} tokens"


def _portions(
    journey: Journey, vectors: StaticVectors, variant: WithPositions
) -> Iterator[tuple[NDArray[np.int64], torch.Tensor | None]]:
    """Yield positions that are compared with the same vectors, and what is added to those."""
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
        tokens: NDArray[np.int64],
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
            own = np.tile(self.text.ids[tokens], len(same))
            self.found = compare(states, own, self.vectors, BOTH, max(top, TURNOVER))

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
        """Return cosine, distance and both ranks of a token and its own vector."""
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

    def _nearest(self, place: Place | None, measure: Measure, i: int) -> NDArray[np.int64]:
        """Return ids of the nearest vectors of a token; none where it cannot be compared."""
        if self.found is None or place not in self.at:
            return np.zeros(0, dtype=np.int64)
        ids: NDArray[np.int64] = self.found.nearest[measure][self.at[place] + i]
        return ids[ids >= 0]

    def _turnover(self, place: Place, before: Place | None, measure: Measure, i: int) -> float | None:
        """Return the share of the nearest that were not among the nearest before; None where all are near."""
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
    """Yield how alike each two followed tokens are at every place, within a text and between texts.

    Args:
        journeys: the texts; of more followed tokens than ``MOST_PAIRED`` the first ones count.
        places: where.
    """
    chosen = [(one, int(position)) for one in journeys for position in np.flatnonzero(one.followed)][:MOST_PAIRED]
    for place in places:
        x = np.stack([one.text.states[place][position].double().numpy() for one, position in chosen])
        own = [one.text.states[place][torch.from_numpy(~one.text.special)].double() for one in journeys]
        mean = _mean_cosine(torch.cat(own).numpy())
        norms = np.linalg.norm(x, axis=1)
        for i, j in combinations(range(len(chosen)), 2):
            (a, at_a), (b, at_b) = chosen[i], chosen[j]
            size = float(norms[i] * norms[j])
            cosine = float(np.clip(x[i] @ x[j] / size, -1, 1)) if size > _TINY else None
            yield TokenPair(
                *(a.text.index, at_a, a.tokens[at_a], b.text.index, at_b, b.tokens[at_b], place),
                *(cosine, float(np.linalg.norm(x[i] - x[j])), mean),
            )


def _mean_cosine(x: NDArray[np.float64]) -> float | None:
    """Return the mean over all pairs of rows, from the length of the sum of their unit vectors."""
    norms = np.linalg.norm(x, axis=1)
    units = x[norms > 0] / norms[norms > 0, None]
    n = len(units)
    return None if n < 2 else float((np.square(units.sum(axis=0)).sum() - n) / (n * (n - 1)))


def paths(texts: Sequence[EncodedText], labels: Mapping[int, Sequence[str]], path: Sequence[Place]) -> Iterator[Point]:
    """Yield where each token is at each place of its path, on principal components of all tokens at all places.

    The last layer often lies far from the others and takes the plane for itself, so the same is done without it, too.

    Args:
        texts: the texts of a journey; all of them share a plane.
        labels: the tokens of each text, by its index.
        path: the places, first to last.
    """
    for name, part in ((JOINT, path), (WITHOUT_LAST, path[:-1])):
        rows = [(text, place, text.states[place].double().numpy()) for text in texts for place in part]
        if not rows:
            continue
        at = coordinates(np.concatenate([x for *_, x in rows]), _DIMENSIONS)
        start = 0
        for text, place, x in rows:
            for position, own in enumerate(at[start : start + len(x)].tolist()):
                yield Point(name, place, f"text {text.index}", position, labels[text.index][position], *own)
            start += len(x)
