"""The vectors that a model has before it has read anything: of its tokens, positions and token types.

Which tables hold them is measured: by which rows the model looks up while it reads a few tokens.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from reporter.core.errors import ReporterError
from reporter.models.lookups import Lookup, Lookups
from reporter.models.words import Spelling, added_ids, readable, special_ids, without_mark

if TYPE_CHECKING:
    from reporter.models.load import LoadedModel

# Watches which rows of which tables a model looks up while it reads a few tokens.


_LONGEST = 12  # tokens of the text that is tried


def watch(model: LoadedModel, special: Sequence[int]) -> tuple[Tensor, list[Tensor], list[Lookup]]:
    """Run the model on one short text of ordinary tokens.

    Returns:
        the ids of the text (1, length), what enters the first block and what each block returns, each (1, length,
        width), and the lookups in their order.
    """
    config: Any = model.module.config
    avoided = {*special, *(getattr(config, f"{name}_token_id", None) for name in ("pad", "bos", "eos"))}
    length = max(3, min(_LONGEST, model.anatomy.max_tokens or _LONGEST))
    ordinary = [i for i in range(min(model.anatomy.vocabulary_size, 50 * length)) if i not in avoided]
    places = torch.randint(len(ordinary), (1, length), generator=torch.Generator().manual_seed(0))
    ids = torch.tensor(ordinary)[places]
    ids[0, :2] = torch.tensor([ordinary[-1], ordinary[0]])  # ids are not consecutive
    ids = ids.to(model.device)
    with torch.inference_mode(False), torch.no_grad(), Lookups() as lookups:
        return ids, model.states(ids, torch.ones_like(ids)), lookups.seen


Kind = Literal["token", "position", "type"]

_MOST_TYPES = 64  # rows of a table of token types


@dataclass(frozen=True)
class StaticVectors:
    """The tables of a model. They stay where the model has them, in its precision: nothing is copied.

    Args:
        model: what the study calls the model.
        tokens: (V, d).
        positions: the rows that positions 0, 1, … look up, (P, d'), where vectors are added; else None. d' differs
            from d where tokens pass through a projection first (OPT-350m).
        types: (T, d'), or None.
        position_kind: how positions are added to its tokens' vectors.
        strings: how the tokenizer writes each token, V of them; None for rows that no token has.
        special: ids of special tokens.
        added: ids of tokens that were added as text.
        notes: what a reader should know, whole sentences.
    """

    model: str
    tokens: Tensor
    positions: Tensor | None
    types: Tensor | None
    position_kind: PositionKind
    strings: tuple[str | None, ...]
    special: frozenset[int]
    notes: tuple[str, ...]
    added: frozenset[int] = frozenset()

    @cached_property
    def shown(self) -> tuple[str | None, ...]:
        """The text of each of V tokens; None for rows that no token has."""
        return readable(self.strings, self.special, self.added)

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

    Raises:
        ReporterError: if no table is looked up by the ids of the tokens.
    """
    special = special_ids(model.tokenizer)
    ids, states, lookups = watch(model, sorted(special))
    by_token = [x.table for x in lookups if x.by(ids)]
    if not by_token:
        raise ReporterError(f"{model.checkpoint.label}: none of its tables is looked up by the ids of the tokens")
    module: Any = model.module
    named = module.get_input_embeddings().weight.data_ptr()
    tokens = next((table for table in by_token if table.data_ptr() == named), by_token[0])
    widths = {tokens.shape[1], model.anatomy.width}
    lookups = [x for x in lookups if x.table.data_ptr() != tokens.data_ptr() and x.table.shape[1] in widths]
    added, length = model.anatomy.positions == "added", ids.numel()
    place = next((x for x in lookups if added and x.consecutive(length) and len(x.table) >= length), None)
    kept = next((x for x in lookups if x is not place and x.constant(length) and len(x.table) <= _MOST_TYPES), None)
    positions = place.table[int(place.rows.reshape(-1)[0]) :] if place else None  # RoBERTa's position 0 is row 2
    kind: PositionKind = "unrecognised" if added else "none"
    token_of = {i: token for token, i in model.tokenizer.get_vocab().items()}
    notes = _notes(model, tokens, positions, tokens[ids[0]].float(), states[0][0].float())
    more = len({table.data_ptr() for table in by_token} - {tokens.data_ptr()})
    if more:
        notes.append(f"{more} other tables are looked up by token ids; they are not analysed.")
    how = kind if positions is None else table_kind(positions)
    strings = tuple(token_of.get(i) for i in range(len(tokens)))
    facts = (tokens, positions, kept.table if kept else None, how, strings, special, tuple(notes))
    return StaticVectors(model.checkpoint.model, *facts, added=added_ids(model.tokenizer))


def _notes(model: LoadedModel, tokens: Tensor, positions: Tensor | None, x: Tensor, h: Tensor) -> list[str]:
    """Return what a reader should know; x are the vectors of a text's tokens, h what enters the first block."""
    notes, width = [], tokens.shape[1]
    blocks = model.anatomy.width
    if width != blocks:
        notes.append(
            f"Token vectors have {width} dimensions and are projected to the {blocks} dimensions of the blocks."
        )
    if positions is not None and positions.shape[1] != width:
        notes.append(
            f"Position vectors have {positions.shape[1]} dimensions. They are added after this projection, so they "
            "cannot be compared with token vectors."
        )
    if width == blocks and model.anatomy.positions == "not-added":
        scale = float((x * h).sum() / (x * x).sum().clamp_min(1e-30))
        if float((h - scale * x).norm()) > 1e-2 * float(h.norm()):
            notes.append(
                "The input of the first block is not a multiple of these vectors: a norm or another added vector comes "
                "between."
            )
        elif abs(scale - 1) > 1e-2:
            notes.append(f"The input of the first block is {scale:.4g} × these vectors.")
    return notes


PositionKind = Literal["learned", "sinusoidal", "none", "unrecognised"]
"""How positions enter beside the tokens' vectors. ``learned`` and ``sinusoidal`` are vectors that are added to them;
``none``: nothing is added, so that attention itself knows positions, or nothing does; ``unrecognised``: something is
added, but no table of positions was seen."""

_ROWS = 256  # rows of a table that are compared


def table_kind(positions: Tensor) -> Literal["learned", "sinusoidal"]:
    """Tell a table of sines from a learned one by its numbers.

    The rows of a table of sines and cosines all have the same length, and the dot product of two of them depends
    on nothing but their offset: cos(ωi)cos(ωj) + sin(ωi)sin(ωj) = cos(ω(i − j)).
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


# The kind of text that each token is, by the tokenizer's own marks.

TokenClass = Literal[
    "special", "unused", "alphabetic", "numeric", "alphanumeric", "punctuation", "mixed", "space", "bytes", "missing"
]
"""Letters (with their accents) alone; digits alone; both; punctuation and symbols alone; anything else that has
characters; white space or nothing but a mark; bytes that are no text by themselves; rows that no token has."""

NO_TEXT: frozenset[TokenClass] = frozenset({"special", "unused", "bytes", "missing"})
"""Classes of tokens that stand for no text of their own."""

_UNUSED = re.compile(r"\W*(?:unused|madeupword|reserved[a-z_]*)_?\d+\W*")
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


@dataclass(frozen=True)
class Token:
    """Facts of one token.

    Args:
        text: without marks, decoded from bytes; of a token that is no text, as it is written.
        kind: its class.
        subword: whether it is written as a part of a word: with ``##``, or without ``Ġ``, ``▁`` or ``</w>``. A word
            at the beginning of a text, or after a bracket, is written so, too. None where nothing is marked, and for
            tokens that are no text.
    """

    text: str
    kind: TokenClass
    subword: bool | None


def classify(strings: Sequence[str | None], special: Collection[int], added: Collection[int] = ()) -> list[Token]:
    """Return what each token is; ``added`` ones are text as they are."""
    of_tokenizer = [token for i, token in enumerate(strings) if token and i not in special and i not in added]
    spelling = Spelling.of(of_tokenizer, ())
    return [
        Token(token, _class(token), None) if token and i in added else _token(token, i in special, spelling)
        for i, token in enumerate(strings)
    ]


def _token(token: str | None, special: bool, spelling: Spelling) -> Token:
    if token is None:
        return Token("", "missing", None)
    if _UNUSED.fullmatch(token) or special:
        return Token(token, "unused" if _UNUSED.fullmatch(token) else "special", None)
    if _BYTE.fullmatch(token) and spelling.bytes != "gpt2":
        return Token(token, "bytes", None)
    whole, unmarked = without_mark(token, spelling.marks)
    text, subword = spelling.decoded(unmarked), None if spelling.marks == "none" else not whole
    return Token(token, "bytes", None) if text is None else Token(text, _class(text), subword)


def _class(text: str) -> TokenClass:
    kinds = {unicodedata.category(c)[0] for c in text if c != "▁"}
    letters, digits = "L" in kinds, "N" in kinds
    kinds.discard("M")  # accents and vowel signs go with what they stand on
    if kinds <= {"Z", "C"} or not text.strip():
        return "space"
    if kinds == {"L"}:
        return "alphabetic"
    if kinds == {"N"}:
        return "numeric"
    if letters and digits and kinds == {"L", "N"}:
        return "alphanumeric"
    return "punctuation" if kinds <= {"P", "S"} else "mixed"
