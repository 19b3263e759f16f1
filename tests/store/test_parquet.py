"""Tables as Parquet: all of a study's rows, read by others and by ``reporter sql`` behind the same doors."""

import json
import shutil
from pathlib import Path

import duckdb
import pytest
from store.conftest import alter, cell, numbers

from reporter.core.errors import ReporterError, UsageError
from reporter.store import Store, query, query_frame
from reporter.store.parquet import MARK, write_parquet
from reporter.store.schema import SCHEMA_VERSION, tables

MODELS = ("007", "a/b = ü", "bert")


@pytest.fixture(scope="module")
def database(tmp_path_factory, empty):
    """A database of two studies."""
    store = Store(Path(shutil.copy(empty, tmp_path_factory.mktemp("one"))))
    with store.together():
        for study in ("s", "t"):
            store.put("studies", ["study"], {"study": study, "title": "it's"})
            for model in MODELS:
                store.commit_cell(cell(study=study, model=model), numbers(layers=1, depth=None))
    return store.path


@pytest.fixture
def folder(database, tmp_path):
    """A folder with one study as Parquet, in which a test may change things."""
    write_parquet(database, "s", tmp_path / "parquet")
    return tmp_path / "parquet"


def ask(folder, sql):
    return query_frame(folder / "results.duckdb", sql)  # where ``reporter sql --out FOLDER`` looks first


def test_the_same_question_has_the_same_answer_and_nothing_else_can_be_read_or_written(database, folder):
    write_parquet(database, "t", folder)
    for sql in (
        "SELECT * FROM layer_metrics ORDER BY ALL",
        "FROM studies ORDER BY study",
        "FROM claims",
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal AND table_name = 'models'",
    ):
        assert ask(folder, sql).equals(query_frame(database, sql)), sql
    before = sorted(folder.rglob("*"))
    for sql in (
        f"SELECT * FROM read_text('{folder}/reporter.json')",
        f"SELECT * FROM read_parquet('{folder}/*/*/*.parquet')",
        f"COPY cells TO '{folder}/out.csv'",
        f"ATTACH '{database}' AS other",
    ):
        with pytest.raises(UsageError, match="not allowed"):
            pytest.fail(query(folder / "results.duckdb", sql))
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("hive", ["true", "false"])
def test_others_find_every_row_by_the_names_of_folders_or_without_them(folder, hive):
    how = f"hive_partitioning = {hive}, hive_types_autocast = false"
    files = f"read_parquet('{folder}/layer_metrics/study=s/*/*.parquet', {how})"
    rows = duckdb.sql(f"SELECT study, model, layer, value FROM {files} ORDER BY ALL").fetchall()
    assert rows == [("s", model, layer, 0.1 * layer) for model in MODELS for layer in (0, 1)]


def test_a_study_that_is_exported_again_takes_the_place_of_its_own_rows_alone(database, folder, tmp_path):
    write_parquet(database, "t", folder)
    changed = Path(shutil.copy(database, tmp_path))
    alter(changed, "DELETE FROM layer_metrics WHERE study = 's' AND model != 'bert'")
    write_parquet(changed, "s", folder)
    sql = "SELECT study, count(*) AS n FROM layer_metrics GROUP BY ALL ORDER BY ALL"
    assert ask(folder, sql).values.tolist() == [["s", 2], ["t", 6]]
    assert {file.name for file in tmp_path.iterdir()} == {"parquet", "results.duckdb"}  # and no draft


def test_what_is_not_ours_is_left_alone(database, tmp_path):
    (tmp_path / "thesis.txt").write_text("years")
    for study, place, message in (("s", tmp_path, "was not written"), ("none", tmp_path / "new", "no study 'none'")):
        with pytest.raises(UsageError, match=message):
            write_parquet(database, study, place)
    assert [file.name for file in tmp_path.rglob("*")] == ["thesis.txt"]


def test_a_folder_that_is_of_another_plug_in_or_version_or_damaged(folder):
    (place := folder / "ends_of_sentences/study=s").mkdir(parents=True)  # the table of a plug-in that is not here
    duckdb.sql("SELECT 's' AS study, 0.5 AS distance").write_parquet(f"{place}/data_0.parquet")
    assert ask(folder, "SELECT * FROM ends_of_sentences").values.tolist() == [["s", 0.5]]
    (file,) = folder.glob("studies/*/*.parquet")
    older = duckdb.read_parquet(str(file)).df().drop(columns="looked_at")  # that of an older plug-in lacks a column
    duckdb.from_df(older).write_parquet(str(file))
    assert list(ask(folder, "FROM studies").columns) == [column.name for column in tables()["studies"].columns]
    file.write_bytes(b"nothing")
    for version, message in (
        (0, "studies cannot be read"),
        (1, r"is newer than this version .*upgrade reporter"),
        (-1, r"export the study again: an older version of reporter"),
    ):
        (folder / MARK).write_text(json.dumps({"reporter": "9.9", "schema_version": SCHEMA_VERSION + version}))
        with pytest.raises(ReporterError, match=message):
            ask(folder, "FROM cells")
