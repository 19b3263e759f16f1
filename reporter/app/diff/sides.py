"""The sides of a comparison: a study in a file of results, seen in the shape that tables have today."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reporter.app.diff.contrasts import DEEPER, Blocks
from reporter.core.confined import quoted
from reporter.core.errors import ReporterError, UsageError, hint, one_line
from reporter.core.table import Table
from reporter.store.checking import table_columns, version_of
from reporter.store.opening import attached, opened
from reporter.store.schema import tables
from reporter.study.study import STUDY_ID

if TYPE_CHECKING:
    import duckdb

DATABASE = "results.duckdb"
_OF_STUDY = ("studies", "corpora", "corpus_texts")
"""Tables without a model that are read where two models are compared, too."""
_BY_DEPTH = re.compile(r"layer|block|^many$")
"""Columns that count layers or blocks, which are not the same ones in a model of another depth."""


_AT_DEPTHS = ("models", "layer_metrics", "text_parts")
"""Those that are read at relative depths."""


@dataclass(frozen=True)
class DiffSide:
    """One side of a comparison."""

    database: Path
    study: str
    model: str | None = None

    def __str__(self) -> str:
        folder = self.database.parent if self.database.name == DATABASE else self.database
        return one_line(":".join(filter(None, (str(folder), self.study, self.model))))


def find_sides(a: str, b: str, out: Path) -> tuple[DiffSide, DiffSide]:
    """Understand what was asked for.

    Raises:
        UsageError: there is no such folder, study or model, a study must be named, both sides are the same, or one
            names a model and the other does not.
        ReporterError: a file cannot be read.
    """
    models = [_model_of(text, out) for text in (a, b)]
    if None in models and models != [None, None]:
        raise UsageError("one side names a model and the other does not; write STUDY:MODEL on both sides")
    if models[0] and models[1]:
        if models[0] == models[1]:
            raise UsageError(f"both sides are the model {models[0]}; name two models")
        return models[0], models[1]
    requests = [_read(text, out) for text in (a, b)]
    studies = [_studies_of(path) for path, _ in requests]
    shared = [study for study in studies[0] if study in studies[1]]
    sides = []
    for text, (path, study), ids, (_, of_other) in zip((a, b), requests, studies, reversed(requests), strict=True):
        if study is None:
            likely = [of_other] if of_other in ids else shared if of_other is None and shared else ids
            study = likely[0] if len(likely) == 1 else None
        if study is None:
            raise UsageError(f"{one_line(text)} has several studies: {', '.join(ids)}; choose one with FOLDER:STUDY")
        if study not in ids:
            otherwise = hint(study, ids, "it has")
            raise UsageError(f"no study '{one_line(study)}' in {path}{otherwise}{_perhaps_a_folder(text)}")
        sides.append(DiffSide(path, study))
    if sides[0].study == sides[1].study and sides[0].database.samefile(sides[1].database):
        raise UsageError(
            f"both sides are the study {sides[0]}; name two studies, or a second results folder as FOLDER:STUDY"
        )
    return sides[0], sides[1]


def _model_of(text: str, out: Path) -> DiffSide | None:
    """The side that ``STUDY:MODEL`` or ``FOLDER:STUDY:MODEL`` names; None where it is none of these.

    A folder with results goes before a study of the same name.
    """
    head, _, model = text.rpartition(":")
    folder, colon, study = head.rpartition(":")
    if not head or not model or (not colon and _file_of(Path(head)).is_file()):
        return None
    path = _file_of(Path(folder) if colon else out)
    if not path.is_file() or study not in _studies_of(path):
        return None
    with opened(path, read_only=True) as connection:
        rows = connection.execute(
            "SELECT DISTINCT model FROM models WHERE study = ? ORDER BY model", [study]
        ).fetchall()
    names = [str(name) for (name,) in rows]
    if model not in names:
        raise UsageError(f"no model '{one_line(model)}' in study {study}{hint(model, names, 'it has')}")
    return DiffSide(path.resolve(), study, model) if colon else DiffSide(path, study, model)


def _file_of(path: Path) -> Path:
    return path if path.is_file() else path / DATABASE


def _read(text: str, out: Path) -> tuple[Path, str | None]:
    """The file and, where it is named, the study."""
    folder, colon, study = text.rpartition(":")
    if not colon and re.fullmatch(STUDY_ID, text):
        path, name = out, text
    elif colon and folder and (not study or re.fullmatch(STUDY_ID, study)):
        path, name = Path(folder), study
    else:
        raise UsageError(
            f"cannot read '{one_line(text)}'; write STUDY, STUDY:MODEL, FOLDER:STUDY, or FOLDER: for its only study"
        )
    path = _file_of(path)
    if not path.is_file():
        raise UsageError(f"{path} does not exist; run the study first, or name its folder{_perhaps_a_folder(text)}")
    return path, name or None


def _perhaps_a_folder(text: str) -> str:
    is_folder = ":" not in text and (Path(text) / DATABASE).is_file()
    return f". For the results folder {one_line(text)} write '{one_line(text)}:'" if is_folder else ""


def _studies_of(path: Path) -> list[str]:
    with opened(path, read_only=True) as connection:
        query = "SELECT study FROM studies ORDER BY study"
        rows = connection.execute(query).fetchall() if version_of(connection, path) else None
    if not rows:
        raise UsageError(f"{path} has no study yet; run `reporter run STUDY` first")
    return [str(study) for (study,) in rows]


@contextmanager
def side_by_side(sides: Sequence[DiffSide]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the files of two sides for reading; nothing is written into either, however old it is.

    Yields:
        A connection with the views ``a_TABLE`` and ``b_TABLE`` for every table of today: that side's rows, without
        ``study``. What an older file lacks is empty or NULL. Of sides that are single models, views have that model's
        rows alone, of its last checkpoint, and both sides' model has the same name; what is of the whole study and of
        no model is left out. The table ``paired_over_texts`` has the differences that the study stored: how far their
        intervals reach below (``down``) and above (``up``).

        Of two models of different depth, the deeper one's ``layer_metrics`` are its view ``DEEPER``. Every other table
        whose rows are about layers or blocks is empty.

    Raises:
        ReporterError: a file cannot be read.
    """
    import duckdb

    files: dict[str, Path] = {}
    names = []
    for side in sides:  # DuckDB attaches a file only once
        path = side.database.resolve()
        name = next((name for name, other in files.items() if other == path), f"file_{len(files)}")
        files[name] = path
        names.append(name)
    with attached(files) as connection:
        try:
            both = " | ".join(dict.fromkeys(side.model for side in sides if side.model))
            present, blocks = {name: table_columns(connection, name) for name in files}, None
            for table in sorted(tables().values(), key=lambda table: table.name != "models"):
                for prefix, side, name in zip("ab", sides, names, strict=True) if "study" in table.types else ():
                    connection.execute(
                        _view(table, prefix, side, name, present[name].get(table.name, ()), both, blocks)
                    )
                if table.name == "models" and sides[0].model:
                    blocks = block_counts(connection)
            for statement in _stored(sides, names[0] if names[0] == names[1] else None, present[names[0]]):
                connection.execute(statement)
            yield connection
        except duckdb.Error as problem:
            raise ReporterError(f"cannot compare {sides[0]} and {sides[1]}: {problem}") from problem


