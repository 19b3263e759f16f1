"""The rules on simulated numbers of known truth: how often each is wrong, and how often it finds what is there.

A few repetitions of what ``python tests/oracles/claim_calibration.py 1000`` counts for the tables of the README.
"""

import re

import numpy as np
import pytest
from oracles import claim_calibration as oracle
from oracles.claim_calibration import FORMS, HILLS, LEVELS, RELATED, TRUE, rare_tokens, rates, worst

from reporter.geometry.intervals import VERDICT_TEXTS
from reporter.geometry.statistics import holm
from reporter.judge.claims import power
from reporter.judge.estimates import Estimates, over_models
from reporter.judge.judging import corrected
from reporter.judge.outcomes import LEVEL, Inequality, Outcome

PERCENT = 0.05
"""No allowance for chance: the aim is 2.5 %, the seeds are fixed, and a thousand repetitions read 3.3 % at most."""
FEW, MANY = 20, 60


def unknown(values):
    """Numbers without errors over texts."""
    return Estimates.of_texts(values, np.full(values.shape, np.inf))


@pytest.mark.parametrize(("models", "interval"), [(1, True), (1, False), (3, True), (3, False), (RELATED[0], False)])
def test_a_shape_that_is_not_so_is_supported_in_at_most_five_percent(models, interval):
    rates = {name: worst(name, models, interval, FEW if name in HILLS else MANY, levels=LEVELS[-1:]) for name in TRUE}
    assert max(rates.values()) <= PERCENT, rates
    if not interval and models in (1, *RELATED):
        assert set(rates.values()) == {0.0}, "nothing is known, so nothing is supported"


@pytest.mark.parametrize("models", [1, 3])
def test_a_shape_that_is_so_is_refuted_in_at_most_five_percent(models):
    rates = {name: worst(name, models, True, FEW, true=True, side=1) for name in TRUE}
    assert max(rates.values()) <= PERCENT, rates


def test_hills_of_layers_that_go_up_and_down_together_are_shown_and_no_others():
    for name in HILLS:
        assert worst(name, 1, True, FEW, levels=LEVELS[-1:], paired=True) <= PERCENT
        assert worst(name, 1, True, FEW, true=True, side=1, paired=True) <= PERCENT
        assert rates(name, "bell", LEVELS[-1], "shared", 1, True, FEW, paired=True)[0] >= 0.6
        assert rates(name, "bell", LEVELS[-1], "shared", 1, True, FEW)[0] == 0  # bounds take the layers apart


@pytest.mark.parametrize("is_", ["above", "below", "different", "same"])
@pytest.mark.parametrize(("models", "interval"), [((1, 1), True), ((2, 6), False), ((3, 3), True), ((12, 12), False)])
def test_a_difference_that_is_not_there_is_seldom_seen(is_, models, interval):
    rate = oracle.differ(is_, models, interval, MANY)
    assert rate <= PERCENT
    assert rate == 0 or interval or min(models) > 2


@pytest.mark.parametrize("is_", ["positive", "negative", "none"])
@pytest.mark.parametrize(("over", "models"), [("layers", 1), ("layers", 3), ("types", 3), ("models", 6)])
def test_a_relation_that_is_not_there_is_seldom_seen(is_, over, models):
    assert oracle.relation(is_, over, models, MANY) <= PERCENT


@pytest.mark.parametrize("form", ["above", "below", "between", "within"])
def test_a_value_out_of_bounds_seldom_seems_inside(form):
    assert oracle.value(form, 4 * MANY) <= PERCENT


@pytest.mark.parametrize("form", FORMS)
def test_with_few_skewed_texts_each_verdict_is_wrong_in_at_most_two_and_a_half_percent(form):
    """``different`` has two sides. A rate of 2.5 % in 400 repetitions has a standard error of 0.8."""
    assert min(oracle.COUNTS) == VERDICT_TEXTS
    repetitions, aim = 400, 0.05 if form.endswith("different") else 0.025
    for texts, spread in ((12, 1.0), (50, 0.5), (20, 1.0)):
        supported, refuted = oracle.few_texts(form, texts, repetitions, spread)
        assert max(supported, refuted) <= aim + 2 * (aim / repetitions) ** 0.5, (texts, spread)


