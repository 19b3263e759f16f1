"""How many directions the states vary in locally: TwoNN (Facco et al. 2017) and its curve over scales, GRIDE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from reporter.metrics import _floors
from reporter.metrics._gride import RANKS, SCALES, gride
from reporter.metrics._growth import DENSER, per_doubling
from reporter.metrics._intervals import FEWEST_TEXTS, half_sample_interval
from reporter.metrics._neighbours import Neighbours, nearest
from reporter.metrics._sources import DENTI, FACCO, SHAPE_OF_LEARNING
from reporter.metrics.base import Options, SampleOptions, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place
    from reporter.observables.token_sample import Selection

Floats = NDArray[np.float64]

_RATIO = "with μ_i = r2/r1 the ratio of the distances of state i to its second and first nearest neighbour"
_RELATIVE = (
    "Dimension is relative: an isotropic Gaussian of true dimension 50 reads about 33 at 4096 tokens. Compare "
    "with the floor and with other models at the same n, not with the width."
)
_DISTINCT = (
    "states are drawn without duplicates, a duplicate being decided by what the model saw: the same prefix of "
    "token ids (decoder), the same text and position (encoder), at layer 0 the same token id (and position where "
    "position vectors are added)"
)

_COVERED = {  # least and most in tests/intervals/README.md
    "twonn": "0.90 to 1.00",
    "twonn_published": "0.93 to 1.00",
    "twonn_ml": "0.70 to 1.00",
    "gride_1": "0.70 to 1.00",
    "gride_2": "0.90 to 1.00",
    "gride_4": "0.93 to 1.00",
    "gride_8": "0.85 to 1.00",
    "gride_16": "0.78 to 1.00",
    "gride_32": "0.93 to 1.00",
    "gride_64": "0.93 to 1.00",
}
_CHANGES = {  # per doubling of the texts: of the number, and in standard deviations
    "twonn": ("−4 to +5 %", "0.3 to 0.6"),
    "twonn_published": ("−6 to +4 %", "0.6 to 0.8"),
    "twonn_ml": ("−4 to +2 %", "0.2 to 0.9"),
    "gride_1": ("−4 to +2 %", "0.2 to 0.9"),
    "gride_2": ("−10 to +5 %", "0.3 to 1.8"),
    "gride_4": ("−4 to +17 %", "0.4 to 3.7"),
    "gride_8": ("−4 to +21 %", "0.2 to 3.0"),
    "gride_16": ("−16 to +17 %", "0.8 to 3.3"),
    "gride_32": ("−16 to +13 %", "1.1 to 2.1"),
    "gride_64": ("−30 to +15 %", "0.4 to 8.2"),
}


def _halves(name: str) -> str:
    """Return how the interval of an estimate is made."""
    scaled = name in ("gride_16", "gride_32", "gride_64")
    at = ", at the scale that lies at the same distance there" if scaled else ""
    return (
        "95 %, value ± 2.0 standard deviations over 31 balanced half-samples of the texts, in each of which neighbours "
        f"are sought anew{at}; mean over batches; covered {_COVERED[name]} where measured; none for fewer than "
        f"{FEWEST_TEXTS} texts"
    )


STATISTICS = (
    Statistic(
        "twonn",
        "intrinsic dimension (TwoNN)",
        f"{_RATIO}, the ⌊(1 − `discard`)·N⌋ smallest μ (at most N − 1) sorted ascending, F_i = i/N: slope through the "
        f"origin of −log(1 − F) on log μ; {_DISTINCT}; float64, centred",
        (FACCO, SHAPE_OF_LEARNING),
        interval=_halves("twonn"),
        grows=per_doubling(*_CHANGES["twonn"], DENSER),
        floor=True,
        bounds=(0, None),
        headline=True,
        trap=_RELATIVE,
        published="Facco et al. leave out the largest tenth of μ, as is the default here; scikit-dimension and DADApy "
        "do the same and agree to rounding. The lineage of Razzhigaev et al. keeps the lowest fifth: "
        "twonn_published.",
    ),
    Statistic(
        "twonn_published",
        "intrinsic dimension (TwoNN, lowest fifth)",
        f"{_RATIO}, the ⌊N/5⌋ smallest μ sorted ascending, F_i = i/N: slope through the origin of −log(1 − F) on log "
        f"μ, which is `twonn` with `discard: 0.8`, whatever `discard` says; {_DISTINCT}; float64, centred",
        (SHAPE_OF_LEARNING, FACCO),
        interval=_halves("twonn_published"),
        grows=per_doubling(*_CHANGES["twonn_published"], DENSER),
        floor=True,
        bounds=(0, None),
        trap=_RELATIVE + " The smallest ratios are those of states with two neighbours about equally near; a fifth of "
        "the ratios makes an estimate that is less certain than `twonn`, and on clustered states another one.",
        published="The code of the same authors (LLM-Microscope: `intrinsic_dimension`, reduction_factor 5) does this "
        "with the first 4096 tokens in the order of the texts, every token in; states that repeat count in N and i but "
        "not in the fit, the last hidden state (after the closing norm) is left out. Here distinct states are drawn.",
    ),
    Statistic(
        "twonn_ml",
        "intrinsic dimension (TwoNN, maximum likelihood)",
        "(N − 1) / Σ log μ over all N states, mean over batches",
        (DENTI,),
        interval=_halves("twonn_ml"),
        grows=per_doubling(*_CHANGES["twonn_ml"], DENSER),
        floor=True,
        bounds=(0, None),
        trap=_RELATIVE + " No μ is discarded, so outliers pull it down: two texts that say nearly the same made 8 into "
        "6 in an encoder, and the interval of a corpus without such a pair does not know of it.",
        published="The same as `TwoNN(method='mle', discard_fraction=0)` of scikit-dimension.",
    ),
    Statistic(
        "duplicates",
        "share of duplicates",
        "1 − (distinct states) / (tokens) in the sample, " + _DISTINCT.partition(", ")[2],
        (FACCO,),
        bounds=(0, 1),
        smallest=0.01,
        grows=per_doubling("0 to +0.07", "0 to 7", "at layer 0, where tokens of the same kind repeat"),
        trap="Above one half the dimension is not computed.",
    ),
    *(
        Statistic(
            f"gride_{n}",
            f"intrinsic dimension at scale {n} (GRIDE)",
            f"with μ_i = r{2 * n}/r{n} the ratio of the distances of state i to its neighbours {2 * n} and {n}: the d "
            f"that maximises the likelihood Π d·(μ^d − 1)^{n - 1} / μ^({2 * n - 1}·d + 1)"
            + (", that is N / Σ log μ; unlike twonn_ml it is not made unbiased by N − 1" if n == 1 else "")
            + f"; {_DISTINCT}; float64, centred; mean over batches",
            (DENTI,),
            interval=_halves(f"gride_{n}"),
            grows=per_doubling(*_CHANGES[f"gride_{n}"], DENSER),
            floor=True,
            bounds=(0, None),
            trap=_RELATIVE + " Noise shows at small scales, curvature and clusters at large ones: look for a plateau.",
            published="DADApy solves for d with N − 1 in the place of N, which reads lower by about one part in N (1 % "
            "at 100 states, 0.02 % at 4096), and leaves out μ above q50 + 20·(q95 − q50), quantiles of μ.",
        )
        for n in SCALES
    ),
)

_FEWEST = 10  # distinct states below which a slope means nothing
_AS_FAR = "the first and the second neighbour are equally far"
_TOO_FEW = f"fewer than {_FEWEST} distinct states"
_EQUAL = 1e-9  # a log ratio below it is none
_NAMES = ("twonn", "twonn_published", "twonn_ml", *(f"gride_{scale}" for scale in SCALES))
_PUBLISHED = 0.8  # the share of μ that twonn_published leaves out


class DimensionOptions(SampleOptions):
    """How many distinct states are drawn, and how many of their ratios are left out."""

    discard: float = Field(
        default=0.1,
        ge=0,
        le=0.9,
        description="share of the states whose μ is left out of the line of twonn, the largest first; 0.8 keeps the "
        "lowest fifth, as twonn_published does always",
    )


@metric(
    name="intrinsic_dimension",
    title="Intrinsic dimension",
    summary="How many coordinates it takes to describe the states in the neighbourhood of a state, and how that "
    "changes as the neighbourhood grows.",
    statistics=STATISTICS,
    needs=("moments", "contexts"),
    options=DimensionOptions,
    version=4,
    cost="a bounded sample; sample² distances for each layer, batch and view",
)
def intrinsic_dimension(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the estimates, their floors and the share of duplicates at every layer.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: sample and batches.
    """
    options = cast(DimensionOptions, options)
    sample = seen.context_sample(options.sample_size())
    for place in seen.places:
        kept, duplicates = _distinct(sample, place)
        tokens = int(sample.facts[:, 0].sum())
        if not len(kept):
            reason = "no token"
        elif duplicates > 0.5:
            reason = f"{duplicates:.0%} of the sampled tokens are duplicates"
        elif len(kept) < _FEWEST:
            reason = _TOO_FEW
        else:
            reason = ""
        if reason:
            yield from _nothing(place, len(kept), reason)
        else:
            yield from _estimates(seen, sample, kept, place, options)
        if tokens:
            yield Value("duplicates", place, duplicates, tokens)
        else:
            yield Value("duplicates", place, None, 0, reason=reason)


