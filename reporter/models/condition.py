"""The condition of a model besides its weights: what a forward pass may leave behind, and how it is put back.

Some models change while they run. BigBird replaces its sparse attention by a full one at the first short text, and
rotary embeddings with dynamic scaling keep the longest input that they saw. Then a text's states depend on the texts
before it, and on the probes that find out what a model is like.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

_OF_TORCH = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
_HOOKS = ("_forward", "_backward", "_state_dict", "_load_state_dict", "_is_full_backward", "forward")  # ours, too
_MOST_COPIED = 2**20
"""Numbers of a buffer that is copied, in case the model writes into it; a larger one is only compared by identity."""


@dataclass(frozen=True, eq=False)
class _Part:
    """A module, or a configuration, as it was: its attributes, and copies of what can be changed in place."""

    owner: Any
    attributes: Mapping[str, Any]
    contents: Mapping[str, Any]
    modules: Mapping[str, nn.Module | None]
    buffers: Mapping[str, tuple[Tensor | None, Tensor | None, int]]

    @classmethod
    def of(cls, owner: Any) -> _Part:
        attributes = _attributes(owner)
        contents = {name: value.copy() for name, value in attributes.items() if isinstance(value, dict | list | set)}
        buffers = dict(getattr(owner, "_buffers", {}))
        copies = {name: (x, _copy(x), _version(x)) for name, x in buffers.items()}
        return cls(owner, attributes, contents, dict(getattr(owner, "_modules", {})), copies)

    def restore(self) -> bool:
        """Put back what changed; return whether anything did."""
        # What came since then stays: it is what is computed once, or tells that transformers has installed its hooks.
        changed, now = False, _attributes(self.owner)
        for name, value in self.attributes.items():
            if now.get(name, self) is not value:
                self.owner.__dict__[name] = value
                changed = changed or not _equal(now.get(name, self), value)
            if name in self.contents and not _same_content(value, self.contents[name]):
                value.clear()
                value.extend(self.contents[name]) if isinstance(value, list) else value.update(self.contents[name])
                changed = True
        for name, module in self.modules.items():
            if self.owner._modules.get(name) is not module:
                self.owner._modules[name] = module
                changed = True
        if not self.buffers:
            return changed
        for name, (buffer, copy, version) in self.buffers.items():
            moved = self.owner._buffers.get(name, self) is not buffer
            written = buffer is not None and copy is not None and _version(buffer) != version and not copy.equal(buffer)
            if moved:
                self.owner._buffers[name] = buffer
            if written and buffer is not None and copy is not None:
                buffer.copy_(copy)
            changed = changed or moved or written
        return changed


@dataclass(frozen=True, eq=False)
class Condition:
    """The condition of a model at one moment: its submodules, buffers, plain attributes and configuration."""

    parts: tuple[_Part, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Condition:
        """Return the condition of a model now."""
        owners: dict[int, Any] = {id(part): part for part in module.modules()}
        owners |= {id(part.config): part.config for part in owners.copy().values() if hasattr(part, "config")}
        return cls(tuple(map(_Part.of, owners.values())))

    def restore(self) -> bool:
        """Put the model back into this condition; return whether it had changed."""
        changed = [part.restore() for part in self.parts]
        return any(changed)


def _attributes(owner: Any) -> dict[str, Any]:
    return {name: x for name, x in vars(owner).items() if name not in _OF_TORCH and not name.startswith(_HOOKS)}


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


def _copy(x: Tensor | None) -> Tensor | None:
    return None if x is None or x.is_meta or x.numel() > _MOST_COPIED else x.detach().clone()


def _version(x: Tensor | None) -> int:
    return -1 if x is None or x.is_inference() else int(x._version)
