"""Checksums: notes and folders in which a changed byte is found.

A note is a small JSON file with its own checksum. The seal of a folder is a note with the checksums of its files,
written last. A reader of the cache compares them; what differs is renamed, reported, and made again in the same run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from reporter.core.files import drafted
from reporter.core.json_text import read_json

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
    with drafted(path) as draft:
        draft.write_text(json.dumps({**value, _KEY: checksum_of(value)}, indent=1), "utf-8")


def read_note(path: Path) -> dict[str, Any] | None:
    """Return what ``write_note`` wrote; None where the file is missing or damaged."""
    note = read_json(path)
    return None if note is None or note.pop(_KEY, None) != checksum_of(note) else note


def is_damaged(path: Path) -> bool:
    """Return whether a note exists and cannot be read; one without a checksum is no such note."""
    if not path.exists():
        return False
    note = read_json(path)
    return note is None or (_KEY in note and read_note(path) is None)


def write_checksums(folder: Path) -> None:
    """Store the checksums of the files below a folder, which from then on counts as finished."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {file.relative_to(folder).as_posix(): [*_state(file), sha256(file)] for file in files}
    write_note(folder / SEAL, {"files": sums})


def is_sealed(folder: Path) -> bool:
    """Return whether a folder is finished, whatever happened to its files since."""
    return (folder / SEAL).exists()


def found_intact(folder: Path, what: str) -> bool:
    """Return whether a folder is sealed and unchanged; one that changed is set aside.

    Args:
        folder: what was sealed.
        what: the consequence, for people.
    """
    if not is_sealed(folder):
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


def checksum_of(value: Any) -> str:
    """Return the hash of JSON that does not depend on the order of keys."""
    as_read = json.loads(json.dumps(value))  # keys that are numbers become strings, which sort otherwise
    return hashlib.sha256(json.dumps(as_read, sort_keys=True).encode()).hexdigest()


def _state(file: Path) -> list[int]:
    stat = file.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
