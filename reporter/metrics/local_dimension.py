"""Dimension as a state's neighbourhood has it, over the states (Ruppik et al. 2025)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from reporter.effort import Effort, Scale
from reporter.geometry import noise
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import FEWEST_TEXTS, jackknife_interval
from reporter.metrics._intervals import dealt
from reporter.metrics._sources import FACCO, RUPPIK
from reporter.metrics.base import Options, Statistic, Value
from reporter.metrics.registry import metric
from reporter.threads import spread

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place

GROUPS = 8  # of texts
_FEWEST = 10  # neighbourhoods with a dimension, below which there is no number

_LOCAL = (
    "the local dimension of a state being TwoNN (intrinsic_dimension.twonn, the largest tenth of the ratios left out) "
    "among its k = `neighbours` nearest states, without itself, neighbours of these being sought among them alone; for "
    "`centres` states out of the distinct ones of at most `sample` tokens drawn from the view (see "
    "intrinsic_dimension.twonn), Euclidean, float64"
)
_JACKKNIFE = (
    f"95 %, from a jackknife that leaves out one of {GROUPS} groups of texts, neighbourhoods being made anew of the "
    "rest, on the log scale with Student's t; it covers 95 to 100 % of Gaussian states in texts in simulation; none "
    f"for fewer than {FEWEST_TEXTS} texts"
)

STATISTICS = (
    Statistic(
        "mean",
        "local dimension",
        f"mean over states of their local dimension, {_LOCAL}",
        (RUPPIK, FACCO),
        interval=_JACKKNIFE,
        floor=True,
        bounds=(0, None),
        headline=True,
        plainly="How many coordinates it takes to place a state among its neighbours.",
        trap="A neighbourhood is not small: k states of a sample of n reach as far as the sample is thin. Compare "
        "models and checkpoints at the same n and k, and with the floor. A few neighbours of the same text or token "
        "type make a neighbourhood look flat.",
        published="The authors take k = 128 of 60,000 tokens, with scikit-dimension's TwoNN (`fit_pw`), with which "
        "this agrees to rounding; here the tokens are fewer, so a neighbourhood is wider.",
    ),
    Statistic(
        "spread",
        "spread of the local dimension",
        f"standard deviation (n − 1) over states of their local dimension, {_LOCAL}",
        (RUPPIK,),
        interval=_JACKKNIFE,
        floor=True,
        bounds=(0, None),
        trap="TwoNN of k states is itself off by about its value over √k: the floor has that "
        "and no more, of a larger dimension. Compare what is left of both over their means.",
    ),
)
_TAKE: dict[str, Callable[[Floats], float]] = {
    "mean": lambda x: float(x.mean()),
    "spread": lambda x: float(x.std(ddof=1)),
}


class LocalOptions(Options):
    """How many states, how many of them are centres, and how many neighbours each has."""

    optional: ClassVar[bool] = True
    sample: int = Field(default=4096, ge=64, description="tokens among whose states neighbours are sought")
    centres: int = Field(default=256, ge=16, description="states whose neighbourhoods are measured")
    neighbours: int = Field(default=128, ge=16, le=1024, description="states in a neighbourhood")

    def sample_size(self) -> int:
        """Return the number of tokens."""
        return self.sample


def _effort(scale: Scale, said: LocalOptions) -> Effort:
    n, places = min(scale.tokens, said.sample), scale.places * scale.views
    square = float(said.centres) * (1.4 * said.neighbours) ** 2
    # products in float64, then four passes for each group left out
    return Effort(
        products=4.0 * scale.width * places * (said.centres * n + square),
        bytes=8.0 * 4 * (GROUPS + 1) * places * square,
    )


@metric(
    name="local_dimension",
    title="Local dimension",
    summary="How many directions the states vary in around a single state, on average, and how much that differs from "
    "state to state.",
    statistics=STATISTICS,
    needs=("moments", "tokens"),
    options=LocalOptions,
    effort=_effort,
    cost="about a second of one core for each layer of 576 dimensions and each view",
)
def local_dimension(seen: Observed, options: LocalOptions) -> Iterator[Value]:
    """Yield mean and spread of the local dimension at every place, and what isotropic noise reads.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: states, centres and neighbours.
    """

    def at(place: Place) -> list[Value]:
        return list(_at(seen, place, options))

    found = seen.once(("local dimension", seen.held, options), lambda: spread(at, seen.places))
    for values in found:
        yield from values


def _at(seen: Observed, place: Place, options: LocalOptions) -> Iterator[Value]:
    import torch

    from reporter.geometry.local import local_dimensions
    from reporter.observables.token_sample import COUNT, EMBEDDING_CONTEXT

    sample = seen.context_sample(options.sample)
    kept = np.arange(len(sample))
    if place.layer == 0:  # where more tokens are equal than deeper down
        kept = np.sort(np.unique(sample.facts[:, EMBEDDING_CONTEXT], return_index=True)[1])
    n, tokens = len(kept), int(sample.facts[:, COUNT].sum())
    reason = ""
    if 2 * n < tokens:
        reason = f"{1 - n / tokens:.0%} of the sampled tokens are duplicates"
    elif n < 2 * options.neighbours:
        reason = f"fewer than {2 * options.neighbours} distinct states, twice the neighbours"
    centres = min(n, options.centres)
    groups = dealt(sample.texts[kept], GROUPS)
    if not reason:
        x = sample.states(place)[torch.from_numpy(kept)]
        dimensions = local_dimensions(x, centres, options.neighbours, groups)
        if np.isfinite(dimensions[0]).sum() < _FEWEST:
            reason = "states are equal or equally far in nearly all neighbourhoods"
    for name, take in _TAKE.items():
        if reason:
            yield Value(name, place, None, n, reason=reason)
            continue
        values = [of[np.isfinite(of)] for of in dimensions]
        value = take(values[0])
        ends: tuple[float, float] | tuple[None, None] = None, None
        if groups.max() >= FEWEST_TEXTS - 1 and min(map(len, values)) >= _FEWEST:
            ends = jackknife_interval(value, np.array([take(of) for of in values[1:]]), "log")
        yield Value(name, place, value, n, *ends)
        yield Value(f"{name}_floor", place, take(_of_noise(n, seen.width(place), seen.seed, centres, options)), n)


@lru_cache(maxsize=64)
def _of_noise(n: int, d: int, seed: int, centres: int, options: LocalOptions) -> Floats:
    """Return the local dimensions of isotropic Gaussian states, those that have one."""
    import torch

    from reporter.geometry.local import local_dimensions

    found = local_dimensions(torch.from_numpy(noise.gaussian(n, d, seed)), centres, options.neighbours)
    return found[np.isfinite(found)]
