"""How far the subspace of the leading axes turns from layer to layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.effort import decomposing, little
from reporter.geometry import noise
from reporter.geometry.arrays import Floats
from reporter.geometry.spectra import EQUAL
from reporter.geometry.subspaces import grassmann, leading_axes, menger
from reporter.metrics._sources import JIANG
from reporter.metrics.base import Options, Statistic, Value
from reporter.metrics.registry import metric
from reporter.threads import spread

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place

_SUBSPACE = (
    "d(V, W) = √Σθ², θ the principal angles, V_l the span of the eigenvectors of the k largest eigenvalues of the "
    "covariance of all token states at layer l, k = `axes`, at most half the width"
)
_PUBLISHED = (
    "The authors take mean-pooled or last-token vectors of texts, and the k that carries 95 % of the variance at the "
    "last layer (`explained: 0.95` here), which differs from model to model."
)
_SWINGS = (
    "Where λ_k and λ_{k+1} are close the k-th axis is arbitrary, and the distance large for nothing. No interval: "
    "where eigenvalues nearly meet the error of an axis does not follow from the influences of tokens."
)

STATISTICS = (
    Statistic(
        "speed",
        "Grassmann speed of the leading subspace",
        f"d(V_l, V_{{l+1}}), stored at layer l = 0…L−1, with {_SUBSPACE}",
        (JIANG,),
        per="step",
        unit="radians",
        floor=True,
        bounds=(0, None),
        smallest=0.01,
        headline=True,
        trap="The floor, random subspaces, is the upper end: what lies far below is near. Sinks own the first axis in "
        f"the middle of a decoder: compare 'no-sinks'. {_SWINGS}",
        published=_PUBLISHED,
    ),
    Statistic(
        "displacement",
        "distance of the leading subspace from the embedding's",
        f"d(V_0, V_l), l = 0…L, with {_SUBSPACE}",
        (JIANG,),
        unit="radians",
        floor=True,
        bounds=(0, None),
        smallest=0.01,
        trap="Its end, l = L, is the displacement d(0, L) that the authors rank models by. It nears the floor, where "
        f"two random subspaces lie, and cannot say more from there on. {_SWINGS}",
        published=_PUBLISHED,
        fixed=(("first", 0.0),),
    ),
    Statistic(
        "curvature",
        "curvature of the leading subspace's path",
        "4·area/(abc), the Menger curvature of V_l, V_{l+1}, V_{l+2}: of the triangle with the sides a = "
        "d(V_l, V_{l+1}), b = d(V_{l+1}, V_{l+2}), c = d(V_l, V_{l+2}), stored at layer l = 0…L−2, with "
        f"{_SUBSPACE}",
        (JIANG,),
        per="step",
        unit="1/radian",
        bounds=(0, None),
        smallest=0.01,
        trap="Of subspaces, over layers; of tokens' states see motion.curvature. Small steps magnify it: it is one "
        "over a radius.",
        published=_PUBLISHED + " They store it at the middle layer, l + 1, and 0 where a side is 0.",
    ),
)


class SubspaceOptions(Options):
    """How many axes are followed."""

    axes: int = Field(default=10, ge=1, description="leading axes that make the subspace")
    explained: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="in their place as many as carry this share of the variance at the last block, 0.95 as published",
    )


@metric(
    name="subspaces",
    title="Leading subspaces",
    summary="How far the subspace in which most of the variance lies turns from layer to layer, and how far it gets "
    "from the embedding.",
    statistics=STATISTICS,
    needs=("moments", "gram"),
    options=SubspaceOptions,
    cost="a few axes of one width × width matrix for each layer and view",
    effort=lambda scale, said: little(scale, said) + decomposing(scale, 0.1),
)
def subspaces(seen: Observed, options: SubspaceOptions) -> Iterator[Value]:
    """Yield speed, displacement and curvature of the leading subspace.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: how many axes.
    """
    n, path = seen.tokens, seen.path
    followed = _followed(seen, options)
    if isinstance(followed, str):
        for statistic, end in {"speed": len(path) - 1, "displacement": len(path), "curvature": len(path) - 2}.items():
            for place in path[: max(end, 0)]:
                yield Value(statistic, place, None, n, reason=followed)
        return
    k = followed.k
    floor = noise.subspaces(seen.width(path[0]), k, seen.seed)
    few = f"fewer than {k} axes have any variance at one of the layers"
    for layer, place in enumerate(path):
        distances = {"displacement": followed.distance(0, layer)}
        if layer < seen.layers:
            distances["speed"] = followed.distance(layer, layer + 1)
        for statistic, distance in distances.items():
            if distance is None:
                yield Value(statistic, place, None, n, reason=few)
                continue
            yield Value(statistic, place, distance, n)
            if statistic == "speed" or layer:
                yield Value(f"{statistic}_floor", place, floor, n)
        if layer < seen.layers - 1:
            yield followed.curvature(layer, place, n, few)


_STILL = 1e-4  # radians: below it a distance is what rounding leaves of none


@dataclass(frozen=True, eq=False)
class _Followed:
    """The leading axes at each layer of the path, (d, k); None where fewer than k have any variance."""

    k: int
    axes: Sequence[Floats | None]

    def distance(self, layer: int, other: int) -> float | None:
        """Return the distance of two layers' subspaces; None where one of them has none."""
        a, b = self.axes[layer], self.axes[other]
        if a is None or b is None:
            return None
        return 0.0 if layer == other else grassmann(a, b)

    def curvature(self, layer: int, place: Place, n: int, few: str) -> Value:
        """Return the curvature over a layer and the two that follow."""
        first, second, both = (self.distance(layer + i, layer + j) for i, j in ((0, 1), (1, 2), (0, 2)))
        if first is None or second is None or both is None:
            return Value("curvature", place, None, n, reason=few)
        if min(first, second, both) < _STILL:
            return Value("curvature", place, None, n, reason="the subspace does not move")
        return Value("curvature", place, menger(first, second, both), n)


def _followed(seen: Observed, options: SubspaceOptions) -> _Followed | str:
    """Return the leading axes of every layer of the path, or why there are none."""
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

    def at(place: Place) -> Floats | None:
        moments = seen.moments(place)
        if moments.squares.sum() <= EQUAL * (n * moments.mean @ moments.mean + moments.squares.sum()):
            return None  # all states are equal
        return leading_axes(seen.covariance(place), k)

    return seen.once(("subspaces", seen.held, k), lambda: _Followed(k, spread(at, path)))
