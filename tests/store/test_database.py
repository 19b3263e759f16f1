"""Cells, their numbers and other rows: written whole or not at all, replaced, found, copied and dropped."""

from datetime import UTC, datetime, timedelta, timezone

import duckdb
import numpy as np
import pandas as pd
import pytest
from store.conftest import CELL, cell, numbers, records

from reporter.core.errors import ReporterError, UsageError
from reporter.store import CellKey, Store, opening
from reporter.store.rows import as_named, in_order, order_of

NAME = ("bert", "final", "wiki", "motion")
COUNTS = "SELECT study, metric, count(*) FROM layer_metrics GROUP BY ALL ORDER BY ALL"
INFINITE = float("inf")


def test_reads_before_the_first_write_find_nothing_and_make_nothing(fresh):
    assert fresh.cells("s") == {} and fresh.find("f1") == {} and fresh.prune("s", []) == 0
    with pytest.raises(UsageError, match="does not exist"):
        fresh.frame("FROM cells")
    assert not fresh.path.parent.exists()


def test_a_cell_and_its_numbers_come_back(store):
    more = numbers()[0] | {"statistic": "rate", "layer": None}
    store.commit_cell(cell(options={"sample": 4096}, error=None, tokens=10), [*numbers(), more])
    facts = records(store, "SELECT fingerprint, status, error, options FROM cells")
    assert facts == [("f1", "done", None, '{"sample": 4096}')]
    rows = store.records("FROM layer_metrics WHERE study = $study ORDER BY layer", {"study": "s"})
    assert [row["value"] for row in rows] == [*(0.1 * layer for layer in range(5)), 0.0]
    assert [row["layer"] for row in rows] == [*range(5), None] and type(rows[0]["layer"]) is int
    assert {(row["metric"], row["ci_low"]) for row in rows} == {("motion", None)}


def test_the_numbers_of_a_cell_are_replaced_and_others_stay(store):
    store.commit_cell(cell(), numbers(layers=4))
    store.commit_cell(cell(metric="anisotropy"), numbers(layers=2))
    store.commit_cell(cell(study="other"), numbers(layers=3))
    store.commit_cell(cell(fingerprint="f2"), numbers(layers=6, value=9.0))
    assert records(store, COUNTS) == [("other", "motion", 4), ("s", "anisotropy", 3), ("s", "motion", 7)]
    assert store.cells("s")[NAME].fingerprint == "f2"
    store.commit_cell(cell(status="failed", error="out of memory"))  # a failed one has none
    record = store.cells("s")[NAME]
    assert (record.status, record.error) == ("failed", "out of memory") and store.find("f2") == {}
    assert records(store, COUNTS) == [("other", "motion", 4), ("s", "anisotropy", 3)]


def test_a_wrong_cell_or_number_is_refused_and_nothing_is_written(fresh):
    for of_numbers, of_cell, message in (
        ({"value": float("nan")}, {}, "layer_metrics.value = .*statistic='norm'.*layer=0"),
        ({"ci_low": INFINITE}, {}, "layer_metrics.ci_low = .*statistic='norm'.*layer=0"),
        ({"depth": np.float32("-inf")}, {}, "layer_metrics.depth = .*statistic='norm'.*layer=0"),
        ({"value": "high"}, {}, "layer_metrics.value"),
        ({"n": 2.5}, {}, "layer_metrics.n = 2.5: not a whole number"),
        ({"n": INFINITE}, {}, "layer_metrics.n = inf: not a whole number"),
        ({"view": 3}, {}, "layer_metrics.view = 3: not text"),
        ({"model": "gpt2"}, {}, "was given for cell"),
        ({"site": "block", "layer": 0}, {}, "'layer': 0.* occurs twice"),
        ({}, {"corpus": None}, "no corpus"),
        ({}, {"status": "ok"}, "'ok'"),
        ({}, {"colour": 1}, "colour"),
    ):
        with pytest.raises(ValueError, match=message):
            fresh.commit_cell(cell(**of_cell), numbers(**of_numbers))
    for table, row, message in (
        ("study", {}, "no table 'study'"),
        ("studies", {"started": "today"}, "not a datetime"),
        ("claims", {"holds_outside": 1}, "neither true nor false"),
        ("studies", {"versions": {"x": float("nan")}}, "studies.versions"),
    ):
        with pytest.raises(ValueError, match=message):
            fresh.put(table, ["study"], {"study": "s"} | row)
    assert not fresh.path.parent.exists()


