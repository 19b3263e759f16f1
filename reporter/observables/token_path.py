"""How much the path from token to token turns, within each layer and text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from reporter.forward.places import Layout
from reporter.forward.strata import VIEWS
from reporter.observables.bootstrap import REPLICATES
from reporter.observables.per_text import PerText

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates


class TokenPath(PerText):
    """Mean over a text of the angle between its steps from token to token, at each place.

    ``curvature``: with x_t the states of three neighbouring tokens of a text, the angle between x_t − x_{t−1} and
    x_{t+1} − x_t, in radians. A token is read where it and both neighbours belong to the view: what a view leaves out
    cuts the path, and is not stepped over. Undefined where a step is zero, and for a text without three such tokens.
    """

    name = "token_path"
    quantities = ("curvature",)

    def __init__(self, layout: Layout, seed: int, replicates: int = REPLICATES) -> None:
        super().__init__(layout, seed, replicates)
        # Of the batch at hand: all rows token by token, and of the tokens with two neighbours their place among these,
        # their texts, and whether the three belong to each view.
        self._order, self._middle, self._text = (torch.zeros(0, dtype=torch.int64) for _ in range(3))
        self._inside = torch.zeros(0, len(VIEWS), dtype=torch.float64)

    def start(self, batch: HiddenBatch) -> None:
        """Find the tokens with two neighbours."""
        super().start(batch)
        order = np.lexsort((batch.positions, batch.texts))
        texts, positions, strata = batch.texts[order], batch.positions[order], batch.strata[order]
        middle = np.arange(1, max(len(order) - 1, 1))
        near = (texts[middle - 1] == texts[middle]) & (texts[np.minimum(middle + 1, len(order) - 1)] == texts[middle])
        middle = middle[near]
        middle = middle[positions[middle + 1] - positions[middle - 1] == 2]
        of_view = np.stack([np.isin(strata, of) for of in VIEWS.values()], axis=1)
        inside = of_view[middle - 1] & of_view[middle] & of_view[middle + 1]
        device = batch.device
        self._order, self._middle, self._text = (
            torch.as_tensor(rows, device=device) for rows in (order, middle, batch.by_text[2][order][middle])
        )
        self._inside = torch.as_tensor(inside, device=device).double()

    def of_texts(self, layer: LayerStates) -> torch.Tensor:
        """Return the mean angle of each text in each view, shape (texts, views, 1)."""
        relative = layer.norms.max().clamp(min=torch.finfo(torch.float32).tiny)
        steps = layer.states[self._order].div_(relative).diff(dim=0)  # so that no product over- or underflows
        lengths = torch.linalg.vector_norm(steps, dim=1)
        cosine = (steps[:-1] * steps[1:]).sum(dim=1) / (lengths[:-1] * lengths[1:])  # at each token but two, row by row
        angle = cosine[self._middle - 1].clamp(-1, 1).arccos().double()
        defined = self._inside * angle.isfinite()[:, None]
        both = torch.stack([defined * angle.nan_to_num(nan=0.0)[:, None], defined])
        sums = both.new_zeros(2, len(self.texts), len(VIEWS)).index_add_(1, self._text, both)
        return (sums[0] / sums[1])[:, :, None]
