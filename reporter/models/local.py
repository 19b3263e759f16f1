"""Where a checkpoint's files are on this machine, and what holds while something of it is loaded: quiet, for one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.errors import ReporterError

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers, and warnings of the libraries below it, and put everything back afterwards."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def loading(checkpoint: Checkpoint, offline: bool) -> Iterator[None]:
    """Load something of a checkpoint: its name before every error, transformers silent, and no network if offline.

    Args:
        checkpoint: what is loaded.
        offline: never ask a hub, not even for Python code that a configuration names in another repository.
    """
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = offline or before  # its environment variable was read once, long ago
    try:
        with quiet():
            yield
    except ReporterError as error:
        raise ReporterError(f"{checkpoint.label}: {error}") from error
    finally:
        constants.HF_HUB_OFFLINE = before


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
