"""Finds a model's blocks by following the data, not by a table of names.

Blocks are elements of a list of modules that are called one after the other, each on what the one before
returned: ``layers.0``, ``layers.1``, … in most models, or one shared module again and again (ALBERT). Inside
a block there may be such chains, too (a list of feed-forward networks), and so the chain that agrees with the
model's own hidden states is taken, and of several the outermost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from reporter.errors import ReporterError
from reporter.models.trace import Call, Passed, Slot, Trace, same

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

    Raises:
        ReporterError: if there is no chain of blocks whose states are the model's own hidden states; the
            message says what was found.
    """
    own = getattr(seen.result, "hidden_states", None)
    if not own or not all(isinstance(h, Tensor) for h in own):
        raise ReporterError("it does not return hidden_states, so that its blocks cannot be checked")
    families: dict[str, list[Call]] = {}
    for call in seen.calls:
        if call.name.rpartition(".")[2].isdecimal():
            families.setdefault(re.sub(r"\d+", "*", call.name), []).append(call)
    chains = {name: chain for name, calls in families.items() if (chain := _chain(calls, seen, shape, own))}
    fitting = [c for c in chains.values() if len(c.calls) == len(own) - 1 and c.deviation <= TOLERANCE]
    if not fitting:
        raise ReporterError(_nothing_fits(chains, len(own)))
    return min(fitting, key=lambda chain: chain.calls[0].start)


def _chain(calls: list[Call], seen: Trace, shape: tuple[int, int], own: Sequence[Tensor]) -> Blocks | None:
    """Return the calls as a chain, or None where one does not pass states on to the next."""
    if any(b.start < a.end for a, b in pairwise(calls)):
        return None  # one inside the other
    entering: list[Passed] = []
    for made, taking in pairwise(calls):
        link = _link(made, taking, seen, shape)
        if link is None:
            return None
        entering.append(link)
    returned = next((p for p in calls[-1].outputs if _is_state(p.tensor, shape)), None)
    if returned is None:
        return None
    first = _first_input(calls[0], entering[0].slot if entering else None, returned.tensor, shape)
    if first is None or any(p.slot != first.slot for p in entering):
        return None
    passed = [first, *entering, returned]
    states = tuple(p.tensor for p in passed)
    if len({state.shape for state in states}) != 1:
        return None
    before, after = (
        max((_deviation(x, h) for x, h in zip(of, own, strict=False)), default=0.0) for of in (states[:-1], states[1:])
    )
    shifted = after <= TOLERANCE < before
    overwritten = any(p.changed_later for p in passed)
    deviation = after if shifted else before
    return Blocks(tuple(calls), first.slot, returned.slot, states, deviation, overwritten, shifted)


def _link(before: Call, after: Call, seen: Trace, shape: tuple[int, int]) -> Passed | None:
    """Return the argument of ``after`` that came from ``before``, at once or through one module between them."""
    made = [p.tensor for p in before.outputs if _is_state(p.tensor, shape)]
    for taken in after.inputs:
        if _is_state(taken.tensor, shape) and any(same(taken.tensor, x) for x in made):
            return taken
    for between in seen.calls:  # DeBERTa has a convolution there
        if before.end < between.start and between.end < after.start:
            fed = any(same(p.tensor, x) for p in between.inputs for x in made)
            for taken in after.inputs if fed else ():
                if _is_state(taken.tensor, shape) and any(same(taken.tensor, p.tensor) for p in between.outputs):
                    return taken
    return None


def _first_input(call: Call, slot: Slot | None, like: Tensor, shape: tuple[int, int]) -> Passed | None:
    fitting = (p for p in call.inputs if _is_state(p.tensor, shape) and p.tensor.shape == like.shape)
    return next((p for p in fitting if slot is None or p.slot == slot), None)


def _is_state(x: Tensor, shape: tuple[int, int]) -> bool:
    return x.dim() == 3 and tuple(x.shape[:2]) == shape


def _deviation(x: Tensor, own: Tensor) -> float:
    """Return max over tokens of ‖x − own‖ / ‖own‖."""
    if x.shape != own.shape:
        return torch.inf
    return relative(x, own).max().item()


def relative(x: Tensor, reference: Tensor) -> Tensor:
    """Return ‖x − reference‖ / ‖reference‖ for each token: (texts, length, width) to (texts, length), in float32."""
    size: Tensor = reference.float().norm(dim=-1).clamp_min(torch.finfo(torch.float32).tiny)
    difference: Tensor = (x.float() - reference.float()).norm(dim=-1)
    return difference / size


def noise_of(x: Tensor) -> float:
    """Return up to which relative change a state is taken for the same: more than float32's noise, or one rounding."""
    return _INFLUENCE if x.dtype == torch.float32 else float(torch.finfo(x.dtype).eps)


def _nothing_fits(chains: dict[str, Blocks], own: int) -> str:
    if not chains:
        return f"it returns {own} hidden states, but none of its lists of modules passes states on from one to the next"
    name, chain = max(chains.items(), key=lambda item: len(item[1].calls))
    said = f"its {len(chain.calls)} modules {name} look like blocks"
    if len(chain.calls) != own - 1:
        return f"{said}, but it returns {own} hidden states instead of {len(chain.calls) + 1}"
    return f"{said}, but their states differ from its own hidden states by up to {chain.deviation:.1e} (relative)"
