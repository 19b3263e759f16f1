from __future__ import annotations

import json
import shutil
import subprocess
import sys

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


def test_every_cell_is_computed_with_one_pass_for_each_checkpoint_and_corpus(study, run, store, out):
    outcome, _ = run(study())
    assert (outcome.computed, outcome.cached, outcome.failed, outcome.exit_code) == (20, 0, 0, 0)
    cells = store.frame("SELECT * FROM cells")
    assert set(cells["status"]) == {"done"} and set(cells["why"]) == {"new"}
    alone = cells[~cells["corpus"].str.contains(" | ", regex=False)]
    passes_of = alone.groupby(["model", "checkpoint", "corpus"])["forward_passes"].sum()
    assert len(passes_of) == 6 and set(passes_of) == {1}
    assert cells["forward_passes"].sum() == 6  # what compares two corpora needs none
    assert len(list((out / "cache" / "tokens").iterdir())) == 2 * 2  # for six passes: two tokenizers, two corpora
    first = cells["tokens"] - cells["ordinary"] - cells["special"] - cells["sinks"]  # set aside, and no sink
    assert (cells["sinks"] == 0).all() and (first == cells["texts"]).all()
    models = store.frame("SELECT * FROM models ORDER BY model, step")
    assert list(models["role"]) == ["decoder", "encoder", "encoder"] and list(models["step"]) == [2, 0, 2]
    assert models["loss"].notna().all() and models["unigram_entropy"].notna().all()
    numbers = store.frame("SELECT * FROM layer_metrics")
    assert set(numbers["view"]) == {"words", "all"} and numbers["depth"].max() == 1
    assert numbers.query("layer == 0")["site"].unique().tolist() == ["embedding"]
    assert set(numbers.query("layer > 0 and role == 'encoder'")["site"]) == {"block"}  # it ends in a norm of its block
    assert set(numbers.query("layer > 0 and role == 'decoder'")["site"]) == {"block", "final"}


def test_under_auto_cells_say_what_was_computed_and_take_what_is_there(study, run, store, monkeypatch):
    auto = ("run: {precision: float32}", "run: {precision: auto}")
    run(study(auto))
    cells = store.frame("SELECT * FROM cells").astype(object)
    inputs = [json.loads(one) for one in cells["inputs"]]
    assert {one["precision"] for one in inputs} == {"float32"}
    assert {one.get("precision of the second", "float32") for one in inputs} == {"float32"}
    # Settled is what a study asks for that asks for just that; and one that asks for nothing takes it.
    assert [run(study(*how))[0].computed for how in ((), (auto,))] == [0, 0]
    # Cells of an earlier build say "auto": they are known, too.
    for (_, cell), one in zip(cells.iterrows(), inputs, strict=True):
        before = one | {part: "auto" for part in one if part.startswith("precision")}
        row = {"inputs": json.dumps(before), "fingerprint": digest(before)}
        store.put("cells", CellKey._fields, {name: cell[name] for name in CellKey._fields} | row)
    assert run(study(auto))[0].cached == len(cells)
    # Where the numbers are gone, kept observables decide, whatever the machine would choose now.
    store.path.unlink()
    monkeypatch.setattr(passes, "settle_precision", None)
    outcome, _ = run(study(auto))
    assert (outcome.computed, outcome.failed) == (len(cells), 0)


@pytest.mark.report
def test_a_run_that_is_killed_leaves_the_pages_of_the_studies_it_finished(study, out, monkeypatch):
    first, second = study(), study(("study: tiny", "study: other"), name="other")
    whole = runner._run

    def run_one(plan, *rest):
        if plan.file.study.study == "other":
            raise KeyboardInterrupt
        return whole(plan, *rest)

    monkeypatch.setattr(runner, "_run", run_one)
    with pytest.raises(KeyboardInterrupt):
        runner.run_studies([first, second], out, only=["enc", "nested"])
    assert (out / "tiny" / "index.html").exists() and "tiny" in (out / "index.html").read_text("utf-8")
    assert not (out / "other").exists()
    monkeypatch.setattr(runner, "_run", whole)
    assert out / "other" / "index.html" in runner.run_studies([first, second], out, only=["enc", "nested"]).pages
    assert runner.run_studies([first, second], out, only=["enc", "nested"]).pages == ()


