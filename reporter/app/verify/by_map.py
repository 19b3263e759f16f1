"""``linearity``: the fit of one linear map, computed from the states themselves."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import acos
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from torch import Tensor

from reporter.app.verify.by_cloud import batches
from reporter.app.verify.by_model import Call, VerifiedModel, calls_of
from reporter.app.verify.by_token import NONE, cosines, mean, means, text_rows
from reporter.app.verify.reading import CorpusReading, Floats, Ints, Mask, NoPath, Remeasured, StatePlace, half_of, key

ZERO = 1e-6  # eigenvalues of the correlation matrix up to it count as zero
EQUAL = 1e-12  # of the mean square: a spread up to it is rounding
FEWEST = 3  # tokens


def linearity(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``linearity`` measures of each layer, the next one and the last."""
    halves = {text: half_of(reading.seed, unit) for text, unit in reading.units.items()}
    half = np.array([halves[text] for text in reading.text.tolist()])
    for index, place in enumerate(reading.path[:-1]):
        for view, mask in reading.masks.items():
            x, y = reading.at(place)[mask], reading.at(reading.path[index + 1])[mask]
            targets = {"linearity": y, "update_linearity": y - x, "to_last": reading.at(reading.path[-1])[mask]}
            if len(x) < FEWEST or not all(map(_varies, (x, y))):
                continue
            for name, other in targets.items():
                if _varies(other):
                    yield Remeasured(name, view, place, explained(x, other, x, other))
                    parts = [(x[half[mask] == side], other[half[mask] == side]) for side in (0, 1)]
                    if all(len(a) >= FEWEST and _varies(a) and _varies(b) for a, b in parts):
                        both = zip(parts, reversed(parts), strict=True)
                        shares = [explained(*fitted, *tried) for fitted, tried in both]
                        yield Remeasured(f"{name}_heldout", view, place, float(np.mean(shares)))
            yield from (Remeasured(name, view, place, value, slack) for name, value, slack in _likeness(x, y))


def _varies(x: Floats) -> bool:
    return bool(((x - x.mean(axis=0)) ** 2).sum() > EQUAL * (x**2).sum())


class _Axes(NamedTuple):
    """Where rows vary: them minus their mean along unit vectors, (n, r), and how many directions are near the cut."""

    rows: Floats
    back: Floats
    """From a row minus the mean to its coordinates, (d, r)."""
    near: int


def _axes(x: Floats) -> _Axes:
    x = x - x.mean(axis=0)
    sizes = np.linalg.norm(x, axis=0)
    scale = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 1e-6 * np.sqrt((sizes * sizes).mean()))
    u, s, v = np.linalg.svd(x * scale, full_matrices=False)
    kept = int(((s**2 > ZERO) & (np.arange(len(s)) < len(x) - 1)).sum())
    near = int(((s**2 > ZERO / 2) & (s**2 < 2 * ZERO)).sum())
    return _Axes(u[:, :kept], scale[:, None] * (v[:kept].T / s[:kept]), near)


def explained(x: Floats, y: Floats, other_x: Floats, other_y: Floats) -> float:
    """Return the share of other rows of y that the least-squares map of x to y explains, about the mean of y."""
    axes = _axes(x)
    made = (other_x - x.mean(axis=0)) @ axes.back @ (axes.rows.T @ (y - y.mean(axis=0)))
    return float(1 - ((other_y - y.mean(axis=0) - made) ** 2).sum() / ((other_y - y.mean(axis=0)) ** 2).sum())


def _likeness(x: Floats, y: Floats) -> Iterator[tuple[str, float, float]]:
    first, second = _axes(x), _axes(y)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    both = np.linalg.norm(x) * np.linalg.norm(y)
    yield "procrustes", acos(min(float(np.linalg.norm(x.T @ y, "nuc") / both), 1.0)), 0.0
    sizes = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    yield "cka", float(np.linalg.norm(x.T @ y) ** 2 / sizes), 0.0
    fewest = min(first.rows.shape[1], second.rows.shape[1])
    if fewest:
        correlations = np.linalg.norm(first.rows.T @ second.rows) ** 2
        # A direction at the cut counts in one and not in the other.
        yield "cca", float(correlations / fewest), (first.near + second.near) / fewest


# How far the states of a model lie from those of its base: ``change``.


MOVED = 2.0**-10  # of ‖h⁰ − μ⁰‖: beyond the 16 bits in which the states of both are kept
TEXTS = 1024  # whose mean states are compared where the tokenizers disagree

LOST = 2.0**-39  # of the largest entry of a state: what lies below is 0 in these 16 bits, however it varies

States = Callable[[StatePlace], Floats]  # of the rows that are compared


