"""A model against its base: whatever has replicates over texts is compared with paired ones, and they are paired."""

from __future__ import annotations

import pytest
from oracles.fake_model import FakeModel, made_up_texts

from reporter.metrics._intervals import BOOTSTRAP
from reporter.metrics.registry import catalogue
from reporter.observables.observed import Observed

TEXTS = 40
PAIRED = {name: m for name, m in catalogue().items() if m.between and "base" in m.between.of and not m.between.own}


@pytest.fixture(scope="module")
def texts():
    return made_up_texts(TEXTS, shortest=4)


@pytest.fixture
def side(observe, texts):
    """Return a function that measures a made-up model; the weights of two seeds differ, the texts do not."""

    def get(seed=0, **options):
        observables, counts = observe(FakeModel(role="decoder", seed=seed, **options), texts)
        return Observed(observables, observables["moments"].layout, counts.distinct_texts, "words", 0)

    return get


def test_every_headline_with_replicates_over_texts_is_compared():
    def by_replicates(of_metric):
        return [s for s in of_metric.statistics if s.headline and s.interval.startswith(BOOTSTRAP)]

    assert {name for name, m in catalogue().items() if by_replicates(m)} <= set(PAIRED)


@pytest.mark.parametrize("name", PAIRED)
def test_a_difference_is_that_of_the_two_numbers(name, side):
    metric, a, b = PAIRED[name], side(0), side(1)
    options = metric.options()
    mine, theirs = ({(v.statistic, v.place): v for v in metric.compute(one, options)} for one in (a, b))
    found = list(metric.between.compare(a, b, options))
    headlines = {s.name for s in metric.statistics if s.headline and s.interval.startswith(BOOTSTRAP)}
    on_path = {key for key in mine if key[0] in headlines and (key[1] is None or key[1] in a.path)}
    assert on_path <= {(one.statistic, one.place) for one in found}
    for one in found:
        here, there = mine[one.statistic, one.place], theirs[one.statistic, one.place]
        if one.value is None:
            assert here.value is None or there.value is None
            continue
        assert one.value == pytest.approx(here.value - there.value, rel=1e-9, abs=1e-12)
        assert one.ci_low is None or one.ci_low <= one.ci_high


@pytest.mark.parametrize("name", PAIRED)
def test_a_model_against_itself_is_no_difference_at_all(name, side):
    metric, a = PAIRED[name], side(0)
    found = [one for one in metric.between.compare(a, a, metric.options()) if one.value is not None]
    assert found
    assert {one.value for one in found} == {0.0}
    assert {(one.ci_low, one.ci_high) for one in found if one.ci_low is not None} == {(0.0, 0.0)}


@pytest.mark.parametrize("name", PAIRED)
def test_a_shallower_model_is_compared_where_both_have_layers(name, side):
    metric = PAIRED[name]
    found = list(metric.between.compare(side(0, layers=2), side(0), metric.options()))
    assert all(one.value is not None or one.reason for one in found)
    assert {one.place.layer for one in found if one.place is not None} <= {0, 1, 2}
