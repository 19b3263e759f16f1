"""The script of a Slurm job array that does the passes of a study."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.runs.progress import Progress
from reporter.runs.tasks import Worker

if TYPE_CHECKING:
    from reporter.runs.plan import Plan

MOST_JOBS = 1000  # of an array, as clusters usually allow


def job_array(plan: Plan, spec: Path, out: Path, sets: Sequence[str], *, offline: bool, at_once: int) -> str:
    """Return a script for ``sbatch`` that does the tasks of a plan that are not done yet.

    Args:
        plan: what would run.
        spec: the file of the study.
        out: the results folder, which all machines see.
        sets: what was said otherwise than in the file, as KEY=VALUE.
        offline: whether workers never ask a hub.
        at_once: the most jobs that run at one time.
    """
    worker = Worker(plan, out, offline, Progress())
    return script(
        plan.file.study.study,
        spec,
        out,
        sum(not worker.is_done(task) for task in worker.tasks()),
        threads=worker.threads,
        gpu=worker.wants_gpu(False),
        at_once=at_once,
        options=[*(part for one in sets for part in ("--set", one)), *(["--offline"] if offline else [])],
    )


def script(
    study: str,
    spec: Path,
    out: Path,
    tasks: int,
    *,
    threads: int,
    gpu: bool,
    at_once: int,
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
        options: what else ``reporter work``, and ``reporter run`` afterwards, are told.
    """
    jobs = max(1, min(tasks, MOST_JOBS))
    said = [str(spec.resolve()), "--out", str(out.resolve()), *options]
    lines = [
        "#!/bin/bash",
        f"# {tasks} {'task' if tasks == 1 else 'tasks'} of study {study}. Submit it with sbatch; then, from anywhere:",
        f"#   reporter run {shlex.join(said)}",
        f"#SBATCH --job-name=reporter-{study}",
        f"#SBATCH --array=1-{jobs}%{max(1, min(at_once, jobs))}",
        f"#SBATCH --cpus-per-task={threads}",
        *(["#SBATCH --gpus=1"] if gpu else []),
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --output=reporter-%A_%a.log",
        # exec: the signal that comes before the end reaches reporter, which then lets go of its task
        f'exec reporter work {shlex.join(said)} --share "$SLURM_ARRAY_TASK_ID/{jobs}"',
    ]
    return "\n".join(lines)