def change(
    reading: CorpusReading, base: CorpusReading, options: Mapping[str, Any], ending: str = ""
) -> Iterator[Remeasured]:
    """Yield what ``change`` measures of a model and its base, or of it and its twin (``ending`` is ``_seed``)."""
    pairs = [(place, place) for place in reading.path[:-1] if place in base.path] + [(reading.path[-1], base.path[-1])]
    finals = [[place for place in side.places if place.site == "final"] for side in (reading, base)]
    for view in reading.masks:
        texts, mine, theirs = _same_tokens(reading, base, view, options["sample"])
        if len(texts) < 2:
            continue
        half = np.array([half_of(reading.seed, text) for text in texts.tolist()])
        for place, counterpart in (*pairs, *zip(*finals, strict=False)):
            for name, value, slack in _numbers(mine(place), theirs(counterpart), half):
                if not ending or name in ("distance", "linear"):
                    yield Remeasured(f"{name}{ending}", view, place, value, slack)


def _same_tokens(reading: CorpusReading, base: CorpusReading, view: str, sample: int) -> tuple[Ints, States, States]:
    """Return the text of each row, and the rows of both: tokens that both draw, or means where these are others."""
    drawn = []
    for side in (reading, base):
        rows = side.drawn(side.masks[view], sample)
        names = zip(side.text[rows].tolist(), side.position[rows].tolist(), strict=True)
        drawn.append(dict(zip(names, rows.tolist(), strict=True)))
    both = [name for name in drawn[0] if name in drawn[1]]
    mine, theirs = (np.array([rows[name] for name in both], dtype=np.int64) for rows in drawn)
    if np.array_equal(reading.ids[mine], base.ids[theirs]):
        texts = np.array([reading.units[text] for text, _ in both], dtype=np.int64)
        return texts, lambda place: reading.at(place)[mine], lambda place: base.at(place)[theirs]
    spans = [text_rows(side, view, min(sample, TEXTS)) for side in (reading, base)]
    shared = [text for text in spans[0] if text in spans[1]]

    def of(which: int, place: StatePlace) -> Floats:
        x = (reading, base)[which].at(place)
        return np.stack([x[spans[which][text]].mean(axis=0) for text in shared])

    return np.array([reading.units[text] for text in shared], dtype=np.int64), partial(of, 0), partial(of, 1)


def _numbers(x: Floats, y: Floats, half: Ints) -> Iterator[tuple[str, float, float]]:
    """Yield each number with its slack: what the 16 bits of both states may move it by."""
    fewest = min((half == half_index).sum() for half_index in (0, 1))
    if fewest >= 2 * y.shape[1]:
        off = np.abs(y - np.median(y, axis=0))
        read = np.where((off < LOST * off.max(axis=1, keepdims=True)).all(axis=0), 0.0, y)
        shares = [explained(read[half == a], x[half == a], read[half != a], x[half != a]) for a in (0, 1)]
        yield "linear", float(np.mean(shares)), 0.0
    sizes = np.linalg.norm(y, axis=1)
    if x.shape != y.shape or not sizes.any():
        return
    rows = (sizes > 0) & (np.linalg.norm(x, axis=1) > 0)
    x, y, sizes = x[rows], y[rows], sizes[rows]
    step = np.linalg.norm(x - y, axis=1)
    centred = [np.linalg.norm(side - np.median(side, axis=0), axis=1) for side in (x, y)]
    rounding = np.where(step > 0, 2.0**-11 * np.hypot(*centred), 0.0)  # the same number is rounded to the same
    yield "distance", float((step / sizes).mean()), float((rounding / sizes).mean())
    yield "cosine", float(cosines(x, y).mean()), float((rounding / sizes).mean())
    limit = MOVED * np.linalg.norm(y - y.mean(axis=0), axis=1) + 1e-6 * sizes
    near = (step > 0) & (np.abs(step - limit) <= 2 * rounding)
    yield "moved", float((step > limit).mean()), float(near.mean())


# What attention and feed-forward add: ``contributions``, from what the norms of each block take and return.


_NO_TWO_NORMS = "its blocks do not have the two norms that separate attention from feed-forward"
_ROUNDING = 2.0**-23  # of what the longer of two float32 vectors of which one is the difference


