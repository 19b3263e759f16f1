"""Finished observables on disk: found again by what they depend on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.forward.measure import Counts
from reporter.forward.places import Layout
from reporter.forward.strata import VIEWS
from reporter.locks import held
from reporter.observables.kinds import KINDS
from reporter.observables.observable import Observable, Setting
from reporter.runs.cache import lock_of
from reporter.runs.plan import digest
from reporter.seals import is_damaged, read_note, set_aside, sha256, write_note

if TYPE_CHECKING:
    from reporter.spec.run import Keep


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


def lacking(name: str, there: Want | None, want: Want) -> Want | None:
    """Return how much of an observable must be measured to have what is wanted; None where it is there.

    Args:
        name: of the observable.
        there: how much of it there is.
        want: how much is wanted.
    """
    if there is None or (KINDS[name].bounded == "exactly" and there.size != want.size):
        return want
    return None if there | want == there else there | want


def stays(name: str, keep: Keep) -> bool:
    """Tell whether an observable is kept after the cells of a study that keeps so much are computed."""
    return keep == "all" or (keep == "sums" and not KINDS[name].states_kept)


def bytes_kept(
    layout: Layout, wanted: Wanted, tokens: Sequence[int], texts: int, counts: Mapping[int, int]
) -> dict[str, int]:
    """Return about what each observable of a finished pass will take on disk.

    Args:
        layout: the places that are read.
        wanted: how much of each.
        tokens: expected in each stratum: ordinary, special, aside.
        texts: of the corpus.
        counts: expected occurrences of each token type that occurs at least five times, most frequent first.
    """
    setting = Setting(layout, 0, texts, 0, counts, tokens_in_all=sum(tokens))
    return {
        name: KINDS[name].bytes_kept(replace(setting, size=want.size, views=want.views), tokens)
        for name, want in wanted.items()
    }


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
        warning: what is to be known of the pass before its numbers are believed; empty mostly.
        batch_tokens: the most tokens in a batch that memory sufficed for; None where all that was asked for did.
        weights: the hash of each group of weights of the model, see :func:`reporter.models.groups.weight_groups`;
            empty where none were read. They are kept here since who stores the numbers may never load the model.
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

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> PassFacts:
        """Return what ``dataclasses.asdict`` made JSON of."""
        return cls(**{**facts, "counts": Counts(**facts["counts"]), "layout": Layout(**facts["layout"])})

    @classmethod
    def merged(cls, parts: Sequence[PassFacts]) -> PassFacts:
        """Return what is known of a pass by what is known of its ranges, in their order."""
        devices = dict.fromkeys(part.device for part in parts)
        sufficed = [part.batch_tokens for part in parts if part.batch_tokens is not None]
        return replace(
            parts[0],
            counts=sum((part.counts for part in parts), Counts()),
            device=", ".join(devices),
            batch_tokens=min(sufficed, default=None),
        )


class Kept:
    """The folder of one pass: ``facts.json``, one file for each finished observable; ``parts`` has unfinished work.

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
        with held(lock_of(self.folder), what, waiting):
            self.folder.mkdir(exist_ok=True)
            yield

    def facts(self) -> PassFacts | None:
        """Return what is known of the pass, None before it was finished once."""
        found = read_note(self.folder / "facts.json")
        if found is None:
            return None
        return PassFacts.read(found["facts"])

    def heal(self, wanted: Wanted) -> None:
        """Set aside what is damaged, so that it is missing; only who holds the folder may."""
        again = "it is computed again"
        for note in (self.folder / f"{name}.json" for name in ("facts", *wanted)):
            if is_damaged(note):
                set_aside(note, again)
                continue
            said, file = read_note(note) or {}, note.with_suffix(".safetensors")
            if "sha256" in said and file.exists() and sha256(file) != said["sha256"]:
                set_aside(file, again)

    def missing(self, wanted: Wanted) -> dict[str, Want]:
        """Return the wanted observables that are not there or hold too little; what they hold is wanted with it."""
        if self.facts() is None:
            return dict(wanted)
        lacks = {name: lacking(name, self._kept(name), want) for name, want in wanted.items()}
        return {name: want for name, want in lacks.items() if want is not None}

    def _kept(self, name: str) -> Want | None:
        """Return how much of an observable there is."""
        found = read_note(self.folder / f"{name}.json")
        if found is None or found["version"] != KINDS[name].version:
            return None
        if not (self.folder / f"{name}.safetensors").exists():
            return None
        return Want(found["size"], tuple(found.get("views", ())))

    def load(self, wanted: Wanted, keep: Keep = "all") -> dict[str, Observable]:
        """Return observables that are not missing; what a study keeps stays, though the one that made it would not."""
        os.utime(self.folder)  # the cache drops what was not used for longest
        for name in wanted:
            note = self.folder / f"{name}.json"
            known = read_note(note) or {}
            if stays(name, keep) and not known.get("stays", True):
                write_note(note, known | {"stays": True})
        return {name: KINDS[name].load(self.folder / f"{name}.safetensors") for name in wanted}

    def drop(self) -> None:
        """Delete the observables that no study so far has asked to keep; their notes stay, and say so in a plan."""
        for path in self.folder.glob("*.safetensors"):
            if not (read_note(path.with_suffix(".json")) or {}).get("stays", True):
                path.unlink(missing_ok=True)

    def finish(
        self,
        observables: Iterable[tuple[str, Observable]],
        wanted: Wanted,
        facts: PassFacts,
        keep: Keep = "all",
        called: Mapping[str, str] | None = None,
    ) -> None:
        """Write finished observables in their compact form.

        Args:
            observables: what the pass fed, by name.
            wanted: how much of each.
            facts: what else is known of the pass.
            keep: how much of it stays once the cells of the study are computed.
            called: what ``reporter cache`` says of the pass: model, checkpoint, corpus, and the folder of its tokens.
        """
        for name, observable in observables:
            # The note goes first and comes back last: a kill in between leaves an observable that counts as missing.
            (self.folder / f"{name}.json").unlink(missing_ok=True)
            observable.save(file := self.folder / f"{name}.safetensors", finished=True)
            said = {"version": observable.version, **asdict(wanted[name]), "stays": stays(name, keep)}
            write_note(self.folder / f"{name}.json", said | {"sha256": sha256(file)})
        write_note(self.folder / "facts.json", {"facts": asdict(facts), "of_pass": self._inputs, "said": called or {}})
