"""The whole words of a model's tokenizer, read from its files: no torch, no transformers where it can be helped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.errors import ReporterError
from reporter.models.model_folder import tokenizer_folder

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint

_BYTE_SPACE = "Ġ"  # how byte-level BPE writes the space before a word
_PIECE_SPACE = "▁"  # how SentencePiece does
_CONTINUES = "##"  # how WordPiece marks a token that does not begin a word
_ENDS = "</w>"  # how the first BPE tokenizers mark a token that ends a word
_ONE_LETTER_WORDS = frozenset({"a", "A", "I"})


def whole_words(checkpoint: Checkpoint) -> list[str]:
    """Return the tokens that are whole alphabetic words, in the order of their ids, each once.

    Words of WordPiece lack the mark ``##``; those of byte-level BPE and SentencePiece begin with the mark of
    a space (unless the tokenizer has no such mark); in a word-level tokenizer every token is one. Special
    tokens are left out, and so are single letters other than "a" and "I".

    Args:
        checkpoint: of any model; a recipe model need not have been trained yet.

    Raises:
        ReporterError: if the model's tokenizer cannot be read, or has no such words.
    """
    try:
        folder = _folder(checkpoint)
        vocabulary, special = _vocabulary(folder)
    except ReporterError as error:
        raise ReporterError(f"{checkpoint.label}: {error}") from error
    found = _words(sorted(vocabulary, key=lambda token: vocabulary[token]), special)
    if not found:
        raise ReporterError(f"{checkpoint.label}: its tokenizer has no token that is a whole word")
    return found


def _folder(checkpoint: Checkpoint) -> Path:
    if checkpoint.recipe is not None:
        from reporter.models.pocket_tokenizer import ensure_tokenizer

        return ensure_tokenizer(checkpoint)
    if checkpoint.folder is None or checkpoint.path is None:
        from reporter.models.hub import download

        return tokenizer_folder([download(checkpoint, offline=False, weights=False)])
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


def _by_transformers(folder: Path) -> tuple[dict[str, int], set[str]]:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        raise ReporterError(f"its tokenizer in {folder} cannot be read: {error}") from error
    return tokenizer.get_vocab(), set(tokenizer.all_special_tokens)


def _words(tokens: Iterable[str], special: set[str]) -> list[str]:
    tokens = [token for token in tokens if token not in special]
    counts = {mark: sum(token.startswith(mark) for token in tokens) for mark in (_BYTE_SPACE, _PIECE_SPACE)}
    mark = max(counts, key=lambda m: counts[m]) if any(counts.values()) else ""
    if mark:
        candidates = [token.removeprefix(mark) for token in tokens if token.startswith(mark)]
        if mark == _BYTE_SPACE:
            candidates = [_from_bytes(word) for word in candidates]
    elif any(token.endswith(_ENDS) for token in tokens):
        candidates = [token.removesuffix(_ENDS) for token in tokens if token.endswith(_ENDS)]
    else:
        candidates = [token for token in tokens if not token.startswith(_CONTINUES)]
    return list(dict.fromkeys(word for word in candidates if _is_word(word)))


def _is_word(text: str) -> bool:
    return text.isalpha() and (len(text) > 1 or text in _ONE_LETTER_WORDS)


def _from_bytes(text: str) -> str:
    """Undo byte-level BPE's alphabet; text that is no valid UTF-8 becomes empty."""
    table = _byte_of()
    try:
        return bytes(table[character] for character in text).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return ""


@cache
def _byte_of() -> dict[str, int]:
    """Return GPT-2's alphabet: printable bytes stand for themselves, the others for characters from 256 on."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
