"""Locks among processes that share a cache: one does the work; the others wait, say for whom, and find it done."""

from __future__ import annotations

import logging
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

SAY_AFTER_SECONDS = 1.0
UNFINISHED = "unfinished-"

_log = logging.getLogger(__name__)


@contextmanager
def held(path: Path, what: str, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold a lock while this lasts, waiting for whoever has it.

    A process that is killed loses its locks.

    Args:
        path: the file that is locked; it stays afterwards, since another process may be waiting at it.
        what: what is to be done, for people.
        waiting: told once, after a second, who is waited for; by default a warning is logged.

    Raises:
        OSError: if the file cannot be written.
    """
    from filelock import FileLock, Timeout

    lock, holder = FileLock(path), path.with_name(f"{path.name}.holder")
    try:
        lock.acquire(timeout=SAY_AFTER_SECONDS)
    except Timeout:
        (waiting or _log.warning)(f"  {what}: waiting for {_read(holder)}, which is at it")
        lock.acquire()
    try:
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}", "utf-8")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


@contextmanager
def held_if_free(path: Path) -> Iterator[bool]:
    """Hold a lock while this lasts if nobody else has it; yields whether it is held.

    Args:
        path: the file that is locked.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


@contextmanager
def workplace(parent: Path) -> Iterator[Path]:
    """Give a new folder in which something is made, and remove it in the end, with those that dead processes left.

    Args:
        parent: where it is made; its parents are, too.

    Raises:
        OSError: if that folder cannot be written.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for leftover in [*parent.glob(f"{UNFINISHED}*")]:
        if leftover.is_dir():
            with suppress(OSError), held_if_free(_beside(leftover)) as free:
                if free:  # the lock of a process that was killed went with it
                    shutil.rmtree(leftover, ignore_errors=True)
                    _beside(leftover).unlink(missing_ok=True)
    place = parent / f"{UNFINISHED}{uuid4().hex}"
    with held_if_free(_beside(place)):
        place.mkdir()
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
            _beside(place).unlink(missing_ok=True)


def _beside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _read(holder: Path) -> str:
    try:
        return holder.read_text("utf-8") or "another process"
    except OSError:
        return "another process"
