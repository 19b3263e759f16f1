"""How a model knows the order of its tokens: what is measured goes first, names in its configuration last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from reporter.models.load import LoadedModel
    from reporter.weights.lookups import Watched

PositionKind = Literal["learned", "sinusoidal", "rotary", "relative", "alibi", "none", "unrecognised"]
"""How positions enter. ``learned`` and ``sinusoidal`` are vectors added to the tokens'; ``rotary`` turns queries
and keys; ``relative`` and ``alibi`` change attention by the distance of two tokens; ``none``: the order of earlier
tokens changes nothing in block 1; ``unrecognised``: it matters, and it was not found out how."""

_ROWS = 256  # rows of a table that are compared


def table_kind(positions: Tensor) -> Literal["learned", "sinusoidal"]:
    """Tell a table of sines from a learned one by its numbers.

    The rows of a table of sines and cosines all have the same length, and the dot product of two of them depends
    on nothing but their offset: cos(ωi)cos(ωj) + sin(ωi)sin(ωj) = cos(ω(i − j)).

    Args:
        positions: (positions, width), at least three.
    """
    x = positions[:_ROWS].detach().cpu().double()
    gram = x @ x.T
    size = gram.diagonal().mean()
    if len(x) < 3 or size == 0:
        return "learned"
    spread = max(
        float((gram.diagonal(offset) - gram.diagonal(offset).mean()).abs().max()) for offset in range(len(x) - 1)
    )
    differs = (x[1:] - x[:1]).abs().amax() > 0
    tolerance = 1e-4 if positions.dtype == torch.float32 else 3e-2
    return "sinusoidal" if differs and spread <= tolerance * size else "learned"


def inside_attention(model: LoadedModel, seen: Watched) -> dict[PositionKind, str]:
    """Return the ways in which attention itself knows positions, each with what gave it away.

    Args:
        model: the model.
        seen: one pass.
    """
    module: Any = model.module
    config = module.config.get_text_config() if hasattr(module.config, "get_text_config") else module.config
    length = seen.ids.numel()
    found: dict[PositionKind, str] = {}
    if alibi := _alibi(module, config):
        found["alibi"] = alibi
    elif rotary := _rotary(module, config, seen, model.anatomy.positions == "not-added"):
        found["rotary"] = rotary
    biases = next((lookup for lookup in seen.lookups if lookup.of_pairs(length)), None)
    if biases is not None:
        rows, heads = biases.table.shape
        found["relative"] = f"each two tokens look up a row of a table of {rows} distances × {heads}"
    elif getattr(config, "relative_attention", False):
        found["relative"] = "its configuration says relative_attention"
    return found


def _alibi(module: Any, config: Any) -> str:
    for holder in (config, getattr(config, "attn_config", None)):
        if isinstance(said := getattr(holder, "alibi", None), bool):
            return "its configuration says alibi" if said else ""
    named = any("alibi" in name for name in dir(type(module)))
    return "it builds a bias that grows with distance (ALiBi)" if named else ""


def _rotary(module: Any, config: Any, seen: Watched, not_added: bool) -> str:
    if any("rotary" in type(part).__name__.lower() for part in module.modules()):
        return "it has a rotary module" + (" and computes sines" if seen.sines else "")
    if getattr(config, "rotary_dim", None):
        return "its configuration says rotary_dim"
    if not_added and seen.sines:
        return "it computes sines of positions and adds none"
    length = seen.ids.numel()
    tables = [x.table for x in seen.lookups if x.consecutive(length) and not x.by(seen.ids)]
    if not_added and any(table_kind(table) == "sinusoidal" for table in tables):
        return "its tokens look up consecutive rows of a table of sines, which is not added"
    return ""
