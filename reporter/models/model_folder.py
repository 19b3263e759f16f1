"""The files of a model in the layout of ``save_pretrained``: which files are needed, checks, and hashes.

Hashes are remembered: gigabytes of weights are read once, not at every run.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reporter.core.checksums import read_note, sha256, write_note
from reporter.core.errors import ReporterError, failing_as
from reporter.core.files import MOST_OF_A_STUDY, endless, instead_of
from reporter.core.imports import check_installed
from reporter.core.json_text import read_json, require_json

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
PICKLE_INDEX = "pytorch_model.bin.index.json"
ADAPTER = "adapter_config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"

_VOCABULARIES = frozenset(
    {
        "tokenizer.json",
        "vocab.txt",
        "vocab.json",
        "tokenizer.model",
        "spiece.model",
        "sentencepiece.bpe.model",
        "spm.model",
        "vocab.bpe",
        "source.spm",
        "tekken.json",
    }
)
_VOCABULARY_SUFFIXES = (".tiktoken", ".model", ".spm")
_TOKENIZER_EXTRAS = frozenset(
    {TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json", "merges.txt", "bpe.codes", "chat_template.jinja"}
)
_NEED_NO_VOCABULARY = frozenset({"ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer"})


_PACKED_BY = {"bitsandbytes": ("bitsandbytes", "accelerate"), "compressed-tensors": ("compressed_tensors",)}
_PACKED_BY |= {"fp8": ("accelerate",), "bitnet": ("accelerate",)}
_RUN_BY = {"gptq": ("optimum", "gptqmodel"), "awq": ("gptqmodel", "accelerate")}  # transformers cannot unpack these
_OTHER_WEIGHTS = (".ckpt", ".pt", ".pth", ".bin", ".distcp", ".h5", ".msgpack", ".onnx", ".npz", ".safetensors")
_MOST = {".json": 256 * 2**20, ".txt": 256 * 2**20}  # bytes of a file that is read as a whole; most have a few MB

LIMITS = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "max_seq_length",
    "seq_length",
    "n_ctx",
)
"""Names of the longest input in configurations."""
WIDTHS = ("hidden_size", "n_embd", "d_model", "dim")
"""Names of the dimensions of a state in configurations."""


def text_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of the part that reads texts; empty where it cannot be read.

    Loading the model reports what is wrong with it.
    """
    config = read_json(folder / CONFIG) or {}
    text = config.get("text_config")
    return text if isinstance(text, dict) and text else config


def limit_of(folder: Path) -> int | None:
    """Return the most tokens that the configuration of a model's folder names; None where it names none."""
    config = text_config(folder)
    return min((value for name in LIMITS if isinstance(value := config.get(name), int) and value > 0), default=None)


def width_of(folder: Path) -> int | None:
    """Return the dimensions of a state that the configuration of a model's folder names; None where it names none."""
    config = text_config(folder)
    return next((value for name in WIDTHS if isinstance(value := config.get(name), int)), None)


def config_file(folder: Path) -> Path:
    """Return the configuration of the model in this folder."""
    if not folder.is_dir():
        if folder.exists():
            raise ReporterError(f"{folder} is a file; name a folder with {CONFIG}, or a .gguf file")
        raise ReporterError(f"there is no folder {folder}{instead_of(folder, Path.is_dir) or '; check the path'}")
    if not (folder / CONFIG).is_file():
        if is_adapter(folder):
            raise _only_an_adapter(folder)
        if files := sorted(file.name for file in folder.glob("*.gguf")):
            raise ReporterError(f"{folder} has no {CONFIG}, but a GGUF file; name {folder / files[0]} instead")
        raise ReporterError(f"{folder} has no {CONFIG}; name a folder that `save_pretrained` wrote")
    for file in sorted(folder.iterdir()):
        most = MOST_OF_A_STUDY if file.name == CONFIG else _MOST.get(file.suffix)
        if (problem := endless(file, most)) and not file.is_dir():
            raise ReporterError(f"{file} {problem}")
    require_json(folder / CONFIG, "save or download the model again")
    for package in _PACKED_BY.get(method := quantised_by(folder), ()):
        check_installed(package, "quantised", f"{folder} (quantised weights)")
    if lacking := [package for package in _RUN_BY.get(method, ()) if find_spec(package) is None]:
        raise ReporterError(
            f"{folder} has {method.upper()} weights, which need more packages; install them with: pip install "
            f"{' '.join(lacking)}. Or measure the original model"
        )
    return folder / CONFIG


def quantised_by(folder: Path) -> str:
    """Return the quantisation method in the configuration of a model; empty for plain weights."""
    settings = (read_json(folder / CONFIG) or {}).get("quantization_config")
    return str(settings.get("quant_method") or "") if isinstance(settings, dict) else ""


