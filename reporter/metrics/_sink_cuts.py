"""What the numbers without sinks would be, were sinks cut elsewhere: over a sample of tokens, at several cuts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.metrics.base import N
from reporter.table import OfCorpus, at_place, column

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place
    from reporter.observables.token_sample import Selection

Floats = NDArray[np.float64]

DOMINANCES = (0.25, 0.5, 1.0, 2.0, 4.0)
FACTORS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
_SMALL = 64  # dimensions below which all eigenvalues are as cheap as the largest
TOP_SHARE, COSINE, SIMILARITY = "anisotropy.top_variance_share", "anisotropy.mean_cosine", "convergence.similarity"


class SinkCut(OfCorpus, table="sink_cuts"):
    """A number over a text's own tokens without its first one and without sinks, were sinks cut elsewhere."""

    rule: str = column(
        "'dominance': a norm of more than 2 medians and a coordinate that outweighs the others by more than the cut; "
        "'factor': a norm of more than so many medians of its text",
        key=True,
    )
    cut: float = column("what a token must exceed at some block to be a sink", key=True)
    statistic: str = column("the number, as metric.statistic, over a sample of tokens", key=True)
    place: Place = at_place()
    value: float | None = column("the number; NULL where it could not be computed")
    n: int = column(N, "BIGINT")
    left_out: float = column("share of the sampled tokens that the cut leaves out")


def cuts(seen: Observed, size: int) -> list[SinkCut]:
    """Return three numbers over the sampled own tokens that are neither a text's first nor a sink, at every cut.

    A cut leaves out the tokens whose weight of one coordinate (``dominance``), or whose norm in medians of their text
    (``factor``), exceeds it at some block. Tokens come in from the largest cut to the smallest; where a smaller cut
    leaves out no more of them, its numbers are the same.

    Args:
        seen: observables of one checkpoint on one corpus.
        size: the most tokens that are looked at.
    """
    from reporter.observables.token_sample import DOMINANCE, FIRST, RATIO

    sample = replace(seen, view="words").token_sample(size)
    inside = np.flatnonzero(sample.facts[:, FIRST] == 0)
    facts = sample.facts[inside]
    # Which cut is the smallest that lets a token in; beyond the last one none does.
    bins = {
        "dominance": (DOMINANCES, np.searchsorted(DOMINANCES, facts[:, DOMINANCE].view(np.float64))),
        "factor": (FACTORS, np.searchsorted(FACTORS, facts[:, RATIO].view(np.float64))),
    }
    last = seen.path[-1]
    target = _units(_states(sample, inside, last))
    return [
        SinkCut(rule, cut, statistic, place, value, n, left_out)
        for place in seen.places
        for rule, (at, which) in bins.items()
        for cut, numbers in zip(at, _nested(sample, inside, place, target, which, len(at)), strict=True)
        for statistic, value, n, left_out in numbers
    ]


_Number = tuple[str, float | None, int, float]


def _nested(
    sample: Selection, inside: NDArray[np.int64], place: Place, target: Floats, which: NDArray[np.int64], steps: int
) -> Iterator[list[_Number]]:
    """Yield the numbers of the tokens that each cut lets in: those of the first cut, then more and more."""
    x = _states(sample, inside, place)
    units = _units(x)
    on_path = x.shape[1] == target.shape[1] and place.site in ("embedding", "block")
    cosines = np.einsum("ij,ij->i", units, target) if on_path else np.full(len(x), np.nan)
    centre = x[which == 0].mean(axis=0) if (which == 0).any() else np.zeros(x.shape[1])
    x = x - centre  # so that products lose nothing to a common mean
    n, total, gram = 0, np.zeros(x.shape[1]), np.zeros((x.shape[1], x.shape[1]))
    unit_sum, similarity = np.zeros(x.shape[1]), 0.0
    found: list[_Number] = []
    for step in range(steps):
        new = which == step
        if new.any() or not step:
            n += int(new.sum())
            total += x[new].sum(axis=0)
            gram += x[new].T @ x[new]
            unit_sum += units[new].sum(axis=0)
            similarity += cosines[new].sum()
            left_out = 1 - n / max(len(x), 1)
            found = [
                (TOP_SHARE, _top_share(n, total, gram), n, left_out),
                (COSINE, float((unit_sum @ unit_sum - n) / (n * (n - 1))) if n > 1 else None, n, left_out),
            ]
            if on_path and n:
                found.append((SIMILARITY, float(similarity / n), n, left_out))
        yield found


def _top_share(n: int, total: Floats, gram: Floats) -> float | None:
    """Return λ1/Σλ of n states about their mean, given their sum and Σ x xᵀ; None where they do not vary."""
    if n < 2:
        return None
    covariance = gram / n - np.outer(total / n, total / n)
    trace = float(np.trace(covariance))
    if trace <= 1e-12 * float(np.trace(gram)) / n:
        return None
    if len(covariance) < _SMALL:
        return float(np.linalg.eigvalsh(covariance)[-1] / trace)
    from scipy.sparse.linalg import eigsh

    start = np.random.default_rng(0).standard_normal(len(covariance))  # scipy's own is another one at each call
    return float(eigsh(covariance, k=1, v0=start, tol=1e-9, return_eigenvectors=False)[0] / trace)


def _states(sample: Selection, rows: NDArray[np.int64], place: Place) -> Floats:
    return sample.states(place).double().cpu().numpy()[rows]


def _units(x: Floats) -> Floats:
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    units: Floats = np.divide(x, norms, out=np.zeros_like(x), where=norms > 0)
    return units
