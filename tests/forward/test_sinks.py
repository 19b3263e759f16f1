"""Sinks, massive activations and the categories of tokens, against loops over tokens and the paths of ``verify``."""

import numpy as np
import pytest
import torch
from oracles.again import read_again
from oracles.fake_model import FIRST_WORD, SINK_WORD, FakeModel, FakeTexts, made_up_texts

from reporter.app.verify import by_cloud
from reporter.app.verify.reading import Rule, kinds_of_text
from reporter.forward.outliers import Activations, SinkTokens, _medians_of_entries
from reporter.forward.token_categories import ASIDE, ORDINARY, SPECIAL, SinkRule, find_sinks, strata
from reporter.models.places import Layout

EIGHT = SinkRule(None, 8.0)
RULES = [SinkRule(), EIGHT, SinkRule(0.3, 1.5), SinkRule(None, 1.2)]
NAMES = ("sink", "first", "last", "ratio", "dominance", "dimension")
ELSEWHERE = ("sink", "layer_first", "layer_last", "ratio", "weight", "dimension")


def padded(lengths, blocks, rng):
    """Return states of blocks (texts, length, width), some with one large coordinate, and garbage in the padding."""
    shape = (blocks, len(lengths), max(lengths))
    states, tall, long = rng.standard_normal((*shape, 6)) + 1, rng.random(shape) < 0.15, rng.random(shape) < 0.15
    states[..., 2] += tall * rng.uniform(2, 40, shape) * rng.choice([-1, 1], shape)
    states[..., 4] += 6  # a coordinate that is large in every token makes no sink
    states *= np.where(long, rng.uniform(2, 12, shape), 1)[..., None]  # nor does length alone
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
    states = np.where(mask[None, :, :, None] == 1, states, rng.choice([0.0, 1e15, np.nan, np.inf], (*shape, 1)))
    special = (rng.random(mask.shape) < 0.2) & (mask == 1)
    return states.astype(np.float32), mask, special


def found_in(states, mask, rule=RULES[0]):
    tensors = [torch.from_numpy(x) for x in states]
    return find_sinks(tensors, np.stack([x.norm(dim=-1).numpy() for x in tensors]), mask, rule)


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_against_brute_force_text_by_text_whatever_else_is_in_the_batch(rule):
    for rng in np.random.default_rng(0).spawn(12):
        lengths = rng.integers(1, 13, rng.integers(1, 9)).tolist()
        states, mask, special = padded(lengths, int(rng.integers(1, 5)), rng)
        result = found_in(states, mask, rule)
        kinds = strata(result.sink, mask, special)
        for row, length in enumerate(lengths):
            blocks, edges = states[:, row, :length].astype(np.float64), special[row, :length]
            expected = kinds_of_text(blocks, edges, Rule(rule.factor, rule.dominance))
            for name, of in zip(NAMES, ELSEWHERE, strict=True):
                np.testing.assert_allclose(getattr(result, name)[row, :length], getattr(expected, of), rtol=1e-4)
            alone = found_in(states[:, row : row + 1, :length], mask[row : row + 1, :length], rule)
            assert alone.sink[0].tolist() == expected.sink.tolist()
            aside = np.where(expected.sink | expected.first, ASIDE, ORDINARY)
            assert (kinds[row, :length] == np.where(expected.special, SPECIAL, aside)).all()


PLAIN = (1.0, 1.0, 1.0)
ONE_TEXT = [
    ([PLAIN, PLAIN, (9.0, 1.0, 1.0), PLAIN], SinkRule(), [2]),
    ([PLAIN, PLAIN, (20.0, 20.0, 20.0), PLAIN], SinkRule(), []),  # a long state alone
    ([PLAIN, PLAIN, (20.0, 20.0, 20.0), PLAIN], EIGHT, [2]),
    ([(90.0, 1.0, 1.0), (91.0, 1.0, -1.0), (92.0, -1.0, 1.0), (190.0, 60.0, 80.0)], SinkRule(), []),
    ([(1.0, 0.0), (1.0, 0.0), (8.0, 0.0), (1.0, 0.0), (8.001, 0.0)], EIGHT, [4]),  # not at eight times
]


