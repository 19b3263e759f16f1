"""Results folders joined: nothing twice, nothing lost, the order makes no difference, contradictions are named."""

import json
import shutil
from datetime import datetime

import duckdb
import pytest

from reporter.core.errors import ReporterError, UsageError
from reporter.runs.whole import merge
from reporter.store import Store
from reporter.store.merging import DATABASE

SPEC = "study: s\nmodels: {bert: some/bert, gpt2: some/gpt2}\ncorpora: {wiki: {texts: [a, b]}}\nmetrics: [motion]\n"
FIRST, LATER = datetime(2026, 1, 1), datetime(2026, 1, 2)


@pytest.fixture
def derived():
    """For tests of what is computed from all numbers of a merged study, such as its claims; others leave it out."""


@pytest.fixture(autouse=True)
def quick(request, monkeypatch):
    if "derived" not in request.fixturenames:
        monkeypatch.setattr("reporter.runs.whole._derive_again", lambda *_: None)


@pytest.fixture
def folder(tmp_path, empty, cell, numbers):
    """Write a results folder whose cells are of these models."""

    def make(name, *models, weights="w", inputs="i", factor=1.0, finished=FIRST, study="s", status="done"):
        (tmp_path / name).mkdir(parents=True)
        shutil.copyfile(empty, tmp_path / name / DATABASE)
        store = Store(tmp_path / name / DATABASE)
        store.put("studies", ["study"], {"study": study, "spec": SPEC, "spec_hash": "h", "finished": finished})
        corpus = {"study": study, "corpus": "wiki", "content_hash": "c", "status": "done"}
        store.put("corpora", ["study", "corpus"], corpus)
        for model in models:
            item = {"study": study, "model": model, "checkpoint": "final"}
            facts = {"position": 1, "is_last": True, "fingerprint": weights, "status": status}
            store.put("models", list(item), item | facts)
            row = cell(study=study, model=model, fingerprint=f"{weights}{inputs}", inputs={"options": inputs})
            values = [row | {"value": row["value"] * factor} for row in numbers()]
            store.commit_cell(row | {"finished": finished, "status": status}, values if status == "done" else [])
        return tmp_path / name

    return make


def rows(folder):
    """Every row of every table, in the order in which it lies in the file."""
    with duckdb.connect(str(folder / DATABASE), read_only=True) as connection:
        tables = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        return {table: connection.execute(f"FROM {table}").fetchall() for (table,) in tables}


def of_cells(folder):
    with duckdb.connect(str(folder / DATABASE), read_only=True) as connection:
        return connection.execute("SELECT model, folder, finished FROM cells ORDER BY ALL").fetchall()


def in_both_orders(out, folders, prefer=None):
    merge(out / "ab", folders, prefer)
    merge(out / "ba", folders[::-1], prefer)
    assert rows(out / "ab") == rows(out / "ba")
    return out / "ab"


def test_what_two_folders_have_comes_once_and_says_from_where(folder, tmp_path, derived):
    one, two = folder("one", "bert", "gpt2"), folder("two", "gpt2", "opt", finished=LATER)
    merged = in_both_orders(tmp_path, [one, two])
    assert of_cells(merged) == [("bert", "one", FIRST), ("gpt2", "two", LATER), ("opt", "two", LATER)]
    found = rows(merged)
    assert len(found["layer_metrics"]) == 3 * 5 and len(set(found["layer_metrics"])) == 15
    assert len(found["models"]) == 3 and len(found["corpora"]) == len(found["studies"]) == 1
    means = Store(merged / DATABASE).records("SELECT layer, models, value FROM over_models WHERE layer = 2")
    assert means == [{"layer": 2, "models": 3, "value": pytest.approx(0.2)}]  # over the models of both folders


