"""Which part of a model is measured: the whole, the encoder or the decoder of a pair, or the text tower of two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from reporter.errors import ReporterError
from reporter.models.model_folder import CONFIG

PartName = Literal["encoder", "decoder", "text"]

_GENERATION = "generation_config.json"  # where newer checkpoints say with which token their decoder starts


class DecoderBesideEncoder(nn.Module):
    """The decoder of an encoder–decoder, called like any text model: its encoder reads the same text.

    The decoder reads [start] t₁ … tₙ, its encoder t₁ … tₙ, so that the state at tᵢ is what teacher forcing gives where
    a text is to be written once more. That is how BART's authors make representations of texts (Lewis et al. 2020,
    "BART: Denoising Sequence-to-Sequence Pre-training", ACL, section 3: "the same input is fed into the encoder and
    decoder"). Only the decoder is measured.

    Args:
        encoder: its encoder.
        decoder: the decoder.
        starts: whether the tokenizer puts the token before each text that the decoder starts with.
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module, starts: bool) -> None:
        super().__init__()
        self.encoder, self.decoder, self.starts = encoder, decoder, starts
        self.config: Any = decoder.config

    def get_input_embeddings(self) -> Any:
        """Return the decoder's token embedding."""
        return self.decoder.get_input_embeddings()  # type: ignore[operator]

    def set_attn_implementation(self, name: str) -> None:
        """Choose how the decoder computes attention."""
        self.decoder.set_attn_implementation(name)  # type: ignore[operator]

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, encoder_input_ids: Tensor | None = None, **more: Any
    ) -> Any:
        """Return what the decoder does.

        Args:
            input_ids: what it reads, (texts, length).
            attention_mask: 1 for a token, 0 for padding, (texts, length).
            encoder_input_ids: what its encoder reads, in the same shape; the same where it is left out.
            more: what else the decoder takes.
        """
        first = int(self.starts and input_ids.shape[1] > 1)
        ids, mask = (
            (input_ids if encoder_input_ids is None else encoder_input_ids)[:, first:],
            attention_mask[:, first:],
        )
        read = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return self.decoder(
            input_ids=input_ids,
            attention_mask=attention_mask,
            encoder_hidden_states=read,
            encoder_attention_mask=mask,
            **{"use_cache": False, "return_dict": True} | more,
        )


def measured_part(
    whole: Any, asked: Literal["encoder", "decoder"] | None, folder: Path
) -> tuple[nn.Module, PartName | None]:
    """Return what is measured of a model, and which part of it that is; None where it is the whole.

    Args:
        whole: the model as transformers builds it.
        asked: what the study says.
        folder: where its files are.

    Raises:
        ReporterError: if it has no such part.
    """
    config = whole.config
    if getattr(config, "is_encoder_decoder", False):
        if asked != "decoder":
            return whole.get_encoder(), "encoder"
        decoder = whole.get_decoder().base_model
        return DecoderBesideEncoder(whole.get_encoder(), decoder, decoder_start(folder) is not None), "decoder"
    if type(whole).__name__.endswith("EncoderModel"):  # of T5 transformers can build it alone
        alone = json.loads((folder / CONFIG).read_text("utf-8")).get("architectures") == [type(whole).__name__]
        return whole, None if alone and asked is None else "encoder"
    if asked is not None:
        raise ReporterError(f"{folder}: {config.model_type} is no encoder–decoder; leave out `part`")
    text = getattr(whole, "text_model", None)
    if isinstance(text, nn.Module) and not _reads_tokens(whole):
        return text, "text"
    return whole, None


def decoder_start(folder: Path) -> int | None:
    """Return the token with which the decoder of the model in a folder starts; None where its files name none."""
    for name in (CONFIG, _GENERATION):
        try:
            found = json.loads((folder / name).read_text("utf-8")).get("decoder_start_token_id")
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(found, int):
            return found
    return None


def _reads_tokens(whole: Any) -> bool:
    try:
        return isinstance(whole.get_input_embeddings().weight, torch.Tensor) and not hasattr(whole, "vision_model")
    except (AttributeError, NotImplementedError):
        return False
