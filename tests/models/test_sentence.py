"""What a sentence encoder's own pipeline makes of states, against sums by hand; sentence-transformers 6.2 agrees."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from reporter.core.errors import ReporterError
from reporter.models.sentence import ReadingSettings, read_pipeline, unused_settings

STATES = torch.tensor(np.random.default_rng(0).standard_normal((5, 4)), dtype=torch.float32)


def write(folder, modules=("Transformer", "Pooling"), pooling=None, settings=None, **sentence):
    named = [{"idx": n, "path": f"{n}_{kind}" if n else "", "type": f"a.b.{kind}"} for n, kind in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(named))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings or {}))
    (folder / "sentence_bert_config.json").write_text(json.dumps(sentence))
    for n, kind in enumerate(modules[1:], 1):
        (folder / f"{n}_{kind}").mkdir()
        (folder / f"{n}_{kind}" / "config.json").write_text(json.dumps((pooling or {}) if kind == "Pooling" else {}))
    return folder


def by_hand(mode, x, start):
    """What a mode makes of a text whose first tokens do not count."""
    kept = x[start:]
    positions = np.arange(start + 1, len(x) + 1)
    return {
        "cls_token": kept[0],
        "lasttoken": kept[-1],
        "max_tokens": kept.max(axis=0),
        "mean_tokens": kept.mean(axis=0),
        "mean_sqrt_len_tokens": kept.sum(axis=0) / np.sqrt(len(kept)),
        "weightedmean_tokens": (kept * positions[:, None]).sum(axis=0) / positions.sum(),
    }[mode]


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("mode", ["cls_token", "lasttoken", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens",
                                  "weightedmean_tokens"])  # fmt: skip
def test_a_vector_is_pooled_as_its_folder_says(tmp_path, mode, counts):
    old = {f"pooling_mode_{mode}": True, "pooling_mode_none": False, "include_prompt": counts}
    new = {"pooling_mode": mode.removesuffix("_tokens").removesuffix("_token"), "include_prompt": counts}
    for number, pooling in enumerate((old, new)):
        (folder := tmp_path / str(number)).mkdir()
        pipeline = read_pipeline(write(folder, pooling=pooling))
        expected = by_hand(mode, STATES.double().numpy(), 0 if counts else 2)
        assert pipeline.vector(STATES, prompt_tokens=2) == pytest.approx(expected)


def test_dense_layers_a_norm_and_prompts_are_read(tmp_path):
    modules = ("Transformer", "Pooling", "Dense", "Normalize")
    prompts = {"prompts": {"query": "query: ", "passage": "p: "}, "default_prompt_name": "query"}
    folder = write(tmp_path, modules, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, prompts,
                   max_seq_length=128, do_lower_case=True)  # fmt: skip
    weight, bias = torch.randn(3, 8), torch.randn(3)
    save_file({"linear.weight": weight, "linear.bias": bias}, folder / "2_Dense" / "model.safetensors")
    pipeline = read_pipeline(folder)
    x = STATES.double().numpy()
    y = np.tanh(weight.double().numpy() @ np.concatenate([x[0], x.mean(axis=0)]) + bias.double().numpy())
    assert pipeline.vector(STATES) == pytest.approx(y / np.linalg.norm(y))
    assert pipeline.reading == ReadingSettings("query: ", True, 128)
    assert pipeline.says == "cls token and mean pooling, a dense layer, normalised"


@pytest.mark.parametrize(
    ("file", "content", "settings", "said"),
    [
        (
            "sentence_bert_config.json",
            {"max_seq_length": 128},
            ReadingSettings(max_tokens=128),
            "cuts texts at 128 tok",
        ),
        ("sentence_roberta_config.json", {"max_seq_length": 128}, ReadingSettings(max_tokens=128), "at 128 tokens"),
        ("tokenizer_config.json", {"model_max_length": 16}, ReadingSettings(max_tokens=16), "at 16 tokens"),  # as of v6
        ("tokenizer_config.json", {"model_max_length": 10**30}, ReadingSettings(), ""),
        (
            "sentence_bert_config.json",
            {"max_seq_length": 512, "do_lower_case": False},
            ReadingSettings(max_tokens=512),
            "",
        ),
        ("sentence_bert_config.json", {"do_lower_case": True}, ReadingSettings(lowercase=True), "into lower case"),
        ("config_sentence_transformers.json", {"prompts": {"q": "Query: "}}, ReadingSettings(), ""),
        (
            "config_sentence_transformers.json",
            {"prompts": {"q": "Query: "}, "default_prompt_name": "q"},
            ReadingSettings("Query: "),
            "with the prompt 'Query: '",
        ),
    ],
)
def test_what_a_pass_does_not_read_as_the_folder_says_is_said(tmp_path, file, content, settings, said):
    write(tmp_path, pooling={"pooling_mode": "mean"})
    (tmp_path / "sentence_bert_config.json").write_text("{}")
    (tmp_path / file).write_text(json.dumps(content))
    assert read_pipeline(tmp_path).reading == settings
    unused = unused_settings(tmp_path, 256)
    assert said in unused and bool(said) == bool(unused) and bool(unused) == ("cut at 256 tokens" in unused)
    assert unused_settings(None, 256) == "" and unused_settings(tmp_path / "1_Pooling", 256) == ""
    assert ReadingSettings("Q: ", lowercase=True).given("An") == "q: an"


def test_what_is_no_sentence_encoder_or_not_known(tmp_path):
    assert read_pipeline(None) is None and read_pipeline(tmp_path) is None
    wrong = [
        ({"modules": ("Transformer", "CNN")}, "its module CNN is not known here"),
        ({"pooling": {"pooling_mode": "magic"}}, "its pooling magic is not known here"),
        ({"modules": ("Transformer", "Normalize")}, r"its order of modules \(Transformer Normalize\) is not known"),
        (
            {"modules": ("Transformer", "Normalize", "Pooling"), "pooling": {"pooling_mode": "cls"}},
            "its order of modules",
        ),
        ({"pooling": {"pooling_mode": "cls"}, "modality_config": {"message": {}}}, "as turns of a chat is not known"),
        (
            {"modules": ("Transformer", "Pooling", "Dense"), "pooling": {"pooling_mode": "mean"}},
            "cannot read the dense",
        ),
    ]
    for number, (given, message) in enumerate(wrong):
        (folder := tmp_path / str(number)).mkdir()
        with pytest.raises(ReporterError, match=message):
            read_pipeline(write(folder, **given))
    (tmp_path / "modules.json").write_text("{")
    with pytest.raises(ReporterError, match=r"cannot read .*modules\.json"):
        read_pipeline(tmp_path)
