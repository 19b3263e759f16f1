"""Adapters: merged as PEFT itself computes them, part of the identity, and refused where they are not of this base."""

import logging
import shutil
import warnings

import pytest
import torch
from models.folders import configure
from oracles.families import build_family

from reporter.core.errors import ReporterError
from reporter.models import weights as adapter

peft = pytest.importorskip("peft", reason="adapters need the optional package peft")

IDS = torch.tensor([[7, 8, 9, 10, 11]])


def adapted(base, folder, head=False, **options):
    """Save an adapter with random weights; return PEFT's own model, not merged."""
    from transformers import AutoModel, AutoModelForCausalLM

    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        model = (AutoModelForCausalLM if head else AutoModel).from_pretrained(base)
        more = {"r": 4, "target_modules": ["q_proj", "v_proj"], "init_lora_weights": False} | options
        more |= {"task_type": "CAUSAL_LM"} if head else {}
        own = peft.get_peft_model(model, peft.LoraConfig(**more)).eval()
        own.save_pretrained(folder)
    return own


@pytest.fixture
def lora(family, tmp_path):
    """Return the folder of an adapter for a Llama."""
    adapted(family("llama"), tmp_path / "lora")
    return tmp_path / "lora"


@pytest.mark.parametrize("head", [False, True], ids=["base alone", "with a head"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dora": True},
        {"target_modules": ["embed_tokens", "down_proj"]},
        {"modules_to_save": ["norm"]},
        {"layers_to_transform": [1], "layers_pattern": "layers"},
        {"rank_pattern": {"layers.0.self_attn.q_proj": 2}, "alpha_pattern": {"layers.1.self_attn.q_proj": 64}},
    ],
    ids=["lora", "dora", "embedding", "saved modules", "one layer", "patterns"],
)
def test_states_are_those_of_peft(head, options, family, tmp_path, loaded):
    own = adapted(family("llama"), tmp_path / "lora", head, **options)
    model, plain = loaded(family("llama"), adapter=tmp_path / "lora"), loaded(family("llama"))
    with torch.inference_mode():
        mine, without = (m.run(IDS, torch.ones_like(IDS)) for m in (model, plain))
        theirs = own(input_ids=IDS, output_hidden_states=True).hidden_states
    for ours, expected in zip((*mine.path[:-1], mine.final), theirs, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(mine.last, without.last, atol=1e-3)
    assert model.anatomy.parameters == plain.anatomy.parameters


def test_the_identity_covers_base_and_adapter(family, tmp_path, found):
    adapted(family("llama"), tmp_path / "one")
    adapted(family("llama"), tmp_path / "two", r=2)
    options = ({}, {"adapter": tmp_path / "one"}, {"adapter": tmp_path / "two"})
    prints = [found(family(base), **more).fingerprint for base in ("llama", "mistral") for more in options]
    assert len(set(prints)) == len(prints)
    assert found(family("llama"), adapter=tmp_path / "one").location.endswith(" + one")


def test_missing_kernels_are_not_reported(family, lora, loaded, monkeypatch, caplog):
    """PEFT imports bitsandbytes where it is installed, which then complains of this machine."""
    merged = adapter.merged

    def complaining(*args, **options):
        logging.getLogger("bitsandbytes.backends").error("no faster kernel")
        return merged(*args, **options)

    monkeypatch.setattr(adapter, "merged", complaining)
    loaded(family("llama"), adapter=lora)
    assert "no faster kernel" not in caplog.text


def test_what_cannot_be_merged_is_refused(family, lora, found, loaded):
    with pytest.raises(ReporterError, match=r"is a PEFT adapter.*as `path`, and this folder as `adapter`"):
        found(lora)
    for base, folder, says in (
        ("gpt2", lora, r"no weight of the adapter .* fits this base"),
        ("llama", family("gpt2"), r"has no adapter_config\.json"),
    ):
        with pytest.raises(ReporterError, match=says):
            loaded(family(base), adapter=folder)
    configure(lora, "adapter_config.json", r=8)
    with pytest.raises(ReporterError, match=r"cannot merge the adapter .* into this base"):
        loaded(family("llama"), adapter=lora)
    (lora / "adapter_model.safetensors").write_bytes(b"x")
    with pytest.raises(ReporterError, match="cannot read the adapter"):
        loaded(family("llama"), adapter=lora)


def test_an_adapter_for_more_layers_is_refused(family, tmp_path, loaded):
    deeper = build_family("llama", tmp_path / "deeper", num_hidden_layers=4)
    adapted(deeper, tmp_path / "lora")
    shutil.rmtree(deeper)
    with pytest.raises(ReporterError, match=r"modules that this base lacks, such as layers\.3"):
        loaded(family("llama"), adapter=tmp_path / "lora")
