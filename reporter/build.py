"""Which build of reporter this is, so that what an older one wrote can be told from what this one would write."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from reporter import __version__

_PACKAGE = Path(__file__).parent


@cache
def build() -> str:
    """Return the version and a hash of all sources and templates, which an upgrade of a checkout changes alone."""
    packed = _PACKAGE / "report" / "templates"
    folders = [_PACKAGE] if packed.is_dir() else [_PACKAGE, _PACKAGE.parent / "templates"]
    hashed = hashlib.sha256()
    for folder in folders:
        for file in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".html", ".js", ".css")):
            hashed.update(f"{file.relative_to(folder)}\n".encode())
            hashed.update(file.read_bytes())
    return f"{__version__}-{hashed.hexdigest()[:12]}"
