"""Weights that are packed (GGUF, quantised), adapted, or split over memory and disk: what they stand for."""

import json
import shutil
import warnings

import pytest
import torch
from models.folders import IDS, MASK, configure, refused, states_of
from oracles.families import build_family
from safetensors.numpy import load_file as arrays_of
from safetensors.torch import load_file, save_file

from reporter.app.verify.by_model import PlainModel
from reporter.models.head import load_head

SIZES = {"block_count": "num_hidden_layers", "context_length": "max_position_embeddings", "vocab_size": "vocab_size"}
SIZES |= {"embedding_length": "hidden_size", "feed_forward_length": "intermediate_size"}
SIZES |= {"head_count": "num_attention_heads", "head_count_kv": "num_key_value_heads"}
SIZES |= {"layer_norm_rms_eps": "rms_norm_eps"}


def write(folder, file):
    """Write a Qwen2 model as llama.cpp names its parts, with a tokenizer of single characters."""
    import gguf

    config = json.loads((folder / "config.json").read_text())
    to = gguf.GGUFWriter(str(file), "qwen2")
    for theirs, ours in SIZES.items():
        getattr(to, f"add_{theirs}")(config[ours])
    to.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    to.add_tokenizer_model("gpt2")
    to.add_token_list(["<|endoftext|>", "ab", *(chr(97 + i) for i in range(config["vocab_size"] - 2))])
    to.add_token_types([gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (config["vocab_size"] - 1))
    to.add_token_merges(["a b"])
    to.add_eos_token_id(0)
    named = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config["num_hidden_layers"])
    for name, weight in arrays_of(folder / "model.safetensors").items():
        to.add_tensor(named.get_name(name, try_suffixes=(".weight", ".bias")), weight)
    to.write_header_to_file()
    to.write_kv_data_to_file()
    to.write_tensors_to_file()
    to.close()


def test_states_of_a_gguf_file_are_those_of_the_same_weights(family, tmp_path, loaded):
    pytest.importorskip("gguf", reason="needs the optional package gguf")
    write(family("qwen2"), tmp_path / "model.gguf")
    mine, plain = loaded(tmp_path / "model.gguf"), loaded(family("qwen2"))
    assert (mine.anatomy.role, mine.anatomy.layers, mine.anatomy.width) == ("decoder", 3, 32)
    torch.testing.assert_close(states_of(mine), states_of(plain), rtol=1e-5, atol=1e-6)


@pytest.fixture
def packed(family, tmp_path):
    """Return a function that copies a Llama with its matrices changed and a quantisation in its configuration."""

    def rewrite(name="packed", change=lambda name, weight: {name: weight}, **quantisation):
        folder, tensors = shutil.copytree(family("llama"), tmp_path / name), {}
        for key, weight in load_file(folder / "model.safetensors").items():
            tensors |= change(key, weight) if key.endswith("_proj.weight") else {key: weight}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        if quantisation:
            configure(folder, quantization_config=quantisation)
        return folder

    return rewrite


def test_compressed_tensors(family, packed, loaded):
    """Integers of 8 bits times a scale for each row: with the format's library, and multiplied by hand."""
    pytest.importorskip("compressed_tensors", reason="needs the optional package compressed-tensors")

    def in_integers(name, weight):
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        return {name: (weight / scale).round().to(torch.int8), f"{name}_scale": scale}

    def by_hand(name, weight):
        whole, scale = in_integers(name, weight).values()
        return {name: whole.float() * scale}

    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False}
    how = {"quant_method": "compressed-tensors", "format": "int-quantized", "quantization_status": "compressed"}
    how |= {"ignore": [], "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}
    model = loaded(packed(change=in_integers, **how))
    torch.testing.assert_close(states_of(model), states_of(loaded(packed("by-hand", by_hand))), rtol=1e-5, atol=1e-6)
    assert model.anatomy.parameters == loaded(family("llama")).anatomy.parameters
    assert model.anatomy.role == "decoder"


def in_eighths(name, weight):
    """Pack a matrix in numbers of 8 bits, each 16 × 16 of them with a scale."""
    tiles = weight.unfold(0, 16, 16).unfold(1, 16, 16)
    scale = tiles.abs().amax(dim=(2, 3)) / 448
    over = scale.repeat_interleave(16, 0).repeat_interleave(16, 1)
    return {name: (weight / over).to(torch.float8_e4m3fn), f"{name}_scale_inv": scale}, over


FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [16, 16]}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_fp8_weights_are_multiplied_by_their_scales_or_refused(dtype, packed, loaded):
    pytest.importorskip("accelerate", reason="needs the optional package accelerate")

    def by_hand(name, weight):
        (whole, _), over = in_eighths(name, weight)[0].values(), in_eighths(name, weight)[1]
        return {name: whole.float() * over}

    plain = packed("by-hand", by_hand)
    model = loaded(packed(change=lambda *x: in_eighths(*x)[0], **FP8), dtype=dtype)
    torch.testing.assert_close(states_of(model), states_of(loaded(plain, dtype=dtype)))
    message = refused(loaded, packed("unnamed", lambda *x: in_eighths(*x)[0]))
    assert "_scale_inv" in message and "measure the original model" in message
    lacking = packed("lacking", lambda name, weight: {name: in_eighths(name, weight)[0][name]}, **FP8)
    assert "without the scales" in refused(loaded, lacking)


