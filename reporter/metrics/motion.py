"""How far, and in which direction, a token's state moves from layer to layer (Luisto 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry import noise
from reporter.metrics._intervals import BOOTSTRAP, change_of_mean, mean_with_interval
from reporter.metrics._sources import LUISTO
from reporter.metrics.base import Between, Difference, Options, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.observed import Observed

STATISTICS = (
    Statistic(
        "step_length",
        "length of a step",
        "mean over tokens of ‖h_{l+1} − h_l‖, stored at layer l = 0…L−1",
        (LUISTO,),
        per="step",
        interval=BOOTSTRAP,
        bounds=(0, None),
        trap="In the model's own units: compare models by the update ratio.",
    ),
    Statistic(
        "step_cosine",
        "cosine of consecutive states",
        "mean over tokens of cos(h_l, h_{l+1}), stored at layer l = 0…L−1",
        (LUISTO,),
        per="step",
        interval=BOOTSTRAP,
        floor=True,
        bounds=(-1, 1),
        smallest=0.01,
        headline=True,
        trap="Near 1 in a residual stream whose common mean is large, whatever the block does.",
    ),
    Statistic(
        "norm",
        "norm",
        "mean over tokens of ‖h_l‖, l = 0…L",
        (LUISTO,),
        interval=BOOTSTRAP,
        bounds=(0, None),
        trap="A block that ends in a norm (post-norm encoders) fixes it; elsewhere the residual stream grows.",
    ),
    Statistic(
        "update_ratio",
        "length of a step over norm",
        "mean over tokens of ‖h_{l+1} − h_l‖ / ‖h_l‖, stored at layer l = 0…L−1",
        (LUISTO,),
        per="step",
        interval=BOOTSTRAP,
        bounds=(0, None),
        trap="A mean of ratios, not a ratio of means.",
    ),
    Statistic(
        "curvature",
        "turn between consecutive steps",
        "mean over tokens of the angle between h_{l+1} − h_l and h_{l+2} − h_{l+1}, stored at layer l = 0…L−2",
        (LUISTO,),
        per="step",
        unit="radians",
        interval=BOOTSTRAP,
        floor=True,
        bounds=(0, float(np.pi)),
        trap="Independent states at each layer read 2π/3 ≈ 2.09, not π/2: consecutive steps share a state.",
        smallest=0.01,
        published="Elsewhere curvature is a turn from token to token within a layer. The code of Skean et al. has it "
        "in two versions: first the angle between the states of neighbouring tokens, later that between their "
        "differences, of the absolute cosine. Neither is this number, which turns from layer to layer.",
    ),
)


_UNDEFINED = "every token has a zero state or a zero step here"


def _defined(layers: int) -> dict[str, int]:
    """Return at how many places from the embedding on each quantity is defined, in a model of so many blocks."""
    return {
        "step_length": layers,
        "step_cosine": layers,
        "norm": layers + 1,
        "update_ratio": layers,
        "curvature": max(layers - 1, 0),
    }


def compare(a: Observed, b: Observed, options: Options) -> Iterator[Difference]:
    """Yield each quantity of a model minus that of its base, layer by layer, with intervals from paired replicates.

    Args:
        a: the model.
        b: its base.
        options: none.
    """
    from reporter.observables.text_sums import TextSums

    there = _defined(b.layers)
    for statistic, end in _defined(a.layers).items():
        for place in a.path[: min(end, there[statistic])]:
            mine, theirs = (one.get(TextSums).average(statistic, place, one.view) for one in (a, b))
            yield change_of_mean(statistic, place, mine, theirs, a.texts, _UNDEFINED)


@metric(
    name="motion",
    title="Motion through the layers",
    summary="How long the step of each layer is, how much it turns the state, and how it compares with its norm.",
    statistics=STATISTICS,
    needs=("text_sums",),
    version=2,
    cost="a few products per token and layer",
    between=Between(compare, of=("base",)),
    tables=(Difference,),
)
def motion(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the mean of each quantity at each layer where it is defined.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: none.
    """
    from reporter.observables.text_sums import TextSums

    floors = {"step_cosine": noise.pair_cosine, "curvature": noise.step_angle}
    for statistic, end in _defined(seen.layers).items():
        for place in seen.path[:end]:
            average = seen.get(TextSums).average(statistic, place, seen.view)
            yield mean_with_interval(statistic, place, average, seen.texts, _UNDEFINED)
            if average.n and statistic in floors:
                floor = floors[statistic](average.n, seen.width(place), seen.seed)
                yield Value(f"{statistic}_floor", place, floor, average.n)
