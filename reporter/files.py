"""Files that people name: told in time where one never ends, or is larger than anybody can mean."""

from __future__ import annotations

import stat
from pathlib import Path

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
    """Say why a path cannot be read as a file to its end; None where it can, or is not there at all.

    Args:
        path: what a person named; nothing is opened, since opening a pipe waits for whoever writes to it.
        most: bytes that it may have; None for any number.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None  # whoever opens it says why
    for is_one, what in _ENDLESS:
        if is_one(found.st_mode):
            return f"is {what}, which may never end; write what it holds to a file"
    if stat.S_ISDIR(found.st_mode):
        return "is a folder, not a file"
    if most is not None and found.st_size > most:
        return f"has {found.st_size:,} bytes, and more than {most:,} are not read"
    return None
