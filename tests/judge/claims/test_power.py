"""What would decide an inconclusive claim, against simulation."""

from __future__ import annotations

import re

import numpy as np
import pytest

from reporter.judge.claims import power
from reporter.judge.points import LEVEL, Estimates, Finding, Inequality, over_models


def _said(estimates: Estimates, models: int, tested: int) -> str:
    part = Inequality("the gap", estimates, 0.1)
    return power(Finding(0.5, 0.5, 0.0, part=part, models=models), tested)


@pytest.mark.parametrize("tested", [1, 8])
@pytest.mark.parametrize("models", [0, 3, 4, 12])
def test_the_effect_that_it_says_is_shown_in_80_percent_of_studies(models, tested):
    error, repetitions = 0.5, 4000
    known = np.array([error])
    own = Estimates(np.zeros(1), known, models - 1 if models else np.inf, None if models else known)
    at = float(re.search(r"is really > ([0-9.]+)", _said(own, models, tested))[1])
    rng = np.random.default_rng(models)
    if models:
        values = at + error * np.sqrt(models) * rng.standard_normal((repetitions, models, 1))
        found = over_models(values, None, 1.0)
    else:
        found = Estimates(at + error * rng.standard_normal((repetitions, 1)), known, np.inf, known)
    shown = (found.above(0.1) <= LEVEL / tested).mean()
    assert shown == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("tested", [1, 8])
def test_so_many_models_as_it_says_decide_in_80_percent_of_studies(tested):
    gap, sd = 0.3, 0.25
    own = Estimates(np.array([0.1 + gap]), np.array([sd / np.sqrt(3)]), 2)
    models = int(re.search(r"about ([0-9]+) independent models", _said(own, 3, tested))[1])
    rng = np.random.default_rng(models)
    values = 0.1 + gap + sd * rng.standard_normal((4000, models, 1))
    shown = (over_models(values, None, 1.0).above(0.1) <= LEVEL / tested).mean()
    assert 0.77 <= shown <= 0.93, "the first whole number of models at which it is 80 %"
