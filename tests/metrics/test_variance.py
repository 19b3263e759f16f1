from oracles.fake_model import FakeModel, made_up_texts

from reporter.forward.observed import Observed
from reporter.metrics.base import catalogue
from reporter.metrics.variance import TokenType, VarianceOptions


def types_of(observables, view="words", **options):
    seen = Observed(observables, observables["type_moments"].layout, 80, view, 0)
    found = catalogue()["variance"].compute(seen, VarianceOptions(**options))
    return [row for row in found if isinstance(row, TokenType)]


def test_types_for_the_scatter_are_the_most_frequent_first(observe):
    texts = made_up_texts(80)
    observables, _ = observe(
        FakeModel(special=False, sinks=False), texts, names=("moments", *catalogue()["variance"].needs)
    )
    rows = types_of(observables, scatter=7)
    counts = {}
    for text in texts:
        for word in text.split():
            counts[2 + int(word)] = counts.get(2 + int(word), 0) + 1
    expected = sorted(counts, key=lambda i: (-counts[i], i))[:7]
    assert [row.token_id for row in rows if row.place.layer == 2] == expected
    assert len(rows) == 7 * 4
    assert all(row.count == counts[row.token_id] and row.token == f"t{row.token_id}" for row in rows)
    assert types_of(observables, scatter=0) == []
