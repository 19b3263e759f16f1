"""Token types and kinds of words: shares explained by the first axis and intervals, and which types are looked at."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from metrics.reading import computed, named
from oracles.fake_model import FakeModel, made_up_texts

import reporter
from reporter.app.verify.by_token import _explained
from reporter.forward.readout import CONTENT, FUNCTION, Vocabulary
from reporter.geometry import similarity
from reporter.metrics.base import catalogue
from reporter.metrics.variance import TokenType


@pytest.mark.parametrize("d", [1, 3, 100])
def test_floors(d):
    sizes, rng = (5, 24, 9, 24), np.random.default_rng(9)
    direct = np.array([np.mean([_explained(rng.standard_normal((m, d))) for m in sizes]) for _ in range(200)])
    floors = np.array([similarity.explained_floor(sizes, d, seed) for seed in range(200)])
    error = np.hypot(direct.std(axis=0), floors.std(axis=0)) / np.sqrt(200)
    assert (np.abs(direct.mean(axis=0) - floors.mean(axis=0)) <= 4 * error + 1e-12).all()
    assert floors.std(axis=0) == pytest.approx(direct.std(axis=0), rel=0.5, abs=1e-12)


def test_the_baseline_is_that_of_random_tokens_of_other_types(see):
    """Against the mean of many draws, from the same occurrences."""
    metric = catalogue()["contextuality"]
    seen = see(FakeModel(sinks=False), made_up_texts(150), names=("moments", *metric.needs))
    result, sample = named(metric, computed(metric, seen)), seen.observables["type_sample"].select((0, 2), 256, 12, 5)
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(len(sample.sizes)), sample.sizes)
    others = [(np.flatnonzero(owner != t), m) for t, m in enumerate(sample.sizes)]
    for layer, place in enumerate(seen.path):
        x = sample.states(place).double().numpy()
        each = [[_explained(x[rng.choice(of, m, replace=False)]) for of, m in others] for _ in range(15)]
        draws, ends = np.mean(each, axis=1), ("", "_baseline", "_adjusted")
        raw, baseline, adjusted = (result[f"contextuality.explained_by_first{end} {layer}"].value for end in ends)
        assert baseline == pytest.approx(np.mean(draws), abs=4 * np.std(draws))
        assert adjusted == pytest.approx(raw - baseline, rel=1e-9) and adjusted > 0


@pytest.mark.usefixtures("every_interval")
def test_intervals_are_as_wide_as_numbers_move_from_corpus_to_corpus():
    """Each text has every type once; types differ much in how alike their occurrences are, in every corpus alike."""
    texts, types, width = 60, 12, 16
    centres = 3 * np.random.default_rng(99).standard_normal((types, width))
    spread = np.linspace(0.3, 3, types)[None, :, None]
    names = ["self_similarity", "self_similarity_adjusted", "intra_text", "intra_text_adjusted", "explained_by_first"]
    corpora = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        common = 1.5 * rng.standard_normal((texts, 1, 1)) * np.eye(width)[0] + 2 * np.eye(width)[1]
        states = centres + spread * rng.standard_normal((texts, types, width)) + common
        order = rng.permuted(np.tile(np.arange(types), (texts, 1)), axis=1)  # no two texts are equal
        states = np.take_along_axis(states, order[:, :, None], axis=1).reshape(1, -1, width).astype(np.float32)
        of = np.repeat(np.arange(texts), types)
        output = reporter.measure(states.repeat(2, 0), ["contextuality"], texts=of, tokens=order.ravel())
        rows = output.layer_metrics.query("layer == 0").set_index("statistic")
        corpora.append(rows.loc[names, ["value", "ci_low", "ci_high"]].to_numpy(float))
    value, low, high = np.moveaxis(corpora, 2, 0)
    assert ((high - low) / 2 / 1.96).mean(axis=0) == pytest.approx(value.std(axis=0), rel=0.2), names


def test_types_for_the_scatter_are_the_most_frequent_first(see):
    metric, texts = catalogue()["variance"], made_up_texts(80)
    seen = see(FakeModel(special=False, sinks=False), texts, names=("moments", *metric.needs))
    of = {n: [r for r in computed(metric, seen, scatter=n) if isinstance(r, TokenType)] for n in (0, 7)}
    counts = Counter(2 + int(word) for text in texts for word in text.split())
    assert [row.token_id for row in of[7] if row.place.layer == 2] == sorted(counts, key=lambda i: (-counts[i], i))[:7]
    assert len(of[7]) == 7 * 4 and of[0] == []
    assert all(row.count == counts[row.token_id] and row.token == f"t{row.token_id}" for row in of[7])


def test_a_sample_is_the_same_at_every_place_and_about_as_large_as_asked(observe, values):
    model, texts = FakeModel(final_width=16), made_up_texts(300)
    observables, counts = observe(model, texts, sample=500, names=("moments", "journey"), sites=("final", "attention"))
    result = values(model, observables, 300, "text tokens", ["journey"])
    assert 60 < result["journey.rank_function", 0].n < 240 and counts.tokens > 2000
    assert {where for _, where in result} == {0, 1, 2, 3, "final 3", "attention 1", "attention 2", "attention 3"}
    assert len({result["journey.rank_content", where].n for where in (0, 3, "final 3", "attention 2")}) == 1


def test_stop_words_of_a_real_vocabulary():
    vocabulary = {"[CLS]": 0, "the": 1, "Whereas": 2, "mouse": 3, "##se": 4, "2": 5, "I": 6}
    tokenizer = SimpleNamespace(all_special_tokens=["[CLS]"], added_tokens_decoder={}, get_vocab=vocabulary.copy)
    result = Vocabulary.of(SimpleNamespace(tokenizer=tokenizer, vocabulary=torch.zeros(8, 4)))
    assert result.kinds.tolist() == [0, FUNCTION, FUNCTION, CONTENT, 0, 0, FUNCTION, 0]
    assert result.goes_on.tolist() == [False] * 4 + [True] + [False] * 3
