"""How paths of this machine are written where others may read them: in the database and on pages.

What a study writes relative stays as it is. What is absolute is written relative to the study's file, as long as the
way there does not lead over the root of the disk (which would tell how this machine is laid out); otherwise as ``…/``
and its last name. Only the text of the study itself is kept as it was written, since it may be run again by its id;
pages show it with short paths.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

SHORT = "…/"
"""Stands before a path whose beginning is left out."""
_ABSOLUTE = re.compile(r"""(?<![\w.:/~…\\-])(?:/|[A-Za-z]:[\\/])[^\s'"`,;:(){}\[\]<>|]+""")
_VALUE = re.compile(r"""(?:(?<=[\s"'\[,])|^)(?:/|[A-Za-z]:[\\/])(?=[^\s/])[^\n"',\]}#]*[^\s"',\]}#]""")
"""A value in YAML or JSON that is such a path, which may have spaces in it."""


def shared(path: str | Path, folder: Path) -> str:
    """Return a path as it may be shown to others.

    Args:
        path: as it was written.
        folder: that of the study's file.
    """
    if not Path(path).is_absolute():
        return str(path)
    base = folder.absolute()
    try:
        common = Path(os.path.commonpath([base, path]))
    except ValueError:  # another drive
        return _short(path)
    return _short(path) if common == Path(common.anchor) else Path(os.path.relpath(path, base)).as_posix()


def shared_text(text: str) -> str:
    """Return the text of a study for a page: of absolute paths only ``…/`` and the last name."""
    return _VALUE.sub(lambda found: _short(found[0]) if len(Path(found[0]).parts) > 2 else found[0], text)


def shortened(text: str) -> str:
    """Return a message with the absolute paths in it that this machine has cut to ``…/`` and their last two names."""

    def cut(found: re.Match[str]) -> str:
        path = Path(found[0])
        here = len(path.parts) > 2 and Path(*path.parts[:2]).exists()
        return _short(path, 2) if here else found[0]

    return _ABSOLUTE.sub(cut, text)


def _short(path: str | Path, names: int = 1) -> str:
    return SHORT + "/".join(Path(path).parts[-names:])
