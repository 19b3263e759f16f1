"""How often a false claim is supported, by form, kind of statistic and number of models.

``python tests/oracles/claim_calibration.py [repetitions]`` prints the table of ``tests/claims/README.md``, with a fifth
of the repetitions for bells and for rises and falls, which are slow; the suite does the same with fewer. Profiles have
13 points and a range of about 1. Noise from texts is independent from layer to layer, or autocorrelated: a shared part
(correlation 0.8), or one that wanders (0.9 from layer to layer). One model, or two, have noise from texts alone; from
three on each has a profile of its own around the common one, too. A statistic without an interval has noise from models
alone. Relatives share their own profile but for a hundredth.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace

import numpy as np

from reporter.claims.kinds.differ import Group, _decide, difference
from reporter.claims.kinds.relation import _finding, _Related
from reporter.claims.kinds.value import _above, _between
from reporter.claims.numbers import Bounded
from reporter.claims.points import Points
from reporter.claims.shapes import rule
from reporter.geometry.correlation import by_chance, correlation, effective_points, fisher

K = 13
X = np.linspace(0, 1, K)
BELL = np.exp(-((X - 0.5) ** 2) / (2 * 0.2**2))
ODD = np.where(np.arange(K) == 9, 0.5, 0.0)
SHAPES = {
    "flat": np.ones(K),
    "linear": X,
    "falling": 1 - X,
    "bell": BELL,
    "bell, odd layer low": BELL - ODD,
    "bell, odd layer high": BELL + ODD,
    "flat, odd layer": 1 + (np.arange(K) == 6),
    "early bell": np.exp(-((X - 0.25) ** 2) / (2 * 0.1**2)),
    "sawtooth": np.arange(K) % 2 * 1.0,
    "slow sawtooth": np.arange(K) % 4 / 3,
    "rising sawtooth": X - 0.3 * (np.arange(K) % 2),
    "U": 1 - BELL,
    "M": np.interp(X, [0, 0.25, 0.5, 0.75, 1], [0, 1, 0.2, 1, 0]),
    "plateau": np.minimum(1, 3 * X),
    "falls at first": np.where(X == 0, 0.25, X),
    "just two hills": np.array([0, 0.5, 1, 1, 1, 0.7, 0.7, 0.7, 1, 1, 1, 0.5, 0]),
    "just a fall": np.interp(X, [0, 0.4, 0.6, 1], [0, 0.6, 0.48, 1]),
}
TRUE = {
    "bell": {"bell", "bell, odd layer low", "bell, odd layer high"},
    "rise-then-fall": {"bell", "bell, odd layer low", "bell, odd layer high", "early bell"},
    "increasing": {"linear", "plateau"},
    "decreasing": {"falling"},
    "flat": {"flat"},
    "peak-at": {"bell", "bell, odd layer low", "bell, odd layer high", "flat, odd layer"},
}
OPTIONS: dict[str, dict[str, float]] = {name: {"at_least": 0.1} for name in TRUE}
OPTIONS["peak-at"] |= {"at": 0.5, "within": 0.2}
OPTIONS["flat"] = {"tolerance": 0.3}
KINDS = ("independent", "shared", "wandering")
LEVELS = (0.05, 0.15)
MODELS = (1, 2, 3, 6, 12)
RELATED = ("3 relatives", "same model twice")
HILLS = ("bell", "rise-then-fall")


def noise(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Noise of variance 1 over the last axis."""
    if kind == "independent":
        return rng.standard_normal((*shape, K))
    if kind == "shared":
        return np.sqrt(0.8) * rng.standard_normal((*shape, 1)) + np.sqrt(0.2) * rng.standard_normal((*shape, K))
    return rng.standard_normal((*shape, K)) @ np.linalg.cholesky(correlation_of(kind)).T


