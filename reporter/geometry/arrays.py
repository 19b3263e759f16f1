"""Arrays as this room takes them: NumPy's or torch's, in any precision, on any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

TINY = 1e-18
"""A norm up to it is zero: its square has no float32 value."""

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

BLOCK = 4096  # rows that are converted at a time


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def wide(x: Tensor) -> Tensor:
    """Return float64 numbers, on the processor where the accelerator has none (Apple's)."""
    return x.cpu().double() if x.device.type == "mps" else x.double()


def blocks(table: Tensor, size: int = BLOCK) -> Iterator[tuple[int, Tensor]]:
    """Yield the first row of each block, and the block in float64, (rows ≤ size, d)."""
    for start in range(0, len(table), size):
        yield start, wide(table[start : start + size])


def states(x: Tensor | NDArray[np.floating], fewest: int = 2, what: str = "x") -> Tensor:
    """Return states as a float64 tensor on their device, (n, d).

    Args:
        x: states, one to a row, (n, d).

    Raises:
        ValueError: if they are no matrix of finite real numbers with enough rows and at least one column.
    """
    import torch

    if isinstance(x, torch.Tensor):
        tensor = x.detach()
    else:
        array = np.asarray(x)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{what} must hold real numbers, got {array.dtype}")
        tensor = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float64))
    if tensor.ndim != 2 or not tensor.shape[1]:
        raise ValueError(f"{what} must be a matrix (n, d) with one state per row, got the shape {tuple(tensor.shape)}")
    if tensor.is_complex():
        raise ValueError(f"{what} must hold real numbers, got {tensor.dtype}")
    if len(tensor) < fewest:
        raise ValueError(f"{what} needs at least {fewest} rows, got {len(tensor)}")
    tensor = wide(tensor)
    bad = (~tensor.isfinite().all(dim=1)).nonzero()[:, 0]
    if len(bad):
        raise ValueError(f"{len(bad)} rows of {what} are not finite, first row {int(bad[0])}; remove them")
    return tensor
