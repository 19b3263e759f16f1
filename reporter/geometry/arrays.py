"""Arrays as this room takes them: NumPy's or torch's, in any precision, on any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reporter.core.arrays import as_array, obstacle
from reporter.core.errors import UsageError
from reporter.study.problems import show

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


_EXACT = ("none", "ieee")


def products_are_exact() -> bool:
    """Return whether products of float32 numbers on a processor round as float32, whoever asks.

    Where they do not, :func:`exact_products` changes the precision for the whole process: what another thread computes
    meanwhile would depend on the moment.
    """
    import torch

    backends: Any = torch.backends
    return backends.mkldnn.matmul.fp32_precision in _EXACT


@contextmanager
def exact_products() -> Iterator[None]:
    """Let products of float32 numbers round as float32 inside the block, whatever precision the caller's program set.

    ``torch.set_float32_matmul_precision("high")``, which many training scripts call, rounds the factors on a GPU to 11
    bits. A model may run so; sums over states and the margins of searches may not.
    """
    import torch

    backends: Any = torch.backends
    products = backends.cuda.matmul, backends.mkldnn.matmul
    before = [backend.fp32_precision for backend in products]
    for backend, precision in zip(products, before, strict=True):
        if precision not in _EXACT:
            backend.fp32_precision = "ieee"
    try:
        yield
    finally:
        for backend, precision in zip(products, before, strict=True):
            if backend.fp32_precision != precision:
                backend.fp32_precision = precision


def blocks(table: Tensor, size: int = BLOCK) -> Iterator[tuple[int, Tensor]]:
    """Yield the first row of each block, and the block in float64, (rows ≤ size, d)."""
    for start in range(0, len(table), size):
        yield start, wide(table[start : start + size])


# --- What a caller gives: checked arrays of any size, and checked options ---


class ArgumentError(UsageError, ValueError):
    """What a caller of the geometry gave has no such number; the text says which argument, why, and what to do."""


def states(x: Any, fewest: int = 2, what: str = "x") -> Tensor:
    """Return states as a float64 tensor on their device, (n, d).

    Args:
        x: states, one to a row, (n, d).
        fewest: rows that are needed.
        what: name of the argument.

    Raises:
        ArgumentError: if they are no matrix of finite real numbers with enough rows and at least one column.
    """
    tensor = _tensor(x, what)
    if tensor.ndim != 2 or not tensor.shape[1]:
        raise ArgumentError(
            f"{what} must be a matrix (n, d) with one state per row, got the shape {tuple(tensor.shape)}"
        )
    if len(tensor) < fewest:
        raise ArgumentError(f"{what} needs at least {fewest} rows, got {len(tensor)}")
    tensor = wide(tensor)
    bad = (~tensor.isfinite().all(dim=1)).nonzero()[:, 0]
    if len(bad):
        raise ArgumentError(f"{len(bad)} rows of {what} are not finite, first row {int(bad[0])}; remove them")
    return tensor


def _tensor(x: Any, what: str) -> Tensor:
    import torch

    if isinstance(x, torch.Tensor):
        if problem := obstacle(x):
            raise ArgumentError(f"{what} {problem}")
        if x.layout != torch.strided:
            raise ArgumentError(f"{what} is a sparse tensor; pass x.to_dense()")
        if x.is_complex():
            raise ArgumentError(f"{what} must hold real numbers, got {x.dtype}")
        return x.detach().as_subclass(torch.Tensor).resolve_neg()
    array = as_array(x, what, ArgumentError)
    if array.dtype.kind not in "fiub":
        kind = f"{type(x).__name__} of {array.dtype}" if hasattr(x, "dtype") or array.ndim else type(x).__name__
        raise ArgumentError(f"{what} must hold real numbers in a NumPy array or a torch tensor, got {kind}")
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite, and is refused as such
        return torch.from_numpy(np.array(array, dtype=np.float64, order="C"))


_SAFE = 40
"""Numbers from 2^−40 to 2^40 have squares whose sums float32 can hold; others are scaled."""


def scaled(x: Tensor, by_row: bool = False) -> tuple[Tensor, int]:
    """Return x divided by a power of two, which changes no digit, and its exponent: squares then fit in float32.

    Within the safe range x is returned as it is.

    Args:
        x: finite, in float64, (n, d).
        by_row: whether each row is scaled by itself; the exponent is then 0.
    """
    import torch

    largest = x.abs().amax(dim=1, keepdim=True) if by_row else x.abs().amax().reshape(1, 1)
    exponents = np.frexp(largest.cpu().numpy())[1]
    exponents[np.abs(exponents) <= _SAFE] = 0
    if not exponents.any():
        return x, 0
    half = exponents // 2  # 2^1074 itself has no float64 value
    for part in (half, exponents - half):
        x = x * torch.from_numpy(np.ldexp(1.0, -part)).to(x.device)
    return x, 0 if by_row else int(exponents[0, 0])


def unscaled(values: Floats, exponent: int, what: str) -> Floats:
    """Return numbers multiplied by a power of two.

    Raises:
        ArgumentError: if one is too large for float64.
    """
    with np.errstate(over="ignore", under="ignore"):
        larger = np.ldexp(values, exponent) if exponent else values
    if not np.isfinite(larger).all():
        raise ArgumentError(f"{what} of x are too large for float64; divide x by a constant")
    return larger


def all_equal(x: Tensor, what: str = "x") -> ArgumentError:
    """Return the error that states do not differ by more than rounding: either not at all, or by too little."""
    if bool((x == x[0]).all()):
        return ArgumentError(f"all states of {what} are equal in float64")
    return ArgumentError(
        f"the states of {what} are almost equal: they differ by less than 1e-6 of their size, which may be rounding; "
        f"subtract the mean of {what} first if it is not"
    )


def whole(value: Any, name: str, least: int = 1) -> int:
    """Return an option that must be a whole number; NumPy's count, but not True or 3.0.

    Raises:
        ArgumentError: for anything else, or less than ``least``.
    """
    if _is_number(value, Integral) and value >= least:
        return min(int(value), _MOST)
    raise ArgumentError(f"{name} must be a whole number of at least {least}, got {_shown(value)}")


def share(value: Any, name: str, most: float) -> float:
    """Return an option that must be a number from 0 to ``most``.

    Raises:
        ArgumentError: for anything else.
    """
    if _is_number(value, Real) and 0 <= value <= most:
        return float(value)
    raise ArgumentError(f"{name} must be a share from 0 to {most:g}, got {_shown(value)}")


def chosen(value: Any, name: str, choices: Sequence[Any]) -> Any:
    """Return the one of some texts or whole numbers that an option is equal to.

    Raises:
        ArgumentError: if it is none of them.
    """
    if (isinstance(value, str) or _is_number(value, Integral)) and value in choices:
        return choices[list(choices).index(value)]
    raise ArgumentError(f"{name} must be one of {', '.join(map(str, choices))}, got {_shown(value)}")


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


_MOST = 2**62  # more rows than any array has, so that one more is still an index


def _shown(value: Any) -> str:
    return show(value.item() if isinstance(value, np.generic) else value).removeprefix("the number ")
