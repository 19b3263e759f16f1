"""The whole words of a model's tokenizer, read from its files: no torch, no transformers where it can be helped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reporter.errors import ReporterError
from reporter.models.model_folder import tokenizer_folder
from reporter.models.token_text import from_bytes

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint

_BYTE_SPACE = "Ġ"  # how byte-level BPE writes the space before a word
_PIECE_SPACE = "▁"  # how SentencePiece does
_CONTINUES = "##"  # how WordPiece marks a token that does not begin a word
_ENDS = "</w>"  # how the first BPE tokenizers mark a token that ends a word
_ONE_LETTER_WORDS = frozenset({"a", "A", "I"})


def whole_words(checkpoint: Checkpoint, offline: bool = False) -> list[str]:
    """Return the tokens that are whole alphabetic words, in the order of their ids, each once.

    Words of WordPiece lack the mark ``##``; those of byte-level BPE and SentencePiece begin with the mark of
    a space (unless the tokenizer has no such mark); in a word-level tokenizer every token is one. Special
    tokens are left out, and so are single letters other than "a" and "I".

    Args:
        checkpoint: of any model; a recipe model need not have been trained yet.
        offline: never ask a hub.

    Raises:
        ReporterError: if the model's tokenizer cannot be read, or has no such words.
    """
    try:
        if checkpoint.gguf is not None and checkpoint.path is not None:
            vocabulary, special = _by_transformers(checkpoint.path, **checkpoint.source_file)
        else:
            vocabulary, special = _vocabulary(_folder(checkpoint, offline))
    except ReporterError as error:
        raise ReporterError(f"{checkpoint.label}: {error}") from error
    found = _words(sorted(vocabulary, key=lambda token: vocabulary[token]), special)
    if not found:
        raise ReporterError(f"{checkpoint.label}: its tokenizer has no token that is a whole word")
    return list(dict.fromkeys(found.values()))


@dataclass(frozen=True)
class WordTokens:
    """Which tokens of a loaded tokenizer are words, and which belong together.

    Args:
        words: by id, what :func:`whole_words` counts as words.
        goes_on: whether a token goes on with the word of the token before it, (V,).
        unfinished: whether the token after it goes on with its word, (V,).
    """

    words: Mapping[int, str]
    goes_on: NDArray[np.bool_]
    unfinished: NDArray[np.bool_]


def word_tokens(tokenizer: Any, size: int) -> WordTokens:
    """Return the words among the tokens of a loaded tokenizer.

    Args:
        tokenizer: a transformers tokenizer.
        size: V, rows of the model's embedding; tokens beyond it are left out.
    """
    vocabulary = {token: i for token, i in tokenizer.get_vocab().items() if i < size}
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special = set(tokenizer.all_special_tokens) | {str(token) for token in added.values()}
    words = _words(vocabulary, special)
    mark = _mark(token for token in vocabulary if token not in special)
    goes_on, unfinished = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    for token, i in vocabulary.items():
        if token not in special:
            goes_on[i] = _goes_on(token, mark)
            unfinished[i] = mark == _ENDS and not token.endswith(_ENDS)
    return WordTokens({vocabulary[token]: word for token, word in words.items()}, goes_on, unfinished)


def _folder(checkpoint: Checkpoint, offline: bool) -> Path:
    if checkpoint.states:
        raise ReporterError("there are only its states, no tokenizer")
    if checkpoint.recipe is not None:
        from reporter.models.pocket_tokenizer import ensure_tokenizer

        return ensure_tokenizer(checkpoint)
    if checkpoint.tokenizer is not None:
        from reporter.models.hub import tokenizer_of

        return tokenizer_of(checkpoint.tokenizer, offline)
    if checkpoint.folder is None or checkpoint.path is None:
        from reporter.models.hub import download

        return tokenizer_folder([download(checkpoint, offline, weights=False)])
    return tokenizer_folder([checkpoint.folder, checkpoint.path])


def _vocabulary(folder: Path) -> tuple[dict[str, int], set[str]]:
    """Return the id of each token, and the special tokens."""
    try:
        if (folder / "tokenizer.json").is_file():
            content = json.loads((folder / "tokenizer.json").read_text("utf-8"))
            special = {token["content"] for token in content.get("added_tokens") or ()}
            return _ids(content["model"]["vocab"]), special
        if (folder / "vocab.txt").is_file():
            return _ids((folder / "vocab.txt").read_text("utf-8").splitlines()), set()
        if (folder / "vocab.json").is_file():
            return _ids(json.loads((folder / "vocab.json").read_text("utf-8"))), set()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReporterError(f"its tokenizer in {folder} cannot be read: {error}") from error
    return _by_transformers(folder)


def _ids(vocabulary: Any) -> dict[str, int]:
    if isinstance(vocabulary, dict):
        return vocabulary
    tokens = (entry if isinstance(entry, str) else entry[0] for entry in vocabulary)  # Unigram: [token, score]
    return {token: i for i, token in enumerate(tokens)}


def _by_transformers(folder: Path, **more: str) -> tuple[dict[str, int], set[str]]:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, **more)
    except Exception as error:
        raise ReporterError(f"its tokenizer in {folder} cannot be read: {error}") from error
    return tokenizer.get_vocab(), set(tokenizer.all_special_tokens)


def _words(tokens: Iterable[str], special: set[str]) -> dict[str, str]:
    """Return the word that each token is, for those that are one."""
    tokens = [token for token in tokens if token not in special]
    mark = _mark(tokens)
    if mark == _ENDS:
        candidates = {token: token.removesuffix(mark) for token in tokens if token.endswith(mark)}
    elif mark in (_BYTE_SPACE, _PIECE_SPACE):
        candidates = {token: token.removeprefix(mark) for token in tokens if token.startswith(mark)}
        if mark == _BYTE_SPACE:
            candidates = {token: _from_bytes(word) for token, word in candidates.items()}
    else:
        candidates = {token: token for token in tokens if not token.startswith(_CONTINUES)}
    return {token: word for token, word in candidates.items() if _is_word(word)}


def _mark(tokens: Iterable[str]) -> str:
    """Return how a tokenizer marks words: by the space before one, by its end, or by what goes on with one."""
    tokens = list(tokens)
    counts = {mark: sum(token.startswith(mark) for token in tokens) for mark in (_BYTE_SPACE, _PIECE_SPACE)}
    if any(counts.values()):
        return max(counts, key=lambda mark: counts[mark])
    return _ENDS if any(token.endswith(_ENDS) for token in tokens) else _CONTINUES


def _goes_on(token: str, mark: str) -> bool:
    """Tell whether a token goes on with a word: by its mark, or, after none, by a letter, a digit or an apostrophe."""
    if mark == _CONTINUES:
        return token.startswith(_CONTINUES) and len(token) > len(_CONTINUES)
    if mark == _ENDS or token.startswith(mark):
        return False
    text = _from_bytes(token) if mark == _BYTE_SPACE else token
    return not text or text[0].isalnum() or text[0] in "'’"  # bytes that are no text are a part of a letter


def _is_word(text: str) -> bool:
    return text.isalpha() and (len(text) > 1 or text in _ONE_LETTER_WORDS)


def _from_bytes(text: str) -> str:
    """Undo byte-level BPE's alphabet; text that is no valid UTF-8 becomes empty."""
    found = from_bytes(text)
    try:
        return "" if found is None else found.decode("utf-8")
    except UnicodeDecodeError:
        return ""