def test_folders_of_different_studies_stand_beside_each_other(folder, tmp_path):
    one, two = folder("one", "bert"), folder("two", "bert", study="t", weights="other")
    Store(one / DATABASE).replace("correlations", "s", [{"corpus": "wiki", "feature": "rate", "n": 3}])
    found = rows(in_both_orders(tmp_path, [one, two]))
    assert [row[0] for row in found["studies"]] == ["s", "t"]
    assert len(found["correlations"]) == 1  # of a study of one folder what was computed stays


def test_folders_of_one_name_are_told_apart(folder, tmp_path):
    merged = tmp_path / "ab"
    found = merge(merged, [folder("a/results", "bert"), folder("b/results", "gpt2")])
    assert not found.notes, "a view is no table of a plug-in"
    assert of_cells(merged) == [("bert", "a/results", FIRST), ("gpt2", "b/results", FIRST)]
    again = tmp_path / "again"
    merge(again, [merged, folder("third", "opt")])
    assert [row[1] for row in of_cells(again)] == ["ab/a/results", "ab/b/results", "third"]


@pytest.mark.parametrize(
    ("differs", "chosen"),
    [
        ({"status": "failed", "weights": "x"}, ("bert", "one", FIRST)),  # a failed cell gives way to one that is done
        ({"factor": 1 + 1e-6}, ("bert", "two", LATER)),  # the last digits are no conflict
    ],
)
def test_of_two_cells_without_a_contradiction_the_later_that_is_done_is_taken(folder, tmp_path, differs, chosen):
    folders = [folder("one", "bert"), folder("two", "bert", finished=LATER, **differs)]
    assert of_cells(in_both_orders(tmp_path, folders)) == [chosen]


@pytest.mark.parametrize(
    ("differs", "said"),
    [
        (
            {"weights": "v"},
            "study 's', model 'bert', checkpoint 'final': the hash of its weights is w in one, v in two",
        ),
        ({"inputs": "j"}, "cell bert × final × wiki × motion: the input 'options' is i in one"),
        (
            {"factor": 2.0},
            "motion: value of layer_metrics (view words, statistic norm, site block, layer 1) is 0.1 in one, "
            "0.2 in two (and 3 more differences in this cell)",
        ),
    ],
)
def test_a_contradiction_is_named_and_nothing_is_written(folder, tmp_path, differs, said):
    one, two = folder("one", "bert", "gpt2"), folder("two", "bert", "opt", finished=LATER, **differs)
    (conflict,) = merge(tmp_path / "out", [two, one]).undecided
    assert said in str(conflict) and not (tmp_path / "out").exists()
    merged = in_both_orders(tmp_path, [one, two], prefer=one)
    assert of_cells(merged)[0] == ("bert", "one", FIRST)
    assert len(rows(merged)["models"]) == len(of_cells(merged)) == 3
    value = "SELECT value FROM layer_metrics WHERE model = 'bert' AND layer = 1"
    assert Store(merged / DATABASE).records(value) == [{"value": 0.1}]


def test_with_a_model_that_is_another_one_all_that_was_measured_of_it_is_left_out(folder, tmp_path, cell, numbers):
    one, two = folder("one", "bert"), folder("two", "bert", weights="v")
    Store(two / DATABASE).commit_cell(cell(metric="anisotropy", fingerprint="v2"), numbers())
    merged = tmp_path / "out"
    merge(merged, [one, two], prefer=one)
    assert Store(merged / DATABASE).records("SELECT metric FROM cells") == [{"metric": "motion"}]


def test_a_row_that_one_folder_lacks_is_a_conflict(folder, tmp_path):
    one, two = folder("one", "bert"), folder("two", "bert")
    with duckdb.connect(str(two / DATABASE)) as connection:
        connection.execute("DELETE FROM layer_metrics WHERE layer = 3")
    (conflict,) = merge(tmp_path / "out", [one, two]).conflicts
    assert "layer 3" in conflict.what and conflict.values == (("one", "present"), ("two", "missing"))


