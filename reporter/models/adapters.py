"""Merges an adapter that PEFT saved (LoRA and its like) into the weights of its base."""

import copy
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from reporter.core.errors import ReporterError, failing_as
from reporter.core.imports import optional
from reporter.models.model_folder import ADAPTER_WEIGHTS, adapter_files, unwrapped

PEFT = "base_model."
"""How PEFT begins the name of every weight of an adapter; what all modules share has no other prefix."""
OF_MODULES = "base_model.model."
"""How it begins the name of a weight that belongs to a module."""
_IN_PLACE = re.compile(r"\.(?:modules_to_save|token_adapter)(?=\.)|\.base_layer(?=\.(?:weight|bias)$)")
_ROWS = "trainable_tokens_delta"
_HALVES = ("encoder.", "decoder.")  # of which one is not built where the other is measured


def merged(model: Any, folder: Path, *, few_layers: bool) -> Any:
    """Return a model with an adapter merged into its weights, as ``merge_and_unload`` of PEFT does it.

    The adapter may have been trained on a model with a head, whose names begin otherwise: its weights are matched with
    modules by name with or without the base's prefix. What belongs to a head that is not there is left out. Whole
    weights, single rows of an embedding, new tokens and repeated layers are put into the model before the rest is
    merged.
    """
    adapter_files(folder)
    peft = optional("peft", "peft", "an adapter")
    from safetensors.torch import load_file

    with failing_as(f"cannot read the adapter in {folder}"):
        config = peft.PeftConfig.from_pretrained(str(folder))
        stored = load_file(str(folder / ADAPTER_WEIGHTS))
        saved = _as_built(model, config, {unwrapped(name): tensor for name, tensor in stored.items()})
    _refuse_what_is_no_weight(config, folder)
    given = {_IN_PLACE.sub("", n.removeprefix(OF_MODULES)): x for n, x in saved.items() if ".original_module." not in n}
    if getattr(config, "layer_replication", None) and not few_layers:
        with failing_as(f"cannot repeat layers as the adapter in {folder} asks for"):
            _repeat_layers(model, config.layer_replication)
    owners = _owners(model, tuple(f".{name}" for name in getattr(config, "target_parameters", None) or ()))
    whole, parts, strange = _matched(model, given, owners)
    rows = {module: x for (module, rest), x in parts.items() if rest == _ROWS}
    parts = {key: x for key, x in parts.items() if key[1] != _ROWS}
    trained_on = (
        f"use the base that it was trained on, {config.base_model_name_or_path!r}; if this is it, its parts had other "
        "names then, so merge the adapter with the libraries that saved it"
    )
    if not (parts or whole or rows or few_layers) and (strange or not given):  # else it is for a head alone
        first = next(iter(given), "none")
        raise ReporterError(
            f"no weight of the adapter in {folder} fits this base (first weight: {first}); {trained_on}"
        )
    if strange and not few_layers:
        raise ReporterError(
            f"the adapter in {folder} has weights for modules that this base lacks, such as {strange[0]}; {trained_on}"
        )
    of_row = {module: _indices(config, module) for module in rows}
    _resize(model, whole, parts, of_row, folder)
    _untie(model, config, {module for module, _ in parts})
    for name, tensor in whole.items():
        place = model.get_parameter(name)
        if place.shape != tensor.shape:
            raise ReporterError(
                f"the adapter in {folder} has {name} in the shape {tuple(tensor.shape)}, but the base has "
                f"{tuple(place.shape)}; {trained_on}"
            )
        place.data.copy_(tensor)
    for module, tensor in rows.items():
        with failing_as(f"cannot replace the rows of {module} that the adapter in {folder} trained"):
            model.get_submodule(module).weight.data[of_row[module]] = tensor.to(model.dtype)
    if not parts:
        return model
    shared = {n: x for n, x in saved.items() if n.startswith(PEFT) and not n.startswith(OF_MODULES)}
    state = {f"{OF_MODULES}{module}.{rest}": tensor for (module, rest), tensor in parts.items()} | shared
    _point_at(config, sorted({module for module, _ in parts} - owners), f"{model.base_model_prefix}.")
    # It may have shapes of another base, NaN, or be of a kind that cannot be merged.
    with failing_as(f"cannot merge the adapter in {folder} into this base"):
        wrapped = peft.get_peft_model(model, config)
        peft.set_peft_model_state_dict(wrapped, state)
        lacking = sorted(set(peft.get_peft_model_state_dict(wrapped, save_embedding_layers=False)) - set(state))
        if not hasattr(wrapped, "merge_and_unload"):
            raise ReporterError(
                f"an adapter of type {config.peft_type.value} ({folder}) cannot be merged into weights; use LoRA or a "
                "similar type"
            )
        if lacking:
            raise ReporterError(
                f"the adapter in {folder} lacks {lacking[0].removeprefix(OF_MODULES)}; save it again with PEFT"
            )
        return wrapped.merge_and_unload(safe_merge=True).eval().requires_grad_(False)


