"""Texts from a column of a CSV or TSV file (also gzipped), one row at a time.

The standard library's reader rather than DuckDB's: it holds one row where DuckDB holds the file (500 MB for
one of 480 MB), keeps every character, and knows the line of whatever is wrong.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from reporter.errors import ReporterError
from reporter.files import LONGEST_TEXT
from reporter.texts.columns import require_column
from reporter.texts.record import Record
from reporter.texts.utf8 import lines

_DELIMITERS = (",", ";", "\t", "|")


def read_csv(path: Path, column: str | None, label: str | None, tabs: bool) -> Iterator[Record]:
    """Yield the texts of a column. The first row names the columns.

    Args:
        path: the file.
        column: holds the texts.
        label: holds the labels, or None.
        tabs: whether tabs separate the columns; otherwise the first of ``, ; tab |`` that the first row holds
            does.

    Raises:
        ReporterError: the file cannot be read, a column is missing, or a row is malformed; with its line.
    """
    csv.field_size_limit(LONGEST_TEXT)
    text = lines(path)
    first = next(text, "")
    delimiter = "\t" if tabs else next((d for d in _DELIMITERS if d in _unquoted(first)), ",")
    rows = csv.reader(chain([first], text), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(rows)]
        place = header.index(require_column(column, header, str(path)))
        at = None if label is None else header.index(require_column(label, header, str(path), "label"))
        for row in rows:
            if len(row) == len(header):
                yield Record(row[place], None if at is None else row[at] or None)
            elif row:
                raise ReporterError(
                    f"{path}:{rows.line_num}: this row has {len(row)} columns, the first has {len(header)}; "
                    "quote values that hold the separator or a line break"
                )
    except csv.Error as error:
        raise ReporterError(f"{path}:{rows.line_num}: not a valid CSV row ({error}); check its quotes") from error


def _unquoted(line: str) -> str:
    return "".join(line.split('"')[::2])
