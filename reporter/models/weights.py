"""Builds a model from its configuration and fills in its weights, all of those that the states depend on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from reporter.errors import ReporterError
from reporter.models.model_folder import WEIGHTS, config_file, weight_files

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint


def load_module(checkpoint: Checkpoint, folder: Path) -> nn.Module:
    """Return the model in ``folder`` in evaluation mode, without a vocabulary head; the encoder of a pair.

    Raises:
        ReporterError: if the files are missing or damaged, do not fit the configuration, or lack weights that the
            states depend on.
    """
    config_file(folder)
    files = weight_files(folder, checkpoint.allow_pickle)
    safe = files[0].name.startswith(WEIGHTS)
    if safe:
        _check_safetensors(files)
    config = _config(checkpoint, folder)
    kind = _kind(config)
    try:
        module, info = kind.from_pretrained(
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
    missing = set(info["missing_keys"])
    if getattr(module.config, "is_encoder_decoder", False):
        prefix, encoder = _encoder(module)
        missing = {key.removeprefix(prefix) for key in missing if key.startswith(prefix)}
        module = encoder
    module.eval()
    module.requires_grad_(False)
    _check_missing(module, missing, folder)
    return module


def _config(checkpoint: Checkpoint, folder: Path) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(
            str(folder),
            trust_remote_code=checkpoint.trust_remote_code,
            local_files_only=not checkpoint.trust_remote_code,
        )
    except Exception as error:
        advice = ""
        if not checkpoint.trust_remote_code and "trust_remote_code" in str(error):
            raise ReporterError(
                f"{folder} needs Python code of its own; write `trust_remote_code: true` for this model if you trust it"
            ) from error
        raise ReporterError(
            f"its configuration in {folder} cannot be read: {_one_line(error)}{advice}"
        ) from error


def _kind(config: Any) -> Any:
    """Return the class to load with: T5 and its like have one for the encoder alone."""
    from transformers import AutoModel, AutoModelForTextEncoding

    named = (getattr(config, "architectures", None) or [""])[0]
    if config.is_encoder_decoder or named.endswith("EncoderModel"):
        if type(config) in AutoModelForTextEncoding._model_mapping:
            return AutoModelForTextEncoding
    return AutoModel


def _encoder(module: Any) -> tuple[str, nn.Module]:
    encoder = module.get_encoder()
    prefix = next((name for name, part in module.named_modules() if part is encoder), "")
    if encoder is module:
        return "", module
    return f"{prefix}.", encoder


def _check_safetensors(files: list[Path]) -> None:
    from safetensors import SafetensorError, safe_open

    for file in files:
        if file.suffix == ".safetensors":
            try:
                with safe_open(str(file), framework="pt"):
                    pass  # reads the header and compares it with the size of the file
            except (SafetensorError, OSError) as error:
                raise ReporterError(f"{file} is damaged: {error}; fetch or save it again") from error


def _check_missing(module: nn.Module, missing: set[str], folder: Path) -> None:
    """Raise if a weight that was not in the file takes part in computing the states.

    A pooler or a head may well be missing. What takes part is found by differentiating the states, so that it needs
    no list of names.
    """
    parameters = {name: p for name, p in module.named_parameters() if name in missing}
    if not parameters:
        return
    ids = torch.zeros((1, 2), dtype=torch.long)
    with torch.enable_grad():
        for p in parameters.values():
            p.requires_grad_(True)
        last = module(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        used = (
            torch.autograd.grad(last.float().sum(), list(parameters.values()), allow_unused=True)
            if last.requires_grad
            else [None] * len(parameters)
        )
        for p in parameters.values():
            p.requires_grad_(False)
    needed = sorted(name for name, gradient in zip(parameters, used, strict=True) if gradient is not None)
    if needed:
        more = f" and {len(needed) - 3} more" if len(needed) > 3 else ""
        raise ReporterError(
            f"{folder} lacks weights that its {module.config.model_type} needs: {', '.join(needed[:3])}{more}"
        )


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
