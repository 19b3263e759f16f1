import numpy as np
import pytest
import torch

from reporter.app.verify.reading import Rule, kinds_of_text
from reporter.forward.token_categories import ASIDE, ORDINARY, SPECIAL, SinkRule, find_sinks, strata

RULES = [SinkRule(), SinkRule(None, 8.0), SinkRule(0.3, 1.5), SinkRule(None, 1.2)]
NAMES = {"sink": "sink", "first": "layer_first", "last": "layer_last", "ratio": "ratio", "dominance": "weight"}
NAMES |= {"dimension": "dimension"}


def padded(lengths, blocks, seed, heavy=0.15, width=6):
    """Return states of blocks (texts, length, width), some with one large coordinate, and garbage in the padding."""
    rng = np.random.default_rng(seed)
    shape = (blocks, len(lengths), max(lengths))
    states = rng.standard_normal((*shape, width)) + 1
    tall = rng.random(shape) < heavy
    states[..., 2] += np.where(tall, rng.uniform(2, 40, shape) * rng.choice([-1, 1], shape), 0)
    states[..., 4] += 6  # a coordinate that is large in every token makes no sink
    states *= np.where(rng.random(shape) < heavy, rng.uniform(2, 12, shape), 1)[..., None]  # nor does length alone
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
    states = np.where(mask[None, :, :, None] == 1, states, rng.choice([0.0, 1e15, np.nan, np.inf], (*shape, 1)))
    special = (rng.random(mask.shape) < 0.2) & (mask == 1)
    return states.astype(np.float32), mask, special


def found_in(states, mask, rule=RULES[0]):
    tensors = [torch.from_numpy(x) for x in states]
    return find_sinks(tensors, np.stack([x.norm(dim=-1).numpy() for x in tensors]), mask, rule)


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_against_brute_force_text_by_text_whatever_else_is_in_the_batch(rule):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, 13, rng.integers(1, 9)).tolist()
        states, mask, special = padded(lengths, int(rng.integers(1, 5)), seed)
        found = found_in(states, mask, rule)
        kinds = strata(found.sink, mask, special)
        for row, length in enumerate(lengths):
            blocks = states[:, row, :length].astype(np.float64)
            expected = kinds_of_text(blocks, special[row, :length], Rule(rule.factor, rule.dominance))
            for name, of in NAMES.items():
                np.testing.assert_allclose(getattr(found, name)[row, :length], getattr(expected, of), rtol=1e-4)
            alone = found_in(states[:, row : row + 1, :length], mask[row : row + 1, :length], rule)
            assert alone.sink[0].tolist() == expected.sink.tolist()
            aside = np.where(expected.sink | expected.first, ASIDE, ORDINARY)
            assert (kinds[row, :length] == np.where(expected.special, SPECIAL, aside)).all()


def of_one_text(*tokens):
    states = np.array([[tokens]], dtype=np.float32)
    return states, np.ones((1, len(tokens)), dtype=np.int64)


PLAIN = (1.0, 1.0, 1.0)
EIGHT = SinkRule(None, 8.0)


@pytest.mark.parametrize(
    ("tokens", "rule", "expected"),
    [
        ([PLAIN, PLAIN, (9.0, 1.0, 1.0), PLAIN], SinkRule(), [2]),
        ([PLAIN, PLAIN, (20.0, 20.0, 20.0), PLAIN], SinkRule(), []),  # a long state alone
        ([PLAIN, PLAIN, (20.0, 20.0, 20.0), PLAIN], EIGHT, [2]),
        ([(90.0, 1.0, 1.0), (91.0, 1.0, -1.0), (92.0, -1.0, 1.0), (190.0, 60.0, 80.0)], SinkRule(), []),
        ([(1.0, 0.0), (1.0, 0.0), (8.0, 0.0), (1.0, 0.0), (8.001, 0.0)], EIGHT, [4]),  # not at eight times
    ],
)
def test_a_sink_is_long_and_has_a_coordinate_that_outweighs_the_others_as_in_no_other_token(tokens, rule, expected):
    states, mask = of_one_text(*tokens)
    found = found_in(states, mask, rule)
    assert np.flatnonzero(found.sink[0]).tolist() == expected
    if tokens[2] == (9.0, 1.0, 1.0):
        assert (found.first[0, 2], found.last[0, 2], found.dimension[0, 2]) == (1, 1, 0)
        assert found.dominance[0, 2] == pytest.approx(64 / 2)  # (9 - 1)^2 over 1 + 1
        assert found.ratio[0, 2] == pytest.approx((83 / 3) ** 0.5)
