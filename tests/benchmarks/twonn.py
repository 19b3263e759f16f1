"""TwoNN beside scikit-dimension and DADApy: the same number, and how long each takes.

    python tests/benchmarks/twonn.py                               # 4,096 × 768, some rows twice
    python tests/benchmarks/twonn.py --rows 2000 --width 384 --rounds 5

scikit-dimension comes with ``requirements-dev.txt``; DADApy (``pip install dadapy``) is measured where it is installed.
Both get the distinct rows; reporter gets all of them and finds out by itself. The rounds of all are interleaved, each
figure is the least of them, since only ratios mean something on a shared machine.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
OURS = "reporter"


@dataclass(frozen=True)
class Row:
    """What one library found.

    Args:
        name: of the library.
        dimension: TwoNN, slope through the origin without the largest tenth of the ratios.
        seconds: of processor time and of waiting, each the least of the rounds.
    """

    name: str
    dimension: float
    seconds: tuple[float, float]


def states(rows: int, width: int, repeated: int, seed: int = 0) -> NDArray[np.float32]:
    """Return states about a common mean whose variance falls as a power of the axis, of which some stand there twice.

    Args:
        rows: n, those that repeat included.
        width: d.
        repeated: how many rows repeat another one.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows - repeated, width)) * np.arange(1, width + 1) ** -0.5 + rng.standard_normal(width)
    x = np.concatenate([x, x[:repeated]]).astype(np.float32)
    return x[rng.permutation(rows)]


def compare(x: NDArray[np.float32], rounds: int = 3) -> list[Row]:
    """Return what each library finds on the same states, ours first.

    Args:
        x: states, (n, d).
        rounds: how often each is run.
    """
    distinct = np.unique(x, axis=0)
    contestants: dict[str, Callable[[], float]] = {OURS: lambda: _reporter(x)}
    for name, module, run in (
        ("scikit-dimension", "skdim.id", _scikit_dimension),
        ("DADApy", "dadapy", _dadapy),
    ):
        try:
            __import__(module)
        except ImportError:
            continue
        contestants[name] = lambda run=run: run(distinct)
    for one in contestants.values():
        one()  # imports, and memory that is asked for once, are nobody's business
    found: dict[str, float] = {}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, one in contestants.items():
            began = time.process_time(), time.perf_counter()
            found[name] = one()
            times[name].append((time.process_time() - began[0], time.perf_counter() - began[1]))
    return [
        Row(name, found[name], (min(cpu for cpu, _ in spent), min(wall for _, wall in spent)))
        for name, spent in times.items()
    ]


def _reporter(x: Floats) -> float:
    from reporter import geometry

    return geometry.twonn(x)


def _scikit_dimension(x: Floats) -> float:
    from skdim.id import TwoNN

    return float(TwoNN(discard_fraction=0.1).fit(x.astype(np.float64)).dimension_)


def _dadapy(x: Floats) -> float:
    from dadapy import Data

    data = Data(x.astype(np.float64), maxk=2, verbose=False)
    return float(data.compute_id_2NN(algorithm="base", mu_fraction=0.9)[0])


def main() -> None:
    """Print the table; exit with 1 where scikit-dimension finds another number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--repeated", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = compare(states(given.rows, given.width, given.repeated), given.rounds)
    ours = found[0]
    print(f"{given.rows:,} × {given.width} states, {given.repeated} of them repeated; least of {given.rounds} rounds\n")
    print("| | dimension | seconds | of processor time | over reporter |\n|---|---|---|---|---|")
    for row in found:
        cpu, wall = row.seconds
        print(f"| {row.name} | {row.dimension:.9f} | {wall:.2f} | {cpu:.2f} | {wall / ours.seconds[1]:.1f} |")
    if any(abs(row.dimension / ours.dimension - 1) > 1e-6 for row in found if row.name == "scikit-dimension"):
        raise SystemExit("scikit-dimension finds another number")


if __name__ == "__main__":
    main()
