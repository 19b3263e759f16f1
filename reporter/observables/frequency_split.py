"""How near tokens of frequent and of rare types are to their last state, in the corpus and in half-samples of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.halves import HALF_SAMPLES, samples_of, unpacked
from reporter.forward.places import Layout
from reporter.observables.per_token import PerToken
from reporter.observables.text_sums import cosine_of

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting


class FrequencySplit(PerToken):
    """Cosines of tokens with their last state, split by whether their type is a frequent one.

    Which types are frequent hangs on the corpus, so the replicates are half-samples of its texts, each with the split
    of its own (``reporter.forward.halves``).

    - ``cosine_frequent``, ``cosine_rare``: cos(h_l, h_L) of tokens of frequent types, and of all others
    - the two with ``to_final``: the same with the state after the closing norm in place of h_L; undefined where the
      model has none of its own or it has another width

    Tokens with a zero state are left out.

    Args:
        layout: the places that are read.
        seed: the study's seed.
        splits: for each token id the samples in which its type is frequent, as bits, shape (vocabulary,); an id beyond
            its end is rare everywhere.
    """

    name = "frequency_split"
    reads_types = True
    quantities = ("cosine_frequent", "cosine_rare", "cosine_to_final_frequent", "cosine_to_final_rare")

    def __init__(self, layout: Layout, seed: int, splits: NDArray[np.int64] | None = None) -> None:
        super().__init__(layout, seed, HALF_SAMPLES)
        self.splits = np.zeros(0, dtype=np.int64) if splits is None else splits
        self._masks: tuple[torch.Tensor, ...] = ()

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout, setting.seed, setting.splits)

    def start(self, batch: HiddenBatch) -> None:
        """Look up in which samples each token is a frequent or a rare one."""
        bits = np.zeros(len(batch), dtype=np.int64)
        known = batch.token_ids < len(self.splits)
        bits[known] = self.splits[batch.token_ids[known]]
        frequent, held = unpacked(bits), samples_of(batch.originals, self.seed)
        self._masks = tuple(torch.from_numpy(mask).double() for mask in (held & frequent, held & ~frequent))

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return cos(h_l, h_L) and the cosine with the final state, NaN where undefined, shape (tokens, 2)."""
        states, norms, here = layer.batch.states, layer.batch.norms, layer.index
        last, found = self.layout.layers, torch.full((len(layer.batch), 2), torch.nan)
        if here == last:  # 1 by definition, not up to rounding
            found[:, 0] = norms[last] / norms[last]
        else:
            found[:, 0] = cosine_of(states[here], states[last], norms[here], norms[last])
        if self.layout.final_width == self.layout.width:
            final = last + 1  # right after the path
            found[:, 1] = cosine_of(states[here], states[final], norms[here], norms[final])
        return found

    def observe(self, layer: LayerStates) -> None:
        """Add the cosines at one place to the sums of each sample that holds the token."""
        if layer.index >= len(self.places):
            return
        values = self.of_tokens(layer)
        defined = values.isfinite()
        both = torch.cat([values.where(defined, 0.0), defined], dim=1).double()
        for stratum, rows in enumerate(layer.batch.rows):
            for kind, mask in enumerate(self._masks):
                sums = mask[rows].T @ both[rows]  # (samples, 4), the whole corpus last
                at = (layer.index, stratum, slice(kind, None, 2))  # this kind's cosine to the last and final state
                self.sums[at] += sums[-1, :2]
                self.counts[at] += sums[-1, 2:]
                self.replicate_sums[:, *at] += sums[:-1, :2]
                self.replicate_counts[:, *at] += sums[:-1, 2:]

    def finish(self, batch: HiddenBatch) -> None:
        """Forget the batch."""
        self._masks = ()

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the sums and the splits."""
        return super().tensors() | {"splits": torch.from_numpy(self.splits)}

    def parameters(self) -> dict[str, Any]:
        """Return layout and seed; the splits are a tensor."""
        return {"layout": self.layout.as_json(), "seed": self.seed}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        super().restore(tensors)
        self.splits = tensors["splits"].numpy()
