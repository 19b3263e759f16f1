"""How evenly the states of one text spread over directions (Giraldo et al. 2014; Skean et al. 2025)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from reporter.metrics._intervals import BOOTSTRAP, percentile_interval
from reporter.metrics._sources import GIRALDO, SKEAN
from reporter.metrics.base import Options, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place
    from reporter.observables.text_entropy import TextEntropies

Floats = NDArray[np.float64]

_PROMPT = (
    "−Σ p log p, p = λ/Σλ, λ the eigenvalues, cut off at 0, of the Gram matrix of the view's states of one text minus "
    "their mean; texts of fewer than three tokens in the view, and texts of equal states, are left out; about `texts` "
    "texts, chosen by a hash"
)

STATISTICS = (
    Statistic(
        "prompt",
        "entropy of a text's states",
        f"mean over texts of {_PROMPT}",
        (GIRALDO, SKEAN),
        unit="nats",
        interval=BOOTSTRAP,
        floor=True,
        bounds=(0, None),
        trap="Grows with the length of the text, up to log(min(n − 1, d)); a single sink in a text pulls it towards 0. "
        "The source leaves the mean in: a long common mean then reads as low entropy.",
        smallest=0.01,
    ),
    Statistic(
        "prompt_normalised",
        "entropy of a text's states, normalised",
        f"mean over texts of the entropy over log(min(n − 1, d)), n the text's tokens in the view; the entropy being "
        f"{_PROMPT}",
        (GIRALDO, SKEAN),
        interval=BOOTSTRAP,
        floor=True,
        bounds=(0, 1),
        smallest=0.01,
        headline=True,
        trap="Isotropic states do not reach 1 in a finite text: see the floor.",
    ),
    Statistic(
        "skipped",
        "texts too short for an entropy",
        "share of the chosen texts with any token in the view that have fewer than three tokens in it",
        (SKEAN,),
        per="model",
        bounds=(0, 1),
        smallest=0.01,
    ),
)


class EntropyOptions(Options):
    """How many texts are measured."""

    texts: int = Field(default=500, ge=1, description="texts whose states are decomposed, chosen by a hash")

    def sample_size(self) -> int:
        """Return the number of texts."""
        return self.texts


@metric(
    name="entropy",
    title="Entropy within a text",
    summary="Over how many directions, and how evenly, the states of one text spread.",
    statistics=STATISTICS,
    needs=("text_entropy",),
    options=EntropyOptions,
    cost="eigenvalues of a tokens × tokens matrix for each measured text, layer and view",
)
def entropy(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield both entropies and their floors at every place, and the share of texts that are too short.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: number of texts.
    """
    from reporter.observables.text_entropy import text_entropies

    wanted = cast(EntropyOptions, options).texts
    found: TextEntropies | None = None
    for place in seen.places:
        found = text_entropies(seen, place, wanted)
        width, n = seen.width(place), len(found.values)
        if not n:
            reason = "no text has three tokens whose states differ"
            yield Value("prompt", place, None, 0, reason=reason)
            yield Value("prompt_normalised", place, None, 0, reason=reason)
            continue
        floors = _floor(tuple(found.lengths.tolist()), width, seen.seed)
        yield _mean("prompt", place, found.values, found)
        yield Value("prompt_floor", place, floors[0], n)
        if width < 2:
            yield Value("prompt_normalised", place, None, n, reason="states of one dimension have no entropy")
            continue
        yield _mean("prompt_normalised", place, normalised(found.values, found.lengths, width), found)
        yield Value("prompt_normalised_floor", place, floors[1], n)
    if found is None or not found.texts:
        yield Value("skipped", None, None, 0, reason="no text has a token")
    else:
        yield Value("skipped", None, found.short / found.texts, found.texts)


def _mean(statistic: str, place: Place, values: Floats, found: TextEntropies) -> Value:
    drawn = found.weights.sum(axis=1)
    total = found.weights @ values
    replicates = np.divide(total, drawn, out=np.full(len(total), np.nan), where=drawn > 0)
    low, high = percentile_interval(replicates, found.distinct)
    return Value(statistic, place, float(values.mean()), len(values), low, high)


def normalised(entropies: Floats, lengths: NDArray[np.int64] | Floats, d: int) -> Floats:
    """Return entropies over log(min(n − 1, d)), the most that n centred states in d ≥ 2 dimensions can have."""
    return np.asarray(np.minimum(entropies / np.log(np.minimum(lengths - 1, d)), 1.0))


_DRAWN_LENGTHS = 24  # beyond so many different lengths those between are read off a line in log n


@lru_cache(maxsize=256)
def _floor(lengths: tuple[int, ...], d: int, seed: int) -> tuple[float, float]:
    """Return both entropies of isotropic Gaussian states in texts of the same lengths; the second is 0 for d = 1."""
    found, count = np.unique(lengths, return_counts=True)
    drawn = found
    if len(found) > _DRAWN_LENGTHS:
        drawn = np.unique(np.geomspace(found[0], found[-1], _DRAWN_LENGTHS).round().astype(np.int64))
    values = [gaussian_entropy(int(n), d, seed) for n in drawn]
    entropies = np.interp(np.log(found), np.log(drawn), values)
    share = float(count @ normalised(entropies, found, d) / count.sum()) if d > 1 else 0.0
    return float(count @ entropies / count.sum()), share


@lru_cache(maxsize=4096)
def gaussian_entropy(n: int, d: int, seed: int) -> float:
    """Return the entropy of n isotropic Gaussian states in d dimensions, the mean of several draws where n is small."""
    rng = np.random.default_rng([seed, n, d])
    found = []
    for _ in range(max(1, 256 // n)):
        x = rng.standard_normal((n, d))
        eigenvalues = np.square(np.linalg.svd(x - x.mean(axis=0), compute_uv=False))
        p = eigenvalues[eigenvalues > 1e-15 * eigenvalues.sum()] / eigenvalues.sum()
        found.append(-(p * np.log(p)).sum())
    return max(0.0, float(np.mean(found)))
