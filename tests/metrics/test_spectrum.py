"""The curve of a spectrum: its rows, and what fewer tokens than dimensions leave of it."""

import numpy as np
import pytest
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts

from reporter.metrics.base import catalogue
from reporter.metrics.spectrum import Eigenvalue
from reporter.models.places import Place


def curve(seen, place):
    metric = catalogue()["spectrum"]
    rows = metric.compute(seen, metric.options())
    return [row for row in rows if isinstance(row, Eigenvalue) and row.place == place]


def test_the_curve_sums_to_one_and_falls(see):
    seen = see(FakeModel(layers=2), made_up_texts(40))
    for place in seen.places:
        rows, values = curve(seen, place), np.linalg.eigvalsh(seen.covariance(place))[::-1]
        assert [row.rank for row in rows] == list(range(1, 17)) and {row.n for row in rows} == {seen.tokens}
        assert [row.value for row in rows] == pytest.approx(list(values / values.sum()), rel=1e-6, abs=1e-12)


def test_fewer_tokens_than_dimensions(see):
    """What rounding makes of the directions that n tokens do not span is no part of the spectrum."""
    seen = see(FakeModel(special=False, sinks=False), FakeTexts(["1 2 3 4 5", "7 8 9"]))
    assert [row.rank for row in curve(seen, Place("block", 1))] == list(range(1, 8))
