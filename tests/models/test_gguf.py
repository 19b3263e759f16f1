"""A GGUF file, written here tensor by tensor, against the same weights in safetensors."""

import json

import pytest
import torch
from safetensors.numpy import load_file

IDS = torch.tensor([[7, 8, 9, 10, 11, 12, 7, 9]])
NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    **{f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"},
    "self_attn.o_proj": "attn_output",
    **{f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
}


def write(folder, file):
    """Write a Qwen2 model as llama.cpp names its parts, with a tokenizer of single characters."""
    import gguf

    config = json.loads((folder / "config.json").read_text())
    to = gguf.GGUFWriter(str(file), "qwen2")
    to.add_block_count(config["num_hidden_layers"])
    to.add_context_length(config["max_position_embeddings"])
    to.add_embedding_length(config["hidden_size"])
    to.add_feed_forward_length(config["intermediate_size"])
    to.add_head_count(config["num_attention_heads"])
    to.add_head_count_kv(config["num_key_value_heads"])
    to.add_layer_norm_rms_eps(config["rms_norm_eps"])
    to.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    to.add_vocab_size(config["vocab_size"])
    to.add_tokenizer_model("gpt2")
    to.add_token_list(["<|endoftext|>", "ab", *(chr(97 + i) for i in range(config["vocab_size"] - 2))])
    to.add_token_types([gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (config["vocab_size"] - 1))
    to.add_token_merges(["a b"])
    to.add_eos_token_id(0)
    for name, weight in load_file(folder / "model.safetensors").items():
        part, _, kind = name.rpartition(".")
        layer, _, inside = part.removeprefix("layers.").partition(".") if part.startswith("layers.") else ("", "", part)
        to.add_tensor((f"blk.{layer}." if layer else "") + f"{NAMES[inside]}.{kind}", weight)
    to.write_header_to_file()
    to.write_kv_data_to_file()
    to.write_tensors_to_file()
    to.close()


def test_states_are_those_of_the_same_weights(family, tmp_path, loaded):
    pytest.importorskip("gguf", reason="needs the optional package gguf")
    write(family("qwen2"), tmp_path / "model.gguf")
    mine, plain = loaded(tmp_path / "model.gguf"), loaded(family("qwen2"))
    assert (mine.anatomy.role, mine.anatomy.layers, mine.anatomy.width) == ("decoder", 3, 32)
    with torch.inference_mode():
        paths = [model.run(IDS, torch.ones_like(IDS)).path for model in (mine, plain)]
    for a, b in zip(*paths, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
