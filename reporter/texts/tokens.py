"""Token ids of a corpus, in shards that can be measured one at a time and batches under a token budget.

A shard is a run of consecutive texts. Where it begins and ends depends on the texts alone, never on the model, the
batch size or what was measured before, so that a killed run can go on at the last finished one.

A corpus is tokenised once for all models that read it alike, and kept on disk: ``ids.bin`` (int32) and ``marks.bin``
(one byte a token: whether it is special, where a text or a window begins, and what is context alone), all texts one
after the other; ``starts.npy`` (int64, where each text begins, and the end of the last), ``cut.npy`` (bool) and
``originals.npy`` (int64).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from reporter.core.artifacts import Artifact
from reporter.core.children import MEMORY, SECONDS, Limit, in_child, in_children
from reporter.core.errors import ReporterError, failing_as
from reporter.study.corpora import CorpusPart
from reporter.texts.chat import Chat
from reporter.texts.chat import tokenised as conversation
from reporter.texts.texts import Texts, originals

# Windows over a long text: each of its tokens counts once, with the tokens before it as context.
#
# The same as the strided perplexity of language models: a window after the first repeats tokens of the one before,
# which the model reads and nobody counts. Every window is what the tokenizer would make of a text of its own: what it
# adds before and after a text stands around each of them, and counts once, around the first and the last.


@dataclass(frozen=True)
class Windows:
    """The windows in which a long text is read.

    Args:
        size: the most tokens that a model reads at once, what the tokenizer adds included.
        stride: how many of the text's own tokens a window begins after the one before it. Smaller ones leave each
            counted token more context, at least size − stride tokens of it, and take longer.
    """

    size: int
    stride: int

    @classmethod
    def of(cls, corpus: CorpusPart) -> Windows | None:
        """Return how a study has a corpus read; None where its texts are cut."""
        return None if corpus.window is None else cls(corpus.window, corpus.stride or max(1, corpus.window // 2))

    def within(self, longest: int | None) -> Windows:
        """Return windows that a model can read that takes at most so many tokens."""
        return self if longest is None or longest >= self.size else Windows(longest, min(self.stride, longest))


def windows_of(special: NDArray[np.bool_], windows: Windows) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield the windows of a text, so that each of its tokens counts in just one.

    Yields:
        which tokens of the text a window holds, ascending, and which of these count elsewhere, each (tokens,).

    Raises:
        ReporterError: if a window has no room for a token of the text's own.
    """
    length = len(special)
    own_tokens = np.flatnonzero(~special)
    if length <= windows.size or not len(own_tokens):
        yield np.arange(length), np.zeros(length, dtype=bool)
        return
    before, after = np.arange(own_tokens[0]), np.arange(own_tokens[-1] + 1, length)
    body = np.arange(own_tokens[0], own_tokens[-1] + 1)
    room = windows.size - len(before) - len(after)
    if room < 1:
        raise ReporterError(
            f"a window of {windows.size} tokens has no room for a word, since the tokenizer adds "
            f"{len(before) + len(after)} special tokens; use a larger `window`"
        )
    stride, counted, start = min(windows.stride, room), 0, 0
    while counted < len(body):
        end = min(start + room, len(body))
        rows = np.concatenate([before, body[start:end], after])
        context = np.ones(len(rows), dtype=bool)
        context[len(before) + counted - start : len(before) + end - start] = False
        context[: len(before)] &= counted > 0
        context[len(rows) - len(after) :] &= end < len(body)
        yield rows, context
        counted, start = end, start + stride


SHARD_CHARACTERS = 512 * 1024  # about 120,000 tokens: what a kill can cost, and what batches are made from
SHARD_TEXTS = 8192
PIECE_CHARACTERS = 64 * 1024  # that one process tokenises before it takes the next: a share for each core
PAD_TO = 8


@dataclass(frozen=True)
class Shard:
    """Texts ``start`` to ``stop`` (exclusive) of a corpus."""

    index: int
    start: int
    stop: int


