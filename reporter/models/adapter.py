"""Adapters that PEFT saved (LoRA and its like): read from safetensors and merged into the weights of their base."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from reporter.errors import ReporterError, said_by
from reporter.imports import optional
from reporter.models.model_folder import ADAPTER_WEIGHTS, adapter_files

_SAVED_UNDER = "base_model.model."  # how PEFT begins the name of every weight
_HALVES = ("encoder.", "decoder.")  # of which one is not built where the other is measured


def merged(model: Any, folder: Path, *, few_layers: bool) -> Any:
    """Return a model with an adapter merged into its weights, as ``merge_and_unload`` of PEFT does it.

    The adapter may have been trained on a model with a head, whose names begin otherwise: its weights are matched with
    modules by name with or without the base's prefix. What belongs to a head that is not there is left out.

    Args:
        model: the base, with or without a head.
        folder: the adapter's.
        few_layers: whether the model lacks layers on purpose.

    Raises:
        ReporterError: if PEFT is not installed, files are missing or damaged, or the adapter is not one of this base.
    """
    adapter_files(folder)
    peft = optional("peft", "peft", "an adapter")
    try:
        config = peft.PeftConfig.from_pretrained(str(folder))
        given = _read(folder / ADAPTER_WEIGHTS)
    except Exception as error:  # a file that PEFT cannot read fails in any way
        raise ReporterError(f"the adapter in {folder} cannot be read: {said_by(error)}") from error
    whole, parts, strange = _matched(model, given)
    if not parts and not whole and not few_layers:
        first = next(iter(given), "none at all")
        raise ReporterError(f"no weight of the adapter in {folder} fits this base (its first is {first})")
    if strange and not few_layers:
        raise ReporterError(
            f"the adapter in {folder} has weights for modules that this base lacks, such as {strange[0]}; "
            f"it was trained on {config.base_model_name_or_path!r}"
        )
    for name, tensor in whole.items():
        place = model.get_parameter(name)
        if place.shape != tensor.shape:
            raise ReporterError(
                f"the adapter in {folder} has {name} in the shape {tuple(tensor.shape)}, its base {tuple(place.shape)}"
            )
        place.data.copy_(tensor)
    if not parts:
        return model
    for name, value in {
        "task_type": None,
        "inference_mode": True,
        "target_modules": sorted({module for module, _ in parts}),
        "modules_to_save": None,
        "exclude_modules": None,
        "layers_to_transform": None,
        "layers_pattern": None,
    }.items():
        if hasattr(config, name):
            setattr(config, name, value)
    for name in ("rank_pattern", "alpha_pattern"):
        if found := getattr(config, name, None):
            setattr(config, name, {key.removeprefix(f"{model.base_model_prefix}."): v for key, v in found.items()})
    state = {f"{_SAVED_UNDER}{module}.{rest}": tensor for (module, rest), tensor in parts.items()}
    try:
        wrapped = peft.get_peft_model(model, config)
        peft.set_peft_model_state_dict(wrapped, state)
        lacking = sorted(set(peft.get_peft_model_state_dict(wrapped)) - set(state))
        if not hasattr(wrapped, "merge_and_unload"):
            raise ReporterError(
                f"the adapter in {folder} ({config.peft_type.value}) changes no weights that could be merged"
            )
        if lacking:
            raise ReporterError(f"the adapter in {folder} lacks {lacking[0].removeprefix(_SAVED_UNDER)}")
        return wrapped.merge_and_unload(safe_merge=True).eval().requires_grad_(False)
    except ReporterError:
        raise
    except Exception as error:  # shapes of another base, NaN, a kind of adapter that cannot be merged
        raise ReporterError(f"the adapter in {folder} cannot be merged into this base: {said_by(error)}") from error


def _read(file: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return {name.removeprefix(_SAVED_UNDER): tensor for name, tensor in load_file(str(file)).items()}


def _matched(
    model: Any, given: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[tuple[str, str], Tensor], list[str]]:
    """Sort an adapter's weights: whole weights by name, parts by module and their name in it, and what fits nowhere."""
    prefix = f"{model.base_model_prefix}."
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    leaves = {name for name, module in model.named_modules() if next(module.children(), None) is None}
    whole: dict[str, Tensor] = {}
    parts: dict[tuple[str, str], Tensor] = {}
    strange: list[str] = []
    for name, tensor in given.items():
        for candidate in (name, name.removeprefix(prefix), f"{prefix}{name}"):
            split = _inside(candidate, leaves)
            if candidate in parameters:
                whole[candidate] = tensor
            elif split is not None:
                parts[split] = tensor
            else:
                continue
            break
        else:
            if re.search(r"\.\d+\.", name) and not name.removeprefix(prefix).startswith(_HALVES):
                strange.append(name)
    return whole, parts, strange


def _inside(name: str, leaves: set[str]) -> tuple[str, str] | None:
    pieces = name.split(".")
    for end in range(len(pieces) - 1, 0, -1):
        if (module := ".".join(pieces[:end])) in leaves:
            return module, ".".join(pieces[end:])
    return None
