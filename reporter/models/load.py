"""Loads a checkpoint for measuring: safetensors only, no remote code, and nothing is believed before it is tested."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from reporter.core.errors import ReporterError, failing_as, with_type
from reporter.core.threads import suited_to
from reporter.models.adapters import OF_MODULES, PEFT
from reporter.models.anatomy import MeasuredModel, examine, moved_by_padding
from reporter.models.blocks import noise_of, relative
from reporter.models.checkpoint import Checkpoint, loading, local_folder
from reporter.models.condition import Condition
from reporter.models.model_folder import ADAPTER_WEIGHTS, config_file, weight_files
from reporter.models.parts import input_embedding, is_spread, weight_of
from reporter.models.places import Layout
from reporter.models.tokenizer import load_tokenizer, tokenizer_hash
from reporter.models.weights import limited, load_module, numbers_of, stored

# Which weights a checkpoint has, by group: so that one that is not what it says can be told.


EMBEDDINGS, OTHER, HEAD = "embeddings", "other", "head"
_BLOCK = re.compile(r"(?:^|\.)(\d+)\.")  # the first number in a name is that of the block: experts come after it
_HASH_DIGITS = 32
_HASHERS = 4


def weight_groups(module: nn.Module, files: Sequence[Path] = (), lacking: Sequence[Tensor] = ()) -> dict[str, str]:
    """Return the hash of each group of weights, of their bytes as they are in memory; those of a head, in its files.

    Persistent buffers count as weights.

    Returns:
        by group, in order, the first 32 hexadecimal digits of a SHA-256: ``embeddings`` (the input embedding, a head
        that is tied to it thereby, too), ``1`` … ``L`` (the blocks, as the names of weights count them), ``other``
        (positions, norms, projections outside of blocks), ``head`` (what the files hold beside these: a head that is
        not tied to the embedding, biases of one that is); empty where weights are not here.

    Raises:
        OSError, SafetensorError: a file cannot be read.
    """
    embedding = list(input_embedding(module).parameters())
    embedding_ids, drawn = {id(weight) for weight in embedding}, {id(weight) for weight in lacking}
    groups: dict[str, list[tuple[str, Tensor]]] = {}
    for name, weight in numbers_of(module):
        if weight.is_meta:
            return {}
        if id(weight) in drawn:
            continue
        block = _BLOCK.search(name)
        group = EMBEDDINGS if id(weight) in embedding_ids else str(int(block[1]) + 1) if block else OTHER
        groups.setdefault(group, []).append((name, weight))
    order = sorted(groups, key=lambda group: (group == OTHER, int(group) if group.isdigit() else 0))
    if head := _weights_without_place(module, embedding, files):
        groups[HEAD] = head
        order.append(HEAD)
    with ThreadPoolExecutor(_HASHERS) as pool:  # hashing lets other threads work
        return dict(zip(order, pool.map(_hash, [groups[group] for group in order]), strict=True))


def _weights_without_place(
    module: nn.Module, embedding: Sequence[Tensor], files: Iterable[Path]
) -> list[tuple[str, Tensor]]:
    """Return what files hold outside of blocks that the model has no place for, by name; a tied head is left out."""
    named = (module.named_parameters, module.named_buffers)
    names = [name for kind in named for name, _ in kind(remove_duplicate=False)]
    endings = tuple(f".{name}" for name in names)
    safe = [file for file in files if file.suffix == ".safetensors"]

    def tied(weight: Tensor) -> bool:
        alike = (other for other in embedding if other.shape == weight.shape)
        return any(torch.equal(weight.to(other.dtype), other.detach().cpu()) for other in alike)

    leaves = [name for name, part in module.named_modules() if next(part.children(), None) is None]

    def beside(name: str) -> bool:
        if _BLOCK.search(name) or f".{name}".endswith(endings):
            return False
        in_adapter = name.startswith(PEFT)  # which may hold a part of a weight, too
        return not in_adapter or (name.startswith(OF_MODULES) and not any(f".{leaf}." in name for leaf in leaves))

    weights = ((name, x) for name, x in stored(safe, beside) if not tied(x))
    return sorted(weights, key=lambda pair: pair[0])  # whichever file has them


def _hash(weights: Sequence[tuple[str, Tensor]]) -> str:
    digest = hashlib.sha256()
    for name, weight in weights:
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:_HASH_DIGITS]


@dataclass(frozen=True)
class Captured:
    """The states of one pass.

    Args:
        path: what enters the first block and what each block returns: L + 1 tensors (texts, length, width).
        final: after the final norm or projection, (texts, length, final width); None where the model's last
            hidden state is what block L returns.
        attention: of each block the residual stream after attention and before its feed-forward, without the norm
            that follows it in a post-norm block: L tensors (texts, length, width); None where it was not asked for.
        contributions: what attention (row 0) and feed-forward (row 1) of each block add to the stream: its length over
            that of the stream, and the cosine of the two, (L, texts, length, 2, 2); None where it was not asked for.
    """

    path: list[Tensor]
    final: Tensor | None
    attention: list[Tensor] | None
    contributions: Tensor | None = None

    @property
    def last(self) -> Tensor:
        """The last output of the model, which its head reads: ``final``, or the last block's output without one."""
        return self.path[-1] if self.final is None else self.final

    def at(self, layout: Layout) -> list[Tensor]:
        """Return the states at the places of a layout, in their order."""
        final = [] if self.final is None or layout.final_width is None else [self.final]
        return [*self.path, *final, *(self.attention or [])]

    def on(self, device: torch.device) -> Captured:
        """Return the states on one device: those of a model that is split are where their blocks are."""

        def here(states: list[Tensor] | None) -> list[Tensor] | None:
            return None if states is None else [x.to(device) for x in states]

        final, shares = (None if x is None else x.to(device) for x in (self.final, self.contributions))
        return Captured(here(self.path) or [], final, here(self.attention), shares)


