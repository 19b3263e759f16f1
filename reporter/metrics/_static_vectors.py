"""The vectors that a model has before it has read anything: of its tokens, positions and token types.

How a model knows the order of its tokens: what is measured goes first, names in its configuration last.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from reporter.core.errors import ReporterError
from reporter.models.words import Marks, from_bytes, marks, readable, special_ids

if TYPE_CHECKING:
    from reporter.models.load import LoadedModel

# Watches which rows of which tables a model looks up, and whether it computes sines, while it reads a few tokens.


_LONGEST = 12  # tokens of the text that is tried


@dataclass(frozen=True)
class Lookup:
    """One lookup in a table.

    Args:
        table: (rows, width).
        rows: which rows, any shape.
    """

    table: Tensor
    rows: Tensor

    def by(self, ids: Tensor) -> bool:
        """Tell whether the rows are these ids."""
        return self.rows.numel() == ids.numel() and torch.equal(self.rows.reshape(-1), ids.reshape(-1))

    def consecutive(self, length: int) -> bool:
        """Tell whether each token looks up the row after that of the token before it."""
        return self.rows.numel() == length and bool((self.rows.reshape(-1).diff() == 1).all())

    def constant(self, length: int) -> bool:
        """Tell whether all tokens look up the same row."""
        return self.rows.numel() == length and bool((self.rows.reshape(-1).diff() == 0).all())

    def of_pairs(self, length: int) -> bool:
        """Tell whether there is one row for each two tokens."""
        return self.rows.numel() == length**2


@dataclass
class Watched:
    """What was seen during one pass over one text.

    Args:
        ids: the text (1, length).
        states: what enters the first block and what each block returns, each (1, length, width).
        lookups: in their order.
        sines: whether sines or cosines were computed.
    """

    ids: Tensor
    states: list[Tensor] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)
    sines: bool = False


def watch(model: LoadedModel, special: Sequence[int]) -> Watched:
    """Run the model on one short text of ordinary tokens and return what was seen."""
    config: Any = model.module.config
    avoided = {*special, *(getattr(config, f"{name}_token_id", None) for name in ("pad", "bos", "eos"))}
    length = max(3, min(_LONGEST, model.anatomy.max_tokens or _LONGEST))
    ordinary = [i for i in range(min(model.anatomy.vocabulary_size, 50 * length)) if i not in avoided]
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(len(ordinary), (1, length), generator=generator)
    # Two tokens that differ, so that swapping them is a change, and ids that are not consecutive.
    ids = torch.tensor(ordinary)[places]
    ids[0, :2] = torch.tensor([ordinary[-1], ordinary[0]])
    watched = Watched(ids.to(model.device))
    with torch.inference_mode(False), torch.no_grad(), _Recorder(watched):
        watched.states = model.states(watched.ids, torch.ones_like(watched.ids))
    return watched


def order_matters(model: LoadedModel, watched: Watched) -> bool:
    """Tell whether the last token's state after block 1 changes when the first two tokens change places.

    Attention over keys without positions is a sum in which the order does not count.
    """
    swapped = watched.ids.clone()
    swapped[0, :2] = watched.ids[0, :2].flip(0)
    with torch.inference_mode(False), torch.no_grad():
        other = model.states(swapped, torch.ones_like(swapped))
    before, after = watched.states[1][0, -1].float(), other[1][0, -1].float()
    noise = 1e-6 if watched.states[1].dtype == torch.float32 else float(torch.finfo(watched.states[1].dtype).eps)
    return bool((before - after).norm() > noise * before.norm())


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records embedding, indexing along the first axis, and sines."""

    def __init__(self, watched: Watched) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = watched

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        aten = torch.ops.aten
        rows: Any = None
        if func is aten.embedding.default:
            rows = args[1]
        elif func is aten.index_select.default and args[1] == 0:
            rows = args[2]
        elif func is aten.index.Tensor:  # table[rows] or table[rows, :]
            rows = args[1][0] if args[1] and all(i is None for i in args[1][1:]) else None
        elif func in (aten.sin.default, aten.cos.default):
            self._seen.sines = True
        if isinstance(rows, Tensor) and args[0].dim() == 2 and args[0].is_floating_point():
            self._seen.lookups.append(Lookup(args[0].detach(), rows.detach().clone()))
        return func(*args, **(kwargs or {}))


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

    Raises:
        ReporterError: if no table is looked up by the ids of the tokens.
    """
    special = special_ids(model.tokenizer)
    watched = watch(model, sorted(special))
    length = watched.ids.numel()
    tokens = _token_table(model, watched)
    widths = {tokens.shape[1], model.anatomy.width}
    lookups = [x for x in watched.lookups if x.table.data_ptr() != tokens.data_ptr() and x.table.shape[1] in widths]
    added = model.anatomy.positions == "added"
    place = next((x for x in lookups if added and x.consecutive(length) and len(x.table) >= length), None)
    kept = next((x for x in lookups if x is not place and x.constant(length) and len(x.table) <= _MOST_TYPES), None)
    positions, offset = _positions(place)
    kinds: dict[PositionKind, str] = {}
    if positions is not None:
        kinds[table_kind(positions)] = f"a table of {len(positions)} vectors is added to the tokens'"
    kinds |= inside_attention(model, watched)
    if not kinds:
        kinds = _neither(model, watched, added)
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
        (*(f"Positions are {kind}: {why}." for kind, why in kinds.items()), *_notes(model, watched, tokens, positions)),
    )


def strings(tokenizer: Any, size: int) -> tuple[str | None, ...]:
    """Return how the tokenizer writes the token of each of ``size`` rows; None for a row that no token has."""
    by_id = {i: token for token, i in tokenizer.get_vocab().items()}
    return tuple(by_id.get(i) for i in range(size))


def _token_table(model: LoadedModel, watched: Watched) -> Tensor:
    looked_up = [x.table for x in watched.lookups if x.by(watched.ids)]
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


def _neither(model: LoadedModel, watched: Watched, added: bool) -> dict[PositionKind, str]:
    if added:
        return {"unrecognised": "something is added to the tokens' vectors, but no table of positions was seen"}
    if order_matters(model, watched):
        return {"unrecognised": "the order of its tokens matters, but how it knows it was not found out"}
    return {"none": "the order of earlier tokens changes nothing in block 1"}


def _notes(model: LoadedModel, watched: Watched, tokens: Tensor, positions: Tensor | None) -> Sequence[str]:
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
        x, h = tokens[watched.ids[0]].float(), watched.states[0][0].float()
        scale = float((x * h).sum() / (x * x).sum().clamp_min(1e-30))
        if float((h - scale * x).norm()) > 1e-2 * float(h.norm()):
            notes.append(
                "What enters the first block is no multiple of these vectors: a norm, or another vector that is "
                "added, stands between."
            )
        elif abs(scale - 1) > 1e-2:
            notes.append(f"What enters the first block is {scale:.4g} × these vectors.")
    more = {x.table.data_ptr() for x in watched.lookups if x.by(watched.ids)} - {tokens.data_ptr()}
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


def inside_attention(model: LoadedModel, watched: Watched) -> dict[PositionKind, str]:
    """Return the ways in which attention itself knows positions, each with what gave it away."""
    module: Any = model.module
    config = module.config.get_text_config() if hasattr(module.config, "get_text_config") else module.config
    length = watched.ids.numel()
    evidence: dict[PositionKind, str] = {}
    if alibi := _alibi(module, config):
        evidence["alibi"] = alibi
    elif rotary := _rotary(module, config, watched, model.anatomy.positions == "not-added"):
        evidence["rotary"] = rotary
    biases = next((lookup for lookup in watched.lookups if lookup.of_pairs(length)), None)
    if biases is not None:
        rows, heads = biases.table.shape
        evidence["relative"] = f"each two tokens look up a row of a table of {rows} distances × {heads}"
    elif getattr(config, "relative_attention", False):
        evidence["relative"] = "its configuration says relative_attention"
    return evidence


def _alibi(module: Any, config: Any) -> str:
    for holder in (config, getattr(config, "attn_config", None)):
        if isinstance(setting := getattr(holder, "alibi", None), bool):
            return "its configuration says alibi" if setting else ""
    named = any("alibi" in name for name in dir(type(module)))
    return "it builds a bias that grows with distance (ALiBi)" if named else ""


def _rotary(module: Any, config: Any, watched: Watched, not_added: bool) -> str:
    if any("rotary" in type(part).__name__.lower() for part in module.modules()):
        return "it has a rotary module" + (" and computes sines" if watched.sines else "")
    if getattr(config, "rotary_dim", None):
        return "its configuration says rotary_dim"
    if not_added and watched.sines:
        return "it computes sines of positions and adds none"
    length = watched.ids.numel()
    tables = [x.table for x in watched.lookups if x.consecutive(length) and not x.by(watched.ids)]
    if not_added and any(table_kind(table) == "sinusoidal" for table in tables):
        return "its tokens look up consecutive rows of a table of sines, which is not added"
    return ""


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
_WIDTHS = {"FULLWIDTH", "HALFWIDTH"}


@dataclass(frozen=True)
class Token:
    """What one token is.

    Args:
        text: without marks, decoded from bytes; of a token that is no text, as it is written.
        kind: its class.
        subword: whether it is written as a part of a word: with ``##``, or without ``Ġ``, ``▁`` or ``</w>``. A word
            at the beginning of a text, or after a bracket, is written so, too. None where nothing is marked, and for
            tokens that are no text.
        script: of its letters; ``mixed`` where there are several, empty where there are no letters.
        length: its characters; of bytes, how many there are.
    """

    text: str
    kind: TokenClass
    subword: bool | None
    script: str
    length: int


def classify(strings: Sequence[str | None], special: Collection[int]) -> list[Token]:
    """Return what each token is."""
    marked = marks(token for i, token in enumerate(strings) if token and i not in special)
    return [_token(token, i in special, marked) for i, token in enumerate(strings)]


def _token(token: str | None, special: bool, marked: Marks) -> Token:
    if token is None:
        return Token("", "missing", None, "", 0)
    if _UNUSED.fullmatch(token):
        return Token(token, "unused", None, "", len(token))
    if special:
        return Token(token, "special", None, "", len(token))
    if _BYTE.fullmatch(token) and marked != "byte-level":
        return Token(token, "bytes", None, "", 1)
    subword, bare = _unmarked(token, marked)
    text = _decoded(bare) if marked == "byte-level" else bare
    if text is None:
        return Token(token, "bytes", None, "", len(token))
    return Token(text, _class(text), subword, _script(text), len(text))


def _unmarked(token: str, marked: Marks) -> tuple[bool | None, str]:
    if marked == "wordpiece":
        goes_on = token.startswith("##") and len(token) > 2
        return goes_on, token[2:] if goes_on else token
    if marked == "end-of-word":
        return not token.endswith("</w>"), token.removesuffix("</w>")
    if marked in ("byte-level", "sentencepiece"):
        mark = "Ġ" if marked == "byte-level" else "▁"
        return not token.startswith(mark), token.removeprefix(mark)
    return None, token


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


def _script(text: str) -> str:
    scripts = {_script_of(c) for c in text if unicodedata.category(c)[0] == "L"}
    return "" if not scripts else scripts.pop() if len(scripts) == 1 else "mixed"


@cache
def _script_of(letter: str) -> str:
    """Return the first word of a letter's Unicode name, which is its script as a rule."""
    words = unicodedata.name(letter, "other").split()
    word = words[1] if words[0] in _WIDTHS and len(words) > 1 else words[0]
    return "Han" if word == "CJK" else word.capitalize()


def _decoded(text: str) -> str | None:
    decoded = from_bytes(text)
    try:
        return text if decoded is None else decoded.decode("utf-8")
    except UnicodeDecodeError:
        return None
