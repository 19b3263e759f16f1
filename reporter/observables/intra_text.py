"""How much the tokens of a text point the same way as the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from reporter.forward.strata import STRATA, VIEWS
from reporter.geometry.noise import isotropic_cosine
from reporter.observables.per_text import PerText

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates

_ZERO = 1e-6  # of a text's root mean square norm: a mean vector shorter than this is what rounding leaves of zero


class IntraText(PerText):
    """Mean over a text's tokens of the cosine of a state to the text's mean state, both over the view's tokens.

    ``cosine``: with u_i = x_i/‖x_i‖ and m = Σ x_i: Σ cos(x_i, m) = (Σ u_i)·m/‖m‖. Undefined for fewer than two states
    that are not zero, and where the mean is zero. ``isotropic``: what isotropic Gaussian states read in a text of as
    many tokens; a token is part of the mean that it is compared with, so this is about 1/√n, not zero.
    """

    name = "intra_text"
    quantities = ("cosine", "isotropic")
    _count: torch.Tensor  # of states that are not zero, (places, texts, views), of the batch at hand
    _isotropic: torch.Tensor  # what they would read

    def start(self, batch: HiddenBatch) -> None:
        """Number the texts, and see how many states that are not zero each has."""
        super().start(batch)
        texts, _, of_token = batch.by_text
        row, rows = of_token * len(STRATA) + batch.strata, len(texts) * len(STRATA)
        found = np.stack([np.bincount(row[norms > 0], minlength=rows) for norms in batch.known_norms])
        by_stratum = found.reshape(len(found), len(texts), len(STRATA)).astype(np.float64)
        count = np.stack([by_stratum[:, :, list(strata)].sum(axis=2) for strata in VIEWS.values()], axis=2)
        isotropic = np.empty_like(count)
        for width in set(self.layout.widths):
            places = np.flatnonzero(np.array(self.layout.widths) == width)
            isotropic[places] = isotropic_cosine(count[places], width)
        self._count, self._isotropic = (torch.as_tensor(x, device=batch.device) for x in (count, isotropic))

    def of_texts(self, layer: LayerStates) -> torch.Tensor:
        """Return both quantities of each text in each view, shape (texts, views, 2)."""
        count, isotropic = self._count[layer.index], self._isotropic[layer.index]
        units = self.by_view(layer.units).double()
        # Relative to the largest norm of the batch, so that sums neither overflow nor underflow in float32.
        largest = layer.norms.max().clamp(min=torch.finfo(torch.float32).tiny)
        relative = torch.div(layer.states, largest, out=layer.batch.scratch(layer.states))
        total = self.by_view(relative).double()
        squares = self.by_view((layer.norms / largest).double().square()[:, None])[:, :, 0]
        length = torch.linalg.vector_norm(total, dim=2)
        cosine = ((units * total).sum(dim=2) / (length * count)).clamp(-1, 1)
        both = torch.stack([cosine, isotropic], dim=2)
        defined = (count >= 2) & (length > _ZERO * (squares * count).sqrt())
        return torch.where(defined[:, :, None], both, torch.nan)
