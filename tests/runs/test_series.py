"""Checkpoints that have the weights of another one are named; what is frozen is not."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import GPT2Config, GPT2Model

from reporter.models.groups import weight_groups
from reporter.report.tables import model_rows, warnings
from reporter.runs.series import same_weights, write_same_weights
from reporter.store import Store


def groups(blocks: str, embeddings: str = "e", other: str = "o") -> dict[str, str]:
    return {"embeddings": embeddings, **{str(n): block for n, block in enumerate(blocks, 1)}, "other": other}


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ([groups("abc"), groups("def", "x")], {}),
        ([groups("abc"), groups("abc")], {1: "all of its weights are, byte for byte, those of '0'"}),
        ([groups("abc"), groups("def", "x"), groups("abc")], {2: "all of its weights"}),
        ([groups("abc"), groups("abc"), groups("abc")], {1: "those of '0'", 2: "those of '0' and '1'"}),
        ([groups("abc"), groups("abz", other="x")], {1: "blocks 1–2 of 3 are, byte for byte, those of '0'"}),
        ([groups("abc"), groups("xyc"), groups("uvw")], {1: "block 3 of 3"}),  # a shard of its neighbour's
        ([groups("abc"), groups("abd"), groups("abe")], {}),  # frozen in the whole series
        ([groups("abc"), groups("abd"), groups("xbe"), groups("xbf")], {1: "blocks 1–2 of 3", 3: "blocks 1–2 of 3"}),
        ([groups("abc", "e"), groups("def", "e"), groups("ghi", "e")], {}),  # frozen or tied embeddings
        ([groups("abc", "e"), groups("abc", "f")], {}),  # all blocks frozen, the embeddings trained
        ([{}, groups("abc"), {}], {}),  # weights that were not read
    ],
)
def test_what_is_said(series, said):
    found = same_weights({str(n): of for n, of in enumerate(series)})
    assert found.keys() == {str(n) for n in said}
    assert all(text in found[str(n)] for n, text in said.items())


def test_groups_follow_the_weights_and_nothing_else():
    config = GPT2Config(n_layer=3, n_embd=8, n_head=2, vocab_size=11, n_positions=16)
    model = GPT2Model(config)
    before = weight_groups(model)
    assert list(before) == ["embeddings", "1", "2", "3", "other"]
    other = GPT2Model(config)
    other.load_state_dict(model.state_dict())
    assert weight_groups(other) == before
    with torch.no_grad():
        other.h[1].mlp.c_fc.bias[0] = torch.nextafter(other.h[1].mlp.c_fc.bias[0], torch.tensor(1.0))
    changed = weight_groups(other)
    assert {name for name in before if before[name] != changed[name]} == {"2"}
    assert weight_groups(model.bfloat16()).keys() == before.keys()


def test_it_is_stored_shown_and_taken_back(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    key = ["study", "model", "checkpoint"]

    def put(checkpoint: str, blocks: str) -> None:
        row = {"study": "s", "model": "bert", "checkpoint": checkpoint, "step": int(checkpoint[1:]), "status": "done"}
        store.put("models", key, row | {"weights": json.dumps(groups(blocks))})

    for checkpoint, blocks in (("s1", "abc"), ("s2", "def"), ("s10", "abc")):
        put(checkpoint, blocks)
    (said,) = write_same_weights(store, "s")
    assert said == "model 'bert', checkpoint 's10': all of its weights are, byte for byte, those of 's1'"
    shown = warnings(model_rows(store.records("FROM models")))
    assert shown == [("checkpoint 's10': all of its weights are, byte for byte, those of 's1'", ["bert"])]
    put("s10", "ghi")  # somebody mended it
    assert write_same_weights(store, "s") == []
    assert store.records("SELECT DISTINCT same_weights FROM models") == [{"same_weights": None}]
