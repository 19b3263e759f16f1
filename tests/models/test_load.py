"""Loading: what is kept off, what is refused, and what a loaded model promises."""

import json

import pytest
import torch
from models.folders import change_weights, configure, refused
from safetensors.torch import load_file

from reporter.core.errors import ReporterError
from reporter.models.weights import limited

IDS = torch.arange(6, 16)[None]
OWN_CODE = {"AutoConfig": "c.C", "AutoModel": "m.M", "AutoModelForMaskedLM": "m.M"}


def without(part):
    return lambda weights: {name: weight for name, weight in weights.items() if part not in name}


def changed(name, value):
    return lambda weights: weights | {name: value(weights[name])}


class Planted:
    """Notes that it was unpickled."""

    def __init__(self, ran):
        self.ran = ran

    def __reduce__(self):
        return (self.ran.touch, ())


def test_weights_without_a_pooler_load_in_silence_and_always_alike(copy, loaded, capfd):
    from transformers.utils import logging

    folder = copy("bert")
    whole = loaded(folder)
    change_weights(folder, without("pooler"))
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    capfd.readouterr()
    model = loaded(folder)  # transformers would report the pooler, and pytest makes an error of every warning
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    with torch.inference_mode():
        for a, b in zip(*(m.states(IDS, torch.ones_like(IDS)) for m in (whole, model)), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
    torch.manual_seed(1 + torch.initial_seed() % 1000)
    again = loaded(folder)
    assert again.groups == model.groups and again.anatomy == model.anatomy  # though the pooler was drawn twice


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("bert", "encoder.layer.1.output.dense.weight"),
        ("bert", "embeddings.position_embeddings.weight"),
        ("deberta-v2", "encoder.rel_embeddings.weight"),
        ("t5", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
    ],
)
def test_a_weight_that_the_states_need_must_be_in_the_file(copy, loaded, name, lost):
    folder = copy(name)
    assert lost in load_file(folder / "model.safetensors")
    change_weights(folder, without(lost))
    message = refused(loaded, folder)
    assert "lacks weights" in message and lost in message


def test_a_decoder_half_that_is_not_measured_may_lack_weights(copy, loaded):
    folder = copy("bart")
    change_weights(folder, without("decoder.layers.0"))
    assert loaded(folder).anatomy.layers == 3


@pytest.mark.parametrize("size", [0, 4, 100, -1])
def test_a_truncated_file_is_called_damaged(copy, loaded, size):
    folder = copy("bert")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:size])
    assert "model.safetensors is damaged" in refused(loaded, folder)


def test_files_that_are_damaged_or_of_no_text_model_are_refused(copy, loaded):
    from transformers import ViTConfig, ViTModel

    folder = copy("bert")
    config, tokenizer = ((folder / name).read_text() for name in ("config.json", "tokenizer.json"))
    config, vocabulary = json.loads(config), json.loads(tokenizer)
    vocabulary["model"]["vocab"] |= {f"more{i}": 1000 + i for i in range(10)}
    for file, content, says in (
        ("config.json", "{", "cannot read"),
        ("config.json", json.dumps(config | {"model_type": "martian"}), "update transformers"),
        ("config.json", json.dumps(config | {"intermediate_size": 64}), "(48,), but config.json asks for (64,)"),
        ("tokenizer.json", "{}", "tokenizer"),
        ("tokenizer.json", json.dumps(vocabulary), "use the tokenizer of this model"),
    ):
        before = (folder / file).read_text()
        (folder / file).write_text(content)
        assert says in refused(loaded, folder)
        (folder / file).write_text(before)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    ViTModel(ViTConfig(**size, image_size=8, patch_size=4)).save_pretrained(folder)
    assert "name a model that reads text" in refused(loaded, folder)


def test_remote_code_must_be_allowed_by_name(copy, loaded, tmp_path):
    folder = copy("bert")
    configure(folder, model_type="martian", auto_map=OWN_CODE)
    (folder / "c.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert "`trust_remote_code: true`" in refused(loaded, folder)
    assert not (tmp_path / "ran").exists()


def test_pickle_is_read_only_where_it_is_allowed(copy, loaded):
    folder = copy("bert")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert "`allow_pickle: true`" in refused(loaded, folder)
    assert loaded(folder, allow_pickle=True).anatomy.layers == 3


def test_no_code_that_lies_in_a_models_folder_runs(copy, loaded, monkeypatch):
    folder = copy("bert")
    ran = folder.parent / "ran"
    for name in ("c", "m", "t", "setup", "conftest", "sitecustomize", "usercustomize", "__init__", "torch"):
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')\n")
    (folder / "custom_generate").mkdir()
    for name in ("custom_generate/generate", "transformers"):
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')\n")
    for name in ("pytorch_model.bin", "optimizer.pt", "training_args.bin", "tokenizer.pkl"):
        torch.save({"x": Planted(ran)}, folder / name)
    configure(folder, auto_map=OWN_CODE)
    configure(folder, "tokenizer_config.json", auto_map={"AutoTokenizer": ["t.T", None]})
    monkeypatch.chdir(folder)
    assert loaded(folder).anatomy.layers == 3  # of a known family, whatever its configuration offers
    assert not ran.exists()


@pytest.mark.parametrize(
    "named", ["pytorch_model.bin", "../outside.safetensors", "/outside.safetensors", "a/b.safetensors"]
)
def test_an_index_names_safetensors_of_its_folder_alone(copy, loaded, named):
    folder = copy("bert")
    weights, ran = load_file(folder / "model.safetensors"), folder.parent / "ran"
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    torch.save(weights | {"more": Planted(ran)}, folder / "pytorch_model.bin")
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, named)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert f"names {named!r}, which is not a .safetensors file in this folder" in refused(loaded, folder)
    assert not ran.exists()


