"""Quantised weights: measured as the numbers that they stand for, whatever a kernel makes of a batch's shape."""

import warnings

import pytest
import torch
from models.folders import configure
from oracles.families import build_family
from safetensors.torch import load_file, save_file

from reporter.core.errors import ReporterError
from reporter.models.model_folder import quantised_by

IDS = torch.tensor([[7, 8, 9, 10, 11, 12, 7, 9]])


def states(model):
    with torch.inference_mode():
        return model.run(IDS, torch.ones_like(IDS)).path


@pytest.fixture
def packed(family, tmp_path):
    """Return a function that copies a Llama with its matrices changed and a quantisation in its configuration."""

    def rewrite(name="packed", change=lambda name, weight: {name: weight}, **quantisation):
        source, folder, tensors = family("llama"), tmp_path / name, {}
        folder.mkdir()
        for file in source.glob("*.json"):
            (folder / file.name).write_bytes(file.read_bytes())
        for key, weight in load_file(str(source / "model.safetensors")).items():
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
    model = loaded(
        packed(
            change=in_integers,
            quant_method="compressed-tensors",
            format="int-quantized",
            quantization_status="compressed",
            ignore=[],
            config_groups={"group_0": {"targets": ["Linear"], "weights": weights}},
        )
    )
    for mine, expected in zip(states(model), states(loaded(packed("by-hand", by_hand))), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-6)
    assert model.anatomy.parameters == loaded(family("llama")).anatomy.parameters
    assert model.anatomy.role == "decoder"


@pytest.mark.parametrize("bits", [4, 8])
def test_bitsandbytes(bits, tmp_path, loaded):
    """Near what the packed model computes itself, of the full number of weights, and a decoder."""
    pytest.importorskip("bitsandbytes", reason="needs the optional package bitsandbytes")
    pytest.importorskip("accelerate", reason="needs the optional package accelerate")
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


def test_packages_that_are_missing_are_named_all_at_once_before_anything_is_loaded(packed, found, monkeypatch):
    monkeypatch.setattr("reporter.core.imports.find_spec", lambda name: None)
    with pytest.raises(
        ReporterError, match=r"optional package bitsandbytes; install it with: pip install 'layer-reporter\[quant"
    ):
        found(packed("bits", quant_method="bitsandbytes"))
    for method, installed, lacking in (
        ("gptq", "", "optimum gptqmodel"),
        ("gptq", "optimum", "gptqmodel"),
        ("awq", "accelerate", "gptqmodel"),
    ):
        folder = packed(f"{method}-{installed}", quant_method=method, bits=4)
        monkeypatch.setattr("reporter.models.model_folder.find_spec", lambda name, it=installed: name == it or None)
        with pytest.raises(
            ReporterError, match=rf"{folder.name} has {method.upper()} .*: pip install {lacking}\. Or measure"
        ):
            found(folder)


def test_what_is_unpacked_has_a_fingerprint_of_its_own(family, packed, found, monkeypatch):
    """Numbers that an earlier version took of the packed weights keep the one without."""
    monkeypatch.setattr("reporter.models.model_folder.check_installed", lambda *_: None)
    folder = packed()
    plain = found(folder).fingerprint
    configure(folder, quantization_config={"quant_method": "bitsandbytes"})
    unpacked = found(folder).fingerprint
    monkeypatch.setattr("reporter.models.model_folder.quantised_by", lambda _: "")
    assert len({plain, unpacked, found(folder).fingerprint}) == 3
    (folder / "config.json").write_bytes((family("llama") / "config.json").read_bytes())
    assert quantised_by(folder) == ""
