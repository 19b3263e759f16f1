"""What a run computes, keeps, takes over, drops and reports as failed."""

import gc
import hashlib
import json
import os
import subprocess
import sys
import weakref
from dataclasses import replace

import pytest
from runs.conftest import INLINE, select

from reporter.core.checksums import read_note
from reporter.core.errors import ReporterError, UsageError
from reporter.core.progress import Progress
from reporter.forward import passes
from reporter.metrics import base as registry
from reporter.metrics.base import Metric, Statistic, Value
from reporter.models.load import LoadedModel
from reporter.models.model_folder import fingerprint
from reporter.models.places import Place
from reporter.runs import runner, work
from reporter.runs.records import now, study_row
from reporter.store import CellKey
from reporter.texts.sources.generated import grammar_texts

PASSES = "SELECT sum(forward_passes)::INTEGER FROM cells WHERE "
OTHER = ("study: tiny", "study: other")


@pytest.fixture
def metric(monkeypatch):
    """Return a function that puts a metric in the place of ``motion``."""

    def put(motion):
        monkeypatch.setattr("reporter.runs.planner.catalogue", lambda: {**registry.catalogue(), "motion": motion})

    return put


def test_every_cell_is_computed_with_one_pass_for_each_checkpoint_and_corpus(finished, finished_store):
    def selected(sql):
        return select(finished_store, sql)

    assert selected("SELECT DISTINCT (status, why) FROM cells") == [("done", "new")]
    one_corpus = "corpus NOT LIKE '%|%' GROUP BY model, checkpoint, corpus"
    assert selected(PASSES + one_corpus) == [1] * 6 and selected(PASSES + "true") == [6]  # comparisons need none
    assert len(list((finished / "cache" / "tokens").iterdir())) == 2 * 2  # two tokenizers, two corpora
    # The first token of each text is set aside, and none is a sink.
    assert not selected("SELECT * FROM cells WHERE sinks > 0 OR tokens - ordinary - special - sinks != texts")
    models = "SELECT role, step, initialised, loss > 0, unigram_entropy > 0 FROM models ORDER BY model, step"
    encoders = [("encoder", 0, True, True, True), ("encoder", 2, False, True, True)]
    assert selected(models) == [("decoder", 2, False, True, True), *encoders]
    depths = "SELECT view, max(depth) FROM layer_metrics GROUP BY view ORDER BY view"
    assert selected(depths) == [("text tokens", 1.0), ("with special tokens", 1.0)]
    places = "SELECT DISTINCT role, site FROM layer_metrics WHERE layer {} 0 ORDER BY ALL"
    assert selected(places.format("=")) == [("decoder", "embedding"), ("encoder", "embedding")]
    # The encoder ends in a norm of its block.
    assert selected(places.format(">")) == [("decoder", "block"), ("decoder", "final"), ("encoder", "block")]


def test_models_and_what_was_measured_are_freed_without_a_collection_of_garbage(study, run, metric, monkeypatch):
    kept, real = [], work.load

    def load(*of):
        model = real(*of)
        kept.extend(map(weakref.ref, model.module.modules()))
        return model

    def compute(seen, options):
        seen.once("what a metric remembers", lambda: seen)
        kept.append(weakref.ref(seen))
        yield Value("first", Place("embedding", 0), 1.0, 1)

    monkeypatch.setattr(work, "load", load)
    of_motion = {"statistics": (Statistic("first", "first", "", ()),), "needs": ("moments",), "compute": compute}
    metric(Metric(name="motion", title="", summary="", **of_motion))
    gc.collect()
    gc.disable()
    try:
        run(study(), only=["dec", "motion"])
        stay = {type(of).__name__ for reference in kept if (of := reference()) is not None}
    finally:
        gc.enable()
    assert len(kept) > 10 and not stay


def test_under_auto_cells_store_the_precision_used_and_reuse_what_is_there(study, run, store, monkeypatch):
    auto, only = ("precision: float32", "precision: auto"), ["dec", "motion"]
    run(study(auto), only=only)
    cells = store.records("SELECT *, inputs::VARCHAR AS inputs FROM cells")
    inputs = [json.loads(row["inputs"]) for row in cells]
    assert {value for row in inputs for part, value in row.items() if part.startswith("precision")} == {"float32"}
    # A study that asks for the settled precision, and one that asks for none, find these cells.
    assert [run(study(*changes), only=only)[0].computed for changes in ((), (auto,))] == [0, 0]
    # Cells of an earlier build say "auto": they are known as well.
    for cell, row in zip(cells, inputs, strict=True):
        before = row | {part: "auto" for part in row if part.startswith("precision")}
        changed = {"inputs": json.dumps(before), "fingerprint": fingerprint(before)}
        store.put("cells", CellKey._fields, {name: cell[name] for name in CellKey._fields} | changed)
    assert run(study(auto), only=only)[0].cached == len(cells)
    # Without the numbers, kept observables decide, whatever the machine would choose now.
    store.path.unlink()
    monkeypatch.setattr(passes, "settle_precision", None)
    outcome, _ = run(study(auto), only=only)
    assert (outcome.computed, outcome.failed) == (len(cells), 0)