def contributions(reading: CorpusReading, options: Mapping[str, Any], subject: VerifiedModel) -> Iterator[Remeasured]:
    """Yield what ``contributions`` measures, without looking at a sublayer.

    The second norm of a pre-norm block takes s = h + a, so a = s − h and m = h' − s. The first norm of a post-norm
    block takes h + a and returns s, its second norm takes s + m.
    """
    along = []
    for place, after in pairwise(reading.path):
        along.append(cosines(reading.at(after) - reading.at(place), reading.at(place)))
        yield from means(reading, place, {"block_cosine": along[-1]})
    for view, mask in reading.masks.items():
        profile = [mean(cosine, mask) for cosine in along]
        turns = [block for block, (before, after) in enumerate(pairwise(profile), 2) if before < 0 <= after]
        yield Remeasured("turn", view, None, float(turns[-1]) if turns else NONE)
    texts = []
    for text in reading.texts:
        with calls_of(subject.model.norms()) as calls:
            path, _ = subject.model.states(text.ids)
        if not calls:  # blocks that share their weights stand in no list of modules
            raise NoPath(_NO_TWO_NORMS)
        blocks = [_of_block(h, after, calls[index]) for index, (h, after) in enumerate(pairwise(path))]
        texts.append(np.stack(blocks))  # (L, quantities, tokens)
    names = ("attention_ratio", "attention_cosine", "feed_forward_ratio", "feed_forward_cosine")
    for place, of_place in zip(reading.path[:-1], np.concatenate(texts, axis=2), strict=True):
        for name, values, rounding in zip(names, of_place[:4], of_place[4:], strict=True):
            for view, mask in reading.masks.items():
                yield Remeasured(name, view, place, mean(values, mask), mean(rounding, mask & np.isfinite(values)))


def _of_block(before: Tensor, after: Tensor, norms: list[Call]) -> Floats:
    """Return ratio and cosine of both additions, and how far rounding may move each, (8, tokens)."""
    h, end = (x.double().numpy() for x in (before, after))
    pairs = [(taken[0], returned) for taken, returned in norms]
    of_stream = [[x[0].double().numpy() for x in pair] for pair in pairs if all(x.shape[1:] == h.shape for x in pair)]
    if len(of_stream) != 2:  # those of queries and keys have other shapes
        raise NoPath(_NO_TWO_NORMS)
    (taken, returned), (second, last) = of_stream
    if np.array_equal(taken, h) and not np.array_equal(second, h):  # pre-norm; in a parallel block both take h
        parts = [(second - h, h, second), (end - second, second, end)]
    elif np.array_equal(last, end):  # post-norm
        parts = [(taken - h, h, taken), (second - returned, returned, second)]
    else:
        raise NoPath(_NO_TWO_NORMS)
    numbers, roundings = [], []
    for added, stream, both in parts:
        length, size, most = (np.linalg.norm(x, axis=1) for x in (added, stream, both))
        most = _ROUNDING * np.maximum(most, size)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(size > 0, length / size, np.nan)
            numbers += [ratio, cosines(added, stream)]
            roundings += [most / size, np.minimum(most / length, 2.0)]
    return np.stack([*numbers, *roundings])


# Numbers of the distances between all states of a sample: ``intrinsic_dimension``, ``information_imbalance``.


SCALES = (1, 2, 4, 8, 16, 32, 64)


