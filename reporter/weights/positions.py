"""Position vectors: each by itself, their cosines by offset, the path they take and where it changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from reporter.geometry.arrays import TINY, Floats, Ints, blocks
from reporter.geometry.components import Axes, principal_axes
from reporter.weights.change_points import ChangePoint, change_points
from reporter.weights.position_path import Period, period
from reporter.weights.rows import PositionOffset

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
