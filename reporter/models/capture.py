"""Hooks that keep what enters each block, what the last one returns and, when asked, what follows attention."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock, get_ident, local
from typing import Any, Literal
from weakref import proxy

import torch
from torch import Tensor, nn

from reporter.core.errors import ReporterError, failures, is_out_of_memory, with_type
from reporter.core.imports import changed
from reporter.models.blocks import Blocks, Slot, Trace, relative, same
from reporter.models.sublayers import Sublayer

# What a model does after its last block: a norm, a projection, both, or nothing; found by following the data.


NO_MODULES = "its layers do not run as modules one after the other: its states are its own hidden_states"
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
        """
        if self.problem:
            raise ReporterError(self.problem)
        for module, slot in self.modules:
            h = module(h) if isinstance(slot, int) else module(**{slot: h})
        return h


def find_closing(seen: Trace, blocks: Blocks) -> Closing:
    """Follow what the last block returned through the modules after it to what the model returned."""
    last = getattr(seen.result, "last_hidden_state", None)
    if not isinstance(last, Tensor):
        raise ReporterError("the model returns no last_hidden_state; reporter cannot measure it")
    h = blocks.states[-1]
    if same(last, h):
        return Closing("block")
    reached = [blocks.passed[-1]]
    for call in seen.calls:
        if call.start > blocks.calls[-1].end and any(blocks.same(p.tensor, x) for p in call.inputs for x in reached):
            reached += [p.tensor for p in call.outputs]
    if not any(blocks.same(last, x) for x in reached):
        raise ReporterError(
            "the last_hidden_state of the model is neither the output of its last block nor a norm or projection of "
            "that output; reporter cannot measure it"
        )
    return _tested(Closing("final", last.shape[-1], _way_back(seen, blocks, last)), h, last)


def _way_back(seen: Trace, blocks: Blocks, last: Tensor) -> tuple[tuple[nn.Module, Slot], ...]:
    """Go from the last state backwards to the last block; of modules inside one another the outermost."""
    after = [call for call in seen.calls if call.start > blocks.calls[-1].end]
    chain: list[tuple[nn.Module, Slot]] = []
    target = last
    while after and not blocks.same(target, blocks.passed[-1]):
        made = [c for c in after if len(c.inputs) == 1 and any(blocks.same(p.tensor, target) for p in c.outputs)]
        if not made:
            return ()
        call = made[0]
        target = call.inputs[0].tensor
        chain.insert(0, (call.module, call.inputs[0].slot))
        after = [c for c in after if c.end < call.start]
    return tuple(chain) if blocks.same(target, blocks.passed[-1]) else ()


def _tested(closing: Closing, h: Tensor, last: Tensor) -> Closing:
    """Apply the modules to the last block's output, as it was and token by token, and compare."""
    problem = "the steps after the last block cannot be applied to other states"
    if closing.modules:
        try:
            with torch.no_grad():
                whole, flat = closing(h), closing(h.flatten(0, 1))
            worst = max(relative(x.reshape(last.shape), last).max().item() for x in (whole, flat))
            if worst <= (_TOLERANCE if last.dtype == torch.float32 else 0.02):
                return closing
            problem += f" (results differ by {worst:.1e})"
        except failures() as error:  # other people's code, which may fail in any way
            if is_out_of_memory(error):
                raise
            problem += f" ({with_type(error)[:200]})"
    return Closing("final", closing.width, problem=problem)


@dataclass(frozen=True)
class Kept:
    """A pass that was kept: what each block returned, and what was passed on: L + 1 tensors, as the model has them."""

    returned: list[Any] = field(default_factory=list)
    passed: list[Tensor] = field(default_factory=list)


class _Running(local):
    """What was kept of the pass that a thread runs."""

    def __init__(self) -> None:
        self.entering: list[Tensor] = []
        self.attended: list[Tensor] = []
        self.last: Tensor | None = None
        self.kept: Kept | None = None
        self.resumed: Callable[..., Any] | None = None


