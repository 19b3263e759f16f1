"""Distributions, extremes and positions against full matrices in NumPy, closed forms, brute force and noise."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from metrics.reading import by_kind
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.distance import cdist

from reporter.geometry.pairs import TableRows, tiles
from reporter.metrics import _static_numbers as numbers
from reporter.metrics import _static_positions as of_positions
from reporter.metrics import vocabulary
from reporter.metrics._items import HistogramBin
from reporter.metrics._static_numbers import norms
from reporter.metrics._static_pairs import OutlierPairs, PairExtremes, norms_of_kind, pairs_of, ranked
from reporter.metrics._static_positions import period, positions

NAMES = [f"t{i}" for i in range(200)]


def by_measure(rows):
    """Return what the rows of distributions say, by measure: {mean, standard deviation}, and the bins."""
    result = defaultdict(lambda: ({}, []))
    for row in rows:
        if isinstance(row, HistogramBin):
            result[row.measure][1].append(row)
        else:
            result[row.fact.partition(" of ")[0]][0][row.fact.rpartition(": ")[2]] = row
    return result


def vectors(n, d, seed=0, shift=0.5):
    generator = np.random.default_rng(seed)
    sizes = generator.lognormal(0, 0.3, size=(n, 1))
    return (generator.normal(size=(n, d)) * sizes + shift).astype(np.float32)


def rows_of(x):
    table = torch.as_tensor(x)
    return TableRows(table, np.arange(len(x)), norms(table))


def full(x, y=None):
    """All pairs in float64, by whole matrices."""
    a, b = (np.asarray(side, dtype=float) for side in (x, x if y is None else y))
    result = {"dot": a @ b.T, "cosine": 1 - cdist(a, b, "cosine"), "distance": cdist(a, b)}
    return {name: of[np.triu_indices(len(x), 1)] if y is None else of.ravel() for name, of in result.items()}


def assert_agrees(result, values, part):
    facts, bins = result
    assert facts["mean"].said == f"n = {len(values):,}" and {b.part for b in bins} == {part}
    np.testing.assert_allclose(facts["mean"].value, values.mean(), atol=1e-6 * np.abs(values).max())
    np.testing.assert_allclose(facts["standard deviation"].value, values.std(), rtol=1e-4)
    counts, expected = [b.count for b in bins], np.histogram(values, [b.low for b in bins] + [bins[-1].high])[0]
    assert sum(counts) == len(values)
    assert np.abs(counts - expected).sum() <= max(2, 1e-3 * len(values))  # rounding at edges


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr("reporter.geometry.pairs.TILE", 32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_distributions_are_those_of_all_pairs_and_of_all_norms_but_zero(dtype):
    x, y = (torch.from_numpy(table).to(dtype) for table in (vectors(150, 24), vectors(33, 24, seed=1, shift=-1)))
    for part, sides in (("token–token", [x]), ("token–position", [x, y])):
        result, expected = by_measure(pairs_of(part, *map(rows_of, sides))), full(*(side.float() for side in sides))
        assert list(result) == ["cosine", "distance", "dot"]
        for measure, distribution in result.items():
            assert_agrees(distribution, expected[measure], part)
    lengths = x.double().norm(dim=1).numpy()
    x[7] = 0
    result = by_measure(norms_of_kind("token", norms(x)))
    assert result.keys() == {"norm"}
    assert_agrees(result["norm"], np.delete(lengths, 7), "token")


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
    result = found_pairs(x, 6)
    for measure, values in full(x).items():
        order = np.argsort(values if measure == "distance" else -values)
        for end, places in (("most", order[:6]), ("least", order[::-1][:6])):
            pairs = [p for p in result if (p.measure, p.end_of_scale) == (measure, end)]
            assert [(p.token_id, p.other_id) for p in pairs] == list(zip(i[places], j[places], strict=True))
            np.testing.assert_allclose([p.value for p in pairs], values[places], rtol=1e-12)
            assert [(p.rank, p.certain) for p in pairs] == [(rank, True) for rank in range(1, 7)]
    assert found_pairs(x, 5, candidates=70) == found_pairs(x[:70], 5)
    assert len(found_pairs(x[:3], 5)) == 6 * 3 and found_pairs(x[:1], 5) == []


def test_near_copies_far_from_the_origin_are_told_apart():
    """In float32 the distance of vectors of norm 300 is blind below 0.1; the answer is not."""
    x = vectors(100, 16, shift=75)
    x[:79:-1] = x[:20]
    x[:79:-1, 0] += np.float32(2.0**-10) * np.arange(1, 21, dtype=np.float32)
    pairs = [p for p in found_pairs(x, 20) if (p.measure, p.end_of_scale) == ("distance", "most")]
    assert [(p.token_id, p.other_id) for p in pairs] == [(n, 99 - n) for n in range(20)]


def test_repetitions():
    x = torch.from_numpy(vectors(50, 8))
    x[20, 0] = 0.0
    expected = np.arange(50)
    expected[[10, 30, 31, 41, 21]] = [5, 5, 5, 40, 20]
    x = x[expected]
    x[21, 0] = -0.0
    np.testing.assert_array_equal(numbers.first_equal(x), expected)


def test_outliers_of_tokens_and_positions():
    x, y = vectors(200, 12, shift=0), vectors(40, 12, seed=3, shift=0)
    tokens, positions = rows_of(x), rows_of(y)

    def beyond(threshold):
        consumer = OutlierPairs(threshold, 200, 40, 15)
        for tile in tiles(tokens, positions):
            consumer.take(tile)
        result = by_kind(consumer.rows(tokens, positions, NAMES))
        return {row.fact: row for row in result[vocabulary.VocabularyFact]}, result[vocabulary.VocabularyExtreme]

    facts, listed = beyond(0.6)
    cosines = full(x, y)["cosine"]
    count = facts["outliers"].value
    assert count == (np.abs(cosines) > 0.6).sum() and facts["outliers"].said == "of 8,000 pairs"
    order = np.argsort(-np.abs(cosines))[:15]
    assert [(row.token_id, row.other_id) for row in listed] == [(i // 40, i % 40) for i in order]
    np.testing.assert_allclose([row.value for row in listed], cosines[order])
    assert abs(count / facts["outliers by chance"].value - 1) < 0.3  # these directions are even
    assert not beyond(0.999)[1]


def test_distance_and_cosine_to_the_mean():
    x = vectors(5000, 8)
    x[17] = 0
    table, keep = torch.from_numpy(x), x.any(axis=1)
    middle = numbers.mean(table, keep)
    np.testing.assert_allclose(middle, x[keep].astype(float).mean(0), rtol=1e-12)
    cosines, distances = numbers.to_point(table, middle)
    assert np.isnan(cosines[17])
    np.testing.assert_allclose(distances, np.linalg.norm(x.astype(float) - middle, axis=1), rtol=1e-12)
    measures = {"mean_distance": distances, "mean_cosine": cosines, "norm": norms(table)}
    result = list(ranked(measures, np.flatnonzero(keep), 4, "all", [None] * len(x)))
    for measure, end, order in (("mean_distance", "largest", -distances), ("mean_cosine", "smallest", cosines)):
        ids = [t.token_id for t in result if (t.measure, t.end_of_scale) == (measure, end)]
        assert ids == np.argsort(order)[:4].tolist()  # NaN comes last
    assert 17 not in {t.token_id for t in result} and len(result) == 24


def helix(count, d, turn, noise):
    """A helix with so many positions in a turn, turned into any direction of d dimensions."""
    angle, generator = 2 * np.pi * np.arange(count) / turn, np.random.default_rng(0)
    x = np.column_stack([np.cos(angle), np.sin(angle), np.linspace(-1.5, 1.5, count)])
    return x @ np.linalg.qr(generator.normal(size=(d, d)))[0][:3] + noise * generator.normal(size=(count, d))


NOISE = {
    "white": lambda g, n, d: g.normal(size=(n, d)),
    "walk": lambda g, n, d: g.normal(size=(n, d)).cumsum(axis=0),
    "smooth": lambda g, n, d: gaussian_filter1d(g.normal(size=(n + 240, d)), 30, axis=0)[120:-120],
}


def path(x):
    u, s, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    return u[:, :3] * s[:3]


@pytest.mark.parametrize("turn", [5.3, 20, 64, 100.5])
def test_the_period_of_a_helix(turn):
    facts, reason = period(path(helix(512, 48, turn, 0.1)), 0)
    assert facts["period"] == pytest.approx(turn, rel=0.03)
    assert facts["period turns"] == pytest.approx(512 / turn, rel=0.03)
    assert facts["period share"] > 0.8 and (facts["period p"], reason) == (0.005, "")


def test_a_first_position_that_lies_apart_hides_no_period_and_short_and_straight_paths_have_none():
    x = helix(256, 48, 16, 0.05)
    x[0] += 4
    assert period(path(x), 0)[0]["period"] == pytest.approx(16, rel=0.03)
    assert period(np.zeros((31, 3)), 0) == ({}, "31 positions are too few")
    assert period(np.linspace(0, 1, 64)[:, None] * np.ones(3), 0) == ({}, "the path is a straight line")


@pytest.mark.parametrize("name", NOISE)
def test_noise_has_no_period(name):
    generator = np.random.default_rng(1)
    result = [period(path(NOISE[name](generator, 192, 32)), 0) for _ in range(40)]
    assert sum("period" in facts for facts, _ in result) <= 2
    assert all(("period" in facts) != bool(reason) for facts, reason in result)


@pytest.mark.parametrize("together", [7, 1000])
def test_cosines_by_offset(together, monkeypatch):
    monkeypatch.setattr(of_positions, "_TOGETHER", together)
    x = np.random.default_rng(0).normal(size=(40, 6))
    x[7] = np.nan
    unit = x / np.linalg.norm(x, axis=1)[:, None]
    result = of_positions.by_offset(unit)
    assert [o.distance for o in result] == list(range(1, 40))
    for o in result:
        true = (unit @ unit.T).diagonal(o.distance)
        expected = np.isfinite(true).sum(), np.nanmean(true), np.nanstd(true)
        assert (o.n, o.cosine, o.sd) == pytest.approx(expected, abs=1e-12)


def test_the_picture_shows_the_first_positions_without_gaps():
    shown = list(of_positions.heat(np.eye(300)))
    assert [(cell.position_a, cell.position_b) for cell in shown] == [(a, b) for a in range(96) for b in range(96)]
    assert [cell.cosine for cell in shown[:97]] == [1.0] + [0.0] * 96
    assert len(list(of_positions.heat(np.eye(5)))) == 25


def test_a_report_of_positions():
    table = torch.from_numpy(helix(128, 24, 16, 0.02).astype(np.float32))
    result, x = by_kind(positions(table, 0)), table.double().numpy()
    expected = {"norm": x, "step_length": np.diff(x, axis=0), "mean_distance": x - x.mean(0)}
    for name, vector in expected.items():
        read = np.array([getattr(row, name) for row in result[vocabulary.PositionVector]], dtype=float)
        assert np.isnan(read[: 128 - len(vector)]).all()  # no step leads to the first
        np.testing.assert_allclose(read[128 - len(vector) :], np.linalg.norm(vector, axis=1))
    components = np.array([[row.pc1, row.pc2, row.pc3] for row in result[vocabulary.PositionVector]], dtype=float)
    np.testing.assert_allclose(np.abs(components), np.abs(path(x)), atol=1e-5)
    assert {row.fact: row.value for row in result[vocabulary.VocabularyFact]}["period"] == pytest.approx(16, rel=0.02)
    # A helix has a cosine that depends on the offset, with the helix's period.
    assert max(result[vocabulary.PositionOffset][8:24], key=lambda row: row.cosine).distance in (15, 16, 17)


def test_equal_and_zero_positions():
    tables = torch.ones(64, 4), torch.zeros(64, 4), torch.randn(1, 4), torch.randn(2, 4)
    ones, zero, one, two = (by_kind(positions(table, 0)) for table in tables)
    (fact,) = ones[vocabulary.VocabularyFact]
    assert (fact.fact, fact.value, fact.said) == ("period", None, "all position vectors are equal")
    assert ones[vocabulary.PositionOffset][0].cosine == pytest.approx(1)
    assert not zero[vocabulary.PositionOffset]
    assert (
        {row.mean_cosine for row in zero[vocabulary.PositionVector]}
        == {row.cosine for row in zero[vocabulary.PositionCosine]}
        == {None}
    )
    assert len(one[vocabulary.PositionVector]) == 1 and [row.n for row in two[vocabulary.PositionOffset]] == [1]
