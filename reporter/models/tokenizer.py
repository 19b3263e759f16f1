"""Loads a checkpoint's tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.errors import ReporterError
from reporter.models.model_folder import tokenizer_folder

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint


def load_tokenizer(checkpoint: Checkpoint, folder: Path) -> Any:
    """Return the tokenizer of the model in ``folder``, padding on the right.

    A checkpoint in a sub-folder without a tokenizer has that of the folder above; a study may name another repository.

    Raises:
        ReporterError: if there is none, or it cannot be read.
    """
    place = _place(checkpoint, folder)
    try:
        tokenizer = _class(place).from_pretrained(
            str(place),
            trust_remote_code=checkpoint.trust_remote_code,
            local_files_only=not checkpoint.trust_remote_code,
        )
    except Exception as error:
        raise ReporterError(f"its tokenizer in {place} cannot be read: {_one_line(error)}") from error
    # On the right always: GPT-2 padded on the left without position ids gives wrong states, not an error.
    tokenizer.padding_side = "right"
    tokenizer.truncation_side = "right"
    return tokenizer


def _place(checkpoint: Checkpoint, folder: Path) -> Path:
    if checkpoint.tokenizer is not None:
        from reporter.models.hub import tokenizer_of

        return tokenizer_of(checkpoint.tokenizer)
    return folder if checkpoint.trust_remote_code else tokenizer_folder([folder, checkpoint.path or folder])


def _class(folder: Path) -> Any:
    """Return the class to load a tokenizer with.

    Where the configuration says that ``tokenizer.json`` is all there is to it, it is taken at its word. For
    some families ``AutoTokenizer`` would build a tokenizer of its own over that vocabulary, which splits
    texts differently.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        declared = json.loads((folder / "tokenizer_config.json").read_text("utf-8")).get("tokenizer_class")
    except (OSError, ValueError, AttributeError):
        return AutoTokenizer
    generic = declared in ("PreTrainedTokenizerFast", "TokenizersBackend")
    return PreTrainedTokenizerFast if generic and (folder / "tokenizer.json").is_file() else AutoTokenizer


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