def correlation_of(kind: str) -> np.ndarray:
    """Correlation of the noise of any two points."""
    lags = np.abs(np.subtract.outer(np.arange(K), np.arange(K)))
    return {"independent": 1.0 * (lags == 0), "shared": np.where(lags == 0, 1.0, 0.8), "wandering": 0.9**lags}[kind]


@cache
def simulated(
    shape: str, level: float, kind: str, models: int | str, interval: bool, repetitions: int, paired: bool = False
) -> Points:
    """Profiles of a shape with noise, as :func:`reporter.claims.profiles.together` gives them.

    Paired: the database says how the errors of two layers go together.
    """
    seed = [list(SHAPES).index(shape), int(100 * level), KINDS.index(kind), interval, len(str(models)), repetitions]
    rng = np.random.default_rng(seed)
    if models == "same model twice":  # known by its fingerprint, so it is one
        models = 1
    if models == "3 relatives":  # one unit: the mean of three that share nearly all
        own = level * noise(rng, kind, (repetitions, 1)) * (not interval)
        own = own + 0.01 * level * noise(rng, kind, (repetitions, 3)).mean(axis=1, keepdims=True)
    else:
        own = level * noise(rng, kind, (repetitions, int(models))) if int(models) > 2 or not interval else 0.0
    count = 1 if isinstance(models, str) else models
    texts = level * noise(rng, kind, (repetitions, 1)) if interval else 0.0
    values = np.broadcast_to(SHAPES[shape] + texts + own, (repetitions, count, K))
    covariance = np.tile(level**2 * correlation_of(kind), (count, 1, 1)) if paired else None
    return Points(values, np.full((count, K), level) if interval else None, X, covariance=covariance)


@cache
def rates(
    name: str,
    shape: str,
    level: float,
    kind: str,
    models: int | str,
    interval: bool,
    repetitions: int,
    paired: bool = False,
) -> tuple[float, float]:
    """Return how often the claim is supported and refuted, alone in its study."""
    found = rule(name, simulated(shape, level, kind, models, interval, repetitions, paired), **OPTIONS[name])
    return float((found.holds <= 0.025).mean()), float((found.fails <= 0.025).mean())


def worst(
    name: str,
    models: int | str,
    interval: bool,
    repetitions: int,
    true: bool = False,
    side: int = 0,
    levels: tuple[float, ...] = LEVELS,
    paired: bool = False,
) -> float:
    """Return the highest rate of supporting what is not so (or, of true shapes, of refuting what is so)."""
    shapes = [shape for shape in SHAPES if (shape in TRUE[name]) == true]
    cases = [(shape, level, kind) for shape in shapes for level in levels for kind in KINDS]
    return max(rates(name, *case, models, interval, repetitions, paired)[side] for case in cases)


def differ(is_: str, models: tuple[int, int], interval: bool, repetitions: int) -> float:
    """Return how often two groups seem to differ by more than 0.5 (or less, for 'same') at the edge of it."""
    rng = np.random.default_rng([models[0], models[1], interval])
    edges = {"above": (0.5,), "below": (-0.5,), "different": (0.5, -0.5, 0.0), "same": (0.5, -0.5)}[is_]
    rate = 0.0
    for edge in edges:
        wrong = 0
        for _ in range(repetitions):
            sides = []
            for count, at in zip(models, (edge, 0.0), strict=True):
                own = rng.standard_normal(count) * (count > 2 or not interval)
                texts = 0.4 * rng.standard_normal() if interval else 0.0
                sides.append(Group(("m",) * count, at + own + texts, np.full(count, 0.4) if interval else None))
            needs, _ = _decide(difference(*sides)[0], is_, 0.5, "")
            wrong += max(float(part.p) for part in needs) <= 0.025
        rate = max(rate, wrong / repetitions)
    return rate


