"""Change of the weights against NumPy on the files, through a run: fused and tied weights, and a block that is lost."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from oracles.damages import damaged
from oracles.families import build_language_model, loaded
from safetensors.numpy import load_file, save_file

from reporter.core.progress import Progress
from reporter.metrics.analysis import analyses
from reporter.runs.runner import run_studies
from reporter.runs.studies import offer
from reporter.spec import load_study
from reporter.store import Store


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


@pytest.fixture(scope="module")
def rows(folder):
    """The table of a study with three models of one base, by model, block and weight."""
    names = ("noised", "low", "fewer")
    study = {
        "study": "w",
        "models": {
            "base": {"path": str(folder / "base")},
            **{name: {"path": str(folder / name), "base": "base"} for name in names},
        },
        "corpora": {"c": {"generate": "grammar", "texts": 10, "words": [4, 6]}},
        "metrics": "none",
        "weight_change": "all",
    }
    (folder / "w.yaml").write_text(yaml.safe_dump(study), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reporter.runs.runner._report", lambda out, studies, progress: ())
        study = load_study(folder / "w.yaml", offer())
        outcome = run_studies([study], folder / "out", progress=Progress(io.StringIO()))
    assert (outcome.computed, outcome.failed) == (3, 0)  # the base has no base
    store = Store(folder / "out/results.duckdb")
    (warning,) = store.records("SELECT warning FROM cells WHERE model = 'fewer'")
    assert "12 weights" in warning["warning"] and "such as h.2." in warning["warning"]
    stored = store.records("FROM changed_weights")
    return {(row["model"], row["block"], row["weight"]): row for row in stored}


@pytest.mark.parametrize("model", ["noised", "low"])
def test_each_weight_is_compared_as_numpy_does(folder, rows, model):
    mine, base = (load_file(folder / name / "model.safetensors") for name in (model, "base"))
    of_model = {key[1:]: row for key, row in rows.items() if key[0] == model}
    assert len(of_model) == len(base)
    for name, weight in base.items():
        inside = name.removesuffix(".weight").removeprefix("transformer.")
        _, block, kind = inside.split(".", 2) if inside.startswith("h.") else (None, -1, inside)
        row, delta = of_model[int(block) + 1, kind], mine[name].astype(float) - weight
        assert row["kind"] == {"w": "embedding", "l": "head"}.get(inside[0], "block")
        assert row["parameters"] == weight.size
        assert row["relative"] == pytest.approx(np.linalg.norm(delta) / np.linalg.norm(weight), rel=1e-5)
        if not delta.any() or weight.ndim < 2:
            assert row["stable_rank"] is None
        else:
            largest = np.linalg.svd(delta, compute_uv=False)[0]
            assert row["stable_rank"] == pytest.approx((delta**2).sum() / largest**2, rel=1e-4)
    if model == "low":
        assert of_model[3, "attn.c_attn"]["stable_rank"] == pytest.approx(1, rel=1e-4)
        assert of_model[3, "ln_1.bias"]["relative"] == pytest.approx(0.5)


def test_what_is_untouched_is_exactly_zero(rows):
    assert {key[1] for key, row in rows.items() if key[0] == "low" and row["relative"] > 0} == {0, 3}
    assert {key[1] for key, row in rows.items() if key[0] == "fewer" and row["relative"] > 0} == {2}


def test_a_head_of_its_own_is_compared_and_a_pooler_that_was_drawn_is_not(tmp_path):
    for name in ("base", "head"):
        build_language_model("bert", tmp_path / name, tie_word_embeddings=False)
    weights = load_file(tmp_path / "head/model.safetensors")
    weights["cls.predictions.decoder.weight"] *= np.float32(1.25)
    save_file(weights, tmp_path / "head/model.safetensors", metadata={"format": "pt"})
    model, base = (loaded(tmp_path / name) for name in ("head", "base"))
    context = SimpleNamespace(model=model, base=lambda: base, warnings=[])
    rows = {(row.kind, row.weight): row for row in analyses()["weight_change"].compute(None, context)}
    assert {key for key, row in rows.items() if row.relative} == {("head", "cls.predictions.decoder")}
    assert rows["head", "cls.predictions.decoder"].relative == pytest.approx(0.25, rel=1e-5)
    assert {weight for kind, weight in rows if kind == "embedding"} >= {"embeddings.word_embeddings"}
    assert not any("pooler" in weight for _, weight in rows) and not context.warnings
