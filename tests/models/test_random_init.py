"""Random initialisation: the same architecture and tokenizer, weights from a seed and from nothing else."""

import json
import random
import shutil
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from reporter.models.checkpoint import random_init
from reporter.models.head import load_head
from reporter.models.load import load
from reporter.models.resolve import resolve
from reporter.models.toy.training import prepare
from reporter.spec.models import RecipeModel
from reporter.spec.recipes import Recipe
from reporter.texts import build_texts
from reporter.texts.sources.stored import InlineCorpus

IDS = torch.arange(6, 16)[None]
FAMILIES = ["bert", "albert, two inner", "modernbert", "t5", "gpt2", "opt, projected", "llama", "gemma2", "bloom"]


def weights(model):
    return dict(model.module.named_parameters())


def drawn(checkpoint, seed=3):
    return load(random_init(checkpoint, seed), "cpu", offline=True)


def assert_same_weights(model, other):
    for name, weight in weights(model).items():
        assert torch.equal(weight, weights(other)[name]), name


@pytest.mark.parametrize("name", FAMILIES)
def test_the_architecture_stays_and_every_matrix_is_drawn_again(name, shared):
    trained = shared(name)
    model = drawn(trained.checkpoint)
    assert model.anatomy.initialised is not False
    same = {"self_test": 0.0, "initialised": None}
    assert replace(model.anatomy, **same) == replace(trained.anatomy, **same)
    assert model.tokenizer.get_vocab() == trained.tokenizer.get_vocab()
    shapes = [{n: w.shape for n, w in weights(m).items()} for m in (model, trained)]
    assert shapes[0] == shapes[1]
    matrices = {n for n, w in weights(model).items() if w.dim() > 1}
    assert not any(torch.equal(weights(model)[n], weights(trained)[n]) for n in matrices)


def test_it_is_transformers_own_initialisation(family, found):
    model = drawn(found(family("gpt2")))  # whose config says 0.2, and GPT-2 divides by √(2 layers) where it adds
    assert weights(model)["wte.weight"].std().item() == pytest.approx(0.2, rel=0.1)
    assert weights(model)["h.0.mlp.c_proj.weight"].std().item() == pytest.approx(0.2 / 6**0.5, rel=0.1)
    assert weights(model)["ln_f.weight"].eq(1).all()


def test_the_seed_alone_decides_and_global_generators_are_left_alone(family, found):
    checkpoint = found(family("bert"))
    torch.manual_seed(1)
    first = drawn(checkpoint)
    torch.manual_seed(2)
    before = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    again, other = drawn(checkpoint), drawn(checkpoint, seed=4)
    load_head(again.checkpoint, again, offline=True)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()  # noqa: NPY002
    assert_same_weights(first, again)
    assert not torch.equal(first.states(IDS, torch.ones_like(IDS))[0], other.states(IDS, torch.ones_like(IDS))[0])


def test_its_checkpoint_has_a_name_of_its_own_and_nothing_of_the_training(family, found):
    checkpoint = replace(found(family("bert")), loss=1.0, unigram_entropy=2.0, warning="beware", step=7)
    made = random_init(checkpoint, 3)
    assert (made.name, made.step, made.initialised) == ("random-init", None, 3)
    assert (made.loss, made.unigram_entropy, made.warning) == (None, None, "")
    assert made.label == "model 'm', checkpoint 'random-init'"
    assert (checkpoint.initialised, checkpoint.name) == (None, "final")


def test_the_fingerprint_covers_all_but_the_weights_which_are_not_read(found, copy):
    folder = copy()
    trained = found(folder)
    made = random_init(trained, 3)
    assert made.fingerprint == random_init(trained, 3).fingerprint
    assert len({made.fingerprint, random_init(trained, 4).fingerprint, trained.fingerprint}) == 3
    assert random_init(replace(trained, dtype="bfloat16"), 3).fingerprint != made.fingerprint
    (folder / "model.safetensors").unlink()
    assert random_init(trained, 3).fingerprint == made.fingerprint
    assert drawn(trained).anatomy.layers == 3
    for file in ("config.json", "tokenizer.json"):
        content = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(content | {"more": 1}))
        assert random_init(trained, 3).fingerprint != made.fingerprint
        (folder / file).write_text(json.dumps(content, indent=2))
        made = random_init(trained, 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "auto"])
def test_the_precision_is_the_one_asked_for_or_that_of_the_weights(dtype, family, found):
    expected = torch.bfloat16 if dtype == "bfloat16" else torch.float32
    assert {w.dtype for w in weights(drawn(found(family("llama"), dtype=dtype))).values()} == {expected}


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2"])
def test_its_head_is_drawn_too(name, family, found):
    model = drawn(found(family(name)))
    head, again = (load_head(model.checkpoint, model, offline=True) for _ in range(2))
    states = torch.randn(3, 32)
    with torch.inference_mode():
        logits = head.logits(states)
        assert torch.equal(logits, again.logits(states))
    assert logits.shape == (3, model.anatomy.vocabulary_size) and logits.std() > 0
    if name != "llama":  # whose head is not tied
        pointers = {p.data_ptr() for p in head._model.parameters()}
        assert model.module.get_input_embeddings().weight.data_ptr() in pointers


def test_a_recipes_model_is_drawn_beside_its_training_and_without_it(tmp_path):
    texts = build_texts("c", InlineCorpus(texts=("the cat sleeps .", "a dog barks .") * 20), tmp_path, tmp_path / "c")
    recipe = Recipe(architecture="bert", layers=2, width=16, heads=2, train_on="c", steps=2, batch=4, context=12)
    spec = RecipeModel(recipe=recipe)
    (checkpoint,) = resolve("m", spec, tmp_path, tmp_path / "cache", lambda name: texts, offline=True)
    made = random_init(checkpoint, 3)
    progress = SimpleNamespace(step=lambda *args: nullcontext(lambda amount: None), note=lambda text: None)
    trained, prepared = prepare((checkpoint, made), progress)
    assert (prepared, trained.loss is not None) == (made, True)
    assert random_init(trained, 3) == made
    model = load(prepared, "cpu", offline=True)
    assert (model.anatomy.layers, model.anatomy.width) == (2, 16)
    assert load_head(prepared, model, offline=True).mask_id == model.tokenizer.mask_token_id
    shutil.rmtree(checkpoint.path)
    (alone,) = prepare((made,), progress)  # trains, as nothing else writes its configuration
    assert_same_weights(model, load(alone, "cpu", offline=True))
