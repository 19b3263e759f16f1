"""How near tokens of frequent and of rare types are to their last state, in the corpus and in half-samples of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.halves import HALF_SAMPLES, samples_of, unpacked
from reporter.forward.places import Layout
from reporter.observables.per_token import PerToken

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
        self._of_places: list[torch.Tensor] = []

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
        kinds = (held & frequent, held & ~frequent)
        self._masks = tuple(torch.as_tensor(mask, device=batch.device).double() for mask in kinds)
        self._of_places = []
        self.follow(batch.device)

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return cos(h_l, h_L) and the cosine with the final state, NaN where undefined, shape (tokens, 2)."""
        last = self.layout.layers
        to_last = layer.batch.cosines(layer.index, last)
        if self.layout.final_width != self.layout.width:
            return torch.stack([to_last, torch.full_like(to_last, torch.nan)], dim=1)
        return torch.stack([to_last, layer.batch.cosines(layer.index, last + 1)], dim=1)  # right after the path

    def observe(self, layer: LayerStates) -> None:
        """Keep the cosines at one place until the batch is through."""
        if layer.index < len(self.places):
            self._of_places.append(self.of_tokens(layer))

    def finish(self, batch: HiddenBatch) -> None:
        """Add the cosines to the sums of each sample that holds the token."""
        values = torch.stack(self._of_places, dim=1)  # (tokens, places, cosines)
        defined = values.isfinite()
        both = torch.stack([values.where(defined, 0.0), defined], dim=1).double().flatten(1)
        for stratum, rows in enumerate(batch.rows):
            if not batch.sizes[stratum]:
                continue
            for kind, mask in enumerate(self._masks):
                sums = (mask[rows].T @ both[rows]).view(-1, 2, *values.shape[1:])  # the whole corpus is the last sample
                at = (slice(None), stratum, slice(kind, None, 2))  # this kind's cosine to the last and final state
                self.sums[at] += sums[-1, 0]
                self.counts[at] += sums[-1, 1]
                self.replicate_sums[:, *at] += sums[:-1, 0]
                self.replicate_counts[:, *at] += sums[:-1, 1]
        self._masks, self._of_places = (), []

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
