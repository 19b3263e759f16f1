"""Loading: what is kept off, what is refused, and what a loaded model promises."""

import json
import re
import shutil

import pytest
import torch
from models.folders import IDS, MASK, change_weights, configure, refused, states_of
from oracles.families import write_tokenizer
from safetensors.torch import load_file

from reporter.core.errors import ReporterError
from reporter.models.head import load_head
from reporter.models.weights import limited


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

    folder = copy()
    whole = loaded(folder)
    change_weights(folder, without("pooler"))
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    capfd.readouterr()
    model = loaded(folder)  # transformers would report the pooler, and pytest makes an error of every warning
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    torch.testing.assert_close(states_of(whole), states_of(model), rtol=0, atol=0)
    torch.manual_seed(1 + torch.initial_seed() % 1000)
    again = loaded(folder)
    assert again.groups == model.groups and again.anatomy == model.anatomy  # though the pooler was drawn twice


def test_a_weight_that_the_states_need_must_be_in_the_file(copy, loaded):
    for name, lost in (
        ("bert", "encoder.layer.1.output.dense.weight"),
        ("deberta-v2", "encoder.rel_embeddings.weight"),
        ("t5", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
    ):
        folder = copy(name)
        if name == "t5":
            change_weights(folder, without("decoder.block.0"))  # is not measured
            assert loaded(folder).anatomy.layers == 3
        change_weights(folder, without(lost))
        message = refused(loaded, folder)
        assert "lacks weights" in message and lost in message


def prefixed(prefix):
    return lambda weights: {f"{prefix}{name}": weight for name, weight in weights.items()}


def inside(word):
    return lambda weights: {re.sub(r"((?:layers|layer|h)\.\d+\.)", rf"\1{word}", n): x for n, x in weights.items()}


SHARDED, RECOMPUTED = "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."
WRAPPED = {
    **{prefix: prefixed(prefix) for prefix in ("_orig_mod.", "module.", "module._orig_mod.", "model.net.")},
    "value head": lambda weights: prefixed("pretrained_model.")(weights) | {"v_head.summary.weight": torch.ones(1, 32)},
    "recomputed": inside(RECOMPUTED),
    "compiled blocks": inside("_orig_mod."),
    "parallel blocks": inside("module."),
    "sharded": lambda weights: prefixed(SHARDED)(inside(SHARDED + RECOMPUTED)(weights)),
}


@pytest.mark.parametrize("name", ["gpt2", "mixtral"])
def test_weights_that_a_program_wrapped_are_read(tmp_path, language_model, shared, loaded, name):
    states, logits = states_and_logits(shared(name))
    for how, change in WRAPPED.items():
        wrapped = shutil.copytree(language_model(name), tmp_path / how)
        change_weights(wrapped, change)
        again, same = states_and_logits(loaded(wrapped))
        assert all(map(torch.equal, states, again)) and torch.equal(logits, same), how


def states_and_logits(model):
    states = states_of(model)
    with torch.inference_mode():
        return states, load_head(model.checkpoint, model, offline=True).logits(states[-1][0])


def test_copies_of_weights_are_left_out_or_named(copy, loaded):
    folder = copy("llama")
    whole = loaded(folder)
    change_weights(folder, lambda weights: weights | prefixed("ema.")({n: 2 * x for n, x in weights.items()}))
    change_weights(folder, lambda weights: weights | {f"{n}_ema": 2 * x for n, x in weights.items() if "ema" not in n})
    assert torch.equal(states_of(loaded(folder))[-1], states_of(whole)[-1]), "the model's own names count"
    change_weights(folder, lambda weights: {name: x for name, x in weights.items() if name != "norm.weight"})
    message = refused(loaded, folder)
    assert "lacks weights" in message and "norm.weight" in message, "a copy does not stand in for one that is lacking"
    change_weights(
        folder, lambda weights: {name if "ema" in name else f"model.net.{name}": x for name, x in weights.items()}
    )
    assert "has the weights 2 times, under 'ema.' and 'model.net.'" in refused(loaded, folder)


def beside(query, make):
    """Add to each block a weight beside its query's."""

    def change(weights):
        places = [name for name in weights if name.endswith("q_proj.weight")]
        return weights | {name.replace("q_proj.weight", query): make(len(weights[name])) for name in places}

    return change


NO_PLACE = ("holds layers.0.self_attn.", "has no place")
LEFT_OVER = {
    "biases": (beside("q_proj.bias", torch.randn), NO_PLACE),
    "norms": (beside("q_norm.weight", torch.randn), NO_PLACE),
    "scales": (beside("q_proj.weight_scale_inv", lambda n: torch.tensor([0.5])), (*NO_PLACE, "quantised in a way")),
    "biases of 0": (beside("q_proj.bias", torch.zeros), None),
    "frequencies": (beside("rotary_emb.inv_freq", lambda n: torch.arange(4.0)), None),
    "scales of states": (beside("q_proj.input_scale", lambda n: torch.rand(1)), None),
    "adapter": (
        lambda weights: {n.replace("q_proj.weight", "q_proj.base_layer.weight"): x for n, x in weights.items()},
        ("those of an adapter", "merge_and_unload"),
    ),
    "another library's names": (
        lambda weights: {n.replace("layers", "block").replace("embed_tokens", "tok"): x for n, x in weights.items()},
        ("not named as transformers names", "block.0."),
    ),
}


@pytest.mark.parametrize("what", LEFT_OVER)
def test_a_weight_without_a_place_in_the_model_is_refused_unless_it_is_a_constant(copy, loaded, what):
    folder, (change, says) = copy("llama"), LEFT_OVER[what]
    whole = loaded(folder)
    change_weights(folder, change)
    if says is None:
        assert torch.equal(states_of(loaded(folder))[-1], states_of(whole)[-1])
    else:
        message = refused(loaded, folder)
        assert all(part in message for part in says), message


@pytest.mark.parametrize("place", ["layers.3.", "mtp.layers.0.", "mtp_layers.0.", "mtp.0."])
@pytest.mark.parametrize("name", ["deepseek-v3", "qwen2"])
def test_layers_that_predict_further_tokens_are_left_out(copy, loaded, name, place):
    folder = copy(name)
    whole = loaded(folder)

    def with_one_more(weights):
        more = {n.replace("layers.2.", place): x + 1 for n, x in weights.items() if n.startswith("layers.2.")}
        return weights | more

    configure(folder, num_nextn_predict_layers=0)
    change_weights(folder, with_one_more)
    if place == "layers.3.":
        assert "more layers than config.json" in refused(loaded, folder)
        configure(folder, num_nextn_predict_layers=1)
        assert torch.equal(states_of(loaded(folder))[-1], states_of(whole)[-1])
        configure(folder, num_nextn_predict_layers=0)
        change_weights(folder, lambda weights: weights | {"layers.3.eh_proj.weight": torch.randn(32, 64)})
    model = loaded(folder)
    assert model.anatomy.layers == 3 and torch.equal(states_of(model)[-1], states_of(whole)[-1])


def test_buffers_that_a_file_holds_count_as_weights(copy, loaded):
    """Training sets the bias by which a mixture of experts chooses, though no gradient reaches it."""
    folder, bias = copy("deepseek-v3"), "layers.1.mlp.gate.e_score_correction_bias"
    whole = loaded(folder)
    change_weights(folder, lambda weights: weights | {bias: weights[bias] + 1.5 * torch.arange(len(weights[bias]))})
    tuned = loaded(folder)
    assert [group for group in whole.groups if whole.groups[group] != tuned.groups[group]] == ["2"]
    assert not torch.equal(states_of(whole)[-1], states_of(tuned)[-1])
    change_weights(folder, without(bias))
    message = refused(loaded, folder)
    assert "lacks weights" in message and bias in message


def test_buffers_that_a_configuration_decides_need_not_be_in_the_file(tmp_path, loaded):
    from transformers import MiniMaxConfig, MiniMaxForCausalLM

    size = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    more = {"num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1, "block_size": 8}
    config = MiniMaxConfig(vocab_size=write_tokenizer(tmp_path), bos_token_id=0, eos_token_id=2, **size, **more)
    with torch.random.fork_rng():
        MiniMaxForCausalLM(config).save_pretrained(tmp_path)
    whole = loaded(tmp_path)
    change_weights(tmp_path, without("decay"))
    change_weights(tmp_path, without("slope_rate"))
    assert torch.equal(states_of(loaded(tmp_path))[-1], states_of(whole)[-1])


def test_files_that_are_damaged_or_of_no_text_model_are_refused(copy, loaded):
    from transformers import ViTConfig, ViTModel

    folder = copy()
    config, vocabulary = (json.loads((folder / name).read_text()) for name in ("config.json", "tokenizer.json"))
    vocabulary["model"]["vocab"] |= {f"more{i}": 1000 + i for i in range(10)}
    for file, content, says in (
        ("config.json", "{", "cannot read"),
        ("config.json", json.dumps(config | {"model_type": "martian"}), "update transformers"),
        ("config.json", json.dumps(config | {"intermediate_size": 64}), "(48,), but config.json asks for (64,)"),
        ("tokenizer.json", "{}", "tokenizer"),
        ("tokenizer.json", json.dumps(vocabulary), "use the tokenizer of this model"),
        *(("model.safetensors", size, "model.safetensors is damaged") for size in (0, 4, 100, -1)),
    ):
        before = (folder / file).read_bytes()
        (folder / file).write_bytes(before[:content] if isinstance(content, int) else content.encode())
        assert says in refused(loaded, folder)
        (folder / file).write_bytes(before)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    ViTModel(ViTConfig(**size, image_size=8, patch_size=4)).save_pretrained(folder)
    assert "name a model that reads text" in refused(loaded, folder)


def test_no_code_that_lies_in_a_models_folder_runs_and_remote_code_must_be_allowed(copy, loaded, monkeypatch):
    folder = copy()
    ran = folder.parent / "ran"
    (folder / "custom_generate").mkdir()
    names = "c m t setup conftest sitecustomize usercustomize __init__ torch transformers custom_generate/generate"
    for name in names.split():
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')\n")
    for name in ("pytorch_model.bin", "optimizer.pt", "training_args.bin", "tokenizer.pkl"):
        torch.save({"x": Planted(ran)}, folder / name)
    configure(folder, auto_map={"AutoConfig": "c.C", "AutoModel": "m.M", "AutoModelForMaskedLM": "m.M"})
    configure(folder, "tokenizer_config.json", auto_map={"AutoTokenizer": ["t.T", None]})
    monkeypatch.chdir(folder)
    assert loaded(folder).anatomy.layers == 3  # of a known family, whatever its configuration offers
    configure(folder, model_type="martian")
    assert "`trust_remote_code: true`" in refused(loaded, folder)
    assert not ran.exists()


def test_an_index_names_safetensors_of_its_folder_alone(copy, loaded):
    folder = copy()
    weights, ran = load_file(folder / "model.safetensors"), folder.parent / "ran"
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    torch.save(weights | {"more": Planted(ran)}, folder / "pytorch_model.bin")
    index = folder / "model.safetensors.index.json"
    for named in ("pytorch_model.bin", "../outside.safetensors", "/outside.safetensors", "a/b.safetensors"):
        index.write_text(json.dumps({"weight_map": dict.fromkeys(weights, named)}))
        assert f"names {named!r}, which is not a .safetensors file in this folder" in refused(loaded, folder)
    assert not ran.exists()
    index.unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert "`allow_pickle: true`" in refused(loaded, folder)
    assert loaded(folder, allow_pickle=True).anatomy.layers == 3
    torch.save({"state_dict": weights, "epoch": 1}, folder / "pytorch_model.bin")
    assert "there are epoch, state_dict" in refused(loaded, folder, allow_pickle=True)
    torch.save({"module": weights}, folder / "pytorch_model.bin")  # as DeepSpeed does
    assert "there are module, but" in refused(loaded, folder, allow_pickle=True)
    (folder / "pytorch_model.bin").rename(folder / "last.ckpt")
    assert "load last.ckpt with the program that saved it" in refused(loaded, folder)


DENSE = "encoder.layer.1.output.dense.weight"
IMPOSSIBLE = {
    f"{DENSE} holds NaN": changed(DENSE, lambda w: w.index_fill(0, torch.tensor([3]), float("nan"))),
    f"{DENSE} holds infinity": changed(DENSE, lambda w: w.index_fill(1, torch.tensor([0]), -float("inf"))),
    f"the weight {DENSE} has the shape (3,": changed(DENSE, lambda w: w[:3].contiguous()),
    "all weights are 0": lambda weights: {key: w * 0 for key, w in weights.items()},
    "holds integers": lambda weights: {key: (9 * w).to(torch.int8) for key, w in weights.items()},
    "more layers than config.json, such as encoder.layer.3.": (
        lambda weights: weights | {key.replace("layer.2", "layer.3"): w + 0 for key, w in weights.items()}
    ),
}


def test_weights_that_cannot_be_what_was_trained_are_named(copy, loaded):
    folder = copy()
    whole = (folder / "model.safetensors").read_bytes()
    for says, change in IMPOSSIBLE.items():
        change_weights(folder, change)
        assert says in refused(loaded, folder)
        (folder / "model.safetensors").write_bytes(whole)
    change_weights(folder, changed("pooler.dense.weight", lambda w: torch.full_like(w, torch.finfo(w.dtype).max)))
    assert loaded(folder).anatomy.layers == 3  # the largest finite weights are no infinity


def test_precision_is_float32_unless_the_study_names_another(copy, loaded):
    folder = copy("llama")
    change_weights(folder, lambda w: {k: v.bfloat16() for k, v in w.items()})
    configure(folder, dtype="bfloat16")
    for dtype, expected in (("float32", torch.float32), ("auto", torch.bfloat16), ("bfloat16", torch.bfloat16)):
        model = loaded(folder, dtype=dtype)
        assert ({p.dtype for p in model.module.parameters()}, model.anatomy.role) == ({expected}, "decoder")


def test_a_loaded_model_pads_on_the_right_and_has_no_head_and_no_cache(copy, loaded):
    folder = copy("gpt2")
    configure(folder, "tokenizer_config.json", padding_side="left")
    model, outputs = loaded(folder), []
    assert model.tokenizer.padding_side == "right" and not model.module.training
    assert not any("lm_head" in name for name, _ in model.module.named_modules())
    assert model.anatomy.parameters == sum(p.numel() for p in model.module.parameters())
    model.module.register_forward_hook(lambda module, args, output: outputs.append(output))
    expected = states_of(model)
    assert outputs[0].past_key_values is None and outputs[0].hidden_states is None
    with torch.inference_mode(), pytest.raises(IndexError):
        model.states(IDS + 1000, MASK)
    # A pass that failed leaves nothing behind.
    torch.testing.assert_close(states_of(model), expected, rtol=0, atol=0)


def test_absurd_claims_are_refused_before_anything_is_built(copy, loaded, monkeypatch):
    import transformers

    monkeypatch.setattr(transformers.PreTrainedModel, "from_pretrained", lambda *args, **kwargs: pytest.fail("built"))
    bert, t5 = copy("bert"), copy("t5")
    for folder, key, value, says in (
        (bert, "vocab_size", 10**9, "vocab_size 1,000,000,000, but the largest dimension"),
        (bert, "hidden_size", 4_000_000, "hidden_size 4,000,000, but the largest dimension"),
        (bert, "num_hidden_layers", 100_000, "100,000 layers (num_hidden_layers), but there are"),
        (t5, "num_decoder_layers", 100_000, "100,000 layers (num_decoder_layers), but there are"),
    ):
        configure(folder, **{key: value})
        assert says in refused(loaded, folder)


def test_loading_is_limited_in_time_and_a_file_that_is_no_gguf_is_refused(tmp_path, found):
    with pytest.raises(ReporterError, match=r"took longer than 0\.001 minutes"), limited(tmp_path, minutes=0.001):
        while True:
            sum(range(1000))
    (tmp_path / "model.gguf").write_bytes(b"no")
    assert "is not a GGUF file" in refused(found, tmp_path / "model.gguf")
    assert "there is no file" in refused(found, tmp_path / "other.gguf")
    assert "model.gguf instead" in refused(found, tmp_path)
