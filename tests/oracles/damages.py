"""Copies of a saved model with one block damaged, made in its files: nothing of what is tested takes part."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

BLOCK = re.compile(r"(.*\.(?:h|layer|layers)\.)(\d+)(\..*)")
SHARES = {"noised by a hundredth": 0.01, "noised": 0.05, "noised by a fifth": 0.2}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def _blocks(weights: dict[str, torch.Tensor], change: Callable[[int], int | None]) -> dict[str, torch.Tensor]:
    """Return the weights with blocks renumbered; those that become None are left out."""
    result = {}
    for name, weight in weights.items():
        match = BLOCK.fullmatch(name)
        number = change(int(match[2])) if match else 0
        if number is not None:
            result[f"{match[1]}{number}{match[3]}" if match else name] = weight
    return result


def _to_levels(weight: torch.Tensor, levels: int) -> torch.Tensor:
    step = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / levels
    return (weight / step).round() * step


def rounded(folder: Path, into: Path, how: str) -> Path:
    """Copy a model with all weights rounded to ``bf16`` or ``fp16``, or its matrices to ``int8``, a scale per row."""
    shutil.copytree(folder, into)
    weights = load_file(into / "model.safetensors")
    for name, weight in weights.items():
        if how in DTYPES and weight.is_floating_point():
            weights[name] = weight.to(DTYPES[how]).to(weight.dtype)
        elif how == "int8" and weight.dim() == 2 and weight.is_floating_point():
            weights[name] = _to_levels(weight, 127)
    save_file(weights, into / "model.safetensors", metadata={"format": "pt"})
    return into


def damaged(folder: Path, into: Path, damage: str, block: int) -> Path:
    """Copy a model and damage a block.

    Args:
        folder: what ``save_pretrained`` wrote.
        into: where the copy goes.
        damage: ``nothing``, ``rounded`` to 4 bits or to ``int8``, ``noised`` by a twentieth of the deviation
            of its weights, ``noised by a hundredth`` or ``by a fifth``, ``dropped`` or ``swapped`` with the next.
        block: which one, from 1.
    """
    shutil.copytree(folder, into)
    weights, at = load_file(into / "model.safetensors"), block - 1
    levels = {"rounded": 7, "int8": 127}
    noise = torch.Generator().manual_seed(0)
    for name, weight in weights.items():
        match = BLOCK.fullmatch(name)
        if match and int(match[2]) == at and weight.dim() == 2:
            if damage in levels:
                weights[name] = _to_levels(weight, levels[damage])
            elif damage in SHARES:
                weights[name] = weight + weight.std() * SHARES[damage] * torch.randn(weight.shape, generator=noise)
    if damage == "dropped":
        weights = _blocks(weights, lambda number: None if number == at else number - (number > at))
        config = json.loads((into / "config.json").read_text("utf-8"))
        depth = next(name for name in ("n_layer", "num_hidden_layers") if name in config)
        (into / "config.json").write_text(json.dumps(config | {depth: config[depth] - 1}), "utf-8")
    elif damage == "swapped":
        weights = _blocks(weights, lambda number: {at: at + 1, at + 1: at}.get(number, number))
    assert damage in {*levels, *SHARES, "dropped", "swapped", "nothing"}
    save_file(weights, into / "model.safetensors", metadata={"format": "pt"})
    return into
