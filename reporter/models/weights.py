"""Builds a model from its configuration and fills in its weights: read, all that are needed, or drawn afresh."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from reporter.errors import ReporterError, said_by
from reporter.models.limits import read_headers, refuse_claims
from reporter.models.model_folder import CONFIG, WEIGHTS, weight_files
from reporter.models.parts import PartName, measured_part
from reporter.models.quantised import quiet, unpacked, unpacking
from reporter.models.random_init import seeded
from reporter.models.split import spread

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint


def load_module(checkpoint: Checkpoint, folder: Path) -> tuple[nn.Module, PartName | None, list[nn.Parameter]]:
    """Return what is measured of the model in ``folder``, in evaluation mode, without a vocabulary head, and its name.

    The third are those of its weights that the files lack: no state depends on them, and each loading draws others.

    Raises:
        ReporterError: if the files are missing or damaged, do not fit the configuration, or lack weights that
            the states depend on.
    """
    config = read_config(checkpoint, folder)
    if getattr(config, "rescale_every", 0):  # RWKV halves its states in float16; the stream is meant as it was trained
        config.rescale_every = 0
    whole, missing = build(_kind(config, checkpoint.part), checkpoint, folder, config)
    found = measured_part(whole, checkpoint.part, folder)
    module: Any = found[0]
    ids = torch.zeros((1, 2), dtype=torch.long)
    lacking = needed(lambda: module(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state, missing)
    if lacking:
        raise ReporterError(f"{folder} lacks weights that its {config.model_type} needs: {lacking}")
    return *found, list(missing.values())


def build(
    kind: Any, checkpoint: Checkpoint, folder: Path, config: Any, *, few_layers: bool = False
) -> tuple[Any, dict[str, nn.Parameter]]:
    """Return a model with the weights in ``folder``, or with drawn ones, in evaluation mode and without gradients.

    Args:
        kind: the class of transformers that builds it.
        checkpoint: how to read the files.
        folder: where they are.
        config: its configuration.
        few_layers: whether the configuration leaves out layers on purpose.

    Returns:
        the model, and those of its weights by name that the files lack; of drawn weights none does.

    Raises:
        ReporterError: if the files are missing or damaged, or do not fit the configuration.
    """
    if checkpoint.initialised is not None:
        if (folder / WEIGHTS).is_file():  # a claim that is wrong there would be as large here
            refuse_claims(config, read_headers([folder / WEIGHTS]), folder)
        return _drawn(kind, checkpoint, config, checkpoint.initialised), {}
    files = [folder / checkpoint.gguf] if checkpoint.gguf else weight_files(folder, checkpoint.allow_pickle)
    safe = files[0].name.startswith(WEIGHTS)
    if safe:
        _check_safetensors(files, config)
    try:
        with _no_bars() if checkpoint.gguf else unpacking(config):
            model, info = kind.from_pretrained(
                str(folder),
                config=config,
                dtype=checkpoint.dtype if checkpoint.dtype == "auto" else getattr(torch, checkpoint.dtype),
                **(checkpoint.source_file if checkpoint.gguf else {"use_safetensors": safe}),
                **(spread(checkpoint.split) if checkpoint.split and not few_layers else {}),
                trust_remote_code=checkpoint.trust_remote_code,
                local_files_only=not checkpoint.trust_remote_code,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # it is said below, which weight and how wide
            )
            model = unpacked(model)
    except Exception as error:
        raise ReporterError(f"its weights in {folder} cannot be loaded: {said_by(error)}") from error
    model.eval().requires_grad_(False)
    _refuse_lies(model, info, folder, few_layers)
    if checkpoint.adapter is not None:
        from reporter.models.adapter import merged

        with quiet("bitsandbytes"):  # PEFT imports it wherever it is installed
            model = merged(model, checkpoint.adapter, few_layers=few_layers)
    names = set(info["missing_keys"])
    return model, {name: p for name, p in model.named_parameters(remove_duplicate=False) if name in names}


@contextmanager
def _no_bars() -> Iterator[None]:
    """Keep transformers from drawing a bar while it unpacks a GGUF file, which it does whatever it was told."""
    from transformers import modeling_gguf_pytorch_utils as unpacking

    bar = getattr(unpacking, "tqdm", None)
    unpacking.tqdm = lambda found, *args, **kwargs: found
    try:
        yield
    finally:
        unpacking.tqdm = bar


def _drawn(kind: Any, checkpoint: Checkpoint, config: Any, seed: int) -> Any:
    dtype = checkpoint.dtype if checkpoint.dtype != "auto" else (config.dtype or torch.float32)
    try:
        with seeded(seed):
            model = kind.from_config(
                config,
                dtype=getattr(torch, dtype) if isinstance(dtype, str) else dtype,
                trust_remote_code=checkpoint.trust_remote_code,
            )
    except Exception as error:
        raise ReporterError(f"its weights cannot be initialised: {said_by(error)}") from error
    return model.eval().requires_grad_(False)


def read_config(checkpoint: Checkpoint, folder: Path) -> Any:
    """Return the configuration of the model in ``folder``.

    Raises:
        ReporterError: if it cannot be read, or needs Python code that may not run.
    """
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(
            str(folder),
            **checkpoint.source_file,
            trust_remote_code=checkpoint.trust_remote_code,
            local_files_only=not checkpoint.trust_remote_code,
        )
    except Exception as error:
        if not checkpoint.trust_remote_code and "trust_remote_code" in str(error):
            raise ReporterError(
                f"{folder} needs Python code of its own; write `trust_remote_code: true` for this model if you trust it"
            ) from error
        raise ReporterError(f"its configuration in {folder} cannot be read: {said_by(error)}") from error


def _kind(config: Any, part: str | None) -> Any:
    """Return the class to load with: T5 and its like have one for the encoder alone, a text tower may have its own."""
    import transformers
    from transformers import MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING, AutoModel, AutoModelForTextEncoding

    named = (getattr(config, "architectures", None) or [""])[0]
    has_decoder = getattr(config, "is_encoder_decoder", False) or named.endswith("EncoderModel")
    if has_decoder and part != "decoder" and type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING:
        return AutoModelForTextEncoding
    own = getattr(transformers, named, None)
    if type(config) not in MODEL_MAPPING and getattr(own, "config_class", None) is type(config):
        return own
    return AutoModel


def _refuse_lies(model: nn.Module, info: Mapping[str, Any], folder: Path, few_layers: bool) -> None:
    """Refuse weights that were read and cannot be what was trained.

    Raises:
        ReporterError: if a weight has another shape than the configuration says, holds NaN or infinity, all of them are
            zero, or the files hold more layers than the configuration says.
    """
    for name, there, wanted in sorted(info["mismatched_keys"]):
        raise ReporterError(
            f"{folder}: its weight {name} has the shape {tuple(there)}, and {CONFIG} says {tuple(wanted)}; "
            "weights and configuration do not belong together"
        )
    own = dict(model.named_parameters(remove_duplicate=False))
    layers = {re.sub(r"\.\d+\.", ".*.", name) for name in own if re.search(r"\.\d+\.", name)}
    for name in sorted(info["unexpected_keys"]):
        if not few_layers and any(re.sub(r"\.\d+\.", ".*.", name).endswith(layer) for layer in layers):
            raise ReporterError(
                f"{folder}: its weights hold layers that {CONFIG} does not know, such as {name}; "
                "correct the number of layers there, or save the model again"
            )
    anything = False
    for name, weight in own.items():
        if not weight.is_floating_point() or weight.is_meta:  # quantised, or not here
            anything = True
            continue
        values = weight.detach().float() if weight.element_size() == 1 else weight.detach()
        norm = torch.linalg.vector_norm(values, dtype=torch.float32)
        if not torch.isfinite(norm) and not torch.isfinite(values).all():
            what = "NaN" if torch.isnan(values).any() else "infinity"
            raise ReporterError(
                f"{folder}: its weight {name} holds {what}: the training diverged, or a file is damaged"
            )
        anything = anything or bool(norm > 0)
    if own and not anything:
        raise ReporterError(f"{folder}: all of its weights are 0; fetch or save them again")


def _check_safetensors(files: list[Path], config: Any) -> None:
    header = read_headers(files)
    if header.integers > header.floats and getattr(config, "quantization_config", None) is None:
        raise ReporterError(
            f"{files[0]} holds integers: weights that were quantised need the quantization_config of whoever did it in "
            f"{CONFIG}"
        )
    refuse_claims(config, header, files[0].parent)


def needed(run: Callable[[], torch.Tensor], missing: Mapping[str, nn.Parameter]) -> str:
    """Return the names of those weights that take part in computing what ``run`` returns; empty where none does.

    They are found by differentiating it, so that it needs no list of names: a pooler is not used by the states.
    """
    if not missing:
        return ""
    with torch.enable_grad():
        for p in missing.values():
            p.requires_grad_(True)
        result = run()
        gradients: Sequence[torch.Tensor | None] = [None] * len(missing)
        if result.requires_grad:
            gradients = torch.autograd.grad(result.float().sum(), list(missing.values()), allow_unused=True)
        for p in missing.values():
            p.requires_grad_(False)
    names = sorted(name for name, gradient in zip(missing, gradients, strict=True) if gradient is not None)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
