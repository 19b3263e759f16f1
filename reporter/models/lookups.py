"""Which rows of which tables a model looks up while it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class Lookup:
    """One lookup in a table.

    Args:
        table: (rows, width).
        rows: which rows, any shape.
        embedded: whether the table was looked up as one of embeddings, and not indexed as any tensor can be.
    """

    table: Tensor
    rows: Tensor
    embedded: bool

    def by(self, ids: Tensor) -> bool:
        """Tell whether the rows are these ids."""
        return self.rows.numel() == ids.numel() and torch.equal(self.rows.reshape(-1), ids.reshape(-1))

    def consecutive(self, length: int) -> bool:
        """Tell whether each token looks up the row after that of the token before it."""
        return self.rows.numel() == length and bool((self.rows.reshape(-1).diff() == 1).all())

    def constant(self, length: int) -> bool:
        """Tell whether all tokens look up the same row."""
        return self.rows.numel() == length and bool((self.rows.reshape(-1).diff() == 0).all())


class Lookups(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every embedding, and every indexing along the first axis, in the order of ``seen``."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[Lookup] = []

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        aten = torch.ops.aten
        embedded, rows = func is aten.embedding.default, None
        if embedded:
            rows = args[1]
        elif func is aten.index_select.default and args[1] == 0:
            rows = args[2]
        elif func is aten.index.Tensor:  # table[rows] or table[rows, :]
            rows = args[1][0] if args[1] and all(i is None for i in args[1][1:]) else None
        if isinstance(rows, Tensor) and args[0].dim() == 2 and args[0].is_floating_point():
            self.seen.append(Lookup(args[0].detach(), rows.detach().clone(), embedded))
        return func(*args, **(kwargs or {}))
