"""The files of a model in the layout of ``save_pretrained``: which ones matter, and what is wrong where some lack."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from reporter.errors import ReporterError

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
PICKLE_INDEX = "pytorch_model.bin.index.json"

_VOCABULARIES = frozenset(
    {
        "tokenizer.json",
        "vocab.txt",
        "vocab.json",
        "tokenizer.model",
        "spiece.model",
        "sentencepiece.bpe.model",
    }
    | {"spm.model", "vocab.bpe", "source.spm", "tekken.json"}
)
_VOCABULARY_SUFFIXES = (".tiktoken", ".model", ".spm")
_TOKENIZER_EXTRAS = frozenset(
    {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt", "bpe.codes"}
)
_NEED_NO_VOCABULARY = frozenset({"ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer"})


def config_file(folder: Path) -> Path:
    """Return the configuration of the model in this folder.

    Raises:
        ReporterError: if there is no folder or no configuration.
    """
    if not folder.is_dir():
        kind = "is a file, not a folder" if folder.exists() else "is not there"
        raise ReporterError(f"the folder {folder} {kind}")
    if not (folder / CONFIG).is_file():
        raise ReporterError(f"{folder} has no {CONFIG}; a model's folder is what `save_pretrained` writes")
    return folder / CONFIG


def weight_files(folder: Path, allow_pickle: bool) -> list[Path]:
    """Return the files that hold the weights, an index first: safetensors, or pickle where that is allowed.

    Raises:
        ReporterError: if there are none, some of them are missing, or there is only pickle and it is not
            allowed.
    """
    found = _weights(folder, WEIGHTS, WEIGHTS_INDEX)
    if found:
        return found
    found = _weights(folder, PICKLE, PICKLE_INDEX)
    if found and not allow_pickle:
        raise ReporterError(
            f"{folder} holds its weights as pickle only ({found[0].name}), which can run code when it is read; "
            "convert them to safetensors, or write `allow_pickle: true` for this model if you trust them"
        )
    if not found:
        raise ReporterError(f"{folder} has no weights: neither {WEIGHTS} nor {WEIGHTS_INDEX}")
    return found


def tokenizer_files(folder: Path) -> list[Path]:
    """Return the files that a tokenizer is made from; empty where there is no tokenizer."""
    files = [file for file in sorted(folder.iterdir()) if file.is_file()]
    vocabulary = [f for f in files if f.name in _VOCABULARIES or f.name.endswith(_VOCABULARY_SUFFIXES)]
    extras = [f for f in files if f.name in _TOKENIZER_EXTRAS]
    return vocabulary + extras if vocabulary or _needs_no_vocabulary(folder) else []


def tokenizer_folder(folders: Iterable[Path]) -> Path:
    """Return the first of these folders that has a tokenizer.

    Raises:
        ReporterError: if none has one.
    """
    tried = list(dict.fromkeys(folders))
    for folder in tried:
        if tokenizer_files(folder):
            return folder
    raise ReporterError(
        f"{tried[0]} has no tokenizer (tokenizer.json, vocab.txt, …); "
        "save it beside the weights with `tokenizer.save_pretrained`"
    )


def code_files(folder: Path) -> list[Path]:
    """Return the Python files of the folder: with ``trust_remote_code`` they decide what the weights do."""
    return sorted(folder.glob("*.py"))


def _weights(folder: Path, single: str, index: str) -> list[Path]:
    if (folder / single).is_file():
        return [folder / single]
    if not (folder / index).is_file():
        return []
    try:
        shards = sorted(set(json.loads((folder / index).read_text("utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ReporterError(f"{folder / index} is damaged: it has no `weight_map`") from error
    missing = [shard for shard in shards if not (folder / shard).is_file()]
    if missing:
        raise ReporterError(f"{folder} lacks {missing[0]}, which {index} names")
    return [folder / index, *(folder / shard for shard in shards)]


def _needs_no_vocabulary(folder: Path) -> bool:
    try:
        config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        return config.get("tokenizer_class") in _NEED_NO_VOCABULARY
    except (OSError, ValueError, AttributeError):
        return False
