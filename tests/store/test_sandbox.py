"""SQL of users reads the results and nothing else, within its time and memory, and errors are one line."""

import signal
from contextlib import suppress

import duckdb
import pytest
from store.conftest import alter

from reporter.core.errors import ReporterError, UsageError
from reporter.store import query, sandbox, stream, write_parquet

ONE = "SELECT 1 AS one"
READING = (
    "SELECT count(*) FROM layer_metrics",
    "WITH best AS (SELECT max(value) AS value FROM layer_metrics) SELECT * FROM best",
    *("DESCRIBE layer_metrics", "SHOW TABLES", "SUMMARIZE layer_metrics", "EXPLAIN SELECT 1"),
    "PIVOT layer_metrics ON layer USING max(value) GROUP BY study",
    "SELECT comment FROM duckdb_columns() WHERE table_name = 'cells';",
)
ESCAPES = [
    # Files.
    "SELECT * FROM '{secret}'",
    *(f"SELECT * FROM read_{form}('{{secret}}')" for form in ("csv", "text", "blob", "json", "parquet")),
    *(f"SELECT * FROM {function}('{{secret}}')" for function in ("parquet_metadata", "sniff_csv", "glob")),
    *(f"SELECT * FROM read_text('{place}')" for place in ("/proc/self/environ", "../secret.csv")),
    "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "PIVOT '{secret}' ON password USING count(*)",
    "EXPLAIN ANALYZE SELECT * FROM read_text('{secret}')",
    # Writing, and other databases.
    *("COPY cells TO '{folder}/out.csv'", "COPY FROM DATABASE memory TO results", "EXPORT DATABASE '{folder}/out'"),
    *("ATTACH '{folder}/other.duckdb' AS other", "DETACH results", "INSERT INTO cells (study) VALUES ('x')"),
    "CREATE TABLE x AS SELECT * FROM read_text('{secret}')",
    "WITH x AS (DELETE FROM cells RETURNING *) FROM x",
    "MERGE INTO cells USING (SELECT 'x' AS study) AS s ON cells.study = s.study WHEN MATCHED THEN DELETE",
    # Extensions, the network, settings, the environment, more than one statement, the caller's variables.
    *("INSTALL httpfs", "LOAD '{folder}/planted.duckdb_extension'", "SET enable_external_access = true"),
    "SELECT * FROM read_csv('https://example.invalid/x.csv')",
    "SET VARIABLE x = (SELECT content FROM read_text('{secret}'))",
    "PRAGMA profiling_output = '{folder}/out.json'",
    *("CHECKPOINT", "VACUUM", "TRUNCATE cells", "RESET memory_limit", "CALL enable_logging()", "UPDATE EXTENSIONS"),
    *("CREATE SECRET (TYPE s3)", "FROM duckdb_secrets()", "PREPARE x AS SELECT 1", "USE memory"),
    *("SELECT getenv('PLANTED_SECRET') AS value", "SELECT 1; COPY cells TO '{folder}/out.csv'"),
    *("SELECT * FROM python_map_function()", "SELECT * FROM rows_of_the_caller"),
]
TELLS = (  # what may be read, so long as no secret of the machine is in it
    *("FROM duckdb_settings()", "FROM duckdb_databases()", "FROM duckdb_variables()"),
    "SELECT current_setting('temp_directory'), current_setting('home_directory'), current_setting('secret_directory')",
)


def answers(path):
    return query(path, ONE, "csv") == "one\n1"


@pytest.fixture
def secret(tmp_path, monkeypatch):
    """A file and a variable of the environment that no query may read; gives the file."""
    monkeypatch.setenv("PLANTED_SECRET", "hunter3")
    sandbox._end()  # the next process has the variable, as it would have a user's
    file = tmp_path / "secret.csv"
    file.write_text("password\nhunter2\n")
    return file


def test_reading_is_allowed_and_everything_else_is_refused_in_one_line(filled, secret):
    rows_of_the_caller = [1, 2]  # a variable of the caller must not be taken for a table
    before = filled.read_bytes()
    for sql in READING:
        assert query(filled, sql, "json"), sql
    for sql in ESCAPES:
        with pytest.raises(UsageError) as caught:
            pytest.fail(query(filled, sql.format(folder=secret.parent, secret=secret)))
        message = str(caught.value)
        assert "\n" not in message and len(message) < 400 and "hunter" not in message, sql
    for sql in TELLS:
        with suppress(UsageError):
            assert "hunter" not in query(filled, sql, "csv"), sql
    assert filled.read_bytes() == before and rows_of_the_caller == [1, 2]
    assert {file.name for file in secret.parent.iterdir()} == {"secret.csv"}
    assert {file.name for file in filled.parent.iterdir()} == {"results.duckdb"}


