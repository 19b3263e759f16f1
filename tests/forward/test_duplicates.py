"""Texts that say the same are one observation: a corpus and its copy know no more than the corpus."""

import numpy as np
import pytest
from oracles.bootstrap import expanded
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts

from reporter.texts.texts import originals

METRICS = ("convergence", "motion", "contextuality", "entropy", "lens", "layer_pairs")


def test_each_text_points_to_the_first_that_says_the_same():
    assert originals(["a", "b", "a", "", "b", "A", "a"]).tolist() == [0, 1, 0, 3, 1, 5, 0]
    assert originals([]).tolist() == []


@pytest.fixture
def distinct():
    return list(dict.fromkeys(made_up_texts(80, shortest=3)))


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_a_corpus_and_its_copy_have_the_same_intervals(observe, values, distinct, role):
    """Only lens samples tokens by their places; all of them are read here."""
    found = []
    for texts in (distinct, [*distinct, *reversed(distinct)]):
        model = FakeModel(role=role)
        observables, counts = observe(model, FakeTexts(texts), sample=1_000_000, shard_characters=400)
        assert (counts.texts, counts.distinct_texts) == (len(texts), len(distinct))
        found.append(values(model, observables, counts.distinct_texts, "words", METRICS, entropy={"texts": 1000}))
    checked = 0
    for key, once in found[0].items():
        # Numbers of types see each occurrence; so does which types are frequent.
        if once.ci_low is None or "explained" in key[0] or "self_similarity" in key[0] or "adjusted" in key[0]:
            continue
        twice = found[1][key]
        assert (twice.value, twice.ci_low, twice.ci_high) == pytest.approx(
            (once.value, once.ci_low, once.ci_high), rel=1e-4, abs=1e-6
        ), key
        checked += 1
    assert checked > 40
    for layer in range(3):
        p = [of["convergence.frequency_gap_p", layer].value for of in found]
        assert p[0] == pytest.approx(p[1], rel=1e-3)


def test_an_unevenly_repeated_text_weighs_as_the_textbook_says(observe, values, distinct):
    """Bootstrap over distinct texts, each with all its copies, by hand."""
    texts = [*distinct, *[distinct[0]] * 15, *[distinct[1]] * 15]
    model = FakeModel(special=False)
    observables, counts = observe(model, FakeTexts(texts), names=("moments", "text_sums", "text_means"))
    value = values(model, observables, counts.distinct_texts, "words", ["motion"])["motion.norm", 2]
    copies = np.array([texts.count(text) for text in distinct])
    norms = [np.linalg.norm(model.reference(model.tokenizer(text)["input_ids"])[2], axis=1) for text in distinct]
    sums, tokens = np.array([of.sum() for of in norms]) * copies, np.array([len(of) for of in norms]) * copies
    rng = np.random.default_rng(0)
    draws = rng.multinomial(len(distinct), np.full(len(distinct), 1 / len(distinct)), 4000)
    low, high = expanded((draws @ sums) / (draws @ tokens), len(distinct))
    assert value.value == pytest.approx(sums.sum() / tokens.sum(), rel=1e-5)
    assert value.ci_high - value.ci_low == pytest.approx(high - low, rel=0.12)
