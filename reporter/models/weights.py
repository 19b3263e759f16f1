"""Builds a model from its configuration and fills in its weights, which are read or drawn at random."""

import copy
import inspect
import logging
import math
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reporter.core.errors import ReporterError, failing_as, failures, library_error
from reporter.core.imports import changed
from reporter.models.adapters import merged
from reporter.models.checkpoint import Checkpoint, seeded
from reporter.models.condition import Condition
from reporter.models.model_folder import ADAPTER, CONFIG, WEIGHTS, WRAPPERS, needs_code, unwrapped, weight_files
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
    if method == "bitnet":  # whose code would be compiled anew for every shape of a batch, by a compiler that may lack
        torch.compiler.set_stance("force_eager")
    if isinstance(settings, dict) and kind is not None and "dequantize" in inspect.signature(kind.__init__).parameters:
        settings["dequantize"] = True
    return quiet(method.replace("-", "_")) if method else nullcontext()


def unpacked(model: Any, dtype: str) -> Any:
    """Return a model with the numbers in place of its packed weights; itself where nothing is packed, or cannot be.

    Args:
        model: the model.
        dtype: the precision that was asked for, or ``auto``.
    """
    if all(p.is_floating_point() for p in model.parameters()):
        precision = model.dtype if dtype == "auto" else getattr(torch, dtype)
        for p in model.parameters():
            if p.element_size() > 1 and not p.is_meta:  # products with scales have the precision of these
                p.data = p.data.to(precision)
        return model
    of_rest = next((p.dtype for p in model.parameters() if p.is_floating_point()), model.dtype)
    try:
        return model.dequantize(dtype=of_rest).to(of_rest)
    except NotImplementedError:  # what it computes as it is must not depend on padding more than on a batch's shape
        return model


def load_module(checkpoint: Checkpoint, folder: Path) -> tuple[nn.Module, PartName | None, list[Tensor]]:
    """Return what is measured of the model in ``folder``, in evaluation mode, without a vocabulary head, and its name.

    The third are those of its weights that the files lack: no state depends on them, and each loading draws others.
    """
    config = read_config(checkpoint, folder)
    if getattr(config, "rescale_every", 0):  # RWKV halves its states in float16; the stream is meant as it was trained
        config.rescale_every = 0
    first, *alternatives = _kinds(config, checkpoint.part)
    try:
        return _measured(first, checkpoint, folder, config)
    except ReporterError:
        for kind in alternatives:
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
    if checkpoint.adapter is None and (folder / ADAPTER).is_file():
        raise ReporterError(
            f"{folder} has the weights of a model and, beside them, those of an adapter ({ADAPTER}); to measure both "
            f"together, write this folder as `adapter`, too; to measure the model alone, move {ADAPTER} elsewhere"
        )
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

    with failing_as(loading), _no_adapter(), _no_bars() if checkpoint.gguf else unpacking(config):
        model, info = read()
        taken_out: dict[str, str] = {}
        while (more := wrapped(model, info, folder)) and not more.keys() <= taken_out.keys():  # one behind another
            model, info = read(key_mapping=(taken_out := taken_out | more))
        if getattr(config, "quantization_config", None) is not None:
            model = unpacked(model, checkpoint.dtype)
    model.eval().requires_grad_(False)
    _refuse_lies(model, info, folder)
    if not few_layers:
        _refuse_leftovers(model, info["unexpected_keys"], files)
    if checkpoint.adapter is not None:
        with quiet("bitsandbytes"):  # PEFT imports it wherever it is installed
            model = merged(model, checkpoint.adapter, few_layers=few_layers)
    names = set(info["missing_keys"])
    return model, {name: x for name, x in numbers_of(model, remove_duplicate=False) if name in names}


_MOST_OF = 0.5
"""Share of a model's weights that must be found under other names: a few of them, as a pooler, no file need have."""


