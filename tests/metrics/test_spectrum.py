"""Ranks, exponent and curve of a spectrum: closed forms, and the curve's rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.anisotropy import isoscore as by_algorithm
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts

from reporter.forward.places import Layout, Place
from reporter.metrics import _spectra
from reporter.metrics.registry import catalogue
from reporter.metrics.spectrum import Eigenvalue
from reporter.observables.observed import Observed


@pytest.mark.parametrize("d", [1, 2, 7, 300])
def test_equal_eigenvalues_are_d_dimensions(d):
    found = np.full(d, 3.5)
    for rank in (_spectra.effective_rank, _spectra.participation_ratio, _spectra.stable_rank):
        assert rank(found) == pytest.approx(d)
    if d > 1:
        assert _spectra.isoscore(found, d) == pytest.approx(1)
    if d >= 6:
        assert _spectra.decay(found, d) == pytest.approx(0)


def test_one_eigenvalue_is_one_dimension():
    for found in (np.array([2.0]), np.array([2.0, 0.0, 0.0])):
        for rank in (_spectra.effective_rank, _spectra.participation_ratio, _spectra.stable_rank):
            assert rank(found) == pytest.approx(1)
        assert _spectra.isoscore(found, 3) == pytest.approx(0)


def test_ranks_keep_their_order():
    rng = np.random.default_rng(0)
    for _ in range(50):
        found = np.sort(rng.exponential(size=20) ** rng.integers(1, 5))[::-1]
        ranks = [rank(found) for rank in (_spectra.effective_rank, _spectra.participation_ratio, _spectra.stable_rank)]
        assert 20 >= ranks[0] >= ranks[1] >= ranks[2] >= 1


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("d", [6, 50, 768])
def test_a_power_law_gives_its_exponent(alpha, d):
    found = 7 * np.arange(1, d + 1) ** -alpha
    assert _spectra.decay(found, d) == pytest.approx(alpha, abs=1e-12)
    # The lower half is not read, nor what is not there.
    found[d // 2 :] = 1e-9 * found[-1]
    assert _spectra.decay(found, d) == pytest.approx(alpha, abs=1e-12)
    assert _spectra.decay(found[:3], d) == pytest.approx(alpha, abs=1e-12)
    assert _spectra.decay(found[:2], d) is None


@pytest.mark.parametrize(("n", "d"), [(500, 2), (300, 10), (5, 10), (60, 40)])
def test_isoscore_is_what_the_papers_algorithm_returns(n, d):
    rng = np.random.default_rng(n)
    for power in (0, 1, 3):
        x = rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -power @ rng.standard_normal((d, d)) + 5
        found = np.linalg.eigvalsh(np.cov(x.T, bias=True))[::-1].clip(0)
        assert _spectra.isoscore(found, d) == pytest.approx(by_algorithm(x), rel=1e-9, abs=1e-12)


def test_the_algorithm_itself_keeps_its_limits():
    cross = np.concatenate([np.eye(6), -np.eye(6)])
    assert by_algorithm(cross) == pytest.approx(1)
    assert by_algorithm(np.outer(np.arange(9.0), np.ones(6))) == pytest.approx(0, abs=1e-12)
    # The paper's property: k of d dimensions used alike read (k − 1)/(d − 1).
    assert by_algorithm(cross * [1, 1, 1, 0, 0, 0]) == pytest.approx(2 / 5)


@pytest.mark.parametrize("count", [1, 511, 512, 513, 768, 4096, 16384])
def test_the_curve_is_thinned_where_it_is_long(count):
    ranks = _spectra.thinned(count)
    assert ranks[0] == 1 and ranks[-1] == count and (np.diff(ranks) > 0).all()
    if count <= 512:
        assert len(ranks) == count
    else:
        assert len(ranks) <= 257 and list(ranks[:64]) == list(range(1, 65))
        beyond = ranks[63:]
        assert (np.diff(np.log(beyond)) < 0.05).all()


def computed(observables, layout, texts, view="words"):
    metric = catalogue()["spectrum"]
    return list(metric.compute(Observed(observables, layout, texts, view, 0), metric.options()))


@pytest.mark.parametrize("view", ["words", "all", "no-sinks"])
def test_the_curve_sums_to_one_and_falls(observe, view):
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


def test_singular_values_are_less_uneven_than_their_squares(observe):
    observables, _ = observe(FakeModel(layers=2), made_up_texts(60))
    found = numbers(observables, observables["moments"].layout, 60)
    for layer in range(3):
        assert found["effective_rank_singular", layer] > found["effective_rank", layer] >= 1


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
