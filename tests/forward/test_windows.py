"""A pass over windows, against windows that are cut by hand and sent through the model one at a time."""

import numpy as np
import pytest
from forward.passes import Collector, settings_for
from oracles.fake_model import EDGE, FIRST_WORD, FakeModel, FakeTexts

from reporter.forward.means import poisson_weights
from reporter.forward.measure import measure, tokenised
from reporter.forward.paths import TextSums
from reporter.forward.type_sample import count_types
from reporter.models.places import Layout
from reporter.texts.tokens import Windows

SIZE, STRIDE = 8, 3
TEXTS = [" ".join(str(4 + (7 * i + k) % 30) for i in range(n)) for k, n in enumerate((29, 3, 14, 8, 29, 11))]


def by_hand(model, text):
    """Yield each token of a text once: id, position in its window, special, first, states."""
    words = [FIRST_WORD + int(word) for word in text.split()]
    edges = 1 if model.special else 0
    room, done, start = SIZE - 2 * edges, 0, 0
    if len(words) <= room:
        room = len(words)
    while done < len(words):
        inside = words[start : start + room]
        end = start + len(inside)
        ids = [EDGE] * edges + inside + [EDGE] * edges
        states = np.stack(model.reference(ids))
        for place, token in enumerate(ids):
            word = start + place - edges
            first_edge, last_edge = place < edges, place >= edges + len(inside)
            if (first_edge and start > 0) or (last_edge and end < len(words)):
                continue
            if not first_edge and not last_edge and word < done:
                continue
            yield token, place, first_edge or last_edge, word == start, states[:, place]
        done, start = end, start + STRIDE


@pytest.mark.parametrize(
    ("role", "special", "batch_tokens"),
    [("encoder", True, 8), ("encoder", False, 200), ("decoder", True, 200), ("decoder", False, 8)],
)
def test_a_pass_over_windows_is_what_each_window_gives_alone(role, special, batch_tokens):
    model, texts = FakeModel(role=role, special=special, sinks=False), FakeTexts(TEXTS)
    corpus = tokenised(model, texts, SIZE, windows=Windows(SIZE, STRIDE))
    seen = Collector("originals", "token_ids", "positions", "strata", "first_own")
    ((_, counts),) = measure(model, corpus, [seen], settings_for(model, batch_tokens))
    expected = [(text, *row) for text, said in enumerate(TEXTS) for row in by_hand(model, said)]
    assert counts.texts == len(TEXTS) and counts.cut_texts == 0 and counts.windows == corpus.windows > len(TEXTS)
    words = sum(len(text.split()) for text in TEXTS)
    assert counts.tokens == len(expected) == words + 2 * special * len(TEXTS)
    found = sorted(seen.rows, key=lambda row: (*row[:3], row[5][1].tolist()))
    wanted = sorted(expected, key=lambda row: (*row[:3], row[5][1].tolist()))
    for one, other in zip(found, wanted, strict=True):
        assert one[:3] == other[:3]
        assert (one[3] == 1) == other[3] and (one[3] == 2) == bool(one[4]) == (other[4] and not other[3])
        np.testing.assert_allclose(one[5], other[5], rtol=1e-4, atol=1e-5)
    types = count_types(corpus, model.anatomy.vocabulary_size, 0)
    assert types.counts.sum() == words and types.added.sum() == counts.special


def test_intervals_are_over_documents():
    """Two documents of many windows have two weights each replicate, and no more."""
    model, texts = FakeModel(role="decoder", special=False, sinks=False), FakeTexts(TEXTS[:2])
    corpus = tokenised(model, texts, SIZE, windows=Windows(SIZE, STRIDE))
    sums = TextSums(Layout.of(model.anatomy, ()), 0, replicates=400)
    for _ in measure(model, corpus, [sums], settings_for(model, 64)):
        pass
    counts = sums.replicate_counts[:, 0].sum(dim=1)[:, sums.quantities.index("norm")]
    first, second = (len(text.split()) for text in TEXTS[:2])
    weights = poisson_weights(np.array([0, 1]), 0, 400).astype(float)
    np.testing.assert_allclose(counts.numpy(), first * weights[0] + second * weights[1])
