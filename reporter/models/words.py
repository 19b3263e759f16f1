"""The texts of a vocabulary's tokens, and which of them are whole words. Needs no torch.

Every table, page and message shows tokens in this spelling. Two tokens can read alike; their ids differ.

===================  =======================================================
a space              ``␣``: ``␣the`` begins a word
a line feed, a tab   ``⏎``, ``⇥``
bytes without text   ``<0xE7>``: part of a character, or a control character
WordPiece            ``##ing`` continues a word
a special token      as the tokenizer writes it
===================  =======================================================
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reporter.core.errors import ReporterError, failing_as
from reporter.core.json_text import parse_json
from reporter.models.checkpoint import Checkpoint
from reporter.models.model_folder import tokenizer_files, tokenizer_folder

SPACE, LINE_FEED, TAB = "␣", "⏎", "⇥"
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_VISIBLE = {code: f"<0x{code:02X}>" if code < 0x80 else f"<U+{code:04X}>" for code in _CONTROLS}
_VARIANTS = "\ufe0e\ufe0f"  # a character as text, or as a picture
_VISIBLE |= {ord(" "): SPACE, ord("\n"): LINE_FEED, ord("\t"): TAB}

Marks = Literal["wordpiece", "byte-level", "sentencepiece", "space", "end-of-word", "unfinished", "none"]
"""How a tokenizer marks where words begin or end: ``##`` goes on with a word, ``Ġ``, ``▁`` and a space begin one,
``</w>`` ends one, and after ``@@`` one goes on."""

_BEGIN: Mapping[Marks, str] = {"byte-level": "Ġ", "sentencepiece": "▁", "space": " "}
_END: Mapping[Marks, str] = {"end-of-word": "</w>", "unfinished": "@@"}


def marks(tokens: Iterable[str]) -> Marks:
    """Return how a tokenizer marks words: by the mark that most of its tokens bear."""
    counts: Counter[Marks] = Counter()
    alone: set[Marks] = set()
    for token in tokens:
        counts["wordpiece"] += token.startswith("##") and len(token) > 2
        for mark, sign in _END.items():
            counts[mark] += token.endswith(sign) and len(token) > len(sign)
        for mark, sign in _BEGIN.items():
            counts[mark] += token.startswith(sign) and len(token) > 1
            alone |= {mark} if token == sign != " " else set()
    if any(counts.values()):
        return max(counts, key=lambda mark: counts[mark])
    return alone.pop() if len(alone) == 1 else "none"  # where every character is a token, none is a mark


@dataclass(frozen=True)
class Spelling:
    """The spelling of a tokenizer's tokens.

    Args:
        marks: its marks of words.
        bytes: what a character of a token stands for: ``gpt2`` (the byte-level alphabet), ``latin`` (the byte of the
            same number, as in ByT5) or ``text``.
    """

    marks: Marks
    bytes: Literal["gpt2", "latin", "text"]

    @classmethod
    def of(cls, vocabulary: Collection[str], special: Collection[str]) -> Spelling:
        """Return the spelling of a vocabulary."""
        text_tokens = set(vocabulary).difference(special)
        marked = marks(text_tokens)
        if marked == "byte-level":
            return cls(marked, "gpt2")
        if marked in ("end-of-word", "none"):  # unless it also has other characters, as one of all characters
            characters = {c for token in text_tokens for c in token.removesuffix("</w>")}
            if characters == byte_alphabet().keys():
                return cls(marked, "gpt2")
            if characters.issuperset(map(chr, range(0x80, 0xA0))) and max(characters) <= "\xff":
                return cls(marked, "latin")
        return cls(marked, "text")

    def decoded(self, text: str) -> str | None:
        """Return the text that a token without its mark stands for; None for bytes that are no text."""
        encoded = _bytes_of(text, self.bytes)
        if self.marks == "sentencepiece" and (byte := _BYTE_TOKEN.fullmatch(text)):
            encoded = bytes([int(byte[1], 16)])
        try:
            return text if encoded is None else encoded.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def read(self, token: str) -> str:
        """Return how a token that is not special reads."""
        ends = self.marks == "end-of-word" and token.endswith("</w>")
        text = token.removesuffix("</w>") if ends else token
        if self.marks == "sentencepiece":
            text = text.replace("▁", " ")
        elif (encoded := _bytes_of(text, self.bytes)) is not None:
            text = encoded.decode("utf-8", _HANDLER)
        return visible(text + " " * ends)

    def shown(self, i: int, token: str, special: Collection[int], added: Collection[int]) -> str:
        """Return how a token reads: a special one as it is, and one that was added as text as it was added."""
        if i in special:
            return token
        return visible(token) if i in added else self.read(token)


def visible(text: str) -> str:
    """Return a text whose spaces and control characters can be seen."""
    shown = text.translate(_VISIBLE)
    if not all(unicodedata.category(c) in ("Cf", "Zs", "Zl", "Zp") or c in _VARIANTS for c in shown):
        return shown
    return "".join(f"<U+{ord(c):04X}>" for c in shown)


def readable(
    tokens: Sequence[str | None], special: Collection[int], added: Collection[int] = ()
) -> tuple[str | None, ...]:
    """Return how each token of a vocabulary reads; None for a row that no token has. Added ones read as they are."""
    written = [token for token in tokens if token is not None]
    apart = (token for i in {*special, *added} if i < len(tokens) and (token := tokens[i]) is not None)
    spelling = Spelling.of(written, set(apart))
    return tuple(x if x is None else spelling.shown(i, x, special, added) for i, x in enumerate(tokens))


def token_names(tokenizer: Any, ids: Sequence[int]) -> dict[int, str]:
    """Return how some tokens of a tokenizer read, by id."""
    written = tokenizer.convert_ids_to_tokens(list(ids))
    if not hasattr(tokenizer, "get_vocab"):
        return dict(zip(ids, map(str, written), strict=True))
    as_added = _added(tokenizer)  # a normaliser may have changed what is written
    written = [str(as_added[i]) if i in as_added else token for i, token in zip(ids, written, strict=True)]
    special, added, vocabulary = special_ids(tokenizer), added_ids(tokenizer), tokenizer.get_vocab()
    spelling = Spelling.of(vocabulary, {token for token, i in vocabulary.items() if i in special or i in added})
    return {
        i: f"<id {i}>" if token is None else spelling.shown(i, str(token), special, added)
        for i, token in zip(ids, written, strict=True)
    }


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids of a tokenizer's special tokens."""
    return frozenset(tokenizer.all_special_ids) | {i for i, token in _added(tokenizer).items() if token.special}


