"""The curve of a spectrum: its rows, and what fewer tokens than dimensions leave of it."""

import numpy as np
import pytest
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts

from reporter.forward.observed import Observed
from reporter.metrics.base import catalogue
from reporter.metrics.spectrum import Eigenvalue
from reporter.models.places import Place


def computed(observables, layout, texts, view="words"):
    metric = catalogue()["spectrum"]
    return list(metric.compute(Observed(observables, layout, texts, view, 0), metric.options()))


def test_the_curve_sums_to_one_and_falls(observe, view="words"):
    model = FakeModel(layers=2)
    observables, _ = observe(model, made_up_texts(40))
    layout = observables["moments"].layout
    seen = Observed(observables, layout, 40, view, 0)
    rows = [row for row in computed(observables, layout, 40, view) if isinstance(row, Eigenvalue)]
    for place in layout.places:
        curve = [row for row in rows if row.place == place]
        assert [row.rank for row in curve] == list(range(1, model.width + 1))
        values = [row.value for row in curve]
        assert sum(values) == pytest.approx(1) and values == sorted(values, reverse=True)
        expected = np.linalg.eigvalsh(seen.covariance(place))[::-1]
        assert values == pytest.approx(list(expected / expected.sum()), rel=1e-6, abs=1e-12)
        assert {row.n for row in curve} == {seen.tokens}


def test_fewer_tokens_than_dimensions(observe):
    """What rounding makes of the directions that n tokens do not span is no part of the spectrum."""
    observables, counts = observe(FakeModel(special=False, sinks=False), FakeTexts(["1 2 3 4 5", "7 8 9"]))
    assert counts.tokens == 8
    rows = computed(observables, observables["moments"].layout, 2)
    curve = [row.rank for row in rows if isinstance(row, Eigenvalue) and row.place == Place("block", 1)]
    assert curve == list(range(1, 8))
