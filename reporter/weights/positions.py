"""Position vectors: each by itself, their cosines by offset, the path they take and where it changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from reporter.geometry.arrays import TINY, Floats, Ints, blocks
from reporter.geometry.components import Axes, principal_axes
from reporter.weights.change_points import ChangePoint, change_points
from reporter.weights.rows import PositionOffset

LEVEL = 0.01
"""A period is named where noise would look as periodic with at most this probability."""

SMALLEST_SHARE = 0.1
"""Nor is a period named that carries less than this share of the path's power."""

_TURNS = 4  # a path that goes round fewer times has no period to speak of
_DRAWS = 199
_FEWEST = 32  # positions


@dataclass(frozen=True)
class Period:
    """The period of the path.

    Args:
        positions: in one turn; None where there is none, and then ``reason`` says why.
        share: of the power of the detrended path that the strongest frequency and its two neighbours on either
            side carry. A helix whose pitch drifts has a small one.
        turns: how often the path goes round.
        p: the probability that noise whose power only falls with frequency has a hump as high; None where it was
            not computed.
        reason: empty where there is a period.
    """

    positions: float | None
    share: float | None
    turns: float | None
    p: float | None
    reason: str = ""


def period(path: Floats, seed: int) -> Period:
    """Return the dominant period of a path, by Fourier transformation.

    Each coordinate is clipped eight median absolute deviations from its median, as position 0 often lies apart;
    it loses its straight line, is tapered (Hann) and transformed; the powers of the coordinates are
    added. Smooth paths have most of their power at low frequencies without going round, so a period is a hump:
    the frequency, from four turns on, whose power is the largest multiple of the least power at lower ones. It is
    compared with noise of the same power spectrum made to fall (isotonic regression), and refined by a parabola
    through the logarithms of its power and its neighbours'.

    Args:
        path: coordinates of positions 0, 1, …, (P, k): principal components, in their own scale.
        seed: of the noise.
    """
    count = len(path)
    if count < _FEWEST:
        return Period(None, None, None, None, f"{count} positions are too few")
    x = detrended(_clipped(path))
    if not x.any():
        return Period(None, None, None, None, "the path is a straight line")
    power = powers(x).sum(axis=-1)
    scores = _humps(power)
    best = int(scores.argmax())
    p = float((1 + (_humps(_falling_noise(x, seed)).max(axis=-1) >= scores[best]).sum()) / (1 + _DRAWS))
    best += _TURNS
    share = float(power[max(1, best - 2) : best + 3].sum() / power[1:].sum())
    if p > LEVEL:
        return Period(None, share, None, p, "no frequency stands out")
    if share < SMALLEST_SHARE:
        return Period(None, share, None, p, f"the frequency that stands out carries {share:.1%} of the power")
    turns = _refined(power, best)
    return Period(count / turns, share, turns, p)


def detrended(path: Floats) -> Floats:
    """Return coordinates without their least-squares straight lines, (…, P, k)."""
    place = np.linspace(-1, 1, path.shape[-2])
    basis = np.linalg.qr(np.stack([np.ones_like(place), place], axis=1))[0]
    x: Floats = path - basis @ (basis.T @ path)
    return np.where(np.abs(x) > 1e-9 * np.abs(path).max(), x, 0)


def _clipped(path: Floats) -> Floats:
    middle = np.median(path, axis=0)
    reach = 8 * np.median(np.abs(path - middle), axis=0)
    return np.asarray(np.clip(path, middle - reach, middle + reach))


def powers(x: Floats) -> Floats:
    """Return the power of each coordinate at 0, 1, 2, … turns: (…, P, k) to (…, P // 2 + 1, k)."""
    taper = np.hanning(x.shape[-2] + 2)[1:-1, None]
    return np.asarray(np.abs(np.fft.rfft(x * taper, axis=-2)) ** 2)


def falling(power: Floats) -> Floats:
    """Return the falling sequence nearest to ``power`` (isotonic regression, pooling adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in power.tolist():
        total, size = value, 1
        while blocks and blocks[-1][0] / blocks[-1][1] < total / size:
            more, count = blocks.pop()
            total, size = total + more, size + count
        blocks.append((total, size))
    return np.concatenate([np.full(size, total / size) for total, size in blocks])


def _humps(power: Floats) -> Floats:
    """Return each frequency's power, from ``_TURNS`` on, over the least power at lower ones, three being averaged."""
    smooth = (power[..., :-2] + power[..., 1:-1] + power[..., 2:]) / 3  # of 1, 2, … turns
    least = np.minimum.accumulate(smooth, axis=-1)
    least = np.maximum(least, 1e-3 * power[..., 1:].mean(axis=-1, keepdims=True))  # a hump of next to nothing is none
    # What is 3 turns lower does not share the power of one frequency, which the taper spreads over its neighbours.
    return np.asarray(power[..., _TURNS:-1] / np.maximum(least[..., : power.shape[-1] - 1 - _TURNS], 1e-300))


