"""The states of one checkpoint on one corpus, read text by text and put on disk, so that any corpus fits."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reporter.core.errors import ReporterError
from reporter.core.places import TEXT_TOKENS, WITH_SPECIAL_TOKENS
from reporter.texts.chat import on_day

if TYPE_CHECKING:
    from reporter.app.verify.by_model import PlainModel
    from reporter.texts import Texts
    from reporter.texts.sources.stored import FileCorpus

# Which tokens count, and which are drawn: the rules of the README and of ``reporter metrics``, written once more.


Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rule:
    """The rule for sinks: both must hold at some block.

    Args:
        factor: a token's norm exceeds this times the median norm of its text's tokens.
        dominance: its weight (see :class:`Kinds`) exceeds this; None: the norm alone decides.
    """

    factor: float = 2.0
    dominance: float | None = 1.0


_HEAVIEST = float(np.finfo(np.float32).max)
LONG = 2.0
"""Medians of the norm up to which a token is given no weight."""


@dataclass(frozen=True)
class Kinds:
    """Kinds of the tokens of one text or corpus; each of shape (tokens,).

    The weight of a token is (x_j − m_j)² over the sum of the squares of all other coordinates, j its largest coordinate
    by size and m_j the median of coordinate j over the text's tokens (massive activations, Sun et al. 2024).

    Args:
        special: no token of the text's own.
        first: the text's first own token.
        sink: a sink, special ones included.
        layer_first: the first block at which it is a sink; 0 for none.
        layer_last: the last such block; 0 for none.
        ratio: the largest norm in medians of the text, over all blocks.
        weight: the largest weight over the blocks where the norm exceeds ``LONG`` medians; 0 where there is none.
        dimension: the coordinate j of that weight; −1 where there is none.
    """

    special: Mask
    first: Mask
    sink: Mask
    layer_first: Ints
    layer_last: Ints
    ratio: Floats
    weight: Floats
    dimension: Ints

    @classmethod
    def joined(cls, texts: Sequence[Kinds]) -> Kinds:
        """Return the kinds of a corpus from those of its texts."""
        return cls(*(np.concatenate([getattr(text, part.name) for text in texts]) for part in fields(cls)))

    def of(self, mask: Mask) -> Kinds:
        """Return the kinds of some of the tokens."""
        return Kinds(*(getattr(self, part.name)[mask] for part in fields(self)))

    def view(self, name: str) -> Mask:
        """Return which tokens a view holds, shape (tokens,)."""
        if name == WITH_SPECIAL_TOKENS:
            return np.ones(len(self.special), dtype=bool)
        return ~self.special if name == TEXT_TOKENS else ~self.special & ~self.sink & ~self.first


def never_a_word(tokenizer: Any) -> set[int]:
    """Return the ids that are no word wherever they stand; the unknown token is one, unless it has another role."""
    roles = {getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "cls", "sep", "mask")}
    return {i for i in tokenizer.all_special_ids if i != tokenizer.unk_token_id or i in roles}


def kinds_of_text(blocks: Sequence[Floats], special: Mask, rule: Rule) -> Kinds:
    """Return what each token of one text is."""
    n = len(special)
    first = np.zeros(n, dtype=bool)
    first[np.flatnonzero(~special)[:1]] = True
    none, zeros = np.zeros(n, dtype=np.int64), np.zeros(n)
    kinds = Kinds(special, first, np.zeros(n, dtype=bool), none, none.copy(), zeros, zeros.copy(), none - 1)
    for layer, x in enumerate(blocks, start=1):
        norms = np.sqrt((x * x).sum(axis=1))
        ratio = norms / (np.median(norms) or np.inf)
        for token in np.flatnonzero(ratio > min(LONG, rule.factor)):
            j = int(np.argmax(np.abs(x[token])))
            rest = float(np.delete(x[token] ** 2, j).sum())
            weight = float((x[token, j] - np.median(x[:, j])) ** 2) / rest if rest else _HEAVIEST
            if ratio[token] > LONG and weight > kinds.weight[token]:
                kinds.weight[token], kinds.dimension[token] = weight, j
            if ratio[token] > rule.factor and (rule.dominance is None or weight > rule.dominance):
                kinds.layer_first[token] = kinds.layer_first[token] or layer
                kinds.layer_last[token] = layer
        np.maximum(kinds.ratio, ratio, out=kinds.ratio)
    kinds.sink[:] = kinds.layer_first > 0
    return kinds


_64 = 2**64 - 1


def splitmix64(x: int) -> int:
    """Return the finaliser of SplitMix64 (Steele, Lea & Flood 2014), which every draw of a run goes by."""
    x = (x + 0x9E3779B97F4A7C15) & _64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _64
    return x ^ (x >> 31)


def key(*parts: int) -> int:
    """Return the hash of some integers in their order: of seed, text and position for a token that is drawn."""
    state = 0
    for part in parts:
        state = splitmix64(state ^ part)
    return state


def half_of(seed: int, text: int) -> int:
    """Return the half of the corpus, 0 or 1, that a text is in, by the place of the first text that says the same."""
    return splitmix64(key(seed, text)) >> 58 & 1


def context_keys(ids: Sequence[int], causal: bool, seed: int) -> list[int]:
    """Return a hash of what decided each token's block states: its prefix (decoder), its text and place (encoder)."""
    running, prefixes = key(seed), []
    for token in ids:
        running = splitmix64(running ^ token)
        prefixes.append(running)
    if causal:
        return prefixes
    return [splitmix64(running ^ splitmix64(position)) for position in range(len(prefixes))]


