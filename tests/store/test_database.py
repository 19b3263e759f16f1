from datetime import UTC, datetime, timedelta, timezone

import duckdb
import numpy as np
import pandas as pd
import pytest

from reporter.core.errors import ReporterError, UsageError
from reporter.store import CellKey, CellName, Store, StudyRecord, shape


def test_reads_before_the_first_write_find_nothing_and_make_nothing(fresh):
    assert fresh.cells("s") == {}
    assert fresh.find("f1") == {}
    assert fresh.prune("s", []) == 0
    with pytest.raises(UsageError, match="does not exist"):
        fresh.frame("FROM cells")
    assert not fresh.path.parent.exists()


def test_a_cell_and_its_numbers_come_back(store, cell, numbers):
    store.commit_cell(cell(options={"sample": 4096}, error=None, tokens=10), numbers())
    record = store.cells("s")[("bert", "final", "wiki", "motion")]
    assert (record.fingerprint, record.status, record.error) == ("f1", "done", None)
    rows = store.frame("SELECT * FROM layer_metrics ORDER BY layer")
    assert rows["value"].tolist() == [0.1 * layer for layer in range(5)]
    assert set(rows["metric"]) == {"motion"} and set(rows["study"]) == {"s"}
    assert rows["ci_low"].isna().all()
    assert store.frame("SELECT options FROM cells").iloc[0, 0] == '{"sample": 4096}'


def test_the_numbers_of_a_cell_are_replaced_and_others_stay(store, cell, numbers):
    store.commit_cell(cell(), numbers(layers=4))
    store.commit_cell(cell(metric="anisotropy"), numbers(layers=2))
    store.commit_cell(cell(study="other"), numbers(layers=3))
    store.commit_cell(cell(fingerprint="f2"), numbers(layers=6, value=9.0))
    counts = store.frame("SELECT study, metric, count(*) AS n FROM layer_metrics GROUP BY ALL ORDER BY ALL")
    assert counts.values.tolist() == [["other", "motion", 4], ["s", "anisotropy", 3], ["s", "motion", 7]]
    assert store.cells("s")[("bert", "final", "wiki", "motion")].fingerprint == "f2"


def test_a_failed_cell_has_its_error_and_no_numbers(store, cell, numbers):
    store.commit_cell(cell(), numbers())
    store.commit_cell(cell(status="failed", error="out of memory"))
    record = store.cells("s")[("bert", "final", "wiki", "motion")]
    assert (record.status, record.error) == ("failed", "out of memory")
    assert store.frame("SELECT count(*) FROM layer_metrics").iloc[0, 0] == 0
    assert store.find("f1") == {}


@pytest.mark.parametrize("column", ["value", "ci_low", "depth"])
def test_nan_and_infinity_are_refused_and_nothing_is_written(store, cell, numbers, column):
    for bad in (float("nan"), float("inf"), np.float32("-inf")):
        rows = numbers()
        rows[3][column] = bad
        with pytest.raises(ValueError, match=rf"layer_metrics\.{column} = .*statistic='norm'.*layer=3"):
            store.commit_cell(cell(), rows)
    assert store.cells("s") == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": "high"}, "layer_metrics.value"),
        ({"n": 2.5}, "layer_metrics.n = 2.5: not a whole number"),
        ({"n": float("inf")}, "layer_metrics.n = inf: not a whole number"),
        ({"view": 3}, "layer_metrics.view = 3: not text"),
        ({"model": "gpt2"}, "was given for cell"),
    ],
)
def test_wrong_numbers_are_refused(fresh, cell, numbers, changes, message):
    with pytest.raises(ValueError, match=message):
        fresh.commit_cell(cell(), numbers(**changes))
    assert not fresh.path.exists()


def test_a_wrong_cell_and_a_number_given_twice_are_refused(store, cell, numbers):
    with pytest.raises(ValueError, match=r"'layer': 0.* occurs twice"):
        store.commit_cell(cell(), [*numbers(), numbers()[0]])
    for changes, message in (({"corpus": None}, "no corpus"), ({"status": "ok"}, "'ok'"), ({"colour": 1}, "colour")):
        with pytest.raises(ValueError, match=message):
            store.commit_cell(cell(**changes))


def test_put_inserts_then_updates_and_keeps_what_is_not_given(store):
    store.put("studies", ["study"], {"study": "s", "title": "T", "views": ["words", "all"]})
    store.put("studies", ["study"], {"study": "t", "title": "U"})
    store.put("studies", ["study"], {"study": "s", "seconds": 3.5, "cells_run": 2})
    store.put("studies", ["study"], {"study": "s"})
    rows = store.frame("SELECT study, title, views, seconds FROM studies ORDER BY study")
    assert rows.iloc[0].tolist() == ["s", "T", '["words", "all"]', 3.5]
    assert len(rows) == 2 and rows["title"][1] == "U"
    store.put("studies", ["study"], {"study": "s", "title": None})
    assert store.frame("SELECT count(*) FROM studies WHERE title IS NULL").iloc[0, 0] == 1


