"""Seals: what a file of the cache held when it was finished, so that one that changed since is found out.

A note is a small JSON file that holds its own checksum. The seal of a folder is a note with the checksums of the files
in it, written last. Whoever reads the cache asks whether they still fit; what does not is set aside under another name,
said so in one line, and made anew by the same run, as if it had never been there.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

SEAL = "seal.json"
DAMAGED = "damaged-"  # how the name of what was set aside begins

_KEY = "seal"  # under which a note holds its own checksum
_PIECE = 1 << 16  # bytes that are hashed at a time

_log = logging.getLogger(__name__)


def sha256(file: Path) -> str:
    """Hash a file in large pieces: while one is read or hashed, Python is free for others.

    Raises:
        OSError: if it cannot be read.
    """
    digest, buffer = hashlib.sha256(), memoryview(bytearray(_PIECE))
    with file.open("rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            digest.update(buffer[:count])
    return digest.hexdigest()


def write_note(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON with its checksum, at once or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps({**value, _KEY: _sealed(value)}, indent=1), "utf-8")
    part.replace(path)


def read_note(path: Path) -> dict[str, Any] | None:
    """Return what ``write_note`` wrote; None where there is nothing, or something else."""
    found = _parsed(path)
    if found is None or found.pop(_KEY, None) != _sealed(found):
        return None
    return found


def is_damaged(path: Path) -> bool:
    """Tell whether there is a note that cannot be read; one without a checksum was written by an older version."""
    if not path.exists():
        return False
    found = _parsed(path)
    return found is None or (_KEY in found and read_note(path) is None)


def seal(folder: Path) -> None:
    """Write down what the files in a folder hold, the last thing before it counts as finished."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SEAL)
    write_note(folder / SEAL, {"files": {file.name: [*_state(file), sha256(file)] for file in files}})


def found_intact(folder: Path, what: str) -> bool:
    """Tell whether there is a sealed folder that holds what it was sealed with; if it does not, it is set aside.

    Args:
        folder: what was sealed; one that was not is left alone.
        what: what is done without it, for people.
    """
    if not (folder / SEAL).exists():
        return False
    if whole := _intact(folder):
        return whole
    set_aside(folder, what)
    return False


def _intact(folder: Path) -> bool:
    """Compare what is there with the seal; a file of the same size and times as last time is not read again."""
    note = read_note(folder / SEAL)
    if note is None:
        return False
    found: dict[str, list[Any]] = {}
    try:
        for name, (*state, digest) in note["files"].items():
            now = _state(folder / name)
            if now[0] != state[0] or (now != state and sha256(folder / name) != digest):
                return False
            found[name] = [*now, digest]
    except OSError:
        return False
    if found != note["files"]:  # it was copied here, or touched
        with suppress(OSError):  # a cache that may only be read is still good to read
            write_note(folder / SEAL, {"files": found})
    return True


def set_aside(path: Path, what: str) -> None:
    """Rename what is damaged so that nobody takes it for whole, and say so.

    Args:
        path: a file or a folder; of several that were damaged one after the other the last one stays.
        what: what is done without it, for people.
    """
    aside = path.with_name(DAMAGED + path.name)
    with suppress(FileNotFoundError):  # another process found it at the same moment
        if aside.is_dir():
            shutil.rmtree(aside)
        path.replace(aside)
        _log.warning(f"  {path} is damaged and was set aside as {aside.name}; {what}")


def _parsed(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _sealed(value: Mapping[str, Any]) -> str:
    as_read = json.loads(json.dumps(value))  # keys that are numbers become strings, which sort otherwise
    return hashlib.sha256(json.dumps(as_read, sort_keys=True).encode()).hexdigest()


def _state(file: Path) -> list[int]:
    stat = file.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
