"""Tables as Parquet: all of a study's rows, read by others and by ``reporter sql`` behind the same doors."""

import json
import shutil

import duckdb
import pytest

from reporter.core.errors import ReporterError, UsageError
from reporter.store import Store, query, query_frame
from reporter.store.parquet import MARK, write_parquet
from reporter.store.schema import SCHEMA_VERSION, tables


@pytest.fixture(scope="module")
def exported(tmp_path_factory, empty):
    """A database of two studies, and one folder with both as Parquet."""
    path = tmp_path_factory.mktemp("one") / "results.duckdb"
    shutil.copyfile(empty, path)
    store = Store(path)
    with store.together():
        for study in ("s", "t"):
            store.put("studies", ["study"], {"study": study, "title": "it's"})
            for model in ("bert", "a/b = ü", "007"):
                cell = {"study": study, "model": model, "checkpoint": "final", "corpus": "wiki", "metric": "motion"}
                row = {"view": "words", "statistic": "norm", "site": "block", "depth": None, "n": 7, "role": "encoder"}
                store.commit_cell(
                    cell | {"status": "done"}, [row | {"layer": layer, "value": 0.1 * layer} for layer in (1, 2)]
                )
    folder = path.parent / "parquet"
    for study in ("s", "t"):
        assert write_parquet(path, study, folder)
    return path, folder


def database_of(folder):
    return folder / "results.duckdb"  # where ``reporter sql --out FOLDER`` looks first


def test_the_same_question_has_the_same_answer(exported):
    path, folder = exported
    for sql in (
        "SELECT * FROM layer_metrics ORDER BY ALL",
        "FROM studies ORDER BY study",
        "FROM claims",
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal AND table_name = 'models'",
    ):
        assert query_frame(database_of(folder), sql).equals(query_frame(path, sql)), sql


def test_others_find_every_row_by_the_names_of_folders_or_without_them(exported):
    _, folder = exported
    with duckdb.connect() as connection:
        for hive in ("true", "false"):
            rows = connection.execute(
                "SELECT study, model, layer, value FROM read_parquet(?, "
                f"hive_partitioning = {hive}, hive_types_autocast = false) ORDER BY ALL",
                [f"{folder}/layer_metrics/study=s/*/*.parquet"],
            ).fetchall()
            models = [(model, layer) for model in ("007", "a/b = ü", "bert") for layer in (1, 2)]
            assert rows == [("s", model, layer, 0.1 * layer) for model, layer in models]


REFUSED = (
    "SELECT * FROM read_text('{folder}/reporter.json')",
    "SELECT * FROM read_parquet('{folder}/*/*/*.parquet')",
    "COPY cells TO '{folder}/out.csv'",
    "ATTACH '{path}' AS other",
)


def test_nothing_else_can_be_read_or_written(exported):
    path, folder = exported
    before = sorted(folder.rglob("*"))
    for sql in REFUSED:
        with pytest.raises(UsageError, match="not allowed"):
            pytest.fail(query(database_of(folder), sql.format(folder=folder, path=path)))
    assert sorted(folder.rglob("*")) == before


def test_a_study_that_is_exported_again_takes_the_place_of_its_own_rows_alone(exported, tmp_path):
    path, _ = exported
    folder = tmp_path / "parquet"
    for study in ("s", "t"):
        write_parquet(path, study, folder)
    copy = tmp_path / "results.duckdb"
    copy.write_bytes(path.read_bytes())
    with duckdb.connect(str(copy)) as connection:
        connection.execute("DELETE FROM layer_metrics WHERE study = 's' AND model != 'bert'")
    write_parquet(copy, "s", folder)
    sql = "SELECT study, count(*) AS n FROM layer_metrics GROUP BY ALL ORDER BY ALL"
    assert query_frame(database_of(folder), sql).values.tolist() == [["s", 2], ["t", 6]]
    assert {one.name for one in tmp_path.iterdir()} == {"parquet", "results.duckdb"}  # and no draft


def test_a_table_of_a_plug_in_that_is_not_there_can_be_read_all_the_same(exported, tmp_path):
    path, _ = exported
    folder = tmp_path / "parquet"
    write_parquet(path, "s", folder)
    (folder / "ends_of_sentences" / "study=s").mkdir(parents=True)
    with duckdb.connect() as connection:
        file = folder / "ends_of_sentences" / "study=s" / "data_0.parquet"
        connection.execute(f"COPY (SELECT 's' AS study, 0.5 AS distance) TO '{file}' (FORMAT parquet)")
    assert query_frame(database_of(folder), "SELECT * FROM ends_of_sentences").values.tolist() == [["s", 0.5]]


def test_what_is_not_ours_is_left_alone(exported, tmp_path):
    path, _ = exported
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(UsageError, match="has other files"):
        write_parquet(path, "s", tmp_path / "mine")
    with pytest.raises(UsageError, match="no study 'none'"):
        write_parquet(path, "none", tmp_path / "new")
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_is_newer_older_or_damaged(exported, tmp_path):
    path, _ = exported
    folder = tmp_path / "parquet"
    write_parquet(path, "s", folder)
    (file,) = folder.glob("studies/*/*.parquet")
    with duckdb.connect() as connection:  # that of an older plug-in lacks a column
        connection.execute(f"COPY (SELECT * EXCLUDE (looked_at) FROM '{file}') TO '{file}.new' (FORMAT parquet)")
    file.with_name(file.name + ".new").replace(file)
    found = query_frame(database_of(folder), "SELECT * FROM studies")
    assert list(found.columns) == [column.name for column in tables()["studies"].columns]
    file.write_bytes(b"nothing")
    with pytest.raises(ReporterError, match="studies cannot be read"):
        query(database_of(folder), "FROM cells")
    (folder / MARK).write_text(json.dumps({"reporter": "9.9", "schema_version": SCHEMA_VERSION + 1}))
    with pytest.raises(ReporterError, match=r"is newer than this version .*upgrade reporter"):
        query(database_of(folder), "FROM cells")
    (folder / MARK).write_text(json.dumps({"reporter": "0.0", "schema_version": SCHEMA_VERSION - 1}))
    with pytest.raises(ReporterError, match=r"by an older version of reporter .* export the study again"):
        query(database_of(folder), "FROM cells")
