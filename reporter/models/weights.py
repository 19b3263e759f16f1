"""Builds a model from its configuration and fills in its weights, all of those that the states depend on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from reporter.errors import ReporterError
from reporter.models.model_folder import WEIGHTS, weight_files

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint


def load_module(checkpoint: Checkpoint, folder: Path) -> nn.Module:
    """Return the model in ``folder`` in evaluation mode, without a vocabulary head; the encoder of a pair.

    Raises:
        ReporterError: if the files are missing or damaged, do not fit the configuration, or lack weights that
            the states depend on.
    """
    files = weight_files(folder, checkpoint.allow_pickle)
    safe = files[0].name.startswith(WEIGHTS)
    if safe:
        _check_safetensors(files)
    config = _config(checkpoint, folder)
    kind = _kind(config)
    try:
        whole, info = kind.from_pretrained(
            str(folder),
            config=config,
            dtype=checkpoint.dtype if checkpoint.dtype == "auto" else getattr(torch, checkpoint.dtype),
            use_safetensors=safe,
            trust_remote_code=checkpoint.trust_remote_code,
            local_files_only=not checkpoint.trust_remote_code,
            output_loading_info=True,
        )
    except Exception as error:
        raise ReporterError(f"its weights in {folder} cannot be loaded: {_one_line(error)}") from error
    module: Any = whole.get_encoder() if getattr(whole.config, "is_encoder_decoder", False) else whole
    whole.eval()
    whole.requires_grad_(False)
    names = set(info["missing_keys"])
    missing = {name: p for name, p in whole.named_parameters(remove_duplicate=False) if name in names}
    needed = _needed(module, missing)
    if needed:
        more = f" and {len(needed) - 3} more" if len(needed) > 3 else ""
        family = config.model_type
        raise ReporterError(f"{folder} lacks weights that its {family} needs: {', '.join(needed[:3])}{more}")
    return cast("nn.Module", module)


def _config(checkpoint: Checkpoint, folder: Path) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(
            str(folder),
            trust_remote_code=checkpoint.trust_remote_code,
            local_files_only=not checkpoint.trust_remote_code,
        )
    except Exception as error:
        if not checkpoint.trust_remote_code and "trust_remote_code" in str(error):
            raise ReporterError(
                f"{folder} needs Python code of its own; write `trust_remote_code: true` for this model if you trust it"
            ) from error
        raise ReporterError(f"its configuration in {folder} cannot be read: {_one_line(error)}") from error


def _kind(config: Any) -> Any:
    """Return the class to load with: T5 and its like have one for the encoder alone."""
    from transformers import MODEL_FOR_TEXT_ENCODING_MAPPING, AutoModel, AutoModelForTextEncoding

    named = (getattr(config, "architectures", None) or [""])[0]
    has_decoder = config.is_encoder_decoder or named.endswith("EncoderModel")
    return AutoModelForTextEncoding if has_decoder and type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING else AutoModel


def _check_safetensors(files: list[Path]) -> None:
    from safetensors import SafetensorError, safe_open

    for file in files:
        if file.suffix == ".safetensors":
            try:
                with safe_open(str(file), framework="pt"):
                    pass  # reads the header and compares it with the size of the file
            except (SafetensorError, OSError) as error:
                raise ReporterError(f"{file} is damaged: {error}; fetch or save it again") from error


def _needed(module: Any, missing: Mapping[str, nn.Parameter]) -> list[str]:
    """Return the names of those weights that take part in computing the states.

    They are found by differentiating the states, so that it needs no list of names: a pooler or a head is not used.
    """
    if not missing:
        return []
    ids = torch.zeros((1, 2), dtype=torch.long)
    with torch.enable_grad():
        for p in missing.values():
            p.requires_grad_(True)
        last = module(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        if not last.requires_grad:
            return []
        gradients = torch.autograd.grad(last.float().sum(), list(missing.values()), allow_unused=True)
        for p in missing.values():
            p.requires_grad_(False)
    return sorted(name for name, gradient in zip(missing, gradients, strict=True) if gradient is not None)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
