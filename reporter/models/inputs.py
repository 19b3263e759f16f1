"""How a model wants to be called, and small inputs to try it on."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from reporter.errors import ReporterError
from reporter.models.split import weight_of

_LIMITS = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "max_seq_length",
    "seq_length",
    "n_ctx",
)
_LARGEST_OFFSET = 4  # rows of a position table before the first token's, so that a short probe fits any table


class Inputs:
    """Builds the arguments of a model's ``forward``.

    Args:
        module: the model.
        tokenizer: its tokenizer.
    """

    def __init__(self, module: nn.Module, tokenizer: Any) -> None:
        accepted = inspect.signature(module.forward).parameters
        if "input_ids" not in accepted:
            raise ReporterError(f"{type(module).__name__} takes no input_ids; it is no text model")
        # A cache of keys and values would only cost memory. Models without one would not know the word.
        self._fixed = {k: v for k, v in {"use_cache": False, "return_dict": True}.items() if k in accepted}
        self._beside_encoder = "encoder_input_ids" in accepted
        self.vocabulary = _input_embedding(module)
        self.vocabulary_size = int(self.vocabulary.shape[0])
        self.pad_id = _pad_id(tokenizer, self.vocabulary_size)
        self._length = max(2, min(12, (config_limit(module.config) or 512) - _LARGEST_OFFSET))
        self._ordinary = self._ordinary_ids(module.config, tokenizer)

    def __call__(
        self, ids: Tensor, mask: Tensor, output_hidden_states: bool = False, encoder_ids: Tensor | None = None
    ) -> Mapping[str, Any]:
        """Return the arguments for these token ids and this mask, both (texts, length).

        Args:
            ids: what the model reads.
            mask: 1 for a token, 0 for padding.
            output_hidden_states: ask for the model's own hidden states, too.
            encoder_ids: what the encoder beside a decoder reads, if not the same.
        """
        more: dict[str, Any] = {"output_hidden_states": True} if output_hidden_states else {}
        if encoder_ids is not None and self._beside_encoder:
            more["encoder_input_ids"] = encoder_ids
        return {"input_ids": ids, "attention_mask": mask, **self._fixed, **more}

    def random_ids(self, texts: int) -> Tensor:
        """Return ids of ordinary tokens, the same at every call, shape (texts, length)."""
        generator = torch.Generator().manual_seed(0)
        places = torch.randint(len(self._ordinary), (texts, self._length), generator=generator)
        return self._ordinary[places].to(self.vocabulary.device)

    def repeated_id(self) -> Tensor:
        """Return one ordinary token at every position, shape (1, length)."""
        return self._ordinary[:1].expand(1, self._length).to(self.vocabulary.device)

    def with_other_token(self, ids: Tensor, place: int) -> Tensor:
        """Return the ids with another ordinary token at one place of each text: 0 for the first, -1 for the last."""
        changed = ids.clone()
        first, second = self._ordinary[0].item(), self._ordinary[-1].item()
        changed[:, place] = torch.where(ids[:, place] == first, second, first)
        return changed

    def _ordinary_ids(self, config: Any, tokenizer: Any) -> Tensor:
        # A model may treat its own special ids differently (RoBERTa counts positions without padding).
        special = {*tokenizer.all_special_ids, self.pad_id}
        special |= {getattr(config, f"{name}_token_id", None) for name in ("pad", "bos", "eos")}
        ordinary = [i for i in range(self.vocabulary_size) if i not in special]
        if len(ordinary) < 2:
            raise ReporterError("its vocabulary has fewer than two ordinary tokens")
        return torch.tensor(ordinary)


def config_limit(config: Any) -> int | None:
    """Return the longest input that a configuration names, or None where it names none."""
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    limits = [value for name in _LIMITS if isinstance(value := getattr(config, name, None), int) and value > 0]
    return min(limits, default=None)


def _input_embedding(module: Any) -> Tensor:
    try:
        weight = weight_of(module.get_input_embeddings())
    except (AttributeError, NotImplementedError) as error:
        raise ReporterError("it has no token embedding") from error
    assert isinstance(weight, Tensor)
    return weight


def _pad_id(tokenizer: Any, vocabulary_size: int) -> int:
    """Return an id to pad with; padding is masked, so any will do and no embedding is resized."""
    for token in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token is not None and 0 <= token < vocabulary_size:
            return int(token)
    return 0
