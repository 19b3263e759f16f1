"""The turn of the subspace of the leading axes from layer to layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.core.threads import spread
from reporter.geometry import noise
from reporter.geometry.arrays import Floats, wide
from reporter.geometry.components import LeadingAxes, apart, leading, menger, menger_by
from reporter.geometry.intervals import Error, error_over_texts
from reporter.geometry.spectra import EQUAL
from reporter.metrics._intervals import sampled
from reporter.metrics.base import Options, Size, Value, metric, undefined

if TYPE_CHECKING:
    from reporter.forward.observed import Observed, Place

_DISTANCE = "d(V, W) = √Σθ² over the principal angles θ"
_SUBSPACE = (
    "V_l is the span of the first k eigenvectors of the covariance of all token states at layer l. k is the option "
    "`axes`, at most half the width. Where λ_k and λ_{k+1} are close, the k-th axis is arbitrary and the distance "
    "large without meaning."
)
_PUBLISHED = (
    "The authors use pooled vectors of texts. Their k explains 95 % of the variance at the last layer (`explained: "
    "0.95` here), so it differs between models."
)
_INTERVAL = "To first order, and twice as wide as needed where measured. Useless where λ_k and λ_{k+1} nearly coincide."

_turn = partial(Size, sources=("jiang2026layerwise",), scale="log", interval=_INTERVAL, undetermined=True)

STATISTICS = (
    _turn(
        "speed",
        "Grassmann speed of the leading subspace",
        f"d(V_l, V_{{l+1}}), with {_DISTANCE}. {_SUBSPACE} Stored at layer l = 0…L−1. Chance level: random subspaces, "
        "the maximum.",
        short="Grassmann speed",
        per="step",
        unit="radians",
        smallest=0.15,
        floor=True,
        plainly="How far the leading directions rotate from one layer to the next.",
        trap="Sinks occupy the first axis in the middle of a decoder; compare without sinks. Large without meaning "
        "where λ_k and λ_{k+1} are close.",
        published=_PUBLISHED,
    ),
    _turn(
        "displacement",
        "distance of the leading subspace from the embedding's",
        f"d(V_0, V_l), l = 0…L, with {_DISTANCE}. {_SUBSPACE} Chance level: random subspaces, the maximum. The number "
        "at l = L is the displacement d(0, L) by which the authors rank models.",
        short="distance from layer 0",
        unit="radians",
        smallest=0.02,
        floor=True,
        trap="Close to the chance level (two random subspaces) it is saturated and cannot distinguish layers.",
        published=_PUBLISHED,
        fixed=(("first", 0.0),),
    ),
    _turn(
        "curvature",
        "curvature of the leading subspace's path",
        "4·area/(abc), the Menger curvature of V_l, V_{l+1}, V_{l+2}. The triangle has the sides a = d(V_l, V_{l+1}), "
        f"b = d(V_{{l+1}}, V_{{l+2}}) and c = d(V_l, V_{{l+2}}), with {_DISTANCE}. {_SUBSPACE} Stored at layer l = "
        "0…L−2.",
        short="curvature of the path",
        per="step",
        unit="1/radian",
        smallest=0.05,
        trap="Small steps magnify it, since it is the inverse of a radius. For the states of tokens see "
        "motion.curvature.",
        published=_PUBLISHED + " The authors store it at the middle layer, l + 1, and 0 where a side is 0.",
    ),
)

SPEED = STATISTICS[0]


class SubspaceOptions(Options):
    """The number of leading axes."""

    axes: int = Field(default=10, ge=1, description="leading axes that span the subspace")
    explained: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="instead of `axes`: share of the variance at the last block that the axes explain (published: "
        "0.95)",
    )


@metric(
    title="Leading subspaces",
    summary="How far the subspace of most variance rotates from layer to layer, and how far from the embedding's it "
    "gets.",
    statistics=STATISTICS,
    question="directions",
    needs=("moments", "gram", "tokens"),
    version=5,
    options=SubspaceOptions,
    cost="some leading axes of one width × width matrix per layer and token set, and a few products of sampled tokens",
    against_base=("speed", "displacement"),
)
def subspaces(seen: Observed, options: SubspaceOptions) -> Iterator[Value]:
    """Yield speed, displacement and curvature of the leading subspace."""
    n, path = seen.tokens, seen.path
    followed = _followed(seen, options)
    if isinstance(followed, str):
        for layer, place in enumerate(path):
            names = ("displacement", "speed", "curvature")[: 1 + min(2, seen.layers - layer)]
            yield from undefined(names, place, n, followed)
        return
    for layer, place in enumerate(path):
        yield followed.distance("displacement", place, 0, layer)
        if layer < seen.layers:
            yield followed.distance("speed", place, layer, layer + 1)
        if layer < seen.layers - 1:
            yield followed.curvature(place, layer)


_STILL = 1e-4  # radians: below it a distance is what rounding leaves of none
_Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class _SubspaceDistances:
    """Distances of the leading subspaces of layers.

    Args:
        seen: what the metric sees.
        k: axes of a subspace.
        distances: of two layers, the nearer to the embedding first; those that have no subspace are left out.
        influences: of sampled tokens on them, shape (m,) each.
    """

    seen: Observed
    k: int
    distances: Mapping[_Pair, float]
    influences: Mapping[_Pair, Floats]

    @property
    def few(self) -> str:
        """The reason why there is no distance."""
        return f"at one of the layers fewer than {self.k} axes have variance"

    def distance(self, statistic: str, place: Place, layer: int, other: int) -> Value:
        """Return the distance of two layers, with that of random subspaces."""
        n, pair = self.seen.tokens, (layer, other)
        if pair not in self.distances:
            return Value(statistic, place, None, n, reason=self.few)
        if layer == other:
            return Value(statistic, place, 0.0, n, paired=self._error(np.zeros(len(sampled(self.seen)))))
        distance, most = self.distances[pair], 0.5 * np.pi * self.k**0.5
        error = self._error(self.influences[pair])
        ends = SPEED.ends(distance, error, within=(0.0, most)) if distance >= _STILL else (None, None)
        floor = noise.subspaces(self.seen.width(place), self.k, self.seen.seed)
        # Rounding has no error over texts.
        spread = error if distance >= _STILL else None
        return Value(statistic, place, distance, n, *ends, spread=spread, paired=error, floor=floor)

    def curvature(self, place: Place, layer: int) -> Value:
        """Return the curvature over a layer and the two that follow."""
        n = self.seen.tokens
        pairs = [(layer + i, layer + j) for i, j in ((0, 1), (1, 2), (0, 2))]
        if any(pair not in self.distances for pair in pairs):
            return Value("curvature", place, None, n, reason=self.few)
        sides = [self.distances[pair] for pair in pairs]
        if min(sides) < _STILL:
            return Value("curvature", place, None, n, reason="the subspace does not move")
        parts = (by * self.influences[pair] for by, pair in zip(menger_by(*sides), pairs, strict=True))
        influence = np.sum(list(parts), axis=0)
        return Value("curvature", place, menger(*sides), n, spread=self._error(influence))

    def _error(self, influence: Floats) -> Error | None:
        n, sample = self.seen.tokens, sampled(self.seen)
        return error_over_texts(influence - influence.mean(), sample.texts, n, self.seen.texts, sample.keys)


def _followed(seen: Observed, options: SubspaceOptions) -> _SubspaceDistances | str:
    """Return how far apart the leading subspaces of the layers are, or why they are not known."""
    n, path = seen.tokens, seen.path
    width = seen.width(path[0])
    if n < 2:
        return "fewer than two tokens"
    if width < 2:
        return "states have one dimension"
    k = min(options.axes, width // 2)
    if options.explained is not None:
        values = np.linalg.eigvalsh(seen.covariance(path[-1]))[::-1].clip(0).cumsum()
        k = int(np.searchsorted(values, options.explained * values[-1])) + 1
    if n - 1 < k:
        return f"{n} tokens span fewer than {k} axes"
    return seen.once(("subspaces", seen.held, k), lambda: _measured(seen, k))


def _measured(seen: Observed, k: int) -> _SubspaceDistances:
    path = seen.path
    sample = sampled(seen)  # before threads ask for it, each for itself

    def axes(place: Place) -> LeadingAxes | None:
        moments = seen.moments(place)
        if moments.squares.sum() <= EQUAL * (moments.n * moments.mean @ moments.mean + moments.squares.sum()):
            return None  # all states are equal
        return leading(seen.covariance(place), k)

    bases = spread(axes, path)
    following = [(layer, layer + step) for step in (1, 2) for layer in range(len(path) - step)]
    between = {
        (layer, other): apart(first, second)
        for layer, other in sorted({*following, *((0, layer) for layer in range(1, len(path)))})
        if (first := bases[layer]) is not None and (second := bases[other]) is not None
    }

    def influences(layer: int) -> dict[_Pair, Floats]:
        """Return the influences of tokens by way of the axes of one layer."""
        here = bases[layer]
        sides = {
            pair: movement.first if pair[0] == layer else movement.second
            for pair, movement in between.items()
            if layer in pair
        }
        if here is None or not sides:
            return {}
        import torch

        states = sample.states(path[layer])
        x = (wide(states) - torch.from_numpy(seen.moments(path[layer]).mean).to(states.device)).float()
        both = torch.from_numpy(np.concatenate([here.axes, *sides.values()], axis=1)).float().to(x.device)
        products = x @ both
        along, *rest = (products[:, i * k : (i + 1) * k] for i in range(1 + len(sides)))
        return {pair: (along * r).sum(dim=1).double().cpu().numpy() for pair, r in zip(sides, rest, strict=True)}

    parts = spread(influences, range(len(path)))
    return _SubspaceDistances(
        seen,
        k,
        {pair: movement.distance for pair, movement in between.items()} | ({} if bases[0] is None else {(0, 0): 0.0}),
        {(a, b): parts[a][a, b] + parts[b][a, b] for a, b in between},
    )
