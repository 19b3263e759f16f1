"""Hidden states that another engine computed, in the place of a model: checked, kept in a file, read batch by batch.

A file of states is a safetensors file with one row for each token, texts one after the other in the corpus' order:

- ``layer/0`` … ``layer/L``, shape (tokens, width): what enters the first block, and what each block returns
- ``final``, shape (tokens, final width), optional: the last state after the final norm or projection
- ``text``, shape (tokens,), integers: place in the corpus of each token's text, counted from 0
- ``token_ids``, shape (tokens,), integers ≥ 0, optional: what numbers of token types and duplicates need
- ``special``, shape (tokens,), optional: 1 where a token is not the text's own, such as [CLS] or a BOS

Its metadata may hold ``role`` (``encoder`` or ``decoder``) and ``names``, a JSON list of how each token id is written.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from reporter.core.arrays import as_array, obstacle
from reporter.core.errors import ReporterError, UsageError, failures
from reporter.core.files import drafted, writing
from reporter.core.json_text import parse_json
from reporter.core.outputs import require_replaceable_file
from reporter.models.anatomy import Anatomy, Role
from reporter.models.checkpoint import Checkpoint
from reporter.models.load import Captured
from reporter.study.problems import show
from reporter.texts import Texts
from reporter.texts.tokens import GivenTokens, TokenBatch

NO_MODEL = "the study has only the states, not the model"
NO_IDS = "the states have no token ids"
_SAME, _MOVED = 1e-2, 1e-3  # relative: two states are one in spite of rounding; a position vector was added
_MOST_IDS = 2**20  # no vocabulary is larger; larger ids are hashes, which are counted by those that occur
_PAIRS = 256  # pairs of tokens that decide about role and positions


@dataclass(frozen=True, eq=False)
class States:
    """Hidden states of some texts, token by token.

    Args:
        layers: L + 1 matrices (tokens, width): what enters the first block, and what each block returns.
        final: after the final norm, (tokens, final width); None where it is not known.
        text: place in the corpus of each token's text, ascending, shape (tokens,).
        token_ids: shape (tokens,); None where they are not known.
        special: True where a token is not the text's own, shape (tokens,).
        names: how token ids are written; ids beyond its end are written as numbers.
        role: ``decoder`` where no token saw a later one; None where it is unknown.
    """

    layers: tuple[torch.Tensor, ...]
    final: torch.Tensor | None
    text: NDArray[np.int64]
    token_ids: NDArray[np.int64] | None
    special: NDArray[np.bool_]
    names: tuple[str, ...] = ()
    role: Role | None = None

    @classmethod
    def of(
        cls,
        states: Any,
        texts: ArrayLike | None = None,
        tokens: Any = None,
        special: ArrayLike | None = None,
        final: Any = None,
        role: Role | None = None,
    ) -> States:
        """Return checked states.

        Args:
            states: {layer: (tokens, width)} with the layers 0…L, or (L + 1, tokens, width); NumPy or torch.
            texts: for each token which text it belongs to, as ascending integers; each token is a text of its own if
                left out.
            tokens: for each token its id, or the token itself as text.
            special: for each token whether it is not the text's own.
            final: the last state after the final norm, (tokens, final width).
            role: ``encoder`` or ``decoder``.
        """
        layers = tuple(_matrix(x, f"layer {layer}") for layer, x in enumerate(_layers(states)))
        n, width = layers[0].shape
        for layer, x in enumerate(layers):
            if x.shape != (n, width):
                raise UsageError(
                    f"layer {layer} has the shape {tuple(x.shape)}, but layer 0 has {(n, width)}; all "
                    "layers need one shape"
                )
        closing = None if final is None else _matrix(final, "final")
        if closing is not None and len(closing) != n:
            raise UsageError(
                f"final has {len(closing)} rows, but the layers have {n}; give final one row for each token"
            )
        text = np.arange(n) if texts is None else _row(texts, "texts", n).astype(np.int64)
        if (np.diff(text) < 0).any() or text[0] < 0:
            raise UsageError(
                "texts must be ascending numbers from 0; put the tokens of text 0 first, then the tokens of text 1"
            )
        ids, names = _token_ids(tokens, n)
        added = np.zeros(n, dtype=bool) if special is None else _row(special, "special", n).astype(bool)
        if role is not None and not (isinstance(role, str) and role in get_args(Role)):
            raise UsageError(f"role must be 'encoder' or 'decoder', got {show(role)}")
        return cls(layers, closing, text, ids, added, names, role)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Row of each text's first token and, at the end, the number of tokens, shape (texts + 1,).

        Texts are numbered from 0 to the last that has a token; one without any begins where the next does.
        """
        return np.searchsorted(self.text, np.arange(int(self.text[-1]) + 2))

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """Place of each token in its text, 0 = first, shape (tokens,)."""
        return np.arange(len(self.text)) - self.starts[self.text]

    @cached_property
    def measured_role(self) -> Role | None:
        """The role; by default from texts with the same first token, whose first states are equal only in a decoder."""
        if self.role is not None or self.token_ids is None:
            return self.role
        begins = np.flatnonzero(np.diff(self.text, prepend=-1))
        first: dict[int, tuple[int, bytes]] = {}
        pairs: list[tuple[int, int]] = []
        for row, end in pairwise([*begins.tolist(), len(self.text)]):
            whole = self.token_ids[row:end].tobytes()
            other, expected = first.setdefault(int(self.token_ids[row]), (row, whole))
            if expected != whole and len(pairs) < _PAIRS:
                pairs.append((other, row))
        if not pairs:
            return None
        return "decoder" if (_moved(self.layers[-1], pairs) < _SAME).all() else "encoder"

    @cached_property
    def positions_added(self) -> bool:
        """Whether a token's state at layer 0 depends on its position; True where this is unknown."""
        return self._moved_at_0(same_place=False) is not False

    @cached_property
    def begins_mixed(self) -> bool:
        """Whether a token's state at layer 0 depends on its text: then layer 0 is not what enters the first block."""
        return self._moved_at_0(same_place=True) is True

    def _moved_at_0(self, same_place: bool) -> bool | None:
        if self.token_ids is None:
            return None
        order = np.lexsort((self.positions, self.token_ids))
        ids, places = self.token_ids[order], self.positions[order]
        repeated = np.flatnonzero((ids[1:] == ids[:-1]) & ((places[1:] == places[:-1]) == same_place))[:_PAIRS]
        pairs = list(zip(order[repeated].tolist(), order[repeated + 1].tolist(), strict=True))
        return bool((_moved(self.layers[0], pairs) > _MOVED).any()) if pairs else None


