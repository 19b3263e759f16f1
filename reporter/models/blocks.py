"""Finds a model's blocks by following the data, not by a table of names.

Blocks are elements of a list of modules that are called one after the other, each on what the one before
returned: ``layers.0``, ``layers.1``, … in most models, or one shared module again and again (ALBERT). Inside
a block there may be such chains, too (a list of feed-forward networks), and so the chain that agrees with the
model's own hidden states is taken, and of several the outermost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
class Stream:
    """How blocks pass states on, where that is not (texts, length, width).

    Args:
        swapped: whether the tokens are the first axis and the texts the second, as in XLNet.
        first: the place of a text's first token; before it are prompts of the model's own, as in CPM-Ant. Behind the
            last there may be padding, to a multiple of a window, as in Longformer.
    """

    swapped: bool = False
    first: int = 0

    def read(self, x: Tensor, length: int) -> Tensor:
        """Return what is passed on as (texts, length, …)."""
        x = x.transpose(0, 1) if self.swapped else x
        return x if x.shape[1] == length else x[:, self.first : self.first + length]


@dataclass(frozen=True)
class Blocks:
    """The blocks of a model, as they ran.

    Args:
        calls: their calls in order; L of them, none where the states are the model's own ``hidden_states``.
        input_slot: where a block takes the states.
        output_slot: where among its results it returns them.
        states: what entered each block and what the last one returned: L + 1 tensors (texts, length, width).
        deviation: the largest relative deviation of ``states[:-1]`` from the model's own hidden states.
        overwritten: whether the model writes into these tensors after they were passed on.
        shifted: whether the model's own hidden states begin with what the first block returned, and end with the
            closed state: then it is ``states[1:]`` that they are compared with.
        passed: the same tensors as the model has them.
        stream: how to read these.
    """

    calls: tuple[Call, ...]
    input_slot: Slot
    output_slot: Slot
    states: tuple[Tensor, ...]
    deviation: float
    overwritten: bool
    shifted: bool
    passed: tuple[Tensor, ...]
    stream: Stream

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """The module of each call; the same one several times where blocks share their weights."""
        return tuple(call.module for call in self.calls)

    def same(self, a: Tensor, b: Tensor) -> bool:
        """Tell whether two tensors hold the same states, each as it is or as blocks pass them on."""
        length, shape = self.states[0].shape[1], self.passed[0].shape[:2]
        a, b = (self.stream.read(x, length) if x.shape[:2] == shape else x for x in (a, b))
        return same(a, b)


def find_blocks(seen: Trace, shape: tuple[int, int]) -> Blocks:
    """Find the blocks in a traced forward pass.

    Where no modules pass states on, the model's own hidden states are taken, if the last of them is what it returns.

    Args:
        seen: a pass with ``output_hidden_states=True``.
        shape: texts and tokens of its input.
    """
    published = _published(seen, shape)
    families: dict[str, list[Call]] = {}
    for call in seen.calls:
        if call.name.rpartition(".")[2].isdecimal():
            families.setdefault(re.sub(r"\d+", "*", call.name), []).append(call)
    chains: dict[str, Blocks] = {}
    for stream, layout in _streams([call for calls in families.values() for call in calls], shape, published):
        finder = _Chains(seen, layout, stream, published)
        here = {name: chain for name, calls in families.items() if (chain := finder.of(calls))}
        fitting = [c for c in here.values() if len(c.calls) == len(published) - 1 and c.deviation <= TOLERANCE]
        if fitting:
            return min(fitting, key=lambda chain: chain.calls[0].start)
        chains = chains or here
    last = getattr(seen.result, "last_hidden_state", None)
    if not chains and isinstance(last, Tensor) and same(last, published[-1]):
        return Blocks((), 0, 0, published, 0.0, True, False, published, Stream())
    raise ReporterError(_nothing_fits(chains, len(published)))


def _published(seen: Trace, shape: tuple[int, int]) -> tuple[Tensor, ...]:
    """Return the model's own hidden states, of which each must be one vector for each token."""
    listed = getattr(seen.result, "hidden_states", None) or ()
    states = [h[0] if isinstance(h, (tuple, list)) and h else h for h in listed]  # PegasusX adds global tokens
    if not states or not all(isinstance(h, Tensor) for h in states):
        raise ReporterError(
            "the model returns no hidden_states, so its blocks cannot be found; reporter cannot measure it"
        )
    for h in states:
        if h.dim() != 3 or h.shape[0] != shape[0] or h.shape[1] < shape[1]:
            what = "several vectors side by side for each token" if h.dim() > 3 else "no state for each token"
            raise ReporterError(
                f"one of the model's own hidden_states has the shape {tuple(h.shape)} for {shape[0]} texts of "
                f"{shape[1]} tokens: that layer has {what}; reporter cannot measure it"
            )
    return tuple(h[:, : shape[1]] for h in states)  # PegasusX lists its padding, too


