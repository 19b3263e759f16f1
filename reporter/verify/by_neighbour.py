"""Numbers of the distances between all states of a sample: ``intrinsic_dimension``, ``information_imbalance``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from reporter.verify.by_cloud import NONE, batches
from reporter.verify.reading import Found, Place, Reading
from reporter.verify.tokens import Floats, Mask, key

SCALES = (1, 2, 4, 8, 16, 32, 64)


def intrinsic_dimension(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``intrinsic_dimension`` measures, on the distinct contexts among the drawn tokens."""
    for view, mask in seen.masks.items():
        rows, tokens = _drawn(seen, mask, options["sample"] * options["batches"])
        if not tokens:
            continue
        for place in seen.places:
            kept = _different(seen, rows, place)
            repeated = 1 - len(kept) / tokens
            yield Found("duplicates", view, place, repeated)
            if len(kept) < 10 or repeated > 0.5:
                continue
            ratios = seen.once((place, kept.tobytes()), partial(_of_batches, seen.at(place)[kept], options))
            yield from _estimates(ratios, options.get("discard", 0.1), view, place)


def _of_batches(x: Floats, options: Mapping[str, Any]) -> list[Floats]:
    return [_ratios(x[batch]) for batch in batches(len(x), options)]


def _drawn(seen: Reading, mask: Mask, wanted: int) -> tuple[Any, int]:
    """Return of the drawn tokens the first of each context, in the order of their hashes, and how many were drawn."""
    rows = seen.drawn(mask, wanted)
    first = np.unique(seen.contexts[rows], return_index=True)[1]
    return rows[np.sort(first)], len(rows)


def _different(seen: Reading, rows: Any, place: Place) -> Any:
    """At layer 0 a state hangs on the token alone, and its position where that is added: each of them once."""
    if place.layer:
        return rows
    positions = seen.position[rows] if seen.positions_added else np.zeros(len(rows), dtype=np.int64)
    pairs = zip(seen.ids[rows].tolist(), positions.tolist(), strict=True)
    keys = np.array([key(token, position) for token, position in pairs], dtype=np.uint64)
    return rows[np.sort(np.unique(keys, return_index=True)[1])]


def _ratios(x: Floats) -> Floats:
    """Return log(r_2n / r_n) of each state, a column for each scale that has so many neighbours; by μ ascending."""
    if len(x) < 3:
        return np.zeros((0, 0))
    distances = _distances(x)
    if (distances[:, 0] == 0).any():
        return _ratios(np.unique(x, axis=0))
    ranks = [(n, 2 * n) for n in SCALES if 2 * n <= distances.shape[1]]
    logs = np.stack([np.log(distances[:, far - 1] / distances[:, near - 1]) for near, far in ranks], axis=1)
    found: Floats = logs[np.argsort(logs[:, 0])]
    return found


def _distances(x: Floats) -> Floats:
    """Return the distance of each row to its nearest others, ascending, up to the last rank needed.

    Which ones are near is found from ‖a‖² + ‖b‖² − 2a·b, how near from the differences, since that cancels.
    """
    from sklearn.neighbors import NearestNeighbors

    x = x - x.mean(axis=0)
    search = NearestNeighbors(n_neighbors=min(2 * SCALES[-1], len(x) - 1), algorithm="brute").fit(x)
    places = search.kneighbors(return_distance=False)
    return np.sort([np.linalg.norm(x[near] - row, axis=1) for row, near in zip(x, places, strict=True)])


def _estimates(ratios: list[Floats], discard: float, view: str, place: Place) -> Iterator[Found]:
    if min(len(logs) for logs in ratios) < 10:
        return
    for name, share in (("twonn", discard), ("twonn_published", 0.8)):
        slopes = [_slope(logs[:, 0], share) for logs in ratios]
        yield Found(name, view, place, float(np.mean(slopes)))
    if np.isfinite([_slope(logs[:, 0], 0.1) for logs in ratios]).all():
        yield Found("twonn_ml", view, place, float(np.mean([(len(logs) - 1) / logs[:, 0].sum() for logs in ratios])))
    for column, scale in enumerate(SCALES):
        if all(logs.shape[1] > column and logs[:, column].mean() > 1e-9 for logs in ratios):
            value = float(np.mean([_most_likely(logs[:, column], scale) for logs in ratios]))
            yield Found(f"gride_{scale}", view, place, value)


FEWEST_CENTRES = 10  # states that have a dimension around them
FEWEST_RANKED = 20  # states, below which no ranks are compared


