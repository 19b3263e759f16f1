"""Checkpoints that have the weights of another one are named; what is frozen is not."""

import json

import pytest
import torch
from transformers import GPT2Config, GPT2Model

from reporter.models.load import weight_groups
from reporter.report.tables import model_rows, warnings
from reporter.runs.whole import same_weights, write_same_weights
from reporter.store import Store

CONFIG = GPT2Config(n_layer=3, n_embd=8, n_head=2, vocab_size=11, n_positions=16)


def groups(blocks: str, embeddings: str = "e", other: str = "o") -> dict[str, str]:
    return {"embeddings": embeddings, **{str(n): block for n, block in enumerate(blocks, 1)}, "other": other}


@pytest.mark.parametrize(
    ("series", "words"),
    [
        ([groups("abc"), groups("def", "x")], {}),
        ([groups("abc"), groups("abc")], {1: "has exactly the same weights as '0'"}),
        ([groups("abc"), groups("def", "x"), groups("abc")], {2: "has exactly the same weights as '0'"}),
        ([groups("abc"), groups("abc"), groups("abc")], {1: "same weights as '0'", 2: "same weights as '0' and '1'"}),
        ([groups("abc"), groups("abz", other="x")], {1: "has exactly the same weights as '0' in blocks 1–2 of 3"}),
        ([groups("abc"), groups("xyc"), groups("uvw")], {1: "block 3 of 3"}),  # a shard of its neighbour's
        ([groups("abc"), groups("abd"), groups("abe")], {}),  # frozen in the whole series
        ([groups("abc"), groups("abd"), groups("xbe"), groups("xbf")], {1: "blocks 1–2 of 3", 3: "blocks 1–2 of 3"}),
        ([groups("abc", "e"), groups("def", "e"), groups("ghi", "e")], {}),  # frozen or tied embeddings
        ([groups("abc", "e"), groups("abc", "f")], {}),  # all blocks frozen, the embeddings trained
        ([groups("abc") | {"head": "h"}, groups("abc") | {"head": "i"}], {}),  # they differ in their head alone
        ([{}, groups("abc"), {}], {}),  # weights that were not read
    ],
)
def test_checkpoints_with_the_weights_of_another_are_named(series, words):
    notes = same_weights({str(n): of for n, of in enumerate(series)})
    assert notes.keys() == {str(n) for n in words}
    assert all(text in notes[str(n)] for n, text in words.items())


def test_groups_follow_the_weights_and_nothing_else():
    model = GPT2Model(CONFIG)
    before = weight_groups(model)
    assert list(before) == ["embeddings", "1", "2", "3", "other"]
    other = GPT2Model(CONFIG)
    other.load_state_dict(model.state_dict())
    assert weight_groups(other) == before
    with torch.no_grad():
        other.h[1].mlp.c_fc.bias[0] = torch.nextafter(other.h[1].mlp.c_fc.bias[0], torch.tensor(1.0))
    changed = weight_groups(other)
    assert {name for name in before if before[name] != changed[name]} == {"2"}
    assert weight_groups(model.bfloat16()).keys() == before.keys()


@pytest.mark.parametrize("family", ["GPT2LMHeadModel", "BertForMaskedLM"])
def test_an_untied_head_is_a_group_of_its_own(family, tmp_path):
    import transformers

    sizes = {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 11}
    kind = getattr(transformers, family)
    whole = kind(kind.config_class(tie_word_embeddings=False, **sizes))
    output = whole.get_output_embeddings().weight

    def groups_of_file():
        whole.save_pretrained(tmp_path)
        return weight_groups(whole.base_model, [tmp_path / "model.safetensors"])

    before = groups_of_file()
    assert list(before)[-1] == "head"
    assert {name: before[name] for name in before if name != "head"} == weight_groups(whole.base_model)
    with torch.no_grad():
        output[3, 5] = torch.nextafter(output[3, 5], torch.tensor(1.0))
    changed = groups_of_file()
    assert {name for name in before if before[name] != changed[name]} == {"head"}
    assert groups_of_file() == changed


def test_a_tied_head_that_a_file_holds_once_more_is_none(tmp_path):
    from safetensors.torch import save_file

    model = GPT2Model(CONFIG)
    weights = {f"transformer.{name}": weight for name, weight in model.state_dict().items()}
    save_file(weights | {"lm_head.weight": model.wte.weight.detach().clone()}, tmp_path / "model.safetensors")
    assert weight_groups(model, [tmp_path / "model.safetensors"]) == weight_groups(model)


def test_the_note_is_stored_shown_and_taken_back(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    key = ["study", "model", "checkpoint"]

    def put(checkpoint: str, blocks: str) -> None:
        row = {"study": "s", "model": "bert", "checkpoint": checkpoint, "step": int(checkpoint[1:]), "status": "done"}
        store.put("models", key, row | {"weights": json.dumps(groups(blocks))})

    for checkpoint, blocks in (("s1", "abc"), ("s2", "def"), ("s10", "abc")):
        put(checkpoint, blocks)
    (note,) = write_same_weights(store, "s")
    assert note == "model 'bert', checkpoint 's10': has exactly the same weights as 's1'"
    shown = warnings(model_rows(store.records("FROM models")))
    assert shown == [("checkpoint 's10': has exactly the same weights as 's1'", ["bert"])]
    put("s10", "ghi")  # somebody mended it
    assert write_same_weights(store, "s") == []
    assert store.records("SELECT DISTINCT same_weights FROM models") == [{"same_weights": None}]
