"""Adapters that PEFT saved: merged, their states are those of PEFT's own model, which is not."""

import re
import warnings

import pytest
import torch
from models.folders import IDS, MASK, configure, refused
from oracles.families import build_family, build_language_model
from safetensors.torch import load_file, save_file

from reporter.models.head import load_head

LORA = {"r": 4, "target_modules": ["q_proj", "v_proj"]}


def moved(own):
    """Give all that an adapter may have trained random weights."""
    for weight in own.parameters():
        if weight.requires_grad:
            weight.data += 0.2 * torch.randn_like(weight)
    return own


def adapted(base, folder, head=False, kind="Lora", new_tokens=0, saved=(), **options):
    """Save an adapter with random weights; return PEFT's own model, not merged."""
    peft = pytest.importorskip("peft", reason="adapters need the optional package peft")
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

    with warnings.catch_warnings(action="ignore"), torch.random.fork_rng():
        torch.manual_seed(1)
        model = (AutoModelForCausalLM if head else AutoModel).from_pretrained(base)
        if new_tokens:
            tokenizer = AutoTokenizer.from_pretrained(base)
            tokenizer.add_tokens([f"<new{i}>" for i in range(new_tokens)])
            tokenizer.save_pretrained(folder)
            model.resize_token_embeddings(len(model.get_input_embeddings().weight) + new_tokens)
        more = (LORA if kind == "Lora" else {}) | options | ({"task_type": "CAUSAL_LM"} if head else {})
        peft_model = moved(peft.get_peft_model(model, getattr(peft, f"{kind}Config")(**more))).eval()
        peft_model.save_pretrained(folder, **dict(saved))
    return peft_model


KINDS = {
    "lora": {},
    "rslora": {"use_rslora": True},
    "dora": {"use_dora": True},
    "biases": {"bias": "all"},
    "embedding": {"target_modules": ["embed_tokens", "down_proj"]},
    "saved modules": {"modules_to_save": ["norm"]},
    "one layer": {"layers_to_transform": [1], "layers_pattern": "layers"},
    "patterns": {"rank_pattern": {"layers.0.self_attn.q_proj": 2}, "alpha_pattern": {"layers.1.self_attn.q_proj": 64}},
    "rows": {"trainable_token_indices": [7, 9]},
    "repeated layers": {"layer_replication": [[0, 2], [1, 3]]},
    "VeRA": {"kind": "Vera", "r": 4, "target_modules": ["q_proj", "v_proj"]},
    "IA3": {"kind": "IA3", "target_modules": ["k_proj", "down_proj"], "feedforward_modules": ["down_proj"]},
    "LoHa": {"kind": "LoHa", "r": 4, "target_modules": ["q_proj"]},
    "rows alone": {"kind": "TrainableTokens", "token_indices": [7, 9]},
}