def test_weights_are_hashed_and_the_script_joined_ahead_of_a_run_unless_all_is_done(study, out, store, monkeypatch):
    begun, weights = [], os.urandom(20 << 20)  # hashed in more than one piece
    monkeypatch.setattr("reporter.report.templating.begin_script", lambda: begun.append(True))
    file = study(("models:\n", "models:\n  lost: {path: nowhere}\n  mine: {path: mine}\n"))
    (file.folder / "mine").mkdir()
    for name, content in (("config.json", b"{}"), ("tokenizer.json", b"{}"), ("model.safetensors", weights)):
        (file.folder / "mine" / name).write_bytes(content)
        os.utime(file.folder / "mine" / name, (1e9, 1e9))
    store.put("studies", ["study"], study_row(file, started=now(), finished=now()))
    runner.begin([file], out, Progress())
    assert not begun
    runner.begin([file], out, Progress(), force=True)
    hashes = [known[2] for known in read_note(out / "cache" / "file-hashes.json").values()]
    assert begun == [True] and hashlib.sha256(weights).hexdigest() in hashes


@pytest.mark.report
def test_a_killed_run_leaves_the_pages_of_the_studies_it_finished(study, run, out, monkeypatch):
    files, only, whole = (study(), study(OTHER, name="other")), ["enc", "inline", "motion"], runner._run

    def run_one(plan, *rest):
        if plan.file.study.study == "other":
            raise KeyboardInterrupt
        return whole(plan, *rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(runner, "_run", run_one)
        run(*files, only=only)
    assert (out / "tiny" / "index.html").exists() and "tiny" in (out / "index.html").read_text("utf-8")
    assert not (out / "other").exists()
    assert out / "other" / "index.html" in run(*files, only=only)[0].pages
    assert run(*files, only=only)[0].pages == ()


@pytest.mark.report
@pytest.mark.answers
def test_a_second_run_computes_nothing_imports_nothing_heavy_and_keeps_the_report(study, run, store, out):
    claim = "{says: It grows., shape: {metric: motion.norm, models: dec, corpus: inline, is: increasing}}"
    file = study(
        ("train_on: nested", "train_on: inline"), ("  nested: {generate: grammar, texts: 40, words: [5, 20]}\n", ""),
        metrics="[motion]", views="[text tokens]", more=f"claims: {{grows: {claim}}}",
    )  # fmt: skip
    outcome, log = run(file)
    assert outcome.pages != () and log.splitlines()[-1].startswith("total time ") and " tokens in " in log
    ((timings, seconds),) = select(store, "SELECT timings, seconds FROM studies")
    parts = json.loads(timings)
    assert {"forward", "observables", "metrics", "store", "loading", "tokenising"} <= set(parts)
    assert sum(parts.values()) == pytest.approx(seconds, abs=0.2, rel=0.2)
    numbers = store.frame("FROM layer_metrics")
    code = (
        "import sys; from reporter.app.cli import app; "
        f"app(['run', {str(file.path)!r}, '--out', {str(out)!r}], standalone_mode=False); "
        "print(*sorted({'torch', 'transformers', 'pandas', 'altair', 'scipy.stats'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "nothing to compute, 3 cells cached" in done.stderr and "the report is up to date" in done.stderr
    assert "claim grows: " in done.stderr and "total time" not in done.stderr and done.stdout.split() == []
    page = out / "tiny" / "index.html"
    page.write_text(page.read_text("utf-8").replace('content="reporter ', 'content="reporter 0.0.', 1), "utf-8")
    outcome, _ = run(file)  # an older version wrote the page
    assert (outcome.computed, outcome.cached) == (0, 3) and page in outcome.pages
    assert run(file)[0].pages == () and numbers.equals(store.frame("FROM layer_metrics"))


def test_only_what_changed_runs_again_and_says_why(study, run, store, copied, metric):
    smaller = "[convergence, {anisotropy: {sample: 32, batches: 2}}, motion]"
    motion = registry.catalogue()["motion"]
    metric(replace(motion, version=motion.version + 1))
    outcome, _ = run(study(metrics=smaller))
    assert (outcome.computed, outcome.cached) == (6 + 6, 8)
    whys = set(select(store, "SELECT metric, why FROM cells WHERE why != 'new'"))
    assert ("anisotropy", "options changed (sample 64 → 32)") in whys and len(whys) == 2
    assert all("version" in why for name, why in whys if name == "motion")
    # A smaller sample is part of the larger one that is kept.
    assert select(store, PASSES + "metric = 'anisotropy'") == [0]
    outcome, _ = run(study(metrics=smaller, views="[text tokens, with special tokens, without sinks]"), only=["dec"])
    assert outcome.computed == 7 and select(store, PASSES + "why LIKE 'views%'") == [0]


def test_what_a_study_drops_leaves_the_tables_and_comes_back_without_a_pass(study, run, store, copied):
    run(study((INLINE, ""), metrics="[convergence, {anisotropy: {sample: 64, batches: 2}}]"))
    for table in ("layer_metrics", "corpora"):
        assert select(store, f"SELECT DISTINCT corpus FROM {table}") == ["nested"]
    assert set(select(store, "SELECT DISTINCT metric FROM layer_metrics")) == {"anisotropy", "convergence"}
    outcome, _ = run(study())
    assert (outcome.computed, outcome.cached) == (20 - 6, 6)
    assert select(store, PASSES + "metric = 'motion'") == [0]


def test_some_texts_of_each_corpus_are_kept(study, run, store, copied):
    kept = "SELECT number, drawn, text, characters FROM corpus_texts WHERE corpus = '{}' ORDER BY number"
    rows, texts = select(store, kept.format("nested")), [record.text for record in grammar_texts(40, (5, 20), 0)]
    assert [row[:2] for row in rows[:5]] == [(number, False) for number in range(1, 6)]
    assert len({row[0] for row in rows}) == 10 and all(drawn for _, drawn, *_ in rows[5:])
    assert all((text, size) == (texts[n - 1][:200], len(texts[n - 1])) for n, _, text, size in rows)
    longer = ("one two three " * 30).strip()
    run(study(("one two three", longer)), only=["inline", "motion", "dec"])
    shown = [text for _, _, text, _ in select(store, kept.format("inline"))]
    assert shown == [longer[:200], "the cat sleeps here", "a dog"]
    assert select(store, kept.format("nested")) == rows, "the others are as they were"


def test_a_part_is_run_alone_or_by_force_and_names_the_texts_that_it_cuts(study, run, store):
    file = study(("texts: 40, words: [5, 20]}", "texts: 40, words: [5, 20], max_tokens: 12}"))
    outcome, log = run(file, only=["dec", "motion"])
    (cut,) = select(store, "SELECT max(cut_texts) FROM cells WHERE corpus = 'nested'")
    assert f"dec final × nested: {cut} of 40 texts ({cut / 40:.0%}) were cut at 12 tokens" in log and 0 < cut < 40
    assert outcome.computed == 2 and log.count("were cut") == 1
    outcome, _ = run(file, only=["dec"])
    assert (outcome.computed, outcome.cached) == (5, 2)
    assert run(file, only=["dec", "motion"], force=True)[0].computed == 2
    assert select(store, "SELECT DISTINCT why FROM cells WHERE metric = 'motion'") == ["forced"]
    with pytest.raises(UsageError, match="did you mean 'motion'"):
        run(file, only=["motoin"])


def test_another_study_takes_over_the_same_numbers(study, run, store, copied):
    assert run(study(OTHER, ("  dec:", "  renamed:"), name="other"))[0].computed == 20
    columns = "statistic, layer, view, corpus, checkpoint, step, role, value, ci_low, n"
    numbers = f"SELECT {columns} FROM layer_metrics WHERE (study, model) = ('{{}}', '{{}}') ORDER BY ALL"
    before = select(store, numbers.format("tiny", "dec"))
    assert len(before) > 50 and before == select(store, numbers.format("other", "renamed"))
    assert select(store, PASSES + "study = 'other'") == [0]
    assert len(select(store, "SELECT * FROM models WHERE study = 'other' AND role IS NOT NULL")) == 3


def test_missing_models_and_corpora_and_failed_trainings_fail_only_their_cells(study, run, store, monkeypatch):
    real = work.prepare

    def prepare(checkpoints, progress):
        if checkpoints[0].model == "enc":
            raise RuntimeError("the loss is not finite")
        return real(checkpoints, progress)

    gone, lost = ("  gone: {path: nowhere}\n", "  lost: {file: missing.txt}\n")
    file = study(("models:\n", f"models:\n{gone}"), ("corpora:\n", f"corpora:\n{lost}"))
    with monkeypatch.context() as patch:
        patch.setattr(work, "prepare", prepare)
        outcome, log = run(file, only=["convergence"])
    assert outcome.exit_code == 1 and outcome.computed == 3 and "Traceback" not in log
    assert log.count("there is no folder") == 1 and "as above" in log
    failed = select(store, "SELECT model, corpus, error FROM cells WHERE status = 'failed'")
    # Corpora and pairs of corpora: of gone, of both checkpoints of enc (pairs of the last one), and of dec with lost.
    assert len(failed) == outcome.failed == (3 + 3) + (2 * 3 + 3) + (1 + 2)
    for model, error in (("gone", "nowhere"), ("enc", "the loss is not finite|missing.txt"), ("dec", "missing.txt")):
        assert all(any(words in why for words in error.split("|")) for name, _, why in failed if name == model), model
    models = select(store, "SELECT model, checkpoint, status FROM models ORDER BY ALL")
    failing = [("enc", "step-0", "failed"), ("enc", "step-2", "failed"), ("gone", "final", "failed")]
    assert models == [("dec", "final", "done"), *failing]
    assert select(store, "SELECT status FROM corpora WHERE corpus = 'lost'") == ["failed"]
    again, _ = run(file, only=["convergence"])
    assert (again.exit_code, again.cached, again.computed) == (1, 3, 5)


def test_there_is_no_empty_report_before_there_is_something_to_measure(study, tmp_path):
    gone, lost = ("  gone: {path: nowhere}\n", "  lost: {file: missing.txt}\n")
    file = study(("models:\n", f"models:\n{gone}"), ("corpora:\n", f"corpora:\n{lost}"))
    for only, says in (["dec", "lost"], "there is no file .*missing"), (["gone"], "there is no folder .*nowhere"):
        with pytest.raises(ReporterError, match=f"tiny: nothing can be measured: .*{says}"):
            runner.run_studies([file], tmp_path / "new" / "results", only=only)
        assert {path.name for path in (tmp_path / "new").rglob("*")} <= {"results", "cache", "texts"} | {
            path.name for path in (tmp_path / "new").rglob("cache/**/*")
        }


@pytest.mark.parametrize("kind", ["raises", "is not a number"])
def test_a_metric_that_breaks_fails_only_its_cells(study, run, store, metric, kind):
    def compute(seen, options):
        yield Value("first", Place("embedding", 0), 1.0, 1, ci_low=float("-inf"), ci_high=2.0)
        if kind == "raises":
            raise ZeroDivisionError("by nothing")
        yield Value("second", Place("embedding", 0), float("nan"), 1)

    statistics = tuple(Statistic(name, name, "", ()) for name in ("first", "second"))
    metric(Metric(name="motion", title="", summary="", statistics=statistics, needs=("moments",), compute=compute))
    outcome, log = run(study(), only=["dec", "motion", "anisotropy"])
    cells = select(store, "SELECT error, reasons FROM cells WHERE metric = 'motion'")
    if kind == "raises":
        assert (outcome.computed, outcome.failed) == (2, 2)
        assert all(error.startswith("ZeroDivisionError: by nothing (test_runner.py:") for error, _ in cells)
        return
    assert (outcome.computed, outcome.failed) == (4, 0)
    assert all("not a finite number" in why and "the interval is not finite" in why for _, why in cells)
    rows = select(store, "SELECT DISTINCT statistic, value, ci_low, ci_high FROM layer_metrics WHERE metric = 'motion'")
    assert sorted(rows) == [("first", 1.0, None, None), ("second", None, None, None)]
    assert "intervals of 2 cells are not finite" in log and "(motion); see the column cells.reasons" in log


def test_states_of_a_text_that_are_not_finite_fail_the_cells_and_name_the_text(study, run, store, monkeypatch):
    real = LoadedModel.run

    def broken(self, ids, mask, *more):
        captured = real(self, ids, mask, *more)
        if len(ids) == 4:  # only inline has a batch of four texts
            captured.path[1][0, 0, 0] = float("nan")
        return captured

    monkeypatch.setattr(LoadedModel, "run", broken)
    outcome, _ = run(study(('"a dog"', '"a dog", "a cat"')), only=["dec", "convergence"])
    assert (outcome.computed, outcome.failed) == (1, 1 + 1)  # and the comparison with that corpus
    (error,) = select(store, "SELECT DISTINCT error FROM cells WHERE status = 'failed'")
    assert "layer 1" in error and "'inline'" in error
