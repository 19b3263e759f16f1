"""Texts from files: plain text, or a column of a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from reporter.errors import ReporterError
from reporter.paths import shared
from reporter.spec.corpora import LabelledCorpus
from reporter.spec.part import AsPath, Complaint, Text, failure
from reporter.texts.csv_file import read_csv
from reporter.texts.duckdb_file import read_with_duckdb
from reporter.texts.json_lines import read_json_lines
from reporter.texts.origin import Around, Origin, corpus_source, digest, file_hash
from reporter.texts.record import Record
from reporter.texts.text_file import find_files, read_text_files

_Kind = Literal["text", "csv", "tsv", "jsonl", "json", "parquet"]

_TABLES: dict[str, _Kind] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
}


class FileCorpus(LabelledCorpus):
    """Texts from a file: plain text, or a column of a CSV, JSONL or Parquet file."""

    file: Annotated[Path, AsPath] = Field(description="The file, relative to the study file or absolute.")
    unit: Literal["line", "paragraph", "document"] = Field(
        "line", description="What one text is, in a file of plain text."
    )
    column: Text | None = Field(None, description="The column that holds the texts, in a table.")
    chat: bool = Field(
        False,
        description="Each line of a .jsonl file is a conversation, a list of turns with role and content under "
        "'messages'; each model reads it as its own chat template writes it.",
    )
    role: Text | None = Field(
        None, description="Of a chat only the turns of this role count, such as assistant; the others are context."
    )

    def share_of(self, one: str) -> dict[str, Any]:
        """Return what a share says otherwise: of a chat the role."""
        return {"role": one} if self.chat else super().share_of(one)

    @model_validator(mode="after")
    def _role_goes_with_chat(self) -> FileCorpus:
        if self.role is not None and not self.chat:
            raise failure(Complaint("goes with `chat: true`", ("role",)))
        if self.role is not None and self.by:
            raise failure(Complaint("name all roles here, and leave out `role`", ("by",)))
        return self


@corpus_source("file", FileCorpus)
def file(said: FileCorpus, around: Around) -> Origin:
    """Find the files, and read as their names tell.

    Raises:
        ReporterError: a file is missing, or what the study says does not fit its kind.
    """
    path = around.folder / said.file.expanduser()
    kind: _Kind = _TABLES.get(_suffix(path), "text")
    if kind != "text" and "unit" in said.model_fields_set:
        raise ReporterError(f"{path} is a table, where each row is one text: leave out 'unit' and name its 'column'")
    if kind == "text" and (said.column or said.label):
        key = "column" if said.column else "label"
        raise ReporterError(
            f"'{key}' goes with a table (.csv, .tsv, .jsonl, .json, .parquet); {path} is read as plain text"
        )
    if said.chat and kind != "jsonl":
        raise ReporterError(f"a chat is a .jsonl file with a conversation on each line; {path} is none")
    files = find_files(path, said.unit if kind == "text" else "line")

    def read() -> Iterator[Record]:
        if kind == "text":
            return read_text_files(files, said.unit)
        if kind == "jsonl":
            column = said.column or ("messages" if said.chat else None)
            return read_json_lines(path, column, said.label, said.chat)
        if kind == "json" or kind == "parquet":
            return read_with_duckdb(path, kind, said.column, said.label)
        return read_csv(path, said.column, said.label, tabs=kind == "tsv")

    return Origin(shared(said.file, around.folder), digest(map(file_hash, files)), read)


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:])
