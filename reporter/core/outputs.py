"""Files under names that people chose: reporter replaces what it wrote there before, and nothing else.

A folder that reporter wrote into keeps a list of these files with their checksums. A file that is not on the list, or
that changed since, is somebody else's. New files are made in a folder of their own first, so that whatever can fail
(a missing package, a full disk) fails before an old file is touched; then they are renamed into their places.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from reporter.core.checksums import read_note, sha256, write_note
from reporter.core.errors import ReporterError, UsageError, one_line
from reporter.core.files import drafted, place_file, writing
from reporter.core.locks import held, is_unfinished, unfinished_folder

LIST = ".reporter.json"
"""The list of what reporter wrote into a folder."""
_LOCK = ".reporter.lock"

_log = logging.getLogger(__name__)
_States = dict[str, list[list[Any]]]  # of each file the states that are ours: size, time in ns, SHA-256


@contextmanager
def replacing(root: Path, within: str = "", *, alone: bool = False) -> Iterator[Path]:
    """Give a new folder to fill; its files then take the places of those that reporter wrote there before.

    Files of others stay where they are. A file of ours that was edited is renamed, with a warning. Files from before
    that are not written again are removed. Without an error inside the block all files change, otherwise none.

    Args:
        root: the folder that a person named; it may be a link to a folder.
        within: the folder inside it, whose name follows from that of a study or a tool; it may not be a link.
        alone: whether files of others in the folder are an error.

    Raises:
        UsageError: a file or a link of others is in the way.
        ReporterError: the disk is full, or the folder cannot be written.
    """
    folder = root / within
    require_replaceable(root, within, alone=alone)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with writing(folder), unfinished_folder(folder) as fresh:
            yield fresh
            with held(folder / _LOCK, f"writing into {folder}"):
                _put(fresh, folder, alone)
    finally:
        for path in made:
            with suppress(OSError):  # it is not empty: all is well
                path.rmdir()


def require_replaceable(root: Path, within: str = "", names: Iterable[str] = (), *, alone: bool = False) -> None:
    """Raise ``UsageError`` where files of others are in the way; nothing is written.

    Args:
        root: see :func:`replacing`.
        within: see :func:`replacing`.
        names: files that will be written there.
        alone: see :func:`replacing`.
    """
    _require_plain(root, PurePosixPath(within).parts)
    folder = root / within
    listed = _listed(folder)
    for name in names:
        _require_ours(folder, name, listed)
    if alone and (foreign := sorted(_others(folder, listed))):
        raise UsageError(f"{folder / foreign[0]} was not written by this command; name a new folder, or move the file")


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a new folder.

    Names of charts and tables come from a database, which may be a stranger's.

    Raises:
        ReporterError: the name leads out of the folder, or is hidden.
    """
    if any(part.startswith(".") or "\0" in part for part in name.split("/")) or name.startswith("/") or "\\" in name:
        raise ReporterError(f"'{one_line(name)}' cannot be the name of a file; the database was changed by hand")
    return folder / name


def is_written(folder: Path) -> bool:
    """Return whether reporter wrote files into a folder."""
    return bool(_listed(folder))


def replace_file(path: Path, content: bytes, is_ours: Callable[[Path], bool]) -> None:
    """Write a file that a person named, at once or not at all, in place of one that reporter wrote.

    Args:
        path: the file.
        content: all of it.
        is_ours: tells whether reporter wrote a file.

    Raises:
        UsageError: it is a link, a folder, or a file of others.
        ReporterError: it cannot be written.
    """
    require_replaceable_file(path, is_ours)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with drafted(path) as draft:
            draft.write_bytes(content)


def create_new(path: Path, text: str) -> None:
    """Write a file that a person named, at once or not at all; there may be none of that name.

    Raises:
        UsageError: it exists.
        ReporterError: it cannot be written.
    """
    with writing(path):
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            part.write_text(text, encoding="utf-8")
            is_new = place_file(part, path)
        finally:
            part.unlink(missing_ok=True)
    if not is_new:
        raise UsageError(f"{path} exists already; choose another name, or delete the file")


