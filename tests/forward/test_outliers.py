"""Massive activations, dimensions that rule cosines, and sinks by type, against loops over tokens."""

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from oracles.fake_model import EDGE, FIRST_WORD, SINK_WORD, FakeModel, FakeTexts, made_up_texts
from oracles.outliers import cosine_parts
from oracles.tokens import sinks

from reporter.forward.outliers import Activations, SinkTokens, _above_median
from reporter.models.places import Layout


def test_parts_of_the_cosine_against_all_pairs(feed, make_batch):
    rng = np.random.default_rng(0)
    states = rng.standard_normal((2, 60, 5)) + np.array([3, 0, 1, 0, 0])
    kept = feed(Activations(Layout(1, 5), {}), make_batch(states, texts=np.arange(60) // 4))
    for layer in range(2):
        x = states[layer].astype(np.float32).astype(np.float64)
        units = (x / np.linalg.norm(x, axis=1, keepdims=True)).sum(axis=0)
        parts = (units**2 - kept.unit_squares[layer].sum(dim=0).numpy()) / (60 * 59)
        np.testing.assert_allclose(parts, cosine_parts(x), atol=1e-7)
    zeros = feed(Activations(Layout(0, 3), {}), make_batch(np.zeros((1, 5, 3)), texts=range(5)))
    assert zeros.unit_squares[0].sum() == zeros.largest.sum() == zeros.massive.sum() == 0


@pytest.mark.parametrize("width", [1, 2, 5])
def test_limits_against_the_median_of_each_text(width):
    rng = np.random.default_rng(width)
    tokens = np.array([1, 2, 3, 4, 7, 50])
    text = rng.permutation(np.repeat(np.arange(len(tokens)), tokens))
    for spread in (0, 1, 20):  # all alike, over one binade, over many
        x = rng.choice([-1, 1], (len(text), width)) * np.exp(spread * rng.random((len(text), width)))
        x = x.astype(np.float32)
        x[text == 3] = x[text == 3].round(1)  # some of them equal
        x[text == 2] = 0
        medians = np.array([np.median(np.abs(x[text == i].astype(np.float64))) for i in range(len(tokens))])
        for factor in (0, 0.5, 1 - 1e-14, 1, 1 + 1e-14, 2):
            limits = np.concatenate([medians * factor, np.full(len(tokens), 1.0)])
            which = torch.arange(len(tokens)).repeat(2)
            above = _above_median(*map(torch.from_numpy, (x, text)), tokens, which, torch.from_numpy(limits))
            assert above.tolist() == (limits > np.tile(medians, 2)).tolist(), (spread, factor)


def test_massive_activations_by_hand(feed, make_batch):
    states = np.full((1, 8, 3), 0.2)
    states[0, 1, 0], states[0, 2, 1] = -199, 201  # 1000 times the median is 200
    states[0, 4:] = 0.01
    states[0, 5, 2], states[0, 6, 0] = 99, 101  # 10 would be enough, if it were not for the 100
    kept = feed(Activations(Layout(0, 3), {}), make_batch(states, texts=[0] * 4 + [1] * 4, strata=[0, 0, 2, 0] * 2))
    assert kept.massive.tolist() == [[0, 0, 2]]
    assert kept.largest.tolist() == [[pytest.approx(199), 0, pytest.approx(201)]]


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_sinks_by_type_against_a_loop_and_with_their_names_alone(observe, role, tmp_path):
    model, texts = FakeModel(role=role), made_up_texts(80, longest=12)
    observables, counts = observe(model, texts, batch_tokens=64, names=("moments", "sink_tokens"))
    expected, own = defaultdict(list), 0
    for index, text in enumerate(texts):
        ids = model.tokenizer(text)["input_ids"]
        facts = sinks(model.reference(ids)[1:])
        own += len(ids) - 2
        for position in np.flatnonzero(facts["sink"]).tolist():
            row = {name: values[position] for name, values in facts.items()}
            expected[ids[position], position == 0].append(SimpleNamespace(text=index, position=position, **row))
    kept = observables["sink_tokens"]
    rows = {(row["token_id"], row["position_first"] == 0): SimpleNamespace(**row) for row in kept.listed()}
    assert (FIRST_WORD + SINK_WORD, False) in rows and rows.keys() == expected.keys()
    for key, group in expected.items():
        row, top = rows[key], max(group, key=lambda x: x.dominance)
        assert row.own == (key[0] != EDGE)
        assert row.texts == len({x.text for x in group}) and row.count == len(group)
        positions = [x.position for x in group]
        assert (row.position_first, row.position_last) == (min(positions), max(positions))
        layers = min(x.first for x in group), max(x.last for x in group)
        assert (row.layer_first, row.layer_last) == layers
        assert row.norm_ratio == pytest.approx(max(x.ratio for x in group), rel=1e-4)
        assert row.dominance == pytest.approx(top.dominance, rel=1e-4) and row.dimension == top.dimension
    own_sinks = sum(len(group) for (token, _), group in expected.items() if token != EDGE)
    assert (kept.own_tokens, kept.own_sinks) == (own, own_sinks) and counts.sinks == own_sinks > 10
    kept.save(tmp_path / "kept")
    again = SinkTokens.load(tmp_path / "kept")
    assert list(again.listed()) == list(kept.listed())
    names = again.tokens
    assert names[str(FIRST_WORD + SINK_WORD)] == f"t{FIRST_WORD + SINK_WORD}"
    assert set(names) <= {str(token) for token in np.unique(kept.types.keys[:, 0])}


def test_several_sinks_in_one_text_count_once_for_it(observe):
    model = FakeModel(special=False)
    observables, _ = observe(model, FakeTexts([f"1 2 {SINK_WORD} 5 6 {SINK_WORD} 7 8", f"4 5 {SINK_WORD} 9 8 7"]))
    (row,) = [row for row in observables["sink_tokens"].listed() if row["token_id"] == FIRST_WORD + SINK_WORD]
    assert (row["texts"], row["count"], row["dimension"]) == (2, 3, 0)
    assert (row["position_first"], row["position_last"], row["layer_first"], row["layer_last"]) == (2, 5, 2, 3)
