"""What a model does after its last block: a norm, a projection, both, or nothing; found by following the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from reporter.errors import ReporterError, is_out_of_memory
from reporter.models.blocks import Blocks, relative
from reporter.models.trace import Slot, Trace, same

_TOLERANCE = 1e-4  # relative deviation from the model's own last state


@dataclass(frozen=True)
class Closing:
    """The modules between the last block and the model's last hidden state, ready to be applied to any state.

    Args:
        last: what the model returns last: ``block``, the output of block L, or ``final``, something made of it.
        width: dimension of the final state; None where there is none.
        modules: in the order in which they run, each with the place of its argument; empty where nothing closes.
        problem: why they cannot be applied to other states; empty where they can.
    """

    last: Literal["block", "final"]
    width: int | None = None
    modules: tuple[tuple[nn.Module, Slot], ...] = ()
    problem: str = ""

    def __call__(self, h: Tensor) -> Tensor:
        """Return what the model would return last if ``h`` were what its last block returned.

        Args:
            h: states of the residual stream, (…, width).

        Returns:
            (…, final width).

        Raises:
            ReporterError: if the modules could not be found.
        """
        if self.problem:
            raise ReporterError(self.problem)
        for module, slot in self.modules:
            h = module(h) if isinstance(slot, int) else module(**{slot: h})
        return h


def find_closing(seen: Trace, blocks: Blocks) -> Closing:
    """Follow what the last block returned through the modules after it to what the model returned.

    Args:
        seen: the traced pass.
        blocks: its blocks.

    Raises:
        ReporterError: if the model's last state has nothing to do with its last block.
    """
    last = getattr(seen.result, "last_hidden_state", None)
    if not isinstance(last, Tensor):
        raise ReporterError("it returns no last_hidden_state")
    h = blocks.states[-1]
    if same(last, h):
        return Closing("block")
    reached = [h]
    for call in seen.calls:
        if call.start > blocks.calls[-1].end and any(same(p.tensor, x) for p in call.inputs for x in reached):
            reached += [p.tensor for p in call.outputs]
    if not any(same(last, x) for x in reached):
        raise ReporterError(
            "its last_hidden_state is neither what its last block returned nor a norm or projection of it"
        )
    found = Closing("final", last.shape[-1], _way_back(seen, blocks, last))
    return _tested(found, h, last)


def _way_back(seen: Trace, blocks: Blocks, last: Tensor) -> tuple[tuple[nn.Module, Slot], ...]:
    """Go from the last state backwards to the last block; of modules inside one another the outermost."""
    after = [call for call in seen.calls if call.start > blocks.calls[-1].end]
    chain: list[tuple[nn.Module, Slot]] = []
    wanted = last
    while after and not same(wanted, blocks.states[-1]):
        made = [c for c in after if len(c.inputs) == 1 and any(same(p.tensor, wanted) for p in c.outputs)]
        if not made:
            return ()
        call = made[0]
        wanted = call.inputs[0].tensor
        chain.insert(0, (call.module, call.inputs[0].slot))
        after = [c for c in after if c.end < call.start]
    return tuple(chain) if same(wanted, blocks.states[-1]) else ()


def _tested(closing: Closing, h: Tensor, last: Tensor) -> Closing:
    """Apply the modules to the last block's output, as it was and token by token, and compare."""
    why = "what it does to the last block's output is no chain of modules that could be applied to other states"
    if not closing.modules:
        return Closing("final", closing.width, problem=why)
    try:
        with torch.no_grad():
            whole, flat = closing(h), closing(h.flatten(0, 1))
        worst = max(relative(x.reshape(last.shape), last).max().item() for x in (whole, flat))
    except Exception as error:  # other people's code, which may fail in any way
        if is_out_of_memory(error):
            raise
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return Closing("final", closing.width, problem=f"{why} ({said})")
    tolerance = _TOLERANCE if last.dtype == torch.float32 else 0.02
    if not worst <= tolerance:
        return Closing("final", closing.width, problem=f"{why} (they differ by {worst:.1e})")
    return closing
