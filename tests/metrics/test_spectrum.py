"""Ranks, exponent and curve of a spectrum: closed forms, and the curve's rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts

from reporter.forward.observed import Observed
from reporter.metrics.base import catalogue
from reporter.metrics.spectrum import Eigenvalue
from reporter.models.places import Layout, Place


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


def numbers(observables, layout, texts):
    return {
        (row.statistic, row.place.layer): row.value
        for row in computed(observables, layout, texts)
        if not isinstance(row, Eigenvalue)
    }


@pytest.mark.parametrize("offset", [0.0, 3.0, 300.0])
def test_a_common_mean_moves_rankme_alone(observe, offset):
    """Against the singular values of a matrix with a mean of any length; equal singular values are d dimensions."""
    generator = torch.Generator().manual_seed(3)
    seen = []

    def noise(states):
        seen.append(torch.randn(states[0].shape, generator=generator))
        return [seen[-1] + offset for _ in states]

    observables, _ = observe(FakeModel(special=False, sinks=False, change=noise), made_up_texts(200))
    found = numbers(observables, observables["moments"].layout, 200)
    n, d = observables["gram"].count[1, 0], 16
    # d equal singular values but for one, √n·|offset|·√d longer: p of the others is 1/(d − 1 + √(1 + d·offset²)).
    other = 1 / (d - 1 + np.sqrt(1 + d * offset**2))
    first = 1 - (d - 1) * other
    expected = np.exp(-(d - 1) * other * np.log(other) - first * np.log(first))
    assert n > 1000
    assert found["rankme", 1] == pytest.approx(expected, rel=0.01)
    assert found["effective_rank_singular", 1] == pytest.approx(d, rel=0.01)
    assert found["rankme_floor", 1] == pytest.approx(found["effective_rank_singular_floor", 1], rel=0.01)


def test_states_on_a_line(observe):
    """One dimension: every rank is 1, and no line can be laid through one eigenvalue."""
    model = FakeModel(special=False, sinks=False, change=lambda states: [x[..., :1] * torch.ones(16) for x in states])
    observables, _ = observe(model, made_up_texts(40))
    found = {
        (row.statistic, row.place.layer): row
        for row in computed(observables, Layout(3, 16), 40)
        if not isinstance(row, Eigenvalue)
    }
    for layer in range(4):
        for name in ("effective_rank", "participation_ratio", "stable_rank"):
            assert found[name, layer].value == pytest.approx(1, abs=1e-4)
            assert found[f"{name}_floor", layer].value > 3
        assert found["rankme", layer].value == pytest.approx(1, abs=0.01)
        assert found["decay", layer].value is None or found["decay", layer].value > 5
