"""Language-model heads that are missing, incomplete or not what they seem; those of all families: test_families."""

from dataclasses import replace

import pytest
import torch
from models.folders import change_weights
from oracles.families import build_family, build_language_model

from reporter.core.errors import ReporterError
from reporter.models.head import Head, load_head


def head_of(model):
    return load_head(model.checkpoint, model, offline=True)


@pytest.mark.parametrize("name", ["bert", "albert", "llama", "gpt-j"])
def test_a_model_saved_without_its_head_is_refused(name, tmp_path, loaded):
    model = loaded(build_family(name, tmp_path / "m", tie_word_embeddings=False))
    with pytest.raises(ReporterError, match=r"^model 'm': .*no language-model head.* lack \w") as error:
        head_of(model)
    assert "\n" not in str(error.value)


def test_a_head_that_lacks_a_part_names_it(tmp_path, loaded):
    folder = build_language_model("bert", tmp_path / "m")
    lost = "cls.predictions.transform.dense.weight"
    change_weights(folder, lambda weights: {name: weight for name, weight in weights.items() if name != lost})
    with pytest.raises(ReporterError, match=r"lack cls\.predictions\.transform\.dense\.weight$"):
        head_of(loaded(folder))


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_an_encoder_of_a_pair_has_no_head(name, shared):
    with pytest.raises(ReporterError, match=r"reads the decoder, .*write `part: decoder`"):
        head_of(shared(name))


def test_a_family_without_a_head_of_that_kind_is_refused(shared):
    model = shared("gpt2")
    with pytest.raises(ReporterError, match="no masked language model for the model type gpt2"):
        head_of(replace(model, anatomy=replace(model.anatomy, role="encoder")))


def test_a_head_is_loaded_in_silence_and_in_the_models_precision(language_model, loaded, capfd):
    for name, dtype in (("bert", torch.float32), ("llama", torch.bfloat16)):
        model = loaded(language_model(name), dtype=str(dtype).removeprefix("torch."))
        capfd.readouterr()
        head = head_of(model)
        assert capfd.readouterr() == ("", "")
        with torch.inference_mode():
            logits = head.logits(torch.zeros(3, 32))
        assert (logits.shape, logits.dtype) == ((3, model.anatomy.vocabulary_size), dtype)


def test_a_head_that_breaks_and_one_that_is_not_what_it_seems_are_refused(shared, monkeypatch):
    from transformers import LlamaForCausalLM

    model = shared("llama")
    with monkeypatch.context() as patch:
        patch.setattr(LlamaForCausalLM, "forward", lambda self, input_ids: 1 / 0)
        with pytest.raises(ReporterError, match=r"head fails on a short test input.*ZeroDivisionError"):
            head_of(model)
    logits = Head.logits
    monkeypatch.setattr(Head, "logits", lambda self, states: logits(self, states) * 1.01)
    with pytest.raises(ReporterError, match="logits of the language-model head differ"):
        head_of(model)
