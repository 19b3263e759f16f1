"""A table of vectors, read block by block: norms, means, and rows that are equal."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reporter.errors import ReporterError
from reporter.geometry.arrays import BLOCK, TINY, Floats, Ints, blocks


def norms(table: Tensor) -> Floats:
    """Return the Euclidean norm of each row, in float64.

    Raises:
        ReporterError: if a row is not finite.
    """
    found = _joined([block.norm(dim=1) for _, block in blocks(table)])
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        raise ReporterError(f"{len(bad)} of its vectors are not finite, the first in row {bad[0]}")
    return found


def mean(table: Tensor, keep: NDArray[np.bool_]) -> Floats:
    """Return the mean of the rows to keep, (d,), in float64.

    Args:
        table: (rows, d).
        keep: which rows count, (rows,).
    """
    total = np.zeros(table.shape[1])
    for start, block in blocks(table):
        chosen = torch.from_numpy(keep[start : start + len(block)]).to(block.device)
        total += block[chosen].sum(dim=0).cpu().numpy()
    return total / max(1, int(keep.sum()))


def to_point(table: Tensor, point: Floats) -> tuple[Floats, Floats]:
    """Return each row's cosine to a point and its distance from it, in float64; cosines of zero rows are NaN."""
    cosines, distances = [], []
    for _, block in blocks(table):
        p = torch.from_numpy(point).to(block.device)
        size = block.norm(dim=1) * p.norm()
        cosine = torch.where(size > TINY * p.norm(), block @ p / size, torch.nan)
        cosines.append(cosine)
        distances.append((block - p).norm(dim=1))
    return _joined(cosines), _joined(distances)


@dataclass(frozen=True)
class Repeats:
    """Rows that are equal to the last bit, as rows are that were never trained.

    Args:
        first: for each row the first row equal to it, (rows,).
        rows: how many rows have an equal one.
        groups: how many groups they form.
        largest: the rows of the largest group, at most ten of them.
        largest_size: how many rows that group has.
    """

    first: Ints
    rows: int
    groups: int
    largest: tuple[int, ...]
    largest_size: int


def repeats(table: Tensor) -> Repeats:
    """Find the rows that are exactly equal, by a hash of 128 bits of each."""
    seen: dict[bytes, int] = {}
    first = np.empty(len(table), dtype=np.int64)
    for start in range(0, len(table), BLOCK):
        block = table[start : start + BLOCK].detach().float().cpu().numpy() + np.float32(0)  # −0 becomes 0
        for i, row in enumerate(block):
            digest = hashlib.blake2b(row.tobytes(), digest_size=16).digest()
            first[start + i] = seen.setdefault(digest, start + i)
    values, counts = np.unique(first, return_counts=True)
    largest = values[counts.argmax()] if len(values) and counts.max() > 1 else -1
    members = np.flatnonzero(first == largest)
    return Repeats(
        first,
        int(counts[counts > 1].sum()),
        int((counts > 1).sum()),
        tuple(members[:10].tolist()),
        len(members),
    )


def _joined(parts: list[Tensor]) -> Floats:
    return np.concatenate([part.cpu().numpy() for part in parts]) if parts else np.zeros(0)
