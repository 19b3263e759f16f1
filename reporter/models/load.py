"""Loads a checkpoint for measuring: safetensors only, no remote code, and nothing is believed before it is tested."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reporter.errors import ReporterError
from reporter.models.anatomy import Anatomy, examine
from reporter.models.capture import Capture
from reporter.models.inputs import Inputs
from reporter.models.model_folder import config_file
from reporter.models.quiet import quiet
from reporter.models.tokenizer import load_tokenizer
from reporter.models.weights import load_module

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to be measured.

    Args:
        checkpoint: what was loaded.
        module: the model without its vocabulary head (of an encoder–decoder: its encoder), in evaluation
            mode.
        tokenizer: its transformers tokenizer, padding on the right.
        anatomy: what was measured of it.
        device: where it is.
    """

    checkpoint: Checkpoint
    module: nn.Module
    tokenizer: Any
    anatomy: Anatomy
    device: torch.device
    _capture: Capture = field(repr=False)
    _inputs: Inputs = field(repr=False)

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        """Run the model and return the residual stream: L + 1 tensors (texts, length, width).

        Entry 0 is what enters the first block, entry l what block l returns, before any closing norm. Call it
        in ``torch.inference_mode()``; otherwise a graph is kept.

        Args:
            input_ids: token ids (texts, length), padded on the right.
            attention_mask: 1 for a token, 0 for padding, (texts, length).
        """
        self._capture.clear()
        try:
            self.module(**self._inputs(input_ids, attention_mask))
            return self._capture.take()
        finally:
            self._capture.clear()


def load(checkpoint: Checkpoint, device: str, offline: bool) -> LoadedModel:
    """Load a checkpoint, hook its blocks and test the hooks.

    Args:
        checkpoint: what to load; a recipe model must have been trained.
        device: ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
        offline: never ask a hub.

    Raises:
        ReporterError: if files are missing or damaged, weights are missing, or the self-test fails.
    """
    # A caller's inference mode would keep the tests from differentiating and from seeing changes in place.
    with _named(checkpoint), quiet(), torch.inference_mode(False):
        folder = _folder(checkpoint, offline)
        config_file(folder)
        tokenizer = load_tokenizer(checkpoint, folder)
        module = load_module(checkpoint, folder)
        place = torch.device(device)
        module = module.to(place)
        anatomy, capture, inputs = examine(module, tokenizer)
        _check_vocabulary(tokenizer, anatomy)
    return LoadedModel(checkpoint, module, tokenizer, anatomy, place, capture, inputs)


@contextmanager
def _named(checkpoint: Checkpoint) -> Iterator[None]:
    try:
        yield
    except ReporterError as error:
        raise ReporterError(f"{checkpoint.label}: {error}") from error


def _folder(checkpoint: Checkpoint, offline: bool) -> Path:
    folder = checkpoint.folder
    if folder is not None:
        return folder
    from reporter.models.hub import download

    return download(checkpoint, offline)


def _check_vocabulary(tokenizer: Any, anatomy: Anatomy) -> None:
    if tokenizer.vocab_size > anatomy.vocabulary_size:
        raise ReporterError(
            f"its tokenizer has {tokenizer.vocab_size} tokens, its embedding {anatomy.vocabulary_size} rows; "
            "they do not belong together"
        )
