"""A local hub cache with tiny random models under the names of real ones: studies on hub models run on it unchanged."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from oracles.families import build_family

_BERT: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 24, "max_position_embeddings": 200}
_GPT2 = {"n_embd": 16, "n_positions": 200}

# The family of each model, and as many layers as claims speak of by number.
HUB: dict[str, tuple[str, int]] = {
    "google-bert/bert-base-uncased": ("bert", 12),
    "google-bert/bert-base-cased": ("bert", 12),
    "FacebookAI/roberta-base": ("roberta", 12),
    "FacebookAI/roberta-large": ("roberta", 8),
    "sentence-transformers/all-MiniLM-L6-v2": ("bert", 6),
    "openai-community/gpt2": ("gpt2", 12),
    "EleutherAI/pythia-14m": ("neox, parallel", 6),
    "EleutherAI/pythia-70m": ("neox, parallel", 6),
    "EleutherAI/pythia-160m": ("neox, parallel", 12),
    "EleutherAI/pythia-410m": ("neox, parallel", 24),
    "HuggingFaceTB/SmolLM2-135M": ("llama", 8),
    "meta-llama/Llama-2-7b-hf": ("llama", 32),
    "allenai/OLMo-2-0425-1B": ("olmo2", 4),
    "Qwen/Qwen2.5-0.5B": ("qwen2", 8),
}
NOT_RUN = """
google-bert/bert-large-uncased FacebookAI/xlm-roberta-base distilbert/distilbert-base-uncased albert/albert-base-v2
distilbert/distilroberta-base answerdotai/ModernBERT-base openai-community/gpt2-medium distilbert/distilgpt2
EleutherAI/gpt-neo-125m bigscience/bloom-560m bigscience/bloom-560m-intermediate
"""
NAMES = {*HUB, *NOT_RUN.split()}
"""Names of all models of the studies that ship, as the hub has them."""


def fill(cache: Path, models: Iterable[Any], scratch: Path, words: list[str]) -> None:
    """Put every revision of these models (``HubModel``) into a local hub cache, as the hub's client lays it out.

    Args:
        cache: the cache's folder.
        models: models of a study.
        scratch: a folder to build in.
        words: what their tokenizers know.
    """
    for model in models:
        family, layers = HUB[model.hub]
        depth, small = ("n_layer", _GPT2) if family == "gpt2" else ("num_hidden_layers", _BERT)
        small = small | {"vocab_size": len(words) + 32, depth: layers}
        revisions = [one.name for one in model.checkpoints] or [model.revision or "main"]
        for number, revision in enumerate(revisions):  # the weights of a training's checkpoints differ
            folder = scratch / model.hub / revision
            folder.mkdir(parents=True)
            add_words(build_family(family, folder, **small, initializer_range=0.1 + 0.02 * number), words)
            put(cache, model.hub, revision, folder)


def put(cache: Path, hub: str, revision: str, folder: Path) -> None:
    """Put a model's folder into the cache: blobs by hash, a snapshot of links to them, the reference to its commit."""
    repository = cache / f"models--{hub.replace('/', '--')}"
    commit = hashlib.sha1(f"{hub} {revision}".encode()).hexdigest()
    snapshot = repository / "snapshots" / commit
    for place in (snapshot, repository / "blobs", repository / "refs"):
        place.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        blob = repository / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
        shutil.copyfile(file, blob)
        (snapshot / file.name).symlink_to(Path("..") / ".." / "blobs" / blob.name)
    (repository / "refs" / revision).write_text(commit)


def words_of(texts: Iterable[str]) -> list[str]:
    """Return the words of texts, each once."""
    return sorted({word for text in texts for word in re.findall(r"[a-z]+", text.lower())})


def add_words(folder: Path, words: list[str]) -> None:
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text("utf-8"))
    vocabulary, special = content["model"]["vocab"], [token["content"] for token in content["added_tokens"]]
    first = sorted(vocabulary, key=vocabulary.get)[:5]  # as the tokenizer has them
    listed = dict.fromkeys([*first, *special, "<unk>", *(word for word in vocabulary if word not in words), *words])
    content["model"]["vocab"] = {word: i for i, word in enumerate(listed)}
    file.write_text(json.dumps(content), "utf-8")