def _as_built(model: Any, config: Any, saved: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return an adapter's weights under the names of the model as transformers builds it: it has fused experts."""
    try:
        from peft.utils import transformers_weight_conversion as conversion
    except ImportError:  # an older PEFT, which goes with an older transformers
        return saved
    conversion.convert_peft_config_for_transformers(config, model, None)
    converted: dict[str, Tensor] = conversion.convert_peft_adapter_state_dict_for_transformers(model, config, saved)
    return converted


def _refuse_what_is_no_weight(config: Any, folder: Path) -> None:
    """Raise an error for an adapter that does something else than to change weights."""
    kind = config.peft_type.value
    does = ""
    if config.is_prompt_learning or kind in ("ADAPTION_PROMPT", "CARTRIDGE"):
        does = "puts trained vectors before each text or into its attention"
    elif getattr(config, "alora_invocation_tokens", None):
        does, kind = "acts only from certain tokens on", "aLoRA"
    if does:
        raise ReporterError(
            f"the adapter in {folder} is of type {kind}, which {does}, so that no weights stand for it; "
            "only an adapter that can be merged can be measured, such as LoRA"
        )


def _repeat_layers(model: Any, ranges: Sequence[tuple[int, int]]) -> None:
    """Replace the blocks by those in each range, one range after the other, each with weights of its own."""
    from peft.tuners.tuners_utils import replicate_layers

    kinds = getattr(model.config, "layer_types", None)
    replicate_layers(model, ranges)
    if kinds:
        model.config.layer_types = [kinds[i] for first, end in ranges for i in range(first, end)]
    blocks = next(
        x for x in model.modules() if isinstance(x, nn.ModuleList) and len(x) == model.config.num_hidden_layers
    )
    for i, block in enumerate(blocks):
        blocks[i] = copy.deepcopy(block)


def _indices(config: Any, module: str) -> list[int]:
    """Return which rows of an embedding an adapter trained."""
    named = getattr(config, "trainable_token_indices", None) or getattr(config, "token_indices", None) or []
    if isinstance(named, dict):
        named = next((rows for name, rows in named.items() if f".{module}".endswith(f".{name}")), [])
    return list(named)


def _resize(
    model: Any,
    whole: Mapping[str, Tensor],
    parts: Mapping[tuple[str, str], Tensor],
    of_row: Mapping[str, Sequence[int]],
    folder: Path,
) -> None:
    """Give a model as many tokens as an adapter has, which brings the rows of those that it added."""
    embedding = model.get_input_embeddings()
    name = next(name for name, module in model.named_modules() if module is embedding)
    before = embedding.weight.shape[0]
    rows = {before, *(x.shape[1] for key, x in parts.items() if key == (name, "lora_embedding_A"))}
    rows |= {1 + max(of_row.get(name) or [0])}
    brought = set(of_row.get(name, ()))
    if f"{name}.weight" in whole:
        rows = {whole[f"{name}.weight"].shape[0]}
        brought = set(range(*rows))
    if max(rows) == before:
        return
    head = model.get_output_embeddings()
    tied = head is None or head.weight is embedding.weight
    of_head = next((name for name, module in model.named_modules() if module is head), "")
    if not brought >= set(range(before, max(rows))) or not (tied or f"{of_head}.weight" in whole):
        raise ReporterError(
            f"the adapter in {folder} was trained with {max(rows):,} tokens, but the base has {before:,}, and it holds "
            "no whole embedding and head for the others; save it again with `save_embedding_layers=True`"
        )
    model.resize_token_embeddings(max(rows), mean_resizing=False)


def _untie(model: Any, config: Any, changed: set[str]) -> None:
    """Give a head weights of its own where an adapter changed it or the embedding, but not both at once."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if head is None or head.weight is not embedding.weight or getattr(config, "ensure_weight_tying", False):
        return
    names = [name for name, module in model.named_modules() if module is head or module is embedding]
    saved = tuple(f".{name}" for name in getattr(config, "modules_to_save", None) or ())
    if any(name in changed or f".{name}".endswith(saved) for name in names):
        head.weight = nn.Parameter(embedding.weight.detach().clone(), requires_grad=False)


def _point_at(config: Any, modules: list[str], prefix: str) -> None:
    """Have a configuration name those modules alone which an adapter has weights for, as they are called here."""
    for name, value in {
        "task_type": None,
        "inference_mode": True,
        "target_modules": modules,
        "bias": "none",
        "modules_to_save": None,
        "exclude_modules": None,
        "layers_to_transform": None,
        "layers_pattern": None,
        "layer_replication": None,
        "trainable_token_indices": None,
    }.items():
        if hasattr(config, name):
            setattr(config, name, value)
    for name in ("rank_pattern", "alpha_pattern"):
        if patterns := getattr(config, name, None):
            setattr(config, name, {key.removeprefix(prefix): value for key, value in patterns.items()})


def _owners(model: Any, parameters: tuple[str, ...]) -> set[str]:
    """Return the modules of parameters that are adapted themselves, such as those of fused experts."""
    names = (name for name, _ in model.named_parameters())
    return {name.rpartition(".")[0] for name in names if parameters and f".{name}".endswith(parameters)}


def _matched(
    model: Any, given: Mapping[str, Tensor], owners: set[str]
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
            split = _module_and_parameter(candidate, leaves | owners)
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


def _module_and_parameter(name: str, leaves: set[str]) -> tuple[str, str] | None:
    pieces = name.split(".")
    for end in range(len(pieces) - 1, 0, -1):
        if (module := ".".join(pieces[:end])) in leaves:
            return module, ".".join(pieces[end:])
    return None
