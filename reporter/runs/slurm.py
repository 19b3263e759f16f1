"""The script of a Slurm job array that does the passes of a study."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

MOST_JOBS = 1000  # of an array, as clusters usually allow
AT_ONCE = 64  # of them running, if nobody says otherwise


def job_array(
    study: str,
    spec: Path,
    out: Path,
    tasks: int,
    *,
    threads: int,
    gpu: bool,
    at_once: int = AT_ONCE,
    options: Sequence[str] = (),
) -> str:
    """Return a script for ``sbatch``. Each job begins with its share and goes on with what others left.

    A job that is preempted, requeued, killed or started twice costs what it was at, and changes nothing.

    Args:
        study: id of the study.
        spec: its file.
        out: the results folder, which all machines see.
        tasks: how many tasks are to be done.
        threads: of each worker.
        gpu: whether each worker gets a GPU.
        at_once: the most jobs that run at one time.
        options: what else ``reporter work`` is told.
    """
    jobs = max(1, min(tasks, MOST_JOBS))
    command = ["reporter", "work", str(spec.resolve()), "--out", str(out.resolve()), *options]
    lines = [
        "#!/bin/bash",
        f"# {tasks} {'task' if tasks == 1 else 'tasks'} of study {study}. Submit it with sbatch; then, from anywhere:",
        f"#   reporter run {shlex.quote(str(spec.resolve()))} --out {shlex.quote(str(out.resolve()))}",
        f"#SBATCH --job-name=reporter-{study}",
        f"#SBATCH --array=1-{jobs}%{max(1, min(at_once, jobs))}",
        f"#SBATCH --cpus-per-task={threads}",
        *(["#SBATCH --gpus=1"] if gpu else []),
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --output=reporter-%A_%a.log",
        # exec: the signal that comes before the end reaches reporter, which then lets go of its task
        f'exec {shlex.join(command)} --share "$SLURM_ARRAY_TASK_ID/{jobs}"',
    ]
    return "\n".join(lines)