DENSE = "encoder.layer.1.output.dense.weight"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed(DENSE, lambda w: w.index_fill(0, torch.tensor([3]), float("nan"))), f"{DENSE} holds NaN"),
        (changed(DENSE, lambda w: w.index_fill(1, torch.tensor([0]), -float("inf"))), f"{DENSE} holds infinity"),
        (changed(DENSE, lambda w: w[:3].contiguous()), f"the weight {DENSE} has the shape (3,"),
        (lambda weights: {key: w * 0 for key, w in weights.items()}, "all weights are 0"),
        (lambda weights: {key: (9 * w).to(torch.int8) for key, w in weights.items()}, "holds integers"),
        (
            lambda weights: weights | {key.replace("layer.2", "layer.3"): w + 0 for key, w in weights.items()},
            "more layers than config.json, such as encoder.layer.3.",
        ),
    ],
)
def test_weights_that_cannot_be_what_was_trained_are_named(copy, loaded, change, says):
    folder = copy("bert")
    change_weights(folder, change)
    assert says in refused(loaded, folder)


def test_the_largest_finite_weights_are_no_infinity(copy, loaded):
    folder = copy("bert")
    change_weights(folder, changed("pooler.dense.weight", lambda w: torch.full_like(w, torch.finfo(w.dtype).max)))
    assert loaded(folder).anatomy.layers == 3


def test_precision_is_float32_unless_the_study_names_another(copy, loaded):
    folder = copy("llama")
    change_weights(folder, lambda w: {k: v.bfloat16() for k, v in w.items()})
    configure(folder, dtype="bfloat16")
    for dtype, expected in (("float32", torch.float32), ("auto", torch.bfloat16), ("bfloat16", torch.bfloat16)):
        model = loaded(folder, dtype=dtype)
        assert {p.dtype for p in model.module.parameters()} == {expected}
        assert model.anatomy.role == "decoder"


def test_a_loaded_model_pads_on_the_right_and_has_no_head_and_no_cache(copy, loaded):
    folder = copy("gpt2")
    configure(folder, "tokenizer_config.json", padding_side="left")
    model, outputs = loaded(folder), []
    assert model.tokenizer.padding_side == "right" and not model.module.training
    assert not any("lm_head" in name for name, _ in model.module.named_modules())
    assert model.anatomy.parameters == sum(p.numel() for p in model.module.parameters())
    model.module.register_forward_hook(lambda module, args, output: outputs.append(output))
    with torch.inference_mode():
        model.states(IDS, torch.ones_like(IDS))
    assert outputs[0].past_key_values is None and outputs[0].hidden_states is None


def test_a_failing_pass_leaves_nothing_behind(shared):
    model = shared("bert")
    with torch.inference_mode():
        expected = model.states(IDS, torch.ones_like(IDS))
        with pytest.raises(IndexError):
            model.states(IDS + 1000, torch.ones_like(IDS))
        again = model.states(IDS, torch.ones_like(IDS))
    assert [x.shape for x in again] == [x.shape for x in expected]
    torch.testing.assert_close(again[-1], expected[-1], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "claim", "says"),
    [
        ("bert", {"num_hidden_layers": 100_000}, "100,000 layers (num_hidden_layers), but there are"),
        ("t5", {"num_decoder_layers": 100_000}, "100,000 layers (num_decoder_layers), but there are"),
        ("bert", {"hidden_size": 4_000_000}, "hidden_size 4,000,000, but the largest dimension"),
        ("bert", {"vocab_size": 10**9}, "vocab_size 1,000,000,000, but the largest dimension"),
    ],
)
def test_absurd_claims_are_refused_before_anything_is_built(copy, loaded, name, claim, says, monkeypatch):
    import transformers

    folder = copy(name)
    configure(folder, **claim)
    monkeypatch.setattr(transformers.PreTrainedModel, "from_pretrained", lambda *args, **kwargs: pytest.fail("built"))
    assert says in refused(loaded, folder)


def test_loading_is_limited_in_time(tmp_path):
    with pytest.raises(ReporterError, match=r"took longer than 0\.001 minutes"), limited(tmp_path, minutes=0.001):
        while True:
            sum(range(1000))


def test_a_file_that_is_no_gguf_is_refused(tmp_path, found):
    (tmp_path / "model.gguf").write_bytes(b"no")
    for path, says in (
        ("model.gguf", "is not a GGUF file"),
        ("other.gguf", "there is no file"),
        ("", r"a GGUF file; name .*model\.gguf instead"),
    ):
        with pytest.raises(ReporterError, match=says):
            found(tmp_path / path)
