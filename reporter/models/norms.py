"""Where a block normalises: measured by comparing what its norms read and return with what the block does."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from reporter.models.blocks import Blocks
from reporter.models.trace import Call, Trace, same

NormPlacement = Literal["pre", "post", "sandwich", "inner", "none"]


def norm_placement(seen: Trace, blocks: Blocks) -> NormPlacement:
    """Return where the norms of the last block are. (A first block may lack one, as in ModernBERT.)

    With x what enters the block, y what it returns, and a norm N taking in(N) to out(N):

    - ``post``: y = out(N) for some norm, so the residual stream itself is normalised;
    - ``sandwich``: y = in(P) + out(N) with P another norm before N: a part reads the stream through a norm,
      and what it adds goes through a second one;
    - ``inner``: y − out(N) − out(P) = x: only what is added is normalised;
    - ``pre``: none of these, but there are norms; ``none``: there are none.

    Args:
        seen: the traced pass.
        blocks: its blocks.
    """
    block = blocks.calls[-1]
    entered, returned = blocks.states[-2].flatten(), blocks.states[-1].flatten()
    norms = [call for call in seen.calls if block.contains(call) and _is_norm(call, returned)]
    if not norms:
        return "none"
    if any(same(_out(norm), returned) for norm in norms):
        return "post"
    pairs = [(first, second) for second in norms for first in norms if first.start < second.start]
    if any(close(returned - _out(second), _in(first)) for first, second in pairs):
        return "sandwich"
    if any(close(returned - _out(second) - _out(first), entered) for first, second in pairs):
        return "inner"
    return "pre"


def _is_norm(call: Call, states: Tensor) -> bool:
    if "norm" not in type(call.module).__name__.lower() or not call.inputs or not call.outputs:
        return False
    return _in(call).numel() == _out(call).numel() == states.numel()


def _in(norm: Call) -> Tensor:
    return norm.inputs[0].tensor.flatten()  # some blocks put all tokens into one dimension


def _out(norm: Call) -> Tensor:
    return norm.outputs[0].tensor.flatten()


def close(a: Tensor, b: Tensor, like: Tensor | None = None) -> bool:
    """Tell whether two tensors are the same sum, taken in another order: equal up to a few roundings.

    Args:
        a: one.
        b: the other, of the same shape.
        like: numbers whose largest one and precision say how large a rounding is; by default ``a``.
    """
    like = a if like is None else like
    tolerance = 16 * torch.finfo(like.dtype).eps * like.abs().max().item()
    return torch.allclose(a.float(), b.float(), rtol=0.0, atol=tolerance)
