"""Builds a model from its configuration and fills in its weights, which are read or drawn at random."""

import copy
import inspect
import logging
import math
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reporter.core.errors import ReporterError, failing_as, failures, library_error
from reporter.core.imports import changed, optional
from reporter.models.checkpoint import Checkpoint, seeded
from reporter.models.condition import Condition
from reporter.models.model_folder import ADAPTER_WEIGHTS, CONFIG, WEIGHTS, adapter_files, needs_code, weight_files
from reporter.models.parts import PartName, measured_part, spread

# Quantised weights, unpacked when they are loaded, so that what is measured are the numbers that they stand for.
#
# Products with packed weights are rounded as a kernel likes, which depends on the shape of a batch; those of 8 bits
# (LLM.int8(), Dettmers et al. 2022) even leave out of the rounding whatever dimension is large in any token of the
# batch, so that a token's state depends on its neighbours. Neither is a property of the model.


@contextmanager
def quiet(library: str) -> Iterator[None]:
    """Silence a library's warnings about missing faster kernels."""
    logger = logging.getLogger(library)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def unpacking(config: Any) -> AbstractContextManager[None]:
    """Have weights unpacked while they are loaded, where their format knows how to, and keep its library quiet."""
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING as KINDS

    settings = getattr(config, "quantization_config", None)
    named = settings.get("quant_method") if isinstance(settings, dict) else getattr(settings, "quant_method", None)
    method = str(getattr(named, "value", named) or "")
    kind = KINDS.get(method)
    if isinstance(settings, dict) and kind is not None and "dequantize" in inspect.signature(kind.__init__).parameters:
        settings["dequantize"] = True
    return quiet(method.replace("-", "_")) if method else nullcontext()


def unpacked(model: Any) -> Any:
    """Return a model with the numbers in place of its packed weights; itself where nothing is packed, or cannot be."""
    if getattr(model, "hf_quantizer", None) is None or all(p.is_floating_point() for p in model.parameters()):
        return model
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), model.dtype)
    try:
        return model.dequantize(dtype=dtype).to(dtype)
    except NotImplementedError:  # what it computes as it is must not depend on padding more than on a batch's shape
        return model


def load_module(checkpoint: Checkpoint, folder: Path) -> tuple[nn.Module, PartName | None, list[Tensor]]:
    """Return what is measured of the model in ``folder``, in evaluation mode, without a vocabulary head, and its name.

    The third are those of its weights that the files lack: no state depends on them, and each loading draws others.
    """
    config = read_config(checkpoint, folder)
    if getattr(config, "rescale_every", 0):  # RWKV halves its states in float16; the stream is meant as it was trained
        config.rescale_every = 0
    first, *others = _kinds(config, checkpoint.part)
    try:
        return _measured(first, checkpoint, folder, config)
    except ReporterError:
        for kind in others:
            with suppress(ReporterError):
                return _measured(kind, checkpoint, folder, config)
        raise


