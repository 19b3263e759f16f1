"""Per text: the mean similarity of its tokens to their last state, and how rare tokens differ from frequent ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from reporter.forward.strata import VIEWS
from reporter.observables.per_text import PerText
from reporter.observables.text_sums import cosine_of

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

    def of_texts(self, layer: LayerStates) -> torch.Tensor:
        """Return the four quantities, shape (texts, views, 4)."""
        last, shape = self.layout.layers, (len(self.texts), len(VIEWS))
        found = torch.full((*shape, len(self.quantities)), torch.nan, dtype=torch.float64)
        if layer.index > last:  # off the path
            return found
        found[:, :, :2] = self._means(layer, last)
        if self.layout.final_width == self.layout.width:
            found[:, :, 2:] = self._means(layer, last + 1)  # the place right after the path
        return found

    def _means(self, layer: LayerStates, target: int) -> torch.Tensor:
        """Return the mean and the gap with respect to the states at one place, shape (texts, views, 2)."""
        batch: HiddenBatch = layer.batch
        if layer.index == target:
            cosine = layer.norms / layer.norms  # 1 by definition, not up to rounding
        else:
            cosine = cosine_of(layer.states, batch.states[target], layer.norms, batch.norms[target])
        defined, frequent = cosine.isfinite(), torch.as_tensor(batch.frequent, device=cosine.device)
        masks = torch.stack([defined, defined & frequent, defined & ~frequent], dim=1).double()
        sums = self.by_view(cosine.nan_to_num(nan=0.0).double()[:, None] * masks)
        whole, often, rarely = (sums / self.by_view(masks)).unbind(dim=2)
        return torch.stack([whole, rarely - often], dim=2)