class StatePlace(NamedTuple):
    """The place where states are read: site and layer, as the tables name them."""

    site: str
    layer: int


class NoPath(Exception):
    """The numbers of a metric, or the rest of them, cannot be measured again; the text says why."""


class Remeasured(NamedTuple):
    """A number that was measured again.

    Args:
        statistic: its name.
        view: the view.
        place: site and layer; for two layers those of the first; None for a number of the whole model.
        value: NaN where there is none.
        slack: by how much float32 rounding may move it beyond the tolerance, since it counts what exceeds something.
        other: the second layer, of a number for two.
    """

    statistic: str
    view: str
    place: StatePlace | None
    value: float
    slack: float = 0.0
    other: int | None = None


def over_views(
    reading: CorpusReading, numbers: Callable[[StatePlace, Floats, str], Iterator[tuple[Any, ...]]]
) -> Iterator[Remeasured]:
    """Yield the numbers of each place under every view: ``numbers`` yields name, value and slack of its states."""
    for place in reading.places:
        x = reading.at(place)
        for view in reading.masks:
            for name, value, *slack in numbers(place, x, view):
                yield Remeasured(name, view, place, value, *slack)


@dataclass(frozen=True)
class Tokenised:
    """One text as the model sees it; of a chat the turns of one role may count alone."""

    index: int
    ids: list[int]
    special: Mask
    counted: Mask
    cut: bool
    original: int
    unit: int


