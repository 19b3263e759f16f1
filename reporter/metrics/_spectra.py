"""The eigenvalues of a corpus, and the errors of numbers of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import Error, error_over_texts
from reporter.geometry.spectra import EQUAL, ZERO, gradients
from reporter.metrics._intervals import sampled, texts_of

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place


def varies(variance: float, n: int, seen: Observed, place: Place) -> bool:
    """Tell whether a total variance is more than what rounding leaves of equal float32 states."""
    moments = seen.moments(place)
    scale = moments.mean @ moments.mean + moments.squares.sum() / n
    return bool(variance > EQUAL * scale)


def eigenvalues(seen: Observed, place: Place) -> tuple[Floats, str]:
    """Return the eigenvalues of the covariance that are not zero, largest first, and why there are none if so.

    n tokens span n − 1 directions about their mean: what lies beyond is rounding and left out.
    """
    n = seen.tokens
    if n < 2:
        return np.zeros(0), "fewer than two tokens"
    found = seen.eigenvalues(place)[: n - 1]
    total = found.sum()
    if not varies(total, n, seen, place):
        return np.zeros(0), "all states are equal"
    return found[found > ZERO * total], ""


def uncentred_eigenvalues(seen: Observed, place: Place) -> Floats:
    """Return the eigenvalues of E xxᵀ = covariance + μμᵀ, largest first; n tokens span n directions.

    They are the squared singular values of the matrix of states as they are, over n.
    """
    covariance, mean = seen.covariance(place), seen.moments(place).mean
    return np.asarray(np.linalg.eigvalsh(covariance + np.outer(mean, mean))[::-1][: seen.tokens])


def spectral_errors(seen: Observed, place: Place) -> dict[str, Error | None]:
    """Return the errors of numbers of the covariance's eigenvalues, by the names that ``gradients`` gives them."""

    def compute() -> dict[str, Error | None]:
        values, vectors = np.linalg.eigh(seen.covariance(place))
        n = seen.tokens
        spectrum, vectors = values[::-1][: n - 1], vectors[:, ::-1][:, : n - 1]
        kept = spectrum > ZERO * spectrum.sum()
        spectrum, vectors = spectrum[kept], vectors[:, kept]
        sample = sampled(seen)
        x = sample.states(place).double().cpu().numpy() - seen.moments(place).mean
        numbers = gradients(spectrum, min(seen.width(place), n - 1))
        by = np.stack(list(numbers.values()), axis=1)
        influences = np.square(x @ vectors) @ by - spectrum @ by
        texts = texts_of(sample)
        return {
            name: error_over_texts(influence, texts, n, seen.texts)
            for name, influence in zip(numbers, influences.T, strict=True)
        }

    return seen.once(("spectral errors", seen.held, place), compute)
