"""Files: which of them can be read, checksums that find damaged ones, and locks among processes."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from reporter.core.errors import UsageError, failing_as, suggest

if TYPE_CHECKING:
    from filelock import SoftFileLease

MOST_OF_A_STUDY = 16 * 2**20
"""Bytes of a study, a list of words, or a model's configuration."""
LONGEST_TEXT = 16 * 2**20
"""Bytes of one text, or of one line of a file of texts: a novel has about one million."""

_ENDLESS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def endless(path: Path, most: int | None = None) -> str | None:
    """Return why a path cannot be read as a file to its end; None where it can, or does not exist.

    Nothing is opened, since opening a pipe waits for its writer.

    Args:
        path: what a person named.
        most: largest size in bytes; None for no limit.
    """
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None  # an attempt to open it says why
    for is_kind, kind in _ENDLESS:
        if is_kind(status.st_mode):
            return f"is {kind}, which may never end; save its content to a file and name that file"
    if stat.S_ISDIR(status.st_mode):
        return "is a folder, not a file"
    if most is not None and status.st_size > most:
        return f"has {status.st_size:,} bytes, but the limit is {most:,}; check that this is the right file"
    return None


def instead_of(path: Path, fits: Callable[[Path], bool] = Path.is_file) -> str:
    """Return the end of a message about a missing path: the most similar one that ``fits``, or nothing."""
    try:
        lost = next(part for part in reversed((path, *path.parents)) if not part.exists())
        inside = path.relative_to(lost)
        siblings = [file for file in sorted(lost.parent.iterdir()) if (file.is_dir() if inside.parts else fits(file))]
    except (OSError, ValueError, StopIteration):
        return ""
    stem = suggest(lost.stem, [file.stem for file in siblings])  # that both end in .txt makes no names alike
    if stem is None:
        return ""
    alike = [file.name for file in siblings if file.stem == stem]
    meant = lost.parent / (suggest(lost.name, alike) or alike[0])
    return f"; did you mean '{meant / inside if fits(meant / inside) else meant}'?"


# A note is a small JSON file with its own checksum. The seal of a folder is a note with the checksums of its files,
# written last. A reader of the cache compares them; what differs is renamed, reported, and made again in the same run.

SEAL = "seal.json"
DAMAGED = "damaged-"  # the beginning of the new name

_KEY = "checksum"  # under which a note holds its own
_PIECE = 1 << 16  # bytes that are hashed at a time

_log = logging.getLogger(__name__)


def sha256(file: Path) -> str:
    """Return the hash of a file, read in pieces so that other threads can run. Raises ``OSError``."""
    digest, buffer = hashlib.sha256(), memoryview(bytearray(_PIECE))
    with file.open("rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            digest.update(buffer[:count])
    return digest.hexdigest()


def write_note(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON with its checksum, as a whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps({**value, _KEY: _checksum(value)}, indent=1), "utf-8")
    part.replace(path)


def read_note(path: Path) -> dict[str, Any] | None:
    """Return what ``write_note`` wrote; None where the file is missing or damaged."""
    note = read_json(path)
    return None if note is None or note.pop(_KEY, None) != _checksum(note) else note


def is_damaged(path: Path) -> bool:
    """Return whether a note exists and cannot be read; one without a checksum is no such note."""
    if not path.exists():
        return False
    note = read_json(path)
    return note is None or (_KEY in note and read_note(path) is None)


def write_checksums(folder: Path) -> None:
    """Store the checksums of the files in a folder, which from then on counts as finished."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SEAL)
    write_note(folder / SEAL, {"files": {file.name: [*_state(file), sha256(file)] for file in files}})


def found_intact(folder: Path, what: str) -> bool:
    """Return whether a folder is sealed and unchanged; one that changed is set aside.

    Args:
        folder: what was sealed.
        what: the consequence, for people.
    """
    if not (folder / SEAL).exists():
        return False
    if not (is_intact := _is_intact(folder)):
        set_aside(folder, what)
    return is_intact


def _is_intact(folder: Path) -> bool:
    """Compare the files with the seal; a file of the same size and times as last time is not read again."""
    note = read_note(folder / SEAL)
    if note is None:
        return False
    files: dict[str, list[Any]] = {}
    try:
        for name, (*state, digest) in note["files"].items():
            now = _state(folder / name)
            if now[0] != state[0] or (now != state and sha256(folder / name) != digest):
                return False
            files[name] = [*now, digest]
    except OSError:
        return False
    if files != note["files"]:  # it was copied here, or touched
        with suppress(OSError):  # a cache that may only be read is still good to read
            write_note(folder / SEAL, {"files": files})
    return True


def set_aside(path: Path, what: str) -> None:
    """Rename a damaged file or folder, in place of an earlier one, and log a warning with the consequence ``what``."""
    aside = path.with_name(DAMAGED + path.name)
    with suppress(FileNotFoundError):  # another process found it at the same moment
        if aside.is_dir():
            shutil.rmtree(aside)
        path.replace(aside)
        _log.warning(f"  {path} is damaged and was renamed to {aside.name}; {what}")


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None where there is none, or it cannot be read."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _checksum(value: Mapping[str, Any]) -> str:
    as_read = json.loads(json.dumps(value))  # keys that are numbers become strings, which sort otherwise
    return hashlib.sha256(json.dumps(as_read, sort_keys=True).encode()).hexdigest()


def _state(file: Path) -> list[int]:
    stat = file.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


# Locks among processes that share a folder: one process works, the others wait and then find the work done.
#
# A lock is a small file with its holder's process id (filelock.SoftFileLease), so it works on file systems that many
# machines share. The holder refreshes the file every ten seconds. A lock is free as soon as its process on this machine
# has ended, and after a minute without a refresh, by the clock of the process that waits. A process that was suspended
# for so long and a second one may then do the same work: results are written under another name and renamed.

REFRESH_SECONDS = 10.0
STALE_SECONDS = 60.0  # without a refresh; a study over a shared folder needs one value on all machines
ABANDONED_SECONDS = 24 * 3600.0  # after which a lock file goes at first sight, by clocks that may differ
WAIT_SECONDS = 1.0  # before a process says that it waits
UNFINISHED = "unfinished-"
_SUFFIX = ".lock"


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
    for leftover in parent.glob(f"{UNFINISHED}*"):
        if leftover.suffix in ("", _SUFFIX):
            folder = leftover.with_suffix("")
            with suppress(OSError), held_if_free(_lock_of(folder)) as free:
                if free:
                    shutil.rmtree(folder, ignore_errors=True)
    folder = parent / f"{UNFINISHED}{uuid4().hex}"
    with held_if_free(_lock_of(folder)):
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _lock_of(folder: Path) -> SoftFileLease:
    return lock_at(folder.with_name(f"{folder.name}{_SUFFIX}"))


def require_folder(folder: Path) -> None:
    """Create a results folder unless it is there.

    Raises:
        UsageError: it cannot be created, or nothing can be written into it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problem = "" if os.access(folder, os.W_OK | os.X_OK) else "Permission denied"
    except OSError as error:
        problem = str(error.strerror)
    if problem:
        raise UsageError(f"the results folder {folder} cannot be written: {problem}; name another one with --out")


def writing(path: Path) -> AbstractContextManager[None]:
    """Raise ``ReporterError`` for whatever keeps a file or a folder from being written inside the block."""
    return failing_as(f"{path} cannot be written", OSError)
