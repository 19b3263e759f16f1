"""Writes a study for another tool."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reporter.errors import ReporterError, UsageError, hint, one_line
from reporter.integrations.hub import hub
from reporter.integrations.trackers import TRACKERS
from reporter.store import Store

TOOLS: Mapping[str, Callable[[str, Store, Path], Any]] = {**TRACKERS, "huggingface": hub}


def write_for(tool: str, study: str, out: Path, to: Path) -> Path:
    """Write a study for another tool into a folder of that tool's name, in place of one that is there.

    Args:
        tool: ``tensorboard``, ``mlflow``, ``wandb`` or ``huggingface``.
        study: its id.
        out: the results folder.
        to: the folder in which the tool's folder is made.

    Returns:
        The tool's folder.

    Raises:
        UsageError: there is no such tool or study, or the tool's package is not installed.
        ReporterError: the database cannot be read, or the folder cannot be written.
    """
    if tool not in TOOLS:
        raise UsageError(f"no tool '{one_line(tool)}'{hint(tool, list(TOOLS), 'there are')}")
    store = Store(out / "results.duckdb")
    store.require(study)
    folder = to / tool
    try:
        shutil.rmtree(folder, ignore_errors=True)
        TOOLS[tool](study, store, folder)
    except OSError as problem:
        raise ReporterError(f"{folder} cannot be written: {problem}") from problem
    return folder
