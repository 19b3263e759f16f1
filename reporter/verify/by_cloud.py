"""Numbers of all states of a view as one cloud of points: anisotropy, spectrum, variance by token type, outliers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from reporter.verify.reading import Found, Place, Reading
from reporter.verify.tokens import Floats, Mask

NONE = float("nan")


def mean_cosine(x: Floats, zero: float = 0.0) -> float:
    """Return the mean over rows of the mean cosine with all other rows; rows no longer than ``zero`` are left out."""
    norms = np.linalg.norm(x, axis=1)
    u = x[norms > zero] / norms[norms > zero, None]
    if len(u) < 2:
        return NONE
    others = u.sum(axis=0) - u
    return float((u * others).sum(axis=1).mean() / (len(u) - 1))


def spectrum_of(seen: Reading, place: Place, mask: Mask) -> Floats:
    """Return the eigenvalues of the covariance (1/n) that are not zero, largest first; none for equal states."""

    def compute() -> Floats:
        x = seen.at(place)[mask]
        if len(x) < 2:
            return np.zeros(0)
        return eigenvalues(x)

    found: Floats = seen.once(("spectrum", place, mask.tobytes()), compute)
    return found


def eigenvalues(x: Floats) -> Floats:
    """Return those of the covariance of the rows of x that are not zero, largest first; none for equal rows."""
    n, d = x.shape
    centred = x - x.mean(axis=0)
    square = centred @ centred.T if n <= d else centred.T @ centred
    found = np.linalg.eigvalsh(square)[::-1][: n - 1].clip(min=0) / n
    if found.sum() <= 1e-12 * (x * x).sum() / n:
        return np.zeros(0)
    kept: Floats = found[found > 1e-12 * found.sum()]
    return kept


def spectrum(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``spectrum`` measures, and the curve of the table ``spectra`` by rank."""
    for place in seen.places:
        for view, mask in seen.masks.items():
            values = spectrum_of(seen, place, mask)
            if not len(values):
                continue
            p = values / values.sum()
            yield Found("effective_rank", view, place, float(np.exp(-(p * np.log(p)).sum())))
            yield Found("participation_ratio", view, place, float(1 / (p * p).sum()))
            yield Found("stable_rank", view, place, float(1 / p[0]))
            half = values[: min(seen.widths[place], int(mask.sum()) - 1) // 2]
            if len(half) >= 3:
                rank = np.arange(1, len(half) + 1)
                # polyfit weighs residuals, not their squares.
                slope = np.polyfit(np.log(rank), np.log(half), 1, w=1 / np.sqrt(rank))[0]
                yield Found("decay", view, place, max(0.0, -float(slope)))
            # An eigenvalue at the threshold may be zero here and not in the run: the curve has the zeros as well.
            shares = np.pad(p, (0, max(0, seen.widths[place] - len(p))))
            for before, share in enumerate(shares.tolist()):
                yield Found("curve", view, place, share, other=before + 1)


def anisotropy(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``anisotropy`` measures; its samples are the tokens with the smallest hashes."""
    for place in seen.places:
        x = seen.at(place)
        for view, mask in seen.masks.items():
            values, d = spectrum_of(seen, place, mask), seen.widths[place]
            if len(values):
                yield Found("top_variance_share", view, place, float(values[0] / values.sum()))
                yield Found("isoscore", view, place, isoscore(values, d))
            if not mask.any():
                continue
            yield Found("mean_cosine", view, place, mean_cosine(x[mask]))
            rows = np.flatnonzero(mask)
            rows = rows[np.argsort(seen.draws[rows])][: options["sample"] * options["batches"]]
            yield Found("top_variance_share_batch", view, place, _by_batch(x[rows], options))
            yield from _centred(x[mask], x[rows], view, place)


def isoscore(values: Floats, d: int) -> float:
    """Return IsoScore by the steps of its algorithm (Rudman et al. 2022), from the variances on the principal axes."""
    if d < 2:
        return NONE
    axes = np.zeros(d)
    axes[: len(values)] = values
    normalised = np.sqrt(d) * axes / np.linalg.norm(axes)
    defect = np.linalg.norm(normalised - 1) / np.sqrt(2 * (d - np.sqrt(d)))
    used = (d - defect**2 * (d - np.sqrt(d))) ** 2 / d**2
    return float(np.clip((d * used - 1) / (d - 1), 0, 1))


def batches(found: int, options: Mapping[str, Any]) -> list[slice]:
    """Cut drawn tokens into full batches; too few for one are one batch."""
    size = options["sample"]
    full = min(options["batches"], found // size)
    return [slice(i * size, (i + 1) * size) for i in range(full)] or [slice(0, found)]


def _by_batch(x: Floats, options: Mapping[str, Any]) -> float:
    shares = []
    for batch in batches(len(x), options):
        values = eigenvalues(x[batch]) if len(x[batch]) > 1 else np.zeros(0)
        shares.append(values[0] / values.sum() if len(values) else NONE)
    return float(np.mean(shares))


def _centred(x: Floats, sample: Floats, view: str, place: Place) -> Iterator[Found]:
    centre, spread = x.mean(axis=0), x.std(axis=0)
    moved = sample - centre
    # What rounding leaves of a state that equals the mean has no direction.
    length = np.linalg.norm(moved, axis=1).max(initial=0.0)
    zero = 1e-6 * max(float(np.sqrt((x * x).sum() / len(x))), length)
    yield Found("mean_cosine_centred", view, place, mean_cosine(moved, zero))
    varies = spread > 1e-6 * np.abs(centre)
    scaled = moved[:, varies] / spread[varies]
    zero = 1e-6 * np.linalg.norm(scaled, axis=1).max(initial=0.0)
    yield Found("mean_cosine_standardised", view, place, mean_cosine(scaled, zero))


def variance(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``variance`` measures (Yamagiwa & Shimodaira 2024), type by type."""
    fits = options["memory"] * 2**20 // (8 * sum(width + 2 for width in seen.widths.values()))
    often = sorted((-count, token) for token, count in seen.type_counts.items() if count >= 5)
    kept = [token for _, token in often[:fits]]
    of_type = np.isin(seen.ids, kept) & ~seen.kinds.special
    for view, mask in seen.masks.items():
        if mask.any():
            yield Found("coverage", view, None, float((of_type & mask).sum() / mask.sum()))
    for place in seen.places:
        x = seen.at(place)
        for view, mask in seen.masks.items():
            rows = np.flatnonzero(mask & of_type)
            if len(rows):
                yield from _of_types(x[rows], seen.ids[rows], view, place)


def _of_types(x: Floats, ids: Any, view: str, place: Place) -> Iterator[Found]:
    centre = x.mean(axis=0)
    total = float(((x - centre) ** 2).sum(axis=1).mean())
    square = float((x * x).sum(axis=1).mean())
    counts, norms, variances, within, between = [], [], [], 0.0, 0.0
    for token in np.unique(ids):
        of_type = x[ids == token]
        middle = of_type.mean(axis=0)
        scatter = float(((of_type - middle) ** 2).sum())
        counts.append(len(of_type))
        norms.append(float(np.linalg.norm(middle)))
        variances.append(scatter / len(of_type))
        within += scatter / len(x)
        between += len(of_type) / len(x) * float(((middle - centre) ** 2).sum())
    yield Found("norm_of_mean", view, place, float(np.linalg.norm(centre)))
    yield Found("mean_square_norm", view, place, square)
    if total > 1e-12 * square:
        for name, value in (("total", total), ("within", within), ("between", between)):
            yield Found(name, view, place, value)
        yield Found("within_share", view, place, within / total)
        yield Found("between_share", view, place, between / total)
    twice = np.array(counts) >= 2
    spreads = np.array(variances)
    spreads[spreads <= 1e-12 * square] = 0
    if twice.sum() >= 5 and spreads[twice].any():
        a, b = _ranks(np.array(norms)[twice]), _ranks(spreads[twice])
        if a.std() and b.std():
            yield Found("tradeoff", view, place, float(np.corrcoef(a, b)[0, 1]))


def _ranks(values: Floats) -> Floats:
    """Return ranks from 1; neighbours in size that differ by no more than 1e-6 share their mean rank."""
    order, ranks, start = np.argsort(values), np.empty(len(values)), 0
    for stop in range(1, len(values) + 1):
        here, before = values[order[min(stop, len(values) - 1)]], values[order[stop - 1]]
        if stop == len(values) or here - before > 1e-6 * abs(here):
            ranks[order[start:stop]] = (start + 1 + stop) / 2
            start = stop
    return ranks


def outliers(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``outliers`` measures: massive activations, outlier dimensions, sinks."""
    for view, mask in seen.masks.items():
        own = mask & ~seen.kinds.special
        if own.any():
            yield Found("sink_share", view, None, float((own & seen.kinds.sink).sum() / own.sum()))
    for place in seen.places:
        x = seen.at(place)
        largest = np.abs(x).max(axis=1)
        limit = np.empty(len(x))
        for _, span in seen.spans:
            limit[span] = max(100.0, 1000 * float(np.median(np.abs(x[span])))) if largest[span].max() > 50 else 100.0
        for view, mask in seen.masks.items():
            if not mask.any():
                continue
            close = float((np.abs(largest - limit) <= 1e-5 * limit)[mask].mean())
            yield Found("massive", view, place, float((largest > limit)[mask].mean()), close)
            yield Found("largest", view, place, float(largest[mask].max()))
            root = float(np.sqrt((x[mask] ** 2).mean()))
            yield Found("largest_ratio", view, place, max(1.0, float(largest[mask].max()) / root) if root else NONE)
            middle = x[mask].mean(axis=0)
            away, limit_here = np.abs(middle - middle.mean()), 3 * middle.std()
            slack = float((np.abs(away - limit_here) <= 1e-5 * limit_here).sum())
            yield Found("dimensions", view, place, float((away > limit_here).sum()), slack)
            yield Found("top3_cosine_share", view, place, _top3(x[mask]))


def _top3(x: Floats) -> float:
    norms = np.linalg.norm(x, axis=1)
    u = x[norms > 0] / norms[norms > 0, None]
    if len(u) < 2:
        return NONE
    parts = (u * (u.sum(axis=0) - u)).mean(axis=0) / (len(u) - 1)
    return float(np.sort(parts)[-3:].sum() / parts.sum()) if parts.sum() else NONE