def test_a_wrong_statement_is_one_line_with_its_place(filled):
    for sql, message in (
        ("SELEC 1", 'Parser Error: syntax error at or near "SELEC" (line 1, column 1)'),
        ("SELECT 1,\n  valu FROM layer_metrics", "(line 2, column 3)"),
        ("SELECT " + "1 + " * 100 + "x FROM cells", "(line 1, column 408)"),
        ("SELECT 1; SELECT 2", "expected exactly one SQL statement, got 2"),
        (" -- nothing", "expected exactly one SQL statement, got none"),
        ("SELECT ?", "Values were not provided"),
        ("SELECT now() AS t", "write t::TIMESTAMP"),
    ):
        with pytest.raises(UsageError) as caught:
            query(filled, sql)
        assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_query_that_takes_too_much_is_stopped_and_the_next_one_answered(filled, monkeypatch):
    monkeypatch.setattr(sandbox, "MEMORY", "50MB")
    monkeypatch.setattr(sandbox, "_GRACE_SECONDS", 0.5)
    for sql, seconds, message in (
        ("SELECT count(*) FROM range(1000000000000)", 0.2, r"stopped after 0\.2 s"),
        ("SELECT * FROM range(1000000000000)", 0.2, r"stopped after 0\.2 s"),
        ("SELECT sum(n) FROM (SELECT range, count(*) AS n FROM range(4000000) GROUP BY range)", 30, "than 50MB of"),
        # The operating system ends what minds no clock of DuckDB, and what minds no limit of its memory.
        ("SELECT levenshtein(repeat('ab', 200000), repeat('ba', 200000))", 0.2, r"stopped after 0\.2 s"),
        ("SELECT repeat('x', 3000000000)", 1, "stopped after 1 s|more than 50MB of memory"),
    ):
        with pytest.raises(ReporterError, match=message):
            query(filled, sql, limit_seconds=seconds)
        assert answers(filled) and [file.name for file in filled.parent.iterdir()] == ["results.duckdb"], sql


def test_rows_come_as_they_are_found(filled):
    text = stream(filled, "SELECT range AS n FROM range(100000)", "csv")
    assert next(text) == "n" and next(text).startswith("\n0\n1\n")
    text.close()
    assert answers(filled)


def test_a_file_left_by_a_killed_writer_can_be_queried(store):
    setting = "SET wal_autocheckpoint = '1GB'; PRAGMA disable_checkpoint_on_shutdown"
    alter(store.path, f"{setting}; INSERT INTO studies (study) VALUES ('late')")
    assert store.path.with_name("results.duckdb.wal").exists()
    assert query(store.path, "SELECT study FROM studies", "csv") == "study\nlate"


def test_parquet_keeps_types_and_writes_one_file_alone(filled, tmp_path):
    with (tmp_path / "rows.parquet").open("wb") as file:
        sql = "SELECT model, layer, value, ci_low, DATE '2026-01-31' AS day FROM layer_metrics ORDER BY layer -- all\n;"
        write_parquet(filled, sql, file)
    rows = duckdb.read_parquet(str(tmp_path / "rows.parquet"))
    assert list(map(str, rows.types)) == ["VARCHAR", "INTEGER", "DOUBLE", "DOUBLE", "DATE"]
    assert [row[:4] for row in rows.fetchall()] == [("bert", i, pytest.approx(0.1 * i), None) for i in range(5)]
    for sql, message in (
        ("SELECT nothing FROM cells", r'"nothing" not found.*\(line 1, column 8\)'),
        ("EXPLAIN SELECT 1", "EXPLAIN returns no rows to write as Parquet; write a SELECT"),
        ("COPY cells TO 'x.parquet'", "COPY is not allowed"),
        ("SELECT 1) TO 'x.parquet' (FORMAT parquet); SELECT (1", "Parser Error|exactly one"),
    ):
        with (tmp_path / "none.parquet").open("wb") as file, pytest.raises(UsageError, match=message):
            write_parquet(filled, sql, file)
        assert (tmp_path / "none.parquet").stat().st_size == 0


def test_a_process_that_hangs_is_ended_and_the_next_question_is_answered(filled, monkeypatch):
    """A stopped process is one that hangs, before it has opened the file and after."""
    assert answers(filled)
    hung = sandbox._worker().process
    hung.send_signal(signal.SIGSTOP)
    with monkeypatch.context() as patch, pytest.raises(ReporterError, match=r"did not answer for 1 s and was ended"):
        patch.setattr(sandbox, "_OPENING_SECONDS", 1.0)
        query(filled, ONE)
    assert hung.poll() is not None and answers(filled)


def test_no_code_of_the_current_folder_runs(filled, tmp_path, monkeypatch):
    for module in ("json", "select", "duckdb", "reporter"):
        (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    sandbox._end()
    assert answers(filled) and not (tmp_path / "ran").exists()
