"""Distributions and extremes against full matrices in NumPy, closed forms and brute force."""

from collections import defaultdict

import numpy as np
import pytest
import torch

from reporter.geometry import pairs
from reporter.geometry.pairs import Rows, tiles
from reporter.metrics import _static_numbers as numbers
from reporter.metrics._items import HistogramBin
from reporter.metrics._static_numbers import PairExtremes, norms, pairs_of
from reporter.metrics.vocabulary import VocabularyExtreme, VocabularyFact

NAMES = [f"t{i}" for i in range(200)]


def by_measure(rows):
    """Return what the rows of distributions say, by measure: {mean, standard deviation}, and the bins."""
    found = defaultdict(lambda: ({}, []))
    for row in rows:
        if isinstance(row, HistogramBin):
            found[row.measure][1].append(row)
        else:
            found[row.fact.partition(" of ")[0]][0][row.fact.rpartition(": ")[2]] = row
    return found


def vectors(n, d, seed=0, shift=0.5):
    generator = np.random.default_rng(seed)
    sizes = generator.lognormal(0, 0.3, size=(n, 1))
    return (generator.normal(size=(n, d)) * sizes + shift).astype(np.float32)


def rows_of(x):
    table = torch.as_tensor(x)
    return Rows(table, np.arange(len(x)), norms(table))


def full(x, y=None):
    """All pairs in float64, by whole matrices."""
    i, j = np.triu_indices(len(x), 1) if y is None else np.indices((len(x), len(y))).reshape(2, -1)
    a, b = x.astype(float)[i], (x if y is None else y).astype(float)[j]
    dots = (a * b).sum(1)
    cosines = dots / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return {"dot": dots, "cosine": cosines, "distance": np.linalg.norm(a - b, axis=1)}


