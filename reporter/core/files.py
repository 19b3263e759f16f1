"""Files and folders: what can be read to its end, paths that a person wrote, and what takes its place at once."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from reporter.core.errors import ReporterError, UsageError, failing_as, suggest

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


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """Give another name to write a file under; it then takes its place, as a whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


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
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        problem = "" if os.access(nearest, os.W_OK | os.X_OK) else "Permission denied"
        problem = problem if nearest.is_dir() else os.strerror(errno.ENOTDIR)
    except OSError as error:
        problem = str(error.strerror)
    if problem:
        raise UsageError(f"the results folder {folder} cannot be written: {problem}; name another one with --out")


def writing(path: Path) -> AbstractContextManager[None]:
    """Raise ``ReporterError`` for whatever keeps a file or a folder from being written inside the block."""
    return failing_as(f"{path} cannot be written", OSError)
