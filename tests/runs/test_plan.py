"""What a plan estimates before anything is loaded, what it and a pass warn of, and the order of trainings."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from runs.conftest import INLINE, METRICS, select
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from reporter import save_states
from reporter.core.errors import ReporterError
from reporter.forward.inputs import RATES, Size, note_rate, rate_of, size_of, tokens_of
from reporter.forward.measure import Counts
from reporter.forward.observed import KINDS
from reporter.forward.output import _check_finite
from reporter.forward.passes import repeats_warning, strained_warning, unknown_warning
from reporter.forward.type_sample import TypeCounts
from reporter.models.checkpoint import Checkpoint
from reporter.runs import plan as estimates
from reporter.runs.plan import _together, estimate
from reporter.runs.planner import plan_study
from reporter.texts.tokens import Windows

WORDS = (3, 8, 21, 50)


class Corpus(list[str]):
    words = sum(WORDS)


CORPUS = Corpus(" ".join(["word"] * n) for n in WORDS)


@pytest.fixture
def estimated(study, out):
    return lambda *changes, **more: estimate(plan_study(study(*changes, **more), out), out / "cache")


def test_time_is_unknown_until_a_long_pass_on_the_same_device_and_then_follows_from_its_rate(
    study, out, estimated, monkeypatch
):
    cache, before, trained = out / "cache", estimated(), plan_study(study(), out).checkpoints["dec"][-1]
    assert (before.passes, before.seconds) == (6, None) and "time unknown" in before.lines()[0]
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: f"GPU {device.index}")
    note_rate(cache, "cpu", trained, 999, 2.0)
    note_rate(cache, "cuda:0", trained, 1000, 2.0)
    assert rate_of(cache, "cuda:0") == size_of(trained).active * 500
    assert rate_of(cache, "cuda:1") is rate_of(cache, "cpu") is estimated().seconds is None
    note_rate(cache, "cpu", trained, 1000, 2.0)
    half = estimated().seconds
    note_rate(cache, "cpu", trained, 1000, 4.0)
    after = estimated()
    assert after.seconds == pytest.approx(2 * half) and "s plus loading" in after.lines()[0]
    assert after.disk > 0 and after.weights > 0
    (cache / RATES).write_text("{")
    assert rate_of(cache, "cuda:0") is None


def test_what_counts_as_a_pass(study, run, out, estimated, copied, given, monkeypatch):
    assert estimated().lines() == ["nothing to measure"]
    smaller = estimated(metrics=METRICS.replace("64", "32"))
    assert smaller.passes == 0 and smaller.lines()[0].startswith("no forward pass:")
    analyses = estimated(metrics="none", more="vocabulary: {models: [dec]}")
    assert (analyses.analyses, analyses.passes) == (1, 0) and "1 cell of analyses" in analyses.lines()[0]
    other = ("texts: 40", "texts: 30")
    whole, missing = estimated(other), ("models:\n", "models:\n  gone: {path: nowhere}\n")
    assert whole.passes == 6 and estimated(other, given).passes == 7, "saved states are read"
    assert replace(estimated(other, missing), cells=0) == replace(whole, cells=0), "a model that does not exist"
    assert estimated(more="baselines: [random-init]").passes == 2 * 2
    with monkeypatch.context() as patch:
        patch.setattr(estimates, "size_of", lambda of: None if of.model == "dec" else size_of(of))
        result = estimated(other)
    assert (result.unknown, result.passes) == (("dec",), 4) and result.lines()[-1].startswith("not counted: dec;")
    monkeypatch.setattr("reporter.forward.inputs.FEWEST_TOKENS", 100)
    run(study(other), only=["dec", "nested", "motion"])
    assert rate_of(out / "cache", "cpu") > 0


@pytest.fixture
def folder(tmp_path):
    """A folder with a tokenizer and a configuration, and no weights."""
    tokenizer = Tokenizer(models.WordLevel({"word": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = {"num_hidden_layers": 2, "hidden_size": 8, "max_position_embeddings": 32}
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_local_experts": 4, "num_experts_per_tok": 1}))
    return tmp_path


def checkpoint(path, **more):
    return Checkpoint("m", "final", "path", "m", "fingerprint", path=path, **more)


def test_tokens_are_counted_by_the_tokenizer_or_guessed_and_cut_at_the_smaller_limit(folder, tmp_path):
    assert tokens_of(checkpoint(folder), CORPUS, 10) == 3 + 8 + 10 + 10
    assert tokens_of(checkpoint(folder), CORPUS, 256) == 3 + 8 + 21 + 32
    assert tokens_of(checkpoint(folder), CORPUS, 16, Windows(16, 16)) == sum(WORDS)
    assert tokens_of(checkpoint(folder), CORPUS, 20, Windows(20, 8)) == 3 + 8 + (21 + 12) + (50 + 4 * 12)
    missing, saved = checkpoint(tmp_path / "gone"), checkpoint(None, states={"c": (tmp_path / "c.safetensors", "hash")})
    assert tokens_of(missing, CORPUS, 256) == int(sum(WORDS) * 1.35) + 2 * len(WORDS)
    assert tokens_of(missing, CORPUS, 12) == 12 * len(WORDS)
    save_states(tmp_path / "c.safetensors", np.zeros((3, 5, 16)), texts=[0, 0, 0, 1, 1], role="encoder")
    assert size_of(missing) is None and size_of(saved) == Size(2, 16, 0, 0)
    assert tokens_of(saved, CORPUS, 256) == int(sum(WORDS) * 1.35) and tokens_of(saved, CORPUS, 5) == 5 * len(WORDS)


def test_the_size_of_a_mixture_has_all_experts_and_those_that_a_token_passes(folder):
    assert size_of(checkpoint(folder)) is None  # no weights yet
    experts = {f"model.layers.{i}.moe.experts.{e}.w1.weight": np.zeros((16, 8)) for i in range(2) for e in range(4)}
    save_file(experts, folder / "model-00001-of-00002.safetensors")
    save_file({"model.embed.weight": np.zeros((10, 8))}, folder / "model-00002-of-00002.safetensors")
    assert size_of(checkpoint(folder)) == Size(2, 8, 80 + 8 * 128, 80 + 2 * 128)


@pytest.mark.parametrize(
    ("clusters", "distinct", "begins"),
    [(None, 96, ""), (None, 80, "20 of 100 texts"), (50, 49, ""), (50, 10, "40 of 50 clusters of corpus 'wiki' only")],
)
def test_repeats_are_counted_in_texts_or_in_clusters(clusters, distinct, begins):
    texts = SimpleNamespace(name="wiki", clusters=clusters, units=clusters)
    warning = repeats_warning(Counts(texts=100, distinct_texts=distinct), texts)
    assert warning.startswith(begins) and bool(warning) == bool(begins)


def test_unknown_tokens_and_states_at_the_end_of_float16_are_a_warning_and_beyond_it_an_error():
    def warning(unknown):
        none = np.zeros(3, dtype=np.int64)
        model = SimpleNamespace(tokenizer=SimpleNamespace(unk_token_id=1))
        return unknown_warning(model, "wiki", TypeCounts(np.array([100 - unknown, unknown, 0]), none, none))

    assert warning(5) == "" and "6 % of the tokens of corpus 'wiki'" in warning(6)
    assert strained_warning(Counts(tokens=100), "wiki") == ""
    assert strained_warning(Counts(tokens=100, strained=7), "wiki").startswith("7 of 100 tokens of corpus 'wiki'")
    batch = SimpleNamespace(mask=np.ones((1, 2)), texts=np.array([3]))
    norms = np.array([[[1, 1]], [[np.inf, 1]]], dtype=np.float32)
    for half, advice in ((True, "`dtype: float32`"), (False, "check the weights")):
        with pytest.raises(ReporterError, match=f"layer 1, text 3 of corpus 'wiki', token 0; .*{advice}"):
            _check_finite(norms, norms, batch, "wiki", half)


def test_numbers_of_whole_texts_carry_a_warning_where_they_are_of_windows(study, run, store, out):
    each = dict.fromkeys(("text_means", "intra_text", "token_path", "text_entropy", "layer_angles"), "each")
    assert {name: kind.in_windows for name, kind in KINDS.items() if kind.in_windows} == each | {"pooled": "first"}
    windowed = (INLINE, '  inline: {window: 4, stride: 2, texts: ["the cat sleeps and a dog runs here", "a dog"]}\n')
    file = study(windowed, metrics="[motion, token_path, layer_pairs]")
    warning = (
        "corpus 'inline' is read in windows of 4 tokens: each window counts as a text for token_path; "
        "only the first window of a longer text counts for layer_pairs"
    )
    _, log = run(file, only=("dec",))
    assert warning in plan_study(file, out, only=("dec",)).lines() and log.count(warning) == 1
    warned = [
        (row["corpus"], row["metric"]) for row in store.records("FROM cells") if warning in (row["warning"] or "")
    ]
    assert sorted(warned) == [("inline", "layer_pairs"), ("inline", "token_path")]
    clouds = study(windowed, metrics="none", more="clouds: {c: {corpora: [nested, inline]}}")
    lines = plan_study(clouds, out).lines()
    assert any(line.endswith("only the first window of a longer text counts for clouds") for line in lines), lines


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for turn in messages %}{{ turn['content'] }} {% endfor %}", ""),
        (
            "{{ raise_exception('not I') }}",
            "conversation 1: the chat template of the model rejects it (not I); correct",
        ),
        (None, "no chat template"),
    ],
)
def test_the_plan_tries_a_chat_template_and_without_one_only_its_cells_fail(study, run, out, tmp_path, template, why):
    (source,) = (out / "cache" / "models").glob("*/step-000000")
    shutil.copytree(source, tmp_path / "mine")
    shutil.copytree(source.parent / "tokenizer", tmp_path / "mine", dirs_exist_ok=True)
    if template is not None:
        (tmp_path / "mine" / "chat_template.jinja").write_text(template)
    (tmp_path / "talks.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "the cat sleeps"}]}))
    talks = (INLINE, "  talks: {file: talks.jsonl, chat: true}\n")
    file, only = study(("models:\n", "models:\n  mine: {path: mine}\n"), talks), ("mine", "motion")
    cells = {cell.key.corpus: (cell.state, cell.why) for cell in plan_study(file, out, only=only).cells}
    state, reason = cells.pop("talks")
    assert state == ("failed" if why else "run") and why in reason and set(cells.values()) == {("run", "new")}
    outcome, _ = run(file, only=only)
    assert (outcome.computed, outcome.failed) == ((len(cells), 1) if why else (len(cells) + 1, 0))


def test_a_plan_counts_cells_by_reason_and_lists_each_on_request(study, tmp_path, out, run):
    file = study(views="[text tokens]", metrics="[motion, convergence]")
    planned = plan_study(file, tmp_path / "elsewhere")
    _, line = (line for line in planned.lines() if " cells" in line)
    assert line == f"  run     {len(planned.cells)} cells  new" and len(planned.cells) > 4
    each = [line for line in planned.lines(each=True) if line.startswith("  run")]
    assert len(each) == len(planned.cells) and len({line.split("  new")[0] for line in each}) == len(each)
    run(file, only=("motion",))
    planned = plan_study(file, out)
    assert planned.count("cached") > 4 and not [line for line in planned.lines() if line.startswith("  cached")]
    convergence = [cell for cell in planned.cells if cell.key.metric == "convergence"]
    assert _together(convergence) == f"{len(convergence)} cells (metric convergence)"


TUNED = (
    "corpora:\n  nested",
    "  t0: {recipe: {from: dec, train_on: nested, steps: 2, checkpoints: [0, 2]}}\n"
    "  t1: {recipe: {from: t0, train_on: inline, steps: 1}}\n"
    "  t2: {recipe: {from: dec, train_on: nested, steps: 1, learning_rate: 0.01}}\n"
    "corpora:\n  nested",
)


def test_models_that_continue_others_are_trained_after_them_and_compared_with_them(study, run, store, out, tmp_path):
    file = study(TUNED, metrics="[convergence]", views="[text tokens]")
    lines = plan_study(file, tmp_path / "elsewhere").lines()
    assert "to train first: enc to step 2, dec to step 2, t0 to step 2, t1 to step 1, t2 to step 1" in lines
    assert not list((tmp_path / "elsewhere").glob("cache/models/*/step-*"))
    for only, trained in ((("t1", "nested"), ["t0", "t1"]), (("nested",), ["t2"])):
        outcome, log = run(file, only=only)
        lines = [line.split() for line in log.splitlines()]
        assert outcome.failed == 0
        assert [line[1].rstrip(":") for line in lines if line[:1] == ["training"]] == trained
    assert "to train first" not in "".join(plan_study(file, out).lines())
    bases = select(store, "SELECT DISTINCT model, base FROM models WHERE base IS NOT NULL ORDER BY ALL")
    assert bases == [("t0", "dec"), ("t1", "t0"), ("t2", "dec")]
    # Step 0 of a model that continues is the other's last: the same numbers.
    same = store.frame(
        "SELECT a.value, b.value AS other FROM layer_metrics a JOIN layer_metrics b USING (corpus, view, metric, "
        "statistic, layer) WHERE a.model = 't0' AND a.checkpoint = 'step-0' AND b.model = 'dec' AND a.site = b.site"
    )
    assert len(same) > 5
    np.testing.assert_allclose(same["value"], same["other"], atol=1e-6)


def test_a_base_with_states_of_one_corpus_is_compared_on_that_corpus_only(study, given, tmp_path):
    file = study(given, ("dec: {", "dec: {base: given, "), metrics="[motion, change]")
    changes = [cell.key for cell in plan_study(file, tmp_path).cells if cell.key.metric == "change"]
    assert [(key.model, key.corpus) for key in changes] == [("dec", "inline")]
