"""What an unfinished pass has so far: the ranges that are done, and how far a killed process got in another.

It is a folder ``unfinished-HASH`` beside the finished observables: ``wanted.json`` says how much of which observables;
``range-FIRST-STOP`` is a range that is done (its texts), sealed and never changed; ``shard-000230`` is a range up to
there. Each is written under another name and renamed, so that a range done twice changes nothing, and readers need no
lock.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.forward.measure import Counts
from reporter.observables.kinds import KINDS
from reporter.runs.kept import PassFacts, Want, Wanted, lacking
from reporter.runs.plan import digest
from reporter.seals import SEAL, found_intact, read_note, seal, write_note

if TYPE_CHECKING:
    from reporter.observables.observable import Observable
    from reporter.texts.ranges import Range

_FOLDER, _WANTED, _FACTS, _PROGRESS = "unfinished-", "wanted.json", "facts.json", "progress.json"


@dataclass(frozen=True)
class Unfinished:
    """How far a killed process got in a range: its observables have seen the shards before ``next_shard``."""

    observables: dict[str, Observable]
    counts: Counts
    next_shard: int


@dataclass(frozen=True)
class Parts:
    """The ranges of a pass in which some observables are fed.

    Args:
        folder: where they are.
        wanted: how much of each observable.
    """

    folder: Path
    wanted: Wanted

    @classmethod
    def of(cls, kept: Path, wanted: Wanted) -> Parts:
        """Return the parts of a pass that have what is wanted: those with most ranges, if there are several.

        Args:
            kept: the folder of the pass.
            wanted: how much of each observable; others of the same parts may be there as well.
        """
        there = [parts for parts in _there(kept) if parts._have(wanted)]
        return max(there, key=lambda parts: parts.count, default=cls(kept / _name(wanted), dict(wanted)))

    @property
    def count(self) -> int:
        """How many ranges are done."""
        return sum((path / SEAL).exists() for path in self.folder.glob("range-*"))

    @property
    def begun(self) -> bool:
        """Whether somebody is, or was, at these ranges."""
        return (self.folder / _WANTED).exists()

    def _have(self, wanted: Wanted) -> bool:
        return all(lacking(name, self.wanted.get(name), want) is None for name, want in wanted.items())

    def place(self, of: Range) -> Path:
        """Return the folder of a range."""
        return self.folder / f"range-{of.start:09}-{of.stop:09}"

    def is_done(self, of: Range) -> bool:
        """Tell whether a range is done, by its name alone."""
        return (self.place(of) / SEAL).exists()

    def facts(self, of: Range) -> PassFacts | None:
        """Return what is known of a range that is done and whole; one that is damaged is set aside."""
        if not found_intact(self.place(of), "the range is measured again"):
            return None
        found = read_note(self.place(of) / _FACTS)
        return None if found is None else PassFacts.read(found["facts"])

    def called(self, of: Range) -> dict[str, str]:
        """Return what ``reporter cache`` says of the pass."""
        return dict((read_note(self.place(of) / _FACTS) or {}).get("said") or {})

    def begin(self) -> None:
        """Say what is wanted, before the first range is done.

        Raises:
            OSError: it cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if read_note(self.folder / _WANTED) is None:
            write_note(self.folder / _WANTED, {"wanted": _as_json(self.wanted)})

    def write(
        self, of: Range, observables: Mapping[str, Observable], facts: PassFacts, called: Mapping[str, str]
    ) -> None:
        """Write what a range left, at once or not at all; if another process did so meanwhile, that one stays.

        Args:
            of: the range.
            observables: what it fed.
            facts: what else is known of it.
            called: what ``reporter cache`` says of the pass.

        Raises:
            OSError: it cannot be written.
        """
        part = self._part()
        try:
            for name, observable in observables.items():
                observable.save(part / f"{name}.safetensors")
            where = {"range": [of.start, of.stop], "by": socket.gethostname()}
            write_note(part / _FACTS, {"facts": asdict(facts), "said": dict(called), **where})
            seal(part)
            _name_once(part, self.place(of))
        finally:
            shutil.rmtree(part, ignore_errors=True)
        for path in self._shards(of):
            shutil.rmtree(path, ignore_errors=True)

    def merged(self, of: Sequence[Range]) -> Iterator[tuple[str, Observable]]:
        """Yield each observable with what all ranges left, merged in the order of the ranges."""
        for name in self.wanted:
            whole, *others = (self.place(one) / f"{name}.safetensors" for one in of)
            found = KINDS[name].load(whole)
            for other in others:
                found.merge(KINDS[name].load(other))
            yield name, found

    def save_unfinished(
        self, of: Range, observables: Mapping[str, Observable], counts: Counts, next_shard: int
    ) -> None:
        """Write how far a range got, at once or not at all, and drop what was written of it before."""
        part, place = self._part(), self.folder / f"shard-{next_shard:06}"
        try:
            for name, observable in observables.items():
                observable.save(part / f"{name}.safetensors")
            write_note(part / _PROGRESS, {"counts": asdict(counts), "next_shard": next_shard})
            seal(part)
            _name_once(part, place)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        for older in self._shards(of):
            if older.name < place.name:
                shutil.rmtree(older, ignore_errors=True)

    def unfinished(self, of: Range) -> Unfinished | None:
        """Return the work of a killed process on a range, None if there is none."""
        for found in reversed(self._shards(of)):
            if not found_intact(found, "the range begins anew"):
                continue
            progress = read_note(found / _PROGRESS)
            if progress is None:
                continue
            observables = {name: KINDS[name].load(found / f"{name}.safetensors") for name in self.wanted}
            return Unfinished(observables, Counts(**progress["counts"]), progress["next_shard"])
        return None

    def tokens(self, of: Range) -> int:
        """Return how many tokens of a range went through the model so far."""
        for folder, note in ((self.place(of), _FACTS), *((path, _PROGRESS) for path in reversed(self._shards(of)))):
            if found := read_note(folder / note):
                return int(found.get("facts", found)["counts"]["tokens"])
        return 0

    def _shards(self, of: Range) -> list[Path]:
        within = range(of.shards[0].index + 1, of.shards[-1].index + 1)
        return [path for path in sorted(self.folder.glob("shard-*")) if int(path.name[6:]) in within]

    def _part(self) -> Path:
        self.begin()
        part = self.folder / f"part-{socket.gethostname()}-{os.getpid()}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        return part

    def remove(self) -> None:
        """Delete all of it, once the pass is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _there(kept: Path) -> Iterator[Parts]:
    for folder in kept.glob(f"{_FOLDER}*"):
        said = (read_note(folder / _WANTED) or {}).get("wanted")
        if said is not None and all(name in KINDS and KINDS[name].version == want[2] for name, want in said.items()):
            yield Parts(folder, {name: Want(size, tuple(views)) for name, (size, views, _) in said.items()})


def _name(wanted: Wanted) -> str:
    return f"{_FOLDER}{digest(_as_json(wanted))[:12]}"


def _as_json(wanted: Wanted) -> dict[str, Any]:
    return {name: [want.size, list(want.views), KINDS[name].version] for name, want in wanted.items()}


def _name_once(part: Path, place: Path) -> None:
    """Give a folder its name unless another has it, which a folder that is not empty keeps."""
    try:
        part.rename(place)
    except OSError:
        if not (place / SEAL).exists():
            raise