def test_a_sink_is_long_and_has_a_coordinate_that_outweighs_the_others_as_in_no_other_token():
    for tokens, rule, expected in reversed(ONE_TEXT):
        result = found_in(np.array([[tokens]], dtype=np.float32), np.ones((1, len(tokens)), dtype=np.int64), rule)
        assert np.flatnonzero(result.sink[0]).tolist() == expected
    assert (result.first[0, 2], result.last[0, 2], result.dimension[0, 2]) == (1, 1, 0)  # of the first of these texts
    assert result.dominance[0, 2] == pytest.approx(64 / 2)  # (9 - 1)^2 over 1 + 1
    assert result.ratio[0, 2] == pytest.approx((83 / 3) ** 0.5)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_medians_of_the_entries_of_each_text(width):
    rng = np.random.default_rng(width)
    tokens = np.array([1, 2, 3, 4, 7, 50])
    text = rng.permutation(np.repeat(np.arange(len(tokens)), tokens))
    for spread in (0, 1, 20):  # all alike, over one binade, over many
        x = np.exp(spread * rng.random((len(text), width))).astype(np.float32)
        x *= rng.choice([-1, 1], x.shape)
        x[text == 3] = x[text == 3].round(1)  # some of them equal
        x[text == 2] = 0
        medians = [np.median(np.abs(x[text == i].astype(np.float64))) for i in range(6)]
        assert _medians_of_entries(torch.from_numpy(x), torch.from_numpy(text), tokens).tolist() == medians, spread


def test_massive_activations_by_hand(feed, make_batch):
    states = np.full((1, 8, 3), 0.2)
    states[0, 1, 0], states[0, 2, 1] = -199, 201  # 1000 times the median is 200
    states[0, 4:] = 0.01
    states[0, 5, 2], states[0, 6, 0] = 99, 101  # 10 would be enough, if it were not for the 100
    kept = feed(Activations(Layout(0, 3), {}), make_batch(states, texts=[0] * 4 + [1] * 4, strata=[0, 0, 2, 0] * 2))
    assert kept.massive.tolist() == [[0, 0, 2]]
    assert kept.largest.tolist() == [[pytest.approx(199), 0, pytest.approx(201)]]


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_sinks_by_type_against_the_other_path_and_with_their_names_alone(observe, role, tmp_path):
    model, texts = FakeModel(role=role), made_up_texts(80, longest=12)
    observables, counts = observe(model, texts, batch_tokens=64, names=("moments", "sink_tokens"))
    kept, reading, result = observables["sink_tokens"], read_again(model, texts), {}
    for row in kept.listed():
        where = ("further on" if row["position_first"] else "at position 0") + ", not own" * (not row["own"])
        result |= {(f"token {row['token_id']} {where}", fact): value for fact, value in row.items()}
    expected = {(number.view, number.statistic): number.value for number in by_cloud.sinks(reading, {})}
    assert expected.pop(("", "types")) == len(list(kept.listed()))
    assert (f"token {FIRST_WORD + SINK_WORD} further on", "count") in expected
    assert {fact: result[fact] for fact in expected} == pytest.approx(expected, rel=1e-4)
    own = ~reading.kinds.special
    assert tuple(kept.counts) == (own.sum(), (own & reading.kinds.sink).sum())
    assert counts.sinks == kept.counts[1] > 10
    kept.save(tmp_path / "kept")
    again = SinkTokens.load(tmp_path / "kept")
    assert list(again.listed()) == list(kept.listed())
    assert again.tokens[str(FIRST_WORD + SINK_WORD)] == f"t{FIRST_WORD + SINK_WORD}"
    assert set(map(int, again.tokens)) <= set(kept.keys[:, 0].tolist())


def test_several_sinks_in_one_text_count_once_for_it(observe):
    model = FakeModel(special=False)
    observables, _ = observe(model, FakeTexts([f"1 2 {SINK_WORD} 5 6 {SINK_WORD} 7 8", f"4 5 {SINK_WORD} 9 8 7"]))
    (row,) = [row for row in observables["sink_tokens"].listed() if row["token_id"] == FIRST_WORD + SINK_WORD]
    assert (row["texts"], row["count"], row["dimension"]) == (2, 3, 0)
    assert (row["position_first"], row["position_last"], row["layer_first"], row["layer_last"]) == (2, 5, 2, 3)
