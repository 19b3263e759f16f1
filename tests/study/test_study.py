"""What studies, their models and their corpora are read as: shorthands, defaults and order; and the starter study."""

import re
from functools import partial
from pathlib import Path

import pytest
from study.conftest import offered

from reporter.core.errors import UsageError
from reporter.metrics.base import catalogue as metrics
from reporter.metrics.groups import expand
from reporter.study import SpecError, load_study
from reporter.study.load import layers_of, plugins_of
from reporter.study.models import CheckpointSpec, HubModel, PathModel, RecipeModel, step_of
from reporter.study.recipes import Recipe
from reporter.study.study import write_metric, write_starter
from reporter.texts.sources.generated import GeneratedCorpus
from reporter.texts.sources.stored import DatasetCorpus, FileCorpus, InlineCorpus

SMALL = "study: s\nmodels: {m: gpt2}\n"
WITH_TEXTS = f"{SMALL}corpora: {{c: {{texts: [a]}}}}\n"


def test_a_file_remembers_its_text_and_folder(tmp_path, catalogue, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_bytes(b"\xef\xbb\xbf" + "study: s\r\nmodels: {m: gpt2}\r\ntitle: é\r\n".encode())
    file = load_study(Path("a.yaml"), offered(catalogue))
    assert (file.path, file.folder, file.study.title) == (Path("a.yaml"), tmp_path.resolve(), "é")
    assert file.text == "study: s\r\nmodels: {m: gpt2}\r\ntitle: é\r\n"


def test_plugins_are_looked_for_beside_the_study_before_it_is_checked(tmp_path):
    path = tmp_path / "study.yaml"
    (tmp_path / "here.py").touch()
    path.write_text("plugins: [here.py, 3]\nmodels: wrong\n")
    assert plugins_of(layers_of(path)) == (tmp_path / "here.py",)
    path.write_text("plugins: [here.py, gone.py]\n")
    with pytest.raises(SpecError, match=r"study.yaml:1:20: plugins.*there is no file 'gone.py'"):
        plugins_of(layers_of(path))
    path.write_text("- plugins\n")
    assert plugins_of(layers_of(path, ["plugins=gone.py"])) == ()


def test_a_peak_where_a_statistic_has_its_value_by_definition_is_refused(tmp_path):
    path, options = tmp_path / "s.yaml", {name: metric.options for name, metric in metrics().items()}
    read = partial(load_study, path, offered(options, fixed={"convergence.similarity": (("last", 1.0),)}))
    claim = "claims:\n  c: {says: x, shape: {metric: convergence.similarity, is: peak-at, at: %s}}\n"
    for asked, at in (("convergence", 0.9), ("{convergence: {target: final}}", 1)):
        path.write_text(f"{WITH_TEXTS}metrics: [{asked}]\n{claim % at}")
        assert read().study.claims
    path.write_text(f"{WITH_TEXTS}metrics: [convergence]\n{claim % 1}")
    with pytest.raises(SpecError, match=r"s.yaml:6:\d+: claims.c.shape.at: convergence.similarity is 1"):
        read()


def test_metrics_keep_their_order_and_get_their_options_and_analyses_in_short_are_read_long(load):
    metrics = "[convergence, {intrinsic_dimension: {sample: 64, scales: [4]}}, anisotropy:]"
    groups = "groups: {g: '{a|b} c'}\npairs: {p: shipped}\nclouds: {k: [c, d]}\nvocabulary: all\n"
    study = load(f"{SMALL}corpora: {{c: {{texts: [a b, c d]}}, d: {{texts: [e]}}}}\nmetrics: {metrics}\n{groups}")
    assert [choice.name for choice in study.metrics] == ["convergence", "intrinsic_dimension", "anisotropy"]
    assert study.metrics[1].options.model_dump() == {"sample": 64, "target": "block", "scales": (4,), "share": 0.9}
    assert study.sections["groups"]["g"] == ("a c", "b c") and study.sections["pairs"]["p"].shipped == "concepts"
    assert study.sections["clouds"]["k"].corpora == ("c", "d") and study.sections["vocabulary"].models == "all"
    assert load(f"{WITH_TEXTS}metrics: none\n").metrics == ()


def test_patterns_stand_for_every_choice_once():
    assert expand("{Hello|Hi} there{|!}") == ("Hello there", "Hello there!", "Hi there", "Hi there!")
    assert expand("{a|a}") == ("a",)
    with pytest.raises(ValueError, match="8,192 texts"):
        expand("{a|b}" * 13)


def test_a_corpus_is_of_the_kind_of_its_key_and_defaults_are_filled_in(load):
    corpora = load(
        "study: s\nmodels: {m: gpt2}\ncorpora:\n"
        "  wiki:   {file: data/wiki.txt, unit: paragraph, min_words: 8, limit: 2000, max_tokens: 256}\n"
        "  tweets: {file: data/tweets.csv, column: text, label: emotion}\n"
        "  hub:    {dataset: wikitext, config: wikitext-2-raw-v1, split: test, column: text}\n"
        "  simple: {generate: random-words, texts: 500, words: [5, 60], seed: 0, vocabulary: m}\n"
        "  nested: {generate: grammar}\n"
        "  mine:   {texts: [The mouse was gone., no, '12'], window: 8, stride: 8, size_of: wiki}\n"
    ).corpora
    assert list(corpora.items()) == [
        ("wiki", FileCorpus(file=Path("data/wiki.txt"), unit="paragraph", min_words=8, limit=2000)),
        ("tweets", FileCorpus(file=Path("data/tweets.csv"), column="text", label="emotion")),
        ("hub", DatasetCorpus(dataset="wikitext", config="wikitext-2-raw-v1")),
        ("simple", GeneratedCorpus(generate="random-words", vocabulary="m")),
        ("nested", GeneratedCorpus(generate="grammar", texts=500, words=(5, 60), seed=0)),
        ("mine", InlineCorpus(texts=("The mouse was gone.", "no", "12"), window=8, stride=8, size_of="wiki")),
    ], "in the study's order"
    assert corpora["nested"].max_tokens == 256
    assert corpora["hub"].max_words is None


def test_a_model_is_of_the_kind_of_its_key_and_a_bare_text_is_a_hub_id(load):
    recipe = {"architecture": "llama", "train_on": "c", "steps": 5}
    models = {
        "gpt2": HubModel(hub="gpt2"),
        "{hub: gpt2, dtype: auto, trust_remote_code: true}": HubModel(hub="gpt2", dtype="auto", trust_remote_code=True),
        "{path: ./x/y, allow_pickle: true}": PathModel(path=Path("x/y"), allow_pickle=True),
        "{path: ~/y, adapter: z}": PathModel(path=Path.home() / "y", adapter=Path("z")),
        "{recipe: {architecture: llama, train_on: c, steps: 5}}": RecipeModel(recipe=recipe),
    }
    lines = "".join(f"  m{i}: {text}\n" for i, text in enumerate(models))
    study = load(f"study: s\nmodels:\n{lines}corpora: {{c: {{texts: [a]}}}}\n")
    assert list(study.models.values()) == list(models.values())


def test_checkpoints_are_revisions_of_a_hub_model_and_folders_of_a_path(load):
    models = load(
        "study: s\nmodels:\n"
        "  h: {hub: a/b, checkpoints: [step1, {revision: main, step: 9}, {revision: step512}]}\n"
        "  p: {path: x, checkpoints: [ckpt-500, {folder: best, step: 3}]}\n"
    ).models
    assert [(c.name, c.step) for c in models["h"].checkpoints] == [("step1", 1), ("main", 9), ("step512", 512)]
    assert models["p"].checkpoints == (CheckpointSpec(name="best", step=3), CheckpointSpec(name="ckpt-500", step=500))


STEPS = {
    "step512": 512, "ckpt-500": 500, "global_step1000": 1000, "143000": 143000, "runs/ckpt-7": 7, "step000100": 100,
    "Step-7": 7, "main": None, "v1.0": None, "v2": None, "release-2024": None, "epoch-3": None, "607a30d": None,
    "stage1-step10-tokens": None, "step" + "9" * 40: None,
}  # fmt: skip


def test_a_step_is_read_from_a_name_of_a_checkpoint_that_has_one():
    assert {name: step_of(name) for name in STEPS} == STEPS


def test_a_recipe_keeps_its_last_step_by_default_and_sorts_its_checkpoints():
    recipe = partial(Recipe, architecture="bert", train_on="c")
    for steps, given, kept in ((7, {}, (7,)), (7, {"checkpoints": (7, 0, 3)}, (0, 3, 7)), (0, {}, (0,))):
        assert recipe(steps=steps, **given).checkpoints == kept
    first, second = recipe(steps=7, checkpoints=(7, 0)), recipe(steps=7, checkpoints=(0, 7))
    assert first == second and hash(first) == hash(second)
    assert recipe(steps=1, learning_rate=1).learning_rate == 1.0  # a whole number will do where any number will


def test_a_recipe_that_continues_another_has_it_as_base_and_a_twin_is_the_recipe_with_another_seed_or_named(load):
    study = load(
        "study: s\nmodels:\n"
        "  pocket: {recipe: {architecture: bert, train_on: c, steps: 5, width: 32, mask_share: 0.2}}\n"
        "  other: {recipe: {architecture: bert, train_on: c, steps: 5, width: 32, mask_share: 0.2, seed: 1}}\n"
        "  a: {recipe: {from: pocket, train_on: c, steps: 2, learning_rate: 1e-4}}\n"
        "  b: {recipe: {from: pocket, train_on: c, steps: 2, learning_rate: 1e-4, seed: 3}}\n"
        "  longer: {base: a, recipe: {from: pocket, train_on: c, steps: 3, learning_rate: 1e-4, seed: 3}}\n"
        "  of_other: {base: , recipe: {from: other, train_on: c, steps: 2, learning_rate: 1e-4, seed: 3}}\n"
        "  p: {path: p, base: pocket, twin: q}\n"
        "  q: {path: q, base: pocket}\n"
        "corpora: {c: {texts: [a]}}\n"
    )
    bases = {"a": "pocket", "b": "pocket", "longer": "a", "p": "pocket", "q": "pocket"}
    assert {name: model.base for name, model in study.models.items() if model.base} == bases
    twins = {"pocket": "other", "other": "pocket", "a": "b", "b": "a", "p": "q"}
    assert {name: twin for name in study.models if (twin := study.twin(name))} == twins
    expected = study.models["pocket"].recipe.model_copy(update={"steps": 2, "learning_rate": 1e-4, "checkpoints": (2,)})
    assert study.models["a"].recipe.after(study.models["pocket"].recipe) == expected


def test_the_starter_is_a_valid_study_that_compares_two_roles_without_a_hub(catalogue, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("study", "my-study.yaml", "a.yml"):
        path = Path(name if "." in name else f"{name}.yaml")
        assert write_starter(name) == path
        study = load_study(path, offered(catalogue)).study
        assert study.study == path.stem
    assert {model.recipe.architecture for model in study.models.values()} == {"bert", "gpt2"}
    assert {type(corpus) for corpus in study.corpora.values()} == {GeneratedCorpus}
    models, below, rest = path.read_text().partition("models:")  # what it shows in comments is right, too
    path.write_text(models + below + re.sub(r"(?m)^# ", "  ", rest))
    study = load_study(path, offered(catalogue)).study
    assert {"bert", "pythia", "mine"} <= set(study.models) and {"notes", "few"} <= set(study.corpora)


def test_a_new_study_or_metric_is_named_like_its_file_and_replaces_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text("mine")
    with pytest.raises(UsageError, match="choose another name, or delete"):
        write_starter("study")
    for name in ("My Study", "cache", "../.yaml", "", "ä", "a\nb"):
        with pytest.raises(UsageError, match="cannot be the id of a study; use"):
            write_starter(name)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("study.yaml", "mine")]
    assert write_metric("far_out", ()) == Path("far_out.py")
    assert 'name="far_out"' in Path("far_out.py").read_text()
    for name, problem in {"far_out": "choose another", "motion": "metrics motion", "class": "lower-case"}.items():
        with pytest.raises(UsageError, match=problem):
            write_metric(name, ("motion",))
