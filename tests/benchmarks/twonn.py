"""TwoNN beside scikit-dimension and DADApy: the same number, and how long each takes.

    python tests/benchmarks/twonn.py                               # 4,096 × 768, some rows twice
    python tests/benchmarks/twonn.py --rows 2000 --width 384 --rounds 5
    python tests/benchmarks/twonn.py --dadapy elsewhere/bin/python

scikit-dimension comes with ``requirements-dev.txt``. DADApy up to 0.3.4 wants a NumPy below 2, so it is measured in an
environment of its own, one with ``pip install dadapy``, whose interpreter is given.
Both get the distinct rows; reporter gets all of them and finds out by itself. The rounds of all are interleaved, each
figure is the least of them, since only ratios mean something on a shared machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Timed = tuple[float, float, float]  # the dimension, seconds of processor time and of waiting
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


def compare(x: NDArray[np.float32], rounds: int = 3, dadapy: str = "") -> list[Row]:
    """Return what each library finds on the same states, ours first.

    Args:
        x: states, (n, d).
        rounds: how often each is run.
        dadapy: an interpreter that has DADApy; empty where there is none.
    """
    distinct = np.unique(x, axis=0)
    contestants: dict[str, Callable[[], Timed]] = {
        OURS: lambda: _timed(lambda: _reporter(x)),
        "scikit-dimension": lambda: _timed(lambda: _scikit_dimension(distinct)),
    }
    if dadapy:
        contestants["DADApy"] = lambda: _dadapy(distinct, dadapy)
    for one in contestants.values():
        one()  # imports, and memory that is asked for once, are nobody's business
    found: dict[str, float] = {}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, one in contestants.items():
            found[name], cpu, wall = one()
            times[name].append((cpu, wall))
    return [
        Row(name, found[name], (min(cpu for cpu, _ in spent), min(wall for _, wall in spent)))
        for name, spent in times.items()
    ]


def _timed(run: Callable[[], float]) -> Timed:
    began = time.process_time(), time.perf_counter()
    found = run()
    return found, time.process_time() - began[0], time.perf_counter() - began[1]


def _reporter(x: Floats) -> float:
    from reporter import geometry

    return geometry.twonn(x)


def _scikit_dimension(x: Floats) -> float:
    from skdim.id import TwoNN

    return float(TwoNN(discard_fraction=0.1).fit(x.astype(np.float64)).dimension_)


_DADAPY = """
import json, sys, time, warnings
import numpy as np
from dadapy import Data
warnings.simplefilter("ignore")
x = np.load(sys.argv[1])
for _ in range(2):  # the first one imports, and asks for memory
    began = time.process_time(), time.perf_counter()
    found = Data(x, maxk=2, verbose=False).compute_id_2NN(algorithm="base", mu_fraction=0.9)[0]
    spent = time.process_time() - began[0], time.perf_counter() - began[1]
print(json.dumps([float(found), *spent]))
"""


def _dadapy(x: Floats, python: str) -> Timed:
    with tempfile.TemporaryDirectory() as here:
        states = Path(here) / "states.npy"
        np.save(states, x.astype(np.float64))
        done = subprocess.run([python, "-c", _DADAPY, str(states)], capture_output=True, text=True, check=True)
    found, cpu, wall = json.loads(done.stdout.splitlines()[-1])
    return found, cpu, wall


def main() -> None:
    """Print the table; exit with 1 where another library finds another number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--repeated", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dadapy", metavar="PYTHON", default="", help="an interpreter that has DADApy")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = compare(states(given.rows, given.width, given.repeated), given.rounds, given.dadapy)
    ours = found[0]
    print(f"{given.rows:,} × {given.width} states, {given.repeated} of them repeated; least of {given.rounds} rounds\n")
    print("| | dimension | seconds | of processor time | over reporter |\n|---|---|---|---|---|")
    for row in found:
        cpu, wall = row.seconds
        print(f"| {row.name} | {row.dimension:.9f} | {wall:.2f} | {cpu:.2f} | {wall / ours.seconds[1]:.1f} |")
    if other := [row.name for row in found if abs(row.dimension / ours.dimension - 1) > 1e-6]:
        raise SystemExit(f"{', '.join(other)}: another number")


if __name__ == "__main__":
    main()
