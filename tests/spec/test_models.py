from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from reporter.spec import Study
from reporter.spec.models import CheckpointSpec, HubModel, PathModel, RecipeModel, step_of
from reporter.spec.recipes import Recipe, Tuning

Load = Callable[[str], Study]


def test_a_bare_text_is_a_hub_id(load: Load) -> None:
    models = load("study: s\nmodels: {a: gpt2, b: google-bert/bert-base-uncased}\n").models
    assert models == {"a": HubModel(hub="gpt2"), "b": HubModel(hub="google-bert/bert-base-uncased")}


def test_a_kind_is_told_by_its_key(load: Load) -> None:
    models = load(
        "study: s\n"
        "models:\n"
        "  h: {hub: gpt2, revision: v1, dtype: auto, trust_remote_code: true}\n"
        "  p: {path: ./x/y, allow_pickle: true}\n"
        "  r: {recipe: {architecture: llama, train_on: c, steps: 5}}\n"
        "corpora: {c: {texts: [a]}}\n"
    ).models
    assert models["h"] == HubModel(hub="gpt2", revision="v1", dtype="auto", trust_remote_code=True)
    assert models["p"] == PathModel(path=Path("x/y"), allow_pickle=True)
    assert models["r"] == RecipeModel(recipe=Recipe(architecture="llama", train_on="c", steps=5))


def test_checkpoints_are_revisions_of_a_hub_model_and_folders_of_a_path(load: Load) -> None:
    models = load(
        "study: s\n"
        "models:\n"
        "  h: {hub: a/b, checkpoints: [step1, {revision: main, step: 9}, {revision: step512}]}\n"
        "  p: {path: x, checkpoints: [ckpt-500, {folder: best, step: 3}]}\n"
    ).models
    hub, path = models["h"], models["p"]
    assert isinstance(hub, HubModel)
    assert isinstance(path, PathModel)
    assert [(c.name, c.step) for c in hub.checkpoints] == [("step1", 1), ("main", 9), ("step512", 512)]
    assert path.checkpoints == (
        CheckpointSpec(name="best", step=3),
        CheckpointSpec(name="ckpt-500", step=500),
    )


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step512", 512),
        ("ckpt-500", 500),
        ("global_step1000", 1000),
        ("143000", 143000),
        ("runs/ckpt-7", 7),
        ("step000100", 100),
        ("main", None),
        ("v1.0", None),
        ("v2", None),
        ("release-2024", None),
        ("epoch-3", None),
        ("iter_000200", 200),
        ("Step-7", 7),
        ("607a30d783dfa663caf39e06633721c8d4cfcd7e", None),
        ("607a30d", None),
        ("stage1-step10-tokens", None),
        ("step" + "9" * 40, None),
    ],
)
def test_a_step_is_read_from_a_name_that_says_so(name: str, step: int | None) -> None:
    assert step_of(name) == step


def test_a_recipe_keeps_its_last_step_unless_told_otherwise_and_sorts_what_it_is_told() -> None:
    assert Recipe(architecture="bert", train_on="c", steps=7).checkpoints == (7,)
    assert Recipe(architecture="bert", train_on="c", steps=7, checkpoints=(7, 0, 3)).checkpoints == (0, 3, 7)
    assert Recipe(architecture="bert", train_on="c", steps=0).checkpoints == (0,)


def test_the_same_recipe_is_equal_however_its_checkpoints_were_listed() -> None:
    one = Recipe(architecture="bert", train_on="c", steps=7, checkpoints=(7, 0))
    other = Recipe(architecture="bert", train_on="c", steps=7, checkpoints=(0, 7))
    assert one == other
    assert hash(one) == hash(other)


def test_values_are_frozen_and_strict_in_python_too() -> None:
    recipe = Recipe(architecture="bert", train_on="c", steps=7)
    with pytest.raises(ValidationError, match="frozen"):
        recipe.steps = 8  # type: ignore[misc]
    with pytest.raises(ValidationError, match="expected a whole number, got text '7'"):
        Recipe.model_validate({"architecture": "bert", "train_on": "c", "steps": "7"})


def test_a_whole_number_will_do_where_any_number_will() -> None:
    assert Recipe(architecture="bert", train_on="c", steps=1, learning_rate=1).learning_rate == 1.0


def test_a_home_directory_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert PathModel.model_validate({"path": "~/weights"}).path == Path("/home/ada/weights")


def test_a_recipe_that_continues_another_has_it_as_base_unless_told_otherwise(load: Load) -> None:
    models = load(
        "study: s\nmodels:\n"
        "  pocket: {recipe: {architecture: bert, train_on: c, steps: 5, width: 32, mask_share: 0.2}}\n"
        "  a: {recipe: {from: pocket, train_on: c, steps: 2, learning_rate: 1e-4}}\n"
        "  b: {base: a, recipe: {from: pocket, train_on: c, steps: 2}}\n"
        "  d: {base: , recipe: {from: pocket, train_on: c, steps: 2}}\n"
        "corpora: {c: {texts: [a]}}\n"
    ).models
    assert [models[name].base for name in ("pocket", "a", "b", "d")] == [None, "pocket", "a", None]
    pocket, tuned = models["pocket"], models["a"]
    assert isinstance(pocket, RecipeModel) and isinstance(pocket.recipe, Recipe)
    assert isinstance(tuned, RecipeModel) and isinstance(tuned.recipe, Tuning)
    full = tuned.recipe.after(pocket.recipe)
    assert full == Recipe(
        architecture="bert", train_on="c", steps=2, width=32, mask_share=0.2, learning_rate=1e-4, checkpoints=(2,)
    )


def test_a_twin_is_named_or_is_the_recipe_with_another_seed(load: Load) -> None:
    study = load(
        "study: s\nmodels:\n"
        "  pocket: {recipe: {architecture: bert, train_on: c, steps: 5}}\n"
        "  other: {recipe: {architecture: bert, train_on: c, steps: 5, seed: 1}}\n"
        "  a: {recipe: {from: pocket, train_on: c, steps: 2}}\n"
        "  b: {recipe: {from: pocket, train_on: c, steps: 2, seed: 3}}\n"
        "  longer: {recipe: {from: pocket, train_on: c, steps: 3, seed: 3}}\n"
        "  of_other: {recipe: {from: other, train_on: c, steps: 2, seed: 3}}\n"
        "  p: {path: p, base: pocket, twin: q}\n"
        "  q: {path: q, base: pocket}\n"
        "corpora: {c: {texts: [a]}}\n"
    )
    twins = {name: study.twin(name) for name in study.models}
    assert twins == {
        "pocket": "other",
        "other": "pocket",
        "a": "b",
        "b": "a",
        "longer": None,
        "of_other": None,
        "p": "q",
        "q": None,
    }