@dataclass(frozen=True)
class SavedStates:
    """States with the attributes of a loaded model that a pass reads.

    Args:
        states: the states.
        checkpoint: their entry in the study; None outside a study.
    """

    states: States
    checkpoint: Checkpoint | None = None

    @cached_property
    def tokenizer(self) -> GivenTokens:
        """Replaces the tokenizer, since the tokens are known."""
        given = self.states
        ids = np.zeros(len(given.text), dtype=np.int64) if given.token_ids is None else given.token_ids
        return GivenTokens(given.starts, ids, given.special, given.names if given.token_ids is not None else ("?",))

    @cached_property
    def anatomy(self) -> Anatomy:
        """The anatomy as far as the states show it."""
        given, tokens = self.states, self.tokenizer
        return Anatomy(
            family="states",
            role=given.measured_role or "encoder",
            layers=len(given.layers) - 1,
            width=given.layers[0].shape[1],
            parameters=None,
            vocabulary_size=int(tokens.ids.max()) + 1,
            max_tokens=None,
            positions="added" if given.positions_added else "not-added",
            norm_placement=None,
            last_hidden_state="block" if given.final is None else "final",
            final_width=None if given.final is None else given.final.shape[1],
            attention="none",
            first_token=tokens.convert_ids_to_tokens([int(tokens.ids[0])])[0] if given.special[0] else "word",
            self_test=None,
            initialised=None,
        )

    @property
    def device(self) -> torch.device:
        """The device of the states."""
        return self.states.layers[0].device

    @property
    def unfed(self) -> str:
        """The reason why there are no numbers of token types; empty where there are."""
        return NO_IDS if self.states.token_ids is None else ""

    def captured(self, batch: TokenBatch) -> Captured:
        """Return the states of a batch, each (texts, length, width); at padding they have no meaning."""
        starts = torch.from_numpy(self.states.starts[batch.texts])[:, None]
        rows = ((starts + torch.arange(batch.ids.shape[1])) * torch.from_numpy(batch.mask)).to(self.device)
        final = None if self.states.final is None else self.states.final[rows]
        return Captured([x[rows] for x in self.states.layers], final, None)

    def seen(self, batch: TokenBatch, originals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return ids of the tokens, (texts, length); without token ids, the numbers of the texts."""
        if self.states.token_ids is not None:
            return batch.ids
        return np.broadcast_to(originals[batch.texts][:, None], batch.ids.shape)


def save_states(
    path: str | Path,
    states: Any,
    texts: ArrayLike,
    *,
    tokens: Any = None,
    special: ArrayLike | None = None,
    final: Any = None,
    role: Role | None = None,
    names: Sequence[str] | None = None,
) -> Path:
    """Write hidden states to a safetensors file, for a study that says ``models: {big: {states: {wiki: FILE}}}``.

    Args:
        path: the file; one that is there is replaced if it holds states.
        states: {layer: (tokens, width)} with the layers 0…L, or (L + 1, tokens, width); NumPy or torch. Layer 0 is what
            enters the first block, layer l what block l returns, before any final norm.
        texts: for each token the place of its text in the corpus, from 0, ascending.
        tokens: for each token its id, or the token itself as text; needed for duplicates and for numbers of token
            types.
        special: for each token whether it is not the text's own ([CLS], a BOS).
        final: the last state after the final norm or projection, (tokens, final width).
        role: ``encoder`` or ``decoder``; by default it follows from texts with the same first token.
        names: how the token ids 0, 1, … are written, for tables and pages.

    Returns:
        the path.

    Raises:
        UsageError: shapes do not fit, the role is unknown, or the file is somebody else's.
        ReporterError: the file cannot be written.
    """
    from safetensors.torch import save_file

    if not isinstance(path, str | Path) or "\0" in str(path) or not Path(path).name:
        raise UsageError(
            f"path must name a file, as text or pathlib.Path, got {show(str(path) if isinstance(path, Path) else path)}"
        )
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    if names is not None and not (is_list and all(isinstance(name, str) for name in names)):
        raise UsageError(f"names must be a list of text, got {show(names)}")
    given = States.of(states, texts, tokens, special, final, role)
    if names and given.names:
        raise UsageError("names needs token ids, but tokens are texts; remove names")
    if given.measured_role is None:
        raise UsageError("the role does not follow from these states; pass role='encoder' or role='decoder'")
    tensors = {f"layer/{layer}": x for layer, x in enumerate(given.layers)}
    tensors |= {"text": torch.from_numpy(given.text), "special": torch.from_numpy(given.special)}
    tensors |= {} if given.final is None else {"final": given.final}
    tensors |= {} if given.token_ids is None else {"token_ids": torch.from_numpy(given.token_ids)}
    metadata = {"role": given.measured_role, "names": json.dumps(list(names or given.names), ensure_ascii=False)}
    path = Path(path)
    require_replaceable_file(path, _has_states)
    with writing(path), drafted(path) as draft:
        save_file({name: x.contiguous().cpu().clone() for name, x in tensors.items()}, draft, metadata=metadata)
    return path


def _has_states(path: Path) -> bool:
    """Return whether a file is one of states."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            return "layer/0" in set(file.keys())
    except SafetensorError:
        return False


def read_states(path: Path) -> States:
    """Read a file of states; its tensors are mapped, so that memory holds what a batch reads."""
    from safetensors import safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except failures() as error:
        raise ReporterError(
            f"cannot read {path} as safetensors: {error}; write it again with reporter.save_states"
        ) from error
    layers = {
        int(n.removeprefix("layer/")): x for n, x in arrays.items() if n.startswith("layer/") and n[6:].isdecimal()
    }
    if not layers or "text" not in arrays:
        lacks = "layer/0, layer/1, …" if not layers else "text"
        raise ReporterError(f"{path} lacks the tensor {lacks}; write the file with reporter.save_states")
    try:
        ids, special = arrays.get("token_ids"), arrays.get("special")
        given = States.of(layers, arrays["text"], ids, special, arrays.get("final"), cast("Any", metadata.get("role")))
        return replace(given, names=given.names or tuple(map(str, parse_json(metadata.get("names", "[]")))))
    except (UsageError, ValueError, TypeError) as error:
        raise ReporterError(f"{path}: {error}") from error


def load_states(checkpoint: Checkpoint, texts: Texts) -> SavedStates:
    """Open the states that a study names for one corpus."""
    path, _ = checkpoint.states[texts.name]
    given = read_states(path)
    if given.text[-1] >= len(texts):
        raise ReporterError(
            f"{path} has states of text {given.text[-1]} (counted from 0), but corpus '{texts.name}' has only "
            f"{len(texts)} texts; use the same texts"
        )
    role = checkpoint.role or given.measured_role
    if role is None:
        raise ReporterError(f"{path} does not tell the role; add `role: encoder` or `role: decoder` to the model")
    return SavedStates(replace(given, role=role), checkpoint)


def _layers(states: Any) -> Sequence[Any]:
    if isinstance(states, Mapping):
        missing = [layer for layer in range(len(states)) if layer not in states]
        if missing:
            raise UsageError(
                f"states by layer need the keys 0…{len(states) - 1}, but {missing[0]} is missing; add it, or pass a "
                "list of matrices"
            )
        states = [states[layer] for layer in range(len(states))]
    if problem := obstacle(states):
        raise UsageError(f"the array of states {problem}")
    if not isinstance(states, Sequence) and getattr(states, "ndim", 0) != 3:
        is_array = isinstance(states, np.ndarray | torch.Tensor)
        got = f"the shape {tuple(states.shape)}" if is_array else type(states).__name__
        raise UsageError(f"states must be {{layer: (tokens, width)}} or (layers, tokens, width), got {got}")
    if len(states) < 2:
        raise UsageError("states need at least two layers: the input and the output of the first block")
    return cast("Sequence[Any]", states)


def _matrix(x: Any, what: str) -> torch.Tensor:
    tensor = _tensor(x, what)
    if tensor.ndim != 2 or not tensor.is_floating_point() or 0 in tensor.shape:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise UsageError(
            f"{what} must be a matrix (tokens, width) of floats, got {kind} of the shape {tuple(tensor.shape)}"
        )
    return tensor.detach()


def _tensor(x: Any, what: str) -> torch.Tensor:
    if isinstance(x, torch.Tensor) and not obstacle(x):
        dense = x if x.layout == torch.strided else x.to_dense()
        return dense.float() if x.is_floating_point() and x.itemsize < 2 else dense  # torch computes little in 8 bits
    array = _array(x, what)
    if array.dtype.kind == "f" and array.itemsize > 8:
        with np.errstate(over="ignore"):  # a number beyond float64 becomes infinite, and is refused as such
            array = array.astype(np.float64)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind not in "fciub":
        raise UsageError(f"{what} must hold floats, got {array.dtype}")
    array = array.copy() if min(array.strides, default=0) < 0 else np.ascontiguousarray(array)
    with warnings.catch_warnings():  # nothing is written into states that are mapped from a file
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)


