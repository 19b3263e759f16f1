"""Random initialisation: the same architecture and tokenizer, weights from a seed and from nothing else."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from oracles.families import FAMILIES

from reporter.models.checkpoint import Checkpoint, random_init
from reporter.models.head import load_head
from reporter.models.load import LoadedModel, load
from reporter.models.resolve import resolve
from reporter.models.toy.training import prepare
from reporter.spec.models import HubModel, RecipeModel
from reporter.spec.recipes import Recipe
from reporter.texts import build_texts
from reporter.texts.sources.stored import InlineCorpus

Family = Callable[[str], Path]
Found = Callable[..., Checkpoint]
IDS = torch.arange(6, 16)[None]


def weights(model: LoadedModel) -> dict[str, torch.Tensor]:
    return dict(model.module.named_parameters())


def drawn(checkpoint: Checkpoint, seed: int = 3) -> LoadedModel:
    return load(random_init(checkpoint, seed), "cpu", offline=True)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_architecture_with_other_weights(name: str, family: Family, found: Found) -> None:
    trained = load(found(family(name)), "cpu", offline=True)
    model = drawn(found(family(name)))
    assert trained.anatomy.initialised is not True  # its norms have random weights
    assert model.anatomy.initialised is not False
    same = {"self_test": 0.0, "initialised": None}
    assert replace(model.anatomy, **same) == replace(trained.anatomy, **same)
    assert model.tokenizer.get_vocab() == trained.tokenizer.get_vocab()
    shapes = [{n: w.shape for n, w in weights(m).items()} for m in (model, trained)]
    assert shapes[0] == shapes[1]
    matrices = {n for n, w in weights(model).items() if w.dim() > 1}
    assert not any(torch.equal(weights(model)[n], weights(trained)[n]) for n in matrices)


def test_transformers_own_initialisation(family: Family, found: Found) -> None:
    checkpoint = found(family("gpt2"))  # whose config says 0.2, and GPT-2 divides by √(2 layers) where it adds
    model = drawn(checkpoint)
    assert weights(model)["wte.weight"].std().item() == pytest.approx(0.2, rel=0.1)
    assert weights(model)["h.0.mlp.c_proj.weight"].std().item() == pytest.approx(0.2 / 6**0.5, rel=0.1)
    assert weights(model)["ln_f.weight"].eq(1).all()


def test_the_seed_decides_and_nothing_else(family: Family, found: Found) -> None:
    checkpoint = found(family("bert"))
    torch.manual_seed(1)
    first = drawn(checkpoint)
    torch.manual_seed(2)
    again, other = drawn(checkpoint), drawn(checkpoint, seed=4)
    for name, weight in weights(first).items():
        assert torch.equal(weight, weights(again)[name]), name
    assert not torch.equal(first.states(IDS, torch.ones_like(IDS))[0], other.states(IDS, torch.ones_like(IDS))[0])


def test_global_generators_are_left_alone(family: Family, found: Found) -> None:
    checkpoint = found(family("llama"))
    before = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    model = drawn(checkpoint)
    load_head(model.checkpoint, model, offline=True)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()  # noqa: NPY002


def test_what_its_checkpoint_says(family: Family, found: Found) -> None:
    checkpoint = replace(found(family("bert")), loss=1.0, unigram_entropy=2.0, warning="beware", step=7)
    made = random_init(checkpoint, 3)
    assert (made.name, made.step, made.initialised) == ("random-init", None, 3)
    assert (made.loss, made.unigram_entropy, made.warning) == (None, None, "")
    assert made.label == "model 'm', checkpoint 'random-init'"
    assert (checkpoint.initialised, checkpoint.name) == (None, "final")


def test_the_fingerprint(family: Family, found: Found, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(family("bert"), tmp_path / "copy"))
    trained = found(folder)
    made = random_init(trained, 3)
    assert made.fingerprint == random_init(trained, 3).fingerprint
    assert len({made.fingerprint, random_init(trained, 4).fingerprint, trained.fingerprint}) == 3
    assert random_init(replace(trained, dtype="bfloat16"), 3).fingerprint != made.fingerprint
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert random_init(trained, 3).fingerprint == made.fingerprint
    for file in ("config.json", "tokenizer.json"):
        content = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(content | {"more": 1}))
        assert random_init(trained, 3).fingerprint != made.fingerprint
        (folder / file).write_text(json.dumps(content, indent=2))
        made = random_init(trained, 3)


def test_weights_are_not_even_looked_at(family: Family, found: Found, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(family("bert"), tmp_path / "copy"))
    checkpoint = found(folder)
    (folder / "model.safetensors").unlink()
    assert drawn(checkpoint).anatomy.layers == 3


@pytest.mark.parametrize("dtype", ["bfloat16", "auto"])
def test_precision(dtype: str, family: Family, found: Found) -> None:
    expected = torch.bfloat16 if dtype == "bfloat16" else torch.float32  # which it was saved in
    assert {w.dtype for w in weights(drawn(found(family("llama"), dtype=dtype))).values()} == {expected}


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "albert", "gemma2", "deberta-v2"])
def test_its_head_is_drawn_too(name: str, family: Family, found: Found) -> None:
    model = drawn(found(family(name)))
    head, again = (load_head(model.checkpoint, model, offline=True) for _ in range(2))
    states = torch.randn(3, model.anatomy.final_width or model.anatomy.width)
    with torch.inference_mode():
        logits = head.logits(states)
        assert torch.equal(logits, again.logits(states))
    assert logits.shape == (3, model.anatomy.vocabulary_size)
    assert logits.std() > 0
    if name in ("bert", "gpt2", "albert", "gemma2"):  # whose heads are tied
        pointers = {p.data_ptr() for p in head._model.parameters()}
        assert model.module.get_input_embeddings().weight.data_ptr() in pointers


def test_of_a_hub_model(family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    commit = "a" * 40
    place = tmp_path / "hub" / "models--owner--name" / "snapshots" / commit
    shutil.copytree(family("gpt2"), place)
    spec = HubModel(hub="owner/name", revision=commit)
    (checkpoint,) = resolve("m", spec, tmp_path, tmp_path / "cache", _no_texts, offline=True)
    (place / "model.safetensors").unlink()
    assert drawn(checkpoint).anatomy.family == "gpt2"
    made = random_init(checkpoint, 3)
    assert made.fingerprint == random_init(replace(checkpoint, path=None), 3).fingerprint  # cached or not
    assert made.fingerprint != random_init(replace(checkpoint, revision="b" * 40), 3).fingerprint


def test_a_hub_model_is_fetched_without_its_weights(
    family: Family, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked: list[Any] = []

    def fetch(hub: str, **options: Any) -> str:
        asked.extend(options["allow_patterns"])
        return str(family("bert"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    checkpoint = replace(found(family("bert")), source="hub", hub="owner/name", revision="a" * 40, path=None)
    assert drawn(checkpoint).anatomy.family == "bert"
    assert asked
    assert not any("safetensors" in pattern for pattern in asked)


def test_of_a_recipe(tmp_path: Path) -> None:
    texts = build_texts("c", InlineCorpus(texts=("the cat sleeps .", "a dog barks .") * 20), tmp_path, tmp_path / "c")
    recipe = Recipe(architecture="bert", layers=2, width=16, heads=2, train_on="c", steps=2, batch=4, context=12)
    spec = RecipeModel(recipe=recipe)
    (checkpoint,) = resolve("m", spec, tmp_path, tmp_path / "cache", lambda name: texts, offline=True)
    made = random_init(checkpoint, 3)
    progress = SimpleNamespace(step=lambda *args: nullcontext(lambda amount: None), note=lambda said: None)
    trained, prepared = prepare((checkpoint, made), progress)
    assert (prepared, trained.loss is not None) == (made, True)
    assert random_init(trained, 3) == made
    model = load(prepared, "cpu", offline=True)
    assert (model.anatomy.layers, model.anatomy.width) == (2, 16)
    assert load_head(prepared, model, offline=True).mask_id == model.tokenizer.mask_token_id
    shutil.rmtree(checkpoint.path or tmp_path)
    (alone,) = prepare((made,), progress)  # trains, as nothing else writes its configuration
    again = load(alone, "cpu", offline=True)
    for name, weight in weights(model).items():
        assert torch.equal(weight, weights(again)[name]), name


def _no_texts(name: str) -> Any:
    raise AssertionError("nobody asked for texts")
