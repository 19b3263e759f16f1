"""Change of the weights against NumPy on the files: fused and tied weights, a head, and a block that is lost."""

from types import SimpleNamespace

import numpy as np
import pytest
from oracles.damages import damaged
from oracles.families import build_language_model, loaded
from safetensors.numpy import load_file, save_file

from reporter.metrics.analysis import analyses


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    build_language_model("gpt2", folder / "base", tie_word_embeddings=True)
    damaged(folder / "base", folder / "noised", "noised by a fifth", 2)
    damaged(folder / "base", folder / "fewer", "dropped", 2)
    damaged(folder / "base", folder / "low", "nothing", 2)
    weights = load_file(folder / "low/model.safetensors")
    name = "transformer.h.2.attn.c_attn.weight"
    shape = weights[name].shape
    rng = np.random.default_rng(0)
    weights[name] = weights[name] + (rng.normal(size=(shape[0], 1)) @ rng.normal(size=(1, shape[1]))).astype("float32")
    weights["transformer.wte.weight"][3] += 1  # the tied head changes as well
    weights["transformer.h.2.ln_1.bias"] = weights["transformer.h.2.ln_1.bias"] * np.float32(1.5)
    save_file(weights, folder / "low/model.safetensors", metadata={"format": "pt"})
    return folder


def changed(folder, name):
    """Return the changes of a model against its base by block and weight, and the warnings."""
    model, base = (loaded(folder / side) for side in (name, "base"))
    context = SimpleNamespace(model=model, base=lambda: base, warnings=[])
    rows = analyses()["weight_change"].compute(None, context)
    return {(row.block, row.weight): row for row in rows}, context.warnings


@pytest.mark.parametrize("name", ["noised", "low"])
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
        if not delta.any() or weight.ndim < 2:
            assert row.stable_rank is None
        else:
            largest = np.linalg.svd(delta, compute_uv=False)[0]
            assert row.stable_rank == pytest.approx((delta**2).sum() / largest**2, rel=1e-4)
    if name == "low":
        assert rows[3, "attn.c_attn"].stable_rank == pytest.approx(1, rel=1e-4)
        assert rows[3, "ln_1.bias"].relative == pytest.approx(0.5)
        assert {block for (block, _), row in rows.items() if row.relative} == {0, 3}, "the others are exactly zero"


def test_a_block_that_is_lost_moves_those_behind_it_and_is_told(folder):
    rows, (warning,) = changed(folder, "fewer")
    assert {block for (block, _), row in rows.items() if row.relative} == {2}
    assert "12 weights" in warning and "such as h.2." in warning


def test_a_head_of_its_own_is_compared_and_a_pooler_that_was_drawn_is_not(tmp_path):
    for name in ("base", "head"):
        build_language_model("bert", tmp_path / name, tie_word_embeddings=False)
    weights = load_file(tmp_path / "head/model.safetensors")
    weights["cls.predictions.decoder.weight"] *= np.float32(1.25)
    save_file(weights, tmp_path / "head/model.safetensors", metadata={"format": "pt"})
    rows, warnings = changed(tmp_path, "head")
    kinds = {weight: row.kind for (_, weight), row in rows.items()}
    assert {weight for (_, weight), row in rows.items() if row.relative} == {"cls.predictions.decoder"}
    assert kinds["cls.predictions.decoder"] == "head" and kinds["embeddings.word_embeddings"] == "embedding"
    assert rows[0, "cls.predictions.decoder"].relative == pytest.approx(0.25, rel=1e-5)
    assert not any("pooler" in weight for weight in kinds) and not warnings
