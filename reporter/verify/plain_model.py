"""A model as anybody would run it: one text at a time, no padding, its own ``hidden_states``, float32 on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reporter.errors import ReporterError
from reporter.models.local import loading, local_folder
from reporter.models.tokenizer import load_tokenizer
from reporter.models.weights import build, load_module, read_config

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint


class PlainModel:
    """A model whose states are its own ``hidden_states``.

    Their last entry is what the last block returned only where nothing follows the blocks. Elsewhere, in most decoders,
    it has gone through the closing norm; then what the last block returned is taken by one hook on that block. Those of
    state-space models begin with what the first block returned: what entered it is taken by a hook, too.

    Args:
        checkpoint: what to load.
        layers: blocks L, as the table ``models`` says.
        last: what the model's own last state is, as that table says: ``block`` or ``final``.
        offline: never ask a hub.

    Raises:
        ReporterError: if it cannot be loaded.
    """

    def __init__(self, checkpoint: Checkpoint, layers: int, last: str, offline: bool) -> None:
        with loading(checkpoint, offline), torch.inference_mode(False):
            folder = local_folder(checkpoint, offline)
            self.tokenizer: Any = load_tokenizer(checkpoint, folder, offline)
            module, *_ = load_module(checkpoint, folder)
        self.full_precision = all(p.dtype == torch.float32 for p in module.parameters())
        self.module = module.float()
        self.checkpoint, self.layers, self.last = checkpoint, layers, last
        self._blocks: tuple[nn.Module, nn.Module] | None = None  # the first and the last

    def states(self, ids: list[int]) -> tuple[list[Tensor], Tensor | None]:
        """Return what enters the first block and what each block returns, and the state after the closing norm.

        Args:
            ids: token ids of one text.

        Returns:
            L + 1 float32 matrices (tokens, width); (tokens, final width), or None where nothing follows the blocks.

        Raises:
            ReporterError: if the model is not what the table ``models`` says, or its last block is not found.
        """
        if self.last == "block":
            own, final = self._run(ids)
            if not torch.equal(own[-1], final):
                raise self._error("its last hidden state is not what its last block returned, as `models` says")
            return [h[0] for h in own], None
        if self._blocks is None:
            self._blocks = self._find_blocks(ids)
        with _outputs_of(list(self._blocks)) as seen:
            own, final = self._run(ids)
        raw = seen[1][1]
        if raw.shape == final.shape and torch.equal(raw, final):
            raise self._error("nothing follows its last block, although `models` says so")
        if torch.equal(own[-2], raw):
            entered = next(x for x in seen[0][0] if x.shape == raw.shape)
            return [h[0] for h in (entered, *own[:-1])], final[0]
        return [h[0] for h in (*own[:-1], raw)], final[0]

    def embedding(self) -> Any:
        """Return the module that makes vectors of tokens."""
        module: Any = self.module
        return module.get_input_embeddings()

    def norms(self) -> list[list[nn.Module]]:
        """Return the norms inside each block: modules that are called so; none where the blocks are not found."""
        lists = [m for m in self.module.modules() if isinstance(m, nn.ModuleList) and len(m) == self.layers]
        blocks = max(lists, key=lambda found: sum(p.numel() for p in found.parameters()), default=nn.ModuleList())
        return [[m for m in block.modules() if "norm" in type(m).__name__.lower()] for block in blocks]

    def _run(self, ids: list[int]) -> tuple[tuple[Tensor, ...], Tensor]:
        x = torch.tensor([ids])
        with torch.inference_mode():
            result = self.module(input_ids=x, attention_mask=torch.ones_like(x), output_hidden_states=True)
        if len(result.hidden_states) != self.layers + 1:
            raise self._error(f"it has {len(result.hidden_states) - 1} blocks, and `models` says {self.layers}")
        return result.hidden_states, result.last_hidden_state

    def _find_blocks(self, ids: list[int]) -> tuple[nn.Module, nn.Module]:
        """Return the ends of a list of L modules whose last takes, or returns, the last but one of the own states."""
        lists = [m for m in self.module.modules() if isinstance(m, nn.ModuleList) and len(m) == self.layers]
        candidates = [found[-1] for found in lists]
        with _outputs_of(candidates) as seen:
            own, _ = self._run(ids)
        for place, module in enumerate(candidates):
            passed = [*seen[place][0], seen[place][1]] if place in seen else []
            if any(x.shape == own[-2].shape and torch.equal(x, own[-2]) for x in passed):
                return lists[place][0], module
        raise self._error("its last block was not found in a list of modules, so what it returns cannot be read")

    def _error(self, text: str) -> ReporterError:
        return ReporterError(f"{self.checkpoint.label}: {text}")


@contextmanager
def _outputs_of(modules: list[nn.Module]) -> Iterator[dict[int, tuple[list[Tensor], Tensor]]]:
    """Keep, while this lasts, the tensors that each module takes and the first one that it returns, by its place."""
    seen: dict[int, tuple[list[Tensor], Tensor]] = {}

    def keep(place: int) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            taken = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
            seen[place] = (taken, (output if isinstance(output, Tensor) else output[0]).clone())

        return hook

    hooks = [m.register_forward_hook(keep(place), with_kwargs=True) for place, m in enumerate(modules)]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def calls_of(modules: list[list[nn.Module]]) -> Iterator[list[list[tuple[Tensor, Tensor]]]]:
    """Keep, while this lasts, what the modules of each list take and return, in the order in which they are called."""
    seen: list[list[tuple[Tensor, Tensor]]] = [[] for _ in modules]

    def keep(place: int) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            seen[place].append((args[0].clone(), output.clone()))

        return hook

    hooks = [module.register_forward_hook(keep(at)) for at, found in enumerate(modules) for module in found]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def load_language_model(checkpoint: Checkpoint, causal: bool, offline: bool) -> Any:
    """Return the whole language model as transformers builds it, or None where its files hold no head.

    Args:
        checkpoint: what to load.
        causal: a decoder's head, not one for masked tokens.
        offline: never ask a hub.
    """
    import transformers

    kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
    with loading(checkpoint, offline), torch.inference_mode(False):
        folder = local_folder(checkpoint, offline)
        model, missing = build(kind, checkpoint, folder, read_config(checkpoint, folder))
    return None if missing else model.float()
