"""Results folders joined: nothing twice, nothing lost, the order makes no difference, contradictions are named."""

import json
import shutil
from datetime import datetime
from functools import cache
from pathlib import Path

import duckdb
import pytest
from store.conftest import alter, cell, numbers, records

from reporter.core.errors import ReporterError, UsageError
from reporter.runs.whole import merge
from reporter.store import Store, merging
from reporter.store.merging import DATABASE

SPEC = "study: s\nmodels: {bert: some/bert, gpt2: some/gpt2}\ncorpora: {wiki: {texts: [a, b]}}\nmetrics: [motion]\n"
FIRST, LATER = datetime(2026, 1, 1), datetime(2026, 1, 2)


@pytest.fixture(autouse=True)
def quick(request, monkeypatch):
    """Merge few of all tables and compute nothing from all of a study, unless a test wants that."""
    if not request.node.get_closest_marker("answers"):
        monkeypatch.setattr("reporter.runs.whole._derive_again", lambda *_: None)
        few = ("studies", "corpora", "models", "cells", "layer_metrics", "correlations")
        for function in ("tables", "number_tables"):
            chosen = {name: table for name, table in getattr(merging, function)().items() if name in few}
            monkeypatch.setattr(merging, function, lambda chosen=chosen: chosen)


@pytest.fixture(scope="module")
def database(tmp_path_factory, empty):
    """Return a function that fills a database with a cell of each of these models, once for all tests."""

    @cache
    def fill(*models, finished, study):
        store = Store(Path(shutil.copy(empty, tmp_path_factory.mktemp("filled"))))
        store.put("studies", ["study"], {"study": study, "spec": SPEC, "spec_hash": "h", "finished": finished})
        corpus = {"study": study, "corpus": "wiki", "content_hash": "c", "status": "done"}
        store.put("corpora", ["study", "corpus"], corpus)
        items = [{"study": study, "model": model, "checkpoint": "final"} for model in models]
        facts = {"position": 1, "is_last": True, "status": "done"}
        described = [item | facts | {"fingerprint": f"w of {item['model']}"} for item in items]
        store.put_all("models", ["study", "model", "checkpoint"], described)
        with store.together():
            for item in items:
                store.commit_cell(cell(**item, inputs={"options": "i"}, finished=finished), numbers())
        return store.path

    return fill


@pytest.fixture
def folder(tmp_path, database):
    """Return a function that makes a results folder whose cells are of these models, and changes it by SQL."""

    def make(name, *models, change="", finished=FIRST, study="s"):
        (tmp_path / name).mkdir(parents=True)
        path = shutil.copy(database(*models, finished=finished, study=study), tmp_path / name)
        if change:
            alter(path, change)
        return tmp_path / name

    return make


def rows(folder):
    """Every row of every table, in the order in which it lies in the file."""
    with duckdb.connect(str(folder / DATABASE), read_only=True) as connection:
        tables = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        return {table: connection.execute(f"FROM {table}").fetchall() for (table,) in tables}


def column(folder, query):
    return [value for (value,) in records(Store(folder / DATABASE), f"SELECT {query}")]


def of_cells(folder):
    return records(Store(folder / DATABASE), "SELECT model, folder, finished FROM cells ORDER BY ALL")


def in_both_orders(out, folders, prefer=None):
    merge(out / "ab", folders, prefer)
    merge(out / "ba", folders[::-1], prefer)
    assert rows(out / "ab") == rows(out / "ba")
    return out / "ab"


def test_what_two_folders_have_comes_once_and_says_from_where(folder, tmp_path):
    one, two = folder("one", "bert", "gpt2"), folder("two", "gpt2", "opt", finished=LATER)
    merged = in_both_orders(tmp_path, [one, two])
    assert of_cells(merged) == [("bert", "one", FIRST), ("gpt2", "two", LATER), ("opt", "two", LATER)]
    found = rows(merged)
    assert len(found["layer_metrics"]) == 3 * 5 and len(set(found["layer_metrics"])) == 15
    assert len(found["models"]) == 3 and len(found["corpora"]) == len(found["studies"]) == 1


def test_folders_of_different_studies_stand_beside_each_other(folder, tmp_path):
    one, two = folder("one", "bert"), folder("two", "bert", study="t", change="UPDATE models SET fingerprint = 'v'")
    Store(one / DATABASE).replace("correlations", "s", [{"corpus": "wiki", "feature": "rate", "n": 3}])
    found = rows(in_both_orders(tmp_path, [one, two]))
    assert [row[0] for row in found["studies"]] == ["s", "t"]
    assert len(found["correlations"]) == 1  # of a study of one folder what was computed stays


def test_folders_of_one_name_are_told_apart(folder, tmp_path):
    merged = tmp_path / "ab"
    merge(merged, [folder("a/results", "bert"), folder("b/results", "gpt2")])
    assert of_cells(merged) == [("bert", "a/results", FIRST), ("gpt2", "b/results", FIRST)]
    merge(tmp_path / "again", [merged, folder("third", "opt")])
    assert column(tmp_path / "again", "folder FROM cells ORDER BY ALL") == ["ab/a/results", "ab/b/results", "third"]


