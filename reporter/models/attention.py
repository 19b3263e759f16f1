"""Finds where a block adds what its attention found, so that the state between attention and feed-forward is known.

With x what enters a block and y what it returns, the attention's part is the output a of a module inside the block
that mixes tokens and for which one of these holds:

- ``sequential``: x + k·a enters a later module of the block (its feed-forward, or the norm before that or after the
  sum), with one factor k for all blocks: 1 in nearly all models;
- ``parallel``: y = x + a + m with m the output of another module: the feed-forward reads x, too, and no tensor of the
  model is x + a.

Names of modules decide nothing, except that all blocks must have it in the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from reporter.models.blocks import Blocks, noise_of, relative
from reporter.models.norms import close
from reporter.models.trace import Call, Passed, Slot, Trace

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
    """Find the attention of every block.

    Args:
        ran: the blocks in a traced pass with copies of what passed inside them.
        changed: the same where the first token of each text is another one.
        blocks: the model's blocks.
    """
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
    found = []
    for call in calls:
        entered = next(p.tensor for p in call.inputs if p.slot == blocks.input_slot)
        returned = next(p.tensor for p in call.outputs if p.slot == blocks.output_slot)
        found.append(Ran(call, entered, returned, tuple(c for c in seen.calls if call.contains(c))))
    return found


def _same_part(like: _Part, block: Ran) -> _Part | None:
    """Return the part in the same place of another block, if it is added there in the same way."""
    return next((p for p in _parts(block, like) if (p.slot, p.placement) == (like.slot, like.placement)), None)


def _parts(block: Ran, like: _Part | None = None) -> list[_Part]:
    """Return the parts of a block that may be attention: the sequential ones first, then by how well they fit.

    Of parts that fit equally well, which are the same tensor passed on, the outermost comes first.

    Args:
        block: the block.
        like: a part of another block, for those of its name and factor alone.
    """
    outputs = list(made(block))
    found = []
    for call, passed in outputs:
        if like is not None and block.name(call) != like.name:
            continue
        entering = _entering_later(call, passed.tensor.flatten(), block, like.factor if like else None)
        if entering is not None:
            found.append(_Part(block.name(call), passed.slot, "sequential", *entering, call, passed.tensor))
        beside = _beside(call, passed.tensor.flatten(), block, outputs)
        if beside is not None:
            found.append(_Part(block.name(call), passed.slot, "parallel", 1.0, beside, call, passed.tensor))
    return sorted(found, key=lambda part: (part.placement != "sequential", part.deviation))


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
    found = []
    for later in block.inside:
        for passed in later.inputs if later.start > call.end else ():
            if passed.tensor.numel() != x.numel() or passed.tensor.dtype != x.dtype:
                continue
            sum_ = passed.tensor.flatten()
            for k in (1.0, nearest(sum_ - x, a)) if factor is None else (factor,):
                deviation = deviation_of(sum_, x + k * a, k * a)
                if abs(k) > SMALLEST and deviation is not None:
                    found.append((k, deviation))
                    break
    return min(found, key=lambda each: each[1], default=None)


def _beside(call: Call, a: Tensor, block: Ran, outputs: Sequence[tuple[Call, Passed]]) -> float | None:
    """Return how well y = x + a + m for the output m of another part, one that is not added before a is computed."""
    y = block.returned.flatten()
    found = []
    for other, passed in outputs:
        if other.start > call.end or other.end < call.start:
            m = passed.tensor.flatten()
            deviation = deviation_of(y, block.entered.flatten().float() + m.float() + a.float(), a)
            if deviation is not None and _entering_later(other, m, block) is None:
                found.append(deviation)
    return min(found, default=None)


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
    """Tell whether the part changes at tokens whose own state did not, when another token of their text changes."""
    other = next(call for call in changed.inside if call.name == part.call.name)
    there = next(p.tensor for p in other.outputs if p.slot == part.slot)
    x, y = block.entered, changed.entered
    still = relative(y, x) == 0
    moved = relative(there.reshape(x.shape), part.added.reshape(x.shape)) > noise_of(x)
    return bool((still & moved).any())
