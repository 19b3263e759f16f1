"""Random initialisation: the same architecture and tokenizer, weights from a seed and from nothing else."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from reporter.models.checkpoint import random_init
from reporter.models.head import load_head
from reporter.models.load import load

FAMILIES = ["bert", "albert, two inner", "modernbert", "t5", "gpt2", "opt, projected", "llama", "gemma2", "bloom"]


def weights(model):
    return dict(model.module.named_parameters())


def drawn(checkpoint, seed=3):
    return load(random_init(checkpoint, seed), "cpu", offline=True)


def same(model, other):
    """Return the names of the weights that are equal."""
    assert weights(model).keys() == weights(other).keys()
    return {name for name, weight in weights(model).items() if torch.equal(weight, weights(other)[name])}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_architecture_stays_and_every_matrix_and_the_head_are_drawn_again(name, shared):
    trained = shared(name)
    model = drawn(trained.checkpoint)
    assert model.anatomy.initialised is not False
    drawn_again = {"self_test": trained.anatomy.self_test, "initialised": trained.anatomy.initialised}
    assert replace(model.anatomy, **drawn_again) == trained.anatomy
    assert model.tokenizer.get_vocab() == trained.tokenizer.get_vocab()
    assert not any(weights(model)[n].dim() > 1 for n in same(model, trained))
    if name != "t5":  # whose head reads the decoder
        head, again = (load_head(model.checkpoint, model, offline=True) for _ in range(2))
        states = torch.randn(3, model.anatomy.final_width or model.anatomy.width)
        with torch.inference_mode():
            logits = head.logits(states)
            assert torch.equal(logits, again.logits(states))
        assert logits.shape == (3, model.anatomy.vocabulary_size) and logits.std() > 0


def test_it_is_transformers_own_initialisation(family, found):
    model = drawn(found(family("gpt2")))  # whose config says 0.2, and GPT-2 divides by √(2 layers) where it adds
    assert weights(model)["wte.weight"].std().item() == pytest.approx(0.2, rel=0.1)
    assert weights(model)["h.0.mlp.c_proj.weight"].std().item() == pytest.approx(0.2 / 6**0.5, rel=0.1)
    assert weights(model)["ln_f.weight"].eq(1).all()
    for dtype, expected in (("bfloat16", torch.bfloat16), ("auto", torch.float32)):
        assert {w.dtype for w in weights(drawn(found(family("llama"), dtype=dtype))).values()} == {expected}


def test_the_seed_alone_decides_and_global_generators_are_left_alone(family, found):
    checkpoint = found(family("bert"))
    torch.manual_seed(1)
    first = drawn(checkpoint)
    torch.manual_seed(2)
    before = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    again, other = drawn(checkpoint), drawn(checkpoint, seed=4)
    load_head(again.checkpoint, again, offline=True)
    assert torch.equal(torch.random.get_rng_state(), before[0]) and random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()  # noqa: NPY002
    assert same(first, again) == weights(first).keys()
    assert not any(weights(first)[n].dim() > 1 for n in same(first, other))


def test_the_fingerprint_covers_all_but_the_weights_and_nothing_of_the_training_is_left(found, copy):
    folder = copy()
    trained = replace(found(folder), loss=1.0, unigram_entropy=2.0, warning="beware", step=7)
    made = random_init(trained, 3)
    assert (made.name, made.initialised, made.label) == ("random-init", 3, "model 'm', checkpoint 'random-init'")
    assert (made.step, made.loss, made.unigram_entropy, made.warning) == (None, None, None, "")
    several = [made, trained, random_init(trained, 4), random_init(replace(trained, dtype="bfloat16"), 3)]
    assert len({checkpoint.fingerprint for checkpoint in several}) == 4
    (folder / "model.safetensors").unlink()
    assert random_init(trained, 3).fingerprint == made.fingerprint and drawn(trained).anatomy.layers == 3
    prints = [made.fingerprint]
    for file in ("config.json", "tokenizer.json"):
        (folder / file).write_bytes((folder / file).read_bytes() + b" ")
        prints.append(random_init(trained, 3).fingerprint)
    assert len(set(prints)) == 3
