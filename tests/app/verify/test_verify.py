"""A sound study is verified; a wrong number, a wrong convention and what is not verified are named."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import duckdb
import pytest
from oracles.families import build_family
from typer.testing import CliRunner

import reporter
from reporter.app.cli import app
from reporter.app.verify.cells import Asked
from reporter.app.verify.deviations import Stored, compare
from reporter.app.verify.reading import Remeasured, never_a_word, splitmix64
from reporter.app.verify.verification import verify
from reporter.core.errors import UsageError
from reporter.metrics.base import catalogue
from reporter.models.load import LoadedModel
from reporter.texts.sources.generated import grammar_texts
from reporter.texts.tokens import ids_without_words

STUDY = """
study: tiny
models:
  enc: {recipe: {architecture: bert, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, batch: 4, context: 16}}
  dec: {recipe: {architecture: gpt2, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, batch: 4, context: 16}}
corpora:
  nested: {file: texts.txt}
metrics: [all, loss, lens, linearity, journey, {local_dimension: {sample: 300, centres: 20, neighbours: 16}},
          {anisotropy: {sample: 64, batches: 2}}, {entropy: {texts: 20}}, {contextuality: {types: 6}},
          {information_imbalance: {sample: 200}}, {intrinsic_dimension: {sample: 48, batches: 2, discard: 0.3}}]
sinks: {factor: 1.05, dominance: 0.3}  # low, so that untrained models have some
run: {precision: float32}
"""
BASED = """
study: tiny
models:
  dec: {recipe: {architecture: gpt2, layers: 2, width: 8, heads: 2, train_on: nested, steps: 2, batch: 4, context: 16}}
  tuned: {recipe: {from: dec, train_on: nested, steps: 3, learning_rate: 0.001}}
  again: {recipe: {from: dec, train_on: nested, steps: 3, learning_rate: 0.001, seed: 1}}
  other: {recipe: {architecture: gpt2, layers: 1, width: 8, heads: 2, train_on: few, steps: 2, batch: 4, context: 16},
          base: dec}  # of another depth, and with another tokenizer
corpora:
  nested: {file: texts.txt}
  few: {generate: random-words, texts: 30, words: [4, 6]}
metrics: [motion, {change: {sample: 400}}, divergence]
partners:
  found: {file: pairs.tsv, column: text, partner: partner}
  graded: {file: pairs.tsv, column: text, partner: partner, score: score}
