"""Builds the texts of a corpus once, and finds them again.

What was built is named by a key over everything that decides about it: what the study says, the bytes of the source,
the version of the generator. So an edited file is read again, and a study that only changes ``max_tokens`` is not.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from reporter.errors import ReporterError
from reporter.spec.corpora import CorpusSpec, DatasetCorpus, FileCorpus, GeneratedCorpus, InlineCorpus
from reporter.texts import grammar, random_words
from reporter.texts.csv_file import read_csv
from reporter.texts.duckdb_file import read_with_duckdb
from reporter.texts.filters import Filter
from reporter.texts.hub_dataset import local_dataset, read_dataset
from reporter.texts.inline import read_inline
from reporter.texts.json_lines import read_json_lines
from reporter.texts.lexicon import WORDS
from reporter.texts.record import Record
from reporter.texts.text_file import find_files, read_text_files
from reporter.texts.texts import Source, Texts, open_texts
from reporter.texts.utf8 import unreadable
from reporter.texts.writer import TextsWriter

FORMAT = 1  # counts up whenever the same source would be read or filtered into other texts

WholeWords = Callable[[str], Sequence[str]]

_TABLES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
}


@dataclass(frozen=True)
class _Origin:
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


def build_texts(
    name: str,
    spec: CorpusSpec,
    folder: Path,
    cache: Path,
    whole_words: WholeWords | None = None,
    offline: bool = False,
) -> Texts:
    """Return the texts of a corpus, read and filtered, or found in the cache.

    Args:
        name: what the study calls the corpus.
        spec: what the study says of it.
        folder: the study's folder, from which relative paths start.
        cache: the folder of caches; the texts go to ``cache/texts/<key>/``.
        whole_words: gives the whole words of a model's tokenizer, for ``random-words`` with a ``vocabulary``.
        offline: never use the network.

    Raises:
        ReporterError: the source cannot be read, or no text is left after the filters; the message names the corpus.
    """
    try:
        origin = _origin(spec, folder, whole_words, offline)
        place = cache / "texts" / _key(spec, origin.state)
        texts = open_texts(place, name, origin.source, origin.location)
        if texts is None:
            _write(place, spec, origin)
            texts = open_texts(place, name, origin.source, origin.location)
        if texts is None:
            raise ReporterError(f"its texts in {place} are damaged; remove that folder")
        os.utime(place)  # the cache drops what was not used for longest
        return texts
    except ReporterError as error:
        raise ReporterError(f"corpus '{name}': {error}") from error


def _write(place: Path, spec: CorpusSpec, origin: _Origin) -> None:
    kept = Filter(spec.min_words, spec.max_words)
    labelled = getattr(spec, "label", None) is not None
    with TextsWriter(place, labelled) as writer, closing(origin.read()) as records:
        for record in records:
            text = kept.keep(record.text)
            if text is None:
                continue
            writer.add(*text, label=record.label)
            if writer.texts == spec.limit:
                break
        if not writer.texts:
            raise ReporterError(f"no text is left of {origin.location}: {kept.explain()}")
        writer.finish(kept.dropped)


def _origin(spec: CorpusSpec, folder: Path, whole_words: WholeWords | None, offline: bool) -> _Origin:
    if isinstance(spec, InlineCorpus):
        return _Origin("inline", "the study file", "", lambda: read_inline(spec.texts))
    if isinstance(spec, FileCorpus):
        return _file(spec, folder)
    if isinstance(spec, DatasetCorpus):
        return _dataset(spec, folder, offline)
    return _generated(spec, whole_words)


def _file(spec: FileCorpus, folder: Path) -> _Origin:
    path = folder / spec.file.expanduser()
    kind = _TABLES.get(_suffix(path), "text")
    if kind != "text" and "unit" in spec.model_fields_set:
        raise ReporterError(
            f"{path} is a table, where each row is one text: leave out 'unit' and name its 'column'"
        )
    if kind == "text" and (spec.column or spec.label):
        key = "column" if spec.column else "label"
        raise ReporterError(
            f"'{key}' goes with a table (.csv, .tsv, .jsonl, .json, .parquet), and {path} is taken for plain text"
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

    return _Origin("file", str(spec.file), _digest(map(_file_hash, files)), read)


def _dataset(spec: DatasetCorpus, folder: Path, offline: bool) -> _Origin:
    local = local_dataset(spec.dataset, folder)
    # What the hub holds under a name can change. Its texts are kept as they were first fetched, so that a study
    # gives the same numbers tomorrow; another `revision` fetches others.
    files = sorted(file for file in local.rglob("*") if file.is_file()) if local else []
    location = "/".join(part for part in (spec.dataset, spec.config, spec.split) if part)
    if spec.revision:
        location += f"@{spec.revision}"
    return _Origin(
        "dataset", location, _digest(map(_file_hash, files)), lambda: read_dataset(spec, folder, offline)
    )


def _generated(spec: GeneratedCorpus, whole_words: WholeWords | None) -> _Origin:
    location = f"{spec.generate}, seed {spec.seed}"
    if spec.generate == "grammar":
        return _Origin(
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
    return _Origin(
        "generated",
        location,
        _digest(chain([f"random-words {random_words.VERSION}"], words)),
        lambda: random_words.random_words(words, spec.texts, spec.words, spec.seed),
    )


def _key(spec: CorpusSpec, state: str) -> str:
    said: dict[str, Any] = spec.model_dump(mode="json", exclude={"max_tokens"})  # cuts tokens, not texts
    everything = json.dumps([FORMAT, said, state], sort_keys=True)
    return hashlib.sha256(everything.encode("utf-8", errors="surrogatepass")).hexdigest()[:32]


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


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:])
