"""Which token types the scatter shows; test_contract.py has the numbers."""

from collections import Counter

from oracles.fake_model import FakeModel, made_up_texts

from reporter.metrics.base import catalogue
from reporter.metrics.variance import TokenType, VarianceOptions


def test_types_for_the_scatter_are_the_most_frequent_first(see):
    metric, texts = catalogue()["variance"], made_up_texts(80)
    seen = see(FakeModel(special=False, sinks=False), texts, names=("moments", *metric.needs))
    of = {n: [r for r in metric.compute(seen, VarianceOptions(scatter=n)) if isinstance(r, TokenType)] for n in (0, 7)}
    counts = Counter(2 + int(word) for text in texts for word in text.split())
    expected = sorted(counts, key=lambda i: (-counts[i], i))[:7]
    assert [row.token_id for row in of[7] if row.place.layer == 2] == expected
    assert len(of[7]) == 7 * 4 and of[0] == []
    assert all(row.count == counts[row.token_id] and row.token == f"t{row.token_id}" for row in of[7])
