"""Loading: what is kept off, what is refused, and what a loaded model promises."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from reporter.core.errors import ReporterError
from reporter.models.checkpoint import Checkpoint
from reporter.models.load import LoadedModel, load
from reporter.models.weights import limited

Family = Callable[[str], Path]
Load = Callable[..., LoadedModel]


@pytest.fixture
def copy(family: Family, tmp_path: Path) -> Callable[[str], Path]:
    """Return a copy of a family's folder that may be changed."""
    return lambda name: Path(shutil.copytree(family(name), tmp_path / "copy"))


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    weights = change(load_file(folder / "model.safetensors"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def refused(loaded: Load, folder: Path, **options: Any) -> str:
    with pytest.raises(ReporterError) as caught:
        loaded(folder, **options)
    message = str(caught.value)
    assert message.startswith("model 'm': ")
    assert "\n" not in message
    return message


def test_nothing_is_printed(copy: Any, loaded: Load, capfd: pytest.CaptureFixture[str]) -> None:
    folder = copy("bert")
    change_weights(folder, lambda w: {k: v for k, v in w.items() if "pooler" not in k})
    capfd.readouterr()  # saving the family may have shown something
    loaded(folder)  # transformers would report the pooler, and pytest makes an error of every warning
    assert capfd.readouterr() == ("", "")


def test_the_settings_of_transformers_are_put_back(family: Family, loaded: Load) -> None:
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    loaded(family("bert"))
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_weights_without_a_pooler_will_do(copy: Any, loaded: Load) -> None:
    folder = copy("bert")
    whole = loaded(folder)
    change_weights(folder, lambda w: {k: v for k, v in w.items() if "pooler" not in k})
    ids = torch.arange(6, 16)[None]
    with torch.inference_mode():
        for a, b in zip(*(m.states(ids, torch.ones_like(ids)) for m in (whole, loaded(folder))), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert loaded(folder).groups == loaded(folder).groups  # though the pooler was drawn twice


def test_what_a_file_lacks_makes_no_two_loads_differ(copy: Any, loaded: Load) -> None:
    folder = copy("bert")
    change_weights(folder, lambda w: {k: v for k, v in w.items() if "pooler" not in k})
    one = loaded(folder)
    torch.manual_seed(1 + torch.initial_seed() % 1000)
    assert loaded(folder).groups == one.groups


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("bert", "encoder.layer.1.output.dense.weight"),
        ("bert", "embeddings.position_embeddings.weight"),
        ("deberta-v2", "encoder.rel_embeddings.weight"),
        ("gpt2", "h.2.mlp.c_fc.bias"),
        ("t5", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
        ("bart", "encoder.layers.2.fc1.weight"),
    ],
)
def test_a_weight_that_the_states_need_must_be_there(copy: Any, loaded: Load, name: str, lost: str) -> None:
    folder = copy(name)
    change_weights(
        folder, lambda w: {k: v for k, v in w.items() if k != lost} if lost in w else pytest.fail(str(w.keys()))
    )
    message = refused(loaded, folder)
    assert "lacks weights" in message
    assert lost in message


def test_a_decoder_half_that_is_not_measured_may_lack(copy: Any, loaded: Load) -> None:
    folder = copy("bart")
    change_weights(folder, lambda w: {k: v for k, v in w.items() if not k.startswith("decoder.layers.0")})
    assert loaded(folder).anatomy.layers == 3


def test_weights_of_another_shape(copy: Any, loaded: Load) -> None:
    folder = copy("bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 64}))
    assert "has the shape (48,), and config.json says (64,)" in refused(loaded, folder)


@pytest.mark.parametrize("size", [0, 4, 100, -1])
def test_a_truncated_file_is_called_damaged(copy: Any, loaded: Load, size: int) -> None:
    folder = copy("bert")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:size])
    assert "model.safetensors is damaged" in refused(loaded, folder)


def test_a_damaged_configuration(copy: Any, loaded: Load) -> None:
    folder = copy("bert")
    (folder / "config.json").write_text("{")
    assert "configuration" in refused(loaded, folder)


def test_a_damaged_tokenizer(copy: Any, loaded: Load) -> None:
    folder = copy("bert")
    (folder / "tokenizer.json").write_text("{}")
    assert "tokenizer" in refused(loaded, folder)


def test_an_unknown_family(copy: Any, loaded: Load) -> None:
    folder = copy("bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "martian"}))
    assert "configuration" in refused(loaded, folder)


def test_remote_code_must_be_allowed_by_name(copy: Any, loaded: Load, tmp_path: Path) -> None:
    folder = copy("bert")
    config = json.loads((folder / "config.json").read_text())
    own = {"model_type": "martian", "auto_map": {"AutoConfig": "c.C", "AutoModel": "m.M"}}
    (folder / "config.json").write_text(json.dumps(config | own))
    (folder / "c.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert "`trust_remote_code: true`" in refused(loaded, folder)
    assert not (tmp_path / "ran").exists()


def test_pickle_is_read_only_where_it_is_allowed(copy: Any, loaded: Load) -> None:
    folder = copy("bert")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert "`allow_pickle: true`" in refused(loaded, folder)
    assert loaded(folder, allow_pickle=True).anatomy.layers == 3


def test_no_code_that_lies_in_a_models_folder_runs(copy: Any, loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy("bert")
    ran = folder.parent / "ran"

    class Planted:
        def __reduce__(self) -> Any:
            return (ran.touch, ())

    planted = f"open({str(ran)!r}, 'w')\n"
    names = ("modeling_x", "configuration_x", "tokenization_x", "setup", "conftest", "sitecustomize", "usercustomize")
    for name in (*names, "__init__", "custom_generate/generate", "torch", "transformers"):
        (folder / f"{name}.py").parent.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(planted)
    for name in ("pytorch_model.bin", "optimizer.pt", "training_args.bin", "tokenizer.pkl"):
        torch.save({"x": Planted()}, folder / name)
    own = {"AutoConfig": "configuration_x.C", "AutoModel": "modeling_x.M", "AutoModelForMaskedLM": "modeling_x.M"}
    for name, known in (("config.json", own), ("tokenizer_config.json", {"AutoTokenizer": ["tokenization_x.T", None]})):
        said = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(said | {"auto_map": known}))
    monkeypatch.chdir(folder)
    assert loaded(folder).anatomy.layers == 3  # of a family that is known, whatever its configuration offers
    assert not ran.exists()


@pytest.mark.parametrize(
    "named", ["pytorch_model.bin", "../outside.safetensors", "/outside.safetensors", "a/b.safetensors"]
)
def test_an_index_names_safetensors_of_its_folder_alone(copy: Any, loaded: Load, named: str) -> None:
    folder = copy("bert")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    ran = folder.parent / "ran"

    class Planted:
        def __reduce__(self) -> Any:
            return (ran.touch, ())

    torch.save(weights | {"more": Planted()}, folder / "pytorch_model.bin")
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, named)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    said = refused(loaded, folder)
    assert f"names {named!r}, which is no .safetensors file of its folder" in said
    assert not ran.exists()


def _with(name: str, value: Any) -> Any:
    def change(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        key = next(key for key in weights if key.endswith(name))
        return weights | {key: value(weights[key])}

    return change


DENSE = "encoder.layer.1.output.dense.weight"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_with(DENSE, lambda w: w.index_fill(0, torch.tensor([3]), float("nan"))), f"{DENSE} holds NaN"),
        (_with(DENSE, lambda w: w.index_fill(1, torch.tensor([0]), -float("inf"))), f"{DENSE} holds infinity"),
        (_with(DENSE, lambda w: w[:3].contiguous()), f"its weight {DENSE} has the shape (3,"),
        (lambda weights: {key: w * 0 for key, w in weights.items()}, "all of its weights are 0"),
        (lambda weights: {key: (9 * w).to(torch.int8) for key, w in weights.items()}, "holds integers"),
        (
            lambda weights: weights | {key.replace("layer.2", "layer.3"): w + 0 for key, w in weights.items()},
            "hold layers that config.json does not know, such as encoder.layer.3.",
        ),
    ],
)
def test_weights_that_cannot_be_what_was_trained_are_named(copy: Any, loaded: Load, change: Any, said: str) -> None:
    folder = copy("bert")
    change_weights(folder, change)
    assert said in refused(loaded, folder)


