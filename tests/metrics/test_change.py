"""Change against the base: where nothing changed, where depth, width or tokens differ."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from metrics.reading import ANY, Sides, named, numbers
from oracles.fake_model import FakeModel, made_up_texts

from reporter.metrics.base import catalogue
from reporter.metrics.change import ChangeOptions, MovedToken

METRIC = catalogue()["change"]


@pytest.fixture
def see(see):
    return partial(see, names=("moments", *METRIC.needs))


def compared(seen, *others, **options):
    """Return {(statistic, layer): value} and the tokens that moved."""
    rows = list(METRIC.between.compare(seen, others, ChangeOptions(**options)))
    tokens = [row for row in rows if isinstance(row, MovedToken)]
    return {(statistic, layer): row for (statistic, _, layer, _), row in numbers(rows).items()}, tokens


def test_what_did_not_change_is_the_same_to_the_last_bit(see):
    model, texts = FakeModel(role="decoder"), made_up_texts(60)
    values, tokens = compared(see(model, texts), see(FakeModel(role="decoder"), texts))
    for layer in range(4):
        assert [values[name, layer].value for name in ("cosine", "distance", "moved")] == [1, 0, 0]
        assert values["linear", layer].value == pytest.approx(1)
        assert values["distance", layer].ci_high == 0
    assert not tokens


def test_tokens_that_moved_come_in_order(see):
    base, texts = FakeModel(sinks=False, positions=False), made_up_texts(60)
    model = FakeModel(sinks=False, positions=False)
    model.embeddings[7] *= 3  # word 5
    _, tokens = compared(see(model, texts), see(base, texts))
    first = [row for row in tokens if row.place.layer == 0]
    assert [(row.rank, row.token_id, row.token) for row in first] == [(1, 7, "t7")]
    assert (first[0].distance, first[0].cosine) == (pytest.approx(2), pytest.approx(1))
    for place in {row.place for row in tokens}:
        rows = [row for row in tokens if row.place == place]
        assert [row.rank for row in rows] == list(range(1, len(rows) + 1))
        assert all(a.distance >= b.distance for a, b in pairwise(rows)) and all(row.n >= 3 for row in rows)


UNLIKE = {
    "shallower": ({"layers": 2}, {"moved 2": ANY}),
    "deeper": ({"layers": 4}, {"cosine 3": "no layer 3", "cosine 4": ANY}),
    "narrower": ({"width": 12}, {"distance 1": "12 dimensions, the states of the base 16", "linear 1": ANY}),
    # Without a token before each text, all positions move, and texts are compared.
    "of another tokenizer": ({"special": False}, {"distance 2": ANY}),
}


@pytest.mark.parametrize(("other", "expected"), UNLIKE.values(), ids=UNLIKE)
def test_a_model_unlike_its_base_is_compared_where_it_can_be(observe, other, expected):
    model, base = FakeModel(**other), FakeModel()
    sides = Sides.of(observe, [model, base], made_up_texts(60), 2 * [("moments", *METRIC.needs)])
    rows = sides.compute(METRIC, "words")
    if model.layers <= base.layers:  # else the path compares the base's last layer with an inner one as well
        sides.agree(METRIC, {"words": rows}, {})
    found = named(METRIC, rows)
    for name, value in expected.items():
        row = found[f"change.{name}"]
        assert row.value is not None if value is ANY else row.value is None and value in row.reason
    if not model.special:
        assert not [row for row in rows if isinstance(row, MovedToken)]
        assert found["change.cosine 1"].n == len(set(made_up_texts(60)))


def test_a_map_of_few_tokens_has_no_interval_and_alone_a_model_has_not_changed(see):
    nudged = FakeModel()
    nudged.weights[1] = nudged.weights[1] * np.float32(1.1)
    corpora = [made_up_texts(n) for n in (3, 7, 29)]
    few, some, more = (compared(see(nudged, of), see(FakeModel(), of))[0]["linear", 2] for of in corpora)
    assert few.value is None and "the minimum is 32 tokens" in few.reason
    assert some.value is not None and some.ci_low is None and "the minimum is 48 tokens" in some.reason
    assert more.value is not None and not more.reason
    assert METRIC.compares_only and not list(METRIC.compute(see(FakeModel(), made_up_texts(20)), ChangeOptions()))
