"""What a run computes, keeps, takes over, drops and reports as failed."""

import json
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest

from reporter.core.errors import UsageError, describe, library_error
from reporter.forward import passes
from reporter.forward.inputs import digest
from reporter.metrics import base as registry
from reporter.metrics.base import Metric, Statistic, Value
from reporter.models.places import Place
from reporter.runs import runner
from reporter.store import CellKey
from reporter.texts.sources.generated import grammar_texts

NUMBERS = "SELECT * EXCLUDE (ci_low, ci_high), ci_low, ci_high FROM layer_metrics ORDER BY ALL"
INLINE = '  inline: {texts: ["one two three", "the cat sleeps here", "a dog"]}\n'


def test_every_cell_is_computed_with_one_pass_for_each_checkpoint_and_corpus(finished, finished_store):
    cells = finished_store.frame("SELECT * FROM cells")
    assert set(cells["status"]) == {"done"} and set(cells["why"]) == {"new"}
    alone = cells[~cells["corpus"].str.contains(" | ", regex=False)]
    passes_of = alone.groupby(["model", "checkpoint", "corpus"])["forward_passes"].sum()
    assert len(passes_of) == 6 and set(passes_of) == {1}
    assert cells["forward_passes"].sum() == 6  # comparisons of two corpora need none
    assert len(list((finished / "cache" / "tokens").iterdir())) == 2 * 2  # for six passes: two tokenizers, two corpora
    first = cells["tokens"] - cells["ordinary"] - cells["special"] - cells["sinks"]  # set aside, and no sink
    assert (cells["sinks"] == 0).all() and (first == cells["texts"]).all()
    models = finished_store.frame("SELECT * FROM models ORDER BY model, step")
    assert list(models["role"]) == ["decoder", "encoder", "encoder"] and list(models["step"]) == [2, 0, 2]
    assert list(models["initialised"]) == [False, True, False]
    assert models["loss"].notna().all() and models["unigram_entropy"].notna().all()
    numbers = finished_store.frame("SELECT * FROM layer_metrics")
    assert set(numbers["view"]) == {"words", "all"} and numbers["depth"].max() == 1
    assert numbers.query("layer == 0")["site"].unique().tolist() == ["embedding"]
    assert set(numbers.query("layer > 0 and role == 'encoder'")["site"]) == {"block"}  # it ends in a norm of its block
    assert set(numbers.query("layer > 0 and role == 'decoder'")["site"]) == {"block", "final"}


def test_under_auto_cells_store_the_precision_used_and_reuse_what_is_there(study, run, store, monkeypatch):
    auto, dec = ("run: {precision: float32}", "run: {precision: auto}"), ["dec"]
    run(study(auto), only=dec)
    cells = store.frame("SELECT * FROM cells").astype(object)
    inputs = [json.loads(text) for text in cells["inputs"]]
    assert {row["precision"] for row in inputs} == {"float32"}
    assert {row.get("precision of the second", "float32") for row in inputs} == {"float32"}
    # A study that asks for the settled precision, and one that asks for none, find these cells.
    assert [run(study(*changes), only=dec)[0].computed for changes in ((), (auto,))] == [0, 0]
    # Cells of an earlier build say "auto": they are known as well.
    for (_, cell), row in zip(cells.iterrows(), inputs, strict=True):
        before = row | {part: "auto" for part in row if part.startswith("precision")}
        stored = {"inputs": json.dumps(before), "fingerprint": digest(before)}
        store.put("cells", CellKey._fields, {name: cell[name] for name in CellKey._fields} | stored)
    assert run(study(auto), only=dec)[0].cached == len(cells)
    # Without the numbers, kept observables decide, whatever the machine would choose now.
    store.path.unlink()
    monkeypatch.setattr(passes, "settle_precision", None)
    outcome, _ = run(study(auto), only=dec)
    assert (outcome.computed, outcome.failed) == (len(cells), 0)


@pytest.mark.report
def test_a_killed_run_leaves_the_pages_of_the_studies_it_finished(study, out, monkeypatch):
    first, second = study(), study(("study: tiny", "study: other"), name="other")
    whole, few = runner._run, ["enc", "inline", "motion"]

    def run_one(plan, *rest):
        if plan.file.study.study == "other":
            raise KeyboardInterrupt
        return whole(plan, *rest)

    monkeypatch.setattr(runner, "_run", run_one)
    with pytest.raises(KeyboardInterrupt):
        runner.run_studies([first, second], out, only=few)
    assert (out / "tiny" / "index.html").exists() and "tiny" in (out / "index.html").read_text("utf-8")
    assert not (out / "other").exists()
    monkeypatch.setattr(runner, "_run", whole)
    assert out / "other" / "index.html" in runner.run_studies([first, second], out, only=few).pages
    assert runner.run_studies([first, second], out, only=few).pages == ()


