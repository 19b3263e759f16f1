"""Change against the base: where nothing changed, where depth, width or tokens differ."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from oracles.again import read_again
from oracles.fake_model import FakeModel, made_up_texts

from reporter.metrics.base import catalogue
from reporter.metrics.change import ChangeOptions, MovedToken

METRIC = catalogue()["change"]


@pytest.fixture
def see(see):
    return partial(see, names=("moments", *METRIC.needs))


def compared(seen, *others, **options):
    """Return {(statistic, layer): value} and the tokens that moved."""
    values, tokens = {}, []
    for row in METRIC.between.compare(seen, others, ChangeOptions(**options)):
        if isinstance(row, MovedToken):
            tokens.append(row)
            continue
        key = row.statistic, row.place.layer if row.place in seen.path else str(row.place)
        assert key not in values
        values[key] = row
    return values, tokens


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
    ranks = {}
    for row in tokens:
        ranks.setdefault(row.place, []).append(row)
    for rows in ranks.values():
        assert [row.rank for row in rows] == list(range(1, len(rows) + 1))
        assert all(a.distance >= b.distance for a, b in pairwise(rows))
        assert all(row.n >= 3 for row in rows)


def test_models_of_other_depth_are_compared_layer_by_layer_and_at_the_end(see):
    texts = made_up_texts(60)
    base, model = FakeModel(layers=3), FakeModel(layers=2)
    model.embeddings, model.position_vectors = base.embeddings, base.position_vectors
    model.weights = [base.weights[0], base.weights[2]]  # without block 2
    values, _ = compared(see(model, texts), see(base, texts))
    assert values["distance", 1].value == 0
    x, y = (read_again(one, texts) for one in (model, base))
    words = x.masks["words"]
    x, y = x.at(x.path[-1])[words], y.at(y.path[-1])[words]
    distance = np.mean(np.linalg.norm(x - y, axis=1) / np.linalg.norm(y, axis=1))
    cosine = np.mean((x * y).sum(axis=1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1))
    assert values["distance", 2].value == pytest.approx(distance, rel=1e-5)
    deeper, _ = compared(see(base, texts), see(model, texts))
    assert deeper["cosine", 2].value is not None or "no layer 2" in deeper["cosine", 2].reason
    assert deeper["cosine", 3].value == pytest.approx(cosine, rel=1e-5)


def test_models_of_other_width_have_a_linear_map_alone(see):
    texts = made_up_texts(60)
    values, _ = compared(see(FakeModel(width=12), texts), see(FakeModel(width=16), texts))
    assert values["cosine", 1].reason == values["distance", 1].reason
    assert "have 12 dimensions, the states of the base 16" in values["distance", 1].reason
    assert values["linear", 1].value is not None


def test_a_map_of_few_tokens_has_no_interval(see):
    nudged = FakeModel()
    nudged.weights[1] = nudged.weights[1] * np.float32(1.1)
    found = [
        compared(see(nudged, texts), see(FakeModel(), texts))[0]["linear", 2]
        for texts in (made_up_texts(n) for n in range(3, 30, 2))
    ]
    assert found[0].value is None and "the minimum is 32 tokens" in found[0].reason
    known = [row for row in found if row.value is not None]
    few = [row for row in known if row.ci_low is None]
    assert few and all("the minimum is 48 tokens" in row.reason for row in few)
    assert len(few) < len(known) and not known[-1].reason


def test_where_tokenizers_disagree_texts_are_compared(see):
    texts = made_up_texts(60)
    base, model = FakeModel(), FakeModel(special=False)  # without a token before each text, all positions move
    values, tokens = compared(see(model, texts), see(base, texts))
    assert not tokens
    a, b = (see(one, texts).observables["pooled"].texts((0, 2), 1024) for one in (model, base))
    place = see(model, texts).path[1]
    x, y = (one.vectors(place).numpy() for one in (a, b))
    assert values["cosine", 1].n == len(x) == len(set(texts))
    expected = np.mean([p @ q / np.sqrt(p @ p * (q @ q)) for p, q in zip(x, y, strict=True)])
    assert values["cosine", 1].value == pytest.approx(expected, rel=1e-6)


def test_alone_a_model_has_not_changed(see):
    assert list(METRIC.compute(see(FakeModel(), made_up_texts(20)), ChangeOptions())) == []
    assert METRIC.compares_only