def test_the_largest_finite_weights_are_no_infinity(copy: Any, loaded: Load) -> None:
    folder = copy("bert")
    change_weights(folder, _with("pooler.dense.weight", lambda w: torch.full_like(w, torch.finfo(w.dtype).max)))
    assert loaded(folder).anatomy.layers == 3


def test_a_picture_model_is_no_text_model(tmp_path: Path, copy: Any, loaded: Load) -> None:
    from transformers import ViTConfig, ViTModel

    folder = copy("bert")
    config = ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=8, patch_size=4
    )
    ViTModel(config).save_pretrained(folder)
    assert "it is no text model" in refused(loaded, folder)


def test_a_tokenizer_of_another_model(copy: Any, loaded: Load) -> None:
    folder = copy("bert")
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"] |= {f"more{i}": 1000 + i for i in range(10)}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert "do not belong together" in refused(loaded, folder)


def test_precision_is_float32_unless_the_study_says_otherwise(copy: Any, loaded: Load) -> None:
    folder = copy("llama")
    change_weights(folder, lambda w: {k: v.bfloat16() for k, v in w.items()})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}))
    for dtype, expected in (("float32", torch.float32), ("auto", torch.bfloat16), ("bfloat16", torch.bfloat16)):
        model = loaded(folder, dtype=dtype)
        assert {p.dtype for p in model.module.parameters()} == {expected}
        assert model.anatomy.role == "decoder"


