"""The hidden states of some texts, without padding, ordered so that each stratum is one block of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.forward.contexts import Keys
from reporter.forward.places import Layout
from reporter.forward.strata import STRATA, Sinks

if TYPE_CHECKING:
    import torch

    from reporter.forward.readout import Readout, Vocabulary


@dataclass(frozen=True, eq=False)
class HiddenBatch:
    """What a model did to some texts: one batch, or a few small ones together.

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
        originals: place of the first text of the corpus with the same content, shape (tokens,): texts that say the same
            are one observation, and share their bootstrap weights; so do the windows of a text.
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
    token_ids: NDArray[np.int64]
    texts: NDArray[np.int64]
    originals: NDArray[np.int64]
    positions: NDArray[np.int64]
    first_own: NDArray[np.bool_]
    contexts: Keys
    embedding_contexts: Keys
    frequent: NDArray[np.bool_]
    sizes: tuple[int, ...]
    sinks: Sinks
    losses: torch.Tensor | None = None
    contributions: torch.Tensor | None = None
    readout: Readout | None = None
    vocabulary: Vocabulary | None = None
    _cosines: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict, repr=False)
    _scratch: dict[int, torch.Tensor] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.token_ids)

    @cached_property
    def rows(self) -> tuple[slice, ...]:
        """Rows of each stratum, in the order of ``STRATA``."""
        ends = np.cumsum(self.sizes)
        return tuple(slice(int(end) - size, int(end)) for end, size in zip(ends, self.sizes, strict=True))

    @cached_property
    def strata(self) -> NDArray[np.int64]:
        """Stratum of each token, shape (tokens,)."""
        return np.repeat(np.arange(len(STRATA)), self.sizes)

    @cached_property
    def by_text(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The texts, ascending; the first row of each; and which of them each token is of, shape (tokens,)."""
        texts, first, of_token = np.unique(self.texts, return_index=True, return_inverse=True)
        return texts, first, of_token

    @property
    def device(self) -> torch.device:
        """Where the states are."""
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
        import torch

        products = torch.mul(x, y, out=self.scratch(x))
        return (products.sum(dim=1) / (x_norm * y_norm)).clamp(-1, 1)

    def scratch(self, like: torch.Tensor) -> torch.Tensor:
        """Return room for all states of a place, for what is used up at once: fresh memory costs more than arithmetic.

        Args:
            like: states of one place, all or some of them.
        """
        import torch

        if like.shape[1] not in self._scratch:
            self._scratch[like.shape[1]] = torch.empty(len(self), like.shape[1], dtype=like.dtype, device=like.device)
        return self._scratch[like.shape[1]]

    def layers(self) -> Iterator[LayerStates]:
        """Yield the places in their order, one at a time, so that what is derived from one can be dropped after it."""
        for index in range(len(self.states)):
            yield LayerStates(self, index)


class LayerStates:
    """One place of a batch, and what several observables want to know of it, computed once."""

    def __init__(self, batch: HiddenBatch, index: int) -> None:
        self.batch = batch
        self.index = index
        self.place = batch.layout.places[index]
        self.states = batch.states[index]
        self.norms = batch.norms[index]

    @cached_property
    def inverse(self) -> torch.Tensor:
        """1/‖x‖ of each token, 0 for a zero state, shape (tokens,)."""
        return self.norms.reciprocal().nan_to_num(posinf=0.0)

    @cached_property
    def units(self) -> torch.Tensor:
        """x/‖x‖ of each token, a zero state itself, shape (tokens, width)."""
        return self.states * self.inverse[:, None]

    @cached_property
    def centred(self) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
        """For each stratum its mean (width,) in float64 and its states minus that mean (tokens, width) in float32."""
        import torch

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
