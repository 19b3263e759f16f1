"""SHA-256 of files, remembered: gigabytes of weights are read once, not at every run."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reporter.errors import ReporterError

_NAME = "file-hashes.json"
_WORTH_REMEMBERING = 1 << 20  # bytes; smaller files are read faster than the memo grows
_SETTLED = 2 * 10**9  # nanoseconds; a file changed just now may change again without its time stamp showing it


def fingerprint(parts: Mapping[str, Any]) -> str:
    """Return a short hash of JSON values that does not depend on the order of keys."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def hash_files(files: Iterable[Path], cache: Path | None = None) -> dict[str, str]:
    """Return the SHA-256 of each file by its name.

    A file of the same path, size and modification time as one that was hashed before is not read again.

    Args:
        files: in one folder, so that names tell them apart.
        cache: the folder in which hashes are remembered; None for small files, which are read each time.

    Raises:
        ReporterError: if a file cannot be read.
    """
    memo = _read(cache / _NAME) if cache else {}
    known = dict(memo)
    result = {file.name: _hash(file, known) for file in files}
    if cache and known != memo:
        _write(cache / _NAME, _read(cache / _NAME) | known)
    return result


def _hash(file: Path, known: dict[str, Any]) -> str:
    try:
        place = str(file.resolve())
        stat = file.stat()
        state = [stat.st_size, stat.st_mtime_ns]
        remembered = known.get(place)
        if isinstance(remembered, list) and remembered[:2] == state:
            return str(remembered[2])
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ReporterError(f"cannot read {file}: {error.strerror}") from error
    if stat.st_size >= _WORTH_REMEMBERING and time.time_ns() - stat.st_mtime_ns > _SETTLED:
        known[place] = [*state, digest]
    return digest


def _read(place: Path) -> dict[str, Any]:
    try:
        memo = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return memo if isinstance(memo, dict) else {}


def _write(place: Path, memo: Mapping[str, Any]) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place.parent, suffix=".tmp", delete=False) as file:
            json.dump(memo, file, indent=0, sort_keys=True)
        Path(file.name).replace(place)
    except OSError:
        return  # only a memo: where it cannot be kept, files are read again
