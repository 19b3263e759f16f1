"""Where a corpus comes from: what decides about its texts, and how to read them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from reporter.errors import ReporterError
from reporter.spec.corpora import CorpusSpec, DatasetCorpus, FileCorpus, GeneratedCorpus, InlineCorpus
from reporter.texts import grammar, random_words
from reporter.texts.csv_file import read_csv
from reporter.texts.duckdb_file import read_with_duckdb
from reporter.texts.hub_dataset import local_dataset, read_dataset
from reporter.texts.inline import read_inline
from reporter.texts.json_lines import read_json_lines
from reporter.texts.lexicon import WORDS
from reporter.texts.record import Record
from reporter.texts.text_file import find_files, read_text_files
from reporter.texts.texts import Source
from reporter.texts.utf8 import unreadable

WholeWords = Callable[[str], Sequence[str]]

_Kind = Literal["text", "csv", "tsv", "jsonl", "json", "parquet"]

_TABLES: dict[str, _Kind] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
}


@dataclass(frozen=True)
class Origin:
    """Where a corpus comes from, before anything is read.

    Args:
        source: the kind of source.
        location: as a person would name it.
        state: what decides about the texts besides the spec: bytes of files, a generator's version and words.
        read: starts reading.
    """

    source: Source
    location: str
    state: str
    read: Callable[[], Iterator[Record]]


def find_origin(spec: CorpusSpec, folder: Path, whole_words: WholeWords | None, offline: bool) -> Origin:
    """Find where the texts of a corpus come from; reads files only to hash them.

    Args:
        spec: what the study says of the corpus.
        folder: the study's folder, from which relative paths start.
        whole_words: gives the whole words of a model's tokenizer.
        offline: never use the network.

    Raises:
        ReporterError: a file is missing, or what the study says does not fit its kind.
    """
    if isinstance(spec, InlineCorpus):
        return Origin("inline", "the study file", "", lambda: read_inline(spec.texts))
    if isinstance(spec, FileCorpus):
        return _file(spec, folder)
    if isinstance(spec, DatasetCorpus):
        return _dataset(spec, folder, offline)
    return _generated(spec, whole_words)


def _file(spec: FileCorpus, folder: Path) -> Origin:
    path = folder / spec.file.expanduser()
    kind: _Kind = _TABLES.get(_suffix(path), "text")
    if kind != "text" and "unit" in spec.model_fields_set:
        raise ReporterError(f"{path} is a table, where each row is one text: leave out 'unit' and name its 'column'")
    if kind == "text" and (spec.column or spec.label):
        key = "column" if spec.column else "label"
        raise ReporterError(
            f"'{key}' goes with a table (.csv, .tsv, .jsonl, .json, .parquet); {path} is read as plain text"
        )
    files = find_files(path, spec.unit if kind == "text" else "line")

    def read() -> Iterator[Record]:
        if kind == "text":
            return read_text_files(files, spec.unit)
        if kind == "jsonl":
            return read_json_lines(path, spec.column, spec.label)
        if kind == "json" or kind == "parquet":
            return read_with_duckdb(path, kind, spec.column, spec.label)
        return read_csv(path, spec.column, spec.label, tabs=kind == "tsv")

    return Origin("file", str(spec.file), _digest(map(_file_hash, files)), read)


def _dataset(spec: DatasetCorpus, folder: Path, offline: bool) -> Origin:
    local = local_dataset(spec.dataset, folder)
    # What the hub holds under a name can change. Its texts are kept as they were first fetched, so that a
    # study gives the same numbers tomorrow; another `revision` fetches others.
    state = _digest(_folder_hashes(local)) if local else ""
    location = "/".join(part for part in (spec.dataset, spec.config, spec.split) if part)
    if spec.revision:
        location += f"@{spec.revision}"
    return Origin("dataset", location, state, lambda: read_dataset(spec, folder, offline))


def _generated(spec: GeneratedCorpus, whole_words: WholeWords | None) -> Origin:
    location = f"{spec.generate}, seed {spec.seed}"
    if spec.generate == "grammar":
        return Origin(
            "generated",
            location,
            f"grammar {grammar.VERSION}",
            lambda: grammar.grammar_texts(spec.texts, spec.words, spec.seed),
        )
    words: Sequence[str] = WORDS
    if spec.vocabulary is not None:
        if whole_words is None:
            raise ReporterError(f"the words of model '{spec.vocabulary}' are not at hand")
        words = whole_words(spec.vocabulary)
        location += f", words of {spec.vocabulary}"
    return Origin(
        "generated",
        location,
        _digest(chain([f"random-words {random_words.VERSION}"], words)),
        lambda: random_words.random_words(words, spec.texts, spec.words, spec.seed),
    )


def _digest(parts: Iterable[str]) -> str:
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", errors="surrogatepass")
        sha.update(len(data).to_bytes(8, "little"))
        sha.update(data)
    return sha.hexdigest()


def _file_hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from error


def _folder_hashes(folder: Path) -> Iterator[str]:
    """Yield name and hash of every file: the names say which split a file belongs to."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(folder))
            yield _file_hash(file)


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:])