def _distinct(sample: Selection, place: Place) -> tuple[NDArray[np.int64], float]:
    """Return which states of the sample to keep, still in random order, and the share of tokens that are duplicates."""
    kept = np.arange(len(sample))
    if place.layer == 0:
        kept = np.sort(np.unique(sample.facts[:, 1], return_index=True)[1])
    tokens = sample.facts[:, 0].sum()
    return kept, float(1 - len(kept) / tokens) if tokens else 0.0


def _nothing(place: Place, n: int, reason: str) -> Iterator[Value]:
    for name in _NAMES:
        yield Value(name, place, None, n, reason=reason)


def _estimates(
    seen: Observed, sample: Selection, kept: NDArray[np.int64], place: Place, options: DimensionOptions
) -> Iterator[Value]:
    def compute() -> list[_Batch]:
        states, held = sample.states(place)[kept], sample.halves(seen.seed)[:, kept]
        return [_batch(states[rows], held[:, rows], options.discard) for rows in options.split(len(kept))]

    batches = seen.once(("log ratios", seen.held, place, options), compute)
    n, size = sum(len(one.logs) for one in batches), len(batches[0].logs)
    if min(len(one.logs) for one in batches) < _FEWEST:
        yield from _nothing(place, n, _TOO_FEW)
        return
    floors = _floors_at(size, seen.width(place), seen.seed, options.discard)

    def number(name: str) -> Value:
        value = float(np.mean([_estimate(name, one.logs, options.discard) for one in batches]))
        halves = np.mean([one.halves[name] for one in batches], axis=0)
        return Value(name, place, value, n, *half_sample_interval(value, halves, seen.texts, (0.0, np.inf)))

    for name, discard in {"twonn": options.discard, "twonn_published": _PUBLISHED, "twonn_ml": 0.1}.items():
        if any(one.logs[_kept(len(one.logs), discard) - 1, 0] < _EQUAL for one in batches):
            yield Value(name, place, None, n, reason=_AS_FAR)
        else:
            yield number(name)
            yield Value(f"{name}_floor", place, floors[name], size)
    for column, scale in enumerate(SCALES):
        name = f"gride_{scale}"
        if any(one.logs.shape[1] <= column for one in batches):
            yield Value(name, place, None, n, reason=f"no more than {2 * scale} distinct states in a batch")
        elif any(one.logs[:, column].mean() < _EQUAL for one in batches):
            yield Value(name, place, None, n, reason=f"neighbours {scale} and {2 * scale} are equally far")
        else:
            yield number(name)
            yield Value(f"{name}_floor", place, floors[name], size)


