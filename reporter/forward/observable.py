"""The base of observables, which watch a layer of a batch, merge with others of their class, and are written to a file.

An observable names what it keeps, and how each of it merges, under ``fields``: moving to the device of the states,
merging, writing and reading follow from that.
"""

from __future__ import annotations

import inspect
import json
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from reporter.core.files import drafted
from reporter.forward.token_categories import VIEWS
from reporter.geometry.arrays import Ints
from reporter.models.places import Layout

if TYPE_CHECKING:
    from reporter.forward.batch import HiddenBatch, LayerStates


@dataclass(frozen=True)
class Setting:
    """Facts that an observable needs before the first batch: of model, corpus and study.

    Args:
        layout: the places that are read.
        seed: the study's seed.
        texts: texts of the corpus.
        size: how much a bounded observable must keep (sampled tokens, texts, MiB), as its metrics ask for it.
        views: under which views an observable with ``tells_views`` is read, in the order of ``VIEWS``.
        counts: occurrences in the corpus of each token id that the tokenizer did not add; only ids that occur.
        tokens: how every id that occurs is written, ids that the tokenizer added included.
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
    splits: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    views: tuple[str, ...] = tuple(VIEWS)


Key = tuple[int, ...]
"""Of a tensor in a dictionary, such as place and stratum."""


class Field:
    """An attribute of an observable that is kept.

    It is a tensor, an array, a list with a tensor for each place, or a dictionary of tensors by :data:`Key`. Tensors
    lie where the states are, arrays on the host. Subclasses say how two of them merge; an observable whose attributes
    merge together overrides ``merge``.
    """

    def merged(self, mine: Any, theirs: Any) -> Any:
        """Return what two parts of a corpus have together; it may be ``mine``, changed, but shares nothing else."""
        raise NotImplementedError

    def compact(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what is kept of a tensor once the pass is finished."""
        return tensor

    def restored(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor of which ``compact`` kept this."""
        return tensor


class Given(Field):
    """Is known beforehand, and the same for all parts of a corpus."""

    def merged(self, mine: Any, theirs: Any) -> Any:
        """Leave it as it is."""
        return mine


class Sum(Field):
    """Adds up."""

    def merged(self, mine: Any, theirs: Any) -> Any:
        """Add element by element."""
        for a, b in zip(mine, theirs, strict=True) if isinstance(mine, list) else [(mine, theirs)]:
            a += b
        return mine


class Replicates(Sum):
    """Adds up, and is kept in float32: intervals need no more, and there are a thousand replicates."""

    def compact(self, tensor: torch.Tensor) -> torch.Tensor:
        """Round to float32."""
        return tensor.float()

    def restored(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return float64."""
        return tensor.double()


class Rows(Field):
    """Holds rows of texts, those of both parts; an array."""

    def merged(self, mine: Any, theirs: Any) -> Any:
        """Append rows."""
        return np.concatenate([mine, theirs])


class Largest(Field):
    """Keeps the larger number of two, element by element; an array."""

    def merged(self, mine: Any, theirs: Any) -> Any:
        """Compare element by element."""
        return np.maximum(mine, theirs)


class Observable(ABC):
    """A summary of hidden states that merges: any split of a corpus, in any order, gives the same numbers.

    ``name`` is how metrics ask for it, ``version`` is raised when what it keeps changes.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    fields: ClassVar[Mapping[str, Field]] = {}
    """What is kept, by attribute."""
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
    states_kept: ClassVar[bool] = False
    """Whether it keeps states, which take room, rather than sums."""
    layout: Layout

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing: its constructor takes what the setting has under the same names."""
        names = (name for name in inspect.signature(cls).parameters if hasattr(setting, name))
        return cls(**{name: getattr(setting, name) for name in names})

    def start(self, batch: HiddenBatch) -> None:
        """Look at a new batch before its layers are shown."""
        self.follow(batch.device)

    def observe(self, layer: LayerStates) -> None:  # noqa: B027 (some read the whole batch)
        """Take in the states at one place; places come in the order of the batch's layout."""

    def finish(self, batch: HiddenBatch) -> None:  # noqa: B027
        """Look at a batch after all its layers were shown."""

    def follow(self, device: torch.device) -> None:
        """Move what is kept to where the states are, so that nothing waits for the device while it is fed."""
        for name in self.fields:
            held = getattr(self, name)
            if isinstance(held, torch.Tensor):
                setattr(self, name, held.to(device))
            elif isinstance(held, list):
                setattr(self, name, [tensor.to(device) for tensor in held])
            elif isinstance(held, dict):
                setattr(self, name, {key: tensor.to(device) for key, tensor in held.items()})

    def settle(self) -> None:
        """Bring what was gathered to the host, at the end of a shard."""
        self.follow(torch.device("cpu"))

    def merge(self, other: Self) -> None:
        """Take in everything ``other`` has seen."""
        for name, kept in self.fields.items():
            setattr(self, name, kept.merged(getattr(self, name), getattr(other, name)))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the state as named tensors: ``FIELD``, or ``FIELD/PLACE`` for each place, or ``FIELD/KEY``."""
        tensors: dict[str, torch.Tensor] = {}
        for name in self.fields:
            held = getattr(self, name)
            if isinstance(held, list):
                tensors |= {f"{name}/{index}": part for index, part in enumerate(held)}
            elif isinstance(held, dict):
                tensors |= {f"{name}/{'/'.join(map(str, key))}": part for key, part in held.items()}
            else:
                tensors[name] = torch.from_numpy(held) if isinstance(held, np.ndarray) else held
        return tensors

    def parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments, as JSON: the attributes of the same names that are no ``fields``."""
        names = (name for name in inspect.signature(type(self)).parameters if name not in self.fields)
        given = {name: getattr(self, name) for name in names}
        return {name: value.as_json() if isinstance(value, Layout) else value for name, value in given.items()}

    def compact(self) -> dict[str, torch.Tensor]:
        """Return what is kept once the pass is finished: rounded where that is part of the definition."""
        return {key: self.fields.get(key.split("/")[0], Field()).compact(x) for key, x in self.tensors().items()}

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk."""
        return sum(x.numel() * x.element_size() for x in cls.empty(setting).compact().values())

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over a state that ``tensors()`` or ``compact()`` returned; what is compact takes in nothing more."""
        for name, kept in self.fields.items():
            held: Any = getattr(self, name)
            if isinstance(held, list):
                held = [tensors[f"{name}/{index}"] for index in range(len(self.layout.places))]
            elif isinstance(held, dict):
                parts = (key.split("/") for key in tensors if key.startswith(f"{name}/"))
                held = {tuple(map(int, key)): tensors["/".join([name, *key])] for _, *key in parts}
            else:
                held = tensors[name].numpy() if isinstance(held, np.ndarray) else kept.restored(tensors[name])
            setattr(self, name, held)

    def save(self, path: Path, *, finished: bool = False) -> None:
        """Write to a safetensors file, at once or not at all; what is finished in its compact form."""
        path.parent.mkdir(parents=True, exist_ok=True)
        parameters = json.dumps(self.parameters())
        metadata = {"observable": self.name, "version": str(self.version), "parameters": parameters}
        with drafted(path) as draft:
            tensors = self.compact() if finished else self.tensors()
            save_file({k: v.contiguous().cpu() for k, v in tensors.items()}, draft, metadata=metadata)

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
            observable = cls(**parameters)
            observable.restore({key: file.get_tensor(key) for key in file.keys()})  # noqa: SIM118 (no mapping)
        return observable
