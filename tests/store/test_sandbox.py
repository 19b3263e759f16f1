import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing import Pipe

import duckdb
import pytest
from store.escapes import ESCAPES, TELLS

from reporter.core.errors import ReporterError, UsageError
from reporter.store import query, sandbox, stream, write_parquet

READING = (
    "SELECT count(*) FROM layer_metrics",
    "FROM cells",
    "WITH best AS (SELECT max(value) AS value FROM layer_metrics) SELECT * FROM best",
    "DESCRIBE layer_metrics",
    "SHOW TABLES",
    "SUMMARIZE layer_metrics",
    "PIVOT layer_metrics ON layer USING max(value) GROUP BY study",
    "EXPLAIN SELECT 1",
    "SELECT comment FROM duckdb_columns() WHERE table_name = 'cells';",
)


def test_reading_is_allowed(filled):
    for sql in READING:
        assert query(filled, sql, "json"), sql


@pytest.fixture
def secret(tmp_path, monkeypatch):
    """A file and a variable of the environment that nobody may read; gives the file."""
    monkeypatch.setenv("PLANTED_SECRET", "hunter3")
    sandbox._end()  # the next process has the variable, as it would have a user's
    file = tmp_path / "secret.csv"
    file.write_text("password\nhunter2\n")
    return file


def test_everything_else_is_refused_in_one_line(filled, secret):
    rows_of_the_caller = [1, 2]  # a variable of the caller must not be taken for a table
    before = filled.read_bytes()
    for sql in ESCAPES:
        with pytest.raises(UsageError) as caught:
            pytest.fail(query(filled, sql.format(folder=secret.parent, secret=secret)))
        said = str(caught.value)
        assert "\n" not in said and len(said) < 400 and "hunter" not in said, sql
    assert filled.read_bytes() == before
    assert {file.name for file in secret.parent.iterdir()} == {"secret.csv"}
    assert {file.name for file in filled.parent.iterdir()} == {"results.duckdb"}
    assert rows_of_the_caller == [1, 2]


def test_what_duckdb_tells_of_itself_holds_no_secret(filled, secret):
    for sql in TELLS:
        with suppress(UsageError):
            assert "hunter" not in query(filled, sql, "csv"), sql


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", 'Parser Error: syntax error at or near "SELEC" (line 1, column 1)'),
        ("SELECT 1,\n  valu FROM layer_metrics", "(line 2, column 3)"),
        ("SELECT " + "1 + " * 100 + "x FROM cells", "(line 1, column 408)"),
        ("SELECT 1; SELECT 2", "expected exactly one SQL statement, got 2"),
        (" -- nothing", "expected exactly one SQL statement, got none"),
        ("SELECT ?", "Values were not provided"),
        ("SELECT now() AS t", "write t::TIMESTAMP"),
    ],
)
def test_a_wrong_statement_is_one_line_with_its_place(filled, sql, message):
    with pytest.raises(UsageError) as caught:
        query(filled, sql)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_long_query_is_stopped(filled):
    with pytest.raises(ReporterError, match=r"stopped after 0\.2 s"):
        query(filled, "SELECT count(*) FROM range(1000000000000)", limit_seconds=0.2)
    with pytest.raises(ReporterError, match=r"stopped after 0\.2 s"):
        query(filled, "SELECT * FROM range(1000000000000)", limit_seconds=0.2)


def test_a_greedy_query_is_stopped(filled, monkeypatch):
    monkeypatch.setattr("reporter.store.sandbox.MEMORY", "50MB")
    sql = "SELECT sum(n) FROM (SELECT range % 5000000 AS k, count(*) AS n FROM range(20000000) GROUP BY k)"
    with pytest.raises(ReporterError, match="more than 50MB of memory"):
        query(filled, sql)
    assert [file.name for file in filled.parent.iterdir()] == ["results.duckdb"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT levenshtein(repeat('ab', 200000), repeat('ba', 200000))",  # minds no clock
        "SELECT repeat('x', 3000000000)",  # minds no limit of memory
    ],
)
def test_a_query_that_does_not_mind_duckdb_minds_the_operating_system(filled, sql):
    with pytest.raises(ReporterError, match=r"stopped after 1 s|more than 2GB of memory"):
        query(filled, sql, limit_seconds=1)
    assert query(filled, "SELECT 1 AS one", "csv") == "one\r\n1"  # and the next one is answered