@dataclass(frozen=True)
class _Batch:
    """The ratios of one batch of states, and every estimate in each half-sample of its texts.

    Args:
        logs: as ``log_ratios`` returns them.
        halves: by statistic, NaN where a half has none, shape (halves,).
    """

    logs: Floats
    halves: Mapping[str, Floats]


def _estimate(name: str, logs: Floats, discard: float) -> float:
    """Return the estimate called ``name`` from log ratios at all scales, ascending in the first column."""
    if name in ("twonn", "twonn_published"):
        return twonn(logs[:, 0], discard if name == "twonn" else _PUBLISHED)
    if name == "twonn_ml":
        return twonn_ml(logs[:, 0])
    scale = int(name.removeprefix("gride_"))
    return gride(logs[:, SCALES.index(scale)], scale)


def _batch(x: NDArray[np.floating], held: NDArray[np.bool_], discard: float = 0.1) -> _Batch:
    """Return the ratios of a batch and its estimates in half-samples.

    Args:
        x: states, shape (n, d).
        held: which states each half-sample holds, up to 32 of them, shape (halves, n).
        discard: share of the largest μ that ``twonn`` leaves out.
    """
    found = _neighbours(x)
    if (found.distances[:, 0] == 0).any():
        x, first = np.unique(x, axis=0, return_index=True)
        held, found = held[:, first], _neighbours(x)
    halves = {name: np.full(len(held), np.nan) for name in _NAMES}
    if len(found.distances) >= _FEWEST:
        # Bit h says whether half h holds a state: looked up once for all neighbours, in all halves.
        bits = np.bitwise_or.reduce(held.astype(np.int64) << np.arange(len(held))[:, None]).astype(np.uint32)
        of_neighbours = bits[found.places]
        read, start = scales_read(bits, of_neighbours), dict[int, float]()
        for half, of_half in enumerate(held):
            inside = of_neighbours[of_half] & np.uint32(1 << half) > 0
            for name, value in half_estimates(found, of_half, inside, discard, read, start).items():
                halves[name][half] = value
    return _Batch(_logs(found.distances), halves)