def wrapped(model: nn.Module, info: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return what to take out of the names of all weights, as patterns, where a program put it in; empty for nothing.

    That is a wrapper's name, or what comes before every name, such as ``module.`` or ``pretrained_model.``.

    Raises:
        ReporterError: there are the weights of two models, such as a trained one and its moving average, or they are
            named as another library names them.
    """
    missing, most = info["missing_keys"], _MOST_OF * sum(1 for _ in numbers_of(model))
    names = sorted(info["unexpected_keys"])
    if adapted := next((name for name in names if ".base_layer." in name), None):
        raise ReporterError(
            f"{folder} has the weights of a model and beside them those of an adapter, such as {adapted}; merge the "
            "adapter with `merge_and_unload` of PEFT before you save the model, or save the adapter alone"
        )
    if len(missing) < most or not names:  # most are there under their own names: others are copies
        return {}
    words = {*WRAPPERS, "module"} - {piece for name, _ in numbers_of(model) for piece in name.split(".")}
    times: Counter[str] = Counter()  # in one name
    for name in names:
        times |= Counter(piece for piece in name.split(".")[:-1] if piece in words)  # the last is the weight's own
    if times:  # a pattern takes out one occurrence in a name, and patterns are told apart by their comments
        return {rf"(?:^|(?<=\.)){word}\.(?#{i})": "" for word in sorted(times) for i in range(times[word])}
    before: Counter[str] = Counter()
    for name in names:
        pieces = name.split(".")
        ends = (end for end in range(1, len(pieces)) if _rest(pieces, end) in missing)
        before.update(f"{'.'.join(pieces[:end])}." for end in ends)
    prefixes = [prefix for prefix, count in before.items() if count >= most]
    if len(prefixes) > 1:
        raise ReporterError(
            f"{folder} has the weights {len(prefixes)} times, under {' and '.join(map(repr, sorted(prefixes)))}; save "
            "those that you mean without the others"
        )
    if not before:
        given, expected = (", ".join(sorted(some)[:3]) for some in (names, missing))
        raise ReporterError(
            f"the weights in {folder} are not named as transformers names those of this model: there are {given}, but "
            f"it has {expected}; load them with the program that saved them, and save the model with `save_pretrained`"
        )
    return {f"^{re.escape(prefix)}": "" for prefix in prefixes}


def _rest(pieces: Sequence[str], end: int) -> str:
    return ".".join(pieces[end:])


def numbers_of(module: nn.Module, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
    """Yield by name what a file of weights holds of a model: its parameters, then its persistent buffers.

    A buffer is no weight that training differentiates, yet training may set it: the bias by which a mixture of experts
    chooses, or running means.
    """
    yield from module.named_parameters(remove_duplicate=remove_duplicate)
    for prefix, part in module.named_modules(remove_duplicate=remove_duplicate):
        for name, buffer in part.named_buffers(recurse=False):
            counts = buffer.is_floating_point() or buffer.dim() > 1  # integers are packed weights, or steps of training
            if name not in part._non_persistent_buffers_set and counts:
                yield f"{prefix}.{name}" if prefix else name, buffer


def _no_adapter() -> AbstractContextManager[None]:
    """Keep transformers from adding an adapter that lies in the folder of its base, where PEFT is installed."""
    from transformers import modeling_utils

    return changed(modeling_utils, maybe_load_adapters=lambda path, *args, **kwargs: (None, path, {}))


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


def _refuse_leftovers(model: nn.Module, unexpected: Collection[str], files: Sequence[Path]) -> None:
    """Raise an error for weights in the files that belong into the model, which has no place for them.

    Without them states would be those of another model. What is in no module or beside the blocks belongs to a head,
    or is a copy; what is the same in several blocks was not trained, such as masks and frequencies of rotations.
    """
    modules, folder = dict(model.named_modules()), files[0].parent
    inside: dict[str, torch.Size | None] = {}
    for name in sorted(unexpected):
        pieces = name.removeprefix(f"{model.base_model_prefix}.").split(".")
        end = next(end for end in range(len(pieces) - 1, -1, -1) if ".".join(pieces[:end]) in modules)
        home, rest = modules[".".join(pieces[:end])], pieces[end:]
        if isinstance(home, nn.ModuleList | nn.Sequential) and rest[0].isdigit():
            joined = any(f".{rest[0]}.{part}." in other for other in unexpected for part in _JOINED)
            if not joined and not _predicts(int(rest[0]), model.config):
                raise ReporterError(
                    f"{folder}: the weights have more layers than {CONFIG}, such as {name}; "
                    f"correct the number of layers in {CONFIG}, or save the model again"
                )
        elif end and (any(map(str.isdigit, pieces[:end])) or next(home.children(), None) is None):
            shapes = (weight.shape for key, weight in home.named_parameters(recurse=False) if rest[0].startswith(key))
            inside[name] = next(shapes, None)
    if trained := _trained(inside, files):
        more = f" and {len(trained) - 1} more" if len(trained) > 1 else ""
        remedy = f"use the {CONFIG} of these weights"
        if "scale" in trained[0]:
            remedy = "they are quantised in a way that transformers does not unpack, so measure the original model"
        raise ReporterError(
            f"{folder} holds {trained[0]}{more}, for which the model of its {CONFIG} has no place, so that its states "
            f"would be those of another model; {remedy}"
        )


_COMPUTED = re.compile(
    r"inv_freq$|masked_bias$|_cached$|(?:activation|input|output|[qkv](?:_cache)?)_(?:global_)?(?:scale|zero_point)$"
)
"""What older models saved though they compute it, and what rounding of states needs, which is not done here."""


def _trained(names: Mapping[str, torch.Size | None], files: Sequence[Path]) -> list[str]:
    """Return those of some weights that training set: with fractions, not 0, and not the same in two blocks.

    Args:
        names: their names, with the shape of the weight whose name each continues, since one of that shape is a copy,
            such as a moving average.
        files: where they are.
    """

    def named(name: str) -> str:
        pieces = unwrapped(name).split(".")
        return next((rest for end in range(len(pieces)) if (rest := _rest(pieces, end)) in names), "")

    tensors = {named(name): x for name, x in stored(files, lambda name: bool(named(name)))} if names else {}
    contents = {name: x.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for name, x in tensors.items()}
    times = Counter(contents.values())

    def trained(name: str) -> bool:
        x = tensors.get(name)
        if x is None:
            return True
        scales = "scale" in name and not bool((x == 1).all())
        of_training = x.is_floating_point() and x.shape != names[name] and (scales or times[contents[name]] == 1)
        return of_training and bool(x.float().any())

    return [name for name in names if not _COMPUTED.search(name) and trained(name)]


def stored(files: Iterable[Path], wanted: Callable[[str], bool]) -> Iterator[tuple[str, Tensor]]:
    """Yield by name, without wrappers of PyTorch, those weights in files that are wanted."""
    from safetensors import safe_open

    for file in files:
        if file.suffix == ".safetensors":
            with safe_open(str(file), framework="pt") as content:
                for name in content.keys():  # noqa: SIM118 (no mapping)
                    if wanted(name):
                        yield unwrapped(name), content.get_tensor(name)
        elif file.suffix == ".bin":
            weights = torch.load(file, map_location="cpu", weights_only=True)
            yield from ((unwrapped(name), x) for name, x in weights.items() if wanted(name))


def _refuse_lies(model: nn.Module, info: Mapping[str, Any], folder: Path) -> None:
    """Raise an error for weights that cannot come from training."""
    for name, shape, expected in sorted(info["mismatched_keys"]):
        asks, remedy = CONFIG, f"use the {CONFIG} of these weights"
        if not (folder / CONFIG).is_file():  # a GGUF file
            asks, remedy = "what transformers reads from its header", "convert it again, or measure the original model"
        raise ReporterError(
            f"{folder}: the weight {name} has the shape {tuple(shape)}, but {asks} asks for {tuple(expected)}; {remedy}"
        )
    weights = dict(numbers_of(model, remove_duplicate=False))
    anything = False
    for name, weight in weights.items():
        if not weight.is_floating_point() or weight.is_meta or name in info["missing_keys"]:  # quantised, or not here
            anything = True
            continue
        if weight.element_size() == 1:
            raise ReporterError(
                f"{folder}: the weight {name} has numbers of 8 bits ({weight.dtype}) without the scales that multiply "
                "them; save or download the model again, or measure the original model"
            )
        values = weight.detach()
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


def _predicts(block: int, config: Any) -> bool:
    """Whether a layer after the last predicts further tokens; transformers leaves it out."""
    text = config.get_text_config()
    more = max((n for key, n in vars(text).items() if _PREDICTION.search(key) and isinstance(n, int)), default=0)
    return block < (getattr(text, "num_hidden_layers", 0) or 0) + more


_PREDICTION = re.compile("(?:mtp|nextn).*(?:layers|modules)")
_JOINED = ("eh_proj", "enorm", "hnorm")
"""Parts of such a layer, which join the state of a token with the embedding of the next."""


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
    buffer may decide without a gradient, as about the choice of experts: it is changed, and the result compared. One
    with several values was computed from the configuration; what training sets begins with zeros or ones.
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
            if name not in weights and bool((buffer == buffer.flatten()[:1]).all()):
                before, draws = buffer.clone(), torch.Generator().manual_seed(0)
                for _ in range(_DRAWS):  # one may leave a choice as it was
                    buffer.copy_(before + 10 * torch.randn(buffer.shape, generator=draws).to(buffer))
                    if not torch.equal(run(), result):
                        names.append(name)
                        break
                buffer.copy_(before)
    names.sort()
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


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
    numbers, tensors, largest = {True: 0, False: 0}, 0, 0
    for _, tensor in headers(files):
        shape = tensor.get_shape()
        tensors, largest = tensors + 1, max(largest, 0, *shape)
        numbers[tensor.get_dtype()[:1] in "IU"] += math.prod(shape)
    return Header(tensors, numbers[True], numbers[False], largest)


def headers(files: Iterable[Path]) -> Iterator[tuple[str, Any]]:
    """Yield by name what safetensors files say of each tensor, its shape and type, without reading it."""
    from safetensors import safe_open

    for file in files:
        if file.suffix == ".safetensors":
            try:
                with safe_open(str(file), framework="pt") as content:  # compares its header with its size
                    yield from ((name, content.get_slice(name)) for name in content.keys())  # noqa: SIM118 (no mapping)
            except failures() as error:
                raise ReporterError(f"{file} is damaged: {error}; save or download it again") from error


def refuse_claims(config: Any, header: Header, folder: Path) -> None:
    """Refuse a configuration that claims more than the weights can hold, before anything of it is built.

    Every layer has a weight of its own, or shares those of others, of which there are several; no width is larger than
    the largest dimension of a weight. The table of positions may be computed, so that only absurd ones are refused.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config  # it decides where there is one
    for name in LAYERS:
        claimed = getattr(text, name, None)
        if isinstance(claimed, int) and claimed > header.tensors:
            raise ReporterError(
                f"{folder}: {CONFIG} says {claimed:,} layers ({name}), but there are only {header.tensors:,} "
                f"weights; use the {CONFIG} of these weights"
            )
    for name in _WIDTHS:
        claimed = getattr(text, name, None)
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