@pytest.mark.parametrize("head", [False, True], ids=["base alone", "with a head"])
@pytest.mark.parametrize("name", KINDS)
def test_states_are_those_of_peft(head, name, family, tmp_path, loaded):
    base = family("qwen2" if name == "biases" else "llama")
    peft_model = adapted(base, tmp_path / "lora", head, **KINDS[name])
    model, plain = loaded(base, adapter=tmp_path / "lora"), loaded(base)
    with torch.inference_mode():
        mine, without = (m.run(IDS, MASK) for m in (model, plain))
        theirs = peft_model(input_ids=IDS, output_hidden_states=True).hidden_states
    torch.testing.assert_close((*mine.path[:-1], mine.final), theirs, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(mine.last, without.last, atol=1e-3)
    if name != "repeated layers":
        assert model.anatomy.parameters == plain.anatomy.parameters


NEW = torch.tensor([[7, 8, 30, 31, 32, 35, 9]])
HEADS = {
    "new tokens": {"new_tokens": 6},
    "new tokens, trained": {"new_tokens": 6, "modules_to_save": ["embed_tokens", "lm_head"]},
    "the embedding alone": {"modules_to_save": ["embed_tokens"]},
    "a head alone": {"target_modules": ["lm_head"]},
    "an embedding": {"target_modules": ["embed_tokens"]},
    "rows": {"trainable_token_indices": [7, 9]},
}


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("name", HEADS)
def test_states_and_logits_are_those_of_peft(name, tied, tmp_path, loaded):
    """PEFT changes an embedding and not the head that is tied to it, or the other way round."""
    (tmp_path / "base").mkdir()
    base = build_language_model("llama", tmp_path / "base", tie_word_embeddings=tied)
    peft_model = adapted(base, tmp_path / "lora", True, **HEADS[name])
    model, ids = loaded(base, adapter=tmp_path / "lora"), NEW if "new" in name else IDS
    with torch.inference_mode():
        mine, theirs = model.run(ids, torch.ones_like(ids)), peft_model(input_ids=ids, output_hidden_states=True)
        logits = load_head(model.checkpoint, model, offline=True).logits(mine.last[0])
    torch.testing.assert_close((*mine.path[:-1], mine.final), theirs.hidden_states, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(logits, theirs.logits[0], rtol=1e-4, atol=1e-4)
    changed = {group for group, _ in loaded(base).groups.items() ^ model.groups.items()}
    assert ("embeddings" in changed) == ("head" not in name)
    assert "head" in changed or "a head" not in name
    assert model.tokenizer.convert_tokens_to_ids("<new5>") == (32 if "new" in name else 3)


def test_adapters_of_experts_load_under_their_old_names(tmp_path, loaded):
    """Before transformers fused experts, each was a module of its own."""
    (tmp_path / "base").mkdir()
    base, lora = build_language_model("mixtral", tmp_path / "base"), tmp_path / "lora"
    adapted(base, lora, True, target_modules=["q_proj"])
    given, file = load_file(base / "model.safetensors"), lora / "adapter_model.safetensors"
    parts, by_hand = load_file(file), {}
    for name, weight in given.items():
        inside = f"base_model.model.{name.removesuffix('.weight')}"
        if re.search(r"experts\.\d+\.w\d", name):
            parts[f"{inside}.lora_A.weight"] = torch.randn(4, weight.shape[1])
            parts[f"{inside}.lora_B.weight"] = torch.randn(len(weight), 4)
        a, b = (parts.get(f"{inside}.lora_{half}.weight") for half in "AB")
        by_hand[name] = weight if a is None else weight + 8 / 4 * b @ a
    save_file(parts, file, metadata={"format": "pt"})
    configure(lora, "adapter_config.json", target_modules=["q_proj", "w1", "w2", "w3"])
    model = loaded(base, adapter=lora)
    save_file(by_hand, base / "model.safetensors", metadata={"format": "pt"})
    with torch.inference_mode():
        torch.testing.assert_close(*(m.run(IDS, MASK).path for m in (model, loaded(base))), rtol=1e-4, atol=1e-5)


def test_the_identity_covers_base_and_adapter(family, tmp_path, found):
    adapted(family("llama"), tmp_path / "one")
    adapted(family("llama"), tmp_path / "two", r=2)
    options = ({}, {"adapter": tmp_path / "one"}, {"adapter": tmp_path / "two"})
    prints = [found(family(base), **more).fingerprint for base in ("llama", "mistral") for more in options]
    assert len(set(prints)) == len(prints)
    assert found(family("llama"), adapter=tmp_path / "one").location.endswith(" + one")


def test_an_adapter_that_cannot_be_merged_is_refused(family, tmp_path, found, loaded):
    lora, llama, deeper = tmp_path / "lora", family("llama"), tmp_path / "deeper"
    adapted(llama, lora)
    assert "as `path`, and this folder as `adapter`" in refused(found, lora)
    assert "fits this base" in refused(loaded, family("gpt2"), adapter=lora)
    assert "has no adapter_config.json" in refused(loaded, llama, adapter=family("gpt2"))
    adapted(build_family("llama", tmp_path / "base", num_hidden_layers=4), deeper)
    assert "modules that this base lacks, such as layers.3" in refused(loaded, llama, adapter=deeper)
    configure(lora, "adapter_config.json", r=8)
    assert "cannot merge the adapter" in refused(loaded, llama, adapter=lora)
    (lora / "adapter_model.safetensors").write_bytes(b"x")
    assert "cannot read the adapter" in refused(loaded, llama, adapter=lora)


NO_WEIGHTS = [("PromptTuning", {"num_virtual_tokens": 4}), ("PrefixTuning", {"num_virtual_tokens": 4})]
NO_WEIGHTS += [("Lora", {"alora_invocation_tokens": [3]})]


@pytest.mark.parametrize("kind, options", NO_WEIGHTS)
def test_an_adapter_that_is_no_change_of_weights_is_named(kind, options, language_model, tmp_path, loaded):
    adapted(language_model("llama"), tmp_path / "lora", True, kind=kind, **options)
    assert "no weights stand for it" in refused(loaded, language_model("llama"), adapter=tmp_path / "lora")


def test_an_adapter_in_the_folder_of_a_model_is_merged_if_it_is_named(copy, family, tmp_path, loaded):
    """Transformers adds it by itself, where PEFT is installed."""
    both, lora = copy("llama"), tmp_path / "lora"
    adapted(both, lora)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (both / name).write_bytes((lora / name).read_bytes())
    assert "write this folder as `adapter`, too" in refused(loaded, both)
    mine, theirs = loaded(both, adapter=both), loaded(family("llama"), adapter=lora)
    with torch.inference_mode():
        assert torch.equal(*(model.run(IDS, MASK).last for model in (mine, theirs)))
    (both / "model.safetensors").unlink()
    assert "as `path`, and this folder as `adapter`" in refused(loaded, both)


def test_tokens_without_an_embedding_are_refused_and_the_same_tokenizer_is_that_of_the_base(family, tmp_path, loaded):
    lora, llama = tmp_path / "lora", family("llama")
    adapted(llama, lora, new_tokens=6, saved={"save_embedding_layers": False})
    message = refused(loaded, llama, adapter=lora)
    assert "new tokens such as '<new" in message and "`save_embedding_layers=True`" in message
    plain = loaded(llama)
    plain.tokenizer.pad_token = "</s>"
    plain.tokenizer.chat_template = "{{ messages[0].content }}"
    plain.tokenizer.save_pretrained(lora)
    model = loaded(llama, adapter=lora)
    assert model.tokenizer_hash == loaded(llama).tokenizer_hash and model.tokenizer.chat_template
