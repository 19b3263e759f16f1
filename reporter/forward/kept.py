"""The files of passes: finished observables, and the work of passes that are not finished."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from reporter.core.artifacts import Artifact
from reporter.core.checksums import is_damaged, is_sealed, read_note, set_aside, sha256, write_note
from reporter.forward.measure import Counts
from reporter.forward.observable import Observable, Setting
from reporter.forward.observed import KINDS
from reporter.forward.token_categories import VIEWS
from reporter.models.model_folder import fingerprint
from reporter.models.places import Layout
from reporter.study.study import Keep
from reporter.texts.tokens import ShardRange


@dataclass(frozen=True)
class Amount:
    """The amount of an observable that is needed.

    Args:
        size: what a bounded one must keep (sampled tokens, texts, MiB); 0: it is not bounded.
        views: what one that tells views apart must keep, in the order of ``VIEWS``; empty: it does not.
    """

    size: int = 0
    views: tuple[str, ...] = ()

    def __or__(self, other: Amount) -> Amount:
        """Return what does for both."""
        return Amount(
            max(self.size, other.size), tuple(view for view in VIEWS if view in self.views or view in other.views)
        )


Wanted = Mapping[str, Amount]


def lacking(name: str, available: Amount | None, want: Amount) -> Amount | None:
    """Return how much of an observable must be measured to have what is wanted; None where it is there."""
    if available is None or (KINDS[name].bounded == "exactly" and available.size != want.size):
        return want
    return None if available | want == available else available | want


def stays(name: str, keep: Keep) -> bool:
    """Tell whether an observable is kept after the cells of a study that keeps so much are computed."""
    return keep == "all" or (keep == "sums" and not KINDS[name].states_kept)


def bytes_kept(
    layout: Layout, amounts: Wanted, tokens: Sequence[int], texts: int, counts: Mapping[int, int]
) -> dict[str, int]:
    """Return about what each observable of a finished pass will take on disk."""
    setting = Setting(layout, 0, texts, 0, counts, tokens_in_all=sum(tokens))
    return {
        name: KINDS[name].bytes_kept(replace(setting, size=want.size, views=want.views), tokens)
        for name, want in amounts.items()
    }


@dataclass(frozen=True)
class PassFacts:
    """Facts of a pass besides its observables.

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
        warning: what is to be known of the pass before its numbers are believed; empty mostly.
        batch_tokens: the most tokens in a batch that memory sufficed for; None where all that was asked for did.
        weights: the hash of each group of weights of the model, see :func:`reporter.models.load.weight_groups`;
            empty where none were read. They are kept here since who stores the numbers may never load the model.
        alone: the largest deviation of a few texts from their states alone, see :mod:`reporter.forward.alone`; None
            for stored states.
    """

    anatomy: dict[str, Any]
    layout: Layout
    counts: Counts
    device: str
    precision: str
    deviation: float | None
    head_problem: str = ""
    unfed: dict[str, str] = field(default_factory=dict)
    batch_tokens: int | None = None
    warning: str = ""
    weights: dict[str, str] = field(default_factory=dict)
    alone: float | None = None

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> PassFacts:
        """Return what ``dataclasses.asdict`` made JSON of."""
        return cls(**{**facts, "counts": Counts(**facts["counts"]), "layout": Layout(**facts["layout"])})

    @classmethod
    def merged(cls, parts: Sequence[PassFacts]) -> PassFacts:
        """Return what is known of a pass by what is known of its ranges, in their order."""
        devices = dict.fromkeys(part.device for part in parts)
        return replace(
            parts[0],
            counts=sum((part.counts for part in parts), Counts()),
            device=", ".join(devices),
            alone=max([part.alone for part in parts if part.alone is not None], default=None),
            batch_tokens=min([part.batch_tokens for part in parts if part.batch_tokens is not None], default=None),
        )


class PassFolder:
    """The folder of one pass: ``facts.json``, one file for each finished observable; ``parts`` has unfinished work."""

    def __init__(self, folder: Path, inputs: Mapping[str, Any]) -> None:
        self.folder = folder / fingerprint(inputs)
        self._artifact = Artifact(self.folder, "it is measured again")
        self._inputs = inputs

    @contextmanager
    def locked(self, what: str, waiting: Callable[[str], None]) -> Iterator[None]:
        """Hold the folder, so that two runs that need the same pass do it once and ``make_room`` leaves it alone."""
        with self._artifact.locked(what, waiting):
            self.folder.mkdir(exist_ok=True)
            yield

    def facts(self) -> PassFacts | None:
        """Return the facts of the pass; None before it was finished once."""
        note = read_note(self.folder / "facts.json")
        return None if note is None else PassFacts.read(note["facts"])

    def set_aside_damaged(self, amounts: Wanted) -> None:
        """Rename damaged files, so that they count as missing; call it inside ``locked``."""
        for note in (self.folder / f"{name}.json" for name in ("facts", *amounts)):
            if is_damaged(note):
                set_aside(note, self._artifact.again)
                continue
            content, file = read_note(note) or {}, note.with_suffix(".safetensors")
            if "sha256" in content and file.exists() and sha256(file) != content["sha256"]:
                set_aside(file, self._artifact.again)

    def missing(self, amounts: Wanted) -> dict[str, Amount]:
        """Return the wanted observables that are not there or hold too little; what they hold is wanted with it."""
        if self.facts() is None:
            return dict(amounts)
        lacks = {name: lacking(name, self._kept(name), want) for name, want in amounts.items()}
        return {name: want for name, want in lacks.items() if want is not None}

    def parts(self, amounts: Wanted) -> Parts:
        """Return the ranges of the pass in which some observables are fed."""
        return Parts.of(self.folder, amounts)

    def _kept(self, name: str) -> Amount | None:
        note = read_note(self.folder / f"{name}.json")
        if note is None or note["version"] != KINDS[name].version:
            return None
        if not (self.folder / f"{name}.safetensors").exists():
            return None
        return Amount(note["size"], tuple(note.get("views", ())))

    def load(self, amounts: Wanted, keep: Keep = "all") -> dict[str, Observable]:
        """Return observables that are not missing; what a study keeps stays, though the one that made it would not."""
        self._artifact.used()
        for name in amounts:
            note = self.folder / f"{name}.json"
            content = read_note(note) or {}
            if stays(name, keep) and not content.get("stays", True):
                write_note(note, content | {"stays": True})
        return {name: KINDS[name].load(self.folder / f"{name}.safetensors") for name in amounts}

    def drop(self) -> None:
        """Delete the observables that no study so far has asked to keep; their notes stay, and say so in a plan."""
        for path in self.folder.glob("*.safetensors"):
            if not (read_note(path.with_suffix(".json")) or {}).get("stays", True):
                path.unlink(missing_ok=True)

    def finish(
        self,
        observables: Iterable[tuple[str, Observable]],
        amounts: Wanted,
        facts: PassFacts,
        keep: Keep = "all",
        called: Mapping[str, str] | None = None,
    ) -> None:
        """Write finished observables in their compact form."""
        for name, observable in observables:
            # The note goes first and comes back last: a kill in between leaves an observable that counts as missing.
            (self.folder / f"{name}.json").unlink(missing_ok=True)
            observable.save(file := self.folder / f"{name}.safetensors", finished=True)
            content = {"version": observable.version, **asdict(amounts[name]), "stays": stays(name, keep)}
            write_note(self.folder / f"{name}.json", content | {"sha256": sha256(file)})
        write_note(self.folder / "facts.json", {"facts": asdict(facts), "of_pass": self._inputs, "said": called or {}})


# What an unfinished pass has so far: the ranges that are done, and how far a killed process got in another.
#
# It is a folder ``unfinished-HASH`` beside the finished observables: ``wanted.json`` says how much of which
# observables; ``range-FIRST-STOP`` is a range that is done (its texts), sealed and never changed; ``shard-000230`` is
# a range up to there. Each is written under another name and renamed, so that a range done twice changes nothing, and
# readers need no lock.


_FOLDER, _WANTED, _FACTS = "unfinished-", "wanted.json", "facts.json"


@dataclass(frozen=True)
class Parts:
    """The ranges of a pass in which some observables are fed."""

    folder: Path
    wanted: Wanted

    @classmethod
    def of(cls, kept: Path, amounts: Wanted) -> Parts:
        """Return the parts of a pass that have what is wanted: those with most ranges, if there are several."""
        candidates = [
            parts
            for parts in _begun_parts(kept)
            if all(lacking(name, parts.wanted.get(name), want) is None for name, want in amounts.items())
        ]
        new = f"{_FOLDER}{fingerprint(_as_json(amounts))[:12]}"
        return max(candidates, key=lambda parts: parts.count, default=cls(kept / new, dict(amounts)))

    @property
    def count(self) -> int:
        """How many ranges are done."""
        return sum(map(is_sealed, self.folder.glob("range-*")))

    @property
    def begun(self) -> bool:
        """Whether a process measures, or measured, these ranges."""
        return (self.folder / _WANTED).exists()

    def place(self, text_range: ShardRange) -> Path:
        """Return the folder of a range."""
        return self.folder / f"range-{text_range.start:09}-{text_range.stop:09}"

    def is_done(self, text_range: ShardRange) -> bool:
        """Return whether a range is done, by its name alone."""
        return is_sealed(self.place(text_range))

    def facts(self, text_range: ShardRange) -> PassFacts | None:
        """Return the facts of a finished range; a damaged range is renamed and counts as missing."""
        if not _measured(self.place(text_range)).is_intact():
            return None
        note = read_note(self.place(text_range) / _FACTS)
        return None if note is None else PassFacts.read(note["facts"])

    def called(self, text_range: ShardRange) -> dict[str, str]:
        """Return what ``reporter cache`` says of the pass."""
        return dict((read_note(self.place(text_range) / _FACTS) or {}).get("said") or {})

    def begin(self) -> None:
        """Store what is wanted, before the first range is done.

        Raises:
            OSError: it cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if read_note(self.folder / _WANTED) is None:
            write_note(self.folder / _WANTED, {"wanted": _as_json(self.wanted)})

    def write(
        self, text_range: ShardRange, observables: Mapping[str, Observable], facts: PassFacts, called: Mapping[str, str]
    ) -> None:
        """Write the results of a range, whole or not at all; the results of a faster process stay.

        Raises:
            OSError: it cannot be written.
        """
        where = {"range": [text_range.start, text_range.stop], "by": socket.gethostname()}
        note = {"facts": asdict(facts), "said": dict(called), **where}
        self._save(self.place(text_range), observables, note)
        for path in self._shards(text_range):
            shutil.rmtree(path, ignore_errors=True)

    def merged(self, ranges: Sequence[ShardRange]) -> Iterator[tuple[str, Observable]]:
        """Yield each observable with what all ranges left, merged in the order of the ranges."""
        for name in self.wanted:
            whole, *files = (self.place(span) / f"{name}.safetensors" for span in ranges)
            observable = KINDS[name].load(whole)
            for other in files:
                observable.merge(KINDS[name].load(other))
            yield name, observable

    def save_unfinished(
        self, text_range: ShardRange, observables: Mapping[str, Observable], counts: Counts, next_shard: int
    ) -> None:
        """Write how far a range got, at once or not at all, and drop what was written of it before."""
        place = self.folder / f"shard-{next_shard:06}"
        self._save(place, observables, {"counts": asdict(counts), "next_shard": next_shard})
        for older in self._shards(text_range):
            if older.name < place.name:
                shutil.rmtree(older, ignore_errors=True)

    def unfinished(self, text_range: ShardRange) -> tuple[dict[str, Observable], Counts, int] | None:
        """Return the work of a killed process on a range: observables, counts, the next shard; None without any."""
        for folder in reversed(self._shards(text_range)):
            if not _measured(folder).is_intact():
                continue
            progress = read_note(folder / _FACTS)
            if progress is None:
                continue
            observables = {name: KINDS[name].load(folder / f"{name}.safetensors") for name in self.wanted}
            return observables, Counts(**progress["counts"]), progress["next_shard"]
        return None

    def tokens(self, text_range: ShardRange) -> int:
        """Return how many tokens of a range went through the model so far."""
        for folder in (self.place(text_range), *reversed(self._shards(text_range))):
            if content := read_note(folder / _FACTS):
                return int(content.get("facts", content)["counts"]["tokens"])
        return 0

    def _shards(self, text_range: ShardRange) -> list[Path]:
        within = range(text_range.shards[0].index + 1, text_range.shards[-1].index + 1)
        return [path for path in sorted(self.folder.glob("shard-*")) if int(path.name[6:]) in within]

    def _save(self, place: Path, observables: Mapping[str, Observable], note: dict[str, Any]) -> None:
        """Write a folder under another name first; one that another process wrote meanwhile stays."""
        self.begin()
        with _measured(place).filling() as fresh:
            for kind, observable in observables.items():
                observable.save(fresh / f"{kind}.safetensors")
            write_note(fresh / _FACTS, note)

    def remove(self) -> None:
        """Delete all of it, once the pass is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _measured(place: Path) -> Artifact:
    return Artifact(place, "the range is measured again")


def _begun_parts(kept: Path) -> Iterator[Parts]:
    for folder in kept.glob(f"{_FOLDER}*"):
        content = (read_note(folder / _WANTED) or {}).get("wanted")
        if content is not None and all(
            name in KINDS and KINDS[name].version == want[2] for name, want in content.items()
        ):
            yield Parts(folder, {name: Amount(size, tuple(views)) for name, (size, views, _) in content.items()})


def _as_json(amounts: Wanted) -> dict[str, Any]:
    return {name: [want.size, list(want.views), KINDS[name].version] for name, want in amounts.items()}
