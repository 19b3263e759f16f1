"""Quantised weights: measured as the numbers that they stand for, whatever a kernel makes of a batch's shape."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from reporter.core.errors import ReporterError
from reporter.models.checkpoint import Checkpoint
from reporter.models.load import LoadedModel
from reporter.models.model_folder import quantised_by

Family = Callable[[str], Path]
Load = Callable[..., LoadedModel]
IDS = torch.tensor([[7, 8, 9, 10, 11, 12, 7, 9]])


def states(model: LoadedModel) -> list[torch.Tensor]:
    with torch.inference_mode():
        return model.run(IDS, torch.ones_like(IDS)).path


def rewritten(
    source: Path, folder: Path, change: Callable[[str, torch.Tensor], dict[str, torch.Tensor]]
) -> dict[str, Any]:
    """Copy a model with its matrices changed; return its configuration."""
    folder.mkdir()
    for file in source.iterdir():
        if file.suffix == ".json":
            (folder / file.name).write_bytes(file.read_bytes())
    tensors: dict[str, torch.Tensor] = {}
    for name, weight in load_file(str(source / "model.safetensors")).items():
        tensors |= change(name, weight) if name.endswith("_proj.weight") else {name: weight}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return dict(json.loads((folder / "config.json").read_text()))


def test_compressed_tensors(family: Family, tmp_path: Path, loaded: Load) -> None:
    """Integers of 8 bits times a scale for each row: with the format's library, and multiplied by hand."""
    pytest.importorskip("compressed_tensors", reason="needs the optional package compressed-tensors")

    def packed(name: str, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        return {name: (weight / scale).round().to(torch.int8), f"{name}_scale": scale}

    def by_hand(name: str, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        whole, scale = packed(name, weight).values()
        return {name: whole.float() * scale}

    config = rewritten(family("llama"), tmp_path / "packed", packed)
    rewritten(family("llama"), tmp_path / "by-hand", by_hand)
    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False}
    config["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "ignore": [],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }
    (tmp_path / "packed" / "config.json").write_text(json.dumps(config))
    model = loaded(tmp_path / "packed")
    for mine, expected in zip(states(model), states(loaded(tmp_path / "by-hand")), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-6)
    assert model.anatomy.parameters == loaded(family("llama")).anatomy.parameters
    assert model.anatomy.role == "decoder"


@pytest.mark.parametrize("bits", [4, 8])
def test_bitsandbytes(bits: int, tmp_path: Path, loaded: Load) -> None:
    """Near what the packed model computes itself, of the full number of weights, and a decoder."""
    pytest.importorskip("bitsandbytes", reason="needs the optional package bitsandbytes")
    pytest.importorskip("accelerate", reason="needs the optional package accelerate")
    from oracles.families import build_family
    from transformers import AutoModel, AutoTokenizer, BitsAndBytesConfig

    base = build_family("llama", tmp_path / "base", hidden_size=64, intermediate_size=128)  # blocks of 64 numbers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        how = BitsAndBytesConfig(load_in_4bit=True) if bits == 4 else BitsAndBytesConfig(load_in_8bit=True)
        own = AutoModel.from_pretrained(base, quantization_config=how, dtype=torch.float32).eval()
        own.save_pretrained(tmp_path / "packed")
        AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "packed")
        with torch.inference_mode():
            theirs = own(input_ids=IDS, output_hidden_states=True).hidden_states
    model, plain = loaded(tmp_path / "packed"), loaded(base)
    assert (model.anatomy.role, model.anatomy.parameters) == ("decoder", plain.anatomy.parameters)
    mine, before = states(model)[-2], states(plain)[-2]
    near, far = ((x - theirs[-2]).norm() / theirs[-2].norm() for x in (mine, before))
    assert near < 0.02 < far if bits == 4 else near < 0.05
    assert not torch.equal(mine, before)


def test_a_package_that_is_missing(
    family: Family, tmp_path: Path, found: Callable[..., Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = rewritten(family("llama"), tmp_path / "packed", lambda name, weight: {name: weight})
    config["quantization_config"] = {"quant_method": "bitsandbytes"}
    (tmp_path / "packed" / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("reporter.core.imports.find_spec", lambda name: None)
    with pytest.raises(ReporterError, match=r"needs the optional package bitsandbytes: pip install 'reporter\[quant"):
        found(tmp_path / "packed")


@pytest.mark.parametrize(
    ("method", "there", "lacking"),
    [("gptq", "", "optimum gptqmodel"), ("gptq", "optimum", "gptqmodel"), ("awq", "accelerate", "gptqmodel")],
)
def test_a_library_that_is_missing_where_nothing_can_unpack(
    method: str,
    there: str,
    lacking: str,
    family: Family,
    tmp_path: Path,
    found: Callable[..., Checkpoint],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All packages at once, before anything is loaded, and what else can be done."""
    config = rewritten(family("llama"), tmp_path / "packed", lambda name, weight: {name: weight})
    config["quantization_config"] = {"quant_method": method, "bits": 4}
    (tmp_path / "packed" / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("reporter.models.model_folder.find_spec", lambda name: name == there or None)
    with pytest.raises(ReporterError, match=rf"packed has weights that {method.upper()} .*: pip install {lacking}; or"):
        found(tmp_path / "packed")


def test_what_is_unpacked_has_a_fingerprint_of_its_own(
    family: Family, tmp_path: Path, found: Callable[..., Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that an earlier version took of the packed weights stand under the one without."""
    monkeypatch.setattr("reporter.models.model_folder.check_installed", lambda *_: None)
    folder = tmp_path / "packed"
    config = rewritten(family("llama"), folder, lambda name, weight: {name: weight})
    plain = found(folder).fingerprint
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "bitsandbytes"}}))
    packed = found(folder).fingerprint
    monkeypatch.setattr("reporter.models.model_folder.quantised_by", lambda _: "")
    assert len({plain, packed, found(folder).fingerprint}) == 3
    (folder / "config.json").write_bytes((family("llama") / "config.json").read_bytes())
    assert quantised_by(folder) == ""
