"""What a caller gives: as NumPy's array, or why it is none; and NumPy's numbers as Python's."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.core.errors import UsageError, first_line, with_type

if TYPE_CHECKING:
    from numpy.typing import NDArray


def obstacle(x: Any) -> str:
    """Return why the numbers of an array cannot be read as they are, and the remedy; empty where they can.

    NumPy and torch would drop a mask, and fail in their own words on the others.
    """
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")  # who has not imported it has none of its arrays
    if numpy is not None:
        parts = x if isinstance(x, list | tuple) else (x,)
        if any(isinstance(part, numpy.ma.MaskedArray) and numpy.ma.is_masked(part) for part in parts):
            return "has masked values; remove their rows, or fill them"
    if type(x).__module__.startswith("scipy.sparse"):
        return "is a sparse matrix; pass x.toarray()"
    if torch is None or not isinstance(x, torch.Tensor):
        return ""
    if x.is_nested:
        return "is a nested tensor; pass a matrix"
    if type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:  # numbers that are not in the tensor itself
        return f"is a {type(x).__name__}; pass a plain tensor"
    if x.is_meta:
        return "is a meta tensor, which has no numbers; pass a tensor with numbers"
    return "is a quantized tensor; pass x.dequantize()" if x.is_quantized else ""


def as_array(x: Any, what: str, refused: type[UsageError] = UsageError) -> NDArray[Any]:
    """Return an array, or what can be made one, as NumPy's.

    Args:
        x: of a tensor, one on the processor and without gradients.
        what: the array in words, for the error.
        refused: the type of the error.

    Raises:
        UsageError: if it is no array, or its numbers cannot be read as they are.
    """
    import numpy as np

    if problem := obstacle(x):
        raise refused(f"{what} {problem}")
    try:
        with warnings.catch_warnings():  # of the object's own conversion
            warnings.simplefilter("ignore")
            return np.asarray(x)
    except MemoryError:
        raise
    except Exception as error:  # any class can define its conversion
        raise refused(f"{what} is not an array ({with_type(error)}); pass a NumPy array or a torch tensor") from None


def as_json(data: Any, what: str, indent: int | None = None) -> str:
    """Return data of a caller as JSON, in which NumPy's numbers and arrays are Python's, and paths are text.

    Args:
        data: text, numbers, lists and mappings.
        what: the data in words, for the error.
        indent: spaces by which each level is indented; None: one line.

    Raises:
        UsageError: if it holds anything else, or itself.
    """
    try:
        return json.dumps(data, ensure_ascii=False, indent=indent, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what} may hold only text, numbers, lists and mappings: {first_line(error)}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        plain = value.tolist()
        if not isinstance(plain, type(value)):  # as a long double stays what it is
            return plain
    raise TypeError(f"not {type(value).__name__}")