def test_rows_are_put_updated_and_replaced_with_flags_whole_numbers_of_numpy_and_times_in_utc(store):
    for row in (
        {"title": "T", "views": ["text tokens", "with special tokens"]},
        {"study": "t", "title": "U"},
        {"seconds": 3.5},
        {},
    ):
        store.put("studies", ["study"], {"study": "s"} | row)
    rows = records(store, "SELECT study, title, views, seconds FROM studies ORDER BY study")
    assert rows == [("s", "T", '["text tokens", "with special tokens"]', 3.5), ("t", "U", None, None)]
    store.put("studies", ["study"], {"study": "s", "title": None})
    assert records(store, "SELECT study FROM studies WHERE title IS NULL") == [("s",)]
    for study in ("s", "t"):
        store.replace("claims", study, [{"claim": "c", "holds_outside": np.bool_(True), "number": np.int64(3)}])
    store.replace("claims", "t", [])
    assert records(store, "SELECT study, holds_outside, number FROM claims") == [("s", True, 3)]
    assert store.frame("SELECT holds_outside FROM claims").iloc[0, 0] is np.True_
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    store.put("studies", ["study"], {"study": "s", "spec_hash": "h", "started": noon})
    assert not store.has_finished("s", "h")
    store.put("studies", ["study"], {"study": "s", "finished": noon.astimezone(UTC)})
    assert store.has_finished("s", "h") and not store.has_finished("s", "another text")
    times = records(store, "SELECT started, finished FROM studies WHERE study = 's'")
    assert times == [(datetime(2026, 1, 1, 10),) * 2]


def test_prune_drops_what_the_study_no_longer_has(store):
    with store.together():
        for study in ("s", "other"):
            for model, corpus in [("bert", "wiki"), ("gpt2", "wiki"), ("gpt2", "tweets")]:
                store.commit_cell(cell(study=study, model=model, corpus=corpus), numbers())
    for study in ("s", "other"):
        for model, corpus in (("bert", "wiki"), ("gpt2", "tweets")):
            store.put("models", ["study", "model"], {"study": study, "model": model, "checkpoint": "final"})
            store.put("corpora", ["study", "corpus"], {"study": study, "corpus": corpus})
    keep = [NAME, ("bert", "final", "wiki", "to come")]
    assert [store.prune("s", keep) for _ in range(2)] == [2, 0]
    assert list(store.cells("s")) == [NAME]
    left = {"layer_metrics": [("other", 15), ("s", 5)], "models": [("other", 2), ("s", 1)]}
    for table, rows in (left | {"corpora": left["models"]}).items():
        assert records(store, f"SELECT study, count(*) FROM {table} GROUP BY ALL ORDER BY ALL") == rows, table
    assert store.prune("s", []) == 1
    assert records(store, "SELECT DISTINCT study FROM models") == [("other",)]


def test_find_gives_the_latest_finished_cell_of_any_study_of_this_file(store, tmp_path):
    store.commit_cell(cell(status="failed", finished=datetime(2026, 3, 1)))
    store.commit_cell(cell(study="a", finished=datetime(2026, 1, 1)))
    store.commit_cell(cell(study="b", finished=datetime(2026, 2, 1)))
    other = Store(tmp_path / "o'ther" / "results.duckdb")
    other.commit_cell(cell(study="t", fingerprint="f2"))
    assert store.find("f1", "f2", "f3") == {"f1": ("b", *NAME)} and other.find("f2") == {"f2": ("t", *NAME)}
    assert (list(store.cells("t")), len(other.cells("t"))) == ([], 1)


def test_copy_gives_the_same_numbers_another_name(store):
    store.commit_cell(cell(why="new", seconds=2.0), numbers(step=1))
    store.commit_cell(cell(study="t", model="b", corpus="w", fingerprint="old"), numbers(layers=9))
    target = CELL | {"study": "t", "model": "b", "corpus": "w"}
    gone = (CellKey("gone", *NAME), target | {"model": "gone"})
    assert store.copy_cells([gone, (CellKey("s", *NAME), target | {"why": "copied"})], {"step": 3}) == [False, True]
    of = "SELECT view, metric, statistic, site, layer, depth, value, n FROM layer_metrics WHERE study = "
    assert store.frame(f"{of} 's' EXCEPT ALL {of} 't'").empty
    assert records(store, "SELECT model, corpus, step FROM layer_metrics WHERE study = 't'") == [("b", "w", 3)] * 5
    cells = records(store, "SELECT study, why, seconds, fingerprint FROM cells ORDER BY study")
    assert cells == [("s", "new", 2.0, "f1"), ("t", "copied", 2.0, "f1")]
    assert store.copy_cells([(gone[0], target)]) == [False] and len(store.cells("t")) == 1  # nothing goes with it
    with pytest.raises(ValueError, match="itself"):
        store.copy_cells([(CellKey(**target), target)])