@dataclass(frozen=True, kw_only=True)
class LoadedModel(MeasuredModel):
    """A model ready to be measured.

    Args:
        checkpoint: what was loaded.
        module: what is measured of the model, without its vocabulary head, in evaluation mode.
        tokenizer: its transformers tokenizer, padding on the right.
        device: where it is; of a model that is split, where its states are gathered.
        groups: the hash of each group of weights that was read, see :func:`reporter.models.load.weight_groups`.
        drawn: names of weights that its files lack and no state needs, such as those of a pooler.
        condition: the model as it was loaded; each pass begins with it, so that no text depends on those before it.
    """

    checkpoint: Checkpoint
    module: nn.Module
    tokenizer: Any
    device: torch.device
    groups: Mapping[str, str] = field(default_factory=dict, repr=False)
    drawn: frozenset[str] = frozenset()
    condition: Condition | None = field(default=None, repr=False)
    _padded: dict[bool, int] = field(default_factory=lambda: {True: 0, False: sys.maxsize}, repr=False)
    """The longest length that texts may be padded to, and the shortest that they may not, as far as was tried."""

    @property
    def steady(self) -> bool:
        """Whether no pass so far left the model changed, so that threads may run passes at the same time."""
        if self.condition is None or self.checkpoint.split is not None or not self.capture.hooked:
            return False
        self.condition.restore()
        return self.condition.steady

    @cached_property
    def weights_of_blocks(self) -> tuple[int, ...]:
        """How many weights each block has, by the numbers in their names; empty where these count other parts."""
        counts: dict[int, int] = {}
        for name, weight in self.module.named_parameters():
            if block := _BLOCK.search(name):
                counts[int(block[1])] = counts.get(int(block[1]), 0) + weight.numel()
        layers = range(self.anatomy.layers)
        return tuple(counts[block] for block in layers) if set(counts) == set(layers) else ()

    @cached_property
    def tokenizer_hash(self) -> str:
        """Identity of what its tokenizer does to texts; of a slow one, which cannot be read, that of the checkpoint."""
        return tokenizer_hash(self.tokenizer) or f"{self.checkpoint.fingerprint} {self.checkpoint.bos}"

    @property
    def vocabulary(self) -> Tensor:
        """The input embedding, (vocabulary, d); d is not the width of the states where tokens are projected."""
        return self.inputs.vocabulary.detach()

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        """Run the model and return the residual stream: L + 1 tensors (texts, length, width).

        Entry 0 is what enters the first block, entry l what block l returns, before any final norm. Call it
        in ``torch.inference_mode()``; otherwise a graph is kept.

        Args:
            input_ids: token ids (texts, length), padded on the right.
            attention_mask: 1 for a token, 0 for padding, (texts, length).
        """
        return self.run(input_ids, attention_mask).path

    def may_pad(self, length: int) -> bool:
        """Return whether texts may be padded to this length: whether padding leaves states, and the model, as they are.

        A short text is read alone and padded, once for each length beyond those tried before. What changes at some
        length (rotary factors, sparse attention) changes its states, or the condition of the model.
        """
        if self._padded[True] < length < self._padded[False]:
            self._padded[not self._moved_by_padding(length)] = length
        return length <= self._padded[True]

    def _moved_by_padding(self, length: int) -> bool:
        ids = self.inputs.random_ids(texts=1)
        if length <= ids.shape[1]:
            return False  # tried when it was loaded
        padding, changed = (0, length - ids.shape[1]), False
        results = []
        with torch.inference_mode():
            for tokens, mask in (
                (ids, torch.ones_like(ids)),
                (pad(ids, padding, value=self.inputs.pad_id), pad(torch.ones_like(ids), padding)),
            ):
                results.append(self.states(tokens, mask))
                changed |= self.condition is not None and self.condition.restore()
        alone, padded = results
        return changed or moved_by_padding(padded, alone)[1]

    @property
    def contributions_problem(self) -> str:
        """The reason why the contributions of the sublayers are unknown; empty where they are known."""
        return self.feed_forward.problem

    def run(
        self, input_ids: Tensor, attention_mask: Tensor, attention: bool = False, contributions: bool = False
    ) -> Captured:
        """Run the model and return its states, those of ``states`` and those beside the path from block to block.

        Call it in ``torch.inference_mode()``; otherwise a graph is kept.

        Args:
            input_ids: token ids (texts, length), padded on the right.
            attention_mask: 1 for a token, 0 for padding, (texts, length).
            attention: whether to return the states after attention, too, which costs one sum for each block.
            contributions: whether to compare what sublayers add with the stream.

        Raises:
            ReporterError: if the states after attention, or the contributions, are asked for and were not found when
                it was loaded.
        """
        if attention and self.attention.problem:
            raise ReporterError(
                f"{self.checkpoint.label}: no attention states, since {self.attention.problem}; "
                "remove `attention` from `sites`"
            )
        if contributions and self.contributions_problem:
            raise ReporterError(f"{self.checkpoint.label}: {self.contributions_problem}")
        self.capture.clear()
        if self.condition is not None:
            self.condition.restore()
        try:
            with ExitStack() as more:
                if attention:
                    more.enter_context(self.capture.attending(self.attention))
                shares = (
                    more.enter_context(self.capture.contributing(self.attention, self.feed_forward))
                    if contributions
                    else []
                )
                result = self.module(**self.inputs(input_ids, attention_mask))
            length = input_ids.shape[1]
            attended = self.capture.take_attention(length) if attention else None
            final = result.last_hidden_state if self.closing.last == "final" else None
            if contributions and len(shares) != self.anatomy.layers:
                raise ReporterError(
                    f"sublayers ran in only {len(shares)} of {self.anatomy.layers} blocks, so their contributions are "
                    "unknown"
                )
            compared = torch.stack(self.capture.read(shares, length)) if contributions else None
            captured = Captured(self.capture.take(length), final, attended, compared)
            return captured if self.checkpoint.split is None else captured.on(self.device)
        finally:
            self.capture.clear()

    def keep(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Captured, Callable[..., Tensor]]:
        """Run the model, and return its states with a function that runs it again from one of them.

        ``resume(after, layer, skipped)`` returns the last output of the model if the state of ``layer``, 0…L, enters
        the block behind ``after``, 0…L, and the blocks ``skipped`` return what enters them. ``resume(2, 1)`` leaves
        block 2 out; ``resume(1, 3)`` runs blocks 2 and 3 twice. Blocks up to ``after`` do not run, unless the model
        needs them or ``full`` is true.
        """
        with self.capture.keeping() as kept:
            captured = self.run(input_ids, attention_mask)

        def resume(after: int, layer: int, skipped: Collection[int] = (), full: bool | None = None) -> Tensor:
            full = not self.resumable if full is None else full
            with self.capture.resuming(kept, after, layer, skipped, full):
                return self.run(input_ids, attention_mask).last

        return captured, resume

    @cached_property
    def resumable(self) -> bool:
        """Whether the last block needs nothing of the blocks before it but their states, tried on a short input."""
        ids, layer = self.inputs.random_ids(texts=2), self.anatomy.layers - 1
        with torch.inference_mode(), suppress(Exception):  # other people's code, which may fail in any way
            captured, resume = self.keep(ids, torch.ones_like(ids))
            again = resume(layer, layer, full=False)
            return bool(relative(again, captured.last).max() <= noise_of(again))
        return False

    def attention_weights(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        """Run the model with its plain ("eager") attention, which alone returns weights, and return them.

        Call it in ``torch.inference_mode()``. Memory: 4 · layers · texts · heads · length² bytes.

        Args:
            input_ids: token ids (texts, length), padded on the right.
            attention_mask: 1 for a token, 0 for padding, (texts, length).

        Returns:
            For each block, how much a head gives in row i to the token of column j: (texts, heads, length, length),
            after the softmax, as the model returns them.
        """
        module: Any = self.module
        if self.condition is not None:
            self.condition.restore()
        usual = module.config._attn_implementation
        try:
            module.set_attn_implementation("eager")
            result = module(**self.inputs(input_ids, attention_mask), output_attentions=True)
        except (AttributeError, TypeError, ValueError) as error:
            raise ReporterError(
                f"{self.checkpoint.label}: cannot read the attention weights: {with_type(error)}"
            ) from error
        finally:
            self.capture.clear()
            module.set_attn_implementation(usual)
        returned = getattr(result, "attentions", None) or ()
        weights = [layer for layer in returned if layer is not None and layer.dim() == 4]
        if len(weights) != self.anatomy.layers:
            problem = f"only {len(weights)} of {self.anatomy.layers} blocks return attention weights"
            raise ReporterError(f"{self.checkpoint.label}: {problem}")
        return weights

    def close(self, h: Tensor) -> Tensor:
        """Apply what follows the last block, a norm or projection, to any state of the residual stream.

        Args:
            h: states (…, width).

        Returns:
            (…, final width); ``h`` itself where nothing follows the last block.
        """
        # Of a model that is split the modules may be elsewhere, and states that need float64 are not on Apple's device.
        return self.closing(h.to(self.device)).to(h.device)


def load(checkpoint: Checkpoint, device: str, offline: bool) -> LoadedModel:
    """Load a checkpoint, hook its blocks and test the hooks.

    Args:
        checkpoint: what to load; a recipe model must have been trained.
        device: ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
        offline: never ask a hub.
    """
    # A caller's inference mode would keep the tests from differentiating and from seeing changes in place.
    with loading(checkpoint, offline), torch.inference_mode(False):
        folder = local_folder(checkpoint, offline)
        if checkpoint.gguf is None:
            config_file(folder)
        with limited(folder):
            module, part, lacking = load_module(checkpoint, folder)
            tokenizer = load_tokenizer(checkpoint, folder, offline)  # last: it is tried in a copy of this process
            drawn = frozenset(name for name, weight in numbers_of(module) if any(weight is x for x in lacking))
            groups: Mapping[str, str] = {}
            if checkpoint.initialised is None:
                files = [] if checkpoint.gguf else weight_files(folder, checkpoint.allow_pickle)
                files += [] if checkpoint.adapter is None else [checkpoint.adapter / ADAPTER_WEIGHTS]
                groups = weight_groups(module, files, lacking)
            place = torch.device(device)
            module = module if is_spread(module) else module.to(place)
            condition, draws = Condition.of(module), _next_draws()
            width = weight_of(input_embedding(module)).shape[-1]
            # in other people's code
            with suited_to(width, place.type), failing_as("the model fails while it is tried on short inputs"):
                examined = examine(module, tokenizer, part)
            condition.restore()
            if _next_draws() != draws:  # passes at the same time would draw in another order
                condition.leave()
        if tokenizer.vocab_size > (rows := examined.anatomy.vocabulary_size):
            raise ReporterError(
                f"the tokenizer has {tokenizer.vocab_size:,} tokens, but the embedding has only {rows:,} rows; use the "
                "tokenizer of this model"
            )
        _refuse_tokens_without_row(checkpoint, tokenizer, rows)
    loaded = {"checkpoint": checkpoint, "module": module, "tokenizer": tokenizer, "device": place, "groups": groups}
    return LoadedModel(**vars(examined), **loaded, drawn=drawn, condition=condition)


def _next_draws() -> tuple[bytes, bytes, int]:
    """Return the condition of the random numbers that torch and NumPy draw for all callers."""
    _, key, position, *_ = np.random.get_state()  # noqa: NPY002 (models use it)
    return torch.get_rng_state().numpy().tobytes(), np.asarray(key).tobytes(), int(position)


def _refuse_tokens_without_row(checkpoint: Checkpoint, tokenizer: Any, rows: int) -> None:
    """Raise an error where an adapter's tokenizer has tokens without an embedding in base and adapter."""
    if tokenizer.name_or_path != str(checkpoint.adapter):
        return
    lacking = [token for token, i in tokenizer.get_vocab().items() if i >= rows and token != tokenizer.pad_token]
    if lacking:
        raise ReporterError(
            f"the tokenizer of the adapter in {checkpoint.adapter} has new tokens such as {lacking[0]!r}, but the "
            f"embedding has only {rows:,} rows, as those of new tokens were not saved; save the adapter again with "
            "`save_embedding_layers=True`"
        )
