"""Stored texts: in the study, in files, in the sample that ships, or in a dataset of a hub."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from reporter.core.errors import ReporterError, failures, first_line, hint, shared
from reporter.core.files import as_path
from reporter.core.imports import changed, optional
from reporter.study.corpora import CorpusPart, LabelledCorpus
from reporter.study.part import AsPath, AsTuple, InheritedText, Text, wrong
from reporter.texts import readers
from reporter.texts.sources import Origin, SourceContext, corpus_source, digest, file_hash
from reporter.texts.tables import TABLES, TableKind, marks_of, read_table, require_column
from reporter.texts.texts import Record


def kind_of(path: Path) -> TableKind | Literal["text"]:
    """Return how a file is read, as its name tells: as plain text, as a folder is, or as a kind of table."""
    if path.is_dir():
        return "text"
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return TABLES.get(suffixes[-1] if suffixes else "", "text")


def _as_date(value: Any) -> Any:
    try:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise wrong(f"expected a day such as 2026-01-31, got '{value}'") from None


class FileCorpus(LabelledCorpus):
    """Texts from a file: plain text, or a column of a table (CSV, TSV, JSON lines, JSON, Parquet, DuckDB)."""

    file: Annotated[Path, AsPath] = Field(description="The file, relative to the study file or absolute.")
    unit: Literal["line", "paragraph", "document"] = Field("line", description="Unit of one text in a plain text file.")
    column: Text | None = Field(None, description="Column with the texts, for a table.")
    table: Text | None = Field(None, description="Table in a .duckdb file; default: the only one.")
    chat: bool = Field(
        False,
        description="Each line of a .jsonl file is a conversation: a list of turns with `role` and `content` under "
        "`messages`. Each model reads it through its own chat template.",
    )
    role: Text | None = Field(
        None, description="Role whose turns count in a chat, such as assistant; all other turns are context."
    )

    date: Annotated[datetime.date, BeforeValidator(_as_date, json_schema_input_type=str)] | None = Field(
        None, description="Day that a chat template writes as today's, such as 2026-01-31. Most templates write none."
    )

    def share_of(self, label: str) -> dict[str, Any]:
        """Return the keys in which the corpus of one label, or of one role of a chat, differs."""
        return {"role": label} if self.chat else super().share_of(label)

    @model_validator(mode="after")
    def _role_goes_with_chat(self) -> FileCorpus:
        for key in ("role", "date"):
            if getattr(self, key) is not None and not self.chat:
                raise wrong(f"needs a chat; add `chat: true`, or remove `{key}`", key)
        if self.role is not None and self.by:
            raise wrong("cannot be combined with `role`; name all roles here, and remove `role`", "by")
        return self


@corpus_source("file", FileCorpus)
def file(corpus: FileCorpus, context: SourceContext) -> Origin:
    """Find the files, and read as their names tell.

    Raises:
        ReporterError: a file is missing, or what the study says does not fit its kind.
    """
    path = context.folder / corpus.file
    kind = kind_of(path)
    files = readers.find_files(path, corpus.unit if kind == "text" else "line")
    if kind != "text" and "unit" in corpus.model_fields_set:
        raise ReporterError(f"{path} is a table, where each row is one text; remove `unit` and add `column: NAME`")
    named = {"column": corpus.column, **corpus.marks}
    if kind == "text" and any(named.values()) and not path.is_dir():
        key = next(key for key, name in named.items() if name)
        raise ReporterError(f"`{key}` needs a table ({', '.join(TABLES)}), but {path} is plain text; remove `{key}`")
    if corpus.chat and kind != "jsonl":
        raise ReporterError(
            f"a chat must be a .jsonl file with a conversation on each line, got {path}; remove `chat`, or convert "
            "the file"
        )

    if corpus.table is not None and kind != "duckdb":
        raise ReporterError(f"`table` needs a .duckdb file, got {path}; remove `table`")

    def read() -> Iterator[Record]:
        if kind == "text":
            return readers.read_text_files(files, corpus.unit)
        column = corpus.column or ("messages" if corpus.chat else None)
        return read_table(path, kind, column, corpus.marks, corpus.chat, corpus.table)

    if kind == "duckdb":  # what a program wrote last may still be in a file of its own
        files += filter(Path.is_file, [path.resolve().with_name(f"{path.resolve().name}.wal")])
    return Origin(shared(corpus.file, context.folder), digest(map(file_hash, files)), read)


# Texts written in the study itself.


class InlineCorpus(CorpusPart):
    """Texts written in the study itself."""

    texts: Annotated[tuple[str, ...], AsTuple] = Field(min_length=1, description="The texts.")


@corpus_source("texts", InlineCorpus, called="inline")
def inline(corpus: InlineCorpus, context: SourceContext) -> Origin:
    """Find the texts in the study."""
    return Origin("the study file", "", lambda: map(Record, corpus.texts))


# Texts that ship with reporter.


REGISTERS = ("encyclopedic", "news", "dialogue", "instructions", "fiction", "code comments")
"""The labels of the sample."""


class SampleCorpus(LabelledCorpus):
    """150 English paragraphs that ship with reporter, 25 in each of six registers."""

    sample: Literal["english"] = Field(
        description="english: 150 paragraphs written for reporter, in six registers (`label: register`): encyclopedic, "
        "news, dialogue, instructions, fiction, code comments."
    )
    label: Literal["register"] | None = Field(None, description="'register' labels each text with its register.")

    @model_validator(mode="after")
    def _registers_exist(self) -> SampleCorpus:
        for key, labels in (("only", self.only or ()), ("by", self.by)):
            for index, label in enumerate(labels):
                if label not in REGISTERS:
                    raise wrong(f"no register '{label}'{hint(label, REGISTERS, 'registers')}", key, index)
        return self


@corpus_source("sample", SampleCorpus)
def sample(corpus: SampleCorpus, context: SourceContext) -> Origin:
    """Find the texts that ship with reporter."""
    path = Path(__file__).parents[1] / f"{corpus.sample}.jsonl"
    read = partial(read_table, path, "jsonl", "text", corpus.marks)
    return Origin(f"reporter's sample '{corpus.sample}'", file_hash(path), read)


# Texts from a dataset of a hub, or from a local folder that the ``datasets`` package can read.
#
# ``datasets`` is an optional package and is imported only here. It is never asked to run a dataset's own code.


_AT_ONCE = 1024  # rows


def _from_here(value: Any) -> Any:
    return value.as_path() if isinstance(value, InheritedText) and value.startswith(".") else value


class DatasetCorpus(LabelledCorpus):
    """Texts from a dataset of a hub; needs the optional package ``datasets``."""

    dataset: Annotated[Text, BeforeValidator(_from_here, json_schema_input_type=str)] = Field(
        description="Hub id of the dataset, or a local folder."
    )
    config: Text | None = Field(None, description="Configuration, for a dataset with several.")
    split: Text = Field("test", description="Split of the dataset.")
    revision: Text | None = Field(None, description="Branch, tag or commit of the dataset.")
    column: Text = Field("text", description="Column with the texts.")
    streaming: bool = Field(
        False,
        description="Read rows one by one instead of downloading the whole dataset; `limit` ends the reading. Labels "
        "stay as the rows have them.",
    )


@corpus_source("dataset", DatasetCorpus)
def dataset(corpus: DatasetCorpus, context: SourceContext) -> Origin:
    """Find the dataset; nothing is downloaded before it is read."""
    local = local_dataset(corpus.dataset, context.folder)
    # What the hub holds under a name can change. Its texts are kept as they were first fetched, so that a
    # study gives the same numbers tomorrow; another `revision` fetches others.
    state = digest(_folder_hashes(local)) if local else ""
    location = "/".join(part for part in (corpus.dataset, corpus.config, corpus.split) if part)
    if corpus.revision:
        location += f"@{corpus.revision}"
    return Origin(location, state, lambda: read_dataset(corpus, context.folder, context.offline), is_quick=False)


def read_dataset(spec: DatasetCorpus, folder: Path, offline: bool) -> Iterator[Record]:
    """Yield the texts of one split's column; None is no text. Class labels are given by name.

    Raises:
        ReporterError: the package is missing, the dataset cannot be loaded, or a column or split is missing.
    """
    rows = _load(spec, folder, offline)
    where = f"dataset '{spec.dataset}', split '{spec.split}',"
    names = rows.column_names
    if names is None:  # a stream may not know its columns before its first row
        names = list(next(iter(rows), {}))
    require_column(spec.column, names, where)
    marked = {key: require_column(name, names, where, key) for key, name in spec.marks.items() if name}
    columns = list(dict.fromkeys([spec.column, *marked.values()]))  # a column named twice is read once
    features = {name: None if rows.features is None else rows.features[name] for name in columns}
    batches = rows.select_columns(columns).iter(batch_size=_AT_ONCE)
    values = chain.from_iterable(zip(*(batch[name] for name in columns), strict=True) for batch in batches)
    for number, row in enumerate(dict(zip(columns, of_row, strict=True)) for of_row in values):
        text, place = row[spec.column], f"{where} row {number}"
        if text is not None and not isinstance(text, str):
            kind = type(text).__name__
            raise ReporterError(
                f"{place}: the column '{spec.column}' must hold text, got {kind}; name another `column`"
            )
        named = {name: _name(row[name], features[name]) for name in marked.values()}
        yield Record(text, **marks_of(named, marked, place))


def local_dataset(dataset: str, folder: Path) -> Path | None:
    """Return the local folder that a dataset id names; None for a dataset of the hub."""
    path = folder / as_path(dataset)
    return path if path.is_dir() else None


def _load(spec: DatasetCorpus, folder: Path, offline: bool) -> Any:
    datasets = optional("datasets", "datasets", f"dataset '{spec.dataset}'")
    local = local_dataset(spec.dataset, folder)
    with _without_bars(datasets), _offline(datasets) if offline else nullcontext():
        try:
            return datasets.load_dataset(
                str(local or spec.dataset),
                spec.config,
                split=spec.split,
                revision=spec.revision,
                streaming=spec.streaming,
            )
        except failures() as error:  # a dozen kinds, from the package, its hub client and the network below
            if not offline:
                wrong = "the network" if isinstance(error, ConnectionError) else "`dataset`, `config` and `split`"
                raise ReporterError(
                    f"cannot load dataset '{spec.dataset}': {first_line(error)}; check {wrong}"
                ) from error
            raise ReporterError(
                f"dataset '{spec.dataset}' is not in the local cache, and this run is offline; run once without "
                f"--offline ({first_line(error)})"
            ) from error


def _name(value: Any, feature: Any) -> Any:
    if isinstance(value, int) and hasattr(feature, "int2str"):
        # Datasets write -1 where a class label is withheld, as in the test splits of benchmarks.
        return feature.int2str(value) if value >= 0 else None
    return value


@contextmanager
def _without_bars(datasets: Any) -> Iterator[None]:
    """Keep progress bars out of the program's own output."""
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


@contextmanager
def _offline(datasets: Any) -> Iterator[None]:
    """Keep ``datasets`` and the hub client under it off the network.

    Both read their environment variable once, when they are imported, which may have been long ago.
    """
    from huggingface_hub import constants

    with changed(datasets.config, HF_HUB_OFFLINE=True), changed(constants, HF_HUB_OFFLINE=True):
        yield


def _folder_hashes(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(folder))
            yield file_hash(file)
