"""Watches one forward pass: which modules were called in which order, and which tensors went in and came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Slot = int | str
"""Where a tensor is: position among the arguments (or in an output tuple), or name of a keyword argument."""


@dataclass(frozen=True)
class Passed:
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
    inputs: list[Passed] = field(default_factory=list)
    outputs: list[Passed] = field(default_factory=list)

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
        model: the model.
        inputs: its arguments.
        copied: tells by the name of a module whether a tensor that passes into it or out of it is copied, and so
            kept as it was then. By default these are the tensors of elements of lists of modules, which may be
            blocks: a copy of everything would not fit into memory for a large model.
    """
    calls: list[Call] = []
    with torch.no_grad(), _watching(model, calls, copied or _may_be_a_block):
        result = model(**inputs)
    return Trace(tuple(call for call in calls if call.end >= 0), result)


def same(a: Tensor, b: Tensor) -> bool:
    """Tell whether two tensors hold the same numbers in the same order, whatever their shapes."""
    if a is b:
        return True
    if a.numel() != b.numel() or a.dtype != b.dtype or a.device != b.device:
        return False
    return torch.equal(a.reshape(-1), b.reshape(-1))


@contextmanager
def _watching(model: nn.Module, calls: list[Call], copied: Callable[[str, Tensor], bool]) -> Iterator[None]:
    clock = 0
    running: list[Call] = []
    handles = []

    def watch(name: str, module: nn.Module) -> None:
        def tensors(items: Any) -> list[Passed]:
            return _tensors(items, lambda tensor: copied(name, tensor))

        def began(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            nonlocal clock
            clock += 1
            call = Call(name, module, clock)
            call.inputs = [*tensors(enumerate(args)), *tensors(kwargs.items())]
            calls.append(call)
            running.append(call)

        def returned(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            nonlocal clock
            clock += 1
            call = running.pop()
            call.end = clock
            call.outputs = tensors(enumerate(output if isinstance(output, (tuple, list)) else (output,)))

        handles.append(module.register_forward_pre_hook(began, with_kwargs=True))
        handles.append(module.register_forward_hook(returned))

    for name, module in model.named_modules():
        if name:  # the model itself is not a part of itself
            watch(name, module)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _may_be_a_block(name: str, tensor: Tensor) -> bool:
    return name.rpartition(".")[2].isdecimal()


def _tensors(items: Any, copied: Callable[[Tensor], bool]) -> list[Passed]:
    return [
        Passed(slot, value.clone() if copied(value) else value, value, value._version)
        for slot, value in items
        if isinstance(value, Tensor) and value.is_floating_point()
    ]
