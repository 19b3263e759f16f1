"""The distance of a model's states from those of its base: tuned, quantised, pruned or distilled from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.core.numbers import counted
from reporter.core.table import TOKEN, Comparable, Row, UnderView, at_place, column
from reporter.core.threads import spread
from reporter.geometry.arrays import Ints
from reporter.geometry.intervals import error_over_texts
from reporter.metrics.base import (
    INFLUENCES,
    Between,
    Options,
    Size,
    Statistic,
    Value,
    completing,
    metric,
    undefined,
)
from reporter.store.answers import SAME
from reporter.texts.excerpts import EXCERPT

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.forward.observed import Observed, Place
    from reporter.forward.token_sample import PooledTexts, TokenSelection

ROUNDING = 2.0**-10
"""Of ‖h⁰ − μ⁰‖: more than the 16 bits of two kept states can differ by, each being off by at most 2^-11."""

TEXTS = 1024  # whose mean states stand in for tokens where tokenizers disagree
FEWEST = 3  # occurrences of a type that is listed
SURE = 3
"""Tokens of a half to a dimension below which the interval of `linear` covers far less than it says."""
LISTED = 10  # types at each layer
MOVED = 10  # tokens, each in its text, at each layer

_OVER = (
    "h is the model's state at layer l and h⁰ the base's at the same layer. Where the models differ in depth, the "
    "last layer is compared with the last. A hash of the seed, the text and the position draws at most `sample` "
    "tokens. Where the tokenizers disagree, mean states of at most 1024 texts are compared."
)


_WITH_SINKS = "It takes μ⁰ as known. A few sinks move μ⁰, so with sinks the interval covers far too rarely."
_ENOUGH = f"None if half of the texts have fewer than {SURE} tokens per dimension."
_TWIN = (
    "As `{name}`, with the model's `twin` (the same model from another seed) as the base. Needs `twin` in the study."
)

STATISTICS = (
    Statistic(
        "cosine",
        "cosine with the base's state",
        f"Mean over tokens of cos(h, h⁰). {_OVER}",
        ("merchant2020finetuning",),
        scale="fisher",
        trap="Ignores length, and is near 1 in a narrow cone of states. Independently trained models have different "
        "axes: about 0, however similar they are.",
        bounds=(-1, 1),
    ),
    Statistic(
        "distance",
        "distance from the base's state",
        f"Mean over tokens of ‖h − h⁰‖ / ‖h⁰‖. {_OVER} Before the first changed block it is exactly 0, in the same "
        "precision and batches. bf16 products in other batches differ by up to models.precision_deviation.",
        ("merchant2020finetuning",),
        scale="log",
        trap="A changed block moves all later layers. The first layer that moves identifies the block.",
        short="distance from the base",
        bounds=(0, None),
        smallest=SAME,
        main=True,
        plainly="Distance of a token's state from the base's, relative to the base's norm.",
    ),
    Statistic(
        "moved",
        "tokens that moved",
        "Share of tokens with ‖h − h⁰‖ > 2^-10·‖h⁰ − μ⁰‖ + 1e-6·‖h⁰‖, with μ⁰ the base's mean. "
        f"{_OVER} The limit is what rounding to 16 bits, in which states are kept, cannot explain.",
        ("merchant2020finetuning",),
        scale="logit",
        of_tokens=True,
        interval=_WITH_SINKS,
        trap="Says whether tokens moved, not how far.",
        bounds=(0, 1),
    ),
    Statistic(
        "linear",
        "variance explained by a linear map of the base",
        "1 − Σ‖h − map(h⁰)‖²/Σ‖h − mean‖² over one half of the texts, the least-squares map and the mean fitted to "
        f"the other half. {_OVER} The number is the mean over both directions. The explained part is the base's, "
        "possibly rotated or stretched; the rest is new.",
        ("din2024jump",),
        scale="plain",
        interval=_ENOUGH,
        trap="Needs twice as many tokens per half as dimensions; raise `sample` for wide models. A few directions of "
        "large variance dominate it.",
        bounds=(None, 1),
        smallest=0.01,
    ),
    Size(
        "distance_seed",
        "distance from another seed's state",
        _TWIN.format(name="distance"),
        ("merchant2020finetuning",),
        scale="log",
        smallest=SAME,
        trap="Another seed alone changes the states this much. Models trained from different random weights have "
        "different axes; compare linear_seed.",
    ),
    Statistic(
        "linear_seed",
        "variance explained by a linear map of another seed",
        _TWIN.format(name="linear"),
        ("din2024jump",),
        scale="plain",
        interval=_ENOUGH,
        bounds=(None, 1),
        smallest=0.01,
        trap="A value of `linear` that is not below this is no more change than another seed makes.",
    ),
)


class ChangeOptions(Options):
    """The number of tokens to compare."""

    sample: int = Field(default=4096, ge=32, description="tokens whose states in both models are compared")

    def size_of(self, observable: str) -> int:
        """Return how many tokens, or how many texts, must be kept."""
        return min(self.sample, TEXTS) if observable == "pooled" else max(self.sample, INFLUENCES)


class MovedToken(UnderView, table="moved_tokens"):
    """One of the token types whose states are farthest from their states in the model's base, at one layer.

    Only types that occur at least three times among the compared tokens are listed.
    """

    compared = (
        Comparable(
            ("distance", "cosine"),
            "corpus",
            of="'token ' || token",
            by=("model", "checkpoint", "corpus", "view", "site", "layer", "token_id"),
        ),
    )

    place: Place = at_place()
    rank: int = column("1 = farthest", key=True)
    token_id: int = column("id in the model's vocabulary")
    token: str = column(TOKEN)
    n: int = column("occurrences that were compared")
    distance: float = column("mean of ‖h − h⁰‖ / ‖h⁰‖")
    cosine: float = column("mean of cos(h, h⁰)")


class MovedText(UnderView, table="moved_texts"):
    """One of the tokens, each in its text, whose states are farthest from their states in the base, at one layer.

    A corpus with `cluster` has no rows.
    """

    place: Place = at_place()
    rank: int = column("1 = farthest", key=True)
    text: int = column("position of the text in the corpus, from 1")
    position: int = column("position of the token in the text, from 0, special tokens counted")
    token: str = column(TOKEN)
    distance: float = column("‖h − h⁰‖ / ‖h⁰‖")
    cosine: float = column("cos(h, h⁰)")
    begins: str = column(f"up to {EXCERPT} characters of the text around the token", default="")


@dataclass(frozen=True, eq=False)
class _Shared:
    """The states by which two models are compared: the same tokens, or mean states of the same texts.

    Args:
        mine: of the model.
        theirs: of the other one, in the same order.
        texts: which text each row belongs to, (n,).
        types: which token each row is, (n,); None for texts.
        positions: where in its text each token is, (n,); None for texts.
    """

    mine: TokenSelection | PooledTexts
    theirs: TokenSelection | PooledTexts
    texts: Ints
    types: Ints | None
    positions: Ints | None = None

    @classmethod
    def of(cls, seen: Observed, other: Observed, options: ChangeOptions) -> _Shared:
        """Return the tokens that both keep, or the texts where their tokenizers disagree."""
        from reporter.forward.token_sample import POSITION, Pooled
        from reporter.forward.token_sample import TOKEN as ID

        a, b = seen.token_sample(options.sample).shared(other.token_sample(options.sample))
        if np.array_equal(a.facts[:, ID], b.facts[:, ID]):
            return cls(a, b, a.texts, a.facts[:, ID], a.facts[:, POSITION])
        size = options.size_of("pooled")
        ours, base_texts = (side.get(Pooled).texts(side.strata, size, side.device) for side in (seen, other))
        ours, base_texts = ours.shared(base_texts)
        return cls(ours, base_texts, ours.units, None)

    def states(self, place: Place, counterpart: Place) -> tuple[Tensor, Tensor]:
        """Return the states of both in float64, each (n, d)."""
        x, y = (
            side.states(side_place) if hasattr(side, "states") else side.vectors(side_place)
            for side, side_place in ((self.mine, place), (self.theirs, counterpart))
        )
        return x.double(), y.double()


def _counterparts(seen: Observed, other: Observed) -> Iterator[tuple[Place, Place | None]]:
    for place in seen.path[:-1]:
        yield place, other.path[place.layer] if place.layer < other.layers else None
    yield seen.path[-1], other.path[-1]
    for place in seen.places[len(seen.path) :]:
        final = next((candidate for candidate in other.places if candidate.site == place.site == "final"), None)
        if final is not None:
            yield place, final


@completing(STATISTICS)
def _compare(seen: Observed, bases: Sequence[Observed], options: ChangeOptions) -> Iterator[Row]:
    """Yield how far the model lies from its base and, where the study has one, from its twin."""
    for other, ending in zip(bases, ("", "_seed"), strict=False):
        shared = _Shared.of(seen, other, options)

        def at(pair: tuple[Place, Place | None], shared: _Shared = shared, ending: str = ending) -> list[Row]:
            return list(_values_at(seen, shared, *pair, ending))

        for values in spread(at, list(_counterparts(seen, other))):
            yield from values


def _values_at(seen: Observed, shared: _Shared, place: Place, counterpart: Place | None, ending: str) -> Iterator[Row]:
    from reporter.forward.token_sample import TokenNames

    n = len(shared.texts)
    names = ("cosine", "distance", "moved") if not ending else ("distance_seed",)
    if counterpart is None or n < 2:
        reason = "fewer than two tokens" if counterpart else f"the other model has no layer {place.layer}"
        yield from undefined((*names, f"linear{ending}"), place, n, reason)
        return
    x, y = shared.states(place, counterpart)
    yield _linear(seen, shared, place, x, y, f"linear{ending}")
    if x.shape[1] != y.shape[1]:
        widths = f"the states of the model have {x.shape[1]:,} dimensions, the states of the base {y.shape[1]:,}"
        yield from undefined(names, place, n, widths)
        return
    step, size, lengths = (x - y).norm(dim=1), y.norm(dim=1), x.norm(dim=1)
    nonzero = (size > 0) & (lengths > 0)
    if not nonzero.any():
        yield from undefined(names, place, 0, "every state is zero")
        return
    cosine = ((x * y).sum(dim=1) / (size * lengths)).clamp(-1, 1)
    cosine = cosine.where(step > 0, 1.0)  # not up to rounding
    beyond = step > ROUNDING * (y - y.mean(dim=0)).norm(dim=1) + 1e-6 * size
    rows = nonzero.cpu().numpy()
    texts = shared.texts[rows]
    of_tokens = {"cosine": cosine, "distance": step / size, "moved": beyond.double()}
    values = {name: numbers.cpu().numpy()[rows] for name, numbers in of_tokens.items()}
    for name, numbers in values.items():
        if f"{name}{ending}" in names:
            value = float(numbers.mean())
            error = error_over_texts(numbers - value, texts, len(numbers), seen.texts)
            yield Value(f"{name}{ending}", place, value, len(numbers), spread=error)
    if shared.types is not None and shared.positions is not None and not ending and place in seen.path:
        types, distance, cosines = shared.types[rows], values["distance"], values["cosine"]
        yield from _farthest(seen, place, types, distance, cosines)
        tokens = seen.get(TokenNames).tokens
        farthest_first = np.lexsort((texts, -distance))[
            : 0 if seen.clustered else MOVED
        ]  # of a cluster no text is known
        for rank, i in enumerate(farthest_first.tolist(), 1):
            if distance[i] > 0:
                name, where = tokens.get(str(int(types[i])), ""), int(shared.positions[rows][i])
                yield MovedText(place, rank, int(texts[i]) + 1, where, name, float(distance[i]), float(cosines[i]))


def _farthest(
    seen: Observed, place: Place, types: Ints, distance: np.ndarray, cosine: np.ndarray
) -> Iterator[MovedToken]:
    from reporter.forward.token_sample import TokenNames

    tokens = seen.get(TokenNames).tokens
    ids, which, counts = np.unique(types, return_inverse=True, return_counts=True)
    distances, cosines = (np.bincount(which, numbers) / counts for numbers in (distance, cosine))
    order = [i for i in np.lexsort((ids, -distances)).tolist() if counts[i] >= FEWEST and distances[i] > 0]
    for rank, i in enumerate(order[:LISTED], 1):
        token = int(ids[i])
        name = tokens.get(str(token), "")
        yield MovedToken(place, rank, token, name, int(counts[i]), float(distances[i]), float(cosines[i]))


def _linear(seen: Observed, shared: _Shared, place: Place, x: Tensor, y: Tensor, name: str) -> Value:
    """Return how much of x a linear map of y makes on texts that it was not fitted to."""
    import torch

    from reporter.forward.between_layers import half_of
    from reporter.geometry.linear import directions, held_out, joint_of

    n, d = len(x), y.shape[1]
    half = torch.from_numpy(half_of(shared.texts, seen.seed)).to(x.device)
    fewest = min(int((half == part).sum()) for part in (0, 1))
    tokens = f"half of the texts have {counted(fewest, 'token')} for {d:,} dimensions; the minimum is"
    if fewest < 2 * d:
        return Value(name, place, None, n, reason=f"{tokens} {2 * d:,} tokens")
    joints = [joint_of(y[half == part], x[half == part]) for part in (0, 1)]
    if not all(joint.vary for joint in joints):
        return Value(name, place, None, n, reason="all states of one half of the texts are equal")
    share, influence = held_out(joints, [directions(joint.xx, joint.n) for joint in joints], y, x, half)
    value, few = min(share, 1.0), fewest < SURE * d
    influence -= influence.mean()
    error = None if few else error_over_texts(influence.cpu().numpy(), shared.texts, n, seen.texts)
    reason = f"no interval: {tokens} {SURE * d:,} tokens" if few else ""
    return Value(name, place, value, n, reason=reason, spread=error)


@metric(
    title="Change against the base",
    version=9,
    summary="How far the states of a tuned, quantised, pruned or distilled model are from the states of its base, by "
    "token and layer.",
    statistics=STATISTICS,
    question="similarity",
    needs=("moments", "tokens", "pooled", "token_names"),
    options=ChangeOptions,
    cost="a comparison of the kept tokens of both models, and two linear maps per layer",
    between=Between(_compare, of=("base",), own=True),
    tables=(MovedToken, MovedText),
)
def change(seen: Observed, options: ChangeOptions) -> Iterator[Value]:
    """Yield nothing: alone, a model has not changed."""
    yield from ()
