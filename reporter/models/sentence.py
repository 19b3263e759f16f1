"""Sentence encoders: the vector that a model's own pipeline makes of its last hidden state.

A folder of sentence-transformers names its modules in ``modules.json``: pooling, dense layers, a norm, and prompts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.core.errors import ReporterError, failing_as, one_line
from reporter.core.json_text import read_json
from reporter.models.model_folder import TOKENIZER_CONFIG

if TYPE_CHECKING:
    import torch

MODULES = "modules.json"
_SETTINGS = "config_sentence_transformers.json"
_MODES = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
_NO_LIMIT = 1e9  # tokenizers without one name 10^30
_ACTIVATIONS = {"Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid"}


@dataclass(frozen=True)
class Dense:
    """A dense layer: weights (out, in), biases (out,) or None, and the name of its activation in torch."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    activation: str


@dataclass(frozen=True)
class ReadingSettings:
    """How a sentence encoder reads a text.

    Args:
        prompt: what stands before each text by default.
        lowercase: whether prompt and text become lower case.
        max_tokens: where texts are cut; None for the limit of the model.
    """

    prompt: str = ""
    lowercase: bool = False
    max_tokens: int | None = None

    def given(self, text: str) -> str:
        """Return what the tokenizer gets for a text."""
        whole = self.prompt + text
        return whole.lower() if self.lowercase else whole


