"""Cells of analyses: they run once, are kept, are taken over, fail alone and go when the study drops them."""

import json

import pytest
from runs.conftest import select

from reporter.core.errors import ReporterError, UsageError
from reporter.metrics import analysis as registry
from reporter.metrics._items import Point, pooled
from reporter.metrics.analysis import Analysis
from reporter.metrics.base import Statistic, Value
from reporter.runs.planner import plan_study

JOURNEYS = "journeys: {j: {text: the cat sleeps}, k: {text: broken}}"


def _look(item, context):
    """Yield something of each kind: a number, one that is missing, and a point."""
    if item.text == "broken":
        raise ReporterError("this one cannot be looked at")
    vectors = pooled([item.text, item.text], context)
    for place, x in vectors.items():
        yield Value("size", place, float(abs(x).sum()), len(x))
        yield Point("pca", place, "text", 0, "<script>", float(x[0, 0]), 0.0)
    yield Value("lost", None, None, 0, reason="nothing to see")


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """Put a small analysis of journeys in the place of the real one."""
    analysis = Analysis(
        name="journeys",
        title="Made up",
        summary="",
        statistics=(Statistic("size", "", "", ()), Statistic("lost", "", "", ())),
        section=registry.analyses()["journeys"].section,
        compute=_look,
        pooled=True,
        baselines=True,
    )
    catalogue = {**registry.analyses(), "journeys": analysis}
    monkeypatch.setattr("reporter.runs.planner.analyses", lambda: catalogue)
    return analysis


def test_each_item_of_each_checkpoint_is_a_cell_that_is_kept_until_it_changes(study, run, store):
    outcome, log = run(study(metrics="none", more=JOURNEYS))
    assert (outcome.computed, outcome.failed) == (3, 3)
    assert "this one cannot be looked at" in log
    cells = store.records("SELECT * FROM cells")
    assert {(row["metric"], row["corpus"]) for row in cells} == {("journeys", "j"), ("journeys", "k")}
    done = next(row for row in cells if row["status"] == "done")
    assert json.loads(done["reasons"])[0]["reason"] == "nothing to see"
    assert json.loads(done["options"])["text"] == "the cat sleeps"
    points = select(store, "SELECT DISTINCT model, checkpoint, item, analysis, label FROM projections")
    assert len(points) == 3 and {point[-1] for point in points} == {"<script>"}
    sites = select(store, "SELECT DISTINCT site, view FROM layer_metrics WHERE statistic = 'size' AND model = 'dec'")
    assert sorted(sites) == [("block", "words"), ("embedding", "words"), ("final", "words")]
    assert select(store, "SELECT role, status FROM models WHERE model = 'dec'") == [("decoder", "done")]
    changed = JOURNEYS.replace("broken", "a dog")
    outcome, _ = run(study(metrics="none", more=changed))
    assert (outcome.computed, outcome.cached, outcome.failed) == (3, 3, 0)
    outcome, _ = run(study(metrics="none", more=changed + "\npooling: first"))
    assert outcome.computed == 6
    assert select(store, "SELECT DISTINCT why FROM cells") == ["pooling changed (auto → first)"]


def test_where_a_corpus_is_cut_is_an_input_of_what_looks_at_it(study, out):
    looked = {"metrics": "none", "more": "attention: {a: {corpus: nested, tokens: 8}}"}
    cut = ("words: [5, 20]}", "words: [5, 20], max_tokens: 12}")
    before, after = (plan_study(study(*changes, **looked), out).cells for changes in ((), (cut,)))
    assert len(before) == 3 and not {cell.fingerprint for cell in before} & {cell.fingerprint for cell in after}


def test_another_study_takes_numbers_over_and_they_go_when_the_study_drops_them(study, run, store):
    fine, few = JOURNEYS.replace(", k: {text: broken}", ""), ("checkpoints: [0, 2]", "checkpoints: [2]")
    run(study(metrics="none", more=fine))
    other = ("study: tiny", "study: second"), ("{j:", "{other:")
    assert run(study(*other, metrics="none", more=fine, name="second"))[0].computed == 3
    rows = select(store, "SELECT study, item, count(*) FROM projections GROUP BY ALL ORDER BY ALL")
    assert [row[:2] for row in rows] == [("second", "other"), ("tiny", "j")] and rows[0][2] == rows[1][2]
    whys = select(store, "SELECT DISTINCT why FROM cells WHERE study = 'second'")
    assert all("copied from study tiny" in why for why in whys)
    run(study(few, metrics="[motion]", views="[words]"))
    assert select(store, "SELECT DISTINCT study FROM projections") == ["second"]
    assert select(store, "SELECT DISTINCT metric FROM cells WHERE study = 'tiny'") == ["motion"]


def test_only_names_items_and_analyses_and_random_weights_are_looked_at(study, run, store):
    file = study(metrics="none", more=JOURNEYS + "\nbaselines: [random-init, shuffled]")
    outcome, _ = run(file, only=("j", "journeys", "dec"))
    assert (outcome.computed, outcome.failed) == (2, 0)
    assert set(select(store, "SELECT DISTINCT model FROM cells")) == {"dec", "dec (random-init)"}
    with pytest.raises(UsageError, match=r"--only inline --only journeys: no cell .*; run each name alone"):
        run(file, only=("inline", "journeys"))  # a corpus and an analysis that looks at none: nothing is both


def test_vocabulary_of_the_last_checkpoint(study, run, store):
    outcome, _ = run(study(metrics="none", more="vocabulary: {models: [enc], points: 20}"))
    assert (outcome.computed, outcome.failed) == (1, 0)
    tokens = select(store, "SELECT token, norm FROM vocabulary ORDER BY token_id")
    assert [len(tokens)] == select(store, "SELECT vocabulary_size FROM models")
    assert all(norm is not None for _, norm in tokens) and "[CLS]" in dict(tokens)
    assert select(store, "SELECT said FROM vocabulary_facts WHERE fact = 'positions'") == ["learned"]
    assert select(store, "SELECT count(*) FROM positions") == [16]
    assert select(store, "SELECT DISTINCT analysis, item FROM projections") == [("vocabulary", "(weights)")]
