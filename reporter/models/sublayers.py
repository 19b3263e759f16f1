"""The place where a block normalises: measured by comparing what its norms read and return with what the block does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from reporter.models.blocks import Blocks, Call, PassedTensor, Slot, Trace, noise_of, relative, same

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
    entered, returned = blocks.passed[-2].flatten(), blocks.passed[-1].flatten()
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


def close(a: Tensor, b: Tensor) -> bool:
    """Tell whether two tensors of one shape are the same sum, taken in another order: equal up to a few roundings.

    The largest number of ``a`` and its precision say how large a rounding is.
    """
    tolerance = 16 * torch.finfo(a.dtype).eps * a.abs().max().item()
    return torch.allclose(a.float(), b.float(), rtol=0.0, atol=tolerance)


# Finds where a block adds what its attention found and what its feed-forward made, so that the state between both is
# known.
#
# With x what enters a block and y what it returns, the attention's part is the output a of a module inside the block
# that mixes tokens and for which one of these holds:
#
# - ``sequential``: x + k·a enters a later module of the block (its feed-forward, or the norm before that or after the
#   sum), with one factor k for all blocks: 1 in nearly all models;
# - ``parallel``: y = x + a + m with m the output of another module: the feed-forward reads x, too, and no tensor of the
#   model is x + a.
#
# The feed-forward is the module that returns m for which one of these holds, c being one factor for all blocks:
#
# - ``sequential``: y = (x + k·a) + c·m: the stream goes on as it is;
# - ``normed``: N(x + k·a) + c·m enters a later module that returns y, N a module that reads x + k·a: a post-norm block,
#   whose stream is normed before the feed-forward and after it;
# - ``parallel``: y = x + a + m.
#
# Names of modules decide nothing, except that all blocks must have the same one.


Placement = Literal["sequential", "normed", "parallel", "none"]

_ROUNDINGS = 0.1  # of what is added, that the roundings of a sum may make up
SMALLEST = 1e-3  # a factor below it adds nothing


@dataclass(frozen=True)
class Sublayer:
    """The point at which the attention, or the feed-forward, of each block adds to the residual stream.

    Args:
        placement: see above; ``none`` where it was not found.
        modules: of each block, the module that returns what it adds; empty where it was not found.
        slot: where among its results.
        factor: what the block multiplies it by.
        norms: of each block of the placement ``normed``, the module that makes the stream it is added to.
        problem: why it was not found; empty where it was.
    """

    placement: Placement
    modules: tuple[nn.Module, ...] = ()
    slot: Slot = 0
    factor: float = 1.0
    norms: tuple[nn.Module, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class _Part:
    """The output of a module inside a block, and the factor by which it is added.

    Args:
        name: of the module, inside the block.
        norm: the call that made the stream which it is added to, where that is normed.
        deviation: how well it explains the sum.
    """

    name: str
    slot: Slot
    placement: Placement
    factor: float
    call: Call
    norm: Call | None = None
    deviation: float = 0.0

    def like(self, other: _Part) -> bool:
        """Whether both stand in the same place of their blocks."""
        return (self.name, self.slot, self.placement) == (other.name, other.slot, other.placement)


@dataclass(frozen=True)
class BlockTrace:
    """One block as it ran: its call, what entered and what it returned, and the calls inside it."""

    call: Call
    entered: Tensor
    returned: Tensor
    inside: tuple[Call, ...]

    def name(self, call: Call) -> str:
        """Return the name of a call inside the block."""
        return call.name.removeprefix(f"{self.call.name}.")

    def made(self) -> Iterator[tuple[Call, PassedTensor]]:
        """Yield what modules of the block returned that has the size of a state; modules that ran once alone."""
        names = [call.name for call in self.inside]
        for call in self.inside:
            if names.count(call.name) == 1:
                yield from ((call, p) for p in call.outputs if p.tensor.numel() == self.entered.numel())


def blocks_with_copies(seen: Trace, blocks: Blocks) -> list[BlockTrace]:
    """Return the blocks of a traced pass in which what passed inside them was copied."""
    names = [call.name for call in blocks.calls]
    ordered = []
    for call in (call for call in seen.calls if call.name in names):
        entered = next(p.tensor for p in call.inputs if p.slot == blocks.input_slot)
        returned = next(p.tensor for p in call.outputs if p.slot == blocks.output_slot)
        ordered.append(BlockTrace(call, entered, returned, tuple(c for c in seen.calls if call.contains(c))))
    return ordered


def find_attention(ran: Sequence[BlockTrace], changed: Sequence[BlockTrace], blocks: Blocks) -> Sublayer:
    """Find the attention of every block.

    Args:
        ran: the blocks.
        changed: the same with another first token.
        blocks: all that the model has.
    """
    if not len(ran) == len(changed) == len(blocks.calls):
        return Sublayer("none", problem="the blocks that run depend on the text")
    return _in_every_block(
        [part for part in _attention_parts(ran[0]) if _mixes(part, ran[0], changed[0])],
        lambda number, first: _attention_parts(ran[number], first),
        len(ran),
        "no module in the first block mixes tokens and is added to the block's input",
    )


def find_feed_forward(ran: Sequence[BlockTrace], attention: Sublayer) -> Sublayer:
    """Find the feed-forward of every block."""
    if attention.problem:
        return Sublayer("none", problem=f"the contribution of attention is unknown: {attention.problem}")
    return _in_every_block(
        _feed_forward_parts(ran[0], attention, 0),
        lambda number, first: _feed_forward_parts(ran[number], attention, number, first),
        len(ran),
        "no module in the first block is added after attention",
    )


def _in_every_block(
    candidates: Iterable[_Part], parts_of: Callable[[int, _Part], Iterable[_Part]], blocks: int, problem: str
) -> Sublayer:
    """Return the first candidate of the first block that all others have in the same place."""
    first_name = ""
    for first in candidates:
        first_name = first_name or first.name
        alike = (next(filter(first.like, parts_of(number, first)), None) for number in range(1, blocks))
        parts = [first, *(part for part in alike if part is not None)]
        if len(parts) == blocks:
            norms = tuple(part.norm.module for part in parts if part.norm is not None)
            modules = tuple(part.call.module for part in parts)
            return Sublayer(first.placement, modules, first.slot, first.factor, norms)
    if first_name:
        problem = f"the first block adds the output of {first_name}, but other blocks do not"
    return Sublayer("none", problem=problem)


def _attention_parts(block: BlockTrace, like: _Part | None = None) -> list[_Part]:
    """Return the parts of a block that may be attention: the sequential ones first, then by how well they fit.

    Of parts that fit equally well, which are the same tensor passed on, the outermost comes first.

    """
    outputs = list(block.made())
    parts = []
    for call, passed in outputs:
        name, a = block.name(call), passed.tensor.flatten()
        if like is not None and name != like.name:
            continue
        if entering := _entering_later(call, a, block, like.factor if like else None):
            parts.append(_Part(name, passed.slot, "sequential", entering[0], call, None, entering[1]))
        beside = _parallel_deviation(call, a, block, outputs)
        if beside is not None:
            parts.append(_Part(name, passed.slot, "parallel", 1.0, call, None, beside))
    return sorted(parts, key=lambda part: (part.placement != "sequential", part.deviation))


def _entering_later(
    call: Call, a: Tensor, block: BlockTrace, factor: float | None = None
) -> tuple[float, float] | None:
    """Return the factor k for which x + k·a enters a module of the block that runs after the call, and how well.

    Where no factor is given, 1 is tried, and then the one that comes nearest.
    """
    x = block.entered.flatten()
    entering = []
    for later in block.inside:
        for passed in later.inputs if later.start > call.end else ():
            alike = passed.tensor.numel() == x.numel() and passed.tensor.dtype == x.dtype
            if alike and (fit := _factor(passed.tensor.flatten(), x, a, factor)):
                entering.append(fit)
    return min(entering, key=lambda each: each[1], default=None)


def _factor(total: Tensor, x: Tensor, a: Tensor, given: float | None) -> tuple[float, float] | None:
    """Return the k for which x + k·a is a sum, and how well: a given one, or 1, or the one that comes nearest."""
    for k in (1.0, nearest(total - x, a)) if given is None else (given,):
        deviation = deviation_of(total, x + k * a, k * a)
        if abs(k) > SMALLEST and deviation is not None:
            return k, deviation
    return None


def _parallel_deviation(
    call: Call, a: Tensor, block: BlockTrace, outputs: Sequence[tuple[Call, PassedTensor]]
) -> float | None:
    y = block.returned.flatten()
    beside = []
    for other, passed in outputs:
        if other.start > call.end or other.end < call.start:
            m = passed.tensor.flatten()
            deviation = deviation_of(y, block.entered.flatten().float() + m.float() + a.float(), a)
            if deviation is not None and _entering_later(other, m, block) is None:
                beside.append(deviation)
    return min(beside, default=None)


def deviation_of(total: Tensor, expected: Tensor, a: Tensor) -> float | None:
    """Return ‖sum − expected‖ / ‖a‖, or None where it is more than roundings: then it is another sum."""
    if not close(total, expected):
        return None
    if not a.any():
        return 0.0  # a part that was pruned to nothing is added as well as any
    deviation = ((total.float() - expected.float()).norm() / a.float().norm()).item()
    return deviation if deviation <= _ROUNDINGS else None  # of a small a, not of the large numbers it is added to


def nearest(difference: Tensor, a: Tensor) -> float:
    """Return the k with the smallest ‖difference − k·a‖."""
    difference, a = difference.cpu().double(), a.cpu().double()
    return (difference.dot(a) / a.dot(a)).nan_to_num(0.0).item()


def _mixes(part: _Part, block: BlockTrace, changed: BlockTrace) -> bool:
    x, y = block.entered, changed.entered
    before, after = (
        next(
            p.tensor for call in run.inside if call.name == part.call.name for p in call.outputs if p.slot == part.slot
        )
        for run in (block, changed)
    )
    moved = relative(after.reshape(x.shape), before.reshape(x.shape)) > noise_of(x)
    return bool(((relative(y, x) == 0) & moved).any())


def _feed_forward_parts(
    block: BlockTrace, attention: Sublayer, number: int, like: _Part | None = None
) -> Iterator[_Part]:
    """Yield the parts of a block that may be its feed-forward, of one tensor passed on the outermost first.

    Args:
        block: the block.
        attention: of the model.
        number: which block, from 0.
        like: a part of another block, for one of its name, place and factor alone.
    """
    factor = None if like is None else like.factor
    mixing = next(call for call in block.inside if call.module is attention.modules[number])
    x, y = block.entered.flatten(), block.returned.flatten()
    added = next(p.tensor for p in mixing.outputs if p.slot == attention.slot).flatten()
    after = x + (added if attention.factor == 1 else attention.factor * added)
    sums: list[tuple[Placement, Tensor, Tensor, Call | None]] = [("sequential", y, after, None)]
    if attention.placement != "parallel":
        sums += _normed(block, mixing, after)
    for call, passed in block.made():
        name, m = block.name(call), passed.tensor.flatten()
        if (like is not None and name != like.name) or call is mixing or mixing.contains(call):
            continue
        if attention.placement == "parallel":
            if deviation_of(y, after.float() + m.float(), m) is not None:
                yield _Part(name, passed.slot, "parallel", 1.0, call)
            continue
        for placement, total, stream, norm in sums if call.start > mixing.end else ():
            fits = (norm is None or norm.end <= call.start) and (like is None or like.placement == placement)
            if fits and total.dtype == m.dtype and (fit := _factor(total, stream, m, factor)):
                yield _Part(name, passed.slot, placement, fit[0], call, norm)
                break


def _normed(block: BlockTrace, mixing: Call, after: Tensor) -> Iterator[tuple[Placement, Tensor, Tensor, Call | None]]:
    """Yield what enters a later module that returns what the block does, beside what a module made of x + k·a."""
    y = block.returned
    closing = [
        entering.tensor.flatten()
        for call in block.inside
        if call.start > mixing.end and any(same(p.tensor, y) for p in call.outputs)
        for entering in call.inputs
        if entering.tensor.numel() == y.numel()
    ]
    for norm, passed in block.made():
        reads = (p.tensor.flatten() for p in norm.inputs if p.tensor.numel() == y.numel())
        if norm.start > mixing.end and any(close(tensor, after) for tensor in reads):
            yield from (("normed", total, passed.tensor.flatten(), norm) for total in closing)
