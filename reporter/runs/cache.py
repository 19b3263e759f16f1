"""The folder ``cache``: what takes space, which study uses it, when it was last used, and what may be deleted."""

import re
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reporter.core.artifacts import artifacts_in, bytes_in, forget
from reporter.core.checksums import DAMAGED, read_note
from reporter.core.errors import UsageError
from reporter.core.json_text import stored_json
from reporter.core.numbers import size_text
from reporter.forward.inputs import FOLDERS, PRECISIONS, Kind
from reporter.models.model_folder import fingerprint
from reporter.runs.plan import MetricCell, passes_in
from reporter.store import Store

CACHE_BYTES = 20 * 2**30  # what kept observables may take up on disk, and kept tokens, when a run ends


@dataclass(frozen=True)
class Entry:
    """A folder of the cache that can be deleted alone.

    Args:
        kind: what it holds.
        folder: its path.
        of: which model on which corpus, where that is known.
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
    """Return the entries in the cache of a results folder, the largest first; its database knows their studies."""
    uses = _uses(store)
    listed, readers = [], defaultdict(list)
    for kind, name in FOLDERS.items():
        for folder in artifacts_in(out / "cache" / name):
            owner, studies = uses.get((kind, folder.name), ("", set()))
            if folder.name.startswith(DAMAGED):
                owner = "damaged"
            elif kind == "pass":
                note = (read_note(folder / "facts.json") or {}).get("said") or {}
                owner = owner or (f"{note['model']} {note['checkpoint']} × {note['corpus']}" if note else "unfinished")
                readers[note.get("tokens")].append((owner.rpartition(" × ")[2], studies))
            elif kind == "texts":
                content = (read_note(folder / "meta.json") or {}).get("hash")
                owner, studies = uses.get((kind, content), ("", set()))
            elif kind == "tokens":  # passes come first
                owner = ", ".join(dict.fromkeys(corpus for corpus, _ in readers[folder.name]))
                studies = {study for _, users in readers[folder.name] for study in users}
            with suppress(FileNotFoundError):  # a run may be making room
                used = folder.stat().st_mtime
                listed.append(Entry(kind, folder, owner, tuple(sorted(studies)), bytes_in(folder), used))
    return sorted(listed, key=lambda entry: -entry.bytes)


def _uses(store: Store) -> dict[tuple[Kind, Any], tuple[str, set[str]]]:
    """Return the names of passes, models and texts in the database, and the studies that use them."""
    uses: dict[tuple[Kind, Any], tuple[str, set[str]]] = {}

    def note(kind: Kind, name: Any, owner: str, study: str) -> None:
        uses.setdefault((kind, name), (owner, set()))[1].add(study)

    if store.path.exists():
        cells = store.frame("SELECT DISTINCT study, model, checkpoint, corpus, CAST(inputs AS VARCHAR) FROM cells")
        of_passes = [(*row[:4], passes_in(stored_json(row[4] or "{}"))) for row in cells.itertuples(index=False)]
        # A comparison names both of its sides, so passes get their name from cells with one side.
        for study, model, checkpoint, corpus, passes in sorted(of_passes, key=lambda row: len(row[-1])):
            for name in passes:
                note("pass", name, f"{model} {checkpoint} × {corpus}", study)
        for row in store.records("SELECT DISTINCT study, model, revision FROM models WHERE source = 'recipe'"):
            note("model", row["revision"], row["model"], row["study"])
        for row in store.records("SELECT DISTINCT study, corpus, content_hash FROM corpora"):
            note("texts", row["content_hash"], row["corpus"], row["study"])
    return uses


def prunable(
    listed: Sequence[Entry],
    *,
    older_than: float | None = None,
    larger_than: int | None = None,
    study: str | None = None,
    now: float | None = None,
) -> list[Entry]:
    """Return the entries to delete, the longest unused first.

    Args:
        listed: all entries.
        older_than: seconds; entries that were used since then stay.
        larger_than: bytes; the oldest entries go until no more than this is left.
        study: only entries that this study alone uses.
        now: the time, in seconds since 1970.
    """
    now = time.time() if now is None else now
    chosen = [entry for entry in listed if study is None or entry.studies == (study,)]
    if older_than is not None:
        chosen = [entry for entry in chosen if now - entry.used > older_than]
    chosen.sort(key=lambda entry: entry.used)
    if larger_than is None:
        return chosen
    over, gone = sum(entry.bytes for entry in listed) - larger_than, []
    for entry in chosen:
        if over <= 0:
            break
        over -= entry.bytes
        gone.append(entry)
    return gone


def remove(gone: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Delete entries that no run holds at this moment; return the deleted and the held ones."""
    removed = [entry for entry in gone if forget(entry.folder, is_fed)]
    return removed, [entry for entry in gone if entry not in removed]