class Capture:
    """Keeps the states of each forward pass of a model; threads may run passes at the same time.

    What a block returns is what enters the next one, so states are taken where they enter. That also holds
    where one module plays every block, and where something small sits between two blocks.

    Args:
        blocks: the blocks to listen to.
        module: the model; where it has no blocks, it is asked for its own hidden states at each pass.
    """

    def __init__(self, blocks: Blocks, module: nn.Module) -> None:
        self._layers = len(blocks.states) - 1
        self._overwritten = blocks.overwritten
        self._stream = blocks.stream
        self._now = _Running()
        self._resuming, self._lock = 0, Lock()
        self._dispatched = ExitStack()
        self._input_slot, self._output_slot = blocks.input_slot, blocks.output_slot
        self._modules = tuple(dict.fromkeys(blocks.modules))
        slot, here = self._input_slot, proxy(self)  # a model whose hooks hold what holds it is not freed when let go of
        for part in self._modules:
            part.register_forward_pre_hook(
                lambda module, args, kwargs: here._keep(args[slot] if isinstance(slot, int) else kwargs[slot]),
                with_kwargs=True,
            )
        if self._modules:
            blocks.modules[-1].register_forward_hook(lambda *returned: here._returned(*returned))
        else:
            asking = {"output_hidden_states": True}
            module.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs | asking), with_kwargs=True)
            module.register_forward_hook(lambda *returned: here._published(*returned))

    @property
    def hooked(self) -> bool:
        """Whether its blocks are modules that it listens to."""
        return bool(self._modules)

    def _keep(self, x: Tensor) -> None:
        self._now.entering.append(x.clone() if self._overwritten else x)

    def _returned(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        x = output if isinstance(output, Tensor) else output[self._output_slot]
        self._now.last = x.clone() if self._overwritten else x

    def _published(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        *self._now.entering, self._now.last = output.hidden_states

    def clear(self) -> None:
        """Forget what was kept, before a pass and after one that failed."""
        self._now.entering = []
        self._now.attended = []
        self._now.last = None

    def _added(self, part: Sublayer, output: Any) -> Tensor:
        """Return what a sublayer of the block that is running adds to what entered the block."""
        x = self._now.entering[-1]
        a: Tensor = (output if isinstance(output, Tensor) else output[part.slot]).reshape(x.shape).to(x.dtype)
        return a if part.factor == 1 else part.factor * a

    @contextmanager
    def attending(self, attention: Sublayer) -> Iterator[None]:
        """Also keep the states after attention, while this lasts; the hooks for that exist only so long."""

        def added(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            self._now.attended.append(self._now.entering[-1] + self._added(attention, output))

        with _hooked((attention.modules, added)):
            yield

    @contextmanager
    def contributing(self, attention: Sublayer, feed_forward: Sublayer) -> Iterator[list[Tensor]]:
        """Also compare what each sublayer adds with the stream that it is added to, while this lasts.

        Gives a list that gets one tensor (texts, length, 2, 2) for each block that ran: of attention and of
        feed-forward, what ``share`` returns.

        """
        compared: list[Tensor] = []
        stream: list[Tensor] = []  # that the feed-forward of the running block adds to
        shares: dict[bool, Tensor] = {}  # of the running block, by whether it is attention's

        def keep(of_attention: bool, share_: Tensor) -> None:
            shares[of_attention] = share_
            if len(shares) == 2:
                compared.append(torch.stack([shares.pop(True), shares.pop(False)], dim=-2))

        def attended(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            x, a = self._now.entering[-1], self._added(attention, output)
            if feed_forward.placement == "sequential":
                stream[:] = [x + a]
            keep(True, share(a, x))

        def normed(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            x = self._now.entering[-1]
            stream[:] = [(output if isinstance(output, Tensor) else output[0]).reshape(x.shape).to(x.dtype)]

        def fed(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            to = self._now.entering[-1] if feed_forward.placement == "parallel" else stream[-1]
            keep(False, share(self._added(feed_forward, output), to))

        with _hooked((attention.modules, attended), (feed_forward.norms, normed), (feed_forward.modules, fed)):
            yield compared

    @contextmanager
    def keeping(self) -> Iterator[Kept]:
        """Keep what each block returns, while this lasts, for ``resuming``."""
        if not self._modules:
            raise ReporterError(f"{NO_MODULES}, so no layer can be left out or run again")
        kept = self._now.kept = Kept()
        # Before the hook that keeps what the last block returns.
        with _hooked((self._modules, lambda module, args, output: kept.returned.append(output)), prepend=True):
            try:
                yield kept
            finally:
                self._now.kept = None

    @contextmanager
    def resuming(
        self, kept: Kept, after: int, layer: int, skipped: Collection[int] = (), full: bool = False
    ) -> Iterator[None]:
        """Start passes at a later block with a state of an earlier pass over the same input, while this lasts.

        Args:
            kept: that pass.
            after: the blocks up to this one, 1…L, do not run and return the state; 0 gives the state to block 1.
            layer: which state of the residual stream.
            skipped: numbers of later blocks that return what entered them.
            full: whether these blocks run, too, for what they leave behind besides their state.
        """

        def run(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            number = len(self._now.entering)  # of the block that is running, which may share its module
            entered, slot = self._now.entering[-1], self._input_slot
            given = kept.passed[layer].to(entered.device)
            if not after and number == 1:
                if isinstance(slot, str):
                    kwargs[slot] = given
                else:
                    args = (*args[:slot], given, *args[slot + 1 :])
            if full or (number > after and number not in skipped):
                output = forward(*args, **kwargs)
            if number > after and number not in skipped:
                return output
            return self._in_place_of(kept.returned[number - 1], given if number <= after else entered)

        with self._dispatching():
            self._now.resumed = run
            try:
                yield
            finally:
                self._now.resumed = None

    @contextmanager
    def _dispatching(self) -> Iterator[None]:
        """Have blocks ask, while this lasts in any thread, whether the thread that runs them resumes a pass."""

        def dispatch(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            resumed = self._now.resumed
            return resumed(forward, *args, **kwargs) if resumed else forward(*args, **kwargs)

        with self._lock:
            if not self._resuming:
                for module in self._modules:
                    self._dispatched.enter_context(changed(module, forward=partial(dispatch, module.forward)))
            self._resuming += 1
        try:
            yield
        finally:
            with self._lock:
                self._resuming -= 1
                if not self._resuming:
                    self._dispatched.close()

    def _in_place_of(self, output: Any, state: Tensor) -> Any:
        """Return what a block returned with another state, which the model may overwrite."""
        state = state.clone() if self._overwritten else state
        if isinstance(output, Tensor):
            return state
        return type(output)(state if index == self._output_slot else part for index, part in enumerate(output))

    def take_attention(self, length: int) -> list[Tensor]:
        """Return the states after attention of the pass that just ended, L tensors; call it before ``take``."""
        attended, self._now.attended = self._now.attended, []
        if len(attended) != self._layers:
            raise ReporterError(
                f"attention ran in only {len(attended)} of {self._layers} blocks; remove `attention` from `sites`"
            )
        return self.read(attended, length)

    def take(self, length: int) -> list[Tensor]:
        """Return the states of the pass that just ended, L + 1 tensors (texts, length, width), and let go of them."""
        states, last = self._now.entering, self._now.last
        self.clear()
        if last is None or len(states) != self._layers:
            raise ReporterError(
                f"only {len(states)} of {self._layers} blocks ran; reporter cannot measure models whose blocks depend "
                "on the text"
            )
        if self._now.kept is not None:
            self._now.kept.passed[:] = *states, last
        return self.read([*states, last], length)

    def read(self, passed: Iterable[Tensor], length: int) -> list[Tensor]:
        """Return what was passed on, or numbers of each token of it, as (texts, length, …)."""
        return [self._stream.read(x, length) for x in passed]


@contextmanager
def _hooked(*hooks: tuple[Iterable[nn.Module], Callable[..., Any]], prepend: bool = False) -> Iterator[None]:
    """Have each of some modules followed by a hook in the passes of this thread, while this lasts."""
    here = get_ident()

    def only_here(hook: Callable[..., Any], module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if get_ident() == here:
            hook(module, args, output)

    handles = [
        module.register_forward_hook(partial(only_here, hook), prepend=prepend)
        for modules, hook in hooks
        for module in dict.fromkeys(modules)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def share(added: Tensor, stream: Tensor) -> Tensor:
    """Return ‖a‖/‖x‖ and cos(a, x) of each token, (…, width) to (…, 2) in float32; NaN where one has no length."""
    a, x = added.float(), stream.float()
    long, to = a.norm(dim=-1), x.norm(dim=-1)
    # Not ``vecdot``, which is a product to autocast: hooks run inside of it, and it would be rounded to bf16.
    cosine = ((a * x).sum(dim=-1) / (long * to)).clamp(-1, 1)
    return torch.stack([(long / to).where(to > 0, torch.nan), cosine], dim=-1)
