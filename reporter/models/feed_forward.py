"""Finds where a block adds what its feed-forward made, and to what.

With x what enters a block, k·a what its attention adds, y what it returns, the feed-forward is the module that returns
m for which one of these holds, c being one factor for all blocks (1 in nearly all models):

- ``sequential``: y = (x + k·a) + c·m: the stream goes on as it is;
- ``normed``: N(x + k·a) + c·m enters a later module that returns y, N a module that reads x + k·a: a post-norm block,
  whose stream is normed before the feed-forward and after it;
- ``parallel``: y = x + a + m.

Names of modules decide nothing, except that all blocks must have it in the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from reporter.models.attention import SMALLEST, Attention, Ran, deviation_of, made, nearest
from reporter.models.norms import close
from reporter.models.trace import Call, Slot, same

FeedForwardPlacement = Literal["sequential", "normed", "parallel", "none"]


@dataclass(frozen=True)
class FeedForward:
    """Where a feed-forward adds to the residual stream.

    Args:
        placement: see the module; ``none`` where it was not found.
        modules: of each block, the module that returns what it adds; empty where it was not found.
        slot: where among its results.
        factor: what the block multiplies it by.
        norms: of each block of the placement ``normed``, the module that makes the stream it is added to.
        problem: why it was not found; empty where it was.
    """

    placement: FeedForwardPlacement
    modules: tuple[nn.Module, ...] = ()
    slot: Slot = 0
    factor: float = 1.0
    norms: tuple[nn.Module, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class _Part:
    """A module inside a block that may be its feed-forward, and the norm whose output it is added to."""

    name: str
    slot: Slot
    placement: FeedForwardPlacement
    factor: float
    module: nn.Module
    norm: nn.Module | None


@dataclass(frozen=True)
class _Sum:
    """A tensor of a block that may be stream + c·m, that stream, and the call that made it where it is normed."""

    placement: FeedForwardPlacement
    sum: Tensor
    stream: Tensor
    norm: Call | None = None


def find_feed_forward(ran: Sequence[Ran], attention: Attention) -> FeedForward:
    """Find the feed-forward of every block.

    Args:
        ran: the blocks in a traced pass with copies of what passed inside them.
        attention: what was found of their attention.
    """
    if attention.problem:
        return FeedForward("none", problem=f"what attention adds is not known: {attention.problem}")
    first_named = ""
    for first in _parts(ran[0], attention, 0):
        first_named = first_named or first.name
        parts = [first]
        for number, block in enumerate(ran[1:], 1):
            parts += [part for part in _parts(block, attention, number, first) if part.slot == first.slot][:1]
        if len(parts) == len(ran):
            norms = tuple(part.norm for part in parts if part.norm is not None)
            return FeedForward(first.placement, tuple(part.module for part in parts), first.slot, first.factor, norms)
    if first_named:
        return FeedForward("none", problem=f"what {first_named} adds in its first block is not added in the others")
    return FeedForward("none", problem="no part of its first block is what the block adds after its attention")


def _parts(block: Ran, attention: Attention, number: int, like: _Part | None = None) -> Iterator[_Part]:
    """Yield the parts of a block that may be its feed-forward, of one tensor passed on the outermost first.

    Args:
        block: the block.
        attention: of the model.
        number: which block, from 0.
        like: a part of another block, for one of its name, place and factor alone.
    """
    mixing = next(call for call in block.inside if call.module is attention.modules[number])
    x, y = block.entered.flatten(), block.returned.flatten()
    added = next(p.tensor for p in mixing.outputs if p.slot == attention.slot).flatten()
    after = x + (added if attention.factor == 1 else attention.factor * added)
    sums: list[_Sum] = [_Sum("sequential", y, after)]
    if attention.placement != "parallel":
        sums += _normed(block, mixing, after)
    for call, passed in made(block):
        if (like is not None and block.name(call) != like.name) or call is mixing or mixing.contains(call):
            continue
        m = passed.tensor.flatten()
        if attention.placement == "parallel":
            if deviation_of(y, after.float() + m.float(), m) is not None:
                yield _Part(block.name(call), passed.slot, "parallel", 1.0, call.module, None)
        elif call.start > mixing.end:
            for one in sums:
                if (one.norm is not None and one.norm.end > call.start) or (like and like.placement != one.placement):
                    continue
                factor = _factor(one, m, None if like is None else like.factor)
                if factor is not None:
                    norm = None if one.norm is None else one.norm.module
                    yield _Part(block.name(call), passed.slot, one.placement, factor, call.module, norm)
                    break


def _normed(block: Ran, mixing: Call, after: Tensor) -> Iterator[_Sum]:
    """Yield what enters a later module that returns what the block does, beside what a module made of x + k·a."""
    y = block.returned
    closing = [
        entering.tensor.flatten()
        for call in block.inside
        if call.start > mixing.end and any(same(p.tensor, y) for p in call.outputs)
        for entering in call.inputs
        if entering.tensor.numel() == y.numel()
    ]
    for norm, passed in made(block):
        reads = (p.tensor.flatten() for p in norm.inputs if p.tensor.numel() == y.numel())
        if norm.start > mixing.end and any(close(one, after, like=one) for one in reads):
            for sum_ in closing:
                yield _Sum("normed", sum_, passed.tensor.flatten(), norm)


def _factor(one: _Sum, m: Tensor, given: float | None) -> float | None:
    """Return the c for which sum = stream + c·m, tried as 1 and then as the one that comes nearest; or None."""
    if one.sum.dtype != m.dtype:
        return None
    for c in (1.0, nearest(one.sum - one.stream, m)) if given is None else (given,):
        if abs(c) > SMALLEST and deviation_of(one.sum, one.stream + c * m, c * m) is not None:
            return c
    return None
