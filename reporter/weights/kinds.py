"""The vectors that a model has before it has read anything: of its tokens, positions and token types.

How a model knows the order of its tokens: what is measured goes first, names in its configuration last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from reporter.errors import ReporterError
from reporter.models.token_text import readable, special_ids
from reporter.weights.lookups import Lookup, Watched, order_matters, watch

if TYPE_CHECKING:
    from reporter.models.load import LoadedModel
    from reporter.weights.lookups import Watched

Kind = Literal["token", "position", "type"]

_MOST_TYPES = 64  # rows of a table of token types


@dataclass(frozen=True)
class StaticVectors:
    """The tables of a model. They stay where the model has them, in its precision: nothing is copied.

    Args:
        model: what the study calls the model.
        checkpoint: which of its checkpoints.
        tokens: (V, d).
        positions: the rows that positions 0, 1, … look up, (P, d'), where vectors are added; else None. d' differs
            from d where tokens pass through a projection first (OPT-350m).
        types: (T, d'), or None.
        position_kind: the main way in which it knows the order of tokens.
        also: other ways (MPNet adds vectors and has relative biases, too).
        position_offset: the row of the table that position 0 looks up; RoBERTa's is 2.
        strings: how the tokenizer writes each token, V of them; None for rows that no token has.
        special: ids of special tokens.
        notes: what a reader should know, whole sentences.
    """

    model: str
    checkpoint: str
    tokens: Tensor
    positions: Tensor | None
    types: Tensor | None
    position_kind: PositionKind
    also: tuple[PositionKind, ...]
    position_offset: int
    strings: tuple[str | None, ...]
    special: frozenset[int]
    notes: tuple[str, ...]

    @cached_property
    def shown(self) -> tuple[str | None, ...]:
        """How each token reads, V of them; None for rows that no token has."""
        return readable(self.strings, self.special)

    @property
    def kinds(self) -> dict[Kind, Tensor]:
        """The tables there are."""
        tables: dict[Kind, Tensor | None] = {"token": self.tokens, "position": self.positions, "type": self.types}
        return {kind: table for kind, table in tables.items() if table is not None}

    def comparable(self, a: Kind, b: Kind) -> bool:
        """Tell whether two kinds live in one space."""
        return self.kinds[a].shape[1] == self.kinds[b].shape[1]


def static_vectors(model: LoadedModel) -> StaticVectors:
    """Find a model's tables by watching which of them a text looks up, and how.

    Args:
        model: a loaded model; one pass over twelve tokens is made, and a second one for a model of unknown kind.

    Raises:
        ReporterError: if no table is looked up by the ids of the tokens.
    """
    special = special_ids(model.tokenizer)
    seen = watch(model, sorted(special))
    length = seen.ids.numel()
    tokens = _token_table(model, seen)
    widths = {tokens.shape[1], model.anatomy.width}
    others = [x for x in seen.lookups if x.table.data_ptr() != tokens.data_ptr() and x.table.shape[1] in widths]
    added = model.anatomy.positions == "added"
    place = next((x for x in others if added and x.consecutive(length) and len(x.table) >= length), None)
    kept = next((x for x in others if x is not place and x.constant(length) and len(x.table) <= _MOST_TYPES), None)
    positions, offset = _positions(place)
    kinds: dict[PositionKind, str] = {}
    if positions is not None:
        kinds[table_kind(positions)] = f"a table of {len(positions)} vectors is added to the tokens'"
    kinds |= inside_attention(model, seen)
    if not kinds:
        kinds = _neither(model, seen, added)
    first, *more = kinds
    return StaticVectors(
        model.checkpoint.model,
        model.checkpoint.name,
        tokens,
        positions,
        kept.table if kept else None,
        first,
        tuple(more),
        offset,
        strings(model.tokenizer, len(tokens)),
        special,
        (*(f"Positions are {kind}: {why}." for kind, why in kinds.items()), *_notes(model, seen, tokens, positions)),
    )


def strings(tokenizer: Any, size: int) -> tuple[str | None, ...]:
    """Return how the tokenizer writes the token of each of ``size`` rows; None for a row that no token has."""
    by_id = {i: token for token, i in tokenizer.get_vocab().items()}
    return tuple(by_id.get(i) for i in range(size))


def _token_table(model: LoadedModel, seen: Watched) -> Tensor:
    looked_up = [x.table for x in seen.lookups if x.by(seen.ids)]
    if not looked_up:
        raise ReporterError(f"{model.checkpoint.label}: none of its tables is looked up by the ids of the tokens")
    module: Any = model.module
    named = module.get_input_embeddings().weight.data_ptr()
    return next((table for table in looked_up if table.data_ptr() == named), looked_up[0])


def _positions(place: Lookup | None) -> tuple[Tensor | None, int]:
    if place is None:
        return None, 0
    offset = int(place.rows.reshape(-1)[0])
    return place.table[offset:], offset


def _neither(model: LoadedModel, seen: Watched, added: bool) -> dict[PositionKind, str]:
    if added:
        return {"unrecognised": "something is added to the tokens' vectors, but no table of positions was seen"}
    if order_matters(model, seen):
        return {"unrecognised": "the order of its tokens matters, but how it knows it was not found out"}
    return {"none": "the order of earlier tokens changes nothing in block 1"}


def _notes(model: LoadedModel, seen: Watched, tokens: Tensor, positions: Tensor | None) -> Sequence[str]:
    notes, width = [], tokens.shape[1]
    blocks = model.anatomy.width
    if width != blocks:
        notes.append(f"Token vectors have {width} dimensions and are projected to the {blocks} of its blocks.")
    if positions is not None and positions.shape[1] != width:
        notes.append(
            f"Position vectors have {positions.shape[1]} dimensions: they are added after that projection and "
            "cannot be compared with the tokens'."
        )
    if width == blocks and model.anatomy.positions == "not-added":
        x, h = tokens[seen.ids[0]].float(), seen.states[0][0].float()
        scale = float((x * h).sum() / (x * x).sum().clamp_min(1e-30))
        if float((h - scale * x).norm()) > 1e-2 * float(h.norm()):
            notes.append(
                "What enters the first block is no multiple of these vectors: a norm, or another vector that is "
                "added, stands between."
            )
        elif abs(scale - 1) > 1e-2:
            notes.append(f"What enters the first block is {scale:.4g} × these vectors.")
    more = {x.table.data_ptr() for x in seen.lookups if x.by(seen.ids)} - {tokens.data_ptr()}
    if more:
        notes.append(f"{len(more)} other tables are looked up by the ids of tokens and not looked at here.")
    return notes


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