def intrinsic_dimension(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``intrinsic_dimension`` measures, on the distinct contexts among the drawn tokens."""
    for view, mask in reading.masks.items():
        rows, tokens = _sampled_rows(reading, mask, options["sample"] * options["batches"])
        if not tokens:
            continue
        for place in reading.places:
            kept = _different(reading, rows, place)
            repeated = 1 - len(kept) / tokens
            yield Remeasured("duplicates", view, place, repeated)
            if len(kept) < 10 or repeated > 0.5:
                continue
            samples = [reading.at(place)[kept][batch] for batch in batches(len(kept), options)]
            ratios = reading.once((place, kept.tobytes()), partial(list, map(_ratios, samples)))
            yield from _estimates(ratios, options.get("discard", 0.1), view, place)


def _sampled_rows(reading: CorpusReading, mask: Mask, limit: int) -> tuple[Any, int]:
    rows = reading.drawn(mask, limit)
    first = np.unique(reading.contexts[rows], return_index=True)[1]
    return rows[np.sort(first)], len(rows)


def _different(reading: CorpusReading, rows: Any, place: StatePlace) -> Any:
    if place.layer:
        return rows
    positions = reading.position[rows] if reading.positions_added else np.zeros(len(rows), dtype=np.int64)
    pairs = zip(reading.ids[rows].tolist(), positions.tolist(), strict=True)
    keys = np.array([key(token, position) for token, position in pairs], dtype=np.uint64)
    return rows[np.sort(np.unique(keys, return_index=True)[1])]


def _ratios(x: Floats) -> Floats:
    if len(x) < 3:
        return np.zeros((0, 0))
    distances = _distances(x)
    if (distances[:, 0] == 0).any():
        return _ratios(np.unique(x, axis=0))
    ranks = [(n, 2 * n) for n in SCALES if 2 * n <= distances.shape[1]]
    logs = np.stack([np.log(distances[:, far - 1] / distances[:, near - 1]) for near, far in ranks], axis=1)
    ordered: Floats = logs[np.argsort(logs[:, 0])]
    return ordered


def _distances(x: Floats) -> Floats:
    """Return the distance of each row to its nearest others, ascending, up to the last rank needed.

    Which ones are near is found from ‖a‖² + ‖b‖² − 2a·b, how near from the differences, since that cancels.
    """
    from sklearn.neighbors import NearestNeighbors

    x = x - x.mean(axis=0)
    search = NearestNeighbors(n_neighbors=min(2 * SCALES[-1], len(x) - 1), algorithm="brute").fit(x)
    places = search.kneighbors(return_distance=False)
    return np.sort([np.linalg.norm(x[near] - row, axis=1) for row, near in zip(x, places, strict=True)])


def _estimates(ratios: list[Floats], discard: float, view: str, place: StatePlace) -> Iterator[Remeasured]:
    if min(len(logs) for logs in ratios) < 10:
        return
    yield Remeasured("twonn", view, place, float(np.mean([_slope(logs[:, 0], discard) for logs in ratios])))
    for column, scale in enumerate(SCALES):
        if all(logs.shape[1] > column and logs[:, column].mean() > 1e-9 for logs in ratios):
            value = float(np.mean([_most_likely(logs[:, column], scale) for logs in ratios]))
            yield Remeasured(f"gride_{scale}", view, place, value)


FEWEST_CENTRES = 10  # states that have a dimension around them
FEWEST_RANKED = 20  # states, below which no ranks are compared


def information_imbalance(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``information_imbalance`` measures: the mean rank in one layer of who is nearest in another."""
    from scipy.stats import rankdata

    for view, mask in reading.masks.items():
        rows, _ = _sampled_rows(reading, mask, options["sample"])
        n = len(rows)
        if n < FEWEST_RANKED:
            continue
        states = {index: x for index, place in enumerate(reading.path) if _varies(x := reading.at(place)[rows])}
        nearest = {}
        for index, x in states.items():
            far = _from_others(x)
            nearest[index] = np.nonzero(far == far.min(axis=1, keepdims=True))
        imbalances = {}
        for b, x in states.items():
            ranks = rankdata(_from_others(x), axis=1)
            for a, (row, other) in nearest.items():
                # Of several that are equally near the metric takes one: any of them would do.
                starts = np.flatnonzero(np.diff(row, prepend=-1))
                least, most = (
                    2 / n * float(pick.reduceat(ranks[row, other], starts).mean()) for pick in (np.minimum, np.maximum)
                )
                imbalances[a, b] = (least + most) / 2, (most - least) / 2
                if a != b:
                    yield Remeasured("imbalance", view, reading.path[a], *imbalances[a, b], other=b)
        last = len(reading.path) - 1
        for index, place in enumerate(reading.path):
            for name, end in {"last": last, "first": 0}.items():
                for direction, pair in {"to": (index, end), "from": (end, index)}.items():
                    if pair in imbalances:
                        yield Remeasured(f"{direction}_{name}", view, place, *imbalances[pair])


def _from_others(x: Floats) -> Floats:
    distances: Floats = cdist(x, x)
    np.fill_diagonal(distances, np.inf)
    return distances


def local_dimension(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``local_dimension`` measures: TwoNN among the nearest states of each of the first drawn ones."""
    k, take = options["neighbours"], int((1 - Fraction("0.1")) * options["neighbours"])
    for view, mask in reading.masks.items():
        drawn, tokens = _sampled_rows(reading, mask, options["sample"])
        for place in reading.places:
            rows = _different(reading, drawn, place)
            if 2 * len(rows) < tokens or len(rows) < 2 * k:
                continue
            x = reading.at(place)[rows]
            dimensions = []
            for index in range(min(len(rows), options["centres"])):
                far = np.linalg.norm(x - x[index], axis=1)
                far[index] = np.inf
                near = x[np.argsort(far)[:k]]
                nearest = np.sort(_from_others(near), axis=1)[:, :2]
                with np.errstate(divide="ignore", invalid="ignore"):
                    logs = np.sort(np.log(nearest[:, 1] / nearest[:, 0]))[:take]
                if np.isfinite(logs).all() and logs[-1] > 1e-9:
                    heights = -np.log(1 - np.arange(1, take + 1) / k)
                    dimensions.append(float(logs @ heights / (logs @ logs)))
            if len(dimensions) >= FEWEST_CENTRES:
                yield Remeasured("mean", view, place, float(np.mean(dimensions)))
                yield Remeasured("spread", view, place, float(np.std(dimensions, ddof=1)))


def _slope(logs: Floats, discard: float) -> float:
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
    ends = (middle - 1, middle + 0.1)
    optimum = minimize_scalar(less_likely, bounds=ends, method="bounded", options={"xatol": 1e-10})
    return float(np.exp(optimum.x))
