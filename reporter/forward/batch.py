"""The states of some texts without padding, and keys that tell what a model saw when it made each of them.

Batched floats are not bitwise reproducible, and a decoder gives every text that begins with "The" nearly the same
first state. Two states are duplicates if the model saw the same thing: the same prefix of token ids (decoder), or the
same whole text and position (encoder). What enters the first block depends on less: the token id, and the position
where position vectors are added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from threading import get_ident
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.core.threads import computed_once
from reporter.forward.token_categories import STRATA, Sinks
from reporter.geometry.arrays import Bools, Ints
from reporter.models.places import Layout

if TYPE_CHECKING:
    from reporter.forward.readout import Readout, Vocabulary

Keys = NDArray[np.uint64]


def mix(x: Keys) -> Keys:
    """Scramble 64-bit integers so that near inputs give unrelated outputs (the finaliser of SplitMix64).

    Source: Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators".
    """
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def key_of(*parts: Ints | int) -> Keys:
    """Return one key for each element of the (broadcast) integer arrays; the order of the parts matters."""
    key = np.zeros(1, dtype=np.uint64)
    for part in parts:
        key = mix(key ^ np.asarray(part, dtype=np.int64).astype(np.uint64))
    return key


def prefix_keys(ids: Ints, seed: int) -> Keys:
    """Return a key for each prefix of each row of ``ids``, shape (texts, length): the key at t covers ids[: t + 1]."""
    keys = np.empty(ids.shape, dtype=np.uint64)
    running = np.broadcast_to(key_of(seed), ids.shape[:1]).copy()
    for t in range(ids.shape[1]):
        running = mix(running ^ ids[:, t].astype(np.uint64))
        keys[:, t] = running
    return keys


def context_keys(ids: Ints, lengths: Ints, causal: bool, seed: int) -> Keys:
    """Return what decided the block states, shape (texts, length); entries past a text's length mean nothing."""
    prefixes = prefix_keys(ids, seed)
    if causal:
        return prefixes
    whole = prefixes[np.arange(len(ids)), lengths - 1]
    return mix(whole[:, None] ^ mix(np.arange(ids.shape[1], dtype=np.uint64))[None, :])


def embedding_keys(ids: Ints, positions_added: bool) -> Keys:
    """Return what decided the states that enter the first block, shape (texts, length)."""
    positions = np.arange(ids.shape[1])[None, :] if positions_added else np.zeros((1, 1), dtype=np.int64)
    return key_of(ids, positions)


# Half-samples of a corpus, for the error of a number that hangs on the corpus by more than sums over its texts.
#
# Where a corpus of n texts decides a rule (which types are frequent) and the rule decides the number, resampling texts
# under a fixed rule leaves out that another corpus would bring another rule. Half of the texts, drawn without
# replacement, with the rule made anew from that half, show both: a mean over n/2 of n texts lies as far from the mean
# over all n as that lies from the truth, and no text counts twice, so that a type that occurs once stays one that
# occurs once. Texts are put into ``GROUPS`` groups by a hash; half-samples are balanced halves of the groups, so that
# for anything linear the spread of the halves is exactly the spread of the groups.
#
# Source: Shao & Wu 1989, "A general theory for jackknife variance estimation", Annals of Statistics 17:1176–1197
# (halves hold where the usual jackknife fails, as for a median); McCarthy 1969, "Pseudo-replication: Half samples",
# Review of the International Statistical Institute 37:239–264 (balanced halves from a Hadamard matrix).


GROUPS = 64
HALF_SAMPLES = GROUPS - 1


def groups_of(texts: Ints, seed: int) -> Ints:
    """Return the group of each text, 0…63, by a hash of the place of its unit in the corpus, shape (texts,)."""
    return np.asarray(mix(key_of(seed, texts)) >> np.uint64(58), dtype=np.int64)