def test_bitnet_weights_count_though_they_are_packed(packed, loaded):
    pytest.importorskip("accelerate", reason="needs the optional package accelerate")
    from transformers import AutoModel

    def in_thirds(name, weight):
        levels = (weight / weight.abs().mean()).round().clamp(-1, 1).to(torch.uint8) + 1
        rows = levels.reshape(4, -1, levels.shape[1])
        return {name: sum(part << 2 * i for i, part in enumerate(rows)), f"{name}_scale": torch.ones(1)}

    def rolled(name, weight):
        return in_thirds(name, weight.roll(1) if "1.mlp.up" in name else weight)

    how = {"quant_method": "bitnet", "modules_to_not_convert": ["lm_head"]}
    folder = packed(change=in_thirds, **how)
    model, other = loaded(folder), loaded(packed("rolled", rolled, **how))
    assert [group for group in model.groups if model.groups[group] != other.groups[group]] == ["2"]
    with torch.inference_mode(), warnings.catch_warnings(action="ignore"):
        theirs_whole = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
        theirs = theirs_whole(input_ids=IDS, output_hidden_states=True).hidden_states
    torch.testing.assert_close(tuple(states_of(model)[:-1]), theirs[:-1])


@pytest.mark.parametrize("bits", [4, 8])
def test_bitsandbytes(bits, tmp_path, loaded):
    """Near what the packed model computes itself, of the full number of weights, and a decoder."""
    pytest.importorskip("bitsandbytes", reason="needs the optional package bitsandbytes")
    pytest.importorskip("accelerate", reason="needs the optional package accelerate")
    from transformers import AutoModel, AutoTokenizer, BitsAndBytesConfig

    base = build_family("llama", tmp_path / "base", hidden_size=64, intermediate_size=128)  # blocks of 64 numbers

    with warnings.catch_warnings(action="ignore"):
        how = BitsAndBytesConfig(load_in_4bit=True) if bits == 4 else BitsAndBytesConfig(load_in_8bit=True)
        theirs_whole = AutoModel.from_pretrained(base, quantization_config=how, dtype=torch.float32).eval()
        theirs_whole.save_pretrained(tmp_path / "packed")
        AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "packed")
        with torch.inference_mode():
            theirs = theirs_whole(input_ids=IDS, output_hidden_states=True).hidden_states
    model, plain = loaded(tmp_path / "packed"), loaded(base)
    assert (model.anatomy.role, model.anatomy.parameters) == ("decoder", plain.anatomy.parameters)
    mine, before = states_of(model)[-2], states_of(plain)[-2]
    near, far = ((x - theirs[-2]).norm() / theirs[-2].norm() for x in (mine, before))
    assert near < 0.02 < far if bits == 4 else near < 0.05
    assert not torch.equal(mine, before)


def test_packages_that_are_missing_are_named_all_at_once_before_anything_is_loaded(packed, found, monkeypatch):
    for module in ("core.imports", "models.model_folder"):
        monkeypatch.setattr(f"reporter.{module}.find_spec", lambda name: None)
    says = "optional package bitsandbytes; install it with: pip install 'layer-reporter[quant"
    assert says in refused(found, packed("bits", quant_method="bitsandbytes"))
    message = refused(found, packed("gptq", quant_method="gptq", bits=4))
    assert "gptq has GPTQ " in message and ": pip install optimum gptqmodel. Or measure" in message


def test_what_is_unpacked_has_a_fingerprint_of_its_own(packed, found, monkeypatch):
    """Numbers that an earlier version took of the packed weights keep the one without."""
    monkeypatch.setattr("reporter.models.model_folder.check_installed", lambda *_: None)
    folder = packed(quant_method="bitsandbytes")
    unpacked = found(folder).fingerprint
    monkeypatch.setattr("reporter.models.model_folder.quantised_by", lambda _: "")
    assert found(folder).fingerprint != unpacked


@pytest.mark.parametrize("name", ["llama", "bert", "gpt2"])
def test_numbers_of_a_split_model_are_those_of_one_device(name, family, tmp_path, loaded):
    """Of one in main memory and on disk, a block and a half in memory."""
    pytest.importorskip("accelerate", reason="a split model needs the optional package accelerate")
    how = {"device_map": "auto", "max_memory": {"cpu": "60KiB"}, "offload_folder": tmp_path / "disk"}
    plain, parts = loaded(family(name)), loaded(family(name), **how)
    where = set(parts.module.hf_device_map.values())
    assert "disk" in where and len(where) > 1, where
    with torch.inference_mode():
        mine, theirs = (m.run(IDS, MASK, attention=True, contributions=True) for m in (parts, plain))
        closed = [m.close(run.path[1]) for m, run in ((parts, mine), (plain, theirs))]
    assert len(mine.path) == len(theirs.path) == 4
    pairs = [(*run.path, *run.attention, run.last, run.contributions) for run in (mine, theirs)]
    torch.testing.assert_close(*pairs, rtol=0, atol=0)
    assert torch.equal(*closed) and torch.equal(parts.vocabulary, plain.vocabulary)
    assert parts.anatomy == plain.anatomy
    assert parts.checkpoint.fingerprint == plain.checkpoint.fingerprint
    if name == "gpt2":
        heads = [load_head(model.checkpoint, model, offline=True) for model in (parts, plain)]
        torch.testing.assert_close(*(head.logits(theirs.last[0]) for head in heads))
        theirs_whole, _ = PlainModel(parts.checkpoint, 3, parts.anatomy.last_hidden_state, offline=True).states(
            IDS[0].tolist()
        )
        torch.testing.assert_close(theirs_whole, [x[0] for x in theirs.path])


def test_an_offload_folder_that_cannot_be_made_is_refused(tmp_path, family, found, monkeypatch):
    monkeypatch.setattr("reporter.models.resolve.check_installed", lambda *_: None)
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        message = refused(found, family("llama"), device_map="auto", offload_folder=place)
        assert "cannot use the offload folder" in message and "file is a file; name another folder" in message
