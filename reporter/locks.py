"""Leases among processes that share a folder: one does the work; the others wait, say for whom, and find it done.

A lease is a small file that says who is at a piece of work. It is made by exclusive creation and taken over by
renaming, which file systems that many machines share do at once or not at all, NFS among them; no range of bytes is
locked. Whoever holds one writes its first byte again every few seconds, so that the clock of the file system says when;
those of machines may differ. One whose process has ended on this machine, or whose file was not written for a minute by
another machine, or for five by a process of this one, which hangs or was stopped, is taken over. That two hold one is
rare, and costs work done twice: what is done under a lease is written under another name and renamed.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from uuid import uuid4

SAY_AFTER_SECONDS = 1.0
HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 60.0  # without a heartbeat, after which a process on another machine counts as dead
HUNG_SECONDS = 300.0  # the same for one of this machine, which is seen to be there
UNFINISHED = "unfinished-"
_LOCK = ".lock"
_LOOK_AGAIN_SECONDS = 0.1

_log = logging.getLogger(__name__)


@contextmanager
def held(path: Path, what: str, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold a lease while this lasts, waiting for whoever has it.

    A process that is killed loses its leases.

    Args:
        path: the file that says who holds it; it is gone afterwards.
        what: what is to be done, for people.
        waiting: told once, after a second, who is waited for; by default a warning is logged.

    Raises:
        OSError: if the file cannot be written.
    """
    began, said = time.monotonic(), False
    while (lease := take(path)) is None:
        if not said and time.monotonic() - began > SAY_AFTER_SECONDS:
            said = True
            (waiting or _log.warning)(f"  {what}: waiting for {holder(path)}, which is at it")
        time.sleep(_LOOK_AGAIN_SECONDS)
    with lease.kept():
        yield


@contextmanager
def held_if_free(path: Path) -> Iterator[bool]:
    """Hold a lease while this lasts if nobody else has it; yields whether it is held.

    Args:
        path: the file that says who holds it.
    """
    lease = take(path)
    if lease is None:
        yield False
        return
    with lease.kept():
        yield True


@contextmanager
def workplace(parent: Path) -> Iterator[Path]:
    """Give a new folder in which something is made, and remove it in the end, with those that dead processes left.

    Args:
        parent: where it is made; its parents are, too.

    Raises:
        OSError: if that folder cannot be written.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for leftover in [one for one in parent.glob(f"{UNFINISHED}*") if one.suffix in ("", _LOCK)]:
        lock = leftover if leftover.suffix == _LOCK else _beside(leftover)  # which may be all that is left
        with suppress(OSError), held_if_free(lock) as free:
            if free:  # the lock of a process that was killed went with it
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)
    place = parent / f"{UNFINISHED}{uuid4().hex}"
    with held_if_free(_beside(place)):
        place.mkdir()
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
            _beside(place).unlink(missing_ok=True)


def _beside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{_LOCK}")


@dataclass(frozen=True)
class Lease:
    """A lease that this process holds.

    Args:
        path: the file.
        token: what tells it from all others.
    """

    path: Path
    token: str

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Touch it now and then while this lasts, and let go of it at the end."""
        _heart.beat_for(self.path)
        try:
            yield
        finally:
            _heart.forget(self.path)
            if (_read(self.path) or {}).get("token") == self.token:  # nobody took it over from us
                self.path.unlink(missing_ok=True)


def take(path: Path) -> Lease | None:
    """Return a lease if nobody has it, or who had it is dead; None where another holds it.

    Raises:
        OSError: if the file cannot be written.
    """
    token = uuid4().hex
    if _create(path, token):
        return Lease(path, token)
    if is_live(path):
        return None
    dead = _read(path)
    aside = path.with_name(f"{path.name}.{token}.part")
    try:
        path.rename(aside)  # of several that find it dead, one succeeds
    except FileNotFoundError:
        return None
    if _read(aside) != dead:  # another took it over between our looking and our renaming
        with suppress(OSError):
            os.link(aside, path)
        aside.unlink(missing_ok=True)
        return None
    aside.unlink(missing_ok=True)
    return Lease(path, token) if _create(path, token) else None


def is_live(path: Path) -> bool:
    """Tell whether somebody holds a lease who is at it still."""
    try:
        with path.open("rb") as file:  # opened, so that a client of a shared file system asks its server
            touched = os.fstat(file.fileno()).st_mtime
            said = json.loads(file.read() or b"{}")
    except FileNotFoundError:
        return False
    except ValueError:
        said = {}
    patience = STALE_SECONDS
    if said.get("machine") == _machine():
        if not _runs(said["pid"], said["began"]):
            return False
        patience = HUNG_SECONDS
    # By the clock of this machine, which may be wrong, only where that spares asking for the one that wrote the time.
    return 0 <= time.time() - touched < patience or _now(path.parent) - touched < patience


def holder(path: Path) -> str:
    """Return who holds a lease, for people."""
    said = _read(path)
    return f"process {said['pid']} on {said['host']}" if said else "another process"


def _create(path: Path, token: str) -> bool:
    said = {"token": token, "pid": os.getpid(), "host": socket.gethostname()}
    said |= {"machine": _machine(), "began": _began(os.getpid())}
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(said))
    return True


def _now(folder: Path) -> float:
    """Return the time by the clock that writes the times of files, which may be another machine's."""
    probe = folder / f"{uuid4().hex}.part"
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found


@cache
def _machine() -> str:
    """Return what the processes that see one another have in common: the boot of a kernel, and a space of ids in it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{socket.gethostname()}"


def _runs(pid: int, began: str) -> bool:
    """Tell whether a process of this machine runs that began at a certain time: ids are used again."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _began(pid) == began


def _began(pid: int) -> str:
    """Return when a process began, in ticks since the machine did; empty where that is not told or it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _touch(path: Path) -> None:
    """Give a lease the time of its file system: asked to set a time, some clients (sshfs) send that of their machine.

    Raises:
        OSError: it is gone, or cannot be written.
    """
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, b"{")  # which it begins with, whoever holds it
    finally:
        os.close(file)


class _Heart:
    """Touches the leases that this process holds."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._lock, self._thread = Lock(), 0

    def beat_for(self, path: Path) -> None:
        with self._lock:
            self._paths.add(path)
            if self._thread != os.getpid():  # a fork has no threads
                self._thread = os.getpid()
                Thread(target=self._beat, daemon=True).start()

    def forget(self, path: Path) -> None:
        with self._lock:
            self._paths.discard(path)

    def _beat(self) -> None:
        while True:
            time.sleep(HEARTBEAT_SECONDS)
            with self._lock:
                for path in self._paths:
                    with suppress(OSError):  # it was taken over, or the server is away for a moment
                        _touch(path)


_heart = _Heart()
