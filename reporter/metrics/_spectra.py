"""The eigenvalues of a corpus, and the errors of numbers of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import Error, error_over_texts
from reporter.geometry.spectra import EQUAL, ROOTS_ZERO, ZERO, gradients, rank_of_roots_gradient
from reporter.metrics._delta import sampled, texts_of

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


def uncentred_eigenvectors(seen: Observed, place: Place) -> tuple[Floats, Floats]:
    """Return the eigenvalues of E xxᵀ = covariance + μμᵀ that are not zero, largest first, and vectors as columns.

    They are the squared singular values of the matrix of states as they are, over n; n tokens span n directions.
    """
    mean = seen.moments(place).mean
    values, vectors = np.linalg.eigh(seen.covariance(place) + np.outer(mean, mean))
    values, vectors = values[::-1][: seen.tokens], vectors[:, ::-1][:, : seen.tokens]
    kept = values > ROOTS_ZERO * np.trace(seen.covariance(place))
    return values[kept], vectors[:, kept]


def spectral_errors(seen: Observed, place: Place) -> dict[str, Error | None]:
    """Return the errors of numbers of the covariance's eigenvalues, by the names that ``gradients`` gives them."""

    def compute() -> dict[str, Error | None]:
        values, vectors = np.linalg.eigh(seen.covariance(place))
        most = seen.tokens - 1
        spectrum, vectors = values[::-1][:most], vectors[:, ::-1][:, :most]
        kept = spectrum > ZERO * spectrum.sum()
        spectrum, vectors = spectrum[kept], vectors[:, kept]
        x = sampled(seen).states(place).astype(np.float64) - seen.moments(place).mean
        return _errors(seen, x @ vectors, spectrum, gradients(spectrum, min(seen.width(place), most)))

    return seen.once(("spectral errors", seen.held, place), compute)


def uncentred_error(seen: Observed, place: Place, values: Floats, vectors: Floats) -> Error | None:
    """Return the error of the effective rank of the roots of eigenvalues of E xxᵀ, given with their vectors."""
    x = sampled(seen).states(place).astype(np.float64)
    return _errors(seen, x @ vectors, values, {"rankme": rank_of_roots_gradient(values)})["rankme"]


def _errors(
    seen: Observed, along: Floats, spectrum: Floats, gradients: Mapping[str, Floats]
) -> dict[str, Error | None]:
    """Return the error of each number whose derivative by each eigenvalue is given.

    Args:
        seen: the corpus.
        along: the sampled states along each eigenvector, shape (m, eigenvalues).
        spectrum: the eigenvalues.
        gradients: of each number, shape (eigenvalues,).
    """
    by = np.stack(list(gradients.values()), axis=1)
    influences = np.square(along) @ by - spectrum @ by
    texts = texts_of(sampled(seen))
    return {
        name: error_over_texts(influence, texts, seen.tokens, seen.texts)
        for name, influence in zip(gradients, influences.T, strict=True)
    }
