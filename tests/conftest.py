"""Shared by several folders: ``tests/oracles`` can be imported, and a fake model can be measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # so that tests say ``from oracles.twonn import twonn``


@pytest.fixture
def observe(monkeypatch):
    """Return a function that sends texts through a model and returns its observables and counts."""
    from reporter.forward.measure import Counts, Settings, measure
    from reporter.observables.kinds import KINDS, empty

    def run(
        model,
        texts,
        *,
        batch_tokens=512,
        shard_characters=None,
        sample=100_000,
        seed=0,
        max_tokens=256,
        names=tuple(KINDS),
        observables=None,
        first_shard=0,
        shards=None,
    ):
        """Measure ``shards`` shards (None: all) from ``first_shard`` on into ``observables`` or fresh ones."""
        monkeypatch.setattr("reporter.texts.tokens.SHARD_CHARACTERS", shard_characters or 10**9)
        anatomy = model.anatomy
        if observables is None:
            observables = {
                name: empty(name, layers=anatomy.layers, width=anatomy.width, seed=seed, sample=sample)
                for name in names
            }
        counts = Counts()
        settings = Settings(max_tokens, batch_tokens, seed, "float32")
        steps = measure(model, texts, list(observables.values()), settings, first_shard)
        for done, (_, more) in enumerate(steps, 1):
            counts = counts + more
            if done == shards:
                break
        return observables, counts

    return run


@pytest.fixture
def values():
    """Return a function that computes metrics as {(name, layer): Value} and checks each for plain sanity."""
    import numpy as np

    from reporter.metrics.registry import catalogue
    from reporter.observables.observed import Observed

    def run(model, observables, texts, view="words", metrics=None, seed=0, **options):
        anatomy = model.anatomy
        seen = Observed(observables, anatomy.layers, anatomy.width, texts, view, seed)
        found = {}
        for name, metric in catalogue().items():
            if metrics is None or name in metrics:
                for value in metric.compute(seen, metric.options(**options.get(name, {}))):
                    key = (f"{name}.{value.statistic}", value.layer)
                    assert key not in found, f"{key} is yielded twice"
                    numbers = [value.value, value.ci_low, value.ci_high]
                    assert all(type(x) is float and np.isfinite(x) for x in numbers if x is not None), value
                    assert (value.value is None) == bool(value.reason), value
                    assert type(value.n) is int, value
                    assert value.layer is None or type(value.layer) is int, value
                    assert (value.ci_low is None) == (value.ci_high is None), value
                    if value.ci_low is not None:
                        assert value.value is not None and value.ci_low <= value.ci_high, value
                    found[key] = value
        return found

    return run
