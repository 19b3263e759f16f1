"""Small models of families with random weights, loaded once for all tests of a session, and what metrics see."""

import pytest
from oracles.families import build_family, loaded

from reporter.forward.observed import Observed


@pytest.fixture(scope="session")
def family_model(tmp_path_factory):
    """Return a function that loads a small random model of a family."""
    models = {}

    def get(name, **options):
        key = f"{name} {options}"
        if key not in models:
            models[key] = loaded(build_family(name, tmp_path_factory.mktemp("family"), **options))
        return models[key]

    return get


@pytest.fixture
def see(observe):
    """Return a function that measures a made-up model and returns what a metric sees."""

    def run(model, texts, view="words", **options):
        observables, counts = observe(model, texts, **options)
        return Observed(observables, observables["moments"].layout, counts.distinct_texts, view, 0)

    return run