@dataclass
class CorpusReading:
    """The tokens of a corpus, their states on disk and what they are; arrays have the shape (tokens,).

    Args:
        folder: where states are put.
        seed: the study's seed.
        causal: whether the model is a decoder.
        corpus: texts in the corpus, those without a token included.
        texts: what the model saw.
        shuffled: whether the tokens of each text are shuffled before the model reads them.
        rule: what makes a token a sink.
        views: the study's views.
        sites: where the study reads states.
        positions_added: whether what enters the first block hangs on the position.
    """

    folder: Path
    seed: int
    causal: bool
    corpus: int
    texts: list[Tokenised]
    shuffled: bool
    rule: Rule
    views: tuple[str, ...]
    sites: tuple[str, ...]
    positions_added: bool
    widths: dict[StatePlace, int] = field(default_factory=dict)
    """The places that were read, in the order of the path, and then ``final``; the dimension of the states there."""
    notes: list[str] = field(default_factory=list)
    _kinds: list[Kinds] = field(default_factory=list)
    _memo: dict[Any, Any] = field(default_factory=dict)

    def read(self, model: PlainModel, tick: Callable[[int], None]) -> None:
        """Send every text through the model, alone, and put its states on disk.

        Raises:
            ReporterError: if states are not finite, or the model is not what the tables say.
        """
        for text in self.texts:
            if self.shuffled:
                ids = np.array(text.ids)
                ids[~text.special] = np.random.default_rng([self.seed, text.index]).permutation(ids[~text.special])
                text.ids[:] = ids.tolist()
            path, final = model.states(text.ids)
            states = {StatePlace("block" if layer else "embedding", layer): h.numpy() for layer, h in enumerate(path)}
            if final is not None and "final" in self.sites:
                states[StatePlace("final", model.layers)] = final.numpy()
            for place, x in states.items():
                if not np.isfinite(x).all():
                    raise ReporterError(f"text {text.index}: its states are not finite at {place.site} {place.layer}")
                self.widths[place] = x.shape[1]
                with self._file(place).open("ab") as file:
                    file.write(np.ascontiguousarray(x[text.counted], dtype=np.float32).tobytes())
            blocks = [h.numpy().astype(np.float64) for h in path[1:]]
            self._kinds.append(kinds_of_text(blocks, text.special, self.rule).of(text.counted))
            tick(1)

    def at(self, place: StatePlace) -> Floats:
        """Return the states at a place, shape (tokens, width), in float64; the few read last are kept."""
        held: dict[StatePlace, Floats] = self._memo.setdefault("states", {})
        if place not in held:
            while len(held) > 3:
                del held[next(iter(held))]
            flat = np.fromfile(self._file(place), dtype=np.float32)
            held[place] = flat.reshape(-1, self.widths[place]).astype(np.float64)
        return held[place]

    def _file(self, place: StatePlace) -> Path:
        return self.folder / f"{place.site}-{place.layer}"

    def once(self, name: Any, compute: Callable[[], Any]) -> Any:
        """Return ``compute()``, computed once."""
        if name not in self._memo:
            self._memo[name] = compute()
        return self._memo[name]

    @property
    def places(self) -> list[StatePlace]:
        """Every place that was read."""
        return list(self.widths)

    @property
    def path(self) -> list[StatePlace]:
        """The input of the first block and the output of each block."""
        return [place for place in self.widths if place.site != "final"]

    @cached_property
    def ids(self) -> Ints:
        """Token ids."""
        return np.concatenate([np.array(text.ids, dtype=np.int64)[text.counted] for text in self.texts])

    @cached_property
    def text(self) -> Ints:
        """The place in the corpus of each token's text."""
        return np.concatenate([np.full(text.counted.sum(), text.index) for text in self.texts])

    @cached_property
    def position(self) -> Ints:
        """The place of each token in its text."""
        return np.concatenate([np.flatnonzero(text.counted) for text in self.texts])

    @property
    def is_whole(self) -> bool:
        """Whether all tokens count that the model reads."""
        return all(text.counted.all() for text in self.texts)

    @cached_property
    def kinds(self) -> Kinds:
        """The kind of each token."""
        return Kinds.joined(self._kinds)

    @cached_property
    def masks(self) -> dict[str, Mask]:
        """The tokens that each view of the study holds."""
        return {view: self.kinds.view(view) for view in self.views}

    @cached_property
    def spans(self) -> list[tuple[int, slice]]:
        """Each text's place in the corpus, and where its tokens lie."""
        sizes = [int(text.counted.sum()) for text in self.texts]
        ends = np.cumsum(sizes).tolist()
        return [(t.index, slice(end - n, end)) for t, n, end in zip(self.texts, sizes, ends, strict=True)]

    @cached_property
    def type_counts(self) -> Counter[int]:
        """Count of each token id in the corpus, special tokens left out."""
        return Counter(self.ids[~self.kinds.special].tolist())

    @cached_property
    def frequent(self) -> Mask:
        """Whether a token's type occurs more often than the median type of those that occur by themselves."""
        everywhere = Counter(self.ids.tolist())
        middle = float(np.median(list(self.type_counts.values()))) if self.type_counts else 0.0
        return np.array([everywhere[token] > middle for token in self.ids.tolist()], dtype=bool)

    def drawn(self, mask: Mask, limit: int) -> Ints:
        """Return the tokens of a mask with the smallest hashes of seed, text and position, in the order of these."""
        rows = np.flatnonzero(mask)
        return rows[np.argsort(self._draws[rows])][:limit]

    def sampled(self, size: int) -> Mask:
        """Return which tokens a metric of single tokens reads: about ``size``, by the hashes of text and position."""
        limit = math.ceil(min(1.0, size / len(self.ids)) * 2.0**64)
        return self._draws <= np.uint64(limit - 1)

    @cached_property
    def originals(self) -> dict[int, int]:
        """The place of the first text of which the model reads the same ids, by the place of each text."""
        return {text.index: text.original for text in self.texts}

    @cached_property
    def units(self) -> dict[int, int]:
        """The place of the first text of the unit of observation of each text, by its own place."""
        return {text.index: text.unit for text in self.texts}

    @cached_property
    def _draws(self) -> NDArray[np.uint64]:
        pairs = zip(self.text.tolist(), self.position.tolist(), strict=True)
        return np.array([key(self.seed, text, position) for text, position in pairs], dtype=np.uint64)

    @cached_property
    def contexts(self) -> NDArray[np.uint64]:
        """The hash of what decided each token's block states."""
        hashes = [context_keys(text.ids, self.causal, self.seed) for text in self.texts]
        return np.concatenate([np.array(k, np.uint64)[t.counted] for k, t in zip(hashes, self.texts, strict=True)])