@dataclass(frozen=True)
class TokenisedText:
    """One text as a model sees it, or one window of a long one.

    Args:
        index: its place in the corpus. The w-th further window of text i of a corpus of n texts has i + w·n, so that
            the first one has the number of its text for every tokenizer.
        ids: token ids, shape (tokens,), special tokens included.
        special: True where the token is not one of the text's own: the tokenizer added it, or it stands for a special
            string such as "[CLS]" that the text spells out, shape (tokens,).
        cut: whether the text was longer than the limit.
        context: True where the model reads a token and nobody counts it, because the window before it has it or because
            it is another's turn, shape (tokens,); None where all count.
    """

    index: int
    ids: NDArray[np.int64]
    special: NDArray[np.bool_]
    cut: bool
    context: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def counted(self) -> NDArray[np.bool_]:
        """True where a token counts, shape (tokens,)."""
        return np.ones(len(self), dtype=bool) if self.context is None else ~self.context

    def shuffled(self, seed: int) -> TokenisedText:
        """Return the text with its own tokens in random order; what the tokenizer added stays in its place.

        What counts and what is context are shuffled apart, so that the same tokens count as before.
        """
        ids, draws = self.ids.copy(), np.random.default_rng([seed, self.index])
        for part in (~self.special & self.counted, ~self.special & ~self.counted):
            ids[part] = draws.permutation(ids[part])
        return replace(self, ids=ids)


