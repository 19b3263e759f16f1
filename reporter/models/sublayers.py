"""Where a block normalises: measured by comparing what its norms read and return with what the block does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from reporter.models.blocks import Blocks, Call, Passed, Slot, Trace, noise_of, relative, same

NormPlacement = Literal["pre", "post", "sandwich", "inner", "none"]


def norm_placement(seen: Trace, blocks: Blocks) -> NormPlacement:
    """Return where the norms of the last block are. (A first block may lack one, as in ModernBERT.)

    With x what enters the block, y what it returns, and a norm N taking in(N) to out(N):

    - ``post``: y = out(N) for some norm, so the residual stream itself is normalised;
    - ``sandwich``: y = in(P) + out(N) with P another norm before N: a part reads the stream through a norm,
      and what it adds goes through a second one;
    - ``inner``: y − out(N) − out(P) = x: only what is added is normalised;
    - ``pre``: none of these, but there are norms; ``none``: there are none.

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


# Finds where a block adds what its attention found, so that the state between attention and feed-forward is known.
#
# With x what enters a block and y what it returns, the attention's part is the output a of a module inside the block
# that mixes tokens and for which one of these holds:
#
# - ``sequential``: x + k·a enters a later module of the block (its feed-forward, or the norm before that or after the
# sum), with one factor k for all blocks: 1 in nearly all models; - ``parallel``: y = x + a + m with m the output of
# another module: the feed-forward reads x, too, and no tensor of the model is x + a.
#
# Names of modules decide nothing, except that all blocks must have it in the same place.


AttentionPlacement = Literal["sequential", "parallel", "none"]

_ROUNDINGS = 0.1  # of what is added, that the roundings of a sum may make up
SMALLEST = 1e-3  # a factor below it adds nothing


@dataclass(frozen=True)
class Attention:
    """Where attention adds to the residual stream.

    Args:
        placement: see the module; ``none`` where it was not found.
        modules: of each block, the module that returns what attention adds; empty where it was not found.
        slot: where among its results.
        factor: what the block multiplies it by.
        problem: why it was not found; empty where it was.
    """

    placement: AttentionPlacement
    modules: tuple[nn.Module, ...] = ()
    slot: Slot = 0
    factor: float = 1.0
    problem: str = ""


@dataclass(frozen=True)
class _Part:
    """What a module inside a block returned, by what factor it is added, and how well that explains the sum."""

    name: str  # inside the block
    slot: Slot
    placement: AttentionPlacement
    factor: float
    deviation: float
    call: Call
    added: Tensor


@dataclass(frozen=True)
class Ran:
    """One block as it ran: its call, what entered and what it returned, and the calls inside it."""

    call: Call
    entered: Tensor
    returned: Tensor
    inside: tuple[Call, ...]

    def name(self, call: Call) -> str:
        """Return the name of a call inside the block."""
        return call.name.removeprefix(f"{self.call.name}.")


def find_attention(ran: Sequence[Ran], changed: Sequence[Ran], blocks: Blocks) -> Attention:
    """Find the attention of every block."""
    if not len(ran) == len(changed) == len(blocks.calls):
        return Attention("none", problem="which blocks run depends on the text")
    candidates = [part for part in _parts(ran[0]) if _mixes(part, ran[0], changed[0])]
    for first in candidates:
        parts = [first, *(part for block in ran[1:] for part in [_same_part(first, block)] if part is not None)]
        if len(parts) == len(ran):
            modules = tuple(part.call.module for part in parts)
            return Attention(first.placement, modules, first.slot, first.factor)
    if not candidates:
        return Attention("none", problem="no part of its first block mixes tokens and is added to what enters it")
    return Attention("none", problem=f"what {candidates[0].name} adds in its first block is not added in the others")


def as_they_ran(seen: Trace, blocks: Blocks) -> list[Ran]:
    """Return the blocks of a traced pass in which what passed inside them was copied."""
    names = [call.name for call in blocks.calls]
    calls = [call for call in seen.calls if call.name in names]
    ordered = []
    for call in calls:
        entered = next(p.tensor for p in call.inputs if p.slot == blocks.input_slot)
        returned = next(p.tensor for p in call.outputs if p.slot == blocks.output_slot)
        ordered.append(Ran(call, entered, returned, tuple(c for c in seen.calls if call.contains(c))))
    return ordered


def _same_part(like: _Part, block: Ran) -> _Part | None:
    return next((p for p in _parts(block, like) if (p.slot, p.placement) == (like.slot, like.placement)), None)


def _parts(block: Ran, like: _Part | None = None) -> list[_Part]:
    """Return the parts of a block that may be attention: the sequential ones first, then by how well they fit.

    Of parts that fit equally well, which are the same tensor passed on, the outermost comes first.

    """
    outputs = list(made(block))
    parts = []
    for call, passed in outputs:
        if like is not None and block.name(call) != like.name:
            continue
        entering = _entering_later(call, passed.tensor.flatten(), block, like.factor if like else None)
        if entering is not None:
            parts.append(_Part(block.name(call), passed.slot, "sequential", *entering, call, passed.tensor))
        beside = _beside(call, passed.tensor.flatten(), block, outputs)
        if beside is not None:
            parts.append(_Part(block.name(call), passed.slot, "parallel", 1.0, beside, call, passed.tensor))
    return sorted(parts, key=lambda part: (part.placement != "sequential", part.deviation))


def made(block: Ran) -> Iterator[tuple[Call, Passed]]:
    """Give what modules of a block returned that has the size of a state; modules that ran once alone."""
    names = [call.name for call in block.inside]
    for call in block.inside:
        if names.count(call.name) == 1:
            for passed in call.outputs:
                if passed.tensor.numel() == block.entered.numel():
                    yield call, passed


