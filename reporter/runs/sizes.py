"""What is known of a model before it is loaded: its size by its configuration, a corpus' tokens by a few texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.runs.machine import operations

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint
    from reporter.spec.recipes import Recipe
    from reporter.texts import Texts
    from reporter.texts.windows import Windows

TOKENS_PER_WORD = 1.35  # of English under the usual sub-word tokenizers, where this one cannot be asked
OF_RECIPES = 1.1  # their tokenizers know the words of the texts that they are trained on
ADDED = 2  # tokens that a tokenizer puts around a text
_TRIED = 200  # texts that are tokenised to know how many tokens the others have
_DEPTH = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH = ("hidden_size", "n_embd", "d_model", "dim")
_INNER = ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim")
_LONGEST = ("max_position_embeddings", "n_positions", "n_ctx")


@dataclass(frozen=True)
class Size:
    """How large a model is.

    Args:
        layers: its blocks.
        width: dimension of its states.
        inner: width of the feed-forward; 0 where there are saved states and no weights.
        gated: whether that has a gate.
        vocabulary: rows of its input embedding.
        longest: tokens of the longest text that it reads; None where that is not known.
    """

    layers: int
    width: int
    inner: int
    gated: bool
    vocabulary: int
    longest: int | None = None

    @property
    def parameters(self) -> float:
        """How many weights it has, about."""
        if not self.inner:
            return 0.0
        return self.layers * operations(self.width, 0, self.inner, self.gated) / 2 + self.vocabulary * self.width

    def operations(self, length: float) -> float:
        """Return the floating-point operations for each token of texts of some length; the head is not among them."""
        return self.layers * operations(self.width, length, self.inner, self.gated)


def size_of(checkpoint: Checkpoint) -> Size | None:
    """Return how large a model is, where that can be read without loading anything."""
    if checkpoint.recipe is not None:
        return _of_recipe(checkpoint.recipe)
    if checkpoint.states:
        return _of_states(next(iter(checkpoint.states.values()))[0])
    folder = folder_of(checkpoint)
    found = None if folder is None else _config(folder)
    return None if found is None else of_config(found)


def of_config(config: dict[str, Any]) -> Size | None:
    """Return the size that a configuration says."""
    inside = config.get("text_config")
    config = inside if isinstance(inside, dict) else config

    def said(keys: Sequence[str]) -> int | None:
        return next((config[key] for key in keys if isinstance(config.get(key), int)), None)

    depth, width = said(_DEPTH), said(_WIDTH)
    if not depth or not width:
        return None
    gated = "rms_norm_eps" in config or config.get("model_type") == "modernbert"
    return Size(depth, width, said(_INNER) or 4 * width, gated, said(("vocab_size",)) or 0, said(_LONGEST))


def _of_recipe(recipe: Recipe) -> Size:
    gated = recipe.architecture == "llama"
    inner = 8 * recipe.width // 3 if gated else 4 * recipe.width
    return Size(recipe.layers, recipe.width, inner, gated, recipe.vocabulary)


def _of_states(file: Path) -> Size | None:
    """Return the size that the header of saved states says."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(file), framework="np") as found:
            blocks = sum(name.startswith("layer/") for name in found.keys()) - 1  # noqa: SIM118 (no mapping)
            _, width = found.get_slice("layer/0").get_shape()
    except (SafetensorError, OSError, ValueError):
        return None  # the run says what is wrong with it
    return Size(blocks, width, 0, False, 0)


def folder_of(checkpoint: Checkpoint) -> Path | None:
    """Return the folder of a model that is on this machine already."""
    return (
        None
        if checkpoint.path is None or checkpoint.gguf is not None
        else checkpoint.path / (checkpoint.subfolder or "")
    )


def _config(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def tokens_of(checkpoint: Checkpoint, texts: Texts, max_tokens: int, windows: Windows | None = None) -> int:
    """Return about how many tokens a model reads of a corpus, cut at the study's limit or the model's own.

    What windows repeat is read again.
    """
    if checkpoint.states:
        return min(int(texts.words * TOKENS_PER_WORD), len(texts) * max_tokens)
    size, folder = size_of(checkpoint), folder_of(checkpoint)
    limit = max_tokens if size is None or size.longest is None else min(max_tokens, size.longest)
    if checkpoint.recipe is None and folder is not None and (read := _tokenizer(folder)) is not None:
        step = max(1, len(texts) // _TRIED)
        tried = [texts[index] for index in range(0, len(texts), step)]
        lengths = [_read(len(found.ids), limit, windows) for found in read.encode_batch(tried)]
        return round(sum(lengths) * len(texts) / max(1, len(tried)))
    each = OF_RECIPES if checkpoint.recipe is not None else TOKENS_PER_WORD
    words = int(texts.words * each)
    if windows is not None:
        return len(texts) * _read(words // max(1, len(texts)) + ADDED, limit, windows)
    return min(words + ADDED * len(texts), len(texts) * limit)


def _read(tokens: int, limit: int, windows: Windows | None) -> int:
    """Return how many tokens a model reads of a text that has so many."""
    if windows is None or tokens <= limit:
        return min(tokens, limit)
    fitting = windows.within(limit)
    return tokens + -(-(tokens - limit) // fitting.stride) * max(0, fitting.size - fitting.stride)


@cache
def _tokenizer(folder: Path) -> Any:
    """Return a model's tokenizer if it is in one file, None otherwise; transformers would take seconds to import."""
    from tokenizers import Tokenizer

    try:
        found = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception:  # the library raises no class of its own
        return None
    found.no_truncation()
    found.no_padding()
    return found
