"""Measured processes, and Markdown tables of what they took."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Cost(NamedTuple):
    """The cost of a process: wall seconds, CPU seconds, and the most memory that it held, in MiB."""

    seconds: float
    cpu: float
    memory: float


def run_python(arguments: Sequence[Any], log: Path, folder: Path | None = None) -> Cost:
    """Run Python in a process of its own, in a folder; end with what it printed if it fails."""
    began, command = time.perf_counter(), [sys.executable, *map(str, arguments)]
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{log.read_text()}")
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def write(path: Path, lines: Sequence[str]) -> Path:
    """Write lines into a file and return its path."""
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def print_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table."""
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(map(str, row))} |")
    print(flush=True)