@pytest.mark.parametrize("of", ["value", "difference"])
def test_intervals_over_few_skewed_texts_cover(of):
    for texts, spread in ((12, 0.5), (20, 1.0), (50, 1.0), (100, 0.5)):
        assert 0.94 <= oracle.covered(texts, 2000, spread, of) <= 0.995, (texts, spread)


# How often the claim is supported, and how often the opposite profile is refuted, at noise of this part of the range
# (one model), independent from point to point.
POWER = {
    "bell": [("bell", 0.05, 0.9), ("U", 0.05, 0.9)],
    "rise-then-fall": [("bell", 0.05, 0.6), ("U", 0.05, 0.6)],
    "peak-at": [("bell", 0.05, 0.9), ("U", 0.05, 0.9)],
    "flat": [("flat", 0.05, 0.9), ("plateau", 0.05, 0.9)],
    "increasing": [("linear", 0.02, 0.9), ("falls at first", 0.01, 0.75)],  # where no step can hide a fall
}


@pytest.mark.parametrize("name", POWER)
def test_what_is_so_is_found_and_its_opposite_refuted(name):
    for side, (profile, noise, least) in enumerate(POWER[name]):
        assert rates(name, profile, noise, "independent", 1, True, FEW)[side] >= least


def advice(estimates, models, tested):
    """What would decide an inconclusive claim."""
    return power(Outcome(0.5, 0.5, 0.0, part=Inequality("the gap", estimates, 0.1), models=models), tested)


@pytest.mark.parametrize("tested", [1, 8])
@pytest.mark.parametrize("models", [0, 3, 12])
def test_the_effect_that_the_advice_names_is_shown_in_80_percent_of_studies(models, tested):
    error, repetitions = 0.5, 2000
    known = np.array([error])
    estimates = Estimates(np.zeros(1), known, models - 1 if models else np.inf, None if models else known)
    at = float(re.search(r"verdict if [^;]* > ([0-9.]+)", advice(estimates, models, tested))[1])
    noise = error * np.random.default_rng(models).standard_normal((repetitions, max(models, 1), 1))
    if models:
        simulated = over_models(unknown(at + np.sqrt(models) * noise), 1.0)
    else:
        simulated = Estimates(at + noise[:, 0], known, np.inf, known)
    assert (simulated.above(0.1) <= LEVEL / tested).mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("tested", [1, 8])
def test_as_many_models_as_the_advice_names_decide_in_80_percent_of_studies(tested):
    gap, sd = 0.3, 0.25
    estimates = Estimates(np.array([0.1 + gap]), np.array([sd / np.sqrt(3)]), 2)
    models = int(re.search(r"about ([0-9]+) independent models", advice(estimates, 3, tested))[1])
    values = 0.1 + gap + sd * np.random.default_rng(models).standard_normal((4000, models, 1))
    shown = (over_models(unknown(values), 1.0).above(0.1) <= LEVEL / tested).mean()
    assert 0.77 <= shown <= 0.93, "the first whole number of models at which it is 80 %"


def test_several_claims_are_corrected_by_holm_and_a_single_one_is_its_95_percent_interval():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # a textbook's
    assert holm([0.02, 0.02, 0.7]) == pytest.approx([0.06, 0.06, 0.7]) and holm([0.6, 0.7]) == [1, 1] and holm([]) == []
    assert [corrected([sides]) for sides in ((0.02, 0.98), (0.98, 0.02), (0.3, 0.7))] == [[0.04], [0.04], [0.6]]


@pytest.mark.parametrize("texts", [12, 50])
def test_a_limit_on_a_mean_that_rare_giant_tokens_decide_is_not_supported_by_texts_without_them(texts):
    supported, refuted = rare_tokens(texts, 400)
    assert supported <= PERCENT and refuted <= PERCENT