def assert_agrees(found, values, part):
    facts, bins = found
    size, edges = np.abs(values).max(), np.array([b.low for b in bins] + [bins[-1].high])
    assert facts["mean"].said == f"n = {len(values):,}" and {b.part for b in bins} == {part}
    np.testing.assert_allclose(facts["mean"].value, values.mean(), atol=1e-6 * size)
    np.testing.assert_allclose(facts["standard deviation"].value, values.std(), rtol=1e-4)
    counts = np.array([b.count for b in bins])
    assert counts.sum() == len(values)
    assert np.abs(counts - np.histogram(values, edges)[0]).sum() <= max(2, 1e-3 * len(values))  # rounding at edges


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(pairs, "TILE", 32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_distributions_are_those_of_all_pairs_and_of_all_norms_but_zero(dtype):
    x, y = (torch.from_numpy(table).to(dtype) for table in (vectors(150, 24), vectors(33, 24, seed=1, shift=-1)))
    for part, other in (("token–token", None), ("token–position", y)):
        found = by_measure(pairs_of(part, rows_of(x), None if other is None else rows_of(other)))
        expected = full(x.float().numpy(), None if other is None else other.float().numpy())
        assert list(found) == ["cosine", "distance", "dot"]
        for measure, distribution in found.items():
            assert_agrees(distribution, expected[measure], part)
    lengths = x.double().norm(dim=1).numpy()
    x[7] = 0
    found = by_measure(numbers.norms_of_kind("token", norms(x)))
    assert_agrees(found.pop("norm"), np.delete(lengths, 7), "token")
    assert not found


def test_too_few_rows():
    assert list(pairs_of("type–type", rows_of(vectors(1, 4)))) == []
    assert list(pairs_of("token–type", rows_of(vectors(5, 4)), rows_of(vectors(0, 4)))) == []
    facts, bins = by_measure(pairs_of("type–type", rows_of(vectors(2, 4))))["cosine"]
    assert (facts["standard deviation"].value, len(bins), bins[0].count) == (0, 1, 1)
    assert bins[0].low <= facts["mean"].value <= bins[0].high


def found_pairs(x, k, candidates=None):
    rows = rows_of(x)
    extremes = PairExtremes(k, len(x) if candidates is None else candidates)
    for tile in tiles(rows):
        extremes.take(tile)
    return list(extremes.pairs(rows, NAMES))


def test_extreme_pairs_are_those_of_the_full_matrix():
    x = vectors(160, 8, shift=3.0)
    i, j = np.triu_indices(160, 1)
    found = found_pairs(x, 6)
    for measure, values in full(x).items():
        order = np.argsort(values if measure == "distance" else -values)
        for end, places in (("most", order[:6]), ("least", order[::-1][:6])):
            pairs = [p for p in found if (p.measure, p.end_of_scale) == (measure, end)]
            assert [(p.token_id, p.other_id) for p in pairs] == list(zip(i[places], j[places], strict=True))
            np.testing.assert_allclose([p.value for p in pairs], values[places], rtol=1e-12)
            assert [p.rank for p in pairs] == list(range(1, 7)) and all(p.certain for p in pairs)
    assert found_pairs(x, 5, candidates=70) == found_pairs(x[:70], 5)
    assert len(found_pairs(x[:3], 5)) == 6 * 3
    assert found_pairs(x[:1], 5) == []


def test_near_copies_far_from_the_origin_are_told_apart():
    """In float32 the distance of vectors of norm 300 is blind below 0.1; the answer is not."""
    x = vectors(100, 16, shift=75)
    x[:79:-1] = x[:20]
    x[:79:-1, 0] += np.float32(2.0**-10) * np.arange(1, 21, dtype=np.float32)
    pairs = [p for p in found_pairs(x, 20) if (p.measure, p.end_of_scale) == ("distance", "most")]
    assert [(p.token_id, p.other_id) for p in pairs] == [(n, 99 - n) for n in range(20)]


def test_repetitions():
    x = torch.from_numpy(vectors(50, 8))
    x[[10, 30, 31]] = x[5].clone()
    x[41] = x[40].clone()
    x[20, 0], x[21] = 0.0, x[20]
    x[20, 0], x[21, 0] = 0.0, -0.0
    expected = np.arange(50)
    expected[[10, 30, 31]], expected[41], expected[21] = 5, 40, 20
    np.testing.assert_array_equal(numbers.first_equal(x), expected)


def test_outliers_of_tokens_and_positions():
    x, y = vectors(200, 12, shift=0), vectors(40, 12, seed=3, shift=0)
    tokens, positions = rows_of(x), rows_of(y)

    def beyond(threshold):
        consumer = numbers.OutlierPairs(threshold, 200, 40, 15)
        for tile in tiles(tokens, positions):
            consumer.take(tile)
        rows = list(consumer.rows(tokens, positions, NAMES))
        listed = [row for row in rows if isinstance(row, VocabularyExtreme)]
        return {row.fact: row for row in rows if isinstance(row, VocabularyFact)}, listed

    facts, listed = beyond(0.6)
    cosines = full(x, y)["cosine"]
    count, by_chance = facts["outliers"].value, facts["outliers by chance"].value
    assert count == (np.abs(cosines) > 0.6).sum() and facts["outliers"].said == "of 8,000 pairs"
    order = np.argsort(-np.abs(cosines))[:15]
    assert [(row.token_id, row.other_id) for row in listed] == [(i // 40, i % 40) for i in order]
    np.testing.assert_allclose([row.value for row in listed], cosines[order])
    assert abs(count / by_chance - 1) < 0.3  # these directions are even
    assert not beyond(0.999)[1]


def test_distance_and_cosine_to_the_mean():
    x = vectors(5000, 8)
    x[17] = 0
    table = torch.from_numpy(x)
    keep = norms(table) > 0
    middle = numbers.mean(table, keep)
    np.testing.assert_allclose(middle, np.delete(x, 17, 0).astype(float).mean(0), rtol=1e-12)
    cosines, distances = numbers.to_point(table, middle)
    assert np.isnan(cosines[17])
    np.testing.assert_allclose(distances, np.linalg.norm(x.astype(float) - middle, axis=1), rtol=1e-12)
    usable = np.flatnonzero(keep)
    measures = {"mean_distance": distances, "mean_cosine": cosines, "norm": norms(table)}
    found = list(numbers.ranked(measures, usable, 4, "all", [None] * len(x)))
    for measure, end, order in (("mean_distance", "largest", -distances), ("mean_cosine", "smallest", cosines)):
        ids = [t.token_id for t in found if (t.measure, t.end_of_scale) == (measure, end)]
        assert ids == np.argsort(order)[:4].tolist()  # NaN comes last
    assert 17 not in {t.token_id for t in found} and len(found) == 24
