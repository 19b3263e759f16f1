"""Where position vectors change character: how long they are, how far apart, and how sharply their path turns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from reporter.geometry.arrays import Floats

LEVEL = 0.01
"""Changes are named where noise would show one anywhere with at most this probability."""

_WINDOWS = (16, 64)  # positions on either side: an eighth of all, but no fewer and no more than these
_DRAWS = 199
_CORRELATIONS = np.array([-0.5, 0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1])
_FEATURES = ("norm", "step", "turn")


@dataclass(frozen=True)
class ChangePoint:
    """A position from which on position vectors are different.

    Args:
        position: the first one of the new kind.
        p: probability of a jump as clear anywhere in noise without one.
        norm: log ‖p_i‖ just before it and from it on, by the lines on either side.
        step: log ‖p_i − p_{i−1}‖.
        turn: the cosine between the steps to position i and from it.
    """

    position: int
    p: float
    norm: tuple[float, float]
    step: tuple[float, float]
    turn: tuple[float, float]


def features(positions: Floats) -> Floats:
    """Return log norm, log step and turn of positions 1 … P − 2: (P, d) to (P − 2, 3)."""
    steps = np.diff(positions, axis=0)
    sizes = np.maximum(np.linalg.norm(steps, axis=1), 1e-30)
    norm = np.maximum(np.linalg.norm(positions, axis=1), 1e-30)
    turn = (steps[1:] * steps[:-1]).sum(axis=1) / (sizes[1:] * sizes[:-1])
    return np.stack([np.log(norm[1:-1]), np.log(sizes[:-1]), turn], axis=1)


def change_points(positions: Floats, seed: int) -> list[ChangePoint]:
    """Return the sudden changes; a drift is none.

    A straight line is fitted to log norm, log step and turn over a window on either side of each position. Where
    the lines jump, and the sum over the three of (jump / standard deviation)² is larger than anywhere in noise,
    there is a change, unless there is a larger one within a window (moving sums: Eichinger & Kirch 2018). Lines over
    a quarter of the window must show at least half of the jump, which those beside a smooth bend do not. Noise is
    autoregressive of first order, with the correlations that lines over blocks of the window's length leave
    behind. Single positions that lie apart, as the first often does, are clipped. No change is found within a
    window of either end.

    Args:
        positions: their vectors, (P, d).
        seed: of the noise.
    """
    window = int(np.clip(len(positions) // 8, *_WINDOWS))
    if len(positions) < 4 * window:
        return []
    x = features(positions)
    middle = np.median(x, axis=0)
    reach = 6 * np.median(np.abs(x - middle), axis=0)
    clipped = np.clip(x, middle - reach, middle + reach)
    varies = np.ptp(clipped, axis=0) > 1e-6 * np.maximum(np.abs(middle), 1)
    if not varies.any():
        return []
    scores = _scores(clipped[None][..., varies], window)[0]
    noise = _scores(_noise(clipped[:, varies], window, np.random.default_rng(seed)), window).max(axis=1)
    found = []
    before, after = _ends(x, window)
    sudden = _sudden(clipped[:, varies], window)
    while scores.max() > 0:
        best = int(scores.argmax())
        p = float((1 + (noise >= scores[best]).sum()) / (1 + _DRAWS))
        if p > LEVEL:
            break
        scores_here = slice(max(0, best - window + 1), best + window)
        if not sudden[best]:
            scores[scores_here] = 0
            continue
        pairs = {name: (float(before[best, k]), float(after[best, k])) for k, name in enumerate(_FEATURES)}
        found.append(ChangePoint(best + window + 1, p, **pairs))  # the first row is position 1
        scores[scores_here] = 0
    return sorted(found, key=lambda change: change.position)


def _ends(x: Floats, window: int) -> tuple[Floats, Floats]:
    """Return the lines' values between rows k − 1 and k, for k = window … n − window, before and after.

    Args:
        x: (…, n, features).
        window: rows on either side.
    """
    place = np.arange(window) - (window - 1) / 2
    weights = 1 / window + place * (window / 2) / (place @ place)  # least squares, half a row beyond the last one
    seen = sliding_window_view(x, window, axis=-2)
    return seen[..., :-window, :, :] @ weights, seen[..., window:, :, :] @ weights[::-1]


def _sudden(x: Floats, window: int) -> NDArray[np.bool_]:
    """Tell for k = window … n − window whether a quarter of the window shows half of the jump."""
    near = window // 4
    deviation, _ = _left(x[None], window)
    wide, close = (np.subtract(*_ends(x, size)) / deviation for size in (window, near))
    close = close[window - near : window - near + len(wide)]
    return np.asarray((wide * close).sum(axis=1) >= 0.5 * (wide**2).sum(axis=1))


def _scores(x: Floats, window: int) -> Floats:
    """Return Σ (jump / standard deviation)² for k = window … n − window: (draws, n, features) to (draws, places)."""
    before, after = _ends(x, window)
    deviation, _ = _left(x, window)
    return np.asarray((((after - before) / deviation[:, None]) ** 2).sum(axis=-1))


def _left(x: Floats, window: int) -> tuple[Floats, Floats]:
    """Return standard deviation and lag-1 correlation of what lines over blocks leave, each (draws, features).

    Medians over the blocks, of which one with a jump is an outlier.
    """
    rest = _blocks(x, window)
    size = np.maximum((rest**2).sum(axis=2), 1e-300)
    phi = np.median((rest[:, :, 1:] * rest[:, :, :-1]).sum(axis=2) / size, axis=1)
    return np.sqrt(np.median(size, axis=1) / (window - 2)), phi


def _blocks(x: Floats, window: int) -> Floats:
    """Return what straight lines leave of blocks: (draws, n, features) to (draws, blocks, window, features)."""
    count = x.shape[1] // window
    blocks = x[:, : count * window].reshape(len(x), count, window, x.shape[2])
    basis = np.linalg.qr(np.stack([np.ones(window), np.arange(window)], axis=1))[0]
    return np.asarray(blocks - basis @ (basis.T @ blocks))


def _noise(x: Floats, window: int, generator: np.random.Generator) -> Floats:
    """Return draws of noise with the correlations of the series (n, features), (draws, n, features)."""
    deviation, phi = (v[0] for v in _left(x[None], window))
    # Lines over short blocks take correlation out. Which correlation leaves as much behind, simulation tells.
    trials = generator.standard_normal((40, len(x), len(_CORRELATIONS)))
    seen = _left(_autoregress(trials, _CORRELATIONS), window)[1].mean(axis=0)
    # Where the estimate is too small by chance, noise would look changed; so it is raised by its standard error.
    unsure = np.sqrt(np.maximum(1 - phi**2, 0) / len(x))
    true = np.interp(phi + unsure, np.maximum.accumulate(seen), _CORRELATIONS)
    rest = _blocks(x[None], window)[0] / np.maximum(deviation, 1e-300)
    innovations = np.clip(rest[:, 1:] - phi * rest[:, :-1], -4, 4).reshape(-1, x.shape[1])
    mix = np.linalg.cholesky(np.corrcoef(innovations, rowvar=False).reshape(x.shape[1], -1) + 1e-6 * np.eye(x.shape[1]))
    return _autoregress(generator.standard_normal((_DRAWS, len(x), x.shape[1])) @ mix.T, true)


def _autoregress(noise: Floats, phi: Floats) -> Floats:
    """Turn innovations (draws, n, k) into x_t = φ x_{t−1} + innovation, in place."""
    noise[:, 0] /= np.sqrt(np.maximum(1 - phi**2, 1e-2))
    for t in range(1, noise.shape[1]):
        noise[:, t] += phi * noise[:, t - 1]
    return noise
