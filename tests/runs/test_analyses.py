"""Cells of analyses: they run once, are kept, are taken over, fail alone and go when the study drops them."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from oracles.families import WORDS
from runs.conftest import select

from reporter.core.errors import ReporterError, UsageError
from reporter.forward import text_vectors
from reporter.metrics import _items
from reporter.metrics import analysis as registry
from reporter.metrics.base import Statistic, Value
from reporter.runs.planner import plan_study

JOURNEYS = "journeys: {j: {text: the cat sleeps}, k: {text: broken}}"


def _look(item, context):
    """Yield something of each kind: a number, one that is missing, and a point."""
    if item.text == "broken":
        raise ReporterError("this one cannot be looked at")
    for place, x in _items.pooled([item.text, item.text], context).items():
        yield Value("size", place, float(abs(x).sum()), len(x))
        yield _items.Point("pca", place, "text", 0, "<script>", float(x[0, 0]), 0.0)
    yield Value("lost", None, None, 0, reason="nothing to see")


@pytest.fixture
def made_up(monkeypatch):
    """Put a small analysis of journeys in the place of the real one."""
    statistics = (Statistic("size", "", "", ()), Statistic("lost", "", "", ()))
    analyses = registry.analyses()
    journeys = replace(analyses["journeys"], statistics=statistics, compute=_look, pooled=True, baselines=True)
    monkeypatch.setattr("reporter.runs.planner.analyses", lambda: analyses | {"journeys": journeys})


@pytest.mark.usefixtures("made_up")
def test_each_item_of_each_checkpoint_is_a_cell_that_is_kept_until_it_changes(study, run, store):
    outcome, log = run(study(metrics="none", more=JOURNEYS))
    assert (outcome.computed, outcome.failed) == (3, 3) and "this one cannot be looked at" in log
    cells = store.records("SELECT * FROM cells ORDER BY status")
    assert {(row["metric"], row["corpus"]) for row in cells} == {("journeys", "j"), ("journeys", "k")}
    assert json.loads(cells[0]["reasons"])[0]["reason"] == "nothing to see"
    assert json.loads(cells[0]["options"])["text"] == "the cat sleeps"
    points = select(store, "SELECT DISTINCT model, checkpoint, item, analysis, label FROM projections")
    assert len(points) == 3 and {point[-1] for point in points} == {"<script>"}
    sites = select(store, "SELECT DISTINCT site, view FROM layer_metrics WHERE statistic = 'size' AND model = 'dec'")
    assert sorted(sites) == [("block", "text tokens"), ("embedding", "text tokens"), ("final", "text tokens")]
    assert select(store, "SELECT role, status FROM models WHERE model = 'dec'") == [("decoder", "done")]
    changed = JOURNEYS.replace("broken", "a dog")
    outcome, _ = run(study(metrics="none", more=changed))
    assert (outcome.computed, outcome.cached, outcome.failed) == (3, 3, 0)
    assert run(study(metrics="none", more=changed + "\npooling: first"))[0].computed == 6
    assert select(store, "SELECT DISTINCT why FROM cells") == ["pooling changed (auto → first)"]


def test_where_a_corpus_is_cut_is_an_input_of_what_looks_at_it(study, out):
    looked = {"metrics": "none", "more": "attention: {a: {corpus: nested, tokens: 8}}"}
    cut = ("words: [5, 20]}", "words: [5, 20], max_tokens: 12}")
    before, after = (plan_study(study(*changes, **looked), out).cells for changes in ((), (cut,)))
    assert len(before) == 3 and not {cell.fingerprint for cell in before} & {cell.fingerprint for cell in after}


@pytest.mark.usefixtures("made_up")
def test_another_study_takes_numbers_over_and_they_go_when_the_study_drops_them(study, run, store):
    fine, few = JOURNEYS.replace(", k: {text: broken}", ""), ("checkpoints: [0, 2]", "checkpoints: [2]")
    run(study(metrics="none", more=fine))
    other = ("study: tiny", "study: second"), ("{j:", "{other:")
    assert run(study(*other, metrics="none", more=fine, name="second"))[0].computed == 3
    rows = select(store, "SELECT study, item, count(*) FROM projections GROUP BY ALL ORDER BY ALL")
    assert [row[:2] for row in rows] == [("second", "other"), ("tiny", "j")] and rows[0][2] == rows[1][2]
    whys = select(store, "SELECT DISTINCT why FROM cells WHERE study = 'second'")
    assert all("copied from study tiny" in why for why in whys)
    run(study(few, metrics="[motion]", views="[text tokens]"))
    assert select(store, "SELECT DISTINCT study FROM projections") == ["second"]
    assert select(store, "SELECT DISTINCT metric FROM cells WHERE study = 'tiny'") == ["motion"]


@pytest.mark.usefixtures("made_up")
def test_only_names_items_and_analyses_and_random_weights_are_looked_at(study, run, store):
    file = study(metrics="none", more=JOURNEYS + "\nbaselines: [random-init, shuffled]")
    outcome, _ = run(file, only=("j", "journeys", "dec"))
    assert (outcome.computed, outcome.failed) == (2, 0)
    assert set(select(store, "SELECT DISTINCT model FROM cells")) == {"dec", "dec (random-init)"}
    for only, message in ((("inline", "journeys"), "run each name alone"), (("nested",), "no cell of study 'tiny'")):
        with pytest.raises(UsageError, match=message):  # an analysis looks at no corpus: nothing is both
            run(file, only=only)


def test_vocabulary_of_the_last_checkpoint(study, run, store):
    outcome, _ = run(study(metrics="none", more="vocabulary: {models: [enc], points: 20}"))
    assert (outcome.computed, outcome.failed) == (1, 0)
    tokens = select(store, "SELECT token, norm FROM vocabulary ORDER BY token_id")
    assert [len(tokens)] == select(store, "SELECT vocabulary_size FROM models")
    assert all(norm is not None for _, norm in tokens) and "[CLS]" in dict(tokens)
    assert select(store, "SELECT said FROM vocabulary_facts WHERE fact = 'positions'") == ["learned"]
    assert select(store, "SELECT count(*) FROM positions") == [16]
    assert select(store, "SELECT DISTINCT analysis, item FROM projections") == [("vocabulary", "(weights)")]


def test_probes_take_the_vectors_of_a_pass_bit_for_bit_and_no_text_goes_through_the_model_twice(
    study, run, store, monkeypatch
):
    texts = [f"{who} {what} {n}" for who in ("a dog", "the cat") for what in ("sleeps", "runs") for n in WORDS[:6]]
    keys = "column: text, label: kind}\n"
    labelled = ("corpora:\n", f"corpora:\n  labelled: {{file: labelled.csv, {keys}  other: {{file: other.csv, {keys}")
    probe = "probes: {kind: {corpus: labelled, hidden: 0}, other: {corpus: other, hidden: 0}}"
    file = study(labelled, metrics="[motion]", views="[text tokens]", more=probe)
    rows = "".join(f"{text},{text[0]}\n" for text in [*texts, *texts[:3]])  # some twice
    (file.folder / "labelled.csv").write_text(f"text,kind\n{rows}", "utf-8")
    (file.folder / "other.csv").write_text(f"text,kind\n{rows}".replace(" ", " old "), "utf-8")

    def results(**options):
        outcome, log = run(file, only=["dec"], **options)
        assert outcome.exit_code == 0, log
        numbers = store.frame("FROM layer_metrics WHERE metric = 'probes' ORDER BY ALL")
        assert len(numbers)
        return numbers, store.frame("FROM projections ORDER BY ALL")

    read, encode = [], _items.encode
    monkeypatch.setattr(_items, "encode", lambda texts, *more: read.append(len(texts)) or encode(texts, *more))
    gathered = results()
    assert read == [] and np.isfinite(gathered[1][["x", "y"]].to_numpy()).all()
    monkeypatch.setattr(text_vectors, "MOST_BYTES", 0)
    shutil.rmtree(store.path.parent / "cache")  # the texts go through the model again, and are not gathered
    encoded = results(force=True)
    assert read == [len(texts)] * 2
    assert all(ours.equals(theirs) for ours, theirs in zip(gathered, encoded, strict=True))
