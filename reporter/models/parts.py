"""The part of a model that is measured: the whole, the encoder or the decoder of a pair, or the text tower of two."""

import inspect
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from reporter.core.errors import ReporterError
from reporter.core.json_text import read_json
from reporter.models.checkpoint import Split
from reporter.models.model_folder import CONFIG, LIMITS

# Models that are too large for one device: spread by accelerate, which moves states from one device to the next.


def spread(split: Split) -> dict[str, Any]:
    """Return the arguments of ``from_pretrained`` that split a model over devices."""
    more: dict[str, Any] = {"max_memory": dict(split.max_memory)} if split.max_memory else {}
    if split.offload_folder is not None:
        more["offload_folder"] = str(split.offload_folder)
    return {"device_map": "auto", **more}


def is_spread(module: nn.Module) -> bool:
    """Return whether accelerate splits a module over devices; then it must not be moved."""
    return any(hasattr(part, "_hf_hook") for part in module.modules())


def weight_of(module: nn.Module) -> Tensor:
    """Return the weight of a module; of one that is elsewhere until it is used, a copy in main memory."""
    weight = module.weight
    assert isinstance(weight, Tensor)
    if not weight.is_meta or not hasattr(module, "_hf_hook"):
        return weight
    from accelerate.utils import align_module_device

    with align_module_device(module):
        here: Any = module.weight
        return here.detach().cpu().clone()  # type: ignore[no-any-return]


# How a model wants to be called, and small inputs to try it on.


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
            raise ReporterError(f"{type(module).__name__} takes no input_ids; name a model that reads text")
        self._fixed = fixed_arguments(module)
        self._beside_encoder = "encoder_input_ids" in accepted
        self.vocabulary = weight_of(input_embedding(module))
        self.vocabulary_size = int(self.vocabulary.shape[0])
        self.pad_id = pad_id(tokenizer, self.vocabulary_size)
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
            raise ReporterError("its vocabulary has fewer than two tokens that are not special; check the tokenizer")
        return torch.tensor(ordinary)


def fixed_arguments(module: nn.Module) -> dict[str, Any]:
    """Return the arguments of every call of a model, as far as its ``forward`` accepts them.

    A cache of keys and values would only cost memory.
    """
    accepted = inspect.signature(module.forward).parameters
    return {k: v for k, v in {"use_cache": False, "return_dict": True}.items() if k in accepted}


def config_limit(config: Any) -> int | None:
    """Return the longest input that a configuration names, or None where it names none."""
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    limits = [value for name in LIMITS if isinstance(value := getattr(config, name, None), int) and value > 0]
    return min(limits, default=None)


def input_embedding(module: Any) -> nn.Module:
    """Return the module that makes vectors of tokens.

    Raises:
        ReporterError: there is none, as in CANINE, which reads characters.
    """
    if (embedding := _embedding(module)) is not None:
        return embedding
    raise ReporterError(
        f"{type(module).__name__} has no table of token embeddings, or transformers does not know it; name a model "
        "that reads text in tokens"
    )


def _embedding(module: Any) -> nn.Module | None:
    with suppress(AttributeError, NotImplementedError):
        embedding = module.get_input_embeddings()
        if isinstance(getattr(embedding, "weight", None), Tensor):
            return embedding  # type: ignore[no-any-return]
    return None


def pad_id(tokenizer: Any, vocabulary_size: int) -> int:
    """Return a valid token id for padding, which is masked, so that any id is right."""
    for token in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token is not None and 0 <= token < vocabulary_size:
            return int(token)
    return 0


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
    whole: Any, role: Literal["encoder", "decoder"] | None, folder: Path
) -> tuple[nn.Module, PartName | None]:
    """Return what is measured of a model, and which part of it that is; None where it is the whole."""
    config = whole.config
    if getattr(config, "is_encoder_decoder", False):
        encoder, decoder = whole.get_encoder(), whole.get_decoder()
        for half in (encoder, decoder):  # those of FSMT are no models of their own
            for name in ("config", "get_input_embeddings"):
                if not hasattr(half, name):
                    setattr(half, name, getattr(whole, name))
        if role != "decoder":
            return encoder, "encoder"
        decoder = getattr(decoder, "base_model", decoder)
        return DecoderBesideEncoder(encoder, decoder, decoder_start(folder) is not None), "decoder"
    if type(whole).__name__.endswith("EncoderModel"):  # of T5 transformers can build it alone
        alone = (read_json(folder / CONFIG) or {}).get("architectures") == [type(whole).__name__]
        return whole, None if alone and role is None else "encoder"
    if role is not None:
        raise ReporterError(f"{folder}: {config.model_type} is not an encoder–decoder; remove `part`")
    text = getattr(whole, "text_model", None)
    beside_images = hasattr(whole, "vision_model") or _embedding(whole) is None
    return (text, "text") if isinstance(text, nn.Module) and beside_images else (whole, None)


def decoder_start(folder: Path) -> int | None:
    """Return the token with which the decoder of the model in a folder starts; None where its files name none."""
    starts = ((read_json(folder / name) or {}).get("decoder_start_token_id") for name in (CONFIG, _GENERATION))
    return next((start for start in starts if isinstance(start, int)), None)