def _entering_later(call: Call, a: Tensor, block: Ran, factor: float | None = None) -> tuple[float, float] | None:
    """Return the factor k for which x + k·a enters a module of the block that runs after the call, and how well.

    Where no factor is given, 1 is tried, and then the one that comes nearest.
    """
    x = block.entered.flatten()
    entering = []
    for later in block.inside:
        for passed in later.inputs if later.start > call.end else ():
            if passed.tensor.numel() != x.numel() or passed.tensor.dtype != x.dtype:
                continue
            sum_ = passed.tensor.flatten()
            for k in (1.0, nearest(sum_ - x, a)) if factor is None else (factor,):
                deviation = deviation_of(sum_, x + k * a, k * a)
                if abs(k) > SMALLEST and deviation is not None:
                    entering.append((k, deviation))
                    break
    return min(entering, key=lambda each: each[1], default=None)


def _beside(call: Call, a: Tensor, block: Ran, outputs: Sequence[tuple[Call, Passed]]) -> float | None:
    y = block.returned.flatten()
    beside = []
    for other, passed in outputs:
        if other.start > call.end or other.end < call.start:
            m = passed.tensor.flatten()
            deviation = deviation_of(y, block.entered.flatten().float() + m.float() + a.float(), a)
            if deviation is not None and _entering_later(other, m, block) is None:
                beside.append(deviation)
    return min(beside, default=None)


def deviation_of(sum_: Tensor, expected: Tensor, a: Tensor) -> float | None:
    """Return ‖sum − expected‖ / ‖a‖, or None where it is more than roundings: then it is another sum."""
    if not close(sum_, expected, like=sum_):
        return None
    if not a.any():
        return 0.0  # a part that was pruned to nothing is added as well as any
    deviation = ((sum_.float() - expected.float()).norm() / a.float().norm()).item()
    return deviation if deviation <= _ROUNDINGS else None  # of a small a, not of the large numbers it is added to


def nearest(difference: Tensor, a: Tensor) -> float:
    """Return the k with the smallest ‖difference − k·a‖."""
    difference, a = difference.cpu().double(), a.cpu().double()
    return (difference.dot(a) / a.dot(a)).nan_to_num(0.0).item()


def _mixes(part: _Part, block: Ran, changed: Ran) -> bool:
    other = next(call for call in changed.inside if call.name == part.call.name)
    output = next(p.tensor for p in other.outputs if p.slot == part.slot)
    x, y = block.entered, changed.entered
    still = relative(y, x) == 0
    moved = relative(output.reshape(x.shape), part.added.reshape(x.shape)) > noise_of(x)
    return bool((still & moved).any())


# Finds where a block adds what its feed-forward made, and to what.
#
# With x what enters a block, k·a what its attention adds, y what it returns, the feed-forward is the module that
# returns m for which one of these holds, c being one factor for all blocks (1 in nearly all models):
#
# - ``sequential``: y = (x + k·a) + c·m: the stream goes on as it is; - ``normed``: N(x + k·a) + c·m enters a later
# module that returns y, N a module that reads x + k·a: a post-norm block, whose stream is normed before the feed-
# forward and after it; - ``parallel``: y = x + a + m.
#
# Names of modules decide nothing, except that all blocks must have it in the same place.


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
class _Part_feed_forward:
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
    """Find the feed-forward of every block."""
    if attention.problem:
        return FeedForward("none", problem=f"what attention adds is not known: {attention.problem}")
    first_named = ""
    for first in _parts_feed_forward(ran[0], attention, 0):
        first_named = first_named or first.name
        parts = [first]
        for number, block in enumerate(ran[1:], 1):
            parts += [part for part in _parts_feed_forward(block, attention, number, first) if part.slot == first.slot][
                :1
            ]
        if len(parts) == len(ran):
            norms = tuple(part.norm for part in parts if part.norm is not None)
            return FeedForward(first.placement, tuple(part.module for part in parts), first.slot, first.factor, norms)
    if first_named:
        return FeedForward("none", problem=f"what {first_named} adds in its first block is not added in the others")
    return FeedForward("none", problem="no part of its first block is what the block adds after its attention")


def _parts_feed_forward(
    block: Ran, attention: Attention, number: int, like: _Part_feed_forward | None = None
) -> Iterator[_Part_feed_forward]:
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
                yield _Part_feed_forward(block.name(call), passed.slot, "parallel", 1.0, call.module, None)
        elif call.start > mixing.end:
            for addition in sums:
                if (addition.norm is not None and addition.norm.end > call.start) or (
                    like and like.placement != addition.placement
                ):
                    continue
                factor = _factor(addition, m, None if like is None else like.factor)
                if factor is not None:
                    norm = None if addition.norm is None else addition.norm.module
                    yield _Part_feed_forward(
                        block.name(call), passed.slot, addition.placement, factor, call.module, norm
                    )
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
        if norm.start > mixing.end and any(close(tensor, after, like=tensor) for tensor in reads):
            for sum_ in closing:
                yield _Sum("normed", sum_, passed.tensor.flatten(), norm)


def _factor(one: _Sum, m: Tensor, given: float | None) -> float | None:
    if one.sum.dtype != m.dtype:
        return None
    for c in (1.0, nearest(one.sum - one.stream, m)) if given is None else (given,):
        if abs(c) > SMALLEST and deviation_of(one.sum, one.stream + c * m, c * m) is not None:
            return c
    return None
