"""What every observable can do: watch a layer of a batch, merge with its like, and be written to a file."""

from __future__ import annotations

import inspect
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file

from reporter.effort import Effort, Scale
from reporter.forward.places import Layout
from reporter.forward.strata import VIEWS

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates

READINGS = 4.0  # how often an observable goes through the states, where it does not say


@dataclass(frozen=True)
class Setting:
    """What an observable must know before it sees the first batch: of model, corpus and study.

    Args:
        layout: the places that are read.
        seed: the study's seed.
        texts: texts of the corpus.
        size: how much a bounded observable must keep (sampled tokens, texts, MiB), as its metrics ask for it.
        views: under which views one that tells them apart (``tells_views``) is read, in the order of ``VIEWS``.
        counts: occurrences in the corpus of each token id that the tokenizer did not add; only ids that occur.
        tokens: how every id that occurs reads, added ones included.
        tokens_in_all: tokens of the corpus, those that the tokenizer adds included.
        splits: for each token id, in which samples of the corpus its type is a frequent one, as bits; see
            ``TypeCounts``, shape (vocabulary,).
    """

    layout: Layout
    seed: int
    texts: int
    size: int
    counts: Mapping[int, int] = field(default_factory=dict)
    tokens: Mapping[int, str] = field(default_factory=dict)
    tokens_in_all: int = 0
    splits: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    views: tuple[str, ...] = tuple(VIEWS)


class Observable(ABC):
    """A summary of hidden states that merges: any split of a corpus, in any order, gives the same numbers.

    ``name`` is how metrics ask for it, ``version`` is raised when what it keeps changes.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    bounded: ClassVar[Literal["no", "at least", "exactly"]] = "no"
    """Whether it keeps only as much as metrics ask for, and if so, whether one that keeps more will do as well."""
    tells_views: ClassVar[bool] = False
    """Whether it keeps only the views under which metrics read it; one that keeps more will do as well."""
    reads_head: ClassVar[bool] = False
    """Whether it reads states with the model's language-model head, which then must be loaded."""
    reads_vocabulary: ClassVar[bool] = False
    """Whether it compares states with the model's input embedding."""
    reads_inside: ClassVar[bool] = False
    """Whether it reads what happens inside a block, of which states tell nothing."""
    reads_types: ClassVar[bool] = False
    """Whether it tells tokens apart by their ids."""
    in_windows: ClassVar[Literal["", "each", "first"]] = ""
    """Of which windows its numbers of whole texts are where long texts are read in windows; empty if it has none."""
    gathered: ClassVar[tuple[str, ...]] = ()
    """Attributes, tensors or lists or dicts of them, that ``follow`` and ``settle`` move."""
    states_kept: ClassVar[bool] = False
    """Whether it keeps states, which take room, rather than sums."""

    @classmethod
    def effort(cls, scale: Scale, size: int) -> Effort:
        """Return how much work it is to watch a pass, for the estimate of a plan.

        Args:
            scale: the pass.
            size: how much a bounded observable keeps.
        """
        return scale.reading(READINGS)

    @classmethod
    @abstractmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""

    def start(self, batch: HiddenBatch) -> None:  # noqa: B027 (most have nothing to do)
        """Look at a new batch before its layers are shown."""

    @abstractmethod
    def observe(self, layer: LayerStates) -> None:
        """Take in the states at one place; places come in the order of the batch's layout."""

    def finish(self, batch: HiddenBatch) -> None:  # noqa: B027
        """Look at a batch after all its layers were shown."""

    def follow(self, device: torch.device) -> None:
        """Move what is gathered to where the states are, so that nothing waits for the device while it is fed."""
        for name in self.gathered:
            setattr(self, name, _moved(getattr(self, name), device))

    def settle(self) -> None:
        """Bring what was gathered to the host, at the end of a shard."""
        self.follow(torch.device("cpu"))

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Take in everything ``other`` has seen."""

    @abstractmethod
    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the state as named tensors."""

    def parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments, as JSON: the attributes of the same names."""
        given = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        return {name: value.as_json() if isinstance(value, Layout) else value for name, value in given.items()}

    def compact(self) -> dict[str, torch.Tensor]:
        """Return what is kept once the pass is finished: rounded where that is part of the definition."""
        return self.tensors()

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk.

        Args:
            setting: of the pass.
            tokens: expected in each stratum.
        """
        return sum(x.numel() * x.element_size() for x in cls.empty(setting).compact().values())

    @abstractmethod
    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over a state that ``tensors()`` or ``compact()`` returned; what is compact takes in nothing more."""

    def save(self, path: Path, *, finished: bool = False) -> None:
        """Write to a safetensors file, at once or not at all; what is finished in its compact form."""
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {
            "observable": self.name,
            "version": str(self.version),
            "parameters": json.dumps(self.parameters()),
        }
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            tensors = self.compact() if finished else self.tensors()
            save_file({k: v.contiguous().cpu() for k, v in tensors.items()}, part, metadata=metadata)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what ``save`` wrote. Raises ``ValueError`` for another observable's or version's file."""
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if (metadata.get("observable"), metadata.get("version")) != (cls.name, str(cls.version)):
                raise ValueError(f"{path.name} does not hold {cls.name} in version {cls.version}")
            parameters = json.loads(metadata["parameters"])
            if "layout" in parameters:
                parameters["layout"] = Layout(**parameters["layout"])
            found = cls(**parameters)
            found.restore({key: file.get_tensor(key) for key in file.keys()})  # noqa: SIM118 (no mapping)
        return found


def _moved(held: Any, device: torch.device) -> Any:
    if isinstance(held, torch.Tensor):
        return held.to(device)
    if isinstance(held, dict):
        return {key: _moved(x, device) for key, x in held.items()}
    return [_moved(x, device) for x in held]