def test_rows_come_as_they_are_found(filled):
    text = stream(filled, "SELECT range AS n FROM range(100000)", "csv")
    assert next(text) == "n"
    assert next(text).startswith("\r\n0\r\n1\r\n")
    text.close()
    assert query(filled, "SELECT 1 AS one", "csv") == "one\r\n1"


def test_a_file_left_by_a_killed_writer_can_be_queried(store):
    with duckdb.connect(str(store.path)) as writer:
        writer.execute("SET wal_autocheckpoint = '1GB'")
        writer.execute("PRAGMA disable_checkpoint_on_shutdown")
        writer.execute("INSERT INTO studies (study) VALUES ('late')")
    assert store.path.with_name("results.duckdb.wal").exists()
    assert query(store.path, "SELECT study FROM studies", "csv") == "study\r\nlate"


def test_no_results_yet(tmp_path):
    with pytest.raises(UsageError, match="does not exist; run `reporter run STUDY` first"):
        query(tmp_path / "results.duckdb", "SELECT 1")


def test_parquet_keeps_types_and_writes_one_file_alone(filled, tmp_path):
    with (tmp_path / "rows.parquet").open("wb") as file:
        sql = "SELECT model, layer, value, ci_low, DATE '2026-01-31' AS day FROM layer_metrics ORDER BY layer -- all\n;"
        write_parquet(filled, sql, file)
    rows = duckdb.read_parquet(str(tmp_path / "rows.parquet"))
    assert list(map(str, rows.types)) == ["VARCHAR", "INTEGER", "DOUBLE", "DOUBLE", "DATE"]
    assert [row[:4] for row in rows.fetchall()] == [("bert", i, pytest.approx(0.1 * i), None) for i in range(5)]
    for sql, said in (
        ("SELECT nothing FROM cells", r'"nothing" not found.*\(line 1, column 8\)'),
        ("EXPLAIN SELECT 1", "EXPLAIN returns no rows to write as Parquet; write a SELECT"),
        ("COPY cells TO 'x.parquet'", "COPY is not allowed"),
        ("SELECT 1) TO 'x.parquet' (FORMAT parquet); SELECT (1", "Parser Error|exactly one"),
    ):
        with (tmp_path / "none.parquet").open("wb") as file, pytest.raises(UsageError, match=said):
            write_parquet(filled, sql, file)
        assert (tmp_path / "none.parquet").stat().st_size == 0


def test_a_process_that_hangs_is_ended_and_the_next_question_is_answered(filled, monkeypatch):
    """A stopped process is one that hangs, before it has opened the file and after."""
    assert query(filled, "SELECT 1 AS one", "csv")
    monkeypatch.setattr(sandbox, "_OPENING_SECONDS", 1.0)
    hung = sandbox._worker().process
    hung.send_signal(signal.SIGSTOP)
    with pytest.raises(ReporterError, match=r"did not answer for 1 s and was ended; run the query again"):
        query(filled, "SELECT 2")
    assert hung.poll() is not None
    monkeypatch.undo()
    assert query(filled, "SELECT 3 AS three", "csv").split() == ["three", "3"]


def test_no_code_of_the_current_folder_runs(filled, tmp_path, monkeypatch):
    for module in ("json", "select", "duckdb", "reporter"):
        (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    sandbox._end()
    assert query(filled, "SELECT 1 AS one", "csv") == "one\r\n1"
    assert not (tmp_path / "ran").exists()


def test_too_little_memory_to_begin_with_is_said_and_not_taken_for_a_greedy_query():
    code = """
import sys
from reporter.store import sandbox
def refused(): raise MemoryError
sandbox._limit_memory = refused
sandbox.answer_questions(int(sys.argv[1]))
"""
    ours, theirs = Pipe()
    command = [sys.executable, "-c", code, str(theirs.fileno())]
    subprocess.run(command, check=True, pass_fds=[theirs.fileno()])
    assert b"out of memory" in ours.recv_bytes()