def scales_read(bits: NDArray[np.uint32], of_neighbours: NDArray[np.uint32]) -> dict[int, int]:
    """Return for each scale the one at which half-samples are read, so that it lies at the same distance.

    Neighbours in the same text are in the half with it, of others every second is. Where dimension changes with
    distance the same rank would be another number, so a scale n from 16 on is read at m, 2m being how many of the 2n
    nearest neighbours are in the half on average. Small scales, of which halving would leave too few neighbours, stay.

    Args:
        bits: which half-samples hold a state, shape (n,).
        of_neighbours: the same of its nearest neighbours, nearest first, shape (n, listed).
    """
    shared = np.bitwise_count(bits[:, None] & of_neighbours).sum(axis=0, dtype=np.int64)
    share = shared / max(int(np.bitwise_count(bits).sum()), 1)
    return {n: n if n < _MOVED else max(1, round(n * float(share[: 2 * n].mean()))) for n in SCALES}


def half_estimates(
    found: Neighbours,
    held: NDArray[np.bool_],
    inside: NDArray[np.bool_],
    discard: float,
    read: Mapping[int, int],
    start: dict[int, float],
) -> dict[str, float]:
    """Return every estimate among the states that a half-sample holds.

    The r-th neighbour within the half is the r-th one of the list that the half holds. A state whose list is too short
    for a scale is left out of it; a scale that more than one state in ten is left out of has no estimate.

    Args:
        found: neighbours among all states, with a list.
        held: which states the half-sample holds, shape (n,).
        inside: which of the neighbours of these states it holds, shape (states held, listed).
        discard: share of the largest μ that ``twonn`` leaves out.
        read: for each scale the one at which the half-sample is read.
        start: by scale an estimate from which the search sets out; this half's estimates are put there.
    """
    estimates: dict[str, float] = {}
    if len(inside) < _FEWEST:
        return estimates
    rows, count, where = np.flatnonzero(held), np.count_nonzero(inside, axis=1), np.flatnonzero(inside)
    first = np.cumsum(count) - count
    for scale, here in read.items():
        enough = count >= 2 * here
        if enough.mean() < 0.9:
            break
        columns = (where[first[enough] + rank - 1] % inside.shape[1] for rank in (here, 2 * here))
        near, far = (found.listed[rows[enough], column] for column in columns)
        logs = np.log(far[near > 0] / near[near > 0])
        if len(logs) < _FEWEST or logs.mean() < _EQUAL:
            continue
        estimates[f"gride_{scale}"] = start[scale] = gride(logs, here, start.get(scale, 0.0))
        if scale == 1:
            logs.sort()
            estimates |= {
                name: twonn(logs, share)
                for name, share in {"twonn": discard, "twonn_published": _PUBLISHED}.items()
                if logs[_kept(len(logs), share) - 1] >= _EQUAL
            }
            if logs[_kept(len(logs), 0.1) - 1] >= _EQUAL:
                estimates["twonn_ml"] = twonn_ml(logs)
    return estimates