def information_imbalance(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``information_imbalance`` measures: the mean rank in one layer of who is nearest in another."""
    from scipy.spatial.distance import cdist
    from scipy.stats import rankdata

    for view, mask in seen.masks.items():
        rows, _ = _drawn(seen, mask, options["sample"])
        n = len(rows)
        if n < FEWEST_RANKED:
            continue

        states = [seen.at(place)[rows] for place in seen.path]

        def distances(at: int, states: list[Floats] = states) -> Floats:
            x = states[at]
            found: Floats = cdist(x, x)
            np.fill_diagonal(found, np.inf)
            return found

        vary = [at for at, x in enumerate(states) if ((x - x.mean(axis=0)) ** 2).sum() > 1e-12 * (x * x).sum()]
        nearest = {at: np.nonzero((far := distances(at)) == far.min(axis=1, keepdims=True)) for at in vary}
        found = {}
        for b in vary:
            ranks = rankdata(distances(b), axis=1)
            for a, (row, other) in nearest.items():
                # Of several that are equally near the metric takes one: any of them would do.
                starts = np.flatnonzero(np.diff(row, prepend=-1))
                least, most = (
                    2 / n * float(pick.reduceat(ranks[row, other], starts).mean()) for pick in (np.minimum, np.maximum)
                )
                found[a, b] = (least + most) / 2, (most - least) / 2
                if a != b:
                    yield Found("imbalance", view, seen.path[a], *found[a, b], other=b)
        last = len(seen.path) - 1
        for at, place in enumerate(seen.path):
            pairs = {"to_last": (at, last), "from_last": (last, at), "to_first": (at, 0), "from_first": (0, at)}
            for name, pair in pairs.items():
                if pair in found:
                    yield Found(name, view, place, *found[pair])


def local_dimension(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``local_dimension`` measures: TwoNN among the nearest states of each of the first drawn ones."""
    k, take = options["neighbours"], int((1 - Fraction("0.1")) * options["neighbours"])
    for view, mask in seen.masks.items():
        drawn, tokens = _drawn(seen, mask, options["sample"])
        for place in seen.places:
            rows = _different(seen, drawn, place)
            if 2 * len(rows) < tokens or len(rows) < 2 * k:
                continue
            x = seen.at(place)[rows]
            found = []
            for at in range(min(len(rows), options["centres"])):
                far = np.linalg.norm(x - x[at], axis=1)
                far[at] = np.inf
                near = x[np.argsort(far)[:k]]
                between = np.sqrt(((near[:, None] - near[None]) ** 2).sum(axis=2))
                np.fill_diagonal(between, np.inf)
                nearest = np.sort(between, axis=1)[:, :2]
                with np.errstate(divide="ignore", invalid="ignore"):
                    logs = np.sort(np.log(nearest[:, 1] / nearest[:, 0]))[:take]
                if np.isfinite(logs).all() and logs[-1] > 1e-9:
                    heights = -np.log(1 - np.arange(1, take + 1) / k)
                    found.append(float(logs @ heights / (logs @ logs)))
            if len(found) >= FEWEST_CENTRES:
                yield Found("mean", view, place, float(np.mean(found)))
                yield Found("spread", view, place, float(np.std(found, ddof=1)))


def _slope(logs: Floats, discard: float) -> float:
    """Return the slope through the origin of −log(1 − F) on log μ, the largest μ left out; NaN where all are one."""
    n = len(logs)
    kept = logs[: min(int((1 - Fraction(str(discard))) * n), n - 1)]
    heights = -np.log(1 - np.arange(1, len(kept) + 1) / n)
    return float(np.linalg.lstsq(kept[:, None], heights, rcond=None)[0][0]) if kept[-1] > 1e-9 else NONE


def _most_likely(logs: Floats, n: int) -> float:
    """Return the d that maximises Σ log of d·(μ^d − 1)^(n−1) / μ^((2n−1)·d+1), searched for by its value alone."""
    from scipy.optimize import minimize_scalar

    logs = np.maximum(logs, 1e-300)  # a ratio of one says n of the slope whatever d is, as the limit does

    def less_likely(log_d: float) -> float:
        # (μ^d − 1)/μ^d = 1 − exp(−x), and the rest of μ's exponent is −n·x.
        x = np.exp(log_d) * logs
        return -float((log_d + (n - 1) * np.log(-np.expm1(-x)) - n * x).mean())

    middle = float(-np.log(logs.mean()))
    found = minimize_scalar(less_likely, bounds=(middle - 1, middle + 0.1), method="bounded", options={"xatol": 1e-10})
    return float(np.exp(found.x))