def gguf_file(path: Path) -> Path | None:
    """Return the GGUF file that a path names; None where it names none."""
    if path.suffix.lower() != ".gguf" or path.is_dir():
        return None
    if not path.is_file():
        raise ReporterError(f"there is no file {path}{instead_of(path) or '; check the path'}")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ReporterError(f"{path} is not a GGUF file, which begins with 'GGUF'; download or convert it again")
    check_installed("gguf", "gguf", path.name)
    return path


def offload_folder(folder: Path) -> Path:
    """Return a folder for weights that fit nowhere else, which is made when they are loaded."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        kind = "is not writable" if existing.is_dir() else "is a file"
        raise ReporterError(f"cannot use the offload folder {folder}: {existing} {kind}; name another folder")
    return folder


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds an adapter that PEFT saved, and no whole model."""
    return (folder / ADAPTER).is_file() and not (folder / CONFIG).is_file()


def base_of_adapter(folder: Path) -> str | None:
    """Return the hub id or folder of the model that an adapter was trained on; None where it names none."""
    base = (read_json(folder / ADAPTER) or {}).get("base_model_name_or_path")
    return base if isinstance(base, str) else None


def _only_an_adapter(folder: Path) -> ReporterError:
    base = base_of_adapter(folder)
    named = "" if base is None else f" ({base})"
    return ReporterError(
        f"{folder} is a PEFT adapter, not a model; write the folder of the base{named} as `path`, and this "
        "folder as `adapter`"
    )


def adapter_files(folder: Path) -> list[Path]:
    """Return the files of an adapter that PEFT saved."""
    if not (folder / ADAPTER).is_file():
        if not folder.exists():
            meant = instead_of(folder, lambda path: (path / ADAPTER).is_file()) or "; check the path"
            raise ReporterError(f"there is no adapter folder {folder}{meant}")
        raise ReporterError(f"the adapter {folder} has no {ADAPTER}; name a folder that PEFT's `save_pretrained` wrote")
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ReporterError(
            f"the adapter {folder} has no {ADAPTER_WEIGHTS}; save it again with a current version of PEFT"
        )
    return [folder / ADAPTER, folder / ADAPTER_WEIGHTS]


def weight_files(folder: Path, allow_pickle: bool) -> list[Path]:
    """Return the files that hold the weights, an index first: safetensors, or pickle where that is allowed."""
    files = _weights(folder, WEIGHTS, WEIGHTS_INDEX)
    if files:
        return files
    files = _weights(folder, PICKLE, PICKLE_INDEX)
    if files and not allow_pickle:
        raise ReporterError(
            f"{folder} has only pickle weights ({files[0].name}), which can run code. Convert them to safetensors; if "
            "you trust them, add `allow_pickle: true` to the model"
        )
    if not files:
        if (folder / ADAPTER).is_file():
            raise _only_an_adapter(folder)
        foreign = [file.name for file in sorted(folder.iterdir()) if file.suffix in _OTHER_WEIGHTS]
        remedy = "save or download the model again"
        if foreign and "-of-" in foreign[0]:
            remedy = f"save or download it again, with the index of {foreign[0]}"
        elif foreign:
            remedy = f"load {foreign[0]} with the program that saved it, and save the model with `save_pretrained`"
        raise ReporterError(f"{folder} has no weights ({WEIGHTS} or {WEIGHTS_INDEX}); {remedy}")
    return files


WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
"""Names by which PyTorch wraps a model or its blocks (compiled, sharded, recomputed); no model has such a part."""


def unwrapped(name: str) -> str:
    """Return the name of a weight without wrappers of PyTorch."""
    return ".".join(piece for piece in name.split(".") if piece not in WRAPPERS).removeprefix("module.")


def tokenizer_files(folder: Path) -> list[Path]:
    """Return the files that a tokenizer is made from; empty where there is no tokenizer."""
    files = [file for file in sorted(folder.iterdir()) if file.is_file()]
    vocabulary = [f for f in files if f.name in _VOCABULARIES or f.name.endswith(_VOCABULARY_SUFFIXES)]
    needs_none = (read_json(folder / TOKENIZER_CONFIG) or {}).get("tokenizer_class") in _NEED_NO_VOCABULARY
    return [*vocabulary, *(f for f in files if f.name in _TOKENIZER_EXTRAS)] if vocabulary or needs_none else []


