"""The compact forms in which a finished pass is kept: states in 16 bits, symmetric matrices as one triangle.

Metrics read the numbers that come back out of these forms, in a fresh run as in one from the cache, so their rounding
is part of what a sample is. Unfinished work and merging go on in full precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

FIRST = 32  # rows whose median is taken off: a larger sample begins with the same ones, so it rounds them the same way
_TOP = 15  # the largest value of a row lies in [2^14, 2^15): float16 reaches 65504, and is full down to 2^-14
_STEEPEST = 110  # 2^110 is a float32: rows whose largest is below 2^-95 lose digits


@dataclass(frozen=True, eq=False)
class RoundedStates:
    """States x as float16 of (x − m)·2^−e: m of 11 significant bits is common to the rows, e is the row's own.

    m is the median of each coordinate: a mean would lie far from all states where a few of them are sinks. The error of
    a coordinate is at most 2^-11 of |x − m|, for coordinates down to 2^-28 of the row's largest. A state of zeros comes
    back as zeros (−m fits the form), equal states as equal ones, what is not finite as it was.

    Args:
        values: float16, shape (n, d).
        middle: m, float32, shape (d,).
        exponents: int16, shape (n,).
    """

    values: torch.Tensor
    middle: torch.Tensor
    exponents: torch.Tensor

    @classmethod
    def of(cls, states: torch.Tensor) -> RoundedStates:
        """Round states, shape (n, d); the first ``FIRST`` rows say what is taken off all."""
        first = states[:FIRST].float()
        middle = first.nanmedian(dim=0, keepdim=True).values if len(first) else first.new_zeros(1, first.shape[1])
        middle = _floats(*_halves(middle.where(middle.isfinite(), 0.0)))[0]
        values, exponents = _halves(states.float() - middle)
        return cls(values, middle, exponents)

    @staticmethod
    def bytes(rows: int, width: int) -> int:
        """Return what so many states take."""
        return 2 * rows * (width + 1) + 4 * width

    @classmethod
    def read(cls, tensors: dict[str, torch.Tensor], at: str) -> RoundedStates:
        """Return what ``named`` put among some tensors."""
        return cls(tensors[f"states/{at}"], tensors[f"middle/{at}"], tensors[f"exponents/{at}"])

    def named(self, at: str) -> dict[str, torch.Tensor]:
        """Return ``states/AT``, ``middle/AT`` and ``exponents/AT``."""
        return {f"states/{at}": self.values, f"middle/{at}": self.middle, f"exponents/{at}": self.exponents}

    def rows(self, which: torch.Tensor, device: torch.device | str = "cpu") -> torch.Tensor:
        """Return some of the states, float32 on a device, shape (len(which), d)."""
        values, exponents = (x.index_select(0, which).to(device) for x in (self.values, self.exponents))
        return _floats(values, exponents).add_(self.middle.to(device))


def _halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float16 of x·2^−e and e of each row, the largest finite value of which comes to lie under 2^15."""
    top = x.abs().nan_to_num_(0.0, 0.0).amax(dim=1) if x.numel() else x.new_zeros(len(x))
    exponents = (torch.frexp(top).exponent - _TOP).clamp(min=-_STEEPEST)
    return (x * _powers(-exponents)).half(), exponents.short()


def _floats(values: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    return values.float().mul_(_powers(exponents))


def _powers(exponents: torch.Tensor) -> torch.Tensor:
    """Return 2^e as a column, float32, put together from its bits: library functions may be off by one."""
    return ((exponents.int() + 127) << 23)[:, None].view(torch.float32)


def triangle_of(matrix: torch.Tensor) -> torch.Tensor:
    """Return the upper triangle of a symmetric matrix, its diagonal included, row after row."""
    rows, columns = torch.triu_indices(*matrix.shape)
    return matrix[rows, columns]


def matrix_of(triangle: torch.Tensor, width: int) -> torch.Tensor:
    """Return the symmetric matrix of an upper triangle, shape (width, width)."""
    rows, columns = torch.triu_indices(width, width)
    matrix = triangle.new_empty(width, width)
    matrix[rows, columns] = triangle
    matrix[columns, rows] = triangle
    return matrix


def correlations_of(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a positive semidefinite G as the roots s of its diagonal, float64, and float32 of G_ij / (s_i·s_j)."""
    scale = matrix.diagonal().double().clamp(min=0).sqrt()
    inverse = torch.where(scale > 0, 1 / scale, 0.0)
    return scale, triangle_of(matrix.double() * inverse * inverse[:, None]).float()


def from_correlations(scale: torch.Tensor, triangle: torch.Tensor) -> torch.Tensor:
    """Return the matrix of which ``correlations_of`` made the two, its diagonal exact to rounding, float64."""
    matrix = matrix_of(triangle.double(), len(scale))
    matrix.fill_diagonal_(1.0)
    return matrix * (scale * scale[:, None])
