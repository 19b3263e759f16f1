import numpy as np
import pytest

from reporter.app.verify.by_cloud import _of_types
from reporter.forward.observable import Setting
from reporter.forward.observed import Observed
from reporter.forward.type_moments import TypeMoments, type_view, types_within
from reporter.models.places import Layout

WIDTH, TOKENS, LAYOUT = 6, 900, Layout(1, 6)
COUNTS = {token: 100 - token for token in range(20)}  # ids 20..29 occur, but are too rare to be kept


def cloud(offset):
    rng = np.random.default_rng(0)
    ids, means = rng.integers(0, 30, TOKENS), rng.standard_normal((2, 30, WIDTH))
    states = means[:, ids] + 0.5 * rng.standard_normal((2, TOKENS, WIDTH)) + offset
    return states.astype(np.float32), ids, rng.choice(3, TOKENS, p=[0.7, 0.2, 0.1])


def show(make_batch, feed, states, ids, strata, batches):
    kept = TypeMoments.empty(Setting(LAYOUT, 0, TOKENS, 1, COUNTS, {i: f"t{i}" for i in COUNTS}))
    for rows in np.array_split(np.random.default_rng(3).permutation(len(ids)), batches):
        feed(kept, make_batch(states[:, rows], texts=rows, strata=strata[rows], token_ids=ids[rows]))
    return kept


def viewed(kept, place, view="text tokens", layout=LAYOUT):
    return type_view(Observed({kept.name: kept}, layout, TOKENS, view, 0), place, 1)


@pytest.mark.parametrize(("offset", "batches"), [(0.0, 1), (100.0, 9), (1e4, 9)])
@pytest.mark.parametrize("view", ["text tokens", "with special tokens", "without sinks"])
def test_against_numpy_type_by_type(make_batch, feed, offset, batches, view):
    states, ids, strata = cloud(offset)
    kept = show(make_batch, feed, states, ids, strata, batches)
    inside = np.isin(strata, (0,) if view == "without sinks" else (0, 2)) & (ids < 20)
    for layer, place in enumerate(LAYOUT.places):
        result, x, of = viewed(kept, place, view), states[layer][inside].astype(np.float64), ids[inside]
        assert result.n == inside.sum() and result.ranks.tolist() == list(range(20))
        types, expected = [x[of == rank] for rank in range(20)], dict(_of_types(x, of))
        assert result.count.tolist() == [len(y) for y in types]
        np.testing.assert_allclose(result.norms, [np.linalg.norm(y.mean(axis=0)) for y in types], rtol=1e-12)
        np.testing.assert_allclose(result.variances, [y.var(axis=0).sum() for y in types], rtol=1e-9)
        assert [result.between, result.total] == pytest.approx([expected["between"], expected["total"]], rel=1e-9)
        assert result.mean_square == pytest.approx(expected["mean_square_norm"], rel=1e-12)


def test_a_larger_budget_gives_the_same_numbers_for_a_smaller_one(make_batch, feed, rng):
    layout, counts, result = Layout(1, 3000), {token: 100 - token for token in range(60)}, []
    assert types_within(1, layout) == 2**20 // (8 * 2 * 3002) == 21 and types_within(2, layout) == 43
    states, ids = rng.standard_normal((2, 400, 3000)), rng.integers(0, 60, 400)
    batch = make_batch(states, texts=range(400), token_ids=ids)
    for size in (1, 2, 500):
        kept = feed(TypeMoments.empty(Setting(layout, 0, 9, size, counts)), batch)
        assert len(kept.types) == min(60, types_within(size, layout))
        assert all(len(x) <= len(kept.types) for x in kept.mean)  # no sink was seen: no memory for them
        result.append(viewed(kept, layout.places[1], layout=layout))
    numbers = [[of.n, of.within, of.between, of.norm_of_mean, of.total] for of in result]
    assert numbers == [pytest.approx(numbers[0], rel=1e-12)] * 3
    assert [of.ranks.tolist() for of in result] == [list(range(21))] * 3


def test_types_and_states_without_variance(make_batch, feed):
    """Static vectors: what is left within a type is rounding, and never below zero."""
    states, ids, strata = cloud(100.0)
    for level in (1.0, 0.1, 1e4, -3.7, 0.0):
        kept = show(make_batch, feed, np.full_like(states, level), ids, strata, 5)
        assert not viewed(kept, LAYOUT.places[1]).varies
    states[1] = states[1][np.unique(ids, return_index=True)[1]][ids]
    result = viewed(show(make_batch, feed, states, ids, strata, 5), LAYOUT.places[1])
    assert result.varies and (result.variances >= 0).all()
    assert result.variances.max() < 1e-14 * result.between


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_a_finished_one_reads_almost_the_same(make_batch, feed, tmp_path, offset):
    """Means in 16 bits: what adds up still does, and equal states in two strata stay equal."""
    states, ids, strata = cloud(offset)
    states[0] = states[0][np.unique(ids, return_index=True)[1]][ids]  # at the embedding a type has one state
    kept = show(make_batch, feed, states, ids, strata, 30)
    assert kept.tensors()["mean/1"].shape == (len(kept.groups), WIDTH), "it grew, and has no spare rows"
    kept.save(tmp_path / "it", finished=True)
    result = TypeMoments.load(tmp_path / "it")
    assert result.types == list(range(20)) and result.tokens == [f"t{i}" for i in range(20)]
    for place in LAYOUT.places:
        a, b = (viewed(moments, place) for moments in (kept, result))
        assert [b.between, b.norm_of_mean] == pytest.approx([a.between, a.norm_of_mean], rel=1e-3)
        assert b.between != a.between
        assert b.within == pytest.approx(a.within, rel=1e-3, abs=1e-20)
        np.testing.assert_array_equal(a.count, b.count)
