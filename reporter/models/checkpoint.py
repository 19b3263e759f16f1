"""One state of one model: where its weights are, and what identifies them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from reporter.core.errors import ReporterError
from reporter.core.imports import changed
from reporter.models.model_folder import fingerprint, hash_files, identifying_files
from reporter.study.recipes import Recipe
from reporter.texts.texts import Texts

# Where a checkpoint's files are on this machine, and how they are loaded.


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers, and warnings of the libraries below it, and put everything back afterwards."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def loading(checkpoint: Checkpoint, offline: bool) -> Iterator[None]:
    """Load something of a checkpoint: its name before every error, transformers silent, and no network if offline."""
    from huggingface_hub import constants

    # Its environment variable was read once, long ago.
    with changed(constants, HF_HUB_OFFLINE=offline or constants.HF_HUB_OFFLINE), quiet():
        try:
            yield
        except ReporterError as error:
            raise ReporterError(f"{checkpoint.label}: {error}") from error


def local_folder(checkpoint: Checkpoint, offline: bool) -> Path:
    """Return the folder of a checkpoint, fetching a hub model that is not in the local cache."""
    folder = checkpoint.folder
    if folder is not None:
        return folder
    from reporter.models.resolve import download

    return download(checkpoint, offline, weights=checkpoint.initialised is None)


ModelSource = Literal["hub", "path", "recipe", "states"]
Bos = Literal["add", "none", "as-is"]

FINAL = "final"
"""The name of a model's checkpoint where the study names none."""

RANDOM_INIT = "random-init"
"""The name of a checkpoint whose weights are not read but drawn."""


@dataclass(frozen=True)
class OtherTokenizer:
    """A tokenizer from another hub repository than the weights.

    Args:
        hub: the hub id.
        revision: its commit.
        path: its folder in the local hub cache, where that is known to be there.
    """

    hub: str
    revision: str
    path: Path | None


@dataclass(frozen=True)
class Split:
    """The split of a model that is too large for one device over several, main memory and disk by accelerate.

    Args:
        max_memory: what each may hold, by number of a GPU or ``cpu``; empty for what is free.
        offload_folder: where weights go that fit nowhere else; None where it is not said.
    """

    max_memory: Mapping[int | str, str]
    offload_folder: Path | None


@dataclass(frozen=True)
class Checkpoint:
    """One state of one model, found but not loaded.

    Args:
        model: the name of the model in the study.
        name: ``final`` where the study names none; else the hub revision, the sub-folder,
            ``step-50`` or ``random-init``.
        step: the training step; None where it is not known.
        source: where the weights come from.
        location: the source in words: a hub id, the path as written, or ``bert on corpus 'x'``.
        path: the model's folder; for a hub model its folder in the local hub cache, where that is known to be
            there; for a recipe the folder that its training fills.
        hub: the hub id.
        revision: the commit of a hub model; a hash of the files or of the recipe otherwise.
        subfolder: the checkpoint's folder inside ``path``.
        dtype: the precision in which weights are loaded; ``auto`` is the one they were saved in.
        trust_remote_code: whether the model's own Python code may run.
        allow_pickle: whether weights may be read from pickle.
        fingerprint: identity of weights, tokenizer and how they are loaded. Numbers are cached under it.
        recipe: how a recipe model is made, in full: of one that continues another, what it inherits is filled in.
        loss: of a trained recipe model, on texts held out of its training, in nats per predicted token.
        unigram_entropy: of the tokens that a recipe model is trained to predict, in nats: the loss of a model
            that knows how often each token occurs and nothing else.
        warning: a reason to distrust the numbers of this checkpoint; usually empty.
        training_texts: the texts a recipe model is trained on.
        origin: the checkpoints of the recipe model that a recipe continues; it begins at the last of them.
        initialised: the seed of a model whose weights are drawn afresh, so that nothing is read but its
            configuration and tokenizer; None for one whose weights are read.
        tokenizer: where a hub model's tokenizer comes from, if not from its own repository.
        bos: whether a BOS is added before each text, left out, or as the tokenizer does. It changes the input of the
            model, not the model, so it is no part of the fingerprint.
        states: of a model that is given by its states, by corpus, their file and its hash; empty for any other.
        role: of such a model, where the study says it.
        adapter: the folder of an adapter that is merged into the weights; None where there is none.
        gguf: the name of the GGUF file in ``path`` that holds configuration, tokenizer and weights; None for any other.
        part: of an encoder–decoder, which half is measured; None where the study does not say it.
        split: how it is spread over devices; None where it is on one. It is no part of the fingerprint: the weights are
            the same.
    """

    model: str
    name: str
    source: ModelSource
    location: str
    fingerprint: str
    step: int | None = None
    path: Path | None = None
    hub: str | None = None
    revision: str | None = None
    subfolder: str | None = None
    dtype: str = "auto"
    trust_remote_code: bool = False
    allow_pickle: bool = False
    recipe: Recipe | None = None
    loss: float | None = None
    unigram_entropy: float | None = None
    warning: str = ""
    training_texts: Texts | None = field(default=None, repr=False, compare=False)
    origin: tuple[Checkpoint, ...] = field(default=(), repr=False, compare=False)
    initialised: int | None = None
    tokenizer: OtherTokenizer | None = None
    bos: Bos = "as-is"
    states: Mapping[str, tuple[Path, str]] = field(default_factory=dict)
    role: Literal["encoder", "decoder"] | None = None
    part: Literal["encoder", "decoder"] | None = None
    adapter: Path | None = None
    gguf: str | None = None
    split: Split | None = None

    def weights_on(self, corpus: str) -> str:
        """Return the identity of what makes its states on a corpus: the weights, or the file of these states."""
        return self.states[corpus][1] if self.states else self.fingerprint

    @property
    def label(self) -> str:
        """Its name in messages: ``model 'bert'``, with its checkpoint where there are several."""
        return f"model '{self.model}'" + ("" if self.name == FINAL else f", checkpoint '{self.name}'")

    @property
    def source_file(self) -> dict[str, str]:
        """Arguments for transformers where all is in one GGUF file; nothing for any other model."""
        return {} if self.gguf is None else {"gguf_file": self.gguf}

    @property
    def folder(self) -> Path | None:
        """The folder of its files, also before training wrote them; None for a hub model that is not cached."""
        return None if self.path is None else self.path / (self.subfolder or "")


UNLEARNED = "training did not get past token frequencies"
"""How the warning begins about a model whose profile means nothing; the first page says it first."""

# Null baseline: the same architecture and tokenizer with random weights.


VERSION = 1  # raise it when the same seed would give other weights


def random_init(checkpoint: Checkpoint, seed: int) -> Checkpoint:
    """Return a checkpoint of the same model whose weights transformers draws afresh when it is loaded.

    Its fingerprint covers what decides about its numbers: configuration, tokenizer, precision and seed; of a folder
    their files, of a hub model the commit, of a recipe model what identifies its training (which makes both, so that
    the folder of a step must be there before it is loaded; ``prepare`` sees to that).
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
        identity = {"source": checkpoint.source, "hub": checkpoint.hub, "revision": checkpoint.revision}
        other = checkpoint.tokenizer
        return identity if other is None else {**identity, "tokenizer": [other.hub, other.revision]}
    assert checkpoint.path is not None and checkpoint.folder is not None
    if checkpoint.gguf is not None:
        return hash_files([checkpoint.path / checkpoint.gguf])
    files, tokenizer = identifying_files(checkpoint.folder, checkpoint.path, checkpoint.trust_remote_code)
    return {"files": hash_files(files), "tokenizer": hash_files(tokenizer)}