def test_of_two_cells_without_a_contradiction_the_later_done_one_is_taken(folder, tmp_path):
    """A failed cell gives way to one that is done; the last digits are no conflict."""
    one = folder("one", "bert")
    failed = folder("two", "bert", finished=LATER, change="UPDATE cells SET status = 'failed', fingerprint = 'x'")
    assert of_cells(in_both_orders(tmp_path / "a", [one, failed], failed)) == [("bert", "one", FIRST)]
    close = "UPDATE layer_metrics SET value = value * 1.000001"
    later = folder("three", "bert", finished=LATER, change=close)
    assert of_cells(in_both_orders(tmp_path / "b", [one, later], one)) == [("bert", "three", LATER)]


LAYER = "view text tokens, statistic norm, site block, layer"
CELL_OF_BERT = "cell bert × final × wiki × motion"
OTHER = "UPDATE models SET fingerprint = 'v';UPDATE cells SET metric = 'anisotropy' WHERE model = 'bert'"
CONTRADICTIONS = {  # what changes in the other folder, and how that is named
    OTHER: "'bert', checkpoint 'final': the hash of its weights is w of bert in one, v in two",
    "UPDATE corpora SET content_hash = 'd'": "study 's', corpus 'wiki': the hash of its texts is c in one, d in two",
    """UPDATE cells SET fingerprint = 'f', inputs = '{"options": 1}'""": f"{CELL_OF_BERT}: the input 'options' is i",
    "UPDATE cells SET fingerprint = 'f', inputs = NULL": "the input 'options' is i in one, null in two",
    "UPDATE cells SET fingerprint = 'f'": "the fingerprint is f1 in one, f in two",
    "UPDATE layer_metrics SET value = 2 * value": f"value of layer_metrics ({LAYER} 1) is 0.1 in one, 0.2 in two (and",
    "DELETE FROM layer_metrics WHERE layer = 3": f"{LAYER} 3) is present in one, missing in two",
}


@pytest.mark.parametrize(("change", "said"), CONTRADICTIONS.items())
def test_a_contradiction_is_named_and_nothing_is_written(folder, tmp_path, change, said):
    one, two = folder("one", "bert", "gpt2"), folder("two", "bert", "opt", finished=LATER, change=change)
    (conflict,) = merge(tmp_path / "out", [two, one]).undecided
    assert said in str(conflict) and not (tmp_path / "out").exists()
    merge(merged := tmp_path / "out", [two, one], prefer=one)
    assert of_cells(merged)[0] == ("bert", "one", FIRST)
    cells = 2 + ("corpora" not in change)  # all that was measured of another model, or on other texts, is left out
    assert len(of_cells(merged)) == cells and len(rows(merged)["models"]) == 3
    assert column(merged, "value FROM layer_metrics WHERE model = 'bert' AND layer = 1") == [0.1]


@pytest.mark.answers
def test_claims_and_means_are_computed_from_all_numbers_by_the_text_that_ran_last(folder, tmp_path):
    one, two = folder("one", "bert", "gpt2"), folder("two", "gpt2", "opt", finished=LATER)
    claim = "claims: {high: {says: norms are high, value: {metric: motion.norm, model: gpt2, layer: 1}, above: 0}}\n"
    Store(two / DATABASE).put("studies", ["study"], {"study": "s", "spec": SPEC + claim, "spec_hash": "other"})
    (note,) = merge(tmp_path / "out", [one, two]).notes  # a view is no table of a plug-in
    assert "study 's' differs between one, two; the version in two" in note
    merged = Store(tmp_path / "out" / DATABASE)
    ((claim, detail),) = records(merged, "SELECT claim, detail FROM claims")
    assert claim == "high" and json.loads(detail)
    of_both = records(merged, "SELECT models, value FROM over_models WHERE layer = 2")
    assert of_both == [(3, pytest.approx(0.2))]


def test_the_first_number_is_the_earliest_and_a_table_that_a_folder_lacks_is_taken_from_the_other(folder, tmp_path):
    change = "UPDATE studies SET first_number = finished, registration = finished"
    lacks = f"{change};DROP TABLE layer_metrics;DROP TABLE correlations"
    one, two = folder("one", "bert", "gpt2", change=lacks), folder("two", "gpt2", finished=LATER, change=change)
    merged = in_both_orders(tmp_path, [one, two])
    found = records(Store(merged / DATABASE), "SELECT first_number, registration FROM studies")
    assert found == [(FIRST, str(LATER))]
    assert len(rows(merged)["layer_metrics"]) == 5 and len(rows(merged)["cells"]) == 2


def test_what_cannot_be_merged_is_refused_and_leaves_nothing(folder, tmp_path):
    one, torn, new, out = folder("one", "bert"), folder("torn"), tmp_path / "new", tmp_path / "out"
    old = folder("old", change="ALTER TABLE cells DROP COLUMN folder; UPDATE schema_version SET version = 8")
    (torn / DATABASE).write_bytes((one / DATABASE).read_bytes()[:100_000])
    new.mkdir()
    duckdb.connect(str(new / DATABASE)).close()
    before = (old / DATABASE).read_bytes()
    for folders, error, said in (
        ([one, tmp_path / "none"], UsageError, "does not exist"),
        ([one, one / ".." / "one"], UsageError, "is named twice"),
        ([one, torn], ReporterError, "torn"),
        ([one, new], UsageError, "new.*has no study yet"),
        ([old, one], ReporterError, "an older version of reporter wrote it"),
    ):
        with pytest.raises(error, match=said):
            merge(out, folders)
        assert not out.exists()
    assert (old / DATABASE).read_bytes() == before
    with pytest.raises(UsageError, match="exists already; merge into a new folder"):
        merge(one, [one])
    with pytest.raises(UsageError, match="is not one of the folders to merge"):
        merge(out, [one], prefer=tmp_path / "none")