def test_cells_that_are_committed_together_are_written_in_one_transaction(store, monkeypatch):
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
    assert records(store, COUNTS) == [("s", "anisotropy", 4), ("s", "motion", 3)]
    status = {name.metric: record.status for name, record in store.cells("s").items()}
    assert status == {"motion": "done", "anisotropy": "done", "spectrum": "failed"}


def test_cells_that_wait_are_written_though_the_block_fails_and_once_they_took_long(store, monkeypatch):
    with pytest.raises(KeyboardInterrupt), store.together():
        store.commit_cell(cell(), numbers())
        raise KeyboardInterrupt
    assert len(store.cells("s")) == 1
    monkeypatch.setattr("reporter.store.database._WAIT", 0.0)
    with store.together():
        store.commit_cell(cell(metric="anisotropy"), numbers())
        assert len(store.cells("s")) == 2


def test_a_long_result_is_the_same_with_each_text_kept_once(store, monkeypatch):
    store.commit_cell(cell(), numbers())
    sql = "SELECT *, if(layer = 1, NULL, model) AS named, layer || ' €' AS own FROM layer_metrics ORDER BY layer"
    plain = store.frame(sql)
    monkeypatch.setattr("reporter.store.database._LONG", 2)
    once = store.frame(sql)
    pd.testing.assert_frame_equal(once, plain)
    assert len({id(name) for name in once["model"]}) == 1 < len({id(name) for name in plain["model"]})


def test_what_duckdb_raises_is_what_it_means_and_another_bug_stays_one(store):
    for raised, expected, said in (
        (RuntimeError("Query interrupted"), KeyboardInterrupt, None),  # what DuckDB raises after Ctrl-C
        (RuntimeError("of our own"), RuntimeError, "of our own"),
        (duckdb.OutOfMemoryException("failed\n\nSolutions: …"), ReporterError, r"out of memory .*results\.duckdb"),
    ):
        with pytest.raises(expected, match=said), opening.opened(store.path, read_only=True):
            raise raised


SPEC = """
study: s
models: {zeta: {path: z}, alpha: {path: a}}
corpora: {wiki: {file: w}, tweets: {file: t, by: [joy]}, "a.b": {file: a}}
groups: {second: "{a|b}", first: "{c|d}"}
pairs: {mine: {tense: [], number: []}, theirs: shipped}
"""


def test_models_and_corpora_stand_in_the_order_of_the_study_file_not_in_that_of_the_alphabet():
    models, corpora = ["zeta", "alpha"], ["wiki", "tweets", "a.b"]
    order = {"models": models, "corpora": corpora, "groups": ["second", "first"], "pairs": ["tense", "number"]}
    assert order_of(SPEC) == order
    assert order_of("models: [broken") == order_of(None) == {key: [] for key in order}
    # a share stands after its corpus, and a null baseline after its model
    named = [{"corpus": name} for name in ("a.b", "other", "tweets", "tweets.joy", "wiki")]
    found = [row["corpus"] for row in in_order(named, "corpus", corpora)]
    assert found == ["wiki", "tweets", "tweets.joy", "a.b", "other"]
    null = {"model": "zeta (random-init)", "base": "zeta", "baseline": "random-init"}
    named = in_order([{"model": "alpha"}, {"model": "zeta"}, null], "model", models)
    assert [row["model"] for row in named] == ["zeta", "zeta (random-init)", "alpha"]
    named = [{"model": model, "corpus": corpus} for model in ("alpha", "zeta") for corpus in ("tweets", "wiki")]
    found = [(row["model"], row["corpus"]) for row in as_named(named, order_of(SPEC))]
    assert found == [("zeta", "wiki"), ("zeta", "tweets"), ("alpha", "wiki"), ("alpha", "tweets")]
