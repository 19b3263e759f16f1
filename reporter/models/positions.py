"""How long an input a table of position vectors allows, read off the rows that a few tokens look up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


class _Lookups(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every lookup in an embedding table."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[tuple[Tensor, Tensor]] = []

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten.embedding.default:
            self.seen.append((args[0], args[1]))
        return func(*args, **(kwargs or {}))


def measured_limit(model: nn.Module, inputs: Mapping[str, Any], vocabulary: Tensor) -> int | None:
    """Return how many tokens fit into the model's table of positions, or None where it has no such table.

    A table of positions is one in which the tokens of a text look up consecutive rows. The rows before the
    first token's are never used: RoBERTa's table has 514 rows, and its first token looks up row 2.

    Args:
        model: the model.
        inputs: its arguments, for texts without padding.
        vocabulary: the token embedding, which is no such table.
    """
    lookups = _Lookups()
    with torch.no_grad(), lookups:
        model(**inputs)
    length = inputs["input_ids"].shape[1]
    limits = [
        table.shape[0] - int(rows.flatten()[0])
        for table, rows in lookups.seen
        if table.shape[0] >= length and table is not vocabulary and _consecutive(rows, length)
    ]
    return min(limits, default=None)


def _consecutive(rows: Tensor, length: int) -> bool:
    if rows.dim() == 0 or rows.shape[-1] != length or length < 2:
        return False
    return bool((rows.diff(dim=-1) == 1).all())