@pytest.mark.report
@pytest.mark.answers
def test_a_second_run_computes_nothing_imports_nothing_heavy_and_keeps_the_report(study, run, store, out, copied):
    claims = """
claims:
  grows: {says: It grows., shape: {metric: motion.norm, models: enc, corpus: nested, is: increasing}}
"""
    file = study(("run: {precision: float32}", f"run: {{precision: float32}}{claims}"))
    before = store.frame(NUMBERS)
    assert run(file)[0].pages != ()
    code = (
        "import sys; from reporter.app.cli import app; "
        f"app(['run', {str(file.path)!r}, '--out', {str(out)!r}], standalone_mode=False); "
        "print(*sorted({'torch', 'transformers', 'pandas', 'altair', 'scipy.stats'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "nothing to compute, 20 cells cached" in done.stderr and "the report is up to date" in done.stderr
    assert "claim grows: " in done.stderr and done.stdout.split() == []
    page = out / "tiny" / "index.html"
    page.write_text(page.read_text("utf-8").replace('content="reporter ', 'content="reporter 0.0.', 1), "utf-8")
    outcome, _ = run(file)  # an older version wrote the page
    assert (outcome.computed, outcome.cached) == (0, 20) and [path.name for path in outcome.pages][:2] == [
        "index.html"
    ] * 2
    assert run(file)[0].pages == ()
    pd.testing.assert_frame_equal(before, store.frame(NUMBERS))


def test_only_what_changed_runs_again_and_says_why(study, run, store, copied):
    smaller = ("sample: 64", "sample: 32")
    outcome, _ = run(study(smaller))
    assert (outcome.computed, outcome.cached) == (6, 14)
    reasons = store.frame("SELECT metric, why, forward_passes FROM cells WHERE metric = 'anisotropy'")
    assert set(reasons["why"]) == {"options changed (sample 64 → 32)"}
    assert reasons["forward_passes"].sum() == 0  # a smaller sample is part of the larger one that is kept
    outcome, _ = run(study(smaller, ("views: [words, all]", "views: [words, all, no-sinks]")))
    assert outcome.computed == 20
    assert store.frame("SELECT sum(forward_passes) AS n FROM cells WHERE why LIKE 'views%'")["n"][0] == 0


def test_a_new_version_of_a_metric_is_computed_again(study, run, store, monkeypatch, copied):
    from reporter.runs import planner

    catalogue = registry.catalogue()
    newer = replace(catalogue["motion"], version=catalogue["motion"].version + 1)
    monkeypatch.setattr(planner, "catalogue", lambda: {**catalogue, "motion": newer})
    assert run(study())[0].computed == 6
    (why,) = store.frame("SELECT DISTINCT why FROM cells WHERE metric = 'motion'")["why"]
    assert "version" in why


def test_what_a_study_drops_leaves_the_tables_and_comes_back_without_a_pass(study, run, store, copied):
    run(study((INLINE, ""), (", motion]", "]")))
    assert set(store.frame("SELECT DISTINCT corpus FROM layer_metrics")["corpus"]) == {"nested"}
    assert set(store.frame("SELECT corpus FROM corpora")["corpus"]) == {"nested"}
    assert set(store.frame("SELECT DISTINCT metric FROM layer_metrics")["metric"]) == {"anisotropy", "convergence"}
    outcome, _ = run(study())
    assert (outcome.computed, outcome.cached) == (20 - 6, 6)
    assert store.frame("SELECT sum(forward_tokens) AS n FROM cells WHERE metric = 'motion'")["n"][0] == 0


def test_some_texts_of_each_corpus_are_kept(study, run, store, copied):
    rows = store.frame("SELECT * FROM corpus_texts WHERE corpus = 'nested' ORDER BY number")
    assert len(rows) == 10 and list(rows["number"][:5]) == [1, 2, 3, 4, 5] and rows["number"].is_unique
    assert list(rows["drawn"]) == [False] * 5 + [True] * 5
    texts = [record.text for record in grammar_texts(40, (5, 20), 0)]
    assert list(rows["text"]) == [texts[number - 1][:200] for number in rows["number"]]
    assert list(rows["characters"]) == [len(texts[number - 1]) for number in rows["number"]]
    longer = "one two three " * 30
    run(study(("one two three", longer)), only=["inline", "motion"])
    frame = store.frame("SELECT * FROM corpus_texts ORDER BY corpus, number")
    inline = frame[frame["corpus"] == "inline"]
    assert list(inline["text"]) == [longer.strip()[:200], "the cat sleeps here", "a dog"] and not inline["drawn"].any()
    assert frame[frame["corpus"] == "nested"].reset_index(drop=True).equals(rows.reset_index(drop=True)), "as it was"


def test_a_pass_reports_how_many_texts_it_cut(study, run, store):
    shorter = ("texts: 40, words: [5, 20]}", "texts: 40, words: [5, 20], max_tokens: 12}")
    _, log = run(study(shorter), only=["dec", "motion"])
    cut = store.frame("SELECT max(cut_texts) AS n FROM cells WHERE corpus = 'nested'")["n"][0]
    assert 0 < cut < 40
    assert f"dec final × nested: {cut} of 40 texts ({cut / 40:.0%}) were cut at 12 tokens" in log
    assert log.count("were cut") == 1


def test_only_runs_a_part_and_force_computes_it_again(study, run, store):
    assert run(study(), only=["dec", "motion"])[0].computed == 2
    outcome, _ = run(study(), only=["dec"])
    assert (outcome.computed, outcome.cached) == (5, 2)
    outcome, _ = run(study(), only=["dec", "motion"], force=True)
    assert outcome.computed == 2
    assert set(store.frame("SELECT why FROM cells WHERE metric = 'motion'")["why"]) == {"forced"}
    with pytest.raises(UsageError, match="did you mean 'motion'"):
        run(study(), only=["motoin"])


def test_another_study_takes_over_the_same_numbers(study, run, store, copied):
    outcome, _ = run(study(("study: tiny", "study: other"), ("  dec:", "  renamed:"), name="other"))
    assert outcome.computed == 20
    before, after = (
        store.frame(
            "SELECT statistic, layer, view, corpus, checkpoint, step, role, value, ci_low, n FROM layer_metrics "
            "WHERE study = ? AND model = ? ORDER BY ALL",
            pair,
        )
        for pair in (("tiny", "dec"), ("other", "renamed"))
    )
    assert len(before) > 50
    pd.testing.assert_frame_equal(before, after)
    assert store.frame("SELECT sum(forward_passes) AS n FROM cells WHERE study = 'other'")["n"][0] == 0
    assert len(store.frame("SELECT * FROM models WHERE study = 'other' AND role IS NOT NULL")) == 3


def test_a_missing_model_and_a_missing_corpus_fail_only_their_cells(study, run, store):
    file = study(
        ("models:\n", "models:\n  gone: {path: nowhere}\n"),
        ("corpora:\n", "corpora:\n  lost: {file: missing.txt}\n"),
    )
    outcome, log = run(file, only=["gone", "dec"])
    assert outcome.exit_code == 1 and outcome.computed == 7
    failed = store.frame("SELECT model, corpus, error FROM cells WHERE status = 'failed'")
    # gone × 3 corpora, dec × lost; between corpora: all of gone, and those of dec with lost
    assert len(failed) == outcome.failed == 3 * 3 + 3 + 3 + 2
    assert failed["error"].str.contains("nowhere|missing.txt").all() and "Traceback" not in log
    assert store.frame("SELECT status FROM models WHERE model = 'gone'")["status"][0] == "failed"
    assert store.frame("SELECT status FROM corpora WHERE corpus = 'lost'")["status"][0] == "failed"
    again, _ = run(file, only=["gone", "dec"])
    assert again.exit_code == 1 and again.cached == 7


def test_a_cell_without_any_number_is_named_with_the_reason(study, run):
    texts = ("views:", "probes: {p: {corpus: same}}\nviews:")
    corpus = ("  inline:", "  same: {file: same.csv, column: text, label: kind}\n  inline:")
    file = study(texts, corpus)
    (file.folder / "same.csv").write_text("text,kind\n" + "the cat sleeps,a\n" * 20)
    _, log = run(file, only=["dec", "probes", "p"])
    assert "dec × final × p × probes: no numbers: fewer than two labels have at least 5 different texts" in log


def test_a_model_that_cannot_be_trained_fails_only_its_cells(study, run, store, monkeypatch):
    from reporter.runs import work

    real = work.prepare

    def prepare(checkpoints, progress):
        if checkpoints[0].model == "enc":
            raise RuntimeError("the loss is not finite")
        return real(checkpoints, progress)

    monkeypatch.setattr(work, "prepare", prepare)
    outcome, _ = run(study(), only=["convergence"])
    assert (outcome.computed, outcome.failed) == (2 + 1, 4 + 1)  # with the comparison of the corpora
    failed = store.frame("SELECT DISTINCT model, error FROM cells WHERE status = 'failed'")
    assert set(failed["model"]) == {"enc"} and failed["error"].str.contains("the loss is not finite").all()
    models = store.frame("SELECT model, checkpoint, status FROM models ORDER BY ALL").values.tolist()
    assert models == [["dec", "final", "done"], ["enc", "step-0", "failed"], ["enc", "step-2", "failed"]]
    monkeypatch.setattr(work, "prepare", real)
    assert run(study(), only=["convergence"])[0].failed == 0


def _broken(kind: str) -> Metric:
    def compute(seen, options):
        yield Value("first", Place("embedding", 0), 1.0, 1, ci_low=float("-inf"), ci_high=2.0)
        if kind == "raises":
            raise ZeroDivisionError("by nothing")
        yield Value("second", Place("embedding", 0), float("nan"), 1)

    statistics = (Statistic("first", "first", "1", ()), Statistic("second", "second", "0/0", ()))
    return Metric(name="motion", title="Broken", summary="", statistics=statistics, needs=("moments",), compute=compute)


@pytest.mark.parametrize("kind", ["raises", "is not a number"])
def test_a_metric_that_breaks_fails_only_its_cells(study, run, store, monkeypatch, kind):
    from reporter.runs import planner

    catalogue = {**registry.catalogue(), "motion": _broken(kind)}
    monkeypatch.setattr(planner, "catalogue", lambda: catalogue)
    outcome, log = run(study(), only=["dec", "motion", "anisotropy"])
    rows = store.frame("SELECT status, error, reasons FROM cells WHERE metric = 'motion'")
    if kind == "raises":
        assert (outcome.computed, outcome.failed) == (2, 2)
        assert rows["error"].str.startswith("ZeroDivisionError: by nothing (test_runner.py:").all()
    else:
        assert (outcome.computed, outcome.failed) == (4, 0)
        assert rows["reasons"].str.contains("not a finite number").all()
        value = store.frame("SELECT value FROM layer_metrics WHERE statistic = 'second'")["value"]
        assert len(value) and value.isna().all()
        assert rows["reasons"].str.contains("the interval is not finite").all()
        first = store.frame("SELECT value, ci_low, ci_high FROM layer_metrics WHERE statistic = 'first'")
        assert (first["value"] == 1).all() and first[["ci_low", "ci_high"]].isna().all(axis=None)
        assert "intervals of 2 cells are not finite" in log and "(motion); see the column cells.reasons" in log


def test_states_of_a_text_that_are_not_finite_fail_the_cells_and_name_the_text(study, run, store, monkeypatch):
    import torch

    from reporter.models.load import LoadedModel

    real_run, real_measure = LoadedModel.run, passes.measure
    corpus = []

    def measure(model, texts, *args, **kwargs):
        corpus[:] = [texts.name]
        return real_measure(model, texts, *args, **kwargs)

    def broken(self, ids, mask, *more):
        captured = real_run(self, ids, mask, *more)
        if corpus == ["inline"]:
            captured.path[1][0, 0, 0] = torch.nan
        return captured

    monkeypatch.setattr(passes, "measure", measure)
    monkeypatch.setattr(LoadedModel, "run", broken)
    outcome, _ = run(study(), only=["dec", "convergence"])
    assert (outcome.computed, outcome.failed) == (1, 1 + 1)  # and the comparison with that corpus
    errors = store.frame("SELECT DISTINCT error FROM cells WHERE status = 'failed'")["error"]
    assert len(errors) == 1 and "layer 1" in errors[0] and "'inline'" in errors[0]


def test_an_error_without_enough_memory_names_the_key_to_change():
    try:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 67 bytes")
    except RuntimeError as error:
        text = describe(error)
    assert "memory" in text and "(test_runner.py:" in text and "`batch_tokens`" in text
    assert "memory" in library_error(RuntimeError("can't start new thread")).partition("(RuntimeError: can't")[0]
    assert library_error(RuntimeError("no such\nweight")) == "RuntimeError: no such weight"