def _array(x: Any, what: str) -> NDArray[Any]:
    return as_array(x.detach().cpu() if isinstance(x, torch.Tensor) and not obstacle(x) else x, what)


def _row(x: Any, what: str, n: int) -> NDArray[Any]:
    array = _array(x, what)
    if array.shape != (n,) or array.dtype.kind not in "iub":
        kind = f"{array.dtype} of the shape {array.shape}"
        raise UsageError(f"{what} must have one whole number for each of the {n} tokens, got {kind}")
    return array


def _token_ids(tokens: Any, n: int) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    if tokens is None:
        return None, ()
    if not isinstance(tokens, torch.Tensor) and _array(tokens, "tokens").dtype.kind in "OU":
        written = np.asarray(tokens, dtype=object)
        if all(isinstance(token, str) for token in written.flat):
            names, ids = np.unique(written, return_inverse=True)
            return _row(ids.reshape(written.shape), "tokens", n).astype(np.int64), tuple(map(str, names))
    ids = _row(tokens, "tokens", n).astype(np.int64)
    if ids.min() < 0:
        raise UsageError("token ids must not be negative")
    if ids.max() < _MOST_IDS:
        return ids, ()
    distinct, ids = np.unique(ids, return_inverse=True)
    return ids, tuple(map(str, distinct.tolist()))


def _moved(x: torch.Tensor, pairs: Sequence[tuple[int, int]]) -> torch.Tensor:
    a, b = (x[torch.tensor(rows)].float() for rows in zip(*pairs, strict=True))
    moved: torch.Tensor = (a - b).norm(dim=1) / a.norm(dim=1).clamp_min(1e-30)
    return moved
