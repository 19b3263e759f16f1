"""The rules on simulated profiles of known shape: how often each is wrong, and how often it finds what is there.

Profiles have 13 points and a range of 1 (but for the flat one). Noise is independent from point to point, or
correlated: a shared part (correlation 0.8), or one that wanders slowly (0.9 from point to point). One model has noise
from texts alone, of known size. Six models have noise from texts that they share, and each has a profile of its own
around the common one.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from reporter.claims.points import Points
from reporter.claims.shapes import rule

K = 13
X = np.linspace(0, 1, K)
BELL = np.exp(-((X - 0.5) ** 2) / (2 * 0.2**2))
OUTLIER = np.where(np.arange(K) == 9, 0.5, 0.0)
SHAPES = {
    "flat": np.ones(K),
    "linear": X,
    "falling": 1 - X,
    "bell": BELL,
    "bell, odd layer low": BELL - OUTLIER,
    "bell, odd layer high": BELL + OUTLIER,
    "flat, odd layer": 1 + (np.arange(K) == 6),
    "early bell": np.exp(-((X - 0.25) ** 2) / (2 * 0.1**2)),
    "sawtooth": np.arange(K) % 2 * 1.0,
    "slow sawtooth": np.arange(K) % 4 / 3,
    "rising sawtooth": X - 0.3 * (np.arange(K) % 2),
    "U": 1 - BELL,
    "M": np.interp(X, [0, 0.25, 0.5, 0.75, 1], [0, 1, 0.2, 1, 0]),
    "plateau": np.minimum(1, 3 * X),
}
# What each shape is; where neither is said (a flat line is at the very edge of rising), any verdict is as true as the
# other and none is counted as wrong, but 'supported' must not come more often than 5 %.
TRUE = {
    "bell": {"bell", "bell, odd layer low", "bell, odd layer high"},
    "rise-then-fall": {"bell", "bell, odd layer low", "bell, odd layer high", "early bell"},
    "increasing": {"linear", "plateau"},
    "decreasing": {"falling"},
    "flat": {"flat"},
    "peak-at": {"bell", "bell, odd layer low", "bell, odd layer high", "flat, odd layer"},
}
OPTIONS = {"peak-at": {"at": 0.5, "within": 0.2}, "flat": {"tolerance": 0.3}}
REPETITIONS = 800
LEVELS = (0.02, 0.1, 0.3)
KINDS = ("independent", "shared", "wandering")


def noise(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Noise of variance 1 over the last axis."""
    if kind == "independent":
        return rng.standard_normal((*shape, K))
    if kind == "shared":
        return np.sqrt(0.8) * rng.standard_normal((*shape, 1)) + np.sqrt(0.2) * rng.standard_normal((*shape, K))
    lags = np.abs(np.subtract.outer(np.arange(K), np.arange(K)))
    return rng.standard_normal((*shape, K)) @ np.linalg.cholesky(0.9**lags).T


@cache
def simulated(shape: str, level: float, kind: str, models: int) -> Points:
    rng = np.random.default_rng(abs(hash((list(SHAPES).index(shape), level, KINDS.index(kind), models))) % 2**32)
    texts = level * noise(rng, kind, (REPETITIONS, 1))
    own = level * noise(rng, kind, (REPETITIONS, models)) if models > 1 else 0.0
    values = SHAPES[shape] + texts + own
    return Points(values, np.full((models, K), level), X)


@cache
def rates(name: str, shape: str, level: float, kind: str, models: int) -> tuple[float, float]:
    """Return how often the claim is supported and refuted, alone in its study."""
    found = rule(name, simulated(shape, level, kind, models), **OPTIONS.get(name, {}))
    return float((found.holds <= 0.025).mean()), float((found.fails <= 0.025).mean())
