"""Cells of analyses: they run once, are kept, are taken over, fail alone and go when the study drops them."""

import json
from collections.abc import Iterator

import pytest

from reporter.core.errors import ReporterError, UsageError
from reporter.metrics import analysis as registry
from reporter.metrics._items import Point, pooled
from reporter.metrics.analysis import Analysis, Context
from reporter.metrics.base import Statistic, Value
from reporter.metrics.journeys import JourneySpec

METRICS = "metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]"
JOURNEYS = (METRICS, "metrics: none\njourneys: {j: {text: the cat sleeps}, k: {text: broken}}")


def _look(item: JourneySpec, context: Context) -> Iterator[Value | Point]:
    """Yield something of each kind: a number, one that is missing, and a point."""
    if item.text == "broken":
        raise ReporterError("this one cannot be looked at")
    vectors = pooled([item.text, item.text], context)
    for place, x in vectors.items():
        yield Value("size", place, float(abs(x).sum()), len(x))
        yield Point("pca", place, "text", 0, "<script>", float(x[0, 0]), 0.0)
    yield Value("lost", None, None, 0, reason="nothing to see")


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> Analysis:
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
    outcome, log = run(study(JOURNEYS))
    assert (outcome.computed, outcome.failed) == (3, 3)
    assert "this one cannot be looked at" in log
    cells = store.frame("SELECT model, checkpoint, corpus, metric, status, error, reasons, options FROM cells")
    assert set(cells["metric"]) == {"journeys"} and set(cells["corpus"]) == {"j", "k"}
    done = cells.query("status == 'done'")
    assert json.loads(done["reasons"].iloc[0])[0]["reason"] == "nothing to see"
    assert json.loads(done["options"].iloc[0])["text"] == "the cat sleeps"
    points = store.frame("SELECT DISTINCT model, checkpoint, item, analysis, label FROM projections")
    assert len(points) == 3 and set(points["label"]) == {"<script>"}
    numbers = store.frame("SELECT * FROM layer_metrics WHERE statistic = 'size' AND model = 'dec'")
    assert set(numbers["site"]) == {"embedding", "block", "final"} and set(numbers["view"]) == {"words"}
    assert store.frame("SELECT role, status FROM models WHERE model = 'dec'").values.tolist() == [["decoder", "done"]]
    changed = JOURNEYS[1].replace("broken", "a dog")
    outcome, _ = run(study((METRICS, changed)))
    assert (outcome.computed, outcome.cached, outcome.failed) == (3, 3, 0)
    outcome, _ = run(study((METRICS, changed + "\npooling: first")))
    assert outcome.computed == 6
    assert store.frame("SELECT DISTINCT why FROM cells")["why"].tolist() == ["pooling changed (auto → first)"]


def test_another_study_takes_numbers_over_and_they_go_when_the_study_drops_them(study, run, store):
    fine = JOURNEYS[1].replace(", k: {text: broken}", "")
    run(study((METRICS, fine)))
    outcome, _ = run(study((METRICS, fine.replace("{j:", "{other:")), ("study: tiny", "study: second"), name="second"))
    assert outcome.computed == 3
    rows = store.frame("SELECT study, item, count(*) AS n FROM projections GROUP BY ALL ORDER BY ALL")
    assert rows[["study", "item"]].values.tolist() == [["second", "other"], ["tiny", "j"]]
    assert rows["n"].nunique() == 1
    assert (
        store.frame("SELECT DISTINCT why FROM cells WHERE study = 'second'")["why"]
        .str.contains("copied from study tiny")
        .all()
    )
    run(study((METRICS, "metrics: [motion]"), ("checkpoints: [0, 2]", "checkpoints: [2]")))
    assert store.frame("SELECT DISTINCT study FROM projections")["study"].tolist() == ["second"]
    assert set(store.frame("SELECT DISTINCT metric FROM cells WHERE study = 'tiny'")["metric"]) == {"motion"}


def test_only_names_items_and_analyses_and_random_weights_are_looked_at(study, run, store):
    file = study((JOURNEYS[0], JOURNEYS[1] + "\nbaselines: [random-init, shuffled]"))
    outcome, _ = run(file, only=("j", "journeys", "dec"))
    assert (outcome.computed, outcome.failed) == (2, 0)
    assert set(store.frame("SELECT DISTINCT model FROM cells")["model"]) == {"dec", "dec (random-init)"}
    with pytest.raises(UsageError, match=r"--only inline --only journeys: no cell .*; run each name alone"):
        run(file, only=("inline", "journeys"))  # a corpus and an analysis that looks at none: nothing is both


def test_vocabulary_of_the_last_checkpoint(study, run, store):
    outcome, _ = run(study((METRICS, "metrics: none\nvocabulary: {models: [enc], points: 20}")))
    assert (outcome.computed, outcome.failed) == (1, 0)
    tokens = store.frame("SELECT token_id, token, class, norm FROM vocabulary ORDER BY token_id")
    assert len(tokens) == store.frame("SELECT vocabulary_size AS v FROM models")["v"][0]
    assert tokens["norm"].notna().all() and "[CLS]" in set(tokens["token"])
    facts = store.frame("SELECT said FROM vocabulary_facts WHERE fact = 'positions'")["said"].tolist()
    assert facts == ["learned"]
    assert store.frame("SELECT count(*) AS n FROM positions")["n"][0] == 16
    assert set(store.frame("SELECT DISTINCT analysis, item FROM projections").values.tolist()[0]) == {
        "vocabulary",
        "(weights)",
    }