views: [text tokens, without sinks]
run: {precision: float32}
"""
TEXTS = ("The cat runs in town", "birds sing")


@pytest.fixture(scope="module")
def run(bare_runs):
    """Return a function that runs the study ``tiny.yaml`` of a folder."""

    def compute(folder):
        with bare_runs():
            assert set(reporter.run(folder / "tiny.yaml", folder / "results").cells["status"]) == {"done"}
        return folder

    return compute


@pytest.fixture(scope="module")
def made(tmp_path_factory, run):
    """Return a function that runs a study of generated texts, four of them twice, and one with special strings."""

    def make(study, texts):
        folder = tmp_path_factory.mktemp("study")
        lines = [record.text for record in grammar_texts(texts, (5, 20), 0)]
        lines[2] = lines[2].replace(" ", " [SEP] <|endoftext|> ", 1)
        (folder / "texts.txt").write_text("\n".join([*lines, *lines[:4]]), "utf-8")
        pairs = list(dict.fromkeys(record.text for record in grammar_texts(90, (5, 14), 1)))[:48]
        rows = [f"{a}\t{b}\t{i % 7}" for i, (a, b) in enumerate(zip(pairs[::2], pairs[1::2], strict=True))]
        (folder / "pairs.tsv").write_text("\n".join(["text\tpartner\tscore", *rows]), "utf-8")
        (folder / "tiny.yaml").write_text(study.replace("texts.txt", str(folder / "texts.txt")), "utf-8")
        return run(folder)

    return make


@pytest.fixture(scope="module")
def finished(made):
    """A folder with a study of an encoder and a decoder, and its results."""
    return made(STUDY, 36)


@pytest.fixture(scope="module")
def small(made):
    """The same of few texts and one metric."""
    return made(
        f"{STUDY.partition('metrics:')[0]}metrics: [motion]\nviews: [text tokens]\nrun: {{precision: float32}}\n", 4
    )


def again(folder, **asked):
    """Verify the study in a folder."""
    return verify(str(folder / "tiny.yaml"), folder / "results", Asked(**asked))


TEMPLATE = (
    "{{ bos_token }}{{ strftime_now('%Y') }} {% for turn in messages %}the {{ turn.role }} sings "
    "{{ turn.content | trim }} red {% endfor %}"
)


def test_chats_are_read_a_second_way(small, run, tmp_path):
    """All turns, and one role, with a template that writes the date."""
    models = list((small / "results" / "cache" / "models").glob("*/step-000002"))
    for source in models:
        name = json.loads((source / "config.json").read_text())["model_type"]
        shutil.copytree(source, tmp_path / name)
        shutil.copytree(source.parent / "tokenizer", tmp_path / name, dirs_exist_ok=True)
        (tmp_path / name / "chat_template.jinja").write_text(TEMPLATE)
    talks = [[f"the cat {i}", "sings red ", "the user", f"old days in {i} town"][: 2 + i % 3] for i in range(8)]
    rows = [[{"role": ("user", "assistant")[i % 2], "content": x} for i, x in enumerate(talk)] for talk in talks]
    (tmp_path / "talks.jsonl").write_text("\n".join(json.dumps({"messages": row}) for row in rows))
    (tmp_path / "tiny.yaml").write_text(
        "study: tiny\nmodels:\n  bert: {path: ./bert}\n  gpt2: {path: ./gpt2}\ncorpora:\n"
        "  all: {file: talks.jsonl, chat: true, date: 2026-01-31}\n"
        "  one: {file: talks.jsonl, chat: true, date: 2026-01-31, role: assistant, max_tokens: 24}\n"
        "metrics: [motion, anisotropy, outliers, loss, convergence]\nsinks: {factor: 1.05, dominance: 0.3}\n"
    )
    found = again(run(tmp_path), cells=4)
    assert sorted(row["cell"] for row in found.cells) == ["bert × all", "bert × one", "gpt2 × all", "gpt2 × one"]
    assert wrong(found) == set() and sum(one.numbers for one in found.deviations.values()) > 400
    assert {name.split(".")[0] for name, why in found.unverified if "one role" in why} == {"loss"}


def wrong(found):
    return {one.name for one in found.deviations.values() if not one.passed}


def call(folder, *options):
    """Verify the decoder of the study with this id on the command line."""
    return CliRunner().invoke(app, ["verify", "tiny", "--out", str(folder / "results"), "--model", "dec", *options])


def test_a_finished_study_agrees(finished):
    found = again(finished)
    assert found.passed and not wrong(found)
    assert {one["cell"] for one in found.cells} == {"enc × nested", "dec × nested"}
    names = "SELECT metric || '.' || statistic FROM layer_metrics WHERE value IS NOT NULL"
    with duckdb.connect(finished / "results" / "results.duckdb", read_only=True) as database:
        stored = database.execute(f"{names} UNION {names.replace('layer_metrics', 'layer_pairs')}").fetchall()
        facts = database.execute("SELECT DISTINCT model, texts, special, sinks > 0 FROM cells ORDER BY ALL").fetchall()
    # What the rules are about is there: repeated texts, sinks, special strings inside a text (two, in two texts).
    assert facts[:2] == [("dec", 40, 2, True), ("enc", 40, 82, False)]
    # Every statistic that is stored was measured again, or it says why not.
    compared, skipped = set(found.deviations), {name for name, _ in found.unverified}
    assert {name for (name,) in stored} <= compared | skipped
    drawn = {f"contextuality.explained_by_first_{name}" for name in ("baseline", "adjusted")}
    drawn |= {f"layer_pairs.{name}_calibrated" for name in ("cka", "knn")}
    assert {name for name in skipped - compared if not name.endswith("_floor")} <= drawn, "random draws"
    assert not {reason for name, reason in found.unverified if name in compared}
    assert {"sinks.texts", "sink_cuts.left_out", "outliers.sink_sensitivity"} <= compared
    # The layers of both models were compared with each other as well.
    assert found.deviations["layer_pairs.cka"].numbers == 3 * (9 + 9 + 9)


def test_what_changed_against_a_base_is_measured_again(tmp_path, made):
    """Models tuned from a base, with a twin; and one of another depth whose tokenizer is another one.

    Numbers of three statistics are wrong, those of a single place each.
    """
    based = made(BASED, 30)
    copy = shutil.copytree(based, tmp_path / "copy")
    with duckdb.connect(copy / "results" / "results.duckdb") as database:
        where = (
            "metric = 'change' AND statistic = 'distance' AND view = 'text tokens' AND layer = 1 AND corpus = 'nested'"
        )
        # Two models have tokens of the same tokenizer in common with their base, one has texts.
        assert database.execute(f"SELECT n FROM layer_metrics WHERE model = 'other' AND {where}").fetchone() == (30,)
        for rows in (f"model IN ('tuned', 'other') AND {where}", "model = 'tuned' AND statistic = 'kl_90'"):
            database.execute(f"UPDATE layer_metrics SET value = value * 1.05 WHERE {rows}")
        where = "statistic = 'spearman' AND variant = 'without 1 axis' AND pooling = 'mean' AND layer = 1"
        database.execute(f"UPDATE partner_numbers SET value = value + 0.01 WHERE model = 'other' AND {where}")
    found = again(copy, cells=9, corpus="nested")
    assert wrong(found) == {"change.distance", "divergence.kl_90", "partners.spearman"}
    names = ("cosine", "distance", "moved", "linear", "distance_seed", "linear_seed")
    assert {name for name in found.deviations if "change." in name} == {f"change.{name}" for name in names}
    expected = {f"divergence.{statistic.name}" for statistic in catalogue()["divergence"].statistics}
    expected |= {f"partners.{name}{end}" for name in ("recall", "mrr", "mexa", "spearman") for end in ("", "_floor")}
    assert expected <= set(found.deviations)
    assert not {name for name, _ in found.unverified if name.startswith(("change.", "divergence.", "partners."))}
    # Four models at up to three layers, three poolings and four treatments; in `words` those of the main pooling again.
    assert found.deviations["partners.mexa"].numbers == (3 + 3 + 3 + 2 + 4) * 12 + 15
    reasons = {reason for name, reason in again(based, model="tuned", corpus="nested").unverified if "change." in name}
    assert reasons == {"the base or the twin was not measured again; raise --cells"}


def test_wrong_numbers_are_named(tmp_path, finished):
    """One number each of five statistics, seen through the verb, which reads nothing that a pass left."""
    folder = shutil.copytree(finished, tmp_path / "copy", ignore=shutil.ignore_patterns("observables", "tokens"))
    changed = {
        "convergence.similarity": "view = 'without sinks' AND site = 'block' AND layer = 1 AND model = 'dec'",
        "spectrum.effective_rank": "view = 'text tokens' AND site = 'final' AND model = 'dec'",
        "loss.lm": "view = 'with special tokens' AND model = 'dec'",
    }
    with duckdb.connect(folder / "results" / "results.duckdb") as database:
        for name, where in changed.items():
            query = f"UPDATE layer_metrics SET value = value * 1.001 WHERE metric = ? AND statistic = ? AND {where}"
            assert database.execute(query, name.split(".")).fetchall() == [(1,)]
        database.execute("UPDATE cells SET sinks = sinks + 1 WHERE model = 'dec'")
        database.execute("UPDATE sinks SET texts = texts + 1 WHERE model = 'dec'")
    done = call(folder, "--format", "json")
    assert done.exit_code == 1
    said = {one["name"]: one for one in json.loads(done.stdout)["deviations"] if not one["passed"]}
    assert set(said) == {*changed, "cells.sinks", "sinks.texts"}
    for name in changed:
        assert said[name]["stored"] == pytest.approx(1.001 * said[name]["again"], rel=1e-5)
    where = [
        "dec × nested, without sinks, block 1",
        "dec × nested, text tokens, final 2",
        "dec × nested, with special tokens",
        "dec × nested",
    ]
    assert [said[name]["where"] for name in (*changed, "cells.sinks")] == where


def test_a_wrong_convention_is_named(tmp_path, small, run, monkeypatch):
    """The classic mistake: the model's own last hidden state, which is normed, taken for the last block's output."""
    right = LoadedModel.run

    def normed(self, ids, mask, *more):
        captured = right(self, ids, mask, *more)
        return captured if captured.final is None else replace(captured, path=[*captured.path[:-1], captured.final])

    monkeypatch.setattr(LoadedModel, "run", normed)
    shutil.copy(small / "tiny.yaml", tmp_path)
    found = again(run(tmp_path))
    steps = ("step_length", "step_cosine", "block_influence", "update_ratio", "curvature")
    assert wrong(found) == {f"motion.{name}" for name in ("norm", "growth", *steps, "line_shape", "straightness")}
    assert found.deviations["motion.norm"].where == "dec × nested, text tokens, block 2"


def test_the_verb_exits_with_zero_where_all_agrees_and_what_is_left_out_says_why(small, tmp_path):
    found = again(small, cells=1, model="dec")
    assert found.passed and [one["cell"] for one in found.cells] == ["dec × nested"]
    assert found.left_out == {"enc × nested": "not chosen by --model or --corpus"}
    done = call(small)
    assert done.exit_code == 0 and "enc × nested: not chosen" in done.stdout
    assert "verified: " in done.stdout.splitlines()[-1]
    for asked, said in (
        ({"max_texts": 7}, "8 texts, more than --max-texts 7"),
        ({"model": "dce"}, "no model 'dce'; did you mean 'dec'"),
    ):
        with pytest.raises(UsageError, match=said):
            again(small, **asked)
    with pytest.raises(UsageError, match=r"no study 'tinny' in .*; did you mean 'tiny'"):
        verify("tinny", small / "results", Asked())
    path = shutil.copytree(small, tmp_path / "copy") / "tiny.yaml"  # what changed since the run has no numbers yet
    path.write_text(path.read_text("utf-8").replace("float32}", "float32, seed: 1}"), "utf-8")
    with pytest.raises(UsageError, match="seed"):
        again(path.parent)


@pytest.fixture
def of_family(tmp_path, run):
    """Return a function that runs a study of a tiny model of a family on short texts, and verifies it."""

    def verified(family, *texts, **keys):
        build_family(family, tmp_path / family)
        study = {"study": "tiny", "models": {family: {"path": family}}, "corpora": {"few": {"texts": texts}}, **keys}
        study |= {"views": ["text tokens"], "run": {"precision": "float32"}}
        (tmp_path / "tiny.yaml").write_text(json.dumps(study))
        found = again(run(tmp_path))
        assert found.passed
        return found

    return verified


def test_blocks_that_share_their_weights_have_no_second_path_for_contributions(of_family):
    found = of_family("albert", *TEXTS, metrics=["motion", "contributions"])
    assert "motion.norm" in found.deviations
    (reason,) = {reason for name, reason in found.unverified if name == "contributions.attention_ratio"}
    assert "the two norms that separate" in reason


def test_texts_of_one_token_agree(of_family):
    of_family("bert", "cat", "dogs", "mouse", metrics=["motion", "outliers"])


@pytest.mark.parametrize("family", ["gpt2", "bert", "mamba"])
def test_what_the_head_reads_agrees_where_the_final_state_is_not_read(of_family, family):
    found = of_family(family, *TEXTS, metrics=["motion", "lens"], sites=["embedding", "block"])
    assert ("lens.kl" in found.deviations) == (family != "bert")  # whose head has weights that these files lack


def test_special_strings_are_no_words_but_an_unknown_word_is_one():
    """Id 2 ends texts, so it is no word even where it stands for unknown ones, too; id 3 only pads."""
    ids = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": None, "sep_token_id": None, "mask_token_id": None}
    for unknown, expected in ((0, {1, 2, 3}), (2, {1, 2, 3}), (3, {1, 2})):
        tokenizer = SimpleNamespace(all_special_ids=sorted({1, 2, 3, unknown}), unk_token_id=unknown, **ids)
        assert never_a_word(tokenizer) == expected == set(ids_without_words(tokenizer).tolist())


def test_hashes_are_those_of_the_authors_of_splitmix():
    """The first outputs with the seed 1234567, as their reference program prints them."""
    hashes = [splitmix64((1234567 + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(2)]
    assert hashes == [6457827717110365317, 3203168211198807973]


def test_near_zero_what_float32_leaves_uncertain_is_no_deviation():
    for metric, stored, again, agrees in (
        ("lens", 8.2e-8, 7.8e-9, True),
        ("lens", 8.2e-6, 7.8e-9, False),
        ("divergence", 3e-7, 1e-7, True),
        ("spectrum", 8.2e-8, 7.8e-9, False),
    ):
        numbers = {("kl", "text tokens", None, None): Stored(stored, None)}
        assert (
            compare(metric, numbers, [Remeasured("kl", "text tokens", None, again)], "m", 0)[f"{metric}.kl"].passed
            == agrees
        )


def test_what_bf16_products_move_a_state_by_is_no_deviation_of_a_small_distance():
    stored = {("distance", "text tokens", None, None): Stored(0.0097, None)}
    for value, moved, agrees in ((0.0071, 0.02, True), (0.0397, 0.02, False), (0.0071, 0, False), (0.0097, 0, True)):
        again = [Remeasured("distance", "text tokens", None, value)]
        assert compare("change", stored, again, "m", moved)["change.distance"].passed == agrees
