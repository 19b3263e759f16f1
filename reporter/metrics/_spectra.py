"""The eigenvalues of a corpus, and the errors of numbers of them: one decomposition for each place and its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry.arrays import Floats, wide
from reporter.geometry.intervals import Error, error_over_texts
from reporter.geometry.spectra import EQUAL, ZERO, gradients
from reporter.metrics._intervals import Influenced, sampled, texts_of

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.geometry.arrays import Ints
    from reporter.observables.observed import Observed, Place


@dataclass(frozen=True, eq=False)
class Spectrum:
    """What the covariance of the states at a place is made of.

    Args:
        values: its eigenvalues that are not zero, largest first.
        reason: why there are none; empty where there are.
        errors: of numbers of them, by the names that ``gradients`` gives them.
        axis: the eigenvector of the largest, (d,).
        influences: of the sampled tokens on the same numbers, (m,) each.
    """

    values: Floats
    reason: str
    errors: Mapping[str, Error | None]
    axis: Floats | None = None
    influences: Mapping[str, Floats] = field(default_factory=dict)

    def with_influence(self, name: str, value: float | None, seen: Observed) -> Influenced:
        """Return a number of these eigenvalues, of which there is an error, with what tokens add to it."""
        return Influenced(value, seen.tokens, self.influences.get(name, np.zeros(0)), sampled(seen))


def spectrum_of(seen: Observed, place: Place) -> Spectrum:
    """Return the eigenvalues at a place; those of all places are taken at once.

    n tokens span n − 1 directions about their mean: what lies beyond is rounding and left out.
    """
    if seen.tokens < 2:
        return Spectrum(np.zeros(0), "fewer than two tokens", {})
    sample = sampled(seen)
    texts = texts_of(sample)
    return seen.everywhere(("spectra", seen.held), lambda place: _decomposed(seen, place, sample.states(place), texts))[
        place
    ]


def _decomposed(seen: Observed, place: Place, sample: Tensor, texts: Ints) -> Spectrum:
    import torch

    n = seen.tokens
    values, vectors = torch.linalg.eigh(torch.from_numpy(seen.covariance(place)).to(_device_of(sample)))
    spectrum = values.flip(0).clamp(min=0)[: n - 1].cpu().numpy()
    total = spectrum.sum()
    moments = seen.moments(place)
    if not total > EQUAL * (moments.mean @ moments.mean + moments.squares.sum() / n):
        return Spectrum(np.zeros(0), "all states are equal", {})
    spectrum = spectrum[spectrum > ZERO * total]
    numbers = gradients(spectrum, min(seen.width(place), n - 1))
    by = torch.from_numpy(np.stack(list(numbers.values()), axis=1)).to(vectors.device)
    # Products in float32 move an influence, and so an interval, by some 1e-6 of itself.
    x = wide(sample).sub_(torch.from_numpy(moments.mean).to(vectors.device)).float()
    along = x @ vectors.flip(1)[:, : len(spectrum)].float()
    influences = (along.square_() @ by.float()).double() - torch.from_numpy(spectrum).to(by.device) @ by
    of = dict(zip(numbers, influences.T.cpu().numpy(), strict=True))
    errors = {name: error_over_texts(influence, texts, n, seen.texts) for name, influence in of.items()}
    return Spectrum(spectrum, "", errors, vectors[:, -1].cpu().numpy(), of)


def _device_of(x: Tensor) -> str:
    """Return where float64 numbers of a device are: on the processor for Apple's."""
    return "cpu" if x.device.type == "mps" else str(x.device)


def uncentred_eigenvalues(seen: Observed) -> Mapping[Place, Floats]:
    """Return for each place the eigenvalues of E xxᵀ = covariance + μμᵀ, largest first; n tokens span n directions.

    They are the squared singular values of the matrix of states as they are, over n.
    """
    import torch

    def at(place: Place) -> Floats:
        moment, mean = torch.from_numpy(seen.covariance(place)), torch.from_numpy(seen.moments(place).mean)
        found: Floats = torch.linalg.eigvalsh(moment + mean.outer(mean)).flip(0)[: seen.tokens].numpy()
        return found

    return seen.everywhere(("uncentred", seen.held), at)
