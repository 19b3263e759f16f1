"""Where a checkpoint's files are on this machine, and errors that say which checkpoint they are about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.errors import ReporterError

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint


@contextmanager
def named(checkpoint: Checkpoint) -> Iterator[None]:
    """Put the checkpoint's name before every error."""
    try:
        yield
    except ReporterError as error:
        raise ReporterError(f"{checkpoint.label}: {error}") from error


def local_folder(checkpoint: Checkpoint, offline: bool) -> Path:
    """Return the folder of a checkpoint, fetching a hub model that is not in the local cache.

    Raises:
        ReporterError: if it cannot be fetched.
    """
    folder = checkpoint.folder
    if folder is not None:
        return folder
    from reporter.models.hub import download

    return download(checkpoint, offline, weights=checkpoint.initialised is None)
