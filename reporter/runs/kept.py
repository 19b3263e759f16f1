"""Observables on disk: found again by what they depend on, finished or as far as a killed run got."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reporter.forward.measure import Counts
from reporter.forward.places import Layout
from reporter.forward.strata import VIEWS
from reporter.locks import held, held_if_free
from reporter.observables.kinds import KINDS
from reporter.observables.observable import Observable
from reporter.runs.plan import digest


@dataclass(frozen=True)
class Want:
    """How much of an observable is wanted.

    Args:
        size: what a bounded one must keep (sampled tokens, texts, MiB); 0: it is not bounded.
        views: what one that tells views apart must keep, in the order of ``VIEWS``; empty: it does not.
    """

    size: int = 0
    views: tuple[str, ...] = ()

    def __or__(self, other: Want) -> Want:
        """Return what does for both."""
        return Want(
            max(self.size, other.size), tuple(view for view in VIEWS if view in self.views or view in other.views)
        )


Wanted = Mapping[str, Want]


@dataclass(frozen=True)
class PassFacts:
    """What is known of a pass besides its observables.

    Args:
        anatomy: what the self-test found of the model.
        layout: the places that were read.
        counts: texts and tokens.
        device: where it ran.
        precision: ``float32`` or ``mixed``.
        deviation: of mixed from float32, None where it was not tried.
        head_problem: why there is no language-model head to read states with; empty where there is one, or where
            nobody asked.
        unfed: observables that the pass could not feed, each with the reason.
    """

    anatomy: dict[str, Any]
    layout: Layout
    counts: Counts
    device: str
    precision: str
    deviation: float | None
    head_problem: str = ""
    unfed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unfinished:
    """How far a killed pass got: its observables have seen the shards before ``next_shard``."""

    observables: dict[str, Observable]
    counts: Counts
    next_shard: int


class Kept:
    """The folder of one pass: ``facts.json``, one file for each finished observable, and unfinished work.

    Args:
        folder: the folder of all passes.
        inputs: what the pass depends on; the folder's name is its hash.
    """

    def __init__(self, folder: Path, inputs: Mapping[str, Any]) -> None:
        self.folder = folder / digest(inputs)
        self._inputs = inputs

    @contextmanager
    def locked(self, what: str, waiting: Callable[[str], None]) -> Iterator[None]:
        """Hold the folder, so that two runs that need the same pass do it once and ``make_room`` leaves it alone.

        Args:
            what: name of the pass, for people.
            waiting: told once whom it waits for.
        """
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with held(_lock_of(self.folder), what, waiting):
            self.folder.mkdir(exist_ok=True)
            yield

    def facts(self) -> PassFacts | None:
        """Return what is known of the pass, None before it was finished once."""
        found = _read(self.folder / "facts.json")
        if found is None:
            return None
        facts = found["facts"]
        return PassFacts(**{**facts, "counts": Counts(**facts["counts"]), "layout": Layout(**facts["layout"])})

    def missing(self, wanted: Wanted) -> dict[str, Want]:
        """Return the wanted observables that are not there or hold too little; what they hold is wanted with it."""
        if self.facts() is None:
            return dict(wanted)
        found = {}
        for name, want in wanted.items():
            there, exactly = self._kept(name), KINDS[name].bounded == "exactly"
            if there is None or (exactly and there.size != want.size):
                found[name] = want
            elif there | want != there:
                found[name] = there | want
        return found

    def _kept(self, name: str) -> Want | None:
        """Return how much of an observable there is."""
        found = _read(self.folder / f"{name}.json")
        if found is None or found["version"] != KINDS[name].version:
            return None
        if not (self.folder / f"{name}.safetensors").exists():
            return None
        return Want(found["size"], tuple(found.get("views", ())))

    def load(self, wanted: Wanted) -> dict[str, Observable]:
        """Return observables that are not missing."""
        os.utime(self.folder)  # the cache drops what was not used for longest
        return {name: KINDS[name].load(self.folder / f"{name}.safetensors") for name in wanted}

    def finish(self, observables: Mapping[str, Observable], wanted: Wanted, facts: PassFacts) -> None:
        """Write finished observables and forget unfinished work."""
        for name, observable in observables.items():
            # The note goes first and comes back last: a kill in between leaves an observable that counts as missing.
            (self.folder / f"{name}.json").unlink(missing_ok=True)
            observable.save(self.folder / f"{name}.safetensors")
            _write(self.folder / f"{name}.json", {"version": observable.version, **asdict(wanted[name])})
        _write(self.folder / "facts.json", {"facts": asdict(facts), "of_pass": self._inputs})
        shutil.rmtree(self._unfinished(wanted), ignore_errors=True)

    def _unfinished(self, wanted: Wanted) -> Path:
        versions = {name: [asdict(want), KINDS[name].version] for name, want in wanted.items()}
        return self.folder / f"unfinished-{digest(versions)[:12]}"

    def save_unfinished(
        self, observables: Mapping[str, Observable], wanted: Wanted, counts: Counts, next_shard: int
    ) -> None:
        """Write how far a pass got, at once or not at all, and drop what was written before."""
        folder = self._unfinished(wanted)
        part = folder / f"part-{os.getpid()}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name, observable in observables.items():
            observable.save(part / f"{name}.safetensors")
        _write(part / "progress.json", {"counts": asdict(counts), "next_shard": next_shard})
        part.rename(folder / f"shard-{next_shard:06}")
        for older in folder.iterdir():
            if older.name != f"shard-{next_shard:06}":
                shutil.rmtree(older, ignore_errors=True)

    def unfinished(self, wanted: Wanted) -> Unfinished | None:
        """Return the work of a killed pass that fed the same observables, None if there is none."""
        found = sorted(self._unfinished(wanted).glob("shard-*"))
        if not found:
            return None
        progress = _read(found[-1] / "progress.json")
        if progress is None:
            return None
        observables = {name: KINDS[name].load(found[-1] / f"{name}.safetensors") for name in wanted}
        return Unfinished(observables, Counts(**progress["counts"]), progress["next_shard"])


def make_room(folder: Path, budget: int) -> list[str]:
    """Delete the passes not used for longest until the rest fits into ``budget`` bytes; return their names.

    A pass that a run holds at this moment stays, however old it is.
    """
    passes = []
    for path in folder.iterdir() if folder.exists() else ():
        with suppress(FileNotFoundError):  # another run may be making room, too
            if path.is_dir() and not path.name.startswith("unfinished-"):
                passes.append((path.stat().st_mtime, path, _bytes(path)))
    total = sum(size for _, _, size in passes)
    dropped = []
    for _, path, size in sorted(passes):
        if total <= budget:
            break
        with held_if_free(_lock_of(path)) as free:
            if free:
                shutil.rmtree(path, ignore_errors=True)
                total -= size
                dropped.append(path.name)
    return dropped


def _lock_of(folder: Path) -> Path:
    """Return the file that is locked: beside the folder, as one inside would go with it while others wait at it."""
    return folder.with_name(f"{folder.name}.lock")


def _bytes(folder: Path) -> int:
    """Return the size of the files in a folder, to which a run may be adding and from which it may be removing."""
    total = 0
    for inside, _, files in os.walk(folder):
        for file in files:
            with suppress(FileNotFoundError):
                total += Path(inside, file).stat().st_size
    return total


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    return found if isinstance(found, dict) else None


def _write(path: Path, value: Mapping[str, Any]) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(value, indent=1), "utf-8")
    part.replace(path)
