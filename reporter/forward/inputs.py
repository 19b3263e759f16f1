"""Inputs of a pass, known before a model is loaded: dependencies of observables, sizes of model and corpus."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reporter.core.checksums import read_note, write_note
from reporter.core.children import in_child
from reporter.core.errors import ReporterError, failures
from reporter.models.model_folder import limit_of, text_config, width_of

if TYPE_CHECKING:
    from reporter.forward.precision import Asked
    from reporter.models.checkpoint import Checkpoint
    from reporter.study.corpora import SinkSpec, Site
    from reporter.texts import Texts
    from reporter.texts.chat import Chat
    from reporter.texts.tokens import Windows


PASS_VERSION = 5  # raise it when tokens, strata or the pass change what observables see
PRECISIONS: tuple[Literal["float32", "mixed"], ...] = ("float32", "mixed")


@dataclass(frozen=True)
class Pass:
    """A corpus through a checkpoint: all that its observables depend on; device and batch size are not among it."""

    checkpoint: Checkpoint
    texts: Texts
    max_tokens: int
    sinks: SinkSpec
    sites: tuple[Site, ...]
    seed: int
    precision: Asked = "auto"
    shuffled: bool = False
    windows: Windows | None = None
    chat: Chat | None = None

    def __str__(self) -> str:
        return f"{self.checkpoint.model} {self.checkpoint.name} × {self.texts.name}"

    @property
    def inputs(self) -> dict[str, Any]:
        """Its dependencies as JSON; observables are kept under its hash."""
        return {
            "weights": self.checkpoint.weights_on(self.texts.name),
            "bos": self.checkpoint.bos,
            "sinks": self.sinks.model_dump(mode="json"),
            "texts": self.texts.hash,
            "max_tokens": self.max_tokens,
            "precision": self.precision,
            "seed": self.seed,
            "sites": sorted(self.sites),
            "shuffled": self.shuffled,
            "pass": PASS_VERSION,
            **({"window": self.windows.size, "stride": self.windows.stride} if self.windows else {}),
            **({"chat": self.chat.inputs} if self.chat else {}),
        }

    def settled(self, precision: Any) -> Pass:
        """Return the pass in the precision that ``auto`` came to; one that asks for a certain precision keeps it."""
        return replace(self, precision=precision) if self.precision == "auto" and precision in PRECISIONS else self


Kind = Literal["pass", "tokens", "model", "texts"]
FOLDERS: Mapping[Kind, str] = {"pass": "observables", "tokens": "tokens", "model": "models", "texts": "texts"}


def warnings(*texts: str | None) -> str | None:
    """Return what is to be known before numbers are believed, each in a line of its own, once; None mostly."""
    return "\n".join(dict.fromkeys(line for text in texts if text for line in text.split("\n"))) or None


# What is known of a model before it is loaded: its size by file headers, a corpus' tokens by a few texts.


TOKENS_PER_WORD = 1.35  # of English under the usual sub-word tokenizers, where this one cannot be asked
OF_RECIPES = 1.1  # their tokenizers know the words of the texts that they are trained on
ADDED = 2  # tokens that a tokenizer puts around a text
_TRIED = 200  # texts that are tokenised to know how many tokens the others have
_DEPTH = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


@dataclass(frozen=True)
class Size:
    """The size of a model."""

    layers: int
    width: int
    parameters: int
    active: int


def size_of(checkpoint: Checkpoint) -> Size | None:
    """Return how large a model is, where that can be read without loading anything."""
    if (recipe := checkpoint.recipe) is not None:
        products, inner = (3, 8 * recipe.width // 3) if recipe.architecture == "llama" else (2, 4 * recipe.width)
        block = 4 * recipe.width**2 + products * recipe.width * inner
        weights = recipe.layers * block + recipe.vocabulary * recipe.width
        return Size(recipe.layers, recipe.width, weights, weights)
    if checkpoint.states:
        shapes = _shapes(next(iter(checkpoint.states.values()))[0])
        width = shapes.get("layer/0", ())[1:]
        return Size(sum(name.startswith("layer/") for name in shapes) - 1, width[0], 0, 0) if width else None
    folder = folder_of(checkpoint)
    return None if folder is None else _size_of_folder(folder)


def _size_of_folder(folder: Path) -> Size | None:
    """Return the size by the configuration and the headers of all weights."""
    config = text_config(folder)
    depth, width = _first_number(config, _DEPTH), width_of(folder)
    files = sorted(folder.glob("*.safetensors"))
    if not depth or not width or not files:
        return None
    every = experts = 0
    for file in files:
        for name, shape in _shapes(file).items():
            every += (size := prod(shape))
            experts += size * (".experts." in name)
    chosen, available = _first_number(config, ("num_experts_per_tok",)), _first_number(config, _EXPERTS)
    idle = round(experts * (1 - chosen / available)) if chosen and available and chosen < available else 0
    return Size(depth, width, every, every - idle)


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    from safetensors import safe_open

    try:
        with safe_open(str(file), framework="np") as tensors:
            return {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118 (no mapping)
    except failures():
        return {}


def _first_number(config: dict[str, Any], keys: Sequence[str]) -> int | None:
    return next((config[key] for key in keys if isinstance(config.get(key), int)), None)


def folder_of(checkpoint: Checkpoint) -> Path | None:
    """Return the folder of a model that is on this machine already."""
    return None if checkpoint.gguf is not None else checkpoint.folder


def tokens_of(checkpoint: Checkpoint, texts: Texts, max_tokens: int, windows: Windows | None = None) -> int:
    """Return about how many tokens a model reads of a corpus, cut at the study's limit or the model's own.

    What windows repeat is read again.
    """
    if checkpoint.states:
        return min(int(texts.words * TOKENS_PER_WORD), len(texts) * max_tokens)
    folder = folder_of(checkpoint)
    longest = None if folder is None or checkpoint.recipe is not None else limit_of(folder)
    limit = max_tokens if longest is None else min(max_tokens, longest)
    if checkpoint.recipe is None and folder is not None and (read := _tokenizer(folder)) is not None:
        from reporter.texts.tokens import allowed_for

        tried = [texts[index] for index in range(0, len(texts), max(1, len(texts) // _TRIED))]
        with suppress(ReporterError):  # the run says so
            allowed = allowed_for(sum(map(len, tried)), "for an estimate")
            sizes = in_child(lambda: [len(encoding.ids) for encoding in read.encode_batch(tried)], allowed)
            lengths = [_tokens_read(size, limit, windows) for size in sizes]
            return round(sum(lengths) * len(texts) / max(1, len(tried)))
    each = OF_RECIPES if checkpoint.recipe is not None else TOKENS_PER_WORD
    words = int(texts.words * each)
    if windows is not None:
        return len(texts) * _tokens_read(words // max(1, len(texts)) + ADDED, limit, windows)
    return min(words + ADDED * len(texts), len(texts) * limit)


def _tokens_read(tokens: int, limit: int, windows: Windows | None) -> int:
    if windows is None or tokens <= limit:
        return min(tokens, limit)
    fitting = windows.within(limit)
    return tokens + -(-(tokens - limit) // fitting.stride) * max(0, fitting.size - fitting.stride)


@cache
def _tokenizer(folder: Path) -> Any:
    """Return a model's tokenizer if it is in one file, None otherwise; transformers would take seconds to import."""
    from tokenizers import Tokenizer

    from reporter.models.tokenizer import try_tokenizer

    def read() -> Tokenizer:
        return Tokenizer.from_file(str(folder / "tokenizer.json"))

    try:
        try_tokenizer(lambda: read().encode("a"), folder)
        tokenizer = read()
    except failures():  # the library raises no class of its own
        return None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


# How fast passes are on this machine: noted after a pass, read by the next plan.


RATES = "rates.json"
FEWEST_TOKENS = 1000  # of a pass whose time is remembered: fixed costs dominate a shorter one


def rate_of(cache: Path, device: str) -> float | None:
    """Return the rate of the last pass on this machine, in active parameters × tokens a second; None before any."""
    rate = (read_note(cache / RATES) or {}).get(_machine(device))
    return float(rate) if isinstance(rate, int | float) and rate > 0 else None


def note_rate(cache: Path, device: str, checkpoint: Checkpoint, tokens: int, seconds: float) -> None:
    """Remember how fast a pass was, unless it was too short to tell."""
    size = size_of(checkpoint)
    if size is not None and size.active > 0 and tokens >= FEWEST_TOKENS and seconds > 0:
        rates = read_note(cache / RATES) or {}
        write_note(cache / RATES, rates | {_machine(device): size.active * tokens / seconds})


def _machine(device: str) -> str:
    import torch

    name = torch.cuda.get_device_name(torch.device(device)) if device.startswith("cuda") else device
    return f"{platform.node()}, {name}"