def _falling_noise(x: Floats, seed: int) -> Floats:
    """Return the power of draws of noise whose power falls with frequency, (draws, P // 2 + 1)."""
    generator = np.random.default_rng(seed)
    total = np.zeros((_DRAWS, len(x) // 2 + 1))
    for column in powers(x).T:
        height = np.sqrt(np.concatenate([[0], falling(column[1:])]))
        waves = generator.standard_normal((2, _DRAWS, len(height)))
        noise = np.fft.irfft((waves[0] + 1j * waves[1]) * height, n=len(x), axis=-1)
        # Of that noise, processed like the path.
        drawn = powers(detrended(noise[..., None]))[..., 0]
        total += drawn * (column.sum() / max(drawn.mean(axis=0).sum(), 1e-300))
    return total


def _refined(power: Floats, best: int) -> float:
    """Return the top of the parabola through the logarithms of three powers."""
    a, b, c = np.log(np.maximum(power[best - 1 : best + 2], 1e-300))
    bend = a - 2 * b + c
    return float(best + (np.clip((a - c) / (2 * bend), -0.5, 0.5) if bend < 0 else 0))


MOST_CELLS = 128
"""Rows and columns of the picture of cosines."""

_TOGETHER = 2048  # rows whose cosines with all others are held at a time


@dataclass(frozen=True)
class Positions:
    """The position vectors of a model, column by column.

    Args:
        position: 0 … P − 1, (P,).
        norm: ‖p_i‖.
        step: ‖p_i − p_{i−1}‖; NaN for the first.
        mean_cosine: cosine to the mean position vector.
        mean_distance: distance to it.
        pc: coordinates on the principal components of the position vectors, (P, 3).
    """

    position: Ints
    norm: Floats
    step: Floats
    mean_cosine: Floats
    mean_distance: Floats
    pc: Floats


@dataclass(frozen=True)
class Heat:
    """A picture of the cosines of any two positions.

    Args:
        positions: which ones it shows: all, or 128 spread evenly, the first and the last among them, (m,).
        cosines: of each two of them, (m, m); NaN for zero vectors.
    """

    positions: Ints
    cosines: Floats


@dataclass(frozen=True)
class PositionReport:
    """What is known of the position vectors.

    Args:
        table: each of them.
        axes: their principal components; None where all are equal.
        heat: cosines of any two, thinned for display.
        offsets: cosines by offset 1 … P − 1, exactly.
        period: of the path in the first three components.
        changes: where their character changes.
    """

    table: Positions
    axes: Axes | None
    heat: Heat
    offsets: tuple[PositionOffset, ...]
    period: Period
    changes: tuple[ChangePoint, ...]


def describe(table: Tensor, seed: int) -> PositionReport:
    """Describe position vectors.

    Args:
        table: (P, d); a copy in float64 is made.
        seed: of the noise that a period and changes are compared with.
    """
    x = np.concatenate([block.cpu().numpy() for _, block in blocks(table)])
    axes = principal_axes([table])
    pc = axes.coordinates(table) if axes else np.zeros((len(x), 3))
    norm, mean = np.linalg.norm(x, axis=1), x.mean(axis=0)
    unit = np.divide(x, norm[:, None], out=np.full_like(x, np.nan), where=norm[:, None] > TINY)
    size = float(np.linalg.norm(mean))
    columns = Positions(
        np.arange(len(x)),
        norm,
        np.concatenate([[np.nan], np.linalg.norm(np.diff(x, axis=0), axis=1)]),
        unit @ mean / size if size > TINY else np.full(len(x), np.nan),
        np.linalg.norm(x - mean, axis=1),
        pc,
    )
    found = period(pc, seed) if axes else Period(None, None, None, None, "all position vectors are equal")
    return PositionReport(columns, axes, heat(unit), tuple(by_offset(unit)), found, tuple(change_points(x, seed)))


def heat(unit: Floats) -> Heat:
    """Return the picture of cosines of unit vectors (P, d)."""
    shown = np.unique(np.rint(np.linspace(0, len(unit) - 1, min(len(unit), MOST_CELLS))).astype(np.int64))
    return Heat(shown, np.clip(unit[shown] @ unit[shown].T, -1, 1))


def by_offset(unit: Floats) -> list[PositionOffset]:
    """Return mean and standard deviation (1/n) of the cosines at each offset, over all pairs of rows without NaN.

    Args:
        unit: unit vectors (P, d); rows of zero vectors are NaN.
    """
    count = len(unit)
    there = np.asarray(~np.isnan(unit).any(axis=1))
    known = np.where(there[:, None], unit, 0)
    n, total, squares = np.zeros(count), np.zeros(count), np.zeros(count)
    for start in range(0, count, _TOGETHER):
        cosines = known[start : start + _TOGETHER] @ known[start:].T
        for i, row in enumerate(cosines):
            if there[start + i]:
                more = count - start - i
                n[:more] += there[start + i :]
                total[:more] += row[i:]
                squares[:more] += row[i:] ** 2
    seen = [offset for offset in range(1, count) if n[offset]]
    means = {offset: total[offset] / n[offset] for offset in seen}
    return [
        PositionOffset(
            offset,
            float(np.clip(means[offset], -1, 1)),
            float(np.sqrt(max(0.0, squares[offset] / n[offset] - means[offset] ** 2))),
            int(n[offset]),
        )
        for offset in seen
    ]
