"""What one linear map makes of the states: ``linearity``, from the states themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import acos
from typing import Any, NamedTuple

import numpy as np

from reporter.verify.reading import Found, Reading
from reporter.verify.tokens import Floats, half_of

ZERO = 1e-6  # eigenvalues of the correlation matrix up to it count as zero
EQUAL = 1e-12  # of the mean square: a spread up to it is rounding
FEWEST = 3  # tokens


def linearity(seen: Reading, options: Mapping[str, Any]) -> Iterator[Found]:
    """Yield what ``linearity`` measures of each layer, the next one and the last."""
    first = {text.index: text.original for text in seen.texts}
    halves = {text: half_of(seen.seed, original) for text, original in first.items()}
    half = np.array([halves[text] for text in seen.text.tolist()])
    for at, place in enumerate(seen.path[:-1]):
        for view, mask in seen.masks.items():
            x, y = seen.at(place)[mask], seen.at(seen.path[at + 1])[mask]
            others = {"linearity": y, "update_linearity": y - x, "to_last": seen.at(seen.path[-1])[mask]}
            if len(x) < FEWEST or not all(map(_varies, (x, y))):
                continue
            for name, other in others.items():
                if _varies(other):
                    yield Found(name, view, place, explained(x, other, x, other))
                    parts = [(x[half[mask] == one], other[half[mask] == one]) for one in (0, 1)]
                    if all(len(a) >= FEWEST and _varies(a) and _varies(b) for a, b in parts):
                        both = zip(parts, reversed(parts), strict=True)
                        shares = [explained(*fitted, *tried) for fitted, tried in both]
                        yield Found(f"{name}_heldout", view, place, float(np.mean(shares)))
            yield from (Found(name, view, place, value, slack) for name, value, slack in _likeness(x, y))


def _varies(x: Floats) -> bool:
    return bool(((x - x.mean(axis=0)) ** 2).sum() > EQUAL * (x**2).sum())


class _Axes(NamedTuple):
    """Where rows vary: them minus their mean along unit vectors, (n, r), and how many directions are near the cut."""

    rows: Floats
    back: Floats
    """From a row minus the mean to its coordinates, (d, r)."""
    near: int


def _axes(x: Floats) -> _Axes:
    x = x - x.mean(axis=0)
    sizes = np.linalg.norm(x, axis=0)
    scale = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 1e-6 * np.sqrt((sizes * sizes).mean()))
    u, s, v = np.linalg.svd(x * scale, full_matrices=False)
    kept = int(((s**2 > ZERO) & (np.arange(len(s)) < len(x) - 1)).sum())
    near = int(((s**2 > ZERO / 2) & (s**2 < 2 * ZERO)).sum())
    return _Axes(u[:, :kept], scale[:, None] * (v[:kept].T / s[:kept]), near)


def explained(x: Floats, y: Floats, other_x: Floats, other_y: Floats) -> float:
    """Return the share of other rows of y that the least-squares map of x to y explains, about the mean of y."""
    axes = _axes(x)
    made = (other_x - x.mean(axis=0)) @ axes.back @ (axes.rows.T @ (y - y.mean(axis=0)))
    return float(1 - ((other_y - y.mean(axis=0) - made) ** 2).sum() / ((other_y - y.mean(axis=0)) ** 2).sum())


def _likeness(x: Floats, y: Floats) -> Iterator[tuple[str, float, float]]:
    """Yield each number that compares two layers as a whole, with its slack."""
    first, second = _axes(x), _axes(y)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    both = np.linalg.norm(x) * np.linalg.norm(y)
    yield "procrustes", acos(min(float(np.linalg.norm(x.T @ y, "nuc") / both), 1.0)), 0.0
    sizes = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    yield "cka", float(np.linalg.norm(x.T @ y) ** 2 / sizes), 0.0
    fewest = min(first.rows.shape[1], second.rows.shape[1])
    if fewest:
        correlations = np.linalg.norm(first.rows.T @ second.rows) ** 2
        # A direction at the cut counts in one and not in the other.
        yield "cca", float(correlations / fewest), (first.near + second.near) / fewest
