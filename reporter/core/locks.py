"""Locks among processes that share a folder: one process works, the others wait and then find the work done.

A lock is a small file with its holder's process id (filelock.SoftFileLease), so it works on file systems that many
machines share. The holder refreshes the file every ten seconds. A lock is free as soon as its process on this machine
has ended, and after a minute without a refresh, by the clock of the process that waits. A process that was suspended
for so long and a second one may then do the same work: results are written under another name and renamed.
"""

from __future__ import annotations

import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from filelock import SoftFileLease

REFRESH_SECONDS = 10.0
STALE_SECONDS = 60.0  # without a refresh; a study over a shared folder needs one value on all machines
ABANDONED_SECONDS = 24 * 3600.0  # after which a lock file goes at first sight, by clocks that may differ
WAIT_SECONDS = 1.0  # before a process says that it waits
_UNFINISHED = re.compile(r"unfinished-[0-9a-f]{32}(\.lock)?")  # no name that a person would give
_SUFFIX = ".lock"

_log = logging.getLogger(__name__)


def lock_at(path: Path) -> SoftFileLease:
    """Return the lock whose file this is, not yet held.

    A lock of another machine counts as stale once the same object has seen it unchanged for a minute: keep the object.
    """
    from filelock import SoftFileLease  # a run with nothing to do needs no lock, nor the time of this import

    return SoftFileLease(path, lease_duration=STALE_SECONDS, heartbeat_interval=REFRESH_SECONDS, poll_interval=0.1)


@contextmanager
def held(path: Path, what: str, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold a lock inside the block; wait for another holder first, and say so once after a second.

    Args:
        path: the lock's file.
        what: what the block does, for people.
        waiting: called with the message; by default a warning is logged.

    Raises:
        OSError: the file cannot be written.
    """
    lock, has_warned = lock_at(path), False
    while not _acquired(lock, STALE_SECONDS if has_warned else WAIT_SECONDS):
        if not has_warned:
            holder = f"process {lock.owner.pid} on {lock.owner.hostname}" if lock.owner else "another process"
            (waiting or _log.warning)(f"  {what}: waiting for {holder}, which is working on this already")
            has_warned = True
    try:
        yield
    finally:
        lock.release()


@contextmanager
def held_if_free(lock: SoftFileLease) -> Iterator[bool]:
    """Hold a lock inside the block unless another process holds it; yields whether it is held."""
    if not _acquired(lock, 0):
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _acquired(lock: SoftFileLease, timeout: float) -> bool:
    from filelock import Timeout

    file = Path(lock.lock_file)
    with suppress(OSError):
        status = file.stat()
        # filelock trusts an empty file forever: its process was killed before it wrote into it
        if time.time() - status.st_mtime > (ABANDONED_SECONDS if status.st_size else STALE_SECONDS):
            file.unlink()
    try:
        lock.acquire(timeout=timeout)
    except Timeout:
        return False
    return True


@contextmanager
def unfinished_folder(parent: Path) -> Iterator[Path]:
    """Give a new folder for unfinished files; remove it afterwards, and those that dead processes left.

    Raises:
        OSError: the folder cannot be written.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for leftover in parent.glob("unfinished-*"):
        if is_unfinished(leftover):
            folder = leftover.with_suffix("")
            with suppress(OSError), held_if_free(_lock_of(folder)) as free:
                if free:
                    shutil.rmtree(folder, ignore_errors=True)
    folder = parent / f"unfinished-{uuid4().hex}"
    with held_if_free(_lock_of(folder)):
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def is_unfinished(path: Path) -> bool:
    """Return whether a path is a folder of :func:`unfinished_folder`, or its lock."""
    return bool(_UNFINISHED.fullmatch(path.name)) and not path.is_symlink()


def _lock_of(folder: Path) -> SoftFileLease:
    return lock_at(folder.with_name(f"{folder.name}{_SUFFIX}"))
