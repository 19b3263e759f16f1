"""Files: which of them can be read, checksums that find damaged ones, and locks among processes."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from reporter.core.errors import ReporterError, UsageError, failing_as, first_line, suggest

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
    try:
        part.write_text(json.dumps({**value, _KEY: _checksum(value)}, indent=1), "utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


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


MOST_DEEP = 100
"""Lists and mappings inside each other, in YAML and JSON of other people; a study needs seven, a tokenizer ten."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text of other people.

    Raises:
        ValueError: it is no JSON, or nested so deeply that Python could not walk through it.
    """
    too_deep = f"lists and mappings are nested more than {MOST_DEEP} deep"
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    if max(text.count("["), text.count("{")) * 2 > MOST_DEEP:
        level, depth = [content], 0
        while level := [value for value in level if isinstance(value, dict | list)]:
            depth += 1
            if depth > MOST_DEEP:
                raise ValueError(too_deep)
            level = [inner for value in level for inner in (value.values() if isinstance(value, dict) else value)]
    return content


def stored_json(text: str | None) -> Any:
    """Return the value of JSON that a database holds; None for NULL.

    Raises:
        ReporterError: another program wrote it, and it is no JSON or nested very deeply.
    """
    try:
        return None if text is None else parse_json(text)
    except ValueError as error:
        raise ReporterError(f"the database was changed by another program: a value is no JSON ({error})") from None


def require_json(path: Path, remedy: str) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        ReporterError: there is none, or it cannot be read; the message ends with the remedy.
    """
    try:
        content = parse_json(path.read_text("utf-8"))
    except OSError as error:
        raise ReporterError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, MemoryError) as error:
        raise ReporterError(f"cannot read {path}: {first_line(error)}; {remedy}") from error
    if not isinstance(content, dict):
        raise ReporterError(f"cannot read {path}: it is no JSON object; {remedy}")
    return content


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None where there is none, or it cannot be read."""
    try:
        return require_json(path, "")
    except ReporterError:
        return None


# Paths that a person wrote, and folders of the user.


def as_path(written: str | Path) -> Path:
    """Return a path that a person wrote, with ``~`` and ``~name`` replaced by a home folder.

    Raises:
        UsageError: nobody knows that home folder.
    """
    try:
        return Path(written).expanduser()
    except RuntimeError:
        raise UsageError(f"the home folder of '{Path(written).parts[0]}' is unknown; write the whole path") from None


def user_cache() -> Path:
    """Return the folder for files of this user that can be made again: in ``XDG_CACHE_HOME`` or the home folder.

    Raises:
        ReporterError: neither is known, or nothing can be written there.
    """
    remedy = "set XDG_CACHE_HOME to a folder that can be written"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:  # the standard ignores a relative path
        folder = (named if named.is_absolute() else Path.home() / ".cache") / "reporter"
    except RuntimeError:
        raise ReporterError(f"the home folder of this user is unknown, and so is the cache folder; {remedy}") from None
    with failing_as(f"the cache folder {folder} cannot be written ({remedy})", OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return folder


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
_UNFINISHED = re.compile(r"unfinished-[0-9a-f]{32}(\.lock)?")  # no name that a person would give
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


@contextmanager
def sealed_folder(folder: Path) -> Iterator[Path]:
    """Give a new folder for files of the cache; without an error it then gets their checksums and takes its place.

    A folder that another process finished first is kept, and any other is replaced.

    Raises:
        OSError: the folder cannot be written.
    """
    with unfinished_folder(folder.parent) as part:
        yield part
        write_checksums(part)
        if not (folder / SEAL).exists():
            shutil.rmtree(folder, ignore_errors=True)  # of an older version
        try:
            part.replace(folder)
        except OSError:
            if not (folder / SEAL).exists():
                raise


def is_unfinished(path: Path) -> bool:
    """Return whether a path is a folder of :func:`unfinished_folder`, or its lock."""
    return bool(_UNFINISHED.fullmatch(path.name)) and not path.is_symlink()


def _lock_of(folder: Path) -> SoftFileLease:
    return lock_at(folder.with_name(f"{folder.name}{_SUFFIX}"))


def link_or_copy(source: Path, place: Path) -> None:
    """Make a further name of a file where the disk can do that, and a copy where it cannot."""
    try:
        place.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, place)


def place_file(draft: Path, path: Path) -> bool:
    """Give a finished file its place at once; return False where something is there already."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if path.exists() or path.is_symlink():
            return False
        draft.rename(path)
    return True


def require_folder(folder: Path, create: bool = True) -> None:
    """Create a results folder unless it is there, or check that this is possible.

    Raises:
        UsageError: it cannot be created, or nothing can be written into it.
    """
    try:
        if create:
            folder.mkdir(parents=True, exist_ok=True)
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        problem = "" if os.access(there, os.W_OK | os.X_OK) else "Permission denied"
        problem = problem if there.is_dir() else os.strerror(errno.ENOTDIR)
    except OSError as error:
        problem = str(error.strerror)
    if problem:
        raise UsageError(f"the results folder {folder} cannot be written: {problem}; name another one with --out")


def writing(path: Path) -> AbstractContextManager[None]:
    """Raise ``ReporterError`` for whatever keeps a file or a folder from being written inside the block."""
    return failing_as(f"{path} cannot be written", OSError)
