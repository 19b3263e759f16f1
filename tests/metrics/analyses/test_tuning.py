"""What tuning changed: weights against NumPy on the files, and words against a double loop over pairs of tokens."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from oracles.corpora import corpus
from oracles.damages import damaged
from oracles.families import WORDS, build_language_model, loaded
from safetensors.numpy import load_file, save_file

from reporter.forward.reading import tokenised_texts
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Value
from reporter.metrics.tuning_words import POSITIONS
from reporter.models.head import load_head
from reporter.models.places import Layout

RNG = np.random.default_rng(0)
TEXTS = list(dict.fromkeys(" ".join(RNG.choice(WORDS, size=int(n))) for n in RNG.integers(2, 14, 12)))


def tuned(folder, family, change, tied=True):
    """Build a model as ``base`` and, with weights that ``change`` changes in place, as ``tuned``."""
    for name in ("base", "tuned"):
        build_language_model(family, folder / name, tie_word_embeddings=tied)
    weights = load_file(folder / "tuned/model.safetensors")
    change(weights)
    save_file(weights, folder / "tuned/model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    def change(weights):
        a = weights["transformer.h.2.attn.c_attn.weight"]
        rng = np.random.default_rng(0)
        a += (rng.normal(size=(len(a), 1)) @ rng.normal(size=(1, a.shape[1]))).astype("float32")
        weights["transformer.wte.weight"][3] += 1  # the tied head changes as well
        weights["transformer.h.2.ln_1.bias"] *= np.float32(1.5)

    folder = tuned(tmp_path_factory.mktemp("weights"), "gpt2", change)
    damaged(folder / "base", folder / "noised", "noised by a fifth", 2)
    damaged(folder / "base", folder / "fewer", "dropped", 2)
    return folder


def changed(folder, name="tuned"):
    """Return the changes of a model against its base by block and weight, and the warnings."""
    model, base = (loaded(folder / side) for side in (name, "base"))
    context = SimpleNamespace(model=model, base=lambda: base, warnings=[])
    rows = analyses()["weight_change"].compute(None, context)
    return {(row.block, row.weight): row for row in rows}, context.warnings


@pytest.mark.parametrize("name", ["noised", "tuned"])
def test_each_weight_is_compared_as_numpy_does(folder, name):
    mine, base = (load_file(folder / side / "model.safetensors") for side in (name, "base"))
    rows, _ = changed(folder, name)
    assert len(rows) == len(base)
    for weight_name, weight in base.items():
        inside = weight_name.removesuffix(".weight").removeprefix("transformer.")
        _, block, kind = inside.split(".", 2) if inside.startswith("h.") else (None, -1, inside)
        row, delta = rows[int(block) + 1, kind], mine[weight_name].astype(float) - weight
        assert row.kind == {"w": "embedding", "l": "head"}.get(inside[0], "block")
        assert row.parameters == weight.size
        assert row.relative == pytest.approx(np.linalg.norm(delta) / np.linalg.norm(weight), rel=1e-5)
        rank = (delta**2).sum() / np.linalg.norm(delta, 2) ** 2 if delta.any() and weight.ndim > 1 else None
        assert row.stable_rank == (rank and pytest.approx(rank, rel=1e-4))
    if name == "tuned":
        assert rows[3, "attn.c_attn"].stable_rank == pytest.approx(1, rel=1e-4)
        assert rows[3, "ln_1.bias"].relative == pytest.approx(0.5)
        assert {block for (block, _), row in rows.items() if row.relative} == {0, 3}, "the others are exactly zero"


def test_a_block_that_is_lost_moves_those_behind_it_and_is_told(folder):
    rows, (warning,) = changed(folder, "fewer")
    assert {block for (block, _), row in rows.items() if row.relative} == {2}
    assert "12 weights" in warning and "such as h.2." in warning


def test_a_head_of_its_own_is_compared_and_a_pooler_that_was_drawn_is_not(tmp_path):
    def change(weights):
        weights["cls.predictions.decoder.weight"] *= np.float32(1.25)

    rows, warnings = changed(tuned(tmp_path, "bert", change, tied=False))
    kinds = {weight: row.kind for (_, weight), row in rows.items()}
    changes = {key: row.relative for key, row in rows.items() if row.relative}
    assert changes == {(0, "cls.predictions.decoder"): pytest.approx(0.25, rel=1e-5)}
    assert kinds["cls.predictions.decoder"] == "head" and kinds["embeddings.word_embeddings"] == "embedding"
    assert not any("pooler" in weight for weight in kinds) and not warnings


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A decoder and a copy whose second block adds noise to every token."""

    def change(weights):
        down = weights["model.layers.1.mlp.down_proj.weight"]
        down += 0.05 * torch.randn(down.shape, generator=torch.Generator().manual_seed(0)).numpy()

    folder = tuned(tmp_path_factory.mktemp("words"), "llama", change)
    return loaded(folder / "tuned"), loaded(folder / "base")


