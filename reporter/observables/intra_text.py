"""How much the tokens of a text point the same way as the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from reporter.geometry.noise import isotropic_cosine
from reporter.observables.per_text import PerText

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import LayerStates

_ZERO = 1e-6  # of a text's root mean square norm: a mean vector shorter than this is what rounding leaves of zero


class IntraText(PerText):
    """Mean over a text's tokens of the cosine of a state to the text's mean state, both over the view's tokens.

    ``cosine``: with u_i = x_i/‖x_i‖ and m = Σ x_i: Σ cos(x_i, m) = (Σ u_i)·m/‖m‖. Undefined for fewer than two states
    that are not zero, and where the mean is zero. ``isotropic``: what isotropic Gaussian states read in a text of as
    many tokens; a token is part of the mean that it is compared with, so this is about 1/√n, not zero.
    """

    name = "intra_text"
    quantities = ("cosine", "isotropic")

    def of_texts(self, layer: LayerStates) -> torch.Tensor:
        """Return both quantities of each text in each view, shape (texts, views, 2)."""
        inverse = layer.norms.reciprocal().nan_to_num(posinf=0.0)[:, None]
        units = self.by_view(layer.states * inverse).double()
        # Relative to the largest norm of the batch, so that sums neither overflow nor underflow in float32.
        relative = layer.norms / layer.norms.max().clamp(min=torch.finfo(torch.float32).tiny)
        total = self.by_view(layer.states * inverse * relative[:, None]).double()
        facts = torch.stack([inverse[:, 0].double().sign(), relative.double().square()], dim=1)
        count, squares = self.by_view(facts).unbind(dim=2)
        length = torch.linalg.vector_norm(total, dim=2)
        cosine = ((units * total).sum(dim=2) / (length * count)).clamp(-1, 1)
        isotropic = isotropic_cosine(count.cpu().numpy(), layer.states.shape[1])
        both = torch.stack([cosine, torch.as_tensor(isotropic, device=cosine.device)], dim=2)
        defined = (count >= 2) & (length > _ZERO * (squares * count).sqrt())
        return torch.where(defined[:, :, None], both, torch.nan)
