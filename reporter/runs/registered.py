"""Registration: the claims of a study and what they depend on, written beside it with a checksum and a date.

A run compares the study with the file. The database keeps what the run found, so that a registration that appears, or
is replaced, after the first number is recognised whatever date it bears.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reporter.core.checksums import checksum_of, read_note, sha256, write_note
from reporter.core.errors import ReporterError, UsageError, one_line
from reporter.core.files import writing
from reporter.core.imports import code_of
from reporter.core.json_text import stored_json
from reporter.core.version import VERSION
from reporter.judge.claims import kind_of
from reporter.judge.judging import CORRECTION, NOT_REGISTERED
from reporter.metrics.analysis import analyses
from reporter.metrics.base import catalogue
from reporter.store import Store
from reporter.study import Study, StudyFile
from reporter.study.corpora import CorpusPart
from reporter.study.recipes import shares_of
from reporter.study.references import queries_of, statistics_of
from reporter.texts.sources import SourceContext, source_of

_UNREADABLE = "cannot be read"
_EDITED = "the registration file was edited or is damaged"
_SETTINGS = ("texts", "views", "sinks", "sites", "baselines", "pooling")
_SHARED = ("settings", "metrics", "models", "corpora")
# The numbers of another study with the same fingerprints are the same numbers: a new id does not make them unknown.
_STORED = """
SELECT registration, first_number, least(first_number, (
    SELECT min(finished) FROM cells WHERE status = 'done'
    AND fingerprint IN (SELECT fingerprint FROM cells WHERE study = $study AND status = 'done')
)) AS first FROM studies WHERE study = $study
"""


def beside(study: Path) -> Path:
    """Return the path of the registration of a study's file."""
    return study.with_suffix(".registered.json")


def content(file: StudyFile) -> dict[str, dict[str, Any]]:
    """Return what is registered of a study, as JSON: each claim, and the other keys that decide its verdict."""
    study = file.study
    whole = study.model_dump(mode="json", by_alias=True)
    for name, claim in study.claims.items():
        whole["claims"][name] |= {"kind": kind_of(claim).name, "code": code_of(kind_of(claim).test)}
    shares = shares_of(study.corpora)
    for name, part in study.corpora.items():
        whole["corpora"][name] = {} if name in shares else whole["corpora"][name] | _contents(part, file.folder)
    settings = {key: whole[key] for key in _SETTINGS} | {"seed": study.run.seed, "correction": CORRECTION}
    shared = zip(_SHARED, (settings, _metrics(study, whole), whole["models"], whole["corpora"]), strict=True)
    claims = {name: _flat(claim) for name, claim in whole["claims"].items()}
    return {"claims": claims, **{name: _flat(part) for name, part in shared}}


def _contents(part: CorpusPart, folder: Path) -> dict[str, str]:
    if any(True for reference in part.references if reference.to == "models" for _ in reference.named(part)):
        return {}  # texts of a model's vocabulary, which would have to be loaded
    try:
        state = source_of(part).find(part, SourceContext(folder, True, None)).state
    except ReporterError:
        state = _UNREADABLE
    return {"contents": state, "code": source_of(part).code}


def _metrics(study: Study, whole: Mapping[str, Any]) -> dict[str, Any]:
    definitions = {**catalogue(), **analyses()}
    names = {name for claim in study.claims.values() for name in statistics_of(claim)}
    options = {choice.name: choice.options.model_dump(mode="json") for choice in study.metrics}
    options |= {name: whole[name] for name, items in study.sections.items() if items}
    by_query = any(map(queries_of, study.claims.values()))  # which may read every number
    used = {name.partition(".")[0] for name in names} | (options.keys() if by_query else set())
    described = {}
    for name in sorted(used):
        metric = definitions[name]
        least = {s.name: s.smallest for s in metric.statistics if f"{name}.{s.name}" in names}
        about = {"version": metric.version, "code": metric.code, "options": options.get(name)}
        described[name] = {**about, "at_least": least}
    return described


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    """Return a mapping by keys with dots; without what is empty, which a later version of reporter may add."""
    if isinstance(value, dict):
        parts = [_flat(item, f"{key}.{name}" if key else str(name)) for name, item in value.items()]
        return {name: item for part in parts for name, item in part.items()}
    is_long = len(json.dumps(value)) > 200
    return {} if value in (None, "", []) else {key: f"sha256:{checksum_of(value)}" if is_long else value}


