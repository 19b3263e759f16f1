"""Adapters: merged as PEFT itself computes them, part of the identity, and refused where they are not of this base."""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from reporter.core.errors import ReporterError
from reporter.models import weights as adapter
from reporter.models.checkpoint import Checkpoint
from reporter.models.load import LoadedModel

peft = pytest.importorskip("peft", reason="adapters need the optional package peft")

Family = Callable[[str], Path]
Load = Callable[..., LoadedModel]
IDS = torch.tensor([[7, 8, 9, 10, 11]])


def adapted(base: Path, folder: Path, head: bool = False, **options: Any) -> Any:
    """Save an adapter with random weights; return PEFT's own model, not merged."""
    from transformers import AutoModel, AutoModelForCausalLM

    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        model = (AutoModelForCausalLM if head else AutoModel).from_pretrained(base)
        more = {"r": 4, "target_modules": ["q_proj", "v_proj"], "init_lora_weights": False} | options
        if head:
            more["task_type"] = "CAUSAL_LM"
        found = peft.get_peft_model(model, peft.LoraConfig(**more)).eval()
        found.save_pretrained(folder)
    return found


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
def test_states_are_those_of_peft(
    head: bool, options: dict[str, Any], family: Family, tmp_path: Path, loaded: Load
) -> None:
    own = adapted(family("llama"), tmp_path / "lora", head, **options)
    model = loaded(family("llama"), adapter=tmp_path / "lora")
    plain = loaded(family("llama"))
    with torch.inference_mode():
        mine = model.run(IDS, torch.ones_like(IDS))
        theirs = own(input_ids=IDS, output_hidden_states=True).hidden_states
        without = plain.run(IDS, torch.ones_like(IDS))
    for ours, expected in zip(mine.path[:-1], theirs[:-1], strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine.final, theirs[-1], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(mine.last, without.last, atol=1e-3)
    assert model.anatomy.parameters == plain.anatomy.parameters


def test_the_identity_covers_base_and_adapter(family: Family, tmp_path: Path, found: Callable[..., Checkpoint]) -> None:
    adapted(family("llama"), tmp_path / "one")
    adapted(family("llama"), tmp_path / "two", r=2)
    prints = {
        (base, adapter): found(family(base), **({"adapter": tmp_path / adapter} if adapter else {})).fingerprint
        for base in ("llama", "mistral")
        for adapter in ("", "one", "two")
    }
    assert len(set(prints.values())) == len(prints)
    assert found(family("llama"), adapter=tmp_path / "one").location.endswith(" + one")


def test_faster_kernels_that_are_missing_are_no_concern(
    family: Family, tmp_path: Path, loaded: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PEFT imports bitsandbytes where it is installed, which then complains of this machine."""
    adapted(family("llama"), tmp_path / "lora")
    own = adapter.merged

    def complaining(*args: Any, **options: Any) -> Any:
        logging.getLogger("bitsandbytes.backends").error("no faster kernel")
        return own(*args, **options)

    monkeypatch.setattr(adapter, "merged", complaining)
    loaded(family("llama"), adapter=tmp_path / "lora")
    assert "no faster kernel" not in caplog.text


def test_an_adapter_as_a_model_says_what_to_write(
    family: Family, tmp_path: Path, found: Callable[..., Checkpoint]
) -> None:
    adapted(family("llama"), tmp_path / "lora")
    with pytest.raises(ReporterError, match=r"is an adapter.*as `path` and this one as `adapter`"):
        found(tmp_path / "lora")


def test_what_cannot_be_merged_is_refused(family: Family, tmp_path: Path, loaded: Load) -> None:
    folder = tmp_path / "lora"
    adapted(family("llama"), folder)
    with pytest.raises(ReporterError, match=r"no weight of the adapter .* fits this base"):
        loaded(family("gpt2"), adapter=folder)
    with pytest.raises(ReporterError, match=r"has no adapter_config\.json"):
        loaded(family("llama"), adapter=family("gpt2"))
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | {"r": 8}))
    with pytest.raises(ReporterError, match="cannot be merged into this base"):
        loaded(family("llama"), adapter=folder)
    (folder / "adapter_model.safetensors").write_bytes(b"x")
    with pytest.raises(ReporterError, match="cannot be read"):
        loaded(family("llama"), adapter=folder)


def test_an_adapter_for_more_layers(family: Family, tmp_path: Path, loaded: Load) -> None:
    from oracles.families import build_family

    deeper = build_family("llama", tmp_path / "deeper", num_hidden_layers=4)
    adapted(deeper, tmp_path / "lora")
    shutil.rmtree(deeper)
    with pytest.raises(ReporterError, match=r"modules that this base lacks, such as layers\.3"):
        loaded(family("llama"), adapter=tmp_path / "lora")
