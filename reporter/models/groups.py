"""Which weights a checkpoint has, by group: so that one that is not what it says can be told."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor, nn

EMBEDDINGS, OTHER, HEAD = "embeddings", "other", "head"
_BLOCK = re.compile(r"(?:^|\.)(\d+)\.")  # the first number in a name is that of the block: experts come after it
_HASH_DIGITS = 32
_HASHERS = 4


def weight_groups(
    module: nn.Module, files: Sequence[Path] = (), lacking: Sequence[nn.Parameter] = ()
) -> dict[str, str]:
    """Return the hash of each group of weights, of their bytes as they are in memory; those of a head, in its files.

    Args:
        module: the model without its vocabulary head, as it was loaded.
        files: what it was loaded from; only safetensors are looked into.
        lacking: weights of the module that the files lack, such as a pooler's; they are left out.

    Returns:
        by group, in order, the first 32 hexadecimal digits of a SHA-256: ``embeddings`` (the input embedding, a head
        that is tied to it thereby, too), ``1`` … ``L`` (the blocks, as the names of weights count them), ``other``
        (positions, norms, projections outside of blocks), ``head`` (what the files hold beside these: a head that is
        not tied to the embedding, biases of one that is); empty where weights are not here.

    Raises:
        OSError, SafetensorError: a file cannot be read.
    """
    vocabulary = module.get_input_embeddings()  # type: ignore[operator]
    embedding = list(vocabulary.parameters()) if isinstance(vocabulary, nn.Module) else []
    own, drawn = {id(weight) for weight in embedding}, {id(weight) for weight in lacking}
    groups: dict[str, list[tuple[str, Tensor]]] = {}
    for name, weight in module.named_parameters():
        if weight.is_meta:
            return {}
        if id(weight) in drawn:
            continue
        found = _BLOCK.search(name)
        group = EMBEDDINGS if id(weight) in own else str(int(found[1]) + 1) if found else OTHER
        groups.setdefault(group, []).append((name, weight))
    order = sorted(groups, key=lambda group: (group == OTHER, int(group) if group.isdigit() else 0))
    with ExitStack() as opened, ThreadPoolExecutor(_HASHERS) as pool:  # hashing lets other threads work
        if head := _beside(module, embedding, files, opened):
            groups[HEAD] = head
            order.append(HEAD)
        hashes = pool.map(_hash, [groups[group] for group in order])
        return dict(zip(order, hashes, strict=True))


def _beside(
    module: nn.Module, embedding: Sequence[Tensor], files: Iterable[Path], opened: ExitStack
) -> list[tuple[str, Tensor]]:
    """Return what files hold outside of blocks that the model has no place for, by name; a tied head is left out."""
    from safetensors import safe_open

    own = [*dict(module.named_parameters(remove_duplicate=False)), *dict(module.named_buffers(remove_duplicate=False))]
    endings = tuple(f".{name}" for name in own)
    found: list[tuple[str, Tensor]] = []
    for file in files:
        if file.suffix != ".safetensors":
            continue
        content = opened.enter_context(safe_open(str(file), framework="pt"))
        for name in content.keys():  # noqa: SIM118 (no mapping)
            if _BLOCK.search(name) or f".{name}".endswith(endings):
                continue
            weight = content.get_tensor(name)
            if not any(_is(weight, other) for other in embedding):
                found.append((name, weight))
    return sorted(found, key=lambda one: one[0])  # whichever file they are in


def _is(weight: Tensor, other: Tensor) -> bool:
    return weight.shape == other.shape and torch.equal(weight.to(other.dtype), other.detach().cpu())


def _hash(weights: Sequence[tuple[str, Tensor]]) -> str:
    found = hashlib.sha256()
    for name, weight in weights:
        found.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        found.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()[:_HASH_DIGITS]
