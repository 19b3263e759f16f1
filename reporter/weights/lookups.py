"""Watches which rows of which tables a model looks up, and whether it computes sines, while it reads a few tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from reporter.models.load import LoadedModel

_LONGEST = 12  # tokens of the text that is tried


@dataclass(frozen=True)
class Lookup:
    """One lookup in a table.

    Args:
        table: (rows, width).
        rows: which rows, any shape.
    """

    table: Tensor
    rows: Tensor

    def by(self, ids: Tensor) -> bool:
        """Tell whether the rows are these ids."""
        return self.rows.numel() == ids.numel() and torch.equal(self.rows.reshape(-1), ids.reshape(-1))

    def consecutive(self, length: int) -> bool:
        """Tell whether each token looks up the row after that of the token before it."""
        return self.rows.numel() == length and bool((self.rows.reshape(-1).diff() == 1).all())

    def constant(self, length: int) -> bool:
        """Tell whether all tokens look up the same row."""
        return self.rows.numel() == length and bool((self.rows.reshape(-1).diff() == 0).all())

    def of_pairs(self, length: int) -> bool:
        """Tell whether there is one row for each two tokens."""
        return self.rows.numel() == length**2


@dataclass
class Watched:
    """What was seen during one pass over one text.

    Args:
        ids: the text (1, length).
        states: what enters the first block and what each block returns, each (1, length, width).
        lookups: in their order.
        sines: whether sines or cosines were computed.
    """

    ids: Tensor
    states: list[Tensor] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)
    sines: bool = False


def watch(model: LoadedModel, special: Sequence[int]) -> Watched:
    """Run the model on one short text of ordinary tokens and return what was seen.

    Args:
        model: any model.
        special: ids to avoid, as a model may treat them differently (RoBERTa gives padding no position).
    """
    config: Any = model.module.config
    avoided = {*special, *(getattr(config, f"{name}_token_id", None) for name in ("pad", "bos", "eos"))}
    length = max(3, min(_LONGEST, model.anatomy.max_tokens or _LONGEST))
    ordinary = [i for i in range(min(model.anatomy.vocabulary_size, 50 * length)) if i not in avoided]
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(len(ordinary), (1, length), generator=generator)
    # Two tokens that differ, so that swapping them is a change, and ids that are not consecutive.
    ids = torch.tensor(ordinary)[places]
    ids[0, :2] = torch.tensor([ordinary[-1], ordinary[0]])
    seen = Watched(ids.to(model.device))
    with torch.inference_mode(False), torch.no_grad(), _Recorder(seen):
        seen.states = model.states(seen.ids, torch.ones_like(seen.ids))
    return seen


def order_matters(model: LoadedModel, seen: Watched) -> bool:
    """Tell whether the last token's state after block 1 changes when the first two tokens change places.

    Attention over keys without positions is a sum in which the order does not count.
    """
    swapped = seen.ids.clone()
    swapped[0, :2] = seen.ids[0, :2].flip(0)
    with torch.inference_mode(False), torch.no_grad():
        other = model.states(swapped, torch.ones_like(swapped))
    before, after = seen.states[1][0, -1].float(), other[1][0, -1].float()
    noise = 1e-6 if seen.states[1].dtype == torch.float32 else float(torch.finfo(seen.states[1].dtype).eps)
    return bool((before - after).norm() > noise * before.norm())


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records embedding, indexing along the first axis, and sines."""

    def __init__(self, seen: Watched) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = seen

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        aten = torch.ops.aten
        rows: Any = None
        if func is aten.embedding.default:
            rows = args[1]
        elif func is aten.index_select.default and args[1] == 0:
            rows = args[2]
        elif func is aten.index.Tensor:  # table[rows] or table[rows, :]
            rows = args[1][0] if args[1] and all(i is None for i in args[1][1:]) else None
        elif func in (aten.sin.default, aten.cos.default):
            self._seen.sines = True
        if isinstance(rows, Tensor) and args[0].dim() == 2 and args[0].is_floating_point():
            self._seen.lookups.append(Lookup(args[0].detach(), rows.detach().clone()))
        return func(*args, **(kwargs or {}))