def _halves() -> Bools:
    rows, columns = np.arange(1, GROUPS)[:, None], np.arange(GROUPS)
    odd = np.bitwise_count(rows & columns) % 2 == 1  # Sylvester's Hadamard matrix without its constant row
    return np.asarray(odd ^ (rows % 2 == 1))


HALVES = _halves()
"""Whether half-sample h holds group g, shape (63, 64)."""

FEW_HALVES = HALVES[1::2]
"""Those that hold both or neither of groups 2g and 2g + 1, shape (31, 64): balanced halves of 32 groups, for what takes
long to compute in each."""


def packed(columns: Bools) -> Ints:
    """Return 64 booleans a row as the bits of one integer, shape (rows,)."""
    return np.asarray(np.packbits(columns, axis=1, bitorder="little").view(np.int64)[:, 0])


def unpacked(bits: Ints) -> Bools:
    """Return the bits of each integer, shape (rows, 64)."""
    booleans = np.unpackbits(np.ascontiguousarray(bits).view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    return booleans.astype(bool)


def samples_of(texts: Ints, seed: int) -> Bools:
    """Return which samples hold each text, shape (texts, 64): the 63 half-samples, then the whole corpus."""
    return np.asarray(_SAMPLES[groups_of(texts, seed)])


_SAMPLES = np.concatenate([HALVES.T, np.ones((GROUPS, 1), dtype=bool)], axis=1)


# The hidden states of some texts, without padding, ordered so that each stratum is one block of rows.


@dataclass(frozen=True, eq=False)
class HiddenBatch:
    """States of some texts: one batch, or a few small ones together.

    Rows are tokens, padding left out, ordinary tokens first, then special tokens, then those that are set aside.
    Tensors are on one device, where the states are; arrays are on the host, so that observables decide what to do with
    which token there and never wait for the device.

    Args:
        layout: the places that were read.
        states: for each place of the layout a float32 matrix (tokens, width).
        norms: Euclidean norms of the states, shape (places, tokens).
        known_norms: the same on the host.
        peaks: max |x_j| of each state, on the host, shape (places, tokens).
        token_ids: shape (tokens,).
        texts: number of each token's text, or of its window (see ``TokenisedText``), shape (tokens,).
        originals: place of the first text of the corpus of which the model reads the same ids, shape (tokens,).
        units: the unit of observation, by its first text, shape (tokens,): texts that say the same, windows of a text
            and texts of a cluster are one observation, and share their bootstrap weights.
        positions: place of each token in its text, or in its window of a long one, 0 = first, shape (tokens,).
        first_own: whether a token is the first own one of its text, or of a window, shape (tokens,).
        contexts: key of what decided the block states, shape (tokens,).
        embedding_contexts: key of what decided the states at layer 0, shape (tokens,).
        frequent: whether the token's type occurs in the corpus more often than the median type, shape (tokens,).
        sizes: number of tokens in each stratum, in the order of ``STRATA``.
        sinks: which tokens are sinks, and by how much, arrays of shape (tokens,).
        losses: −log p of each token, NaN where it is not predicted, shape (tokens,); None where nobody asked.
        contributions: what attention (row 0) and feed-forward (row 1) of each block add to a token: its length over
            that of the stream and the cosine of the two, shape (L, tokens, 2, 2); None where nobody asked.
        readout: reads states with the language-model head; None where nobody asked, or the model has none.
        vocabulary: the vector and kind of each token; None where nobody asked.
    """

    layout: Layout
    states: list[torch.Tensor]
    norms: torch.Tensor
    known_norms: NDArray[np.float32]
    peaks: NDArray[np.float32]
    token_ids: Ints
    texts: Ints
    originals: Ints
    units: Ints
    positions: Ints
    first_own: Bools
    contexts: Keys
    embedding_contexts: Keys
    frequent: Bools
    sizes: tuple[int, ...]
    sinks: Sinks
    losses: torch.Tensor | None = None
    contributions: torch.Tensor | None = None
    readout: Readout | None = None
    vocabulary: Vocabulary | None = None
    _cosines: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict, init=False, repr=False)
    _scratch: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.token_ids)

    @cached_property
    def rows(self) -> tuple[slice, ...]:
        """Rows of each stratum, in the order of ``STRATA``."""
        ends = np.cumsum(self.sizes)
        return tuple(slice(int(end) - size, int(end)) for end, size in zip(ends, self.sizes, strict=True))

    @cached_property
    def strata(self) -> Ints:
        """Stratum of each token, shape (tokens,)."""
        return np.repeat(np.arange(len(STRATA)), self.sizes)

    @cached_property
    def by_text(self) -> tuple[Ints, Ints, Ints]:
        """The texts, ascending; the first row of each; and which of them each token is of, shape (tokens,)."""
        texts, first, of_token = np.unique(self.texts, return_index=True, return_inverse=True)
        return texts, first, of_token

    @property
    def device(self) -> torch.device:
        """The device of the states."""
        return self.states[0].device

    def cosines(self, place: int, target: int) -> torch.Tensor:
        """Return each token's cosine of its states at two places of equal width, NaN where one is zero, (tokens,).

        At one and the same place it is 1 by definition, not up to rounding.
        """
        if (place, target) not in self._cosines:
            a, b = self.norms[place], self.norms[target]
            self._cosines[place, target] = (
                a / a if place == target else self.cosine_of(self.states[place], self.states[target], a, b)
            )
        return self._cosines[place, target]

    def cosine_of(self, x: torch.Tensor, y: torch.Tensor, x_norm: torch.Tensor, y_norm: torch.Tensor) -> torch.Tensor:
        """Return cos(x_i, y_i) for each token, given the norms; NaN where one of them is zero, (tokens,)."""
        products = torch.mul(x, y, out=self.scratch(x))
        return (products.sum(dim=1) / (x_norm * y_norm)).clamp(-1, 1)

    def scratch(self, like: torch.Tensor) -> torch.Tensor:
        """Return a thread's room for the states of a place, to be used at once: fresh memory costs more than sums."""
        key = get_ident(), like.shape[1]
        if key not in self._scratch:
            self._scratch[key] = torch.empty(len(self), like.shape[1], dtype=like.dtype, device=like.device)
        return self._scratch[key]

    def layers(self) -> Iterator[LayerStates]:
        """Yield the places in their order, one at a time, so that what is derived from one can be dropped after it."""
        for index in range(len(self.states)):
            yield LayerStates(self, index)


