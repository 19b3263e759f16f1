"""Heads: the logits of every family are those of its own language model, loaded apart."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from oracles.families import FAMILIES, build_family, spread
from safetensors.torch import load_file, save_file

from reporter.core.errors import ReporterError
from reporter.models.head import Head, load_head
from reporter.models.load import LoadedModel

Load = Callable[..., LoadedModel]
HEADLESS = {"t5", "mt5", "bart"}
LENGTHS = (12, 3, 8)


def kind_of(name: str) -> Any:
    import transformers

    return transformers.AutoModelForCausalLM if FAMILIES[name][2] == "decoder" else transformers.AutoModelForMaskedLM


def with_head(name: str, folder: Path, **more: Any) -> Path:
    """Save a small random language model of a family, beside the tokenizer that ``build_family`` wrote."""
    from transformers import AutoConfig

    build_family(name, folder, **more)
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        model = kind_of(name).from_config(AutoConfig.from_pretrained(folder))
        spread(model)
        model.save_pretrained(folder)
    return folder


def head_of(model: LoadedModel) -> Head:
    return load_head(model.checkpoint, model, offline=True)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(6, 26, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(max(LENGTHS))[None] < torch.tensor(LENGTHS)[:, None]).long()
    return torch.where(mask.bool(), ids, 1), mask


def assert_logits_are_the_models_own(name: str, folder: Path, model: LoadedModel) -> None:
    head, (ids, mask) = head_of(model), batch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = kind_of(name).from_pretrained(folder).eval()
    with torch.inference_mode():
        run = model.run(ids, mask)
        states = run.path[-1] if run.final is None else run.final
        mine = head.logits(states[mask.bool()])
        lens = head.logits(model.close(run.path[-1])[mask.bool()])
        theirs = own(input_ids=ids, attention_mask=mask).logits[mask.bool()]
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(lens, theirs, rtol=1e-4, atol=1e-4)
    assert head.kind == ("causal" if FAMILIES[name][2] == "decoder" else "masked")
    assert head.mask_id == (4 if head.kind == "masked" else None)


@pytest.mark.parametrize("name", sorted(FAMILIES.keys() - HEADLESS))
def test_logits_are_the_language_models_own(name: str, tmp_path: Path, loaded: Load) -> None:
    folder = with_head(name, tmp_path / "m")
    assert_logits_are_the_models_own(name, folder, loaded(folder))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gemma2", {"final_logit_softcapping": 0.5}),
        ("cohere", {"logit_scale": 3.0}),
        ("granite", {"logits_scaling": 0.2}),
        ("llama", {"tie_word_embeddings": True}),
        ("llama", {"tie_word_embeddings": False}),
        ("gpt2", {"tie_word_embeddings": False}),
        ("bert", {"tie_word_embeddings": False}),
        ("roberta", {"tie_word_embeddings": False}),
    ],
)
def test_what_follows_the_last_matrix(name: str, options: dict[str, Any], tmp_path: Path, loaded: Load) -> None:
    folder = with_head(name, tmp_path / "m", **options)
    assert_logits_are_the_models_own(name, folder, loaded(folder))


@pytest.mark.parametrize("name", ["bert", "distilbert", "albert", "llama", "gpt-j", "modernbert", "deberta-v2"])
def test_a_model_saved_without_its_head(name: str, tmp_path: Path, loaded: Load) -> None:
    model = loaded(build_family(name, tmp_path / "m", tie_word_embeddings=False))
    with pytest.raises(
        ReporterError, match=r"^model 'm': it was saved without a language-model head: its files lack \w"
    ) as e:
        head_of(model)
    assert "\n" not in str(e.value)


def test_a_tied_head_needs_no_weights_of_its_own(tmp_path: Path, loaded: Load) -> None:
    folder = build_family("gpt2", tmp_path / "m")
    assert_logits_are_the_models_own("gpt2", folder, loaded(folder))


def test_a_half_of_a_head(tmp_path: Path, loaded: Load) -> None:
    folder = with_head("bert", tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    del weights["cls.predictions.transform.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ReporterError, match=r"lack cls\.predictions\.transform\.dense\.weight$"):
        head_of(loaded(folder))


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_an_encoder_of_a_pair_has_no_head(name: str, tmp_path: Path, loaded: Load) -> None:
    model = loaded(build_family(name, tmp_path / "m"))
    with pytest.raises(ReporterError, match="reads the states of its decoder"):
        head_of(model)


def test_a_family_without_such_a_head(tmp_path: Path, loaded: Load) -> None:
    model = loaded(with_head("gpt2", tmp_path / "m"))
    turned = replace(model, anatomy=replace(model.anatomy, role="encoder"))
    with pytest.raises(ReporterError, match="transformers has no masked language model for gpt2"):
        head_of(turned)


@pytest.mark.parametrize("name", ["bert", "gpt2", "albert", "opt"])
def test_the_weights_are_shared_and_the_model_is_left_alone(name: str, tmp_path: Path, loaded: Load) -> None:
    model = loaded(with_head(name, tmp_path / "m"))
    with torch.inference_mode():
        before = model.states(*batch())
        head = head_of(model)
        for a, b in zip(before, model.states(*batch()), strict=True):
            assert torch.equal(a, b)
    mine = {p.data_ptr() for p in model.module.parameters()}
    theirs = {p.data_ptr(): p for p in head._model.parameters()}
    assert model.module.get_input_embeddings().weight.data_ptr() in theirs
    apart = sum(p.numel() for pointer, p in theirs.items() if pointer not in mine)
    assert apart < 32 * 32 + 300  # a transform of BERT, and a bias; no block and no vocabulary


def test_nothing_is_printed_and_the_graph_is_left_out(
    tmp_path: Path, loaded: Load, capfd: pytest.CaptureFixture[str]
) -> None:
    model = loaded(with_head("bert", tmp_path / "m"))
    capfd.readouterr()
    head = head_of(model)
    assert capfd.readouterr() == ("", "")
    assert head.logits(torch.zeros(3, 32)).shape == (3, model.anatomy.vocabulary_size)


def test_a_head_in_bfloat16(tmp_path: Path, loaded: Load) -> None:
    model = loaded(with_head("llama", tmp_path / "m"), dtype="bfloat16")
    with torch.inference_mode():
        assert head_of(model).logits(torch.ones(3, 32)).dtype == torch.bfloat16


def test_a_head_that_breaks(tmp_path: Path, loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import LlamaForCausalLM

    model = loaded(with_head("llama", tmp_path / "m"))
    monkeypatch.setattr(LlamaForCausalLM, "forward", lambda self, input_ids: 1 / 0)
    with pytest.raises(ReporterError, match="head cannot be run on a few tokens: ZeroDivisionError"):
        head_of(model)


def test_a_head_that_is_not_what_it_seems(tmp_path: Path, loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(with_head("llama", tmp_path / "m"))
    logits = Head.logits
    monkeypatch.setattr(Head, "logits", lambda self, states: logits(self, states) * 1.01)
    with pytest.raises(ReporterError, match="its head gives other logits than its language model as a whole"):
        head_of(model)