def require_replaceable_file(path: Path, is_ours: Callable[[Path], bool]) -> None:
    """Raise ``UsageError`` where a file that a person named may not be replaced; see :func:`replace_file`."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(f"{path} is a {'link' if path.is_symlink() else 'folder'}; name a new file")
    with writing(path):
        if path.exists() and not is_ours(path):
            raise UsageError(
                f"{path} exists, and it is not a file that this command wrote, or it was edited since; name a new "
                "file, or delete it"
            )


def with_checksum(text: str, comment: str) -> str:
    """Return a text below a line with its checksum, by which :func:`is_untouched` finds edits.

    Args:
        text: the text.
        comment: how its language writes a comment, with ``{}`` for the words.
    """
    return f"{comment.format(f'checksum {_checksum(text)}')}\n{text}"


def is_untouched(path: Path) -> bool:
    """Return whether a file begins with its own checksum. Raises ``OSError``."""
    first, _, body = path.read_text("utf-8", "replace").partition("\n")
    return f"checksum {_checksum(body)}" in first


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _put(fresh: Path, folder: Path, alone: bool) -> None:
    """Move files into their places, after everything that can be checked was checked."""
    new = {name: [_state(fresh / name)] for name in _files(fresh)}
    before = _listed(folder)
    if alone:
        require_replaceable(folder, alone=True)
    for name in new:
        _require_ours(folder, name, before)
    edited = {name for name in before if _is_edited(folder / name, before[name])}
    for name in new:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    # From here on a kill leaves a list with every file of ours, as it was and as it will be.
    both = {name: [*before.get(name, ()), *new.get(name, ())] for name in {**before, **new}}
    write_note(folder / LIST, {"files": both})
    for name in sorted(edited & new.keys()):
        kept = _free_name(folder / name)
        (folder / name).rename(kept)
        _log.warning(f"  {folder / name} was edited since reporter wrote it; the edited file is now {kept.name}")
    for name in sorted(new, key=lambda name: (name.endswith(".html"), name.endswith("index.html"), name)):
        (fresh / name).replace(folder / name)  # pages come last, since they load the others
    for name in before.keys() - new.keys() - edited:
        (folder / name).unlink(missing_ok=True)
        for parent in PurePosixPath(name).parents[:-1]:
            with suppress(OSError):  # it is not empty
                (folder / parent).rmdir()
    if both != new:
        with suppress(OSError):  # the disk is full; the list with what was there before is as good
            write_note(folder / LIST, {"files": new})


def _require_plain(root: Path, parts: Iterable[str]) -> None:
    """Raise ``UsageError`` unless each folder on the way is one, and no link to somewhere else."""
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file; name a folder")
    path = root
    for part in parts:
        path /= part
        if path.is_symlink():
            raise UsageError(f"{path} is a link, and reporter does not write through it; name another folder")
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file, but a folder of this name is needed; move the file")


def _require_ours(folder: Path, name: str, listed: Collection[str]) -> None:
    _require_plain(folder, PurePosixPath(name).parts[:-1])
    path = folder / name
    if (path.is_symlink() or path.exists()) and (name not in listed or path.is_dir()):
        raise UsageError(f"{path} was not written by reporter and is not replaced; move it, or name another folder")


def _others(folder: Path, listed: Collection[str]) -> Iterator[str]:
    """Yield what is in a folder beside the files of ours: the first names."""
    parents = {parent.as_posix() for name in listed for parent in PurePosixPath(name).parents}
    for inside, folders, files in os.walk(folder):
        for name in [*files, *folders]:
            path = Path(inside, name)
            relative = path.relative_to(folder).as_posix()
            is_ours = relative in listed or (relative in parents and not path.is_symlink()) or name in (LIST, _LOCK)
            if not is_ours and not is_unfinished(path):
                yield relative
        folders[:] = [name for name in folders if Path(inside, name).relative_to(folder).as_posix() in parents]


def _listed(folder: Path) -> _States:
    """Return the files of ours in a folder; names that lead out of it, which only a stranger writes, do not count."""
    note = read_note(folder / LIST)
    files = note.get("files") if note else None
    listed: _States = {}
    for name, states in files.items() if isinstance(files, dict) else ():
        parts = PurePosixPath(name).parts
        is_inside = parts and ".." not in parts and not PurePosixPath(name).is_absolute() and name != LIST
        if is_inside and "\0" not in name and _are_states(states):
            with suppress(UsageError):
                _require_plain(folder, parts[:-1])
                listed[PurePosixPath(name).as_posix()] = states
    return listed


def _are_states(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(state, list) and len(state) == 3 for state in value)


def _is_edited(path: Path, states: list[list[Any]]) -> bool:
    """Return whether a path is no longer a file that was written."""
    if path.is_symlink() or path.is_dir():
        return True
    with suppress(FileNotFoundError):
        stamp = _stamp(path)
        return all(state[:2] != stamp for state in states) and sha256(path) not in [state[2] for state in states]
    return False


def _files(folder: Path) -> list[str]:
    """Return the regular files below a new folder, without lists of its own.

    Links that a library made are left out: they name the old place.
    """
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.name not in (LIST, _LOCK))


def _stamp(path: Path) -> list[Any]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _state(path: Path) -> list[Any]:
    return [*_stamp(path), sha256(path)]


def _free_name(path: Path) -> Path:
    numbers = ("", *(f"-{number}" for number in range(2, 10_000)))
    names = (path.with_name(f"{path.stem}.edited{number}{path.suffix}") for number in numbers)
    return next(name for name in names if not name.exists() and not name.is_symlink())