def register(file: StudyFile) -> str:
    """Write the registration of a study beside it, unless it is registered already; return a sentence.

    Raises:
        UsageError: it has no claims, a corpus cannot be read, or the study differs from its registration.
        ReporterError: the file cannot be written.
    """
    path, described = beside(file.path), content(file)
    if not file.study.claims:
        raise UsageError(f"{file.path} has no claims to register; add `claims:`")
    if unreadable := [key for key, value in described["corpora"].items() if value == _UNREADABLE]:
        raise UsageError(f"a file of {', '.join(unreadable)} cannot be read; `reporter validate` says why")
    if path.exists():
        note = _read(path, file.study.study)
        changed = _changes(note, described) if note else {"": [_EDITED if note is None else "the id of the study"]}
        if changes := [f"{name} {key}".strip() for name, keys in changed.items() for key in keys]:
            raise UsageError(
                f"the study differs from its registration {path}: {_some(changes)}. Nothing was written. Undo the "
                "changes, or rename the old file and register again; if there are numbers already, the report says so"
            )
        return f"registered already; {path} is unchanged"
    about = {"study": file.study.study, "registered_utc": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"}
    hashes = {name: checksum_of(part) for name, part in described.items()}
    with writing(path):
        write_note(path, {**about, "reporter": VERSION, "sha256": hashes, **described})
    return f"registered in {path}; to prove the date, publish the file or its SHA-256, {sha256(path)}"


def _read(path: Path, study: str) -> dict[str, Any] | None:
    """Return a registration; None if it is damaged or was edited, empty if it is of a study with another id."""
    note = read_note(path)
    if note is None or not all(isinstance(note.get(key), str) for key in ("registered_utc", "reporter")):
        return None
    if not all(isinstance(part, dict) for part in (note.get("claims"), *map(note.get, _SHARED))):
        return None
    if not all(isinstance(claim, dict) for claim in note["claims"].values()):
        return None
    return note if note.get("study") == study else {}


def _changes(note: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the keys that changed since the registration, by claim; under '' those that concern every claim."""
    changed = {"": [f"claim {name} was removed" for name in note["claims"] if name not in now["claims"]]}
    changed[""] += [f"{part}.{key}" for part in _SHARED for key in _different(note[part], now[part])]
    for name, claim in now["claims"].items():
        changed[name] = _different(note["claims"][name], claim) if name in note["claims"] else ["added later"]
    for keys in changed.values():
        if keys and note["reporter"] != VERSION:
            keys.append(f"reporter {note['reporter']} → {VERSION}")  # which may be why
    return changed


def _different(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [key for key in {**was, **now} if was.get(key) != now.get(key)]


def compare(file: StudyFile, before: Mapping[str, Any] | None, first: datetime | None) -> dict[str, Any] | None:
    """Compare a study with its registration; None if it has none.

    Args:
        file: the study.
        before: what an earlier run found.
        first: when the first number was stored; None if there is none.

    Returns:
        ``note`` (the registration; one that is gone is the one that an earlier run found), ``in_time`` (whether a run
        found it before there were numbers) and ``changed`` (keys by claim, under '' those of every claim).
    """
    path = beside(file.path)
    registration = _read(path, file.study.study) if path.is_file() else {}
    note = registration or (before["note"] if before else {})
    if not note and registration is not None:
        return None
    changed = _changes(note, content(file)) if note else {"": []}
    changed[""] += [_EDITED] if registration is None else []
    in_time = first is None or bool(before and before["in_time"] and before["note"] == note)
    return {"note": note, "in_time": in_time, "changed": changed}


def record(file: StudyFile, store: Store) -> None:
    """Store when the first number of a study was stored, and its registration as it is now, if they changed."""
    study = file.study.study
    for row in store.records(_STORED, {"study": study}):
        before = stored_json(row["registration"])
        now = compare(file, before, row["first"])
        if (before, row["first_number"]) != (now, row["first"]):
            store.put("studies", ["study"], {"study": study, "first_number": row["first"], "registration": now})


def sentences(study: Study, store: Store, file: StudyFile | None = None) -> dict[str, str]:
    """Return for each claim of a study whether it was registered in time, as the database has it.

    Args:
        study: the study.
        store: the database.
        file: compare this file now; by default the last run's comparison is taken.
    """
    rows = store.records(_STORED, {"study": study.study}) if store.path.exists() else []
    first, comparison = (rows[0]["first"], stored_json(rows[0]["registration"])) if rows else (None, None)
    comparison = compare(file, comparison, first) if file else comparison
    return {name: _sentence(name, comparison, first) if comparison else NOT_REGISTERED for name in study.claims}


def _sentence(claim: str, comparison: Mapping[str, Any], first: datetime | None) -> str:
    note, changes = comparison["note"], [*comparison["changed"].get(claim, ()), *comparison["changed"][""]]
    if claim not in note.get("claims", ()):
        return f"{NOT_REGISTERED}: {_some(changes)}"
    date = str(note["registered_utc"])
    when = f"registered {date[:10]}, before the first number"
    if first and date > str(first):
        when = f"registered {date[:16]} UTC, after the first number of {str(first)[:16]} UTC"
    elif first and not comparison["in_time"]:
        when = f"dated {date[:16]} UTC, but not there when the first number was stored on {str(first)[:16]} UTC"
    return f"changed since it was registered: {_some(changes)} ({when})" if changes else when


def _some(changes: Sequence[str]) -> str:
    return one_line(", ".join(changes[:5])) + " and more" * (len(changes) > 5)