def tokenizer_folder(folders: Iterable[Path]) -> Path:
    """Return the first of these folders that has a tokenizer."""
    tried = list(dict.fromkeys(folders))
    for folder in tried:
        if tokenizer_files(folder):
            return folder
    if any("AutoTokenizer" in ((read_json(folder / TOKENIZER_CONFIG) or {}).get("auto_map") or {}) for folder in tried):
        raise needs_code(tried[0])
    raise ReporterError(
        f"{tried[0]} has no tokenizer (tokenizer.json, vocab.txt, …); save it there with "
        "`tokenizer.save_pretrained(FOLDER)`"
    )


def needs_code(folder: Path) -> ReporterError:
    """Return the error about a model or tokenizer with Python code of its own, which a study does not trust."""
    return ReporterError(
        f"{folder} needs to run its Python code; if you trust it, add `trust_remote_code: true` to the model"
    )


_SENTENCE = ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "[0-9]*_*/*.*")
"""What a sentence encoder does with its states; its own folders are numbered, such as ``1_Pooling``."""


def identifying_files(folder: Path, root: Path, remote_code: bool) -> tuple[list[Path], list[Path]]:
    """Return what identifies a model besides its weights: configuration and Python code, and files of its tokenizer.

    Args:
        folder: of the checkpoint.
        root: the model's folder, whose tokenizer stands in for one that the checkpoint lacks.
        remote_code: whether the Python files of the folder decide what the weights do.
    """
    sentence = [file for name in _SENTENCE for file in sorted(folder.glob(name))]
    if not remote_code:
        return [config_file(folder), *sentence], tokenizer_files(tokenizer_folder([folder, root]))
    return [config_file(folder), *sentence, *sorted(folder.glob("*.py"))], tokenizer_files(folder) or tokenizer_files(
        root
    )


def has_chat_template(folder: Path) -> bool:
    """Return whether the tokenizer in a folder has a chat template, in a file or in its configuration."""
    in_config = (read_json(folder / TOKENIZER_CONFIG) or {}).get("chat_template")
    return (folder / "chat_template.jinja").is_file() or bool(in_config)


def _weights(folder: Path, single: str, index: str) -> list[Path]:
    if (folder / single).is_file():
        return [folder / single]
    if not (folder / index).is_file():
        return []
    try:
        shards = sorted(set(require_json(folder / index, "save or download the model again")["weight_map"].values()))
    except (KeyError, AttributeError, TypeError) as error:
        raise ReporterError(
            f"{folder / index} is damaged: it has no `weight_map`; save or download the model again"
        ) from error
    strange = [shard for shard in shards if Path(shard).name != shard or not shard.endswith(Path(single).suffix)]
    if strange:
        raise ReporterError(
            f"{folder / index} names {strange[0][:100]!r}, which is not a {Path(single).suffix} file in this folder; "
            "save or download the model again"
        )
    missing = [shard for shard in shards if not (folder / shard).is_file()]
    if missing:
        raise ReporterError(f"{folder} lacks {missing[0]}, which {index} names; download the missing file")
    return [folder / index, *(folder / shard for shard in shards)]


_NAME = "file-hashes.json"
_WORTH_REMEMBERING = 1 << 20  # bytes; smaller files are read faster than the memo grows
_SETTLED = 2 * 10**9  # nanoseconds; a file changed just now may change again without its time stamp showing it


def fingerprint(parts: Mapping[str, Any]) -> str:
    """Return a short hash of JSON values that does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def hash_files(files: Iterable[Path], cache: Path | None = None) -> dict[str, str]:
    """Return the SHA-256 of each file by its name.

    A file of the same path, size and modification time as one that was hashed before is not read again.

    Args:
        files: in one folder, so that their names differ.
        cache: the folder in which hashes are remembered; None for small files, which are read each time.
    """
    memo = (read_note(cache / _NAME) if cache else None) or {}
    hashes = dict(memo)
    result = {file.name: _hash(file, hashes) for file in files}
    if cache and hashes != memo:
        with suppress(OSError):  # only a memo: where it cannot be kept, files are read again
            cache.mkdir(parents=True, exist_ok=True)
            write_note(cache / _NAME, (read_note(cache / _NAME) or {}) | hashes)
    return result


def _hash(file: Path, hashes: dict[str, Any]) -> str:
    with failing_as(f"cannot read {file}", OSError):
        if problem := endless(file):
            raise ReporterError(f"{file} {problem}")
        place = str(file.resolve())
        stat = file.stat()
        state = [stat.st_size, stat.st_mtime_ns]
        remembered = hashes.get(place)
        if isinstance(remembered, list) and remembered[:2] == state:
            return str(remembered[2])
        digest = sha256(file)
    if stat.st_size >= _WORTH_REMEMBERING and time.time_ns() - stat.st_mtime_ns > _SETTLED:
        hashes[place] = [*state, digest]
    return digest