def block_counts(connection: duckdb.DuckDBPyConnection) -> Blocks:
    """Return the numbers of blocks of two models that differ in depth, of a connection of `side_by_side`."""
    rows = [connection.execute(f"SELECT max(layers) FROM {side}_models").fetchone() for side in "ab"]
    a, b = (int(row[0] or 0) if row else 0 for row in rows)
    return (a, b) if a and b and a != b else None


def _view(table: Table, prefix: str, side: DiffSide, file: str, has: Sequence[str], both: str, blocks: Blocks) -> str:
    of_study = f"study = {quoted(side.study)}"
    last = (
        f'(SELECT checkpoint FROM "{file}".models WHERE {of_study} AND model = {quoted(side.model or "")} AND is_last)'
    )
    wanted_values = {"model": quoted(side.model or ""), "checkpoint": last}
    shown = {"model": quoted(both), "checkpoint": "'final'"}
    where, renamed = [of_study], dict[str, str]()
    if side.model is not None:
        held = {c.name: part for c in table.columns if (part := re.sub("_[ab]$", "", c.name)) in wanted_values}
        where += [f'"{name}" = {wanted_values[part]}' for name, part in held.items() if name in has]
        renamed = {name: shown[part] for name, part in held.items()}
        has = has if held or table.name in _OF_STUDY else ()
    if blocks and table.name not in _AT_DEPTHS and any(map(_BY_DEPTH.search, table.types)):
        has = ()
    columns = ", ".join(
        f'''{renamed.get(c.name, f'"{c.name}"')} AS "{c.name}"''' if c.name in has else f'NULL::{c.type} AS "{c.name}"'
        for c in table.columns
        if c.name != "study"
    )
    source = f'FROM "{file}".{table.name} WHERE {" AND ".join(where)}' if has else "WHERE false"
    deeper = blocks and blocks["ab".index(prefix)] > min(blocks) and table.name == "layer_metrics"
    return f"CREATE TEMP VIEW {prefix}_{DEEPER if deeper else table.name} AS SELECT {columns} {source}"


_STORED = (
    ("differences", "metric, statistic, corpus_a, view, site, layer", ("model_a", "model_b"), "corpus_a = corpus_b"),
    (
        "probe_differences",
        "'probes', statistic, probe, 'text tokens', if(layer = 0, 'embedding', 'block'), layer",
        ("model", "other"),
        "last",
    ),
)
"""Tables of one model minus the other, paired over texts, of a model and its base: what a row is of, and which rows."""


def _stored(sides: Sequence[DiffSide], database: str | None, present: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the statements for what the study stored of a model minus its base, as B minus A."""
    a, b = sides
    names = "metric VARCHAR, statistic VARCHAR, corpus VARCHAR, view VARCHAR, site VARCHAR, layer INTEGER"
    yield f"CREATE TEMP TABLE paired_over_texts ({names}, down DOUBLE, up DOUBLE)"
    for table, columns, models, where in _STORED:
        if a.study == b.study and a.model and b.model and database and models[0] in present.get(table, ()):
            both = f"({quoted(a.model)}, {quoted(b.model)})"
            ends = "if({0}, ci_high - value, value - ci_low), if({0}, value - ci_low, ci_high - value)"
            yield (
                f"INSERT INTO paired_over_texts SELECT {columns}, {ends.format(f'{models[0]} = {quoted(a.model)}')} "
                f"FROM \"{database}\".{table} WHERE study = {quoted(a.study)} AND kind = 'base' AND ci_low IS NOT NULL "
                f"AND {models[0]} IN {both} AND {models[1]} IN {both} AND {where}"
            )