def is_fed(folder: Path) -> bool:
    """Return whether workers wrote ranges of a pass today, which none of them locks as a whole."""
    changed = (path.parent.stat().st_mtime for path in folder.glob("unfinished-*/wanted.json"))
    return any(time.time() - when < 24 * 3600 for when in changed)


def not_kept(folder: Path, cell: MetricCell) -> list[str]:
    """Return the observables of a cell that were measured and then dropped, because of a study's ``run.keep``.

    Args:
        folder: the folder of all passes.
        cell: the cell.
    """
    dropped: dict[str, None] = {}
    for forward_pass in cell.passes:
        for settled in (forward_pass.settled(precision) for precision in PRECISIONS):
            here = folder / fingerprint(settled.inputs)
            for name in cell.metric.needs:
                note = read_note(here / f"{name}.json")
                if note and not note.get("stays", True) and not (here / f"{name}.safetensors").exists():
                    dropped[name] = None
    return list(dropped)


def lines(out: Path, listed: Sequence[Entry]) -> list[str]:
    """Return a table of the entries, with the total."""
    total, unused = (sum(e.bytes for e in some) for some in (listed, [e for e in listed if not e.studies]))
    head = f"{out / 'cache'}: {size_text(total)}, of which no study in the database uses {size_text(unused)}"
    budget = f"limit after each run: {size_text(CACHE_BYTES)} of passes and {size_text(CACHE_BYTES)} of tokens"
    return [head, *_table(listed), budget]


def _table(listed: Sequence[Entry]) -> list[str]:
    rows = [("size", "last used", "kind", "of", "studies")]
    rows += [
        (size_text(e.bytes), _ago(time.time() - e.used), e.kind, e.of or "-", ", ".join(e.studies) or "-")
        for e in listed
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(5)]
    return [
        "  ".join(
            f"{x:>{w}}" if place < 2 else f"{x:<{w}}" for place, (x, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def pruned_lines(gone: Sequence[Entry], held: Sequence[Entry], dry: bool) -> list[str]:
    """Return lines on what was removed, or would be, and what a run holds."""
    if not gone and not held:
        return ["nothing to remove: no entry matches"]
    total = f"{'would remove' if dry else 'removed'} {size_text(sum(entry.bytes for entry in gone))}"
    kept = [f"{entry.of or entry.folder.name}: kept, because a run is using it" for entry in held]
    return [*(_table(gone) if gone else ()), *kept, total]


def seconds_of(text: str) -> float:
    """Return the seconds of ``30d``, ``12h`` or ``2w``. Raises ``UsageError`` for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([hdw])\s*", text)
    if not match:
        raise UsageError(f"--older-than {text}: expected hours, days or weeks, such as 12h, 30d or 2w")
    return float(match[1]) * {"h": 3600, "d": 86400, "w": 7 * 86400}[match[2]]


def bytes_of(text: str) -> int:
    """Return the bytes of ``10GB``, ``500MiB`` or ``0``. Raises ``UsageError`` for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)B?|B)?\s*", text, re.IGNORECASE)
    if not match:
        raise UsageError(f"--larger-than {text}: expected a size such as 10GB, 500MiB or 0")
    power = "KMGT".index(match[2].upper()) + 1 if match[2] else 0
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def _ago(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return "now"
