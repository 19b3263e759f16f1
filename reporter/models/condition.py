"""The condition of a model besides its weights: what a forward pass may leave behind, and how it is put back.

Some models change while they run. BigBird replaces its sparse attention by a full one at the first short text, and
rotary embeddings with dynamic scaling keep the longest input that they saw. Then a text's states depend on the texts
before it, and on the probes that find out what a model is like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from torch import Tensor, nn

_OF_TORCH = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
_HOOKS = ("_forward", "_backward", "_state_dict", "_load_state_dict", "_is_full_backward", "forward")  # ours, too
_MOST_COPIED = 2**20
"""Numbers of a buffer that is copied, in case the model writes into it; a larger one is only compared by identity."""


@dataclass(frozen=True, eq=False)
class _Part:
    """A module, or a configuration, as it was.

    Args:
        tables: its attributes, submodules and buffers, each as the mapping that holds them and a copy of it.
        contents: lists, mappings and sets among the attributes, each with a copy.
        numbers: buffers that are small enough to be copied, each with its copy and how often it had been written.
    """

    tables: Sequence[tuple[dict[str, Any], Mapping[str, Any]]]
    contents: Sequence[tuple[Any, Any]]
    numbers: Sequence[tuple[Tensor, Tensor, int]]

    @classmethod
    def of(cls, owner: Any) -> _Part:
        attributes = {n: x for n, x in vars(owner).items() if n not in _OF_TORCH and not n.startswith(_HOOKS)}
        contents = [(x, x.copy()) for x in attributes.values() if isinstance(x, dict | list | set)]
        inside = [getattr(owner, name, {}) for name in ("_modules", "_buffers")]
        small = [x for x in inside[1].values() if x is not None and not x.is_meta and x.numel() <= _MOST_COPIED]
        numbers = [(x, x.detach().clone(), _version(x)) for x in small]
        return cls([(vars(owner), attributes), *((table, dict(table)) for table in inside)], contents, numbers)

    def restore(self) -> bool:
        """Put back what changed; return whether anything did."""
        # What came since then stays: it is what is computed once, or tells that transformers has installed its hooks.
        changed = False
        for table, before in self.tables:
            for name, value in before.items():
                if (now := table.get(name, self)) is not value:
                    table[name] = value
                    changed = changed or not _equal(now, value)
        for value, content in self.contents:
            if not _same_content(value, content):
                value.clear()
                value.extend(content) if isinstance(value, list) else value.update(content)
                changed = True
        for buffer, copy, version in self.numbers:
            if _version(buffer) != version and not copy.equal(buffer):
                buffer.copy_(copy)
                changed = True
        return changed


@dataclass(frozen=True, eq=False)
class Condition:
    """The condition of a model at one moment: its submodules, buffers, plain attributes and configuration."""

    parts: tuple[_Part, ...]
    _left: Event = field(default_factory=Event)

    @property
    def steady(self) -> bool:
        """Whether the model was in this condition at every ``restore``: its passes may run at the same time then."""
        return not self._left.is_set()

    @classmethod
    def of(cls, module: nn.Module) -> Condition:
        """Return the condition of a model now."""
        owners: dict[int, Any] = {id(part): part for part in module.modules()}
        owners |= {id(part.config): part.config for part in owners.copy().values() if hasattr(part, "config")}
        return cls(tuple(map(_Part.of, owners.values())))

    def restore(self) -> bool:
        """Put the model back into this condition; return whether it had changed."""
        changed = [part.restore() for part in self.parts]
        if any(changed):
            self.leave()
        return any(changed)

    def leave(self) -> None:
        """Note that passes change something, so that one has to run after the other."""
        self._left.set()


def _same_content(a: Any, b: Any) -> bool:
    """Compare two lists, mappings or sets; tensors and other objects in them by identity."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(a[name] is b[name] or _equal(a[name], b[name]) for name in b)
    if isinstance(a, list):
        return len(a) == len(b) and all(x is y or _equal(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _equal(a: Any, b: Any) -> bool:
    plain = (str, int, float, bool, type(None), tuple)
    return isinstance(a, plain) and isinstance(b, plain) and a == b


def _version(x: Tensor) -> int:
    return -1 if x.is_inference() else int(x._version)
