"""Sinks by type against a loop over tokens."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from oracles.fake_model import EDGE, FIRST_WORD, SINK_WORD, FakeModel, FakeTexts, made_up_texts
from oracles.tokens import sinks

from reporter.forward.outliers import SinkTokens


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_sinks_by_type_against_a_loop(observe, role):
    model, texts = FakeModel(role=role), made_up_texts(80, longest=12)
    observables, counts = observe(model, texts, batch_tokens=64, names=("moments", "sink_tokens"))
    expected = defaultdict(list)
    own = 0
    for index, text in enumerate(texts):
        ids = model.tokenizer(text)["input_ids"]
        facts = sinks(model.reference(ids)[1:])
        own += len(ids) - 2
        for position, token in enumerate(ids):
            if facts["sink"][position]:
                one = {name: facts[name][position] for name in ("first", "last", "ratio", "dominance", "dimension")}
                expected[token, position == 0].append({"text": index, "position": position, **one})
    kept = observables["sink_tokens"]
    assert isinstance(kept, SinkTokens)
    found = {(one["token_id"], one["position_first"] == 0): one for one in kept.listed()}
    assert (FIRST_WORD + SINK_WORD, False) in found and found.keys() == expected.keys()
    for key, group in expected.items():
        one = SimpleNamespace(**found[key])
        assert one.own == (key[0] != EDGE)
        assert one.texts == len({x["text"] for x in group}) and one.count == len(group)
        positions = [x["position"] for x in group]
        assert (one.position_first, one.position_last) == (min(positions), max(positions))
        layers = min(x["first"] for x in group), max(x["last"] for x in group)
        assert (one.layer_first, one.layer_last) == layers
        assert one.norm_ratio == pytest.approx(max(x["ratio"] for x in group), rel=1e-4)
        top = max(group, key=lambda x: x["dominance"])
        assert one.dominance == pytest.approx(top["dominance"], rel=1e-4) and one.dimension == top["dimension"]
    own_sinks = sum(len(group) for (token, _), group in expected.items() if token != EDGE)
    assert (kept.own_tokens, kept.own_sinks) == (own, own_sinks) and counts.sinks == own_sinks > 10


def test_several_sinks_in_one_text_count_once_for_it(observe):
    model = FakeModel(special=False)
    observables, _ = observe(model, FakeTexts([f"1 2 {SINK_WORD} 5 6 {SINK_WORD} 7 8", f"4 5 {SINK_WORD} 9 8 7"]))
    (one,) = [x for x in observables["sink_tokens"].listed() if x["token_id"] == FIRST_WORD + SINK_WORD]
    assert (one["texts"], one["count"]) == (2, 3)
    assert (one["position_first"], one["position_last"], one["layer_first"], one["layer_last"]) == (2, 5, 2, 3)
    assert one["dimension"] == 0


def test_names_of_sinks_are_kept_and_those_of_other_tokens_are_not(observe, tmp_path):
    texts = made_up_texts(60)
    observables, _ = observe(FakeModel(), texts)
    kept = observables["sink_tokens"]
    kept.save(tmp_path / "kept.safetensors")
    again = SinkTokens.load(tmp_path / "kept.safetensors")
    assert list(again.listed()) == list(kept.listed())
    assert set(again.tokens) <= {str(token) for token in np.unique(kept.types.keys[:, 0])}
    assert again.tokens[str(FIRST_WORD + SINK_WORD)] == f"t{FIRST_WORD + SINK_WORD}"