@dataclass(frozen=True)
class SentencePipeline:
    """What a sentence encoder does after its last block.

    Args:
        modes: how token states become one vector; several are joined.
        dense: layers that follow.
        normalised: whether the vector gets length 1.
        reading: what it reads of a text.
        pools_prompt: whether the tokens of the prompt count.
    """

    modes: tuple[str, ...]
    dense: tuple[Dense, ...]
    normalised: bool
    reading: ReadingSettings
    pools_prompt: bool = True

    @property
    def says(self) -> str:
        """The steps in words, such as ``mean pooling, normalised``."""
        pooling = " and ".join(mode.replace("_", " ").removesuffix(" tokens") for mode in self.modes)
        return ", ".join(
            [f"{pooling} pooling", *["a dense layer"] * len(self.dense), *["normalised"] * self.normalised]
        )

    def vector(self, states: torch.Tensor, prompt_tokens: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the vector of a text, in float64.

        Args:
            states: its last hidden states with those of added tokens, (tokens, width).
            prompt_tokens: how many tokens the prompt has at the beginning, added ones included.
        """
        import torch

        start = 0 if self.pools_prompt else prompt_tokens
        x = states.double()[start:]
        weights = torch.arange(start + 1, len(states) + 1, dtype=torch.float64)[:, None]  # positions in the whole text
        pooled: dict[str, Callable[[], torch.Tensor]] = {
            "cls_token": lambda: x[0],  # also behind a prompt, as in sentence-transformers 6
            "max_tokens": lambda: x.amax(dim=0),
            "mean_tokens": lambda: x.mean(dim=0),
            "mean_sqrt_len_tokens": lambda: x.sum(dim=0) / len(x) ** 0.5,
            "weightedmean_tokens": lambda: (x * weights).sum(dim=0) / weights.sum(),
            "lasttoken": lambda: x[-1],
        }
        y = torch.cat([pooled[mode]() for mode in self.modes])
        for layer in self.dense:
            y = torch.nn.functional.linear(
                y, layer.weight.double(), None if layer.bias is None else layer.bias.double()
            )
            y = getattr(torch.nn, layer.activation)()(y)
        if self.normalised:
            y = torch.nn.functional.normalize(y, dim=0)
        return np.asarray(y.numpy())


def unused_settings(folder: Path | None, max_tokens: int) -> str:
    """Return a warning about settings of a sentence encoder that do not decide what a pass reads; usually empty.

    Args:
        folder: of the model; None where it is not on this machine.
        max_tokens: where the pass cuts texts.
    """
    modules = []
    with suppress(ReporterError):  # of a damaged file, which says so where the vectors are measured
        modules = _modules(folder)
    if folder is None or not modules:
        return ""
    settings = _reading(folder, modules[0][1])
    parts = (
        [f"cuts texts at {settings.max_tokens:,} tokens"] if (settings.max_tokens or max_tokens) < max_tokens else []
    )
    parts += ["turns texts into lower case"] * settings.lowercase
    parts += [f"begins texts with the prompt {one_line(settings.prompt)!r}"] * bool(settings.prompt)
    if not parts:
        return ""
    return (
        f"sentence-transformers {', '.join(parts)}. Only the vectors that the model itself returns (`partners`) are "
        f"read so; all other numbers are of the texts as they are, cut at {max_tokens:,} tokens"
    )


def read_pipeline(folder: Path | None) -> SentencePipeline | None:
    """Read the pipeline of a sentence encoder; None where the folder has none.

    Raises:
        ReporterError: a file is damaged, or the pipeline has a module that is not known here.
    """
    modules = _modules(folder)
    if folder is None or not modules:
        return None
    modes, dense, pools_prompt = tuple[str, ...](), list[Dense](), True
    for kind, place in modules[1:]:
        config = read_json(place / "config.json") or {}
        if kind == "Pooling":
            modes, pools_prompt = _modes(config), bool(config.get("include_prompt", True))
        elif kind == "Dense":
            dense.append(_dense(place, config))
        elif kind not in ("Normalize", "Dropout"):
            raise _unknown(f"module {kind}")
    order = " ".join(kind for kind, _ in modules if kind != "Dropout")
    if not re.fullmatch("Transformer Pooling( Dense)*( Normalize)*", order):
        raise _unknown(f"order of modules ({order})")
    sentence = _sentence_config(folder, modules[0][1])
    if "message" in (sentence.get("modality_config") or {}):
        raise _unknown("writing of texts as turns of a chat")
    if sentence.get("processing_kwargs"):
        raise _unknown("`processing_kwargs`")
    return SentencePipeline(
        modes, tuple(dense), order.endswith("Normalize"), _reading(folder, modules[0][1]), pools_prompt
    )


def _unknown(what: str) -> ReporterError:
    return ReporterError(f"its {what} is not known here, so what it returns itself was not measured")


def _modules(folder: Path | None) -> list[tuple[str, Path]]:
    """Return the kinds and folders of a sentence encoder's modules; empty where a folder has none."""
    if folder is None or not (folder / MODULES).is_file():
        return []
    import json

    with failing_as(f"cannot read {folder / MODULES}"):
        modules = json.loads((folder / MODULES).read_text("utf-8"))
        return [(str(module["type"]).rpartition(".")[2], folder / str(module.get("path", ""))) for module in modules]


def _sentence_config(folder: Path, first: Path) -> dict[str, Any]:
    """Return the settings of the first module, which older versions call by the family: ``sentence_roberta_config``."""
    files = [file for place in (first, folder) for file in sorted(place.glob("sentence_*_config.json"))]
    return next((config for file in files if (config := read_json(file))), {})


def _reading(folder: Path, first: Path) -> ReadingSettings:
    sentence, settings = _sentence_config(folder, first), read_json(folder / _SETTINGS) or {}
    prompts = settings.get("prompts")
    prompt = prompts.get(settings.get("default_prompt_name")) if isinstance(prompts, dict) else None
    # Version 6 keeps the limit in the tokenizer, which also decides where an older folder names none.
    limit = sentence.get("max_seq_length") or (read_json(first / TOKENIZER_CONFIG) or {}).get("model_max_length")
    return ReadingSettings(
        prompt if isinstance(prompt, str) else "",
        bool(sentence.get("do_lower_case")),
        int(limit) if isinstance(limit, int | float) and 0 < limit < _NO_LIMIT else None,
    )


def _modes(config: Mapping[str, Any]) -> tuple[str, ...]:
    named = config.get("pooling_mode")
    if isinstance(named, str | list):
        names = [named] if isinstance(named, str) else named
        short = {mode.removesuffix("_tokens").removesuffix("_token"): mode for mode in _MODES}
        modes = tuple(short.get(str(name), str(name)) for name in names)
    else:
        modes = tuple(mode for mode in _MODES if config.get(f"pooling_mode_{mode}"))
    if not modes or set(modes) - set(_MODES):
        raise ReporterError(f"its pooling {', '.join(modes) or '(none)'} is not known here")
    return modes


def _dense(place: Path, config: Mapping[str, Any]) -> Dense:
    activation = str(config.get("activation_function", "Tanh")).rpartition(".")[2]
    if activation not in _ACTIVATIONS:
        raise ReporterError(f"the activation {activation} of its dense layer is not known here")
    with failing_as(f"cannot read the dense layer in {place}"):
        import torch
        from safetensors.torch import load_file

        file = place / "model.safetensors"
        weights = load_file(file) if file.is_file() else torch.load(place / "pytorch_model.bin", weights_only=True)
        return Dense(weights["linear.weight"], weights.get("linear.bias"), activation)