@pytest.fixture(scope="module")
def shifted(tmp_path_factory):
    """A decoder and a copy in which one direction is added to every token."""

    def change(weights):
        weights["model.embed_tokens.weight"] += np.linspace(-0.05, 0.05, weights["model.embed_tokens.weight"].shape[1])

    folder = tuned(tmp_path_factory.mktemp("shifted"), "llama", change)
    return loaded(folder / "tuned"), loaded(folder / "base")


def test_noise_and_layers_that_did_not_change_have_no_words(models):
    assert not [row for row in rows_of(*models) if not isinstance(row, Value)]


def rows_of(model, base):
    context = SimpleNamespace(
        model=model, base=lambda: base, batch_tokens=32, corpora={"c": corpus(TEXTS, max_tokens=40)}, seed=0,
        tell=lambda *_: None, warnings=[], layout=Layout.of(model.anatomy, ()),
    )  # fmt: skip
    return list(analyses()["tuning_words"].compute(SimpleNamespace(corpus="c", texts=60), context))


def differences(models, name):
    """Yield the differences of the tokens of each text in the last layer, (tokens, width) in float64."""
    for text in tokenised_texts(TEXTS, models[0]):
        ids = torch.as_tensor(text.ids)[None]
        with torch.inference_mode():
            x, y = (side.states(ids, torch.ones_like(ids))[3][0].double().numpy() for side in models)
        yield (x - y)[np.flatnonzero(~text.special)[POSITIONS[name]]]


@pytest.mark.parametrize("name", POSITIONS)
def test_the_static_share_is_that_of_pairs_of_tokens_of_different_texts(models, name):
    values = {(row.statistic, row.place.layer): row for row in rows_of(*models) if isinstance(row, Value)}
    assert values[f"static_{name}", 1].reason == "no state changed"
    tokens = [(text, delta) for text, deltas in enumerate(differences(models, name)) for delta in deltas]
    pairs = [a @ b for i, a in tokens for j, b in tokens if i != j]
    share, row = np.mean(pairs) / np.mean([delta @ delta for _, delta in tokens]), values[f"static_{name}", 3]
    assert row.value == pytest.approx(share, rel=1e-4) and row.n == len(tokens)
    assert row.ci_low < row.value < row.ci_high


def test_words_are_what_the_head_reads_from_the_mean_difference(shifted):
    model, _ = shifted
    words = [row for row in rows_of(*shifted) if not isinstance(row, Value)]
    assert {row.layer for row in words} == {1, 3} and all(0 <= row.agree <= 1 for row in words)
    mean = np.concatenate(list(differences(shifted, "later"))).mean(axis=0)
    with torch.inference_mode():
        closed = model.close(torch.from_numpy(mean).float()[None])
        logits = load_head(model.checkpoint, model, offline=True).logits(closed)[0]
    at = {(r.direction, r.rank): r.token_id for r in words if (r.layer, r.positions) == (3, "later")}
    assert [at["up", rank] for rank in range(1, 21)] == logits.topk(20).indices.tolist()
    assert ("up", 21) not in at and at["down", 1] != at["up", 1]
