"""Hooks that keep what enters each block and what the last one returns."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from reporter.errors import ReporterError
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
        self._last: Tensor | None = None
        self._output_slot = blocks.output_slot
        for module in dict.fromkeys(blocks.modules):
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
        self._last = None

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
