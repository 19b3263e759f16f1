"""Which weights a checkpoint has, by group: so that one that is not what it says can be told."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

EMBEDDINGS, OTHER = "embeddings", "other"
_BLOCK = re.compile(r"(?:^|\.)(\d+)\.")  # the first number in a name is that of the block: experts come after it
_HASH_DIGITS = 32
_HASHERS = 4


def weight_groups(module: nn.Module) -> dict[str, str]:
    """Return the hash of each group of weights, of their bytes as they are in memory.

    Args:
        module: the model without its vocabulary head, as it was loaded.

    Returns:
        by group, in order, the first 32 hexadecimal digits of a SHA-256: ``embeddings`` (the input embedding, a head
        that is tied to it thereby, too), ``1`` … ``L`` (the blocks, as the names of weights count them), ``other``
        (positions, norms, projections outside of blocks); empty where weights are not here.
    """
    vocabulary = module.get_input_embeddings()  # type: ignore[operator]
    own = {id(weight) for weight in vocabulary.parameters()} if isinstance(vocabulary, nn.Module) else set()
    groups: dict[str, list[tuple[str, Tensor]]] = {}
    for name, weight in module.named_parameters():
        if weight.is_meta:
            return {}
        found = _BLOCK.search(name)
        group = EMBEDDINGS if id(weight) in own else str(int(found[1]) + 1) if found else OTHER
        groups.setdefault(group, []).append((name, weight))
    order = sorted(groups, key=lambda group: (group == OTHER, int(group) if group.isdigit() else 0))
    with ThreadPoolExecutor(_HASHERS) as pool:  # hashing lets other threads work
        hashes = pool.map(_hash, [groups[group] for group in order])
    return dict(zip(order, hashes, strict=True))


def _hash(weights: Sequence[tuple[str, Tensor]]) -> str:
    found = hashlib.sha256()
    for name, weight in weights:
        found.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        found.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()[:_HASH_DIGITS]
