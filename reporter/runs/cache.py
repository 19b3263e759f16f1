"""The folder ``cache`` on disk: what takes room, whose it is, when it was last used, and what may go.

Here are the names of files and what their notes say; what is in the files is the business of ``kept``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reporter.errors import UsageError
from reporter.locks import held_if_free
from reporter.runs.plan import PRECISIONS, MetricCell, digest, passes_in
from reporter.seals import DAMAGED, read_note

if TYPE_CHECKING:
    from reporter.store import Store

CACHE_BYTES = 20 * 2**30  # what kept observables may take up on disk, and kept tokens, when a run ends

Kind = Literal["pass", "tokens", "model", "texts"]
FOLDERS: Mapping[Kind, str] = {"pass": "observables", "tokens": "tokens", "model": "models", "texts": "texts"}


@dataclass(frozen=True)
class Entry:
    """Something in the cache that can go alone.

    Args:
        kind: what it is.
        folder: where it is.
        of: which model on which corpus, as far as that is known.
        studies: the studies of the database that use it.
        bytes: its size.
        used: when it was last used, in seconds since 1970.
    """

    kind: Kind
    folder: Path
    of: str
    studies: tuple[str, ...]
    bytes: int
    used: float


def entries(out: Path, store: Store) -> list[Entry]:
    """Return what there is in the cache of a results folder, the largest first.

    Args:
        out: the results folder.
        store: its database, which says which study uses what.
    """
    known = _known(store)
    found, readers = [], defaultdict(list)
    for kind, name in FOLDERS.items():
        for folder in _inside(out / "cache" / name):
            of, studies = known.get((kind, folder.name), ("", set()))
            if folder.name.startswith(DAMAGED):
                of = "damaged"
            elif kind == "pass":
                said = (read_note(folder / "facts.json") or {}).get("said") or {}
                of = of or (f"{said['model']} {said['checkpoint']} × {said['corpus']}" if said else "unfinished")
                readers[said.get("tokens")].append((of.rpartition(" × ")[2], studies))
            elif kind == "texts":
                content = (read_note(folder / "meta.json") or {}).get("hash")
                of, studies = known.get((kind, content), ("", set()))
            elif kind == "tokens":  # passes come first
                of = ", ".join(dict.fromkeys(corpus for corpus, _ in readers[folder.name]))
                studies = {study for _, users in readers[folder.name] for study in users}
            with suppress(FileNotFoundError):  # a run may be making room
                used = folder.stat().st_mtime
                found.append(Entry(kind, folder, of, tuple(sorted(studies)), bytes_in(folder), used))
    return sorted(found, key=lambda entry: -entry.bytes)


def _known(store: Store) -> dict[tuple[Kind, Any], tuple[str, set[str]]]:
    """Return what the database calls passes, models and texts, and which studies use them."""
    found: dict[tuple[Kind, Any], tuple[str, set[str]]] = {}

    def note(kind: Kind, name: Any, of: str, study: str) -> None:
        found.setdefault((kind, name), (of, set()))[1].add(study)

    if store.path.exists():
        cells = store.frame("SELECT DISTINCT study, model, checkpoint, corpus, CAST(inputs AS VARCHAR) FROM cells")
        of_passes = [(*row[:4], passes_in(json.loads(row[4] or "{}"))) for row in cells.itertuples(index=False)]
        # A comparison names both of its sides: those that have cells of their own are called after these.
        for study, model, checkpoint, corpus, passes in sorted(of_passes, key=lambda row: len(row[-1])):
            for one in passes:
                note("pass", one, f"{model} {checkpoint} × {corpus}", study)
        for study, model, training in store.frame(
            "SELECT DISTINCT study, model, revision FROM models WHERE source = 'recipe'"
        ).itertuples(index=False):
            note("model", training, model, study)
        for study, corpus, content in store.frame(
            "SELECT DISTINCT study, corpus, content_hash FROM corpora"
        ).itertuples(index=False):
            note("texts", content, corpus, study)
    return found


def prunable(
    found: Sequence[Entry],
    *,
    older_than: float | None = None,
    larger_than: int | None = None,
    study: str | None = None,
    now: float | None = None,
) -> list[Entry]:
    """Return what a wish to prune takes away, that which was not used for longest first.

    Args:
        found: what there is.
        older_than: seconds; what was used since then stays.
        larger_than: bytes; the oldest go until no more than this is left of all that was found.
        study: what another study uses, or this one does not, stays.
        now: the time, in seconds since 1970.
    """
    now = time.time() if now is None else now
    chosen = [entry for entry in found if study is None or entry.studies == (study,)]
    if older_than is not None:
        chosen = [entry for entry in chosen if now - entry.used > older_than]
    chosen.sort(key=lambda entry: entry.used)
    if larger_than is None:
        return chosen
    over, gone = sum(entry.bytes for entry in found) - larger_than, []
    for entry in chosen:
        if over <= 0:
            break
        over -= entry.bytes
        gone.append(entry)
    return gone


def remove(gone: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Delete what no run holds at this moment; return what was deleted and what is held."""
    removed: list[Entry] = []
    for entry in gone:
        if _removed(entry.folder):
            removed.append(entry)
    return removed, [entry for entry in gone if entry not in removed]


