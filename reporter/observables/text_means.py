"""Per text: the mean similarity of its tokens to their last state, and how rare tokens differ from frequent ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from reporter.forward.strata import VIEWS
from reporter.observables.per_text import PerText

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates


class TextMeans(PerText):
    """Means over the tokens of a text, at each place of the path.

    - ``cosine_to_last``: mean of cos(h_l, h_L) over the text's tokens
    - ``frequency_gap``: that mean over tokens of rare types minus that over tokens of frequent types, for texts that
      have both
    - the two with ``to_final``: the same with the state after the closing norm in place of h_L; undefined where the
      model has none of its own or it has another width

    Tokens with a zero state are left out.
    """

    name = "text_means"
    quantities = ("cosine_to_last", "frequency_gap", "cosine_to_final", "frequency_gap_to_final")
    _frequent: torch.Tensor  # whether each token of the batch at hand is of a frequent type

    def start(self, batch: HiddenBatch) -> None:
        """Number the texts, and see which tokens are of frequent types."""
        super().start(batch)
        self._frequent = torch.as_tensor(batch.frequent, device=batch.device)

    def of_texts(self, layer: LayerStates) -> torch.Tensor:
        """Return the four quantities, shape (texts, views, 4)."""
        last = self.layout.layers
        undefined = self.sums.new_full((len(self.texts), len(VIEWS), 2), torch.nan)
        if layer.index > last:  # off the path
            return torch.cat([undefined, undefined], dim=2)
        to_last = self._means(layer, last)
        if self.layout.final_width != self.layout.width:
            return torch.cat([to_last, undefined], dim=2)
        return torch.cat([to_last, self._means(layer, last + 1)], dim=2)  # the place right after the path

    def _means(self, layer: LayerStates, target: int) -> torch.Tensor:
        """Return the mean and the gap with respect to the states at one place, shape (texts, views, 2)."""
        cosine = layer.batch.cosines(layer.index, target)
        defined, frequent = cosine.isfinite(), self._frequent
        masks = torch.stack([defined, defined & frequent, defined & ~frequent], dim=1).double()
        sums = self.by_view(torch.cat([cosine.nan_to_num(nan=0.0).double()[:, None] * masks, masks], dim=1))
        whole, often, rarely = (sums[:, :, :3] / sums[:, :, 3:]).unbind(dim=2)
        return torch.stack([whole, rarely - often], dim=2)