@pytest.mark.parametrize(
    ("table", "row", "message"),
    [
        ("study", {"study": "s"}, "no table 'study'"),
        ("studies", {"study": "s", "started": "today"}, "not a datetime"),
        ("claims", {"study": "s", "holds_outside": 1}, "neither true nor false"),
        ("studies", {"study": "s", "versions": {"x": float("nan")}}, "studies.versions"),
    ],
)
def test_put_refuses_what_does_not_fit(store, table, row, message):
    with pytest.raises(ValueError, match=message):
        store.put(table, ["study"], row)


def test_all_rows_of_one_study_are_replaced_with_flags_and_whole_numbers_of_numpy(store):
    row = {"claim": "c", "holds_outside": np.bool_(True), "number": np.int64(3)}
    for study in ("s", "t"):
        store.replace("claims", study, [row])
    store.replace("claims", "t", [])
    assert store.records("SELECT study, holds_outside, number FROM claims") == [
        {"study": "s", "holds_outside": True, "number": 3}
    ]
    assert store.frame("SELECT holds_outside FROM claims").iloc[0, 0] is np.True_


def test_times_are_stored_in_utc(store):
    assert store.study("s") is None
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    store.put("studies", ["study"], {"study": "s", "spec_hash": "h", "started": noon})
    assert store.study("s") == StudyRecord("h", None)
    store.put("studies", ["study"], {"study": "s", "finished": noon.astimezone(UTC)})
    assert store.study("s") == StudyRecord("h", datetime(2026, 1, 1, 10))
    started, finished = store.frame("SELECT started, finished FROM studies").iloc[0]
    assert started == finished == pd.Timestamp("2026-01-01 10:00")


def test_prune_drops_what_the_study_no_longer_has(store, cell, numbers):
    for study in ("s", "other"):
        for model, corpus in [("bert", "wiki"), ("gpt2", "wiki"), ("gpt2", "tweets")]:
            store.commit_cell(cell(study=study, model=model, corpus=corpus), numbers())
            for table, row in (("models", {"model": model, "checkpoint": "final"}), ("corpora", {"corpus": corpus})):
                store.put(table, ["study", *row], {"study": study} | row)
    keep = [("bert", "final", "wiki", "motion"), ("bert", "final", "wiki", "to come")]
    assert store.prune("s", keep) == 2
    assert store.prune("s", keep) == 0
    assert set(store.cells("s")) == {CellName("bert", "final", "wiki", "motion")}
    left = {"layer_metrics": [("other", 15), ("s", 5)], "models": [("other", 2), ("s", 1)]}
    left["corpora"] = left["models"]
    for table, rows in left.items():
        found = store.frame(f"SELECT study, count(*) FROM {table} GROUP BY ALL ORDER BY ALL")
        assert list(found.itertuples(index=False, name=None)) == rows, table
    assert store.prune("s", []) == 1
    assert store.frame("SELECT count(*) FROM models WHERE study = 's'").iloc[0, 0] == 0


def test_find_gives_the_latest_finished_cell_of_any_study(store, cell):
    store.commit_cell(cell(status="failed", finished=datetime(2026, 3, 1)))
    store.commit_cell(cell(study="a", finished=datetime(2026, 1, 1)))
    store.commit_cell(cell(study="b", finished=datetime(2026, 2, 1)))
    assert store.find("f1", "f3") == {"f1": ("b", "bert", "final", "wiki", "motion")}
    assert store.find("f2") == {}


def test_copy_gives_the_same_numbers_another_name(store, cell, numbers):
    store.commit_cell(cell(why="new", seconds=2.0), numbers(step=1))
    stale = {"study": "t", "model": "b", "corpus": "w"}
    store.commit_cell(cell(**stale, fingerprint="old"), numbers(layers=9))
    target = {"study": "t", "model": "b", "checkpoint": "final", "corpus": "w", "metric": "motion"}
    gone = (CellKey("gone", "bert", "final", "wiki", "motion"), target | {"model": "gone"})
    copies = [gone, (CellKey("s", "bert", "final", "wiki", "motion"), target | {"why": "copied"})]
    assert store.copy_cells(copies, {"step": 3}) == [False, True]
    columns = "view, metric, statistic, site, layer, depth, value, n"
    of = f"SELECT {columns} FROM layer_metrics WHERE study = "
    assert store.frame(f"{of} 's' EXCEPT ALL {of} 't'").empty
    copied = store.frame("SELECT model, corpus, step FROM layer_metrics WHERE study = 't'")
    assert copied.values.tolist() == [["b", "w", 3]] * 5
    cells = store.frame("SELECT study, why, seconds, fingerprint FROM cells ORDER BY study").values.tolist()
    assert cells == [["s", "new", 2.0, "f1"], ["t", "copied", 2.0, "f1"]]
    assert store.copy_cells([(gone[0], target)]) == [False] and len(store.cells("t")) == 1  # nothing goes with it
    with pytest.raises(ValueError, match="itself"):
        store.copy_cells([(CellKey(**target), target)])