class LayerStates:
    """One place of a batch, and what several observables want to know of it, computed once for all threads."""

    def __init__(self, batch: HiddenBatch, index: int) -> None:
        self.batch = batch
        self.index = index
        self.place = batch.layout.places[index]
        self.states = batch.states[index]
        self.norms = batch.norms[index]

    @computed_once
    def inverse(self) -> torch.Tensor:
        """1/‖x‖ of each token, 0 for a zero state, shape (tokens,)."""
        return self.norms.reciprocal().nan_to_num(posinf=0.0)

    @computed_once
    def units(self) -> torch.Tensor:
        """x/‖x‖ of each token, a zero state itself, shape (tokens, width)."""
        return self.states * self.inverse[:, None]

    @computed_once
    def centred(self) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
        """For each stratum its mean (width,) in float64 and its states minus that mean (tokens, width) in float32."""
        result = []
        for rows in self.batch.rows:
            x = self.states[rows]
            if len(x) == 0:
                result.append((torch.zeros(x.shape[1], dtype=torch.float64, device=x.device), x))
                continue
            mean = x.mean(dim=0)
            centred = x - mean
            # The float32 mean is off by a rounding, which a common mean far from zero makes large; what is left over
            # after centring says by how much.
            rest = centred.mean(dim=0)
            result.append((mean.double() + rest.double(), centred.sub_(rest)))
        return tuple(result)
