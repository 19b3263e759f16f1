"""Copies of a saved model with one block damaged, made in its files: nothing of what is tested takes part."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

BLOCK = re.compile(r"(.*\.(?:h|layer|layers)\.)(\d+)(\..*)")


def _blocks(weights: dict[str, torch.Tensor], change: Callable[[int], int | None]) -> dict[str, torch.Tensor]:
    """Return the weights with blocks renumbered; those that become None are left out."""
    found = {}
    for name, weight in weights.items():
        match = BLOCK.fullmatch(name)
        number = change(int(match[2])) if match else 0
        if number is not None:
            found[f"{match[1]}{number}{match[3]}" if match else name] = weight
    return found


def damaged(folder: Path, into: Path, damage: str, block: int) -> Path:
    """Copy a model and damage a block.

    Args:
        folder: what ``save_pretrained`` wrote.
        into: where the copy goes.
        damage: ``nothing``, ``rounded`` to 4 bits or to ``int8``, ``noised`` by a twentieth of the deviation
            of its weights or ``noised by a fifth``, ``dropped`` or ``swapped`` with the next.
        block: which one, from 1.
    """
    shutil.copytree(folder, into)
    weights, at = load_file(into / "model.safetensors"), block - 1
    levels, shares = {"rounded": 7, "int8": 127}, {"noised": 0.05, "noised by a fifth": 0.2}
    noise = torch.Generator().manual_seed(0)
    for name, weight in weights.items():
        match = BLOCK.fullmatch(name)
        if match and int(match[2]) == at and weight.dim() == 2:
            if damage in levels:
                step = weight.abs().amax(dim=1, keepdim=True) / levels[damage]
                weights[name] = (weight / step).round() * step
            elif damage in shares:
                weights[name] = weight + weight.std() * shares[damage] * torch.randn(weight.shape, generator=noise)
    if damage == "dropped":
        weights = _blocks(weights, lambda number: None if number == at else number - (number > at))
        config = json.loads((into / "config.json").read_text("utf-8"))
        depth = next(name for name in ("n_layer", "num_hidden_layers") if name in config)
        (into / "config.json").write_text(json.dumps(config | {depth: config[depth] - 1}), "utf-8")
    elif damage == "swapped":
        weights = _blocks(weights, lambda number: {at: at + 1, at + 1: at}.get(number, number))
    assert damage in {*levels, *shares, "dropped", "swapped", "nothing"}
    save_file(weights, into / "model.safetensors", metadata={"format": "pt"})
    return into
