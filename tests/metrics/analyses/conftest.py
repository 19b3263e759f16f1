"""Contexts for analyses: small models with random weights, and vectors that a test makes up itself."""

from types import SimpleNamespace
from zlib import crc32

import numpy as np
import pytest
from metrics.reading import assert_within_bounds, by_kind, numbers

from reporter.metrics.analysis import Context, analyses, default_pooling
from reporter.metrics.base import Value
from reporter.models.places import Layout


@pytest.fixture
def of_family(family_model):
    """Return a function that makes the context of a family's model, with its final state."""

    def get(name, corpora=None, pooling=None):
        anatomy = family_model(name).anatomy
        layout, pooling = Layout.of(anatomy, ("final",)), pooling or default_pooling(anatomy.role)
        return Context(family_model(name), layout, pooling, corpora or {}, 0)

    return get


def words_are_tokens(texts, **_):
    ids = [[crc32(word.encode()) for word in text.split()] for text in texts]
    return {"input_ids": ids, "special_tokens_mask": [[0] * len(one) for one in ids]}


@pytest.fixture
def made_up(monkeypatch):
    """Return a function that makes a context in which texts have the vectors that a test gives them, at two places."""

    def get(vector_of, corpora=None, seed=0):
        def pooled_by(texts, context, poolings, *_, **__):
            at = {place: np.stack([vector_of(text, place) for text in texts]) for place in context.layout.places}
            return dict.fromkeys(poolings, at)

        monkeypatch.setattr("reporter.metrics._items.pooled_by", pooled_by)
        anatomy = SimpleNamespace(max_tokens=None)
        model = SimpleNamespace(tokenizer=words_are_tokens, anatomy=anatomy, checkpoint=SimpleNamespace(folder=None))
        return Context(model, Layout(1, 4), "mean", corpora or {}, seed)

    return get


@pytest.fixture
def computed():
    """Return a function that computes an item: its values by statistic and place, checked, and rows by table."""

    def get(name, item, context):
        analysis = analyses()[name]
        found = list(analysis.compute(item, context))
        values = {(row.statistic, row.place): row for row in numbers(found).values()}
        for (name, _), row in values.items():
            of = analysis.statistic(name.removesuffix("_floor"))
            assert_within_bounds(of, row)
            assert row.ci_low is None or (of.interval and not name.endswith("_floor")), row
            assert row.value is None or not row.reason, row
        rows = {kind.table.name: of for kind, of in by_kind(found).items() if kind is not Value}
        assert rows.keys() <= {kind.table.name for kind in analysis.tables}
        declared, named = {s.name for s in analysis.statistics}, {name for name, _ in values}
        assert declared <= named <= declared | {f"{s.name}_floor" for s in analysis.statistics if s.floor}
        for name in declared:
            assert {place for of, place in values if of == name} == set(context.layout.places)
        return values, rows

    return get
