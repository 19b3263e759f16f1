"""Contexts for analyses: small models with random weights, and vectors that a test makes up itself."""

from types import SimpleNamespace

import numpy as np
import pytest

from reporter.metrics.analysis import Context, default_pooling
from reporter.metrics.base import Value
from reporter.models.places import Layout


@pytest.fixture
def of_family(family_model):
    """Return a function that makes the context of a family's model at all its sites."""

    def get(name, corpora=None, pooling=None, sites=("final",), seed=0):
        model = family_model(name)
        layout = Layout.of(model.anatomy, sites)
        return Context(model, layout, pooling or default_pooling(model.anatomy.role), corpora or {}, seed)

    return get


class WordTokenizer:
    """Each word is a token; an empty text has none."""

    def __call__(self, texts, **_):
        ids = [[1] * len(text.split()) for text in texts]
        return {"input_ids": ids, "special_tokens_mask": [[0] * len(one) for one in ids]}


@pytest.fixture
def made_up(monkeypatch):
    """Return a function that makes a context in which texts have the vectors that a test gives them, at two places."""

    def get(vector_of, corpora=None, seed=0):
        def pooled(texts, context, max_tokens=None, what="texts"):
            return {place: np.stack([vector_of(text, place) for text in texts]) for place in context.layout.places}

        def pooled_by(texts, context, poolings, max_tokens=None, what="texts"):
            return {pooling: pooled(texts, context) for pooling in poolings}

        monkeypatch.setattr("reporter.metrics._items.pooled", pooled)
        monkeypatch.setattr("reporter.metrics._items.pooled_by", pooled_by)
        model = SimpleNamespace(tokenizer=WordTokenizer(), anatomy=SimpleNamespace(max_tokens=None))
        return Context(model, Layout(1, 4), "mean", corpora or {}, seed)

    return get


@pytest.fixture
def computed():
    """Return a function that computes an item: its values by statistic and place, checked, and rows by table."""

    def get(analysis, item, context):
        values, rows = {}, {}
        for row in analysis.compute(item, context):
            if isinstance(row, Value):
                assert (row.statistic, row.place) not in values, row
                sane(analysis, row)
                values[row.statistic, row.place] = row
            else:
                assert type(row) in analysis.tables
                rows.setdefault(row.table.name, []).append(row)
        floors = {f"{s.name}_floor" for s in analysis.statistics if s.floor}
        names = {name for name, _ in values}
        assert names - floors == {s.name for s in analysis.statistics} and names <= names | floors
        for name in names - floors:
            assert {place for of, place in values if of == name} == set(context.layout.places)
        return values, rows

    return get


def sane(analysis, row):
    """A value is a finite number within its bounds and its interval, or has a reason."""
    of = analysis.statistic(row.statistic.removesuffix("_floor"))
    numbers = [x for x in (row.value, row.ci_low, row.ci_high) if x is not None]
    assert all(type(x) is float and np.isfinite(x) for x in numbers), row
    assert (row.value is None) == bool(row.reason) and type(row.n) is int, row
    low, high = of.bounds
    assert all((low is None or x >= low) and (high is None or x <= high) for x in numbers), row
    assert (row.ci_low is None) == (row.ci_high is None), row
    if row.ci_low is not None:
        assert of.interval and not row.statistic.endswith("_floor"), row
        assert row.ci_low <= row.value <= row.ci_high, row
