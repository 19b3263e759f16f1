"""Joins results folders, and computes again what is said of a study as a whole: means, claims, findings, answers."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.claims.correlations import write_correlations
from reporter.errors import ReporterError, UsageError, describe
from reporter.runs.answers import write_answers
from reporter.runs.claims import judge_claims
from reporter.runs.findings import write_findings
from reporter.runs.over_models import write_over_models
from reporter.runs.progress import Progress
from reporter.runs.series import write_same_weights
from reporter.runs.studies import study_of_text
from reporter.store import Store
from reporter.store.merging import DATABASE, Merged, merge_databases

if TYPE_CHECKING:
    from reporter.spec import Study

_LOOK = "look"  # a study's own templates and stylesheet, beside its pages


def merge(out: Path, folders: Sequence[Path], prefer: Path | None = None, progress: Progress | None = None) -> Merged:
    """Write a results folder that holds what several others hold, each cell once.

    Args:
        out: the folder to write; its database appears when it is whole.
        folders: results folders; nothing is written into them.
        prefer: the folder whose side is taken where two contradict each other.
        progress: where it is said what the study's claims and findings are now; standard error by default.

    Returns:
        What came of it; with conflicts that ``prefer`` does not decide, nothing was written.

    Raises:
        UsageError: the folder holds results already, or one that is to be merged holds none or is named twice.
        ReporterError: a file cannot be read or written, or a newer reporter wrote it.
    """
    target = out / DATABASE
    if target.exists():
        raise UsageError(f"{target} is there already; merge into a new folder")
    progress = progress or Progress()
    made = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".merging-", dir=out) as folder:
            draft = Path(folder) / DATABASE
            found = merge_databases(draft, [one / DATABASE for one in folders], prefer and prefer / DATABASE)
            if not found.undecided:
                for study in found.joined:
                    _derive(Store(draft), study, progress)
                for study, database in found.studies.items():
                    if (look := database.parent / study / _LOOK).is_dir():
                        shutil.copytree(look, out / study / _LOOK, dirs_exist_ok=True)
                _place(draft, target)
        return found
    except OSError as problem:
        raise ReporterError(f"{target} cannot be written: {problem.strerror}") from problem
    finally:
        if made:
            with suppress(OSError):  # it is not empty: all is well
                out.rmdir()


def _derive(store: Store, study: str, progress: Progress) -> None:
    """Compute what rests on all numbers of a study; what cannot be is left empty, and said."""
    [row] = store.records("SELECT spec FROM studies WHERE study = $study", {"study": study})
    try:
        said = study_of_text(row["spec"]).study
        _number_checkpoints(store, said)
    except ReporterError as error:
        why = describe(error).partition("\n")[0]
        progress.note(f"{study}: claims and findings wait for the next `reporter run`, its text cannot be read: {why}")
        said = None
    for sentence in write_same_weights(store, study):
        progress.note(f"  {sentence}")
    write_correlations(store, study)
    write_over_models(store, study)
    if said is not None:
        judge_claims(said, store, progress)
    write_answers(store, study, progress)
    if said is not None:
        write_findings(said, store, progress)


def _number_checkpoints(store: Store, study: Study) -> None:
    """Store the place of each checkpoint in the study's list: each folder may have held a part of them."""
    rows = store.records(
        "SELECT model, checkpoint FROM models WHERE study = $study ORDER BY model, step NULLS LAST, position",
        {"study": study.study},
    )
    numbered = []
    for model, of_model in groupby(rows, key=lambda row: row["model"]):
        names = [row["checkpoint"] for row in of_model]
        listed = [checkpoint.name for checkpoint in getattr(study.models.get(model), "checkpoints", ())]
        names.sort(key=lambda name: listed.index(name) if name in listed else -1)
        numbered += [
            {"study": study.study, "model": model, "checkpoint": name, "position": place, "is_last": name == names[-1]}
            for place, name in enumerate(names, 1)
        ]
    store.put_all("models", ("study", "model", "checkpoint"), numbered)


def _place(draft: Path, target: Path) -> None:
    """Put a whole database into its place, unless somebody was quicker."""
    try:
        os.link(draft, target)
    except FileExistsError:
        raise UsageError(f"{target} is there already; merge into a new folder") from None
    except OSError:  # a file system without hard links
        draft.rename(target)
