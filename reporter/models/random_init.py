"""The same architecture and tokenizer with weights that were never trained: what a trained model is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from reporter.models.checkpoint import RANDOM_INIT, Checkpoint
from reporter.models.model_folder import (
    code_files,
    config_file,
    fingerprint,
    hash_files,
    tokenizer_files,
    tokenizer_folder,
)

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 1  # raise it when the same seed would give other weights


def random_init(checkpoint: Checkpoint, seed: int) -> Checkpoint:
    """Return a checkpoint of the same model whose weights transformers draws afresh when it is loaded.

    Its fingerprint covers what decides about its numbers: configuration, tokenizer, precision and seed; of a folder
    their files, of a hub model the commit, of a recipe model what identifies its training (which makes both, so that
    the folder of a step must be there before it is loaded; ``prepare`` sees to that).

    Args:
        checkpoint: any checkpoint of the model.
        seed: decides about the weights.

    Raises:
        ReporterError: if the model's folder has no configuration or no tokenizer.
    """
    made_of = {
        "random_init": VERSION,
        "seed": seed,
        "model": _identity(checkpoint),
        "dtype": checkpoint.dtype,
        "code": checkpoint.trust_remote_code,
    }
    if checkpoint.part == "decoder":
        made_of["part"] = checkpoint.part
    return replace(
        checkpoint,
        name=RANDOM_INIT,
        step=None,
        fingerprint=fingerprint(made_of),
        loss=None,
        unigram_entropy=None,
        warning="",
        initialised=seed,
        adapter=None,
    )


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw random numbers from this seed, on the CPU, and leave the global generators as they were."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which would seed every device
        yield


def _identity(checkpoint: Checkpoint) -> object:
    if checkpoint.source != "path":
        own = {"source": checkpoint.source, "hub": checkpoint.hub, "revision": checkpoint.revision}
        other = checkpoint.tokenizer
        return own if other is None else {**own, "tokenizer": [other.hub, other.revision]}
    assert checkpoint.path is not None and checkpoint.folder is not None
    if checkpoint.gguf is not None:
        return hash_files([checkpoint.path / checkpoint.gguf])
    folder, root = checkpoint.folder, checkpoint.path
    files: list[Path] = [config_file(folder)]
    if checkpoint.trust_remote_code:
        files += code_files(folder)
        tokenizer = tokenizer_files(folder) or tokenizer_files(root)
    else:
        tokenizer = tokenizer_files(tokenizer_folder([folder, root]))
    return {"files": hash_files(files), "tokenizer": hash_files(tokenizer)}