def test_claims_are_judged_anew_by_the_text_that_ran_last(folder, tmp_path, derived):
    one, two = folder("one", "bert"), folder("two", "gpt2", finished=LATER)
    claim = "claims: {high: {says: norms are high, value: {metric: motion.norm, model: gpt2, layer: 1}, above: 0}}\n"
    row = {"study": "s", "spec": SPEC + claim, "spec_hash": "other"}
    Store(two / DATABASE).put("studies", ["study"], row)
    found = merge(tmp_path / "out", [one, two])
    assert any("study 's' differs between one, two; the version in two" in note for note in found.notes)
    judged = Store(tmp_path / "out" / DATABASE).records("SELECT claim, detail FROM claims")
    assert [row["claim"] for row in judged] == ["high"] and json.loads(judged[0]["detail"])


def test_the_first_number_is_the_earliest_of_all_folders(folder, tmp_path):
    folders = [folder("one", "bert"), folder("two", "gpt2", finished=LATER)]
    for path, first in zip(folders, (FIRST, LATER), strict=True):
        row = {"study": "s", "first_number": first, "registration": {"note": path.name}}
        Store(path / DATABASE).put("studies", ["study"], row)
    merge(tmp_path / "out", folders)
    merged = Store(tmp_path / "out" / DATABASE).records("SELECT first_number, registration FROM studies")
    assert merged == [{"first_number": FIRST, "registration": '{"note": "two"}'}]


def test_a_file_of_an_older_version_is_refused_and_left_as_it_is(folder, tmp_path):
    one, two = folder("one", "bert"), folder("two", "gpt2")
    with duckdb.connect(str(one / DATABASE)) as connection:
        connection.execute("ALTER TABLE cells DROP COLUMN folder; UPDATE schema_version SET version = 8")
    before = (one / DATABASE).read_bytes()
    with pytest.raises(ReporterError, match="was written by an older version of reporter"):
        merge(tmp_path / "out", [one, two])
    assert (one / DATABASE).read_bytes() == before and not (tmp_path / "out").exists()


def test_a_table_that_a_folder_lacks_is_taken_from_the_other(folder, tmp_path):
    one, two = folder("one", "bert", "gpt2"), folder("two", "gpt2", finished=LATER)
    with duckdb.connect(str(one / DATABASE)) as connection:
        connection.execute("DROP TABLE layer_metrics; DROP TABLE correlations")
    found = rows(in_both_orders(tmp_path, [one, two]))
    assert len(found["layer_metrics"]) == 5 and len(found["cells"]) == 2


def test_hashes_that_differ_for_no_reason_that_is_known_are_named(folder, tmp_path):
    folders = [folder("one", "bert"), folder("two", "bert", finished=LATER)]
    for path, inputs in zip(folders, ("NULL", "'{}'"), strict=True):
        with duckdb.connect(str(path / DATABASE)) as connection:
            connection.execute(f"UPDATE cells SET inputs = {inputs}, fingerprint = '{path.name}'")
    (conflict,) = merge(tmp_path / "out", folders).undecided
    assert "the fingerprint is one in one, two in two" in str(conflict)


def test_what_cannot_be_merged_is_refused_and_leaves_nothing(folder, tmp_path):
    one, torn, new = folder("one", "bert"), tmp_path / "torn", tmp_path / "new"
    new.mkdir()
    duckdb.connect(str(new / DATABASE)).close()
    torn.mkdir()
    (torn / DATABASE).write_bytes((one / DATABASE).read_bytes()[:100_000])
    for folders, error, said in (
        ([one, tmp_path / "none"], UsageError, "does not exist"),
        ([one, one / ".." / "one"], UsageError, "is named twice"),
        ([one, torn], ReporterError, "torn"),
        ([one, new], UsageError, "new.*has no study yet"),
    ):
        with pytest.raises(error, match=said):
            merge(tmp_path / "out", folders)
        assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="exists already; merge into a new folder"):
        merge(one, [one])
    with pytest.raises(UsageError, match="is not one of the folders to merge"):
        merge(tmp_path / "out", [one], prefer=tmp_path / "none")