def tokenised(
    texts: Texts | Sequence[str], tokenizer: Any, limit: int, chat: FileCorpus | None = None
) -> list[Tokenised]:
    """Return the texts as the model reads them, cut at ``limit`` tokens; texts without tokens are left out.

    Args:
        texts: the texts.
        tokenizer: of the model.
        limit: in tokens.
        chat: the corpus as the study says it, if its texts are conversations.
    """
    never, clusters = never_a_word(tokenizer), getattr(texts, "clusters", None)  # texts of pairs have none
    first: dict[tuple[int, ...], int] = {}
    tokenised_texts = []
    for index, text in enumerate(texts):
        if chat is not None:
            whole, special, counted = _conversation(text, tokenizer, never, chat)
            ids, special, counted = whole[:limit], special[:limit], counted[:limit]
        else:
            whole = tokenizer(text, verbose=False)["input_ids"]
            read = tokenizer(text, truncation=True, max_length=limit, return_special_tokens_mask=True, verbose=False)
            ids, added = list(read["input_ids"]), read["special_tokens_mask"]
            special = np.array([bool(a) or i in never for i, a in zip(ids, added, strict=True)], dtype=bool)
            counted = np.ones(len(ids), dtype=bool)
        if counted.any():
            original = first.setdefault(tuple(ids), index)
            unit = original if clusters is None else int(clusters[original])
            tokenised_texts.append(Tokenised(index, ids, special, counted, len(whole) > limit, original, unit))
    return tokenised_texts


def _conversation(text: str, tokenizer: Any, never: set[int], chat: FileCorpus) -> tuple[list[int], Mask, Mask]:
    """Return the tokens of a conversation, which of them a template added, and which count.

    The place of each turn is where a mark comes out that is put in its stead.
    """
    turns = json.loads(text)

    def filled(contents: Sequence[str]) -> str:
        messages = [{**turn, "content": content} for turn, content in zip(turns, contents, strict=True)]
        with on_day(chat.date):
            return str(tokenizer.apply_chat_template(messages, tokenize=False))

    contents = [turn["content"].strip() for turn in turns]
    marks = [f"\uf8ff{number}\uf8ff" for number in range(len(turns))]
    whole, owner = "", np.zeros(0, dtype=np.int64)  # of each character its turn; −1 for the template
    for number, part in enumerate(re.split("\uf8ff([0-9]+)\uf8ff", filled(marks))):
        written, by = (contents[int(part)], int(part)) if number % 2 else (part, -1)
        whole, owner = whole + written, np.concatenate([owner, np.full(len(written), by)])
    if whole != filled([turn["content"] for turn in turns]):
        raise ReporterError(
            "its chat template writes a turn otherwise than a mark in its place, which has no second path"
        )
    encoding = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    owners = [next((by for by in owner[a:b].tolist() if by >= 0), -1) for a, b in encoding["offset_mapping"]]
    ids = list(encoding["input_ids"])
    special = np.array([by < 0 or i in never for i, by in zip(ids, owners, strict=True)], dtype=bool)
    counted = [chat.role is None or (by >= 0 and turns[by]["role"] == chat.role) for by in owners]
    return ids, special, np.array(counted, dtype=bool)