def relation(is_: str, over: str, models: int, repetitions: int) -> float:
    """Return how often unrelated numbers seem related (for 'none': strongly related ones unrelated)."""
    rng = np.random.default_rng([models, len(over), len(is_)])
    claim = SimpleNamespace(
        x="x", y="y", over=over, is_=is_, method="spearman", at_least=0.3 if is_ == "none" else None
    )
    r = 0.3 if is_ == "none" else 0.0
    wrong = 0
    for _ in range(repetitions):
        if over == "models":
            x = rng.standard_normal(models)
            y = r * x + np.sqrt(1 - r * r) * rng.standard_normal(models)
            z, error = fisher(correlation(x, y, "spearman") or 0.0, models, "spearman")
            related = [_Related("m", z, error, models, by_chance(x, y, "spearman"))]
        else:
            n, steps = (K, 0.9) if over == "layers" else (60, 0.0)
            common = rng.standard_normal((2, n)) * (over == "types")  # types are the same ones in all models
            related = []
            for _ in range(models):
                x, y = common + rng.standard_normal((2, n)) * (0.1 if over == "types" else 1.0)
                y = r * x + np.sqrt(1 - r * r) * y
                for i in range(1, n if steps else 1):
                    x[i] += steps * x[i - 1]
                    y[i] += steps * y[i - 1]
                points = effective_points(x, y, "spearman") if over == "layers" else n
                related.append(_Related("m", *fisher(correlation(x, y, "spearman") or 0.0, points, "spearman"), n))
        found = _finding(claim, related)  # type: ignore[arg-type]
        wrong += found.holds is not None and found.holds <= 0.025
    return wrong / repetitions


def value(form: str, repetitions: int) -> float:
    """Return how often a number at the edge of its bounds seems to lie inside."""
    rng = np.random.default_rng(len(form))
    bounds = {"above": (0.0, None), "below": (None, 0.0), "between": (0.0, 0.5), "within": (-0.5, 0.0)}[form]
    wrong = 0
    for _ in range(repetitions):
        at = float(rng.standard_normal())
        number = Bounded(at, at - 1.959964, at + 1.959964)
        low, high = (None if end is None else Bounded(end, end, end) for end in bounds)
        holds, _ = _between(low and _above(number, low), high and _above(high, number))
        wrong += holds <= 0.025
    return wrong / repetitions


def table(repetitions: int) -> Iterator[tuple[str, str, str, float]]:
    """Yield claim form, kind of statistic, models, and the highest rate of false 'supported'."""
    for name in TRUE:
        for models in (*MODELS, *RELATED):
            for interval in (True, False):
                kind = "with interval" if interval else "without"
                count = max(1, repetitions // 5) if name in HILLS else repetitions
                yield f"shape, {name}", kind, str(models), worst(name, models, interval, count)
        if name in HILLS:
            count = max(1, repetitions // 5)
            yield f"shape, {name}", "with interval, layers paired", "1", worst(name, 1, True, count, paired=True)
    for is_ in ("above", "below", "different", "same"):
        for pair in ((1, 1), (2, 2), (2, 6), (3, 3), (6, 6), (12, 12)):
            for interval in (True, False):
                kind = "with interval" if interval else "without"
                yield f"differ, {is_}", kind, f"{pair[0]} and {pair[1]}", differ(is_, pair, interval, repetitions)
    for is_ in ("positive", "negative", "none"):
        for over in ("layers", "types", "models"):
            for models in (4, 6, 12) if over == "models" else MODELS:
                yield f"relation, {is_}", f"over {over}", str(models), relation(is_, over, models, repetitions)
    for form in ("above", "below", "between", "within"):
        yield f"value, {form}", "with interval", "1", value(form, repetitions)


if __name__ == "__main__":
    print("| claim | statistic | models | false 'supported' |\n|---|---|---|---|")
    for row in table(int(sys.argv[1]) if len(sys.argv) > 1 else 400):
        print(f"| {row[0]} | {row[1]} | {row[2]} | {100 * row[3]:.1f} % |", flush=True)
