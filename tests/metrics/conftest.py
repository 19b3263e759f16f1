"""Small models of families with random weights, loaded once for all tests of a session, and what metrics see."""

from functools import cache

import pytest
from oracles.families import build_family, loaded

from reporter.forward.observed import Observed


@pytest.fixture(scope="session")
def family_model(tmp_path_factory):
    """Return a function that loads a small random model of a family."""
    return cache(lambda name, **options: loaded(build_family(name, tmp_path_factory.mktemp("family"), **options)))


@pytest.fixture
def see(observe):
    """Return a function that measures a made-up model and returns what a metric sees."""

    def run(model, texts, view="text tokens", **options):
        observables, counts = observe(model, texts, **options)
        return Observed(observables, observables["moments"].layout, counts.distinct_texts, view, 0)

    return run