@pytest.mark.report
def test_a_second_run_computes_nothing_and_says_so(study, run, store, out):
    run(study())
    before = store.frame(NUMBERS)
    outcome, said = run(study())
    assert (outcome.computed, outcome.cached, outcome.pages) == (0, 20, ())
    assert "nothing to compute, all 20 cells are done" in said and "the report is up to date" in said
    page = out / "tiny" / "index.html"
    page.write_text(page.read_text("utf-8").replace('content="reporter ', 'content="reporter 0.0.', 1), "utf-8")
    assert [one.name for one in run(study())[0].pages] == ["index.html"] * 2  # an older reporter wrote it
    assert run(study())[0].pages == ()
    pd.testing.assert_frame_equal(before, store.frame(NUMBERS))


@pytest.mark.report
def test_where_nothing_is_to_compute_nothing_heavy_is_imported(study, run, out):
    claims = """
claims:
  grows: {says: It grows., shape: {metric: motion.norm, models: enc, corpus: nested, is: increasing}}
"""
    file = study(("run: {precision: float32}", f"run: {{precision: float32}}{claims}"))
    run(file)
    code = (
        "import sys; from reporter.app.cli import app; "
        f"app(['run', {str(file.path)!r}, '--out', {str(out)!r}], standalone_mode=False); "
        "print(*sorted({'torch', 'transformers', 'pandas', 'altair', 'scipy.stats'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "nothing to compute" in done.stderr and "claim grows: " in done.stderr
    assert done.stdout.split() == []


def test_only_what_changed_runs_again_and_says_why(study, run, store):
    run(study())
    outcome, _ = run(study(("sample: 64", "sample: 32")))
    assert (outcome.computed, outcome.cached) == (6, 14)
    whys = store.frame("SELECT metric, why, forward_passes FROM cells WHERE metric = 'anisotropy'")
    assert set(whys["why"]) == {"options changed (sample 64 → 32)"}
    assert whys["forward_passes"].sum() == 0  # a smaller sample is part of the one that is kept
    outcome, _ = run(study(("sample: 64", "sample: 32"), ("views: [words, all]", "views: [words, all, no-sinks]")))
    assert outcome.computed == 20
    assert store.frame("SELECT sum(forward_passes) AS n FROM cells WHERE why LIKE 'views%'")["n"][0] == 0


def test_a_metric_added_later_needs_no_pass_if_its_observables_are_kept(study, run, store):
    run(study((", motion]", "]")))
    outcome, _ = run(study())
    assert (outcome.computed, outcome.cached) == (6, 14)
    added = store.frame("SELECT sum(forward_tokens) AS n FROM cells WHERE metric = 'motion'")
    assert added["n"][0] == 0


def test_what_a_study_no_longer_has_is_dropped(study, run, store):
    run(study())
    run(study(('  inline: {texts: ["one two three", "the cat sleeps here", "a dog"]}\n', "")))
    assert set(store.frame("SELECT DISTINCT corpus FROM layer_metrics")["corpus"]) == {"nested"}
    assert set(store.frame("SELECT corpus FROM corpora")["corpus"]) == {"nested"}


def test_some_texts_of_each_corpus_are_kept(study, run, store):
    run(study())
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


def test_a_pass_says_how_many_texts_it_cut(study, run, store):
    _, said = run(study(("texts: 40, words: [5, 20]}", "texts: 40, words: [5, 20], max_tokens: 12}")), only=["dec"])
    cut = store.frame("SELECT max(cut_texts) AS n FROM cells WHERE corpus = 'nested'")["n"][0]
    assert 0 < cut < 40
    assert f"dec final × nested: {cut} of 40 texts ({cut / 40:.0%}) are longer than 12 tokens and were cut" in said
    assert "× inline: 0" not in said and said.count("were cut") == 1


def test_only_runs_a_part_and_leaves_the_rest(study, run, store):
    outcome, _ = run(study(), only=["dec", "motion"])
    assert outcome.computed == 2
    outcome, _ = run(study(), only=["dec"])
    assert (outcome.computed, outcome.cached) == (5, 2)
    with pytest.raises(UsageError, match="did you mean 'motion'"):
        run(study(), only=["motoin"])


def test_force_computes_again(study, run, store):
    run(study(), only=["dec"])
    outcome, _ = run(study(), only=["dec"], force=True)
    assert outcome.computed == 7
    assert set(store.frame("SELECT why FROM cells")["why"]) == {"forced"}


def test_another_study_takes_over_the_same_numbers(study, run, store):
    run(study())
    other = study(("study: tiny", "study: other"), ("  dec:", "  renamed:"), name="other")
    outcome, _ = run(other)
    assert outcome.computed == 20
    mine, theirs = (
        store.frame(
            "SELECT statistic, layer, view, corpus, checkpoint, step, role, value, ci_low, n FROM layer_metrics "
            "WHERE study = ? AND model = ? ORDER BY ALL",
            pair,
        )
        for pair in (("tiny", "dec"), ("other", "renamed"))
    )
    assert len(mine) > 50
    pd.testing.assert_frame_equal(mine, theirs)
    assert store.frame("SELECT sum(forward_passes) AS n FROM cells WHERE study = 'other'")["n"][0] == 0
    assert len(store.frame("SELECT * FROM models WHERE study = 'other' AND role IS NOT NULL")) == 3


def test_a_model_and_a_corpus_that_cannot_be_had_leave_the_others_alone(study, run, store):
    file = study(
        ("models:\n", "models:\n  gone: {path: nowhere}\n"),
        ("corpora:\n", "corpora:\n  lost: {file: missing.txt}\n"),
    )
    outcome, said = run(file)
    assert outcome.exit_code == 1 and outcome.computed == 20
    failed = store.frame("SELECT model, corpus, error FROM cells WHERE status = 'failed'")
    # gone × 3 corpora, 3 checkpoints × lost; between corpora: gone, and the others with lost
    assert len(failed) == outcome.failed == 3 * 3 + 3 * 3 + 3 + 2 * 2
    assert failed["error"].str.contains("nowhere|missing.txt").all() and "Traceback" not in said
    assert store.frame("SELECT status FROM models WHERE model = 'gone'")["status"][0] == "failed"
    assert store.frame("SELECT status FROM corpora WHERE corpus = 'lost'")["status"][0] == "failed"
    again, _ = run(file)
    assert again.exit_code == 1 and again.cached == 20


def test_a_model_that_cannot_be_trained_leaves_the_others_alone(study, run, store, monkeypatch):
    from reporter.runs import work

    real = work.prepare

    def prepare(checkpoints, progress):
        if checkpoints[0].model == "enc":
            raise RuntimeError("the loss is not finite")
        return real(checkpoints, progress)

    monkeypatch.setattr(work, "prepare", prepare)
    outcome, _ = run(study())
    assert (outcome.computed, outcome.failed) == (6 + 1, 12 + 1)  # and each between corpora
    failed = store.frame("SELECT DISTINCT model, error FROM cells WHERE status = 'failed'")
    assert set(failed["model"]) == {"enc"} and failed["error"].str.contains("the loss is not finite").all()
    models = store.frame("SELECT model, checkpoint, status FROM models ORDER BY ALL").values.tolist()
    assert models == [["dec", "final", "done"], ["enc", "step-0", "failed"], ["enc", "step-2", "failed"]]
    monkeypatch.setattr(work, "prepare", real)
    assert run(study())[0].failed == 0


def _broken(kind: str) -> Metric:
    def compute(seen, options):
        yield Value("first", Place("embedding", 0), 1.0, 1, ci_low=float("-inf"), ci_high=2.0)
        if kind == "raises":
            raise ZeroDivisionError("by nothing")
        yield Value("second", Place("embedding", 0), float("nan"), 1)

    statistics = (Statistic("first", "first", "1", ()), Statistic("second", "second", "0/0", ()))
    return Metric(name="motion", title="Broken", summary="", statistics=statistics, needs=("moments",), compute=compute)


@pytest.mark.parametrize("kind", ["raises", "is not a number"])
def test_a_metric_that_breaks_leaves_the_others_alone(study, run, store, monkeypatch, kind):
    from reporter.runs import planner

    known = {**registry.catalogue(), "motion": _broken(kind)}
    monkeypatch.setattr(planner, "catalogue", lambda: known)
    outcome, said = run(study(), only=["dec"])
    rows = store.frame("SELECT status, error, reasons FROM cells WHERE metric = 'motion'")
    if kind == "raises":
        assert (outcome.computed, outcome.failed) == (5, 2)
        assert rows["error"].str.startswith("ZeroDivisionError: by nothing (test_runner.py:").all()
    else:
        assert (outcome.computed, outcome.failed) == (7, 0)
        assert rows["reasons"].str.contains("not a finite number").all()
        value = store.frame("SELECT value FROM layer_metrics WHERE statistic = 'second'")["value"]
        assert len(value) and value.isna().all()
        assert rows["reasons"].str.contains("its interval is not finite and was left out").all()
        first = store.frame("SELECT value, ci_low, ci_high FROM layer_metrics WHERE statistic = 'first'")
        assert (first["value"] == 1).all() and first[["ci_low", "ci_high"]].isna().all(axis=None)
        assert "some intervals of 2 cells are not finite and were left out (motion): see cells.reasons" in said


def test_batch_size_changes_nothing(study, run, store):
    run(study())
    before = store.frame(NUMBERS)
    run(study(("precision: float32", "precision: float32, batch_tokens: 64")), force=True)
    after = store.frame(NUMBERS)
    pd.testing.assert_frame_equal(before, after, rtol=1e-5, atol=1e-7)


def test_a_killed_pass_goes_on_at_the_last_shard(study, run, store, monkeypatch):
    monkeypatch.setattr("reporter.texts.tokens.SHARD_TEXTS", 10)
    monkeypatch.setattr(passes, "MOST_SAVING", float("inf"))
    monkeypatch.setattr(passes, "SAVE_EVERY", 0)
    run(study(), only=["dec", "nested"])
    whole = store.frame(NUMBERS)
    tokens = store.frame("SELECT max(tokens) AS n FROM cells")["n"][0]

    real = passes.measure

    def killed(*args, **kwargs):
        for number, shard in enumerate(real(*args, **kwargs)):
            if number == 2:
                raise KeyboardInterrupt
            yield shard

    shutil.rmtree(store.path.parent / "cache" / "observables")
    monkeypatch.setattr(passes, "measure", killed)
    with pytest.raises(KeyboardInterrupt):
        run(study(), only=["dec", "nested"], force=True)
    monkeypatch.setattr(passes, "measure", real)
    _, said = run(study(), only=["dec", "nested"], force=True)
    assert "going on after 20 texts" in said
    resumed = store.frame("SELECT sum(forward_tokens) AS n, max(tokens) AS all FROM cells")
    assert 0 < resumed["n"][0] < resumed["all"][0] == tokens
    pd.testing.assert_frame_equal(whole, store.frame(NUMBERS), rtol=1e-9, atol=1e-12)


def test_states_of_a_text_that_break_fail_the_cells_and_name_the_text(study, run, store, monkeypatch):
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
    outcome, _ = run(study(), only=["dec"])
    assert (outcome.computed, outcome.failed) == (3, 3 + 1)  # and the comparison with that corpus
    error = store.frame("SELECT DISTINCT error FROM cells WHERE status = 'failed'")["error"]
    assert len(error) == 1 and "layer 1" in error[0] and "'inline'" in error[0]


def test_describe_says_what_to_do_where_memory_does_not_suffice():
    try:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 67 bytes")
    except RuntimeError as error:
        said = describe(error)
    assert said.startswith("memory does not suffice (test_runner.py:") and "`batch_tokens`" in said
    assert library_error(RuntimeError("can't start new thread")).startswith(
        "memory does not suffice (RuntimeError: can't"
    )
    assert library_error(RuntimeError("no such\nweight")) == "RuntimeError: no such weight"


def test_describe_says_where_an_unexpected_error_came_from():
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        assert describe(error).startswith("ValueError: a b (test_runner.py:")