def test_texts_are_padded_on_the_right(copy: Any, loaded: Load) -> None:
    folder = copy("gpt2")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"padding_side": "left"}))
    model = loaded(folder)
    assert model.tokenizer.padding_side == "right"
    assert model.module.get_input_embeddings().num_embeddings == model.anatomy.vocabulary_size


def test_no_head_and_no_cache(family: Family, loaded: Load) -> None:
    model = loaded(family("gpt2"))
    assert not any("lm_head" in name for name, _ in model.module.named_modules())
    assert not model.module.training
    assert model.anatomy.parameters == sum(p.numel() for p in model.module.parameters())
    seen = []
    model.module.register_forward_hook(lambda module, args, output: seen.append(output))
    ids = torch.arange(6, 16)[None]
    with torch.inference_mode():
        model.states(ids, torch.ones_like(ids))
    assert seen[0].past_key_values is None
    assert seen[0].hidden_states is None


def test_a_failing_pass_leaves_nothing_behind(family: Family, loaded: Load) -> None:
    model = loaded(family("bert"))
    good = torch.arange(6, 16)[None]
    with torch.inference_mode():
        expected = model.states(good, torch.ones_like(good))
        with pytest.raises(IndexError):
            model.states(good + 1000, torch.ones_like(good))
        again = model.states(good, torch.ones_like(good))
    assert [x.shape for x in again] == [x.shape for x in expected]
    torch.testing.assert_close(again[-1], expected[-1], rtol=0, atol=0)


def test_loading_is_the_same_without_the_cache_of_a_checkpoint(
    found: Callable[..., Checkpoint], family: Family
) -> None:
    checkpoint = found(family("albert"))
    first, second = (load(checkpoint, "cpu", offline=True) for _ in range(2))
    assert first.anatomy == second.anatomy


@pytest.mark.parametrize(
    ("name", "claim", "said"),
    [
        ("bert", {"num_hidden_layers": 100_000}, "says 100,000 layers (num_hidden_layers), and there are"),
        ("gpt2", {"n_layer": 100_000}, "says 100,000 layers (num_hidden_layers), and there are"),
        ("t5", {"num_decoder_layers": 100_000}, "says 100,000 layers (num_decoder_layers), and there are"),
        ("bert", {"hidden_size": 4_000_000}, "says hidden_size 4,000,000, and the largest dimension of its weights is"),
        ("bert", {"vocab_size": 10**9}, "says vocab_size 1,000,000,000, and the largest dimension"),
    ],
)
def test_absurd_claims_are_refused_before_anything_is_built(
    copy: Any, loaded: Load, name: str, claim: dict[str, int], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    folder = copy(name)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | claim))
    monkeypatch.setattr(transformers.PreTrainedModel, "from_pretrained", lambda *args, **kwargs: pytest.fail("built"))
    assert said in refused(loaded, folder)


def test_loading_is_limited_in_time(tmp_path: Path) -> None:
    with pytest.raises(ReporterError, match=r"took longer than 0\.001 minutes"), limited(tmp_path, minutes=0.001):
        while True:
            sum(range(1000))


def test_a_file_that_is_no_gguf(tmp_path: Path, found: Callable[..., Checkpoint]) -> None:
    (tmp_path / "model.gguf").write_bytes(b"no")
    with pytest.raises(ReporterError, match="is damaged: a GGUF file begins with"):
        found(tmp_path / "model.gguf")
    with pytest.raises(ReporterError, match="there is no file"):
        found(tmp_path / "other.gguf")
    with pytest.raises(ReporterError, match=r"holds model\.gguf: write that file as `path`"):
        found(tmp_path)
