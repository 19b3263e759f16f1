"""Position vectors: their cosines, and the period of the helix that they lie on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from reporter.core.table import Row
from reporter.geometry.arrays import TINY, Floats, blocks
from reporter.geometry.components import principal_axes
from reporter.metrics import vocabulary as tables
from reporter.metrics._items import number_or_null

LEVEL = 0.01
"""A period is named where noise would look as periodic with at most this probability."""

SMALLEST_SHARE = 0.1
"""Nor is a period named that carries less than this share of the path's power."""

_TURNS = 4  # a path that goes round fewer times has no period to speak of
_DRAWS = 199
_FEWEST = 32  # positions


def period(path: Floats, seed: int) -> tuple[dict[str, float], str]:
    """Return facts about the dominant period of a path, by Fourier transformation, and why it has none or "".

    ``period``: positions in one turn. ``period share``: of the power of the detrended path, what the strongest
    frequency and its two neighbours on either side carry; a helix whose pitch drifts has a small one. ``period turns``:
    how often the path goes round. ``period p``: the probability that noise whose power only falls with frequency has a
    hump as high.

    Each coordinate is clipped eight median absolute deviations from its median, as position 0 often lies apart;
    it loses its straight line, is tapered (Hann) and transformed; the powers of the coordinates are
    added. Smooth paths have most of their power at low frequencies without going round, so a period is a hump:
    the frequency, from four turns on, whose power is the largest multiple of the least power at lower ones. It is
    compared with noise of the same power spectrum made to fall (isotonic regression), and refined by a parabola
    through the logarithms of its power and its neighbours'.
    """
    count = len(path)
    if count < _FEWEST:
        return {}, f"{count} positions are too few"
    middle = np.median(path, axis=0)
    reach = 8 * np.median(np.abs(path - middle), axis=0)
    x = detrended(np.clip(path, middle - reach, middle + reach))
    if not x.any():
        return {}, "the path is a straight line"
    power = powers(x).sum(axis=-1)
    scores = _humps(power)
    best = int(scores.argmax())
    p = float((1 + (_humps(_falling_noise(x, seed)).max(axis=-1) >= scores[best]).sum()) / (1 + _DRAWS))
    best += _TURNS
    share = float(power[max(1, best - 2) : best + 3].sum() / power[1:].sum())
    facts = {"period share": share, "period p": p}
    if p > LEVEL:
        return facts, "no significant frequency"
    if share < SMALLEST_SHARE:
        return facts, f"the significant frequency has only {share:.1%} of the power"
    turns = _refined(power, best)
    return {"period": count / turns, "period turns": turns, **facts}, ""


def detrended(path: Floats) -> Floats:
    """Return coordinates without their least-squares straight lines, (…, P, k)."""
    place = np.linspace(-1, 1, path.shape[-2])
    basis = np.linalg.qr(np.stack([np.ones_like(place), place], axis=1))[0]
    x: Floats = path - basis @ (basis.T @ path)
    return np.where(np.abs(x) > 1e-9 * np.abs(path).max(), x, 0)


def powers(x: Floats) -> Floats:
    """Return the power of each coordinate at 0, 1, 2, … turns: (…, P, k) to (…, P // 2 + 1, k)."""
    taper = np.hanning(x.shape[-2] + 2)[1:-1, None]
    return np.asarray(np.abs(np.fft.rfft(x * taper, axis=-2)) ** 2)


def _humps(power: Floats) -> Floats:
    smooth = (power[..., :-2] + power[..., 1:-1] + power[..., 2:]) / 3  # of 1, 2, … turns
    least = np.minimum.accumulate(smooth, axis=-1)
    least = np.maximum(least, 1e-3 * power[..., 1:].mean(axis=-1, keepdims=True))  # a hump of next to nothing is none
    # What is 3 turns lower does not share the power of one frequency, which the taper spreads over its neighbours.
    return np.asarray(power[..., _TURNS:-1] / np.maximum(least[..., : power.shape[-1] - 1 - _TURNS], 1e-300))