def make_room(folder: Path, budget: int) -> list[str]:
    """Delete the passes not used for longest until the rest fits into ``budget`` bytes; return their names.

    A pass that a run holds at this moment, or workers were at today, stays, however old it is.
    """
    passes = []
    for path in _inside(folder):
        with suppress(FileNotFoundError):  # another run may be making room, too
            passes.append((path.stat().st_mtime, path, bytes_in(path)))
    total = sum(size for _, _, size in passes)
    dropped = []
    for _, path, size in sorted(passes):
        if total <= budget:
            break
        if _removed(path):
            total -= size
            dropped.append(path.name)
    return dropped


def _removed(folder: Path) -> bool:
    with held_if_free(lock_of(folder)) as free:
        if free and not _is_worked_at(folder):
            shutil.rmtree(folder, ignore_errors=True)
            return True
        return False


def _is_worked_at(folder: Path) -> bool:
    """Tell whether a range of a pass was begun or done within a day: workers hold ranges, not the folder."""
    changed = (path.parent.stat().st_mtime for path in folder.glob("unfinished-*/wanted.json"))
    return any(time.time() - one < 24 * 3600 for one in changed)


def not_kept(folder: Path, cell: MetricCell) -> list[str]:
    """Return what a cell reads that was measured once and dropped, as a study's ``run.keep`` said.

    Args:
        folder: the folder of all passes.
        cell: a metric of passes.
    """
    found: dict[str, None] = {}
    for of in cell.passes:
        for settled in (of.settled(precision) for precision in PRECISIONS):
            here = folder / digest(settled.inputs)
            for name in cell.metric.needs:
                note = read_note(here / f"{name}.json")
                if note and not note.get("stays", True) and not (here / f"{name}.safetensors").exists():
                    found[name] = None
    return list(found)


def lines(out: Path, found: Sequence[Entry]) -> list[str]:
    """Say what there is, as a table."""
    total, unused = (sum(e.bytes for e in some) for some in (found, [e for e in found if not e.studies]))
    head = f"{out / 'cache'}: {size_said(total)}, {size_said(unused)} of it of no study of the database"
    budget = f"a run ends with at most {size_said(CACHE_BYTES)} of passes and {size_said(CACHE_BYTES)} of tokens"
    return [head, *_table(found), budget]


def _table(found: Sequence[Entry]) -> list[str]:
    rows = [("size", "last use", "what", "of", "study")]
    rows += [
        (size_said(e.bytes), _ago(time.time() - e.used), e.kind, e.of or "-", ", ".join(e.studies) or "-")
        for e in found
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(5)]
    return [
        "  ".join(
            f"{x:>{w}}" if place < 2 else f"{x:<{w}}" for place, (x, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def pruned_lines(gone: Sequence[Entry], held: Sequence[Entry], dry: bool) -> list[str]:
    """Say what was removed, or would be, and what a run holds."""
    said = f"{'would remove' if dry else 'removed'} {size_said(sum(entry.bytes for entry in gone))}"
    kept = [f"{entry.of or entry.folder.name}: a run is at it" for entry in held]
    return [*(_table(gone) if gone else ()), *kept, said]


def seconds_of(text: str) -> float:
    """Read how long ago: ``30d``, ``12h``, ``2w``. Raises ``UsageError`` for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([hdw])\s*", text)
    if not found:
        raise UsageError(f"--older-than {text}: expected hours, days or weeks, such as 12h, 30d or 2w")
    return float(found[1]) * {"h": 3600, "d": 86400, "w": 7 * 86400}[found[2]]


def bytes_of(text: str) -> int:
    """Read a size: ``10GB``, ``500MiB``, ``0``. Raises ``UsageError`` for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)B?|B)?\s*", text, re.IGNORECASE)
    if not found:
        raise UsageError(f"--larger-than {text}: expected a size such as 10GB, 500MiB or 0")
    power = "KMGT".index(found[2].upper()) + 1 if found[2] else 0
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def size_said(size: int) -> str:
    """Say a size for people, in powers of 1024."""
    if size < 1024:
        return f"{size} B"
    power = min(4, (size.bit_length() - 1) // 10)
    value = size / 1024**power
    return f"{value:.{0 if value >= 10 else 1}f} {'KMGT'[power - 1]}iB"


def _ago(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return "now"


def lock_of(folder: Path) -> Path:
    """Return the file that is locked: beside the folder, as one inside would go with it while others wait at it."""
    return folder.with_name(f"{folder.name}.lock")


def _inside(folder: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not path.name.startswith("unfinished-"):
                yield path


def bytes_in(folder: Path) -> int:
    """Return the size of the files in a folder, to which a run may be adding and from which it may be removing."""
    total = 0
    for inside, _, files in os.walk(folder):
        for file in files:
            with suppress(FileNotFoundError):
                total += Path(inside, file).stat().st_size
    return total
