import numpy as np
import pytest
from oracles.fake_model import FakeModel, made_up_texts

from reporter.forward.observed import Observed
from reporter.geometry import noise
from reporter.metrics.base import catalogue
from reporter.metrics.variance import TokenType, VarianceOptions


def types_of(observables, view="words", **options):
    seen = Observed(observables, observables["type_moments"].layout, 80, view, 0)
    found = catalogue()["variance"].compute(seen, VarianceOptions(**options))
    return [row for row in found if isinstance(row, TokenType)]


@pytest.mark.parametrize(("n", "types", "d"), [(60, 6, 5), (40, 39, 3), (12, 2, 1)])
def test_the_floor_is_that_of_types_that_mean_nothing(n, types, d):
    rng = np.random.default_rng(1)
    direct = []
    for _ in range(300):
        x = rng.standard_normal((n, d))
        which = np.concatenate([np.arange(types), rng.integers(0, types, n - types)])
        x -= x.mean(axis=0)
        between = sum((which == t).sum() * np.square(x[which == t].mean(axis=0)).sum() for t in range(types))
        direct.append(between / np.square(x).sum())
    drawn = [noise.between_share(n, types, d, seed) for seed in range(300)]
    error = np.hypot(np.std(direct), np.std(drawn)) / np.sqrt(300)
    assert abs(np.mean(drawn) - np.mean(direct)) < 4 * error
    assert np.mean(drawn) == pytest.approx((types - 1) / (n - 1), abs=4 * error)
    assert noise.between_share(n, 1, d, 0) == 0 and noise.between_share(n, n, d, 0) == 1


def test_types_for_the_scatter_are_the_most_frequent_first(observe):
    texts = made_up_texts(80)
    observables, _ = observe(FakeModel(special=False, sinks=False), texts)
    rows = types_of(observables, scatter=7)
    counts = {}
    for text in texts:
        for word in text.split():
            counts[2 + int(word)] = counts.get(2 + int(word), 0) + 1
    expected = sorted(counts, key=lambda i: (-counts[i], i))[:7]
    assert [row.token_id for row in rows if row.place.layer == 2] == expected
    assert len(rows) == 7 * 4
    assert all(row.count == counts[row.token_id] and row.token == f"t{row.token_id}" for row in rows)
    assert types_of(observables, scatter=0) == []
