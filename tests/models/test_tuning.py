"""Recipes that continue another: they begin where that one ended, and are known by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from reporter.core.errors import ReporterError
from reporter.models.checkpoint import Checkpoint, random_init
from reporter.models.load import load
from reporter.models.resolve import resolve
from reporter.models.toy import model as pocket_training
from reporter.models.toy.training import prepare
from reporter.models.words import whole_words
from reporter.spec.models import RecipeModel
from reporter.texts import Texts, build_texts
from reporter.texts.sources.stored import InlineCorpus

SMALL = {"architecture": "bert", "layers": 2, "width": 16, "heads": 2, "train_on": "first", "steps": 3, "batch": 4}
TEXTS = {
    "first": ("the cat sleeps .", "a dog barks .", "the bird sings .") * 20,
    "second": ("a cat barks .", "the dog sings .") * 20,
}


class Watched:
    """A progress bar that remembers what was trained."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    @contextmanager
    def step(self, name: str, total: int, unit: str) -> Iterator[Any]:
        self.steps.append(f"{name}, {total} {unit}")
        yield self.advance

    def advance(self, amount: int) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""


Study = Callable[..., dict[str, tuple[Checkpoint, ...]]]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Resolve recipes by the names of their models; ``base`` is always among them."""

    def get(base: dict[str, Any] | None = None, cache: str = "cache", **recipes: Any) -> dict[str, Any]:
        said = {"base": SMALL | {"context": 12} | (base or {}), **recipes}

        def texts(name: str) -> Texts:
            return build_texts(name, InlineCorpus(texts=TEXTS[name]), tmp_path, tmp_path / "cache")

        def model(name: str) -> tuple[Checkpoint, ...]:
            spec = RecipeModel.model_validate({"recipe": said[name]})
            return resolve(name, spec, tmp_path, tmp_path / cache, texts, offline=True, models=model)

        return {name: model(name) for name in said}

    return get


def tuned(steps: int = 2, **options: Any) -> dict[str, Any]:
    return {"from": "base", "train_on": "second", "steps": steps} | options


def weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    assert checkpoint.folder is not None
    return load_file(checkpoint.folder / "model.safetensors")


def same(a: Checkpoint, b: Checkpoint) -> bool:
    one, other = weights(a), weights(b)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "llama"])
def test_it_begins_where_the_other_ended(study: Study, architecture: str) -> None:
    models = study({"architecture": architecture}, m=tuned(train_on="first", checkpoints=(0, 2)))
    progress = Watched()
    start, end = prepare(models["m"], progress)
    assert progress.steps == ["training base, 3 steps", "training m, 2 steps"]
    (base,) = prepare(models["base"], progress)
    assert len(progress.steps) == 2  # trained once for both
    assert same(start, base) and not same(end, base)
    # The same weights, head and tokenizer give the same loss on the same texts.
    assert start.loss == pytest.approx(base.loss, abs=1e-6)
    assert load(end, "cpu", offline=True).anatomy.max_tokens == 12


def test_what_is_left_out_is_as_before(study: Study) -> None:
    models = study({"mask_share": 0.2, "learning_rate": 5e-3, "seed": 4}, a=tuned(), b=tuned(batch=2, seed=1))
    base, a, b = (models[name][0].recipe for name in ("base", "a", "b"))
    assert base is not None and a is not None and b is not None
    assert a == base.model_copy(update={"train_on": "second", "steps": 2, "checkpoints": (2,), "seed": 0})
    assert (b.batch, b.seed, b.learning_rate) == (2, 1, 5e-3)
    assert models["a"][0].location == "bert trained on first, then on second"


def test_its_words_are_those_of_the_other(study: Study) -> None:
    models = study(m=tuned())
    assert whole_words(models["m"][0]) == whole_words(models["base"][0])
    assert "bird" in whole_words(models["m"][0])  # which its own texts do not have


def test_it_is_known_by_what_it_continues(study: Study) -> None:
    (one,) = study(m=tuned())["m"]
    assert study(m=tuned())["m"][0].fingerprint == one.fingerprint
    for base, m in [({"seed": 1}, tuned()), ({"checkpoints": (0, 2)}, tuned()), ({}, tuned(seed=1))]:
        assert study(base, m=m)["m"][0].fingerprint != one.fingerprint
    # One more checkpoint of the base, which still ends where it did, changes nothing.
    assert study({"checkpoints": (0, 3)}, m=tuned())["m"][0].fingerprint == one.fingerprint
    # Steps after the base are not the steps of a model that was trained anew on the same texts.
    assert study(m=tuned())["m"][0].fingerprint != study(m=SMALL | {"train_on": "second"})["m"][0].fingerprint


def test_a_chain_is_trained_in_order_and_kept(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = {"c": tuned() | {"from": "b"}, "b": tuned(), "a": tuned(seed=1)}
    progress = Watched()
    models = study(**recipes)
    (c,) = prepare(models["c"], progress)
    assert [step.split(",")[0] for step in progress.steps] == ["training base", "training b", "training c"]
    assert c.location == "bert trained on first, then on second, then on second"
    prepare(models["a"], progress)
    assert progress.steps[-1] == "training a, 2 steps"
    monkeypatch.setattr(pocket_training, "Training", None)
    assert prepare(study(**recipes)["c"], progress) == (c,)


def test_the_other_need_not_be_there_any_more(study: Study) -> None:
    models = study(m=tuned())
    (trained,) = prepare(models["m"], Watched())
    assert models["base"][0].folder is not None
    (models["base"][0].folder / "model.safetensors").unlink()
    assert prepare(study(m=tuned())["m"], Watched()) == (trained,)
    progress = Watched()
    prepare(study(m=tuned(seed=1))["m"], progress)
    assert len(progress.steps) == 2  # now it has to be


def test_a_base_that_diverges_is_named(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pocket_training.Training, "held_out_loss", lambda self, model: float("nan"))
    with pytest.raises(ReporterError, match="model 'base': the training diverged"):
        prepare(study(m=tuned())["m"], Watched())


def test_words_that_the_tokenizer_does_not_know(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TEXTS, "second", ("a zebra barks .", "one two three four") * 20)
    (m,) = prepare(study(m=tuned())["m"], Watched())
    assert "62 % of the tokens of the training texts are unknown to the tokenizer" in m.warning
    (again,) = study(m=tuned())["m"]
    assert again.warning == m.warning


def test_random_weights_of_its_kind(study: Study) -> None:
    (checkpoint,) = study(m=tuned())["m"]
    made = random_init(checkpoint, 3)
    prepare((checkpoint, made), Watched())
    assert load(made, "cpu", offline=True).anatomy.layers == 2
    assert replace(made, model="base").fingerprint != random_init(study()["base"][0], 3).fingerprint