def _streams(
    calls: Iterable[Call], shape: tuple[int, int], published: Sequence[Tensor]
) -> Iterator[tuple[Stream, Any]]:
    """Yield how states may be passed on, with the first two axes of what is: the usual way, then those that fit."""
    yield Stream(), shape
    tried: set[tuple[int, ...]] = {shape}
    texts, length = shape
    for passed in (p for call in calls for p in (*call.inputs, *call.outputs) if p.tensor.dim() == 3):
        layout = tuple(passed.tensor.shape[:2])
        for swapped in (False, True):
            x = passed.tensor.transpose(0, 1) if swapped else passed.tensor
            for h in published[:2] if x.shape[0] == texts and x.shape[1] >= length and layout not in tried else ():
                starts = relative(x, h[:, :1].expand_as(x)).amax(0) if x.shape[2] == h.shape[2] else h.new_empty(0)
                for first in (starts[: x.shape[1] - length + 1] <= TOLERANCE).nonzero().flatten().tolist():
                    if _deviation(x[:, first : first + length], h) <= TOLERANCE and layout not in tried:
                        tried.add(layout)
                        yield Stream(swapped, first), layout


@dataclass(frozen=True)
class _Chains:
    """Finds calls that pass states on, each to the next.

    Args:
        seen: the pass.
        layout: the first two axes of what is passed on.
        stream: how to read it.
        published: the model's own hidden states.
    """

    seen: Trace
    layout: tuple[int, ...]
    stream: Stream
    published: Sequence[Tensor]

    def of(self, calls: Sequence[Call]) -> Blocks | None:
        """Return the calls as a chain, or None where one does not pass states on to the next."""
        if any(b.start < a.end for a, b in pairwise(calls)):
            return None  # one inside the other
        entering: list[PassedTensor] = []
        for made, taking in pairwise(calls):
            link = self._link(made, taking)
            if link is None:
                return None
            entering.append(link)
        returned = next(iter(self._states(calls[-1].outputs)), None)
        if returned is None:
            return None
        fitting = [p for p in self._states(calls[0].inputs) if p.tensor.shape == returned.tensor.shape]
        first = next((p for p in fitting if not entering or p.slot == entering[0].slot), None)
        if first is None or any(p.slot != first.slot for p in entering):
            return None
        chain = [first, *entering, returned]
        passed = tuple(p.tensor for p in chain)
        if len({x.shape for x in passed}) != 1:
            return None
        states = tuple(self.stream.read(x, self.published[0].shape[1]) for x in passed)
        before, after = (
            max((_deviation(x, h) for x, h in zip(inputs, self.published, strict=False)), default=0.0)
            for inputs in (states[:-1], states[1:])
        )
        shifted = after <= TOLERANCE < before
        slots, overwritten = (first.slot, returned.slot), any(p.changed_later for p in chain)
        deviation = after if shifted else before
        return Blocks(tuple(calls), *slots, states, deviation, overwritten, shifted, passed, self.stream)

    def _link(self, before: Call, after: Call) -> PassedTensor | None:
        made = [p.tensor for p in self._states(before.outputs)]
        sources = [made]
        for between in self.seen.calls:  # DeBERTa has a convolution there
            inside = before.end < between.start and between.end < after.start
            if inside and any(same(p.tensor, x) for p in between.inputs for x in made):
                sources.append([p.tensor for p in between.outputs])
        states = self._states(after.inputs)
        return next((t for source in sources for t in states if any(same(t.tensor, x) for x in source)), None)

    def _states(self, passed: Iterable[PassedTensor]) -> list[PassedTensor]:
        return [p for p in passed if p.tensor.dim() == 3 and tuple(p.tensor.shape[:2]) == self.layout]


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
            f"no blocks found: the model returns {count} hidden states, but no modules that run pass them on, and the "
            "last of them is not what the model returns last; reporter cannot measure it"
        )
    name, chain = max(chains.items(), key=lambda item: len(item[1].calls))
    reason = f"no blocks found: the {len(chain.calls)} modules {name} look like blocks"
    if len(chain.calls) != count - 1:
        return f"{reason}, but the model returns {count} hidden states instead of {len(chain.calls) + 1}"
    return f"{reason}, but their states differ from the model's hidden states by up to {chain.deviation:.1e} (relative)"