@dataclass(frozen=True)
class TokenBatch:
    """Texts of similar length, right-padded to the same length.

    Args:
        ids: shape (texts, length); padding repeats ``pad_id`` and never counts.
        mask: 1 for a token, 0 for padding, shape (texts, length).
        special: True where the token is not one of the text's own, shape (texts, length).
        texts: number of each row's text, or window, shape (texts,).
        counted: True for a token that counts: no padding, no context alone, shape (texts, length).
    """

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    special: NDArray[np.bool_]
    texts: NDArray[np.int64]
    counted: NDArray[np.bool_]

    def split(self, batch_tokens: int) -> Iterator[TokenBatch]:
        """Yield its texts in batches of at most so many tokens, padding included, but of one text at least."""
        rows = max(1, batch_tokens // self.ids.shape[1])
        for start in range(0, len(self.ids), rows):
            yield TokenBatch(*(column[start : start + rows] for column in vars(self).values()))


@dataclass(frozen=True, eq=False)
class GivenTokens:
    """The tokens of a corpus where they are known already; it stands where a tokenizer stands.

    Args:
        starts: place of each text's first token and, at the end, the number of tokens, shape (texts + 1,).
        ids: shape (tokens,).
        special: True where a token is not the text's own, shape (tokens,).
        names: how ids are written; an id beyond its end is written as a number.
    """

    starts: NDArray[np.int64]
    ids: NDArray[np.int64]
    special: NDArray[np.bool_]
    names: tuple[str, ...]

    pad_token_id: ClassVar[int] = 0
    eos_token_id: ClassVar[None] = None

    def of(self, shard: Shard, max_tokens: int) -> list[TokenisedText]:
        """Return the texts of a shard that have tokens, cut at ``max_tokens``."""
        texts = []
        for index in range(shard.start, min(shard.stop, len(self.starts) - 1)):
            rows = slice(self.starts[index], min(self.starts[index + 1], self.starts[index] + max_tokens))
            if rows.stop > rows.start:
                cut = self.starts[index + 1] > rows.stop
                texts.append(TokenisedText(index, self.ids[rows], self.special[rows], bool(cut)))
        return texts

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return how ids are written."""
        return [self.names[i] if i < len(self.names) else str(i) for i in ids]


@dataclass(frozen=True, eq=False)
class TokenisedCorpus:
    """A corpus as token ids; what lies on disk is mapped, so that it takes no memory until it is read.

    Args:
        name: the corpus.
        shards: its shards.
        starts: place of each text's first token and, at the end, the number of tokens, shape (texts + 1,). All windows
            of a text lie one after the other.
        cut: whether each text was longer than the limit, shape (texts,).
        originals: for each text the place of the first one of which the model reads the same ids, shape (texts,).
        ids: int32, shape (tokens,).
        marks: bit 0 where a token is not the text's own, bit 1 where a text or a window begins, bit 2 where a token is
            context alone, shape (tokens,).
        clusters: for each text the place of the first one of its cluster, shape (texts,); None without clusters.
    """

    name: str
    shards: tuple[Shard, ...]
    starts: NDArray[np.int64]
    cut: NDArray[np.bool_]
    originals: NDArray[np.int64]
    ids: NDArray[np.int32]
    marks: NDArray[np.uint8]
    clusters: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.cut)

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """The unit of observation of each text, by its first text, shape (texts,).

        Texts of which the model reads the same ids are one observation, and so are all texts of a cluster. Texts may
        differ in what a tokenizer drops (capitals, white space) or beyond the limit.
        """
        return self.originals if self.clusters is None else np.asarray(self.clusters[self.originals])

    @cached_property
    def representatives(self) -> NDArray[np.bool_]:
        """Whether a text is the first one with tokens of its unit, shape (texts,)."""
        read = np.flatnonzero(np.diff(self.starts) > 0)
        first = np.zeros(len(self), dtype=np.bool_)
        first[read[np.unique(self.units[read], return_index=True)[1]]] = True
        return first

    @property
    def windows(self) -> int:
        """How many inputs the model reads: texts that have tokens, or windows of them."""
        return int(np.count_nonzero(self.marks & _BEGINS))

    def of(self, shard: Shard) -> list[TokenisedText]:
        """Return the texts of a shard that have tokens, or all of their windows."""
        starts = self.starts[shard.start : shard.stop + 1].tolist()
        ids = self.ids[starts[0] : starts[-1]].astype(np.int64)
        marks = np.array(self.marks[starts[0] : starts[-1]])
        inputs = []
        for index, start, stop in zip(range(shard.start, shard.stop), starts[:-1], starts[1:], strict=True):
            begins = start - starts[0] + np.flatnonzero(marks[start - starts[0] : stop - starts[0]] & _BEGINS)
            for window, (begin, end) in enumerate(pairwise([*begins.tolist(), stop - starts[0]])):
                special, context = ((marks[begin:end] & mark) > 0 for mark in (_SPECIAL, _CONTEXT))
                number, cut = index + window * len(self), bool(self.cut[index])
                inputs.append(TokenisedText(number, ids[begin:end], special, cut, context))
        return inputs

    def text_of(self, texts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of the texts that numbers of texts or windows belong to, shape (n,)."""
        return np.asarray(texts % max(1, len(self)))


_SPECIAL, _BEGINS, _CONTEXT = 1, 2, 4  # bits of ``marks``


def tokenise_corpus(
    texts: Texts,
    tokenizer: Any,
    max_tokens: int,
    folder: Path | None = None,
    windows: Windows | None = None,
    chat: Chat | None = None,
    waiting: Callable[[str], None] | None = None,
) -> TokenisedCorpus:
    """Tokenise a corpus, shard by shard; see :func:`tokenise_texts`."""
    inputs = _tokenised(texts, shards(texts, PIECE_CHARACTERS), tokenizer, max_tokens, windows, chat)
    if folder is None:
        files = io.BytesIO(), io.BytesIO()
        starts, cut, firsts = _write(inputs, len(texts), *files)
        if isinstance(tokenizer, GivenTokens):  # which may be states without ids
            firsts = originals(text.encode("utf-8", "surrogatepass") for text in texts)
        ids, marks = (np.frombuffer(x.getvalue(), kind) for x, kind in zip(files, (np.int32, np.uint8), strict=True))
        return TokenisedCorpus(texts.name, tuple(shards(texts)), starts, cut, firsts, ids, marks, texts.clusters)

    def fill(fresh: Path) -> None:
        with (fresh / "ids.bin").open("wb") as of_ids, (fresh / "marks.bin").open("wb") as of_marks:
            starts, cut, firsts = _write(inputs, len(texts), of_ids, of_marks)
        for file, array in (("starts", starts), ("cut", cut), ("originals", firsts)):
            np.save(fresh / f"{file}.npy", array)

    again = "the corpus is tokenised again"
    return _opened(texts, Artifact(folder, again).made(fill, f"tokens of {texts.name}", waiting))


def _write(
    inputs: Iterable[TokenisedText], count: int, ids: BinaryIO, marks: BinaryIO
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Write the tokens of all texts; return where each begins, which were cut, and the first text of the same ids."""
    sizes, cut = np.zeros(count + 1, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    read = [b""] * count
    for text in inputs:
        ids.write(text.ids.astype(np.int32).tobytes())
        of_text = (_SPECIAL * text.special + _CONTEXT * ~text.counted).astype(np.uint8)
        of_text[:1] |= _BEGINS
        marks.write(of_text.tobytes())
        place = text.index % count
        sizes[place + 1], cut[place] = sizes[place + 1] + len(text), text.cut
        read[place] = blake2b(read[place] + text.ids.tobytes(), digest_size=8).digest()  # after the windows before it
    return np.cumsum(sizes), cut, originals(read)


def _opened(texts: Texts, folder: Path) -> TokenisedCorpus:
    """Map the tokens in a folder."""
    starts, cut, of_first = (np.load(folder / f"{name}.npy") for name in ("starts", "cut", "originals"))
    ids, marks = _mapped(folder / "ids.bin", np.int32), _mapped(folder / "marks.bin", np.uint8)
    return TokenisedCorpus(texts.name, tuple(shards(texts)), starts, cut, of_first, ids, marks, texts.clusters)


def _mapped(path: Path, dtype: Any) -> NDArray[Any]:
    return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype)


def shards(texts: Texts, characters: int | None = None) -> list[Shard]:
    """Cut a corpus into shards of about so many characters, ``SHARD_CHARACTERS``, and at most ``SHARD_TEXTS`` texts."""
    most = characters or SHARD_CHARACTERS
    parts: list[Shard] = []
    start, size = 0, 0
    for i, length in enumerate(texts.lengths()):
        if i > start and (size + length > most or i - start >= SHARD_TEXTS):
            parts.append(Shard(len(parts), start, i))
            start, size = i, 0
        size += int(length)
    if len(texts) > start:
        parts.append(Shard(len(parts), start, len(texts)))
    return parts


def tokenise(
    texts: Texts,
    shard: Shard,
    tokenizer: Any,
    max_tokens: int,
    windows: Windows | None = None,
    chat: Chat | None = None,
) -> list[TokenisedText]:
    """Tokenise one shard; see :func:`tokenise_texts`. Tokens that are given are looked up."""
    return list(_tokenised(texts, [shard], tokenizer, max_tokens, windows, chat))


def _tokenised(
    texts: Texts, pieces: Sequence[Shard], tokenizer: Any, max_tokens: int, windows: Windows | None, chat: Chat | None
) -> Iterator[TokenisedText]:
    """Yield the tokens of pieces of a corpus, which child processes tokenise."""
    if isinstance(tokenizer, GivenTokens):
        yield from (text for piece in pieces for text in tokenizer.of(piece, max_tokens))
        return
    most = None if windows else max_tokens

    def compute(piece: Shard) -> list[TokenisedText]:
        raw = texts.slice(piece.start, piece.stop)
        if chat is not None:
            whole = _conversations(raw, tokenizer, chat, most, piece.start)
        else:
            whole = _read(raw, tokenizer, most, piece.start)
        return whole if windows is None else [part for text in whole for part in _in_windows(text, windows, len(texts))]

    def limit(piece: Shard) -> Limit:
        which = f"{piece.start + 1:,} to {piece.stop:,} of corpus '{texts.name}'"
        return allowed_for(int(lengths[piece.start : piece.stop].sum()), which, chat)

    lengths = np.fromiter(texts.lengths(), np.int64, len(texts))
    for tokens in in_children(compute, pieces, limit):
        yield from tokens


_SLOWEST = 10_000  # characters a second: slow tokenizers read ten times as many, fast ones a hundred times
_BYTES = 1024  # of memory for each character, some times of what byte-level tokenizers need


def allowed_for(characters: int, which: str, chat: Chat | None = None) -> Limit:
    """Return what a child process may take to tokenise texts.

    Args:
        characters: of the texts together.
        which: the texts, in messages.
        chat: of conversations.
    """
    what, remedy = f"tokenising texts {which}", "check `normalizer` and `pre_tokenizer` in the model's tokenizer.json"
    if chat is not None:
        what, remedy = f"tokenising conversations {which}", "check the chat template of the model"
    return Limit(what, remedy, SECONDS + characters / _SLOWEST, MEMORY + characters * _BYTES)


def _conversations(
    raw: list[str], tokenizer: Any, chat: Chat, max_tokens: int | None, first: int
) -> list[TokenisedText]:
    never, inputs = ids_without_words(tokenizer), []
    for index, text in enumerate(raw, first):
        ids, special, context = conversation(text, index + 1, tokenizer, never, chat)
        rows = slice(max_tokens)
        if not context[rows].all():
            inputs.append(TokenisedText(index, ids[rows], special[rows], len(ids[rows]) < len(ids), context[rows]))
    return inputs


def _in_windows(text: TokenisedText, windows: Windows, texts: int) -> Iterator[TokenisedText]:
    number = 0
    for start, context in windows_of(text.special, windows):
        context = context | ~text.counted[start]
        if not context.all():
            yield TokenisedText(text.index + number * texts, text.ids[start], text.special[start], text.cut, context)
            number += 1


def tokenise_texts(raw: list[str], tokenizer: Any, max_tokens: int | None) -> list[TokenisedText]:
    """Tokenise texts as the tokenizer does by default: special tokens added, long texts cut at ``max_tokens``.

    Texts that give no token at all are left out.

    Raises:
        ReporterError: the tokenizer fails, or takes too much time or memory.
    """
    return in_child(lambda: _read(raw, tokenizer, max_tokens, 0), allowed_for(sum(map(len, raw)), f"1 to {len(raw):,}"))


def _read(raw: list[str], tokenizer: Any, max_tokens: int | None, first: int) -> list[TokenisedText]:
    result = []
    with failing_as("the tokenizer of the model fails"):
        never = ids_without_words(tokenizer)
        whole = tokenizer(raw, return_special_tokens_mask=True, verbose=False)
        for offset, (ids, special) in enumerate(zip(whole["input_ids"], whole["special_tokens_mask"], strict=True)):
            cut = max_tokens is not None and len(ids) > max_tokens
            if cut:
                # Asked again, because only the tokenizer knows how to cut and keep the closing special token.
                short = tokenizer(
                    raw[offset], return_special_tokens_mask=True, truncation=True, max_length=max_tokens, verbose=False
                )
                ids, special = short["input_ids"], short["special_tokens_mask"]
            if ids:
                token_ids = np.asarray(ids, dtype=np.int64)
                not_own = np.asarray(special, dtype=bool) | np.isin(token_ids, never)
                result.append(TokenisedText(first + offset, token_ids, not_own, cut))
    return result


_ROLES = ("bos", "eos", "cls", "sep", "mask")


def ids_without_words(tokenizer: Any) -> NDArray[np.int64]:
    """Return the ids that are no word wherever they stand: a text that spells out "[CLS]" or "</s>" gets them, too.

    An unknown word is a word, although its token is a special one, unless that token has another role besides.
    """
    roles = {getattr(tokenizer, f"{role}_token_id", None) for role in _ROLES}
    unknown = {getattr(tokenizer, "unk_token_id", None)} - roles
    return np.array(sorted({*getattr(tokenizer, "all_special_ids", ())} - unknown), dtype=np.int64)


def batches(
    texts: list[TokenisedText], batch_tokens: int, pad_id: int, longest: int | None = None, exact: bool = False
) -> Iterator[TokenBatch]:
    """Group texts by length into batches of at most ``batch_tokens`` tokens, padding included; longest first.

    The length to which a text is padded hangs on that text alone, since attention over another length, or without a
    mask, adds up in another order: so the batch size does not change a single bit of a state, where matrix products
    do not depend on their number of rows. The longest come first so that a batch that does not fit into memory fails
    at once. A text longer than the budget is a batch of its own. If ``exact``, no text is padded.
    """
    groups: dict[tuple[int, bool], list[TokenisedText]] = {}
    for text in sorted(texts, key=lambda text: text.index):
        length = len(text) if exact else padded_length(len(text), longest)
        groups.setdefault((length, length == len(text)), []).append(text)
    for (length, _), group in sorted(groups.items(), reverse=True):
        rows = max(1, batch_tokens // length)
        for start in range(0, len(group), rows):
            yield _pad(group[start : start + rows], length, pad_id)


def padded_length(tokens: int, longest: int | None) -> int:
    """Return the length to which a text is padded: the next multiple of ``PAD_TO`` that leaves room for padding.

    With at least one token of padding, transformers never drops the mask. A text as long as the model takes has no
    padding, and is batched with its like alone.
    """
    length = (tokens // PAD_TO + 1) * PAD_TO
    return length if longest is None else max(tokens, min(length, longest))


def _pad(texts: list[TokenisedText], length: int, pad_id: int) -> TokenBatch:
    shape = (len(texts), length)
    ids = np.full(shape, pad_id, dtype=np.int64)
    mask = np.zeros(shape, dtype=np.int64)
    special, counted = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text.ids
        mask[row, : len(text)] = 1
        special[row, : len(text)] = text.special
        counted[row, : len(text)] = text.counted
    return TokenBatch(ids, mask, special, np.array([text.index for text in texts], dtype=np.int64), counted)


# Ranges: runs of consecutive shards that are measured by themselves, by whoever comes first.
#
# Where they begin and end depends on the texts alone, never on how many workers there are: what each range leaves is
# merged in their order, so numbers are the same to the last bit however the work was shared.


RANGE_SHARDS = 32  # about 4 million tokens: what it leaves is written in a small part of the time that it takes
MOST_RANGES = 64  # of a corpus, each longer in a larger one: so much is on disk, and merged, at most


@dataclass(frozen=True)
class ShardRange:
    """Consecutive shards of a corpus.

    Args:
        index: its place among the ranges.
        shards: its shards, one at least.
    """

    index: int
    shards: tuple[Shard, ...]

    @property
    def start(self) -> int:
        """Its first text."""
        return self.shards[0].start

    @property
    def stop(self) -> int:
        """The text after its last one."""
        return self.shards[-1].stop


def ranges(shards: Sequence[Shard]) -> list[ShardRange]:
    """Cut the shards of a corpus into ranges, at most ``MOST_RANGES`` of them."""
    size = max(RANGE_SHARDS, -(-len(shards) // MOST_RANGES))
    starts = range(0, len(shards), size)
    return [ShardRange(index, tuple(shards[start : start + size])) for index, start in enumerate(starts)]
