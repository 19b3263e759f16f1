"""Artifacts: folders of a cache that are made once, sealed, used again, and forgotten when room is needed.

All of them go one way. The name of the folder says what its content depends on. Whoever lacks it holds its lock, fills
a new folder beside it, seals that one with checksums and renames it; a kill leaves nothing that counts. A damaged
artifact is set aside and made again. Of several, those that were unused for longest go first.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from reporter.core.checksums import DAMAGED, found_intact, is_sealed, write_checksums
from reporter.core.locks import held, held_if_free, lock_at, unfinished_folder

NAME_DIGITS = 32
_OURS = re.compile(rf"({DAMAGED})?[0-9a-f]{{{NAME_DIGITS}}}")  # other folders belong to somebody else


@dataclass(frozen=True)
class Artifact:
    """A folder that is made once.

    Args:
        folder: its place.
        again: the consequence of a damage, for people: ``the corpus is tokenised again``.
    """

    folder: Path
    again: str

    def is_intact(self) -> bool:
        """Return whether it is made and unchanged; a damaged one is set aside."""
        return found_intact(self.folder, self.again)

    def locked(self, what: str, waiting: Callable[[str], None] | None = None) -> AbstractContextManager[None]:
        """Hold its lock, so that nothing forgets it and one process makes it; see :func:`reporter.core.locks.held`."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        return held(lock_of(self.folder), what, waiting)

    def made(self, fill: Callable[[Path], None], what: str, waiting: Callable[[str], None] | None = None) -> Path:
        """Return the folder; unless it is intact, one process fills it while the others wait.

        Args:
            fill: writes the files into a new folder.
            what: what it does, for people who wait.
            waiting: see :func:`reporter.core.locks.held`.

        Raises:
            OSError: it cannot be written.
        """
        if not self.is_intact():
            with self.locked(what, waiting):
                if not self.is_intact():
                    with self.filling() as fresh:
                        fill(fresh)
        self.used()
        return self.folder

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """Give a new folder to fill, which then takes the place; what a faster process put there stays.

        Raises:
            OSError: it cannot be written.
        """
        with unfinished_folder(self.folder.parent) as fresh:
            yield fresh
            write_checksums(fresh)
            try:
                fresh.rename(self.folder)
            except OSError:
                if is_sealed(self.folder):
                    return
                shutil.rmtree(self.folder, ignore_errors=True)  # of an older version: nothing else has no seal
                fresh.rename(self.folder)

    def used(self) -> None:
        """Note that it was used now."""
        with suppress(OSError):  # a cache that may only be read is still good to read
            os.utime(self.folder)


def lock_of(folder: Path) -> Path:
    """Return the lock's file: beside the folder, as one inside would go with it while others wait at it."""
    return folder.with_name(f"{folder.name}.lock")


def artifacts_in(root: Path) -> Iterator[Path]:
    """Yield the artifacts in a folder, damaged ones among them; files and folders of others are left out."""
    with suppress(FileNotFoundError):
        for path in sorted(root.iterdir()):
            if _OURS.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                yield path


def forget(folder: Path, in_use: Callable[[Path], bool] = lambda folder: False) -> bool:
    """Delete an artifact unless a process holds it at this moment, or ``in_use`` says so; return whether it is gone."""
    with held_if_free(lock_at(lock_of(folder))) as free:
        if not free or in_use(folder):
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return True


def make_room(root: Path, budget: int, in_use: Callable[[Path], bool] = lambda folder: False) -> list[str]:
    """Forget the longest unused artifacts until the rest fits into ``budget`` bytes; return their names."""
    kept = []
    for path in artifacts_in(root):
        with suppress(FileNotFoundError):  # another process may be making room, too
            kept.append((path.stat().st_mtime, path, bytes_in(path)))
    total = sum(size for _, _, size in kept)
    forgotten = []
    for _, path, size in sorted(kept):
        if total <= budget:
            break
        if forget(path, in_use):
            total -= size
            forgotten.append(path.name)
    return forgotten


def bytes_in(folder: Path) -> int:
    """Return the size of the files in a folder, which a process may change meanwhile."""
    total = 0
    for inside, _, files in os.walk(folder):
        for file in files:
            with suppress(FileNotFoundError):
                total += Path(inside, file).stat().st_size
    return total
