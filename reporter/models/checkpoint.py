"""One state of one model: where its weights are, and what identifies them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from reporter.spec.recipes import Recipe
    from reporter.texts.texts import Texts

ModelSource = Literal["hub", "path", "recipe", "states"]
Bos = Literal["add", "none", "as-is"]

FINAL = "final"
"""The name of a model's checkpoint where the study names none."""

RANDOM_INIT = "random-init"
"""The name of a checkpoint whose weights are not read but drawn."""


@dataclass(frozen=True)
class Borrowed:
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
    """How a model that is too large for one device is spread over several, main memory and disk by accelerate.

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
        model: what the study calls the model.
        name: ``final`` where the study names none; else the hub revision, the sub-folder,
            ``step-50`` or ``random-init``.
        step: the training step; None where it is not known.
        source: where the weights come from.
        location: that source as a person would name it: a hub id, the path as written, or ``bert on corpus
            'x'``.
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
        warning: what a reader must know before believing this checkpoint's numbers; mostly empty.
        training_texts: the texts a recipe model is trained on.
        origin: the checkpoints of the recipe model that a recipe continues; it begins at the last of them.
        initialised: the seed of a model whose weights are drawn afresh, so that nothing is read but its
            configuration and tokenizer; None for one whose weights are read.
        tokenizer: where a hub model's tokenizer comes from, if not from its own repository.
        bos: whether a BOS is put before each text, left out, or neither: the tokenizer's own way. It changes what the
            model reads, not the model, so it is no part of the fingerprint.
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
    step: int | None
    source: ModelSource
    location: str
    path: Path | None
    hub: str | None
    revision: str | None
    subfolder: str | None
    dtype: str
    trust_remote_code: bool
    allow_pickle: bool
    fingerprint: str
    recipe: Recipe | None = None
    loss: float | None = None
    unigram_entropy: float | None = None
    warning: str = ""
    training_texts: Texts | None = field(default=None, repr=False, compare=False)
    origin: tuple[Checkpoint, ...] = field(default=(), repr=False, compare=False)
    initialised: int | None = None
    tokenizer: Borrowed | None = None
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
        """How messages call it: ``model 'bert'``, with its checkpoint where there are several."""
        return f"model '{self.model}'" + ("" if self.name == FINAL else f", checkpoint '{self.name}'")

    @property
    def source_file(self) -> dict[str, str]:
        """What transformers must be told where all is in one GGUF file; nothing for any other model."""
        return {} if self.gguf is None else {"gguf_file": self.gguf}

    @property
    def folder(self) -> Path | None:
        """Where its files are, or will be after training; None for a hub model that is not in the local cache."""
        return None if self.path is None else self.path / (self.subfolder or "")
