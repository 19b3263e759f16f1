"""Finds a model's blocks by following the data, not by a table of names.

Blocks are elements of a list of modules that are called one after the other, each on what the one before
returned: ``layers.0``, ``layers.1``, … in most models, or one shared module again and again (ALBERT). Inside
a block there may be such chains, too (a list of feed-forward networks), and so the chain that agrees with the
model's own hidden states is taken, and of several the outermost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from reporter.core.errors import ReporterError

# Watches one forward pass: which modules were called in which order, and which tensors went in and came out.


Slot = int | str
"""Where a tensor is: position among the arguments (or in an output tuple), or name of a keyword argument."""


@dataclass(frozen=True)
class PassedTensor:
    """A tensor that went into a module or came out of it.

    Args:
        slot: its place among the arguments or outputs.
        tensor: its numbers at that moment.
        original: the tensor itself; the same one as ``tensor`` where no copy was made.
        version: how often the original had been changed in place by then.
    """

    slot: Slot
    tensor: Tensor
    original: Tensor
    version: int

    @property
    def changed_later(self) -> bool:
        """Whether somebody wrote into the tensor after it was passed."""
        return self.original._version != self.version


@dataclass
class Call:
    """One call of one module.

    Args:
        name: path of the module inside the model.
        module: the module.
        start: when it began, in events of the trace.
        end: when it returned.
        inputs: floating-point tensors among its arguments.
        outputs: floating-point tensors among its results.
    """

    name: str
    module: nn.Module
    start: int
    end: int = -1
    inputs: list[PassedTensor] = field(default_factory=list)
    outputs: list[PassedTensor] = field(default_factory=list)

    def contains(self, other: Call) -> bool:
        """Whether the other call happened during this one."""
        return self.start < other.start and other.end < self.end


@dataclass(frozen=True)
class Trace:
    """A forward pass: its calls in the order in which they began, and what the model returned."""

    calls: tuple[Call, ...]
    result: Any


def trace(model: nn.Module, inputs: Mapping[str, Any], copied: Callable[[str, Tensor], bool] | None = None) -> Trace:
    """Run a model once on small inputs and record every call of every module inside it.

    Args:
        copied: tells by the name of a module which of its tensors are copied; those that may be a block's if left out.
    """
    calls: list[Call] = []
    running: list[Call] = []
    clock = count(1)

    def passed(name: str, items: Iterable[tuple[Slot, Any]]) -> list[PassedTensor]:
        tensors = [(slot, x) for slot, x in items if isinstance(x, Tensor) and x.is_floating_point()]
        copies = copied or (lambda name, tensor: name.rpartition(".")[2].isdecimal())
        return [PassedTensor(slot, x.clone() if copies(name, x) else x, x, x._version) for slot, x in tensors]

    def began(name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        call = Call(name, module, next(clock))
        call.inputs = [*passed(name, enumerate(args)), *passed(name, kwargs.items())]
        calls.append(call)
        running.append(call)

    def returned(name: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        call = running.pop()
        call.end = next(clock)
        call.outputs = passed(name, enumerate(output if isinstance(output, (tuple, list)) else (output,)))

    with ExitStack() as hooks, torch.no_grad():
        for name, module in model.named_modules():
            if name:  # the model itself is not a part of itself
                before = module.register_forward_pre_hook(partial(began, name), with_kwargs=True)
                after = module.register_forward_hook(partial(returned, name))
                hooks.callback(before.remove)
                hooks.callback(after.remove)
        result = model(**inputs)
    return Trace(tuple(call for call in calls if call.end >= 0), result)


def same(a: Tensor, b: Tensor) -> bool:
    """Tell whether two tensors hold the same numbers in the same order, whatever their shapes."""
    if a is b:
        return True
    if a.numel() != b.numel() or a.dtype != b.dtype or a.device != b.device:
        return False
    return torch.equal(a.reshape(-1), b.reshape(-1))


TOLERANCE = 1e-5  # relative deviation of a captured state from the model's own; both are the same tensor as a rule
_INFLUENCE = 1e-5  # relative change of a state that is more than float32 noise


@dataclass(frozen=True)
class Blocks:
    """The blocks of a model, as they ran.

    Args:
        calls: their calls in order; L of them.
        input_slot: where a block takes the states.
        output_slot: where among its results it returns them.
        states: what entered each block and what the last one returned: L + 1 tensors (texts, length, width).
        deviation: the largest relative deviation of ``states[:-1]`` from the model's own hidden states.
        overwritten: whether the model writes into these tensors after they were passed on.
        shifted: whether the model's own hidden states begin with what the first block returned, and end with the
            closed state: then it is ``states[1:]`` that they are compared with.
    """

    calls: tuple[Call, ...]
    input_slot: Slot
    output_slot: Slot
    states: tuple[Tensor, ...]
    deviation: float
    overwritten: bool
    shifted: bool = False

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """The module of each call; the same one several times where blocks share their weights."""
        return tuple(call.module for call in self.calls)


def find_blocks(seen: Trace, shape: tuple[int, int]) -> Blocks:
    """Find the blocks in a traced forward pass.

    Args:
        seen: a pass with ``output_hidden_states=True``.
        shape: texts and tokens of its input.
    """
    published = getattr(seen.result, "hidden_states", None)
    if not published or not all(isinstance(h, Tensor) for h in published):
        raise ReporterError(
            "the model returns no hidden_states, so its blocks cannot be found; reporter cannot measure it"
        )
    families: dict[str, list[Call]] = {}
    for call in seen.calls:
        if call.name.rpartition(".")[2].isdecimal():
            families.setdefault(re.sub(r"\d+", "*", call.name), []).append(call)
    chains = {name: chain for name, calls in families.items() if (chain := _chain(calls, seen, shape, published))}
    fitting = [c for c in chains.values() if len(c.calls) == len(published) - 1 and c.deviation <= TOLERANCE]
    if not fitting:
        raise ReporterError(_nothing_fits(chains, len(published)))
    return min(fitting, key=lambda chain: chain.calls[0].start)


def _chain(calls: list[Call], seen: Trace, shape: tuple[int, int], reported: Sequence[Tensor]) -> Blocks | None:
    """Return the calls as a chain, or None where one does not pass states on to the next."""
    if any(b.start < a.end for a, b in pairwise(calls)):
        return None  # one inside the other
    entering: list[PassedTensor] = []
    for made, taking in pairwise(calls):
        link = _link(made, taking, seen, shape)
        if link is None:
            return None
        entering.append(link)
    returned = next((p for p in calls[-1].outputs if _is_state(p.tensor, shape)), None)
    if returned is None:
        return None
    fitting = [p for p in calls[0].inputs if _is_state(p.tensor, shape) and p.tensor.shape == returned.tensor.shape]
    first = next((p for p in fitting if not entering or p.slot == entering[0].slot), None)
    if first is None or any(p.slot != first.slot for p in entering):
        return None
    passed = [first, *entering, returned]
    states = tuple(p.tensor for p in passed)
    if len({state.shape for state in states}) != 1:
        return None
    before, after = (
        max((_deviation(x, h) for x, h in zip(inputs, reported, strict=False)), default=0.0)
        for inputs in (states[:-1], states[1:])
    )
    shifted = after <= TOLERANCE < before
    overwritten = any(p.changed_later for p in passed)
    deviation = after if shifted else before
    return Blocks(tuple(calls), first.slot, returned.slot, states, deviation, overwritten, shifted)


def _link(before: Call, after: Call, seen: Trace, shape: tuple[int, int]) -> PassedTensor | None:
    made = [p.tensor for p in before.outputs if _is_state(p.tensor, shape)]
    sources = [made]
    for between in seen.calls:  # DeBERTa has a convolution there
        inside = before.end < between.start and between.end < after.start
        if inside and any(same(p.tensor, x) for p in between.inputs for x in made):
            sources.append([p.tensor for p in between.outputs])
    states = [taken for taken in after.inputs if _is_state(taken.tensor, shape)]
    return next((t for source in sources for t in states if any(same(t.tensor, x) for x in source)), None)


def _is_state(x: Tensor, shape: tuple[int, int]) -> bool:
    return x.dim() == 3 and tuple(x.shape[:2]) == shape


def _deviation(x: Tensor, reported: Tensor) -> float:
    return relative(x, reported).max().item() if x.shape == reported.shape else torch.inf


def relative(x: Tensor, reference: Tensor) -> Tensor:
    """Return ‖x − reference‖ / ‖reference‖ for each token: (texts, length, width) to (texts, length), in float32."""
    size: Tensor = reference.float().norm(dim=-1).clamp_min(torch.finfo(torch.float32).tiny)
    difference: Tensor = (x.float() - reference.float()).norm(dim=-1)
    return difference / size


def noise_of(x: Tensor) -> float:
    """Return the largest relative change that counts as rounding of a state."""
    return _INFLUENCE if x.dtype == torch.float32 else float(torch.finfo(x.dtype).eps)


def _nothing_fits(chains: dict[str, Blocks], count: int) -> str:
    if not chains:
        return (
            f"no blocks found: the model returns {count} hidden states, but has no list of modules that pass states "
            "on; reporter cannot measure it"
        )
    name, chain = max(chains.items(), key=lambda item: len(item[1].calls))
    reason = f"no blocks found: the {len(chain.calls)} modules {name} look like blocks"
    if len(chain.calls) != count - 1:
        return f"{reason}, but the model returns {count} hidden states instead of {len(chain.calls) + 1}"
    return f"{reason}, but their states differ from the model's hidden states by up to {chain.deviation:.1e} (relative)"
