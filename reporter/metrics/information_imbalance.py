"""Does one layer know what another knows? Information imbalance (Glielmo et al. 2022; Acevedo et al. 2025)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from reporter.effort import Effort, Scale
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import FEWEST_TEXTS, Interval, jackknife_interval
from reporter.metrics._intervals import dealt
from reporter.metrics._sources import ACEVEDO, GLIELMO
from reporter.metrics.base import Options, PairValue, Statistic, Value
from reporter.metrics.registry import metric
from reporter.threads import spread

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.observables.observed import Observed, Place
    from reporter.observables.token_sample import Selection

FEWEST = 20  # states, below which ranks mean little
GROUPS = 8  # of texts
_STILL = 1e-12  # share of the squares below which what varies is rounding

_TOKENS = (
    "over the n distinct states of at most `sample` tokens drawn from the view, the same ones at every layer; "
    "Euclidean distances, the mean rank of states that are equally far; of states that are equal in the first layer "
    "each has another of them, in random order, as its neighbour"
)
_JACKKNIFE = (
    f"95 %, from a jackknife that leaves out one of {GROUPS} groups of texts, neighbours and ranks being sought anew "
    "among the rest, on the logit scale of Δ/2 with Student's t; it covers 95 to 100 % of Gaussian states in texts in "
    f"simulation; none for fewer than {FEWEST_TEXTS} texts"
)
_TRAP = (
    "Near 0 the first layer tells who is near in the second, near 1 it tells nothing. It has a direction: compare "
    "both. It says what the nearest neighbour tells, nothing of larger distances, and the least it can be is 2/n, "
    "which is what a layer reads of itself."
)
_CHANCE = "Floor: 1, exactly, if neighbours have nothing to do with each other."


def _of_layer(name: str, title: str, arrow: str, plainly: str = "") -> Statistic:
    return Statistic(
        name,
        title,
        f"Δ({arrow}) = 2/n · mean rank in the second layer of each state's nearest neighbour in the first, {_TOKENS}. "
        f"{_CHANCE}",
        (GLIELMO, ACEVEDO),
        interval=_JACKKNIFE,
        floor=True,
        noise="chance",
        bounds=(0, 2),
        smallest=0.01,
        headline=bool(plainly),
        plainly=plainly,
        trap=_TRAP,
    )


STATISTICS = (
    Statistic(
        "imbalance",
        "information imbalance of two layers",
        "Δ(a → b) = 2/n · mean rank in layer b of each state's nearest neighbour in layer a, for any two layers of the "
        f"path, in both orders, {_TOKENS}. {_CHANCE}",
        (GLIELMO, ACEVEDO),
        per="pair",
        interval=_JACKKNIFE,
        bounds=(0, 2),
        smallest=0.01,
        headline=True,
        plainly="How badly neighbours in one layer tell who are neighbours in the other; 0 they tell all, 1 nothing.",
        trap=_TRAP,
        published="DADApy computes the same number (`return_inf_imb_two_selected_coords`); of states that are equally "
        "near it takes the one that sorting leaves first.",
    ),
    _of_layer(
        "to_last",
        "information imbalance towards the last layer",
        "l → L",
        "How badly neighbours in a layer tell who are neighbours in the last one; 0 they tell all, 1 nothing.",
    ),
    _of_layer("from_last", "information imbalance from the last layer", "L → l"),
    _of_layer("to_first", "information imbalance towards the first layer", "l → 0"),
    _of_layer("from_first", "information imbalance from the first layer", "0 → l"),
)
_ENDS = {"to_last": (None, -1), "from_last": (-1, None), "to_first": (None, 0), "from_first": (0, None)}


class ImbalanceOptions(Options):
    """How many states are ranked."""

    optional: ClassVar[bool] = True  # its time grows with the square of the layers
    sample: int = Field(default=1024, ge=FEWEST, le=4096, description="tokens whose states are ranked by distance")

    def sample_size(self) -> int:
        """Return the number of tokens."""
        return self.sample


def _effort(scale: Scale, said: ImbalanceOptions) -> Effort:
    n = min(scale.tokens, said.sample)
    each = scale.places * scale.views * float(n) ** 2
    # Two products in float64; sorting and counting in groups go some three hundred times through the distances.
    return Effort(products=8.0 * scale.width * each, bytes=300.0 * 8 * each)


@metric(
    name="information_imbalance",
    title="Information imbalance",
    summary="Whether who is near whom at one layer tells who is near at another, and the other way round.",
    statistics=STATISTICS,
    needs=("moments", "tokens"),
    options=ImbalanceOptions,
    effort=_effort,
    cost="sample² distances for each layer, twice, which are sorted once",
    tables=(PairValue,),
)
def information_imbalance(seen: Observed, options: ImbalanceOptions) -> Iterator[Value | PairValue]:
    """Yield Δ of any two layers of the path, and of each with the first and the last.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: how many states.
    """
    sample = seen.context_sample(options.sample)
    n, path = len(sample), seen.path
    still = _still(sample, path) if n >= FEWEST else [f"fewer than {FEWEST} distinct states"] * len(path)
    moving = [at for at, reason in enumerate(still) if not reason]
    numbers = _between(seen, sample, [path[at] for at in moving]) if moving else {}
    of = {(a, b): numbers[moving.index(a), moving.index(b)] for a in moving for b in moving}
    for a, b in np.ndindex(len(path), len(path)):
        if a == b:
            continue
        if (a, b) in of:
            value, ends = of[a, b]
            yield PairValue("imbalance", a, b, value, n, *ends)
        else:
            yield PairValue("imbalance", a, b, None, n, reason=still[a] or still[b])
    for name, (first, second) in _ENDS.items():
        for at, place in enumerate(path):
            a, b = (at if end is None else end % len(path) for end in (first, second))
            if (a, b) in of:
                value, ends = of[a, b]
                yield Value(name, place, value, n, *ends)
                yield Value(f"{name}_floor", place, 1.0, n)
            else:
                yield Value(name, place, None, n, reason=still[a] or still[b])


def _still(sample: Selection, path: tuple[Place, ...]) -> list[str]:
    """Return for each layer why its states have no neighbours; empty where they have."""

    def varies(place: Place) -> bool:
        x = sample.states(place).double()
        return bool((x - x.mean(dim=0)).square().sum() > _STILL * x.square().sum())

    return ["" if found else "all states are equal at one of the layers" for found in spread(varies, path)]


def _between(seen: Observed, sample: Selection, places: list[Place]) -> dict[tuple[int, int], tuple[float, Interval]]:
    """Return Δ with its interval of each two of the places, by their order."""
    from reporter.geometry.imbalance import imbalances

    groups = dealt(sample.texts, GROUPS)

    def states_at(place: Place) -> Tensor:
        return sample.states(place)

    found = seen.once(
        ("imbalance", seen.held, len(sample)),
        lambda: imbalances([lambda place=place: states_at(place) for place in places], groups),  # type: ignore[misc]
    )
    few = groups.max() < FEWEST_TEXTS - 1
    return {
        (a, b): (float(found[0, a, b]), (None, None) if few else _interval(found[:, a, b]))
        for a, b in np.ndindex(found.shape[1:])
    }


def _interval(found: Floats) -> Interval:
    """Return the interval of Δ from its value and those without each group, (1 + G,)."""
    low, high = jackknife_interval(float(found[0]) - 1, found[1:] - 1)  # Fisher's z of Δ − 1 is half the logit of Δ/2
    if low is None or high is None:
        return None, None
    return min(low + 1, float(found[0])), max(high + 1, float(found[0]))