def _measured(
    kind: Any, checkpoint: Checkpoint, folder: Path, config: Any
) -> tuple[nn.Module, PartName | None, list[Tensor]]:
    whole, missing = build(kind, checkpoint, folder, config)
    measured = measured_part(getattr(whole, "base_model", whole), checkpoint.part, folder)
    module: Any = measured[0]
    condition = Condition.of(module)
    ids = torch.zeros((1, 2), dtype=torch.long)
    with failing_as("the model fails on a short test input"):
        lacking = needed(lambda: module(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state, missing)
    condition.restore()
    if lacking:
        raise ReporterError(
            f"{folder} lacks weights that {CONFIG} asks for: {lacking}; use the {CONFIG} of these weights, or save the "
            "model again"
        )
    return *measured, list(missing.values())


def build(
    kind: Any, checkpoint: Checkpoint, folder: Path, config: Any, *, few_layers: bool = False
) -> tuple[Any, dict[str, Tensor]]:
    """Return a model with the weights in ``folder``, or with drawn ones, in evaluation mode and without gradients.

    Returns:
        the model, and those of its weights by name that the files lack; of drawn weights none does.
    """
    if checkpoint.initialised is not None:
        if (folder / WEIGHTS).is_file():  # a claim that is wrong there would be as large here
            refuse_claims(config, read_headers([folder / WEIGHTS]), folder)
        return _random_model(kind, checkpoint, config, checkpoint.initialised), {}
    files = [folder / checkpoint.gguf] if checkpoint.gguf else weight_files(folder, checkpoint.allow_pickle)
    safe = files[0].name.startswith(WEIGHTS)
    if safe:
        _check_safetensors(files, config)
    loading = f"cannot load the weights in {folder} (check {CONFIG})"

    def read(**more: Any) -> tuple[Any, Any]:
        return kind.from_pretrained(  # type: ignore[no-any-return]
            str(folder),
            config=copy.deepcopy(config),
            dtype=checkpoint.dtype if checkpoint.dtype == "auto" else getattr(torch, checkpoint.dtype),
            **(checkpoint.source_file if checkpoint.gguf else {"use_safetensors": safe}),
            **(spread(checkpoint.split) if checkpoint.split and not few_layers else {}),
            trust_remote_code=checkpoint.trust_remote_code,
            local_files_only=not checkpoint.trust_remote_code,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # it is said below, which weight and how wide
            **more,
        )

    with failing_as(loading), _no_bars() if checkpoint.gguf else unpacking(config):
        model, info = read()
        if prefix := wrapper(info["missing_keys"], info["unexpected_keys"], folder):
            model, info = read(key_mapping={f"^{re.escape(prefix)}": ""})
        model = unpacked(model)
    model.eval().requires_grad_(False)
    _refuse_lies(model, info, folder, few_layers)
    if checkpoint.adapter is not None:
        with quiet("bitsandbytes"):  # PEFT imports it wherever it is installed
            model = merged(model, checkpoint.adapter, few_layers=few_layers)
    names = set(info["missing_keys"])
    return model, {name: x for name, x in numbers_of(model, remove_duplicate=False) if name in names}


def wrapper(missing: Collection[str], unexpected: Collection[str], folder: Path) -> str:
    """Return what a program has put before the name of every weight, such as ``_orig_mod.`` or ``module.``.

    Raises:
        ReporterError: there are the weights of two models, such as a trained one and its moving average.
    """
    covered: Counter[str] = Counter()
    for name in unexpected:
        pieces = name.split(".")
        for end in range(1, len(pieces)):
            if ".".join(pieces[end:]) in missing:
                covered[".".join(pieces[:end]) + "."] += 1
    whole = [prefix for prefix, count in covered.items() if count >= MOST_OF * len(missing)]
    if len(whole) > 1:
        raise ReporterError(
            f"{folder} has the weights {len(whole)} times, under {' and '.join(map(repr, sorted(whole)))}; save those "
            "that you mean without the others"
        )
    return whole[0] if whole else ""


MOST_OF = 0.9
"""Share of a model's weights that a prefix must cover; some of them, as a pooler, no file need have."""


def numbers_of(module: nn.Module, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
    """Yield by name what a file of weights holds of a model: its parameters, then its persistent buffers.

    A buffer is no weight that training differentiates, yet training may set it: the bias by which a mixture of experts
    chooses, or running means.
    """
    yield from module.named_parameters(remove_duplicate=remove_duplicate)
    for prefix, part in module.named_modules(remove_duplicate=remove_duplicate):
        for name, buffer in part.named_buffers(recurse=False):
            if name not in part._non_persistent_buffers_set and buffer.is_floating_point():
                yield f"{prefix}.{name}" if prefix else name, buffer


def _no_bars() -> AbstractContextManager[None]:
    """Keep transformers from drawing a bar while it unpacks a GGUF file, which it does whatever it was told."""
    from transformers import modeling_gguf_pytorch_utils

    return changed(modeling_gguf_pytorch_utils, tqdm=lambda items, *args, **kwargs: items)


def _random_model(kind: Any, checkpoint: Checkpoint, config: Any, seed: int) -> Any:
    dtype = checkpoint.dtype if checkpoint.dtype != "auto" else (config.dtype or torch.float32)
    with failing_as("cannot initialise random weights"), seeded(seed):
        model = kind.from_config(
            config,
            dtype=getattr(torch, dtype) if isinstance(dtype, str) else dtype,
            trust_remote_code=checkpoint.trust_remote_code,
        )
    return model.eval().requires_grad_(False)


def read_config(checkpoint: Checkpoint, folder: Path) -> Any:
    """Return the configuration of the model in ``folder``."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(
            str(folder),
            **checkpoint.source_file,
            trust_remote_code=checkpoint.trust_remote_code,
            local_files_only=not checkpoint.trust_remote_code,
        )
    except failures() as error:
        if not checkpoint.trust_remote_code and "trust_remote_code" in str(error):
            raise needs_code(folder) from error
        raise ReporterError(
            f"cannot read {folder / CONFIG}: {library_error(error)}; correct the file, or update transformers"
        ) from error


def _kinds(config: Any, part: str | None) -> list[Any]:
    """Return transformers' classes that may load a model: the usual one, and others where that one fails.

    It cannot build the encoder of T5Gemma alone, and reads some weights rightly only in the class that saved them.
    """
    import transformers
    from transformers import MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING, AutoModel, AutoModelForTextEncoding

    named = (getattr(config, "architectures", None) or [""])[0]
    has_decoder = getattr(config, "is_encoder_decoder", False) or named.endswith("EncoderModel")
    if has_decoder and part != "decoder" and type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING:
        return [AutoModelForTextEncoding, AutoModel]
    declared = getattr(transformers, named, None)
    if getattr(declared, "config_class", None) is not type(config):
        return [AutoModel]
    return [AutoModel, declared] if type(config) in MODEL_MAPPING else [declared]


def _refuse_lies(model: nn.Module, info: Mapping[str, Any], folder: Path, few_layers: bool) -> None:
    """Raise an error for weights that cannot come from training."""
    for name, shape, expected in sorted(info["mismatched_keys"]):
        raise ReporterError(
            f"{folder}: the weight {name} has the shape {tuple(shape)}, but {CONFIG} asks for {tuple(expected)}; use "
            f"the {CONFIG} of these weights"
        )
    weights = dict(numbers_of(model, remove_duplicate=False))
    layers = {re.sub(r"\.\d+\.", ".*.", name) for name in weights if re.search(r"\.\d+\.", name)}
    copies = tuple(f".{name}" for name in weights)  # of all weights, under another name: a moving average
    for name in sorted(info["unexpected_keys"]):
        if (
            not few_layers
            and not _predicts(name, model.config)
            and not name.endswith(copies)
            and any(re.sub(r"\.\d+\.", ".*.", name).endswith(layer) for layer in layers)
        ):
            raise ReporterError(
                f"{folder}: the weights have more layers than {CONFIG}, such as {name}; "
                f"correct the number of layers in {CONFIG}, or save the model again"
            )
    anything = False
    for name, weight in weights.items():
        if not weight.is_floating_point() or weight.is_meta:  # quantised, or not here
            anything = True
            continue
        values = weight.detach().float() if weight.element_size() == 1 else weight.detach()
        norm = torch.linalg.vector_norm(values, dtype=torch.float32)
        if not torch.isfinite(norm) and not torch.isfinite(values).all():
            what = "NaN" if torch.isnan(values).any() else "infinity"
            raise ReporterError(
                f"{folder}: the weight {name} holds {what}. Training diverged, or the file is damaged; use another "
                "checkpoint or download it again"
            )
        anything = anything or bool(norm > 0)
    if weights and not anything:
        raise ReporterError(f"{folder}: all weights are 0; save or download the model again")


def _predicts(name: str, config: Any) -> bool:
    """Whether a weight is of a layer after the last that predicts further tokens; transformers leaves it out."""
    text = config.get_text_config()
    layers, more = (getattr(text, key, 0) or 0 for key in ("num_hidden_layers", "num_nextn_predict_layers"))
    block = re.search(r"\.(\d+)\.", name)
    return block is not None and layers <= int(block[1]) < layers + more


def _check_safetensors(files: list[Path], config: Any) -> None:
    header = read_headers(files)
    if header.integers > header.floats and getattr(config, "quantization_config", None) is None:
        raise ReporterError(
            f"{files[0]} holds integers, but {CONFIG} has no quantization_config; add the quantization_config of these "
            "quantised weights"
        )
    refuse_claims(config, header, files[0].parent)


_DRAWS = 8


def needed(run: Callable[[], Tensor], missing: Mapping[str, Tensor]) -> str:
    """Return the names of those weights that take part in computing what ``run`` returns; empty where none does.

    They are found by differentiating it, so that it needs no list of names: a pooler is not used by the states. A
    buffer may decide without a gradient, as about the choice of experts: it is changed, and the result compared.
    """
    if not missing:
        return ""
    weights = {name: x for name, x in missing.items() if isinstance(x, nn.Parameter)}
    with torch.enable_grad():
        for p in weights.values():
            p.requires_grad_(True)
        result = run()
        gradients: Sequence[Tensor | None] = [None] * len(weights)
        if weights and result.requires_grad:
            gradients = torch.autograd.grad(result.float().sum(), list(weights.values()), allow_unused=True)
        for p in weights.values():
            p.requires_grad_(False)
    names = [name for name, gradient in zip(weights, gradients, strict=True) if gradient is not None]
    with torch.no_grad():
        for name, buffer in missing.items():
            if name not in weights:
                before, draws = buffer.clone(), torch.Generator().manual_seed(0)
                for _ in range(_DRAWS):  # one may leave a choice as it was
                    buffer.copy_(before + 10 * torch.randn(buffer.shape, generator=draws).to(buffer))
                    if not torch.equal(run(), result):
                        names.append(name)
                        break
                buffer.copy_(before)
    names.sort()
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# Adapters that PEFT saved (LoRA and its like): read from safetensors and merged into the weights of their base.


_SAVED_UNDER = "base_model.model."  # how PEFT begins the name of every weight
_HALVES = ("encoder.", "decoder.")  # of which one is not built where the other is measured


def merged(model: Any, folder: Path, *, few_layers: bool) -> Any:
    """Return a model with an adapter merged into its weights, as ``merge_and_unload`` of PEFT does it.

    The adapter may have been trained on a model with a head, whose names begin otherwise: its weights are matched with
    modules by name with or without the base's prefix. What belongs to a head that is not there is left out.
    """
    adapter_files(folder)
    peft = optional("peft", "peft", "an adapter")
    from safetensors.torch import load_file

    with failing_as(f"cannot read the adapter in {folder}"):
        config = peft.PeftConfig.from_pretrained(str(folder))
        saved = load_file(str(folder / ADAPTER_WEIGHTS))
        given = {name.removeprefix(_SAVED_UNDER): tensor for name, tensor in saved.items()}
    whole, parts, strange = _matched(model, given)
    if not parts and not whole and not few_layers:
        first = next(iter(given), "none")
        raise ReporterError(
            f"no weight of the adapter in {folder} fits this base (first weight: {first}); use the base that it was "
            f"trained on, {config.base_model_name_or_path!r}"
        )
    if strange and not few_layers:
        raise ReporterError(
            f"the adapter in {folder} has weights for modules that this base lacks, such as {strange[0]}; "
            f"use the base that it was trained on, {config.base_model_name_or_path!r}"
        )
    for name, tensor in whole.items():
        place = model.get_parameter(name)
        if place.shape != tensor.shape:
            raise ReporterError(
                f"the adapter in {folder} has {name} in the shape {tuple(tensor.shape)}, but the base has "
                f"{tuple(place.shape)}; use the base that it was trained on, {config.base_model_name_or_path!r}"
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
        if patterns := getattr(config, name, None):
            setattr(config, name, {key.removeprefix(f"{model.base_model_prefix}."): v for key, v in patterns.items()})
    state = {f"{_SAVED_UNDER}{module}.{rest}": tensor for (module, rest), tensor in parts.items()}
    # It may have shapes of another base, NaN, or be of a kind that cannot be merged.
    with failing_as(f"cannot merge the adapter in {folder} into this base"):
        wrapped = peft.get_peft_model(model, config)
        peft.set_peft_model_state_dict(wrapped, state)
        lacking = sorted(set(peft.get_peft_model_state_dict(wrapped)) - set(state))
        if not hasattr(wrapped, "merge_and_unload"):
            raise ReporterError(
                f"an adapter of type {config.peft_type.value} ({folder}) cannot be merged into weights; use LoRA or a "
                "similar type"
            )
        if lacking:
            raise ReporterError(
                f"the adapter in {folder} lacks {lacking[0].removeprefix(_SAVED_UNDER)}; save it again with PEFT"
            )
        return wrapped.merge_and_unload(safe_merge=True).eval().requires_grad_(False)


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
            split = _module_and_parameter(candidate, leaves)
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


# Bounds on loading: the configuration is compared with the headers of the weights, and time is limited.


LOADING_MINUTES = 15.0
MINUTES_PER_GIGABYTE = 2.0

LAYERS = ("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers")
_WIDTHS = ("hidden_size", "d_model", "intermediate_size", "ffn_dim", "d_ff", "vocab_size", "max_position_embeddings")
_PACKED = 8  # numbers of 4 bits in one of 32


@dataclass(frozen=True)
class Header:
    """The content of the headers of safetensors files, read without the weights.

    Args:
        tensors: how many there are.
        integers: how many numbers of them are integers.
        floats: how many are not.
        largest: the largest dimension.
    """

    tensors: int
    integers: int
    floats: int
    largest: int


def read_headers(files: Sequence[Path]) -> Header:
    """Read the headers of weights; an index among the files is passed over."""
    from safetensors import safe_open

    numbers, tensors, largest = {True: 0, False: 0}, 0, 0
    for file in files:
        if file.suffix != ".safetensors":
            continue
        try:
            with safe_open(str(file), framework="pt") as content:  # compares its header with its size
                for name in content.keys():  # noqa: SIM118 (no mapping)
                    tensor = content.get_slice(name)
                    shape = tensor.get_shape()
                    tensors, largest = tensors + 1, max(largest, *shape, 0) if shape else largest
                    numbers[tensor.get_dtype()[:1] in "IU"] += math.prod(shape)
        except failures() as error:
            raise ReporterError(f"{file} is damaged: {error}; save or download it again") from error
    return Header(tensors, numbers[True], numbers[False], largest)


def refuse_claims(config: Any, header: Header, folder: Path) -> None:
    """Refuse a configuration that claims more than the weights can hold, before anything of it is built.

    Every layer has a weight of its own, or shares those of others, of which there are several; no width is larger than
    the largest dimension of a weight. The table of positions may be computed, so that only absurd ones are refused.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    for part in {id(settings): settings for settings in (config, text)}.values():
        for name in LAYERS:
            claimed = getattr(part, name, None)
            if isinstance(claimed, int) and claimed > header.tensors:
                raise ReporterError(
                    f"{folder}: {CONFIG} says {claimed:,} layers ({name}), but there are only {header.tensors:,} "
                    f"weights; use the {CONFIG} of these weights"
                )
        for name in _WIDTHS:
            claimed = getattr(part, name, None)
            most = header.largest * _PACKED if name != "max_position_embeddings" else 1 << 30
            if isinstance(claimed, int) and claimed > most:
                raise ReporterError(
                    f"{folder}: {CONFIG} says {name} {claimed:,}, but the largest dimension of the weights is "
                    f"{header.largest:,}; use the {CONFIG} of these weights"
                )


@contextmanager
def limited(folder: Path, minutes: float = LOADING_MINUTES) -> Iterator[None]:
    """Break off what is done inside after ``minutes``, and ``MINUTES_PER_GIGABYTE`` more for each of weights.

    It works in the main thread of systems with alarms; elsewhere there is no limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    size = sum(file.stat().st_size for file in folder.glob("*") if file.suffix in (".safetensors", ".bin", ".gguf"))
    allowed = minutes + MINUTES_PER_GIGABYTE * size / 1e9

    def late(number: int, frame: Any) -> None:
        raise ReporterError(
            f"loading took longer than {allowed:.3g} minutes, the limit for {size / 1e9:.3g} GB of weights; copy the "
            f"model to a faster disk, or check its {CONFIG}"
        )

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, allowed * 60)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
