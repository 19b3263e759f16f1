"""Hooks that keep what enters each block, what the last one returns and, when asked, what follows attention."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from reporter.errors import ReporterError
from reporter.models.attention import Attention
from reporter.models.blocks import Blocks


class Capture:
    """Keeps the states of each forward pass of a model.

    What a block returns is what enters the next one, so states are taken where they enter. That also holds
    where one module plays every block, and where something small sits between two blocks.

    Args:
        blocks: the blocks to listen to.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._layers = len(blocks.calls)
        self._overwritten = blocks.overwritten
        self._entering: list[Tensor] = []
        self._attended: list[Tensor] = []
        self._last: Tensor | None = None
        self._output_slot = blocks.output_slot
        self._modules = tuple(dict.fromkeys(blocks.modules))
        for module in self._modules:
            self._listen(module, blocks.input_slot)
        blocks.modules[-1].register_forward_hook(self._returned)

    def _listen(self, module: nn.Module, slot: int | str) -> None:
        if isinstance(slot, int):
            module.register_forward_pre_hook(lambda module, args: self._keep(args[slot]))
        else:
            module.register_forward_pre_hook(lambda module, args, kwargs: self._keep(kwargs[slot]), with_kwargs=True)

    def _keep(self, x: Tensor) -> None:
        self._entering.append(x.clone() if self._overwritten else x)

    def _returned(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        x = output if isinstance(output, Tensor) else output[self._output_slot]
        self._last = x.clone() if self._overwritten else x

    def clear(self) -> None:
        """Forget what was kept, before a pass and after one that failed."""
        self._entering = []
        self._attended = []
        self._last = None

    @contextmanager
    def attending(self, attention: Attention) -> Iterator[None]:
        """Also keep the states after attention, while this lasts; the hooks for that exist only so long.

        Args:
            attention: where attention adds to the residual stream.
        """

        def added(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            x = self._entering[-1]  # of the block that is running
            a = output if isinstance(output, Tensor) else output[attention.slot]
            a = a.reshape(x.shape).to(x.dtype)
            self._attended.append(x + a if attention.factor == 1 else x + attention.factor * a)

        hooks = [module.register_forward_hook(added) for module in dict.fromkeys(attention.modules)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    @contextmanager
    def skipping(self, blocks: Collection[int]) -> Iterator[None]:
        """Let some blocks return what entered them, while this lasts.

        Args:
            blocks: their numbers, 1…L.
        """

        def passed_on(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
            if len(self._entering) not in blocks:  # of the block that is running, which may share its module
                return output
            x = self._entering[-1]
            if isinstance(output, Tensor):
                return x
            return type(output)(x if at == self._output_slot else part for at, part in enumerate(output))

        # Before the hook that keeps what the last block returns.
        hooks = [module.register_forward_hook(passed_on, prepend=True) for module in self._modules]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def take_attention(self) -> list[Tensor]:
        """Return the states after attention of the pass that just ended, L tensors; call it before ``take``.

        Raises:
            ReporterError: if not every block ran its attention once.
        """
        attended, self._attended = self._attended, []
        if len(attended) != self._layers:
            raise ReporterError(f"the attention of {len(attended)} of its {self._layers} blocks ran")
        return attended

    def take(self) -> list[Tensor]:
        """Return the states of the pass that just ended, L + 1 tensors (texts, length, width), and let go of them.

        Raises:
            ReporterError: if the model did not run each of its blocks once.
        """
        states, last = self._entering, self._last
        self.clear()
        if last is None or len(states) != self._layers:
            raise ReporterError(
                f"{len(states)} of its {self._layers} blocks ran; which blocks run must not depend on the text"
            )
        return [*states, last]