def added_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids of tokens that were added to a tokenizer as text: no special ones, and in no alphabet of bytes."""
    return frozenset(i for i, token in _added(tokenizer).items() if not token.special)


def _added(tokenizer: Any) -> Mapping[int, Any]:
    """Return the tokens that were added to a tokenizer, by id; tokenizers of mistral-common have a method instead."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return added if isinstance(added, Mapping) else {}


def _bytes_of(text: str, alphabet: Literal["gpt2", "latin", "text"]) -> bytes | None:
    """Return the bytes that a text in an alphabet stands for; None for one that stands for itself, as added tokens."""
    if alphabet == "latin" and len(text) == 1 and 0x80 <= ord(text) < 0x100:
        return text.encode("latin-1")
    table = byte_alphabet() if alphabet == "gpt2" else {}
    return bytes(map(table.__getitem__, text)) if table and all(c in table for c in text) else None


@cache
def byte_alphabet() -> dict[str, int]:
    """Return GPT-2's alphabet: bytes that can be printed stand for themselves, the others for characters from 256."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    unprintable = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(unprintable)}


_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _undecoded(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"<0x{byte:02X}>" for byte in error.object[error.start : error.end]), error.end


_HANDLER = "reporter-bytes"
codecs.register_error(_HANDLER, _undecoded)


_ONE_LETTER_WORDS = frozenset({"a", "A", "I"})


def whole_words(checkpoint: Checkpoint, offline: bool = False) -> list[str]:
    """Return the tokens that are whole alphabetic words, in the order of their ids, each once.

    Words of WordPiece lack the mark ``##``; those of byte-level BPE and SentencePiece begin with the mark of
    a space (unless the tokenizer has no such mark); in a word-level tokenizer every token is one. Special
    tokens are left out, and so are single letters other than "a" and "I".
    """
    try:
        if checkpoint.gguf is not None and checkpoint.path is not None:
            vocabulary, special, added = _by_transformers(checkpoint.path, **checkpoint.source_file)
        else:
            vocabulary, special, added = _vocabulary(_folder(checkpoint, offline))
    except ReporterError as error:
        raise ReporterError(f"{checkpoint.label}: {error}") from error
    words = _words(sorted(vocabulary, key=lambda token: vocabulary[token]), special, added)
    if not words:
        raise ReporterError(f"{checkpoint.label}: no token of its vocabulary is a whole word; name another model")
    return list(dict.fromkeys(words.values()))


@dataclass(frozen=True)
class WordTokens:
    """The tokens of a loaded tokenizer that are words, and those that belong together.

    Args:
        words: by id, what :func:`whole_words` counts as words.
        goes_on: whether a token goes on with the word of the token before it, (V,).
        unfinished: whether the token after it goes on with its word, (V,).
    """

    words: Mapping[int, str]
    goes_on: NDArray[np.bool_]
    unfinished: NDArray[np.bool_]


def word_tokens(tokenizer: Any, size: int) -> WordTokens:
    """Return the words among the tokens of a loaded tokenizer."""
    vocabulary = {token: i for token, i in tokenizer.get_vocab().items() if i < size}
    added = {str(token): token for token in _added(tokenizer).values()}
    special = {*tokenizer.all_special_tokens, *added}
    words = _words(vocabulary, special, {text for text, token in added.items() if not token.special})
    spelling = Spelling.of(vocabulary, special)
    goes_on, unfinished = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    for token, i in vocabulary.items():
        if token not in special:
            goes_on[i] = _continues_word(token, spelling)
            unfinished[i] = spelling.marks in _END and not without_mark(token, spelling.marks)[0]
    return WordTokens({vocabulary[token]: word for token, word in words.items()}, goes_on, unfinished)


def _folder(checkpoint: Checkpoint, offline: bool) -> Path:
    if checkpoint.states:
        raise ReporterError("a model with `states` has no tokenizer; name another model")
    if checkpoint.recipe is not None:
        from reporter.models.toy.training import ensure_tokenizer

        return ensure_tokenizer(checkpoint)
    if checkpoint.tokenizer is not None:
        from reporter.models.resolve import tokenizer_of

        return tokenizer_of(checkpoint.tokenizer, offline)
    if checkpoint.adapter is not None and tokenizer_files(checkpoint.adapter):
        return checkpoint.adapter
    if checkpoint.folder is None or checkpoint.path is None:
        from reporter.models.resolve import download

        return tokenizer_folder([download(checkpoint, offline, weights=False)])
    return tokenizer_folder([checkpoint.folder, checkpoint.path])


def _vocabulary(folder: Path) -> tuple[dict[str, int], set[str], set[str]]:
    """Return the id of each token, the special and added tokens, and those that were added as text."""
    with failing_as(f"cannot read the tokenizer in {folder}"):
        if (folder / "tokenizer.json").is_file():
            content = parse_json((folder / "tokenizer.json").read_text("utf-8"))
            added = {token["content"]: token for token in content.get("added_tokens") or ()}
            as_text = {text for text, token in added.items() if not token.get("special")}
            ids = _ids(content["model"]["vocab"])
            return ids | {text: added[text]["id"] for text in as_text}, set(added), as_text
        if (folder / "vocab.txt").is_file() and not (folder / "bpe.codes").is_file():
            return _ids((folder / "vocab.txt").read_text("utf-8").splitlines()), set(), set()
        if (folder / "vocab.json").is_file():
            return _ids(parse_json((folder / "vocab.json").read_text("utf-8"))), set(), set()
    return _by_transformers(folder)


def _ids(vocabulary: Any) -> dict[str, int]:
    if isinstance(vocabulary, dict):
        return vocabulary
    tokens = (entry if isinstance(entry, str) else entry[0] for entry in vocabulary)  # Unigram: [token, score]
    return {token: i for i, token in enumerate(tokens)}


def _by_transformers(folder: Path, **more: str) -> tuple[dict[str, int], set[str], set[str]]:
    from transformers import AutoTokenizer

    with failing_as(f"cannot read the tokenizer in {folder}"):
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, **more)
    as_text = {token.content for token in _added(tokenizer).values() if not token.special}
    return tokenizer.get_vocab(), {*tokenizer.all_special_tokens, *as_text}, as_text


def _words(tokens: Iterable[str], special: set[str], added: Collection[str] = ()) -> dict[str, str]:
    """Return the words among tokens, in their order."""
    tokens = list(tokens)
    spelling = Spelling.of(tokens, special)
    words: dict[str, str] = {}
    for token in tokens:
        whole, unmarked = without_mark(token, spelling.marks)
        if token in added:
            text: str | None = token.strip()
        elif token in special or not whole:
            continue
        else:
            text = spelling.decoded(unmarked)
        if text is not None and _is_word(text):
            words[token] = text
    return words


def without_mark(token: str, marked: Marks) -> tuple[bool, str]:
    """Return whether a token is written as a word (or as its beginning), and its text without the mark."""
    if marked == "wordpiece":
        goes_on = token.startswith("##") and len(token) > 2
        return not goes_on, token[2:] if goes_on else token
    text = token.removesuffix(_END.get(marked, "")).removeprefix(_BEGIN.get(marked, ""))
    return marked == "none" or (text != token) == (marked != "unfinished"), text


def _continues_word(token: str, spelling: Spelling) -> bool:
    if spelling.marks in _END or without_mark(token, spelling.marks)[0]:
        return False
    if spelling.marks not in _BEGIN:
        return True
    text = spelling.decoded(token)
    return not text or _goes_with_letters(text[0]) or text[0].isalnum() or text[0] in "'’"  # bytes: part of a letter


def _is_word(text: str) -> bool:
    letters = text[:1].isalpha() and all(c.isalpha() or _goes_with_letters(c) for c in text)
    return letters and (len(text) > 1 or text in _ONE_LETTER_WORDS)


def _goes_with_letters(character: str) -> bool:
    """Whether a character is an accent or a vowel sign, or joins or parts letters within a word."""
    return unicodedata.category(character).startswith("M") or character in "\u200c\u200d"