def log_ratios(x: NDArray[np.floating]) -> Floats:
    """Return log(r_2n / r_n) of each distinct row, ascending in the first column, shape (N, scales with 2n < N).

    Rows that are equal although the model saw different things (an architecture that forgets) are dropped here, since
    r1 = 0 has no ratio.
    """
    found = _neighbours(x, listed=0)
    if (found.distances[:, 0] == 0).any():
        found = _neighbours(np.unique(x, axis=0), listed=0)
    return _logs(found.distances)


def _logs(distances: Floats) -> Floats:
    if not len(distances):
        return np.zeros((0, 0))
    logs: Floats = np.diff(np.log(distances), axis=1)
    return logs[logs[:, 0].argsort()]


_MOVED = 16  # from this scale on half-samples are read at another one
_LISTED = 240  # more than the 128 that the largest scale needs, since a half may hold few of the nearest


def _neighbours(x: NDArray[np.floating], listed: int = _LISTED) -> Neighbours:
    if len(x) < 3:
        return Neighbours(np.zeros((0, 1)), np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0)))
    return nearest(x, 2, [rank for rank in RANKS[2:] if rank < len(x)], listed)


def _kept(n: int, discard: float) -> int:
    """Return how many of n ratios are fitted: ⌊(1 − discard)·n⌋, but no more than n − 1, since F = 1 has no log."""
    return min(int((1 - discard) * n + 1e-9), n - 1)  # 1 − 0.8 is a little less than 0.2


def twonn(logs: Floats, discard: float = 0.1) -> float:
    """Return the slope through the origin of −log(1 − F) on log μ over the smallest μ.

    Args:
        logs: log μ, ascending, shape (N,), N ≥ 10.
        discard: share of the largest μ that are left out, 0 to 0.9.
    """
    n = len(logs)
    kept = logs[: _kept(n, discard)]
    empirical = -np.log1p(-np.arange(1, len(kept) + 1) / n)
    return float(kept @ empirical / (kept @ kept))


def twonn_ml(logs: Floats) -> float:
    """Return (N − 1) / Σ log μ."""
    return float((len(logs) - 1) / logs.sum())


@lru_cache(maxsize=16)
def _log_ratios_of_noise(n: int, d: int, seed: int) -> Floats:
    return log_ratios(_floors.gaussian(n, d, seed))


@lru_cache(maxsize=256)
def _floors_at(n: int, d: int, seed: int, discard: float) -> Mapping[str, float]:
    logs = _log_ratios_of_noise(n, d, seed)
    first = logs[:, 0]
    found = {
        "twonn": twonn(first, discard),
        "twonn_published": twonn(first, _PUBLISHED),
        "twonn_ml": twonn_ml(first),
    }
    return found | {f"gride_{s}": gride(logs[:, at], s) for at, s in enumerate(SCALES[: logs.shape[1]])}
