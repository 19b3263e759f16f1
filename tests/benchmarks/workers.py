"""What workers gain: two single-threaded ones against one, and a Ray cluster of this machine against this process.

    python tests/benchmarks/workers.py --model PATH --text FILE    # an encoder's folder; texts, one a line
    python tests/benchmarks/workers.py --model PATH --text FILE --only ray

The texts are measured as two corpora, so that there are two tasks. Rounds are interleaved, and a figure is the least of
them. Numbers are compared too: they must be the same to the last bit.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WAYS = {
    "one process": [],
    "one worker": ["--workers", "1"],
    "two workers": ["--workers", "2"],
    "Ray, one actor": ["--engine", "ray", "--workers", "1"],
    "Ray, two actors": ["--engine", "ray", "--workers", "2"],
}
NUMBERS = "SELECT * FROM layer_metrics ORDER BY ALL"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a folder in the transformers format")
    parser.add_argument("--text", type=Path, required=True, help="a file of texts, one a line")
    parser.add_argument("--only", choices=("workers", "ray"), help="one of the two comparisons")
    parser.add_argument("--metrics", default="[convergence, motion, anisotropy]")
    parser.add_argument("--rounds", type=int, default=3)
    said = parser.parse_args()
    leave_out = {"workers": "Ray", "ray": "worker"}.get(said.only, "nothing")
    ways = {name: options for name, options in WAYS.items() if leave_out not in name}
    with tempfile.TemporaryDirectory() as name:
        study, found = _study(Path(name), said), {way: [] for way in ways}
        numbers = set()
        for _ in range(said.rounds):
            for way, options in ways.items():
                out = Path(name) / "results"
                shutil.rmtree(out, ignore_errors=True)
                began = time.perf_counter()
                _reporter("run", str(study), "--out", str(out), *options)
                found[way].append(time.perf_counter() - began)
                numbers.add(_reporter("sql", NUMBERS, "--out", str(out), "--format", "csv"))
    print("| | seconds | against one process |\n|---|---:|---:|")
    first = min(found["one process"])
    for way, seconds in found.items():
        print(f"| {way} | {min(seconds):.1f} | {first / min(seconds):.2f} × |")
    print(f"\nnumbers: {'the same to the last bit' if len(numbers) == 1 else f'{len(numbers)} different sets'}")


def _study(folder: Path, said: argparse.Namespace) -> Path:
    lines = [line for line in said.text.read_text("utf-8").splitlines() if line.strip()]
    for number in range(2):
        (folder / f"{number}.txt").write_text("\n".join(lines[number::2]), "utf-8")
    path = folder / "workers.yaml"
    path.write_text(
        f"study: workers\nmodels: {{m: {{path: {said.model.resolve()}}}}}\n"
        "corpora: {a: {file: 0.txt}, b: {file: 1.txt}}\n"
        f"metrics: {said.metrics}\nrun: {{threads: 1, precision: float32}}\n",
        "utf-8",
    )
    return path


def _reporter(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "reporter", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    main()