def test_a_row_is_copied_under_another_key(store):
    keys = ["study", "model", "checkpoint"]
    target = {"study": "t", "model": "b", "checkpoint": "final"}
    assert store.copy_row("models", ("s", "bert", "final"), target) is False
    source = {"study": "s", "model": "bert", "checkpoint": "final"}
    store.put("models", keys, source | {"family": "bert", "layers": 12, "step": 1})
    store.put("models", keys, target | {"family": "gpt2", "width": 64})
    assert store.copy_row("models", ("gone", "bert", "final"), target) is False
    assert store.copy_row("models", ("s", "bert", "final"), target | {"step": 5}) is True
    rows = store.frame("SELECT study, model, family, layers, width, step FROM models ORDER BY study")
    assert rows.astype(object).where(rows.notna(), None).values.tolist() == [
        ["s", "bert", "bert", 12, None, 1],
        ["t", "b", "bert", 12, None, 5],
    ]
    with pytest.raises(ValueError, match="a row of models has no checkpoint"):
        store.copy_row("models", ("s", "bert", "final"), {"study": "t", "model": "b"})


def test_records_are_rows_in_which_null_is_none_and_whole_numbers_stay_whole(store, cell, numbers):
    store.commit_cell(cell(), [*numbers(layers=1), numbers()[0] | {"statistic": "rate", "layer": None}])
    found = store.records("SELECT layer, ci_low FROM layer_metrics WHERE study = $study ORDER BY 1", {"study": "s"})
    assert found == [{"layer": layer, "ci_low": None} for layer in (0, 1, None)]
    assert [type(row["layer"]) for row in found[:2]] == [int, int]


def test_two_files_are_told_apart(store, cell, tmp_path):
    other = Store(tmp_path / "o'ther" / "results.duckdb")
    store.commit_cell(cell())
    other.commit_cell(cell(study="t", fingerprint="f2"))
    assert (list(store.cells("t")), len(other.cells("t"))) == ([], 1)
    assert {key: found.study for key, found in store.find("f1", "f2").items()} == {"f1": "s"}


def test_cells_that_are_committed_together_are_written_in_one_transaction(store, cell, numbers, monkeypatch):
    store.commit_cell(cell(), numbers(layers=9))
    opened = []
    writing = store._file.writing
    monkeypatch.setattr(store._file, "writing", lambda: opened.append("writing") or writing())
    with store.together():
        store.commit_cell(cell(), numbers(layers=2))
        with store.together():
            store.commit_cell(cell(metric="anisotropy"), numbers(layers=3))
        store.commit_cell(cell(metric="spectrum", status="failed", error="no"))
        with pytest.raises(ValueError, match="return None with a reason"):
            store.commit_cell(cell(metric="broken"), numbers(value=float("nan")))
        assert not opened
    assert len(opened) == 1
    counts = store.frame("SELECT metric, count(*) AS n FROM layer_metrics GROUP BY ALL ORDER BY ALL")
    assert counts.values.tolist() == [["anisotropy", 4], ["motion", 3]]
    status = {name.metric: record.status for name, record in store.cells("s").items()}
    assert status == {"motion": "done", "anisotropy": "done", "spectrum": "failed"}


def test_cells_that_wait_are_written_though_the_block_fails_and_once_they_took_long(store, cell, numbers, monkeypatch):
    with pytest.raises(KeyboardInterrupt), store.together():
        store.commit_cell(cell(), numbers())
        raise KeyboardInterrupt
    assert len(store.cells("s")) == 1
    monkeypatch.setattr("reporter.store.database._WAIT", 0.0)
    with store.together():
        store.commit_cell(cell(metric="anisotropy"), numbers())
        assert len(store.cells("s")) == 2


def test_a_long_result_is_the_same_with_each_text_kept_once(store, cell, numbers, monkeypatch):
    store.commit_cell(cell(), numbers())
    sql = "SELECT *, if(layer = 1, NULL, model) AS named, layer || ' €' AS own FROM layer_metrics ORDER BY layer"
    plain = store.frame(sql)
    monkeypatch.setattr("reporter.store.database._LONG", 2)
    once = store.frame(sql)
    pd.testing.assert_frame_equal(once, plain)
    assert len({id(name) for name in once["model"]}) == 1 < len({id(name) for name in plain["model"]})


@pytest.mark.parametrize(
    ("raised", "expected", "said"),
    [
        (RuntimeError("Query interrupted"), KeyboardInterrupt, None),  # what DuckDB raises after Ctrl-C
        (RuntimeError("of our own"), RuntimeError, "of our own"),
        (duckdb.OutOfMemoryException("failed\n\nSolutions: …"), ReporterError, r"out of memory .*results\.duckdb"),
    ],
)
def test_what_duckdb_raises_is_what_it_means_and_another_bug_stays_one(store, raised, expected, said):
    with pytest.raises(expected, match=said), shape.opened(store.path, read_only=True):
        raise raised
