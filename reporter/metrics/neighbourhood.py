"""Dimension as a state's neighbourhood has it, over the states (Ruppik et al. 2025)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.core.threads import spread
from reporter.geometry import noise
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import FEWEST_TEXTS
from reporter.metrics._intervals import group_of_state
from reporter.metrics.base import OptionalOptions, PairValue, Size, Statistic, Value, metric, undefined

if TYPE_CHECKING:
    from reporter.forward.observed import Observed, Place
    from reporter.forward.token_sample import TokenSelection

GROUPS = 8  # of texts
_FEWEST = 10  # neighbourhoods with a dimension, below which there is no number

_LOCAL = (
    "The local dimension is TwoNN among the k = `neighbours` nearest states of a state, without the state itself. "
    "TwoNN leaves out the largest tenth of the ratios (see intrinsic_dimension.twonn) and searches neighbours only "
    "among these k. The `centres` states are chosen from the distinct states of at most `sample` tokens of the token "
    "set (see intrinsic_dimension.twonn). Distances are Euclidean, in float64."
)
_JACKKNIFE = f"One of {GROUPS} groups of texts is left out, and neighbourhoods are searched among the rest."

_dimension = partial(Size, method="jackknife", scale="log", interval=_JACKKNIFE, floor=True)

LOCAL_DIMENSION = (
    _dimension(
        "mean",
        "local dimension",
        f"Mean over states of their local dimension. {_LOCAL} A few neighbours of the same text or token type make a "
        "neighbourhood look flat.",
        ("ruppik2025less", "facco2017estimating"),
        plainly="Number of coordinates that locate a state among its neighbours, on average.",
        trap="In a small sample a neighbourhood reaches far. Compare models and checkpoints at equal n and k, and with "
        "the chance level.",
        published="The authors take k = 128 of 60,000 tokens with scikit-dimension's TwoNN (`fit_pw`). This agrees "
        "with it to rounding. Here the tokens are fewer, so neighbourhoods are wider.",
    ),
    _dimension(
        "spread",
        "spread of the local dimension",
        f"Standard deviation (n − 1) over states of their local dimension. {_LOCAL} The chance level consists of the "
        "error of TwoNN alone, at a larger dimension. Compare spread / mean with the same ratio of the chance levels.",
        ("ruppik2025less",),
        trap="Part of it is estimation error: TwoNN of k states has a standard error of about its value / √k.",
    ),
)
_TAKE: dict[str, Callable[[Floats], float]] = {
    "mean": lambda x: float(x.mean()),
    "spread": lambda x: float(x.std(ddof=1)),
}


class LocalOptions(OptionalOptions):
    """The number of states, of centres among them, and of neighbours of each."""

    sample: int = Field(default=4096, ge=64, description="tokens among whose states neighbours are searched")
    centres: int = Field(default=256, ge=16, description="states whose neighbourhoods are measured")
    neighbours: int = Field(default=128, ge=16, le=1024, description="states in a neighbourhood")


@metric(
    title="Local dimension",
    summary="In how many directions states vary around a single state, on average, and how much this number differs "
    "between states.",
    statistics=LOCAL_DIMENSION,
    question="dimension",
    needs=("moments", "tokens"),
    version=2,
    options=LocalOptions,
    cost="about a second of one core for each layer of 576 dimensions and each token set",
)
def local_dimension(seen: Observed, options: LocalOptions) -> Iterator[Value]:
    """Yield mean and spread of the local dimension at every place, and what isotropic noise reads."""

    def at(place: Place) -> list[Value]:
        return list(_local_values(seen, place, options))

    for values in seen.once(("local dimension", seen.held, options), lambda: spread(at, seen.places)):
        yield from values


def _local_values(seen: Observed, place: Place, options: LocalOptions) -> Iterator[Value]:
    import torch

    from reporter.geometry.ratios import local_dimensions

    sample = seen.context_sample(options.sample)
    kept, _, reason = sample.distinct_at(place)
    n = len(kept)
    if not reason and n < 2 * options.neighbours:
        reason = f"fewer than {2 * options.neighbours} distinct states, twice the neighbours"
    centres = min(n, options.centres)
    groups = group_of_state(sample.texts[kept], GROUPS)
    if not reason:
        x = sample.states(place)[torch.from_numpy(kept)]
        dimensions = local_dimensions(x, centres, options.neighbours, groups)
        if np.isfinite(dimensions[0]).sum() < _FEWEST:
            reason = "states are equal or equally far in nearly all neighbourhoods"
    if reason:
        yield from undefined(_TAKE, place, n, reason)
        return
    for name, take in _TAKE.items():
        values = [estimates[np.isfinite(estimates)] for estimates in dimensions]
        without = None
        if groups.max() >= FEWEST_TEXTS - 1 and min(map(len, values)) >= _FEWEST:
            without = np.array([take(estimates) for estimates in values[1:]])
        floor = take(_of_noise(n, seen.width(place), seen.seed, centres, options))
        yield Value(name, place, take(values[0]), n, spread=without, floor=floor)


@lru_cache(maxsize=64)
def _of_noise(n: int, d: int, seed: int, centres: int, options: LocalOptions) -> Floats:
    """Return the local dimensions of isotropic Gaussian states, those that have one."""
    import torch

    from reporter.geometry.ratios import local_dimensions

    dimensions = local_dimensions(torch.from_numpy(noise.gaussian(n, d, seed)), centres, options.neighbours)
    return dimensions[np.isfinite(dimensions)]


# Do neighbours at one layer predict neighbours at another? Information imbalance (Glielmo et al. 2022; Acevedo et al.
# 2025).


FEWEST_RANKED = 20  # states, below which ranks mean little
_STILL = 1e-12  # share of the squares below which what varies is rounding

_TOKENS = (
    "The n distinct states are those of at most `sample` tokens of the token set, the same at every layer. Distances "
    "are Euclidean; equally far states share their mean rank. Of states that are equal in the first layer, each has "
    "another one as its neighbour, in random order. The minimum is 2/n, the value of a layer with itself."
)
_OVER_RANKS = (
    f"The scale is that of Δ/2. One of {GROUPS} groups of texts is left out, and "
    "neighbours and ranks are searched among the rest."
)
_CHANCE = "Chance level: 1, exactly, if neighbours at the two layers are unrelated."
_imbalance = partial(
    Statistic,
    sources=("glielmo2022ranking", "acevedo2025quantitative"),
    method="jackknife",
    scale="logit",
    interval=_OVER_RANKS,
    bounds=(0, 2),
    smallest=0.03,  # another seed of the sample makes 0.025
)


def _of_layer(name: str, title: str, arrow: str, plainly: str = "", trap: str = "") -> Statistic:
    return _imbalance(
        name,
        title,
        f"Δ({arrow}) = 2/n · mean rank in the second layer of each state's nearest neighbour in the first. {_CHANCE} "
        f"{_TOKENS}",
        floor=True,
        noise="chance",
        plainly=plainly,
        trap=trap,
    )


IMBALANCE = (
    _imbalance(
        "imbalance",
        "information imbalance of two layers",
        "Δ(a → b) = 2/n · mean rank in layer b of each state's nearest neighbour in layer a. Computed for any two "
        f"layers, in both orders. {_CHANCE} {_TOKENS}",
        per="pair",
        plainly="How badly neighbours in one layer predict neighbours in another (0: fully, 1: not).",
        trap="Not symmetric, so compare both directions. It says what the nearest neighbour predicts and nothing about "
        "larger distances.",
        published="DADApy computes the same number (`return_inf_imb_two_selected_coords`). Of equally near states it "
        "takes the first after sorting.",
    ),
    _of_layer(
        "to_last",
        "information imbalance towards the last layer",
        "l → L",
        "How badly a layer's neighbours predict those of the last (0: fully, 1: not).",
        trap="Only the nearest neighbour counts, not larger distances. The opposite direction, from_last, can differ.",
    ),
    _of_layer("from_last", "information imbalance from the last layer", "L → l"),
    _of_layer("to_first", "information imbalance towards the first layer", "l → 0"),
    _of_layer("from_first", "information imbalance from the first layer", "0 → l"),
)
_ENDS = {"to_last": (None, -1), "from_last": (-1, None), "to_first": (None, 0), "from_first": (0, None)}


class ImbalanceOptions(OptionalOptions):
    """The number of states."""

    sample: int = Field(
        default=1024, ge=FEWEST_RANKED, le=4096, description="tokens whose states are ranked by distance"
    )


@metric(
    title="Information imbalance",
    summary="Do neighbours at one layer predict the neighbours at another, and vice versa?",
    statistics=IMBALANCE,
    question="similarity",
    needs=("moments", "tokens"),
    version=2,
    options=ImbalanceOptions,
    cost="sample² distances per layer, computed twice and sorted once",
    tables=(PairValue,),
)
def information_imbalance(seen: Observed, options: ImbalanceOptions) -> Iterator[Value | PairValue]:
    """Yield Δ of any two layers of the path, and of each with the first and the last."""
    sample = seen.context_sample(options.sample)
    n, path = len(sample), seen.path
    still = _still(sample, path) if n >= FEWEST_RANKED else [f"fewer than {FEWEST_RANKED} distinct states"] * len(path)
    moving = [index for index, reason in enumerate(still) if not reason]
    numbers = _between(seen, sample, [path[index] for index in moving]) if moving else {}
    by_pair = {(a, b): numbers[moving.index(a), moving.index(b)] for a in moving for b in moving}
    for a, b in np.ndindex(len(path), len(path)):
        if a == b:
            continue
        if (a, b) in by_pair:
            value, without = by_pair[a, b]
            yield PairValue("imbalance", a, b, value, n, spread=without)
        else:
            yield PairValue("imbalance", a, b, None, n, reason=still[a] or still[b])
    for name, (first, second) in _ENDS.items():
        for index, place in enumerate(path):
            a, b = (index if end is None else end % len(path) for end in (first, second))
            if (a, b) in by_pair:
                value, without = by_pair[a, b]
                yield Value(name, place, value, n, spread=without, floor=1.0)
            else:
                yield Value(name, place, None, n, reason=still[a] or still[b])


def _still(sample: TokenSelection, path: tuple[Place, ...]) -> list[str]:
    def varies(place: Place) -> bool:
        x = sample.states(place).double()
        return bool((x - x.mean(dim=0)).square().sum() > _STILL * x.square().sum())

    return ["" if moves else "all states are equal at one of the layers" for moves in spread(varies, path)]


def _between(
    seen: Observed, sample: TokenSelection, places: list[Place]
) -> dict[tuple[int, int], tuple[float, Floats | None]]:
    """Return Δ of each two of the places, by their order, and Δ without each group of texts."""
    from reporter.geometry.similarity import imbalances

    groups = group_of_state(sample.texts, GROUPS)
    imbalance = seen.once(
        ("imbalance", seen.held, len(sample)),
        lambda: imbalances([partial(sample.states, place) for place in places], groups),
    )
    few = groups.max() < FEWEST_TEXTS - 1
    return {
        (a, b): (float(imbalance[0, a, b]), None if few else imbalance[1:, a, b])
        for a, b in np.ndindex(imbalance.shape[1:])
    }