def _falling_noise(x: Floats, seed: int) -> Floats:
    from sklearn.isotonic import isotonic_regression

    generator = np.random.default_rng(seed)
    total = np.zeros((_DRAWS, len(x) // 2 + 1))
    for of_coordinate in powers(x).T:
        falling = isotonic_regression(of_coordinate[1:], increasing=False)
        height = np.sqrt(np.concatenate([[0], falling]))
        waves = generator.standard_normal((2, _DRAWS, len(height)))
        noise = np.fft.irfft((waves[0] + 1j * waves[1]) * height, n=len(x), axis=-1)
        # Of that noise, processed like the path.
        drawn = powers(detrended(noise[..., None]))[..., 0]
        total += drawn * (of_coordinate.sum() / max(drawn.mean(axis=0).sum(), 1e-300))
    return total


def _refined(power: Floats, best: int) -> float:
    a, b, c = np.log(np.maximum(power[best - 1 : best + 2], 1e-300))
    bend = a - 2 * b + c
    return float(best + (np.clip((a - c) / (2 * bend), -0.5, 0.5) if bend < 0 else 0))


MOST_CELLS = 96
"""Rows and columns of the picture of cosines."""

_TOGETHER = 2048  # rows whose cosines with all others are held at a time


def positions(table: Tensor, seed: int) -> Iterator[Row]:
    """Yield each position vector, cosines of any two and by offset, and the period of the path of all, (P, d)."""
    x = np.concatenate([block.cpu().numpy() for _, block in blocks(table)])
    axes = principal_axes([table])
    pc = axes.coordinates(table) if axes else np.zeros((len(x), 3))
    norm, mean = np.linalg.norm(x, axis=1), x.mean(axis=0)
    unit = np.divide(x, norm[:, None], out=np.full_like(x, np.nan), where=norm[:, None] > TINY)
    size = float(np.linalg.norm(mean))
    steps = np.concatenate([[np.nan], np.linalg.norm(np.diff(x, axis=0), axis=1)])
    cosines = unit @ mean / size if size > TINY else np.full(len(x), np.nan)
    distances = np.linalg.norm(x - mean, axis=1)
    for row in range(len(x)):
        numbers = float(norm[row]), number_or_null(steps[row]), number_or_null(cosines[row]), float(distances[row])
        yield tables.PositionVector(row, *numbers, *map(number_or_null, pc[row]))
    yield from heat(unit)
    yield from by_offset(unit)
    facts, reason = period(pc, seed) if axes else ({}, "all position vectors are equal")
    remark = reason or "positions per cycle of the path, in the first three principal components"
    yield tables.VocabularyFact("period", facts.pop("period", None), remark)
    yield from (tables.VocabularyFact(name, number_or_null(value), None) for name, value in facts.items())


def heat(unit: Floats) -> Iterator[tables.PositionCosine]:
    """Yield the cosines of the first 96 unit vectors, (P, d), without gaps: gaps would show false periods.

    A zero vector has none (NULL).
    """
    for a, row in enumerate(np.clip(unit[:MOST_CELLS] @ unit[:MOST_CELLS].T, -1, 1)):
        for b, cosine in enumerate(row):
            yield tables.PositionCosine(a, b, number_or_null(cosine))


def by_offset(unit: Floats) -> list[tables.PositionOffset]:
    """Return mean and standard deviation (1/n) of the cosines at each offset, over all pairs of rows without NaN."""
    count = len(unit)
    nonzero = np.asarray(~np.isnan(unit).any(axis=1))
    vectors = np.where(nonzero[:, None], unit, 0)
    n, total, squares = np.zeros(count), np.zeros(count), np.zeros(count)
    for start in range(0, count, _TOGETHER):
        cosines = vectors[start : start + _TOGETHER] @ vectors[start:].T
        for i, row in enumerate(cosines):
            if nonzero[start + i]:
                more = count - start - i
                n[:more] += nonzero[start + i :]
                total[:more] += row[i:]
                squares[:more] += row[i:] ** 2
    offsets = [offset for offset in range(1, count) if n[offset]]
    means = {offset: total[offset] / n[offset] for offset in offsets}
    return [
        tables.PositionOffset(
            offset,
            float(np.clip(means[offset], -1, 1)),
            float(np.sqrt(max(0.0, squares[offset] / n[offset] - means[offset] ** 2))),
            int(n[offset]),
        )
        for offset in offsets
    ]
