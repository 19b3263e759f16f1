"""What every run that computes needs first: its modules, the hashes of weights, the pages' script, all at one time.

To import torch and transformers takes seconds, in which Python does nothing else. Meanwhile the other core can do what
needs no Python: hash files, and join the pages' script in a process of its own. All that is made here is found by
whoever needs it later, and would be made then if it were not there: a run says the same with and without.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from reporter.errors import ReporterError
from reporter.imports import importing
from reporter.models.resolve import resolve
from reporter.runs.records import spec_hash
from reporter.spec.models import PathModel, StatesModel
from reporter.store import Store

if TYPE_CHECKING:
    from reporter.runs.progress import Progress
    from reporter.spec import StudyFile
    from reporter.texts import Texts


def begin(files: Sequence[StudyFile], out: Path, progress: Progress, force: bool = False) -> None:
    """Import what a run works with, if it will: where a study is new, was changed or did not come to its end.

    Args:
        files: valid studies.
        out: the results folder.
        progress: where it is shown if another process holds the database; its clock counts the time as loading.
        force: what is done is computed again, too.
    """
    store = Store(out / "results.duckdb", waiting=progress.note)
    if not force and all(is_known(file, store) for file in files):
        return
    with progress.clock.within("loading"), importing():
        # a daemon: who gives up waits for no hash
        hashing = Thread(target=_hash_weights, args=(files, out / "cache"), daemon=True)
        hashing.start()
        from reporter.report.assets import begin_script

        begin_script(out)
        import reporter.runs.work  # noqa: F401

        hashing.join()


def is_known(file: StudyFile, store: Store) -> bool:
    """Tell whether the database holds this very text of the study and its last run came to its end."""
    known = store.study(file.study.study)
    return known is not None and known.spec_hash == spec_hash(file) and known.finished is not None


def _hash_weights(files: Sequence[StudyFile], cache: Path) -> None:
    """Hash the weights and states in folders; the hashes are remembered, and what is wrong the plan will say."""
    for file in files:
        for name, spec in file.study.models.items():
            if isinstance(spec, PathModel | StatesModel):
                with suppress(Exception):
                    resolve(name, spec, file.folder, cache, texts=_no_texts, offline=True)


def _no_texts(corpus: str) -> Texts:
    raise ReporterError(f"nobody asks for the texts of '{corpus}' to find a folder")
