"""Checkpoints that have the weights of another one are named; what is frozen is not."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from reporter.models.load import weight_groups
from reporter.report.tables import model_rows, warnings
from reporter.runs.whole import same_weights, write_same_weights


def groups(blocks: str, embeddings: str = "e", other: str = "o", **head: str) -> dict[str, str]:
    return {"embeddings": embeddings, **{str(n): block for n, block in enumerate(blocks, 1)}, "other": other, **head}


@pytest.mark.parametrize(
    ("series", "words"),
    [
        ([groups("abc"), groups("def", "x")], {}),
        ([groups("abc"), groups("def", "x"), groups("abc")], {2: "has exactly the same weights as '0'"}),
        ([groups("abc"), groups("abc"), groups("abc")], {1: "same weights as '0'", 2: "same weights as '0' and '1'"}),
        ([groups("abc"), groups("abz", other="x")], {1: "has exactly the same weights as '0' in blocks 1–2 of 3"}),
        ([groups("abc"), groups("xyc"), groups("uvw")], {1: "block 3 of 3"}),  # a shard of its neighbour's
        ([groups("abc"), groups("abd"), groups("abe")], {}),  # frozen in the whole series
        ([groups("abc"), groups("abd"), groups("xbe"), groups("xbf")], {1: "blocks 1–2 of 3", 3: "blocks 1–2 of 3"}),
        ([groups("abc", "e"), groups("abc", "f")], {}),  # all blocks frozen, the embeddings trained
        ([groups("abc", head="h"), groups("abc", head="i")], {}),  # they differ in their head alone
        ([{}, groups("abc"), {}], {}),  # weights that were not read
    ],
)
def test_checkpoints_with_the_weights_of_another_are_named(series, words):
    notes = same_weights({str(n): of for n, of in enumerate(series)})
    assert notes.keys() == {str(n) for n in words}
    assert all(text in notes[str(n)] for n, text in words.items())


@pytest.mark.parametrize(
    ("family", "block"),
    [
        ("GPT2LMHeadModel", "transformer.h.1.mlp.c_fc.bias"),
        ("BertForMaskedLM", "bert.encoder.layer.1.output.dense.bias"),
    ],
)
def test_groups_follow_the_weights_and_nothing_else(family, block, tmp_path):
    kind, file = getattr(transformers, family), tmp_path / "model.safetensors"
    sizes = {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 11}
    model = kind(kind.config_class(tie_word_embeddings=False, **sizes))

    def groups_of_file():
        model.save_pretrained(tmp_path)
        return weight_groups(model.base_model, [file])

    for weight, group in ((model.get_parameter(block), "2"), (model.get_output_embeddings().weight, "head")):
        before = groups_of_file()
        assert list(before) == ["embeddings", "1", "2", "other", "head"] and groups_of_file() == before
        assert {name: before[name] for name in before if name != "head"} == weight_groups(model.base_model)
        with torch.no_grad():
            weight.view(-1)[5] = torch.nextafter(weight.view(-1)[5], torch.tensor(1.0))
        changed = groups_of_file()
        assert {name for name in before if before[name] != changed[name]} == {group}
    # A tied head that a file holds once more is none.
    weights = load_file(file)
    tied = {
        name: model.get_input_embeddings().weight if name.startswith("lm_head") else weights[name] for name in weights
    }
    save_file(tied, file)
    assert ("head" in weight_groups(model.base_model, [file])) == (family == "BertForMaskedLM")


def test_the_note_is_stored_shown_and_taken_back(store):
    def put(checkpoint: str, blocks: str) -> None:
        row = {"study": "s", "model": "bert", "checkpoint": checkpoint, "step": int(checkpoint[1:]), "status": "done"}
        store.put("models", ["study", "model", "checkpoint"], row | {"weights": json.dumps(groups(blocks))})

    for checkpoint, blocks in (("s1", "abc"), ("s2", "def"), ("s10", "abc")):
        put(checkpoint, blocks)
    note = "checkpoint 's10': has exactly the same weights as 's1'"
    assert write_same_weights(store, "s") == [f"model 'bert', {note}"]
    assert warnings(model_rows(store.records("FROM models"))) == [(note, ["bert"])]
    put("s10", "ghi")  # somebody mended it
    assert write_same_weights(store, "s") == []
    assert store.records("SELECT DISTINCT same_weights FROM models") == [{"same_weights": None}]
