"""A database from a stranger: what it holds beside tables is named and never runs, whoever opens it."""

import shutil

import duckdb
import pytest
from store.conftest import alter, cell, numbers

from reporter.app.diff import compare
from reporter.core.confined import confined
from reporter.core.errors import ReporterError, UsageError
from reporter.report import render
from reporter.runs.cache import entries
from reporter.runs.studies import find_study
from reporter.runs.whole import ask, merge
from reporter.store import Store, query
from reporter.store.parquet import MARK, write_parquet

READ = "SELECT content FROM read_text('{secret}')"
HOSTILE = {
    "view 'studies'": "DROP TABLE studies; CREATE VIEW studies AS SELECT 's' AS study, ({read}) AS title",
    "view 'schema_version'": "DROP TABLE schema_version; "
    "CREATE VIEW schema_version AS SELECT 21 AS version, content AS reporter FROM read_text('{secret}')",
    "view 'more'": "CREATE VIEW more AS {read}",
    "view 'layers'": "CREATE OR REPLACE VIEW layers AS {read}",
    "view 'Studies'": 'DROP TABLE studies; CREATE VIEW "Studies" AS {read}',
    "macro 'lower'": "CREATE MACRO lower(x) AS ({read})",
    "macro 'count'": "CREATE MACRO count(x) AS 5",
    "macro 'duckdb_tables'": "CREATE MACRO duckdb_tables() AS TABLE SELECT 'studies' AS table_name",
    "schema 'deep'": "CREATE SCHEMA deep; CREATE VIEW deep.studies AS {read}",
    "generated column 'studies.more'": "DROP TABLE studies; "
    "CREATE TABLE studies (study VARCHAR, more VARCHAR GENERATED ALWAYS AS (upper(study)) VIRTUAL)",
    "default value 'models.study'": "ALTER TABLE models ALTER study SET DEFAULT 'x' || random()",
    "constraint": "CREATE TABLE more (a INTEGER CHECK (a > random()))",
    "type BLOB instead of VARCHAR": "ALTER TABLE studies ALTER title TYPE BLOB",
}


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "id_rsa"
    file.write_text("hunter2")
    return file


@pytest.fixture
def folder(tmp_path, filled):
    """A results folder whose database ``change`` alters as a stranger does."""
    return shutil.copytree(filled.parent, tmp_path / "results")


def verbs(folder, tmp_path):
    """What opens the database, by verb; each in a process that has not seen the file in this state."""
    database = folder / "results.duckdb"
    return {
        "API": lambda: Store(database).records("SELECT * FROM studies"),
        "write": lambda: Store(database).commit_cell(cell(), numbers()),
        "sql": lambda: query(database, "SELECT lower('ABC'), count(*) FROM studies"),
        "answer": lambda: ask("s", folder),
        "report": lambda: render(database, folder),
        "parquet": lambda: write_parquet(database, "s", tmp_path / "tables"),
        "merge": lambda: merge(tmp_path / "merged", [folder]),
        "diff": lambda: compare(f"{folder}:s", f"{folder}:t", tmp_path),
        "cache": lambda: entries(folder, Store(database)),
        "verify": lambda: find_study("s", folder),
    }


@pytest.mark.parametrize("name", HOSTILE)
def test_what_could_run_is_named_by_every_verb_and_does_not_run(folder, secret, tmp_path, name):
    alter(folder / "results.duckdb", HOSTILE[name].format(read=READ.format(secret=secret), secret=secret))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for verb, run in verbs(folder, tmp_path).items():
        with pytest.raises(ReporterError, match=name) as raised:
            run()
        assert "hunter2" not in str(raised.value), verb
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert before == after, "nothing was written"


def test_a_table_of_somebody_is_no_danger(folder):
    alter(folder / "results.duckdb", "CREATE TABLE mine AS SELECT 1 AS a; CREATE SEQUENCE numbers")
    assert query(folder / "results.duckdb", "FROM mine", "csv").split() == ["a", "1"]


def test_a_connection_reaches_the_files_that_it_is_given(tmp_path, secret):
    (tmp_path / "given.csv").write_text("a\n1\n")
    statements = [
        f"SELECT * FROM read_text('{secret}')",
        f"FROM '{secret}'",
        f"ATTACH '{tmp_path / 'new.duckdb'}'",
        f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM read_csv('https://example.org/x.csv')",
        "FROM secret",  # a variable of Python
    ]
    with confined([tmp_path / "given.csv"]) as connection:
        assert connection.execute(f"FROM '{tmp_path / 'given.csv'}'").fetchall() == [(1,)]
        for statement in statements:
            with pytest.raises(duckdb.Error):
                connection.execute(statement)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given.csv", "id_rsa"]


def test_links_in_a_folder_of_tables_are_not_followed(folder, tmp_path):
    write_parquet(folder / "results.duckdb", "s", tables := tmp_path / "tables")
    duckdb.sql("SELECT 'hunter2' AS study").write_parquet(str(tmp_path / "secret.parquet"))
    (tables / "studies/study=s/more.parquet").symlink_to(tmp_path / "secret.parquet")
    with pytest.raises(ReporterError, match=r"more\.parquet is a link"):
        query(tables / "results.duckdb", "FROM studies")
    (tables / "studies/study=s/more.parquet").unlink()
    (tables / "models").symlink_to(tmp_path)
    with pytest.raises(ReporterError, match="models is a link"):
        query(tables / "results.duckdb", "FROM studies")
    assert (tables / MARK).is_file()


def test_a_merge_writes_inside_its_target_and_copies_regular_files(folder, secret, tmp_path):
    look = folder / "s" / "look"
    look.mkdir(parents=True)
    (look / "index.html").write_text("mine")
    (look / "more.html").symlink_to(secret)
    (look / "style.css").symlink_to(secret)
    (look / "folder.html").mkdir()
    shutil.copytree(look, tmp_path / "look")
    merge(tmp_path / "merged", [folder])
    assert [path.name for path in (tmp_path / "merged/s/look").glob("*.*ml")] == ["index.html"]
    assert "hunter2" not in "".join(
        p.read_text("utf-8", "replace") for p in tmp_path.glob("merged/**/*") if p.is_file()
    )
    for study in ("a/../../escaped", "..", "/etc/x", "A", "x\0y"):
        alter(folder / "results.duckdb", f"UPDATE studies SET study = {study!r}; UPDATE cells SET study = {study!r}")
        with pytest.raises(ReporterError, match="cannot be a folder's name"):
            merge(tmp_path / "again", [folder])
        assert not (tmp_path / "again").exists() and not (tmp_path / "escaped").exists()
        alter(folder / "results.duckdb", "UPDATE studies SET study = 's'; UPDATE cells SET study = 's'")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("plugins: [evil.py]", "the plug-in .*evil.py"),
        ("models: {m: {path: m, trust_remote_code: true}}", "the Python code of model 'm'"),
        ("extends: more.yaml", "the plug-in .*evil.py"),
    ],
)
def test_code_that_a_database_names_runs_only_where_the_user_names_the_study(folder, tmp_path, monkeypatch, text, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    (tmp_path / "more.yaml").write_text("study: more\nplugins: [evil.py]")
    Store(folder / "results.duckdb").put("studies", ["study"], {"study": "s", "spec": f"study: s\n{text}"})
    with pytest.raises(UsageError, match=rf"would run {code}\. If you trust it, name the YAML file"):
        find_study("s", folder)
    merge(tmp_path / "merged", [folder])
    assert not (tmp_path / "ran").exists()
