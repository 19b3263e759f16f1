"""Probes: classes that can be read and classes that cannot, what is sampled, and the shipped words."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from oracles.corpora import corpus

from reporter.metrics.analysis import analyses
from reporter.metrics.probes import CorpusProbe, WordsProbe, of_corpus, of_words, quotas

PROBES = analyses()["probes"]


def gaussian(text, place):
    """A vector without any meaning, one and the same for a text."""
    return np.random.default_rng([place.layer, *text.encode()]).standard_normal(12)


def readable(text, place):
    """Classes x, y, z as directions at place 1, and nothing of them at place 0."""
    return gaussian(text, place) + 6 * place.layer * np.eye(12)["xyz".index(text[0])]


@pytest.fixture
def texts():
    return [f"{'xyz'[i % 3]} number {i}" for i in range(240)]


@pytest.mark.parametrize("hidden", [0, 16])
def test_what_can_be_read_is_read(made_up, computed, texts, hidden):
    context = made_up(readable, {"c": corpus(texts, [text[0] for text in texts])})
    item = PROBES.resolve(CorpusProbe(corpus="c", hidden=hidden), Path())
    values, rows = computed(PROBES, item, context)
    nothing, all_of_it = context.layout.places
    for name in ("linear", "hidden") if hidden else ("linear",):
        for place, accuracy in ((nothing, 1 / 3), (all_of_it, 1.0)):
            of = {end: values[f"{name}{end}", place] for end in ("", "_control", "_selectivity", "_floor")}
            assert of[""].value == pytest.approx(accuracy, abs=0.1)
            assert of["_control"].value == pytest.approx(1 / 3, abs=0.12)
            assert of["_selectivity"].value == pytest.approx(of[""].value - of["_control"].value)
            assert of["_floor"].value == pytest.approx(1 / 3) and of[""].n == 240
            assert 0.3 < values[f"{name}_memorised", place].value <= 1
        assert values[f"{name}_selectivity", nothing].ci_low < 0 < values[f"{name}_selectivity", nothing].ci_high
        assert values[f"{name}_selectivity", all_of_it].ci_low > 0.4
    if not hidden:
        assert "only the linear probe" in values["hidden_control", all_of_it].reason
        assert ("hidden_floor", all_of_it) not in values
    for place in context.layout.places:  # what became of each text is the accuracy, and the text is that of the corpus
        own = [row for row in rows["probe_texts"] if row.place == place]
        assert sorted(row.text for row in own) == list(range(240))
        assert all(row.label == texts[row.text][0] for row in own)
        assert Counter(row.fold for row in own) == dict.fromkeys(range(5), 48)
        assert np.mean([row.linear for row in own]) == pytest.approx(values["linear", place].value)
        told = [row.hidden for row in own]
        assert np.mean(told) == pytest.approx(values["hidden", place].value) if hidden else set(told) == {None}
    assert Counter(p.part for p in rows["projections"]) == dict.fromkeys("xyz", 2 * 80)
    assert {p.label for p in rows["projections"] if p.part == "x"} == {text for text in texts if text[0] == "x"}


@pytest.mark.parametrize("k", [1, 10])
def test_neighbours_of_the_same_class(made_up, computed, k):
    """Classes of 120, 80 and 40 texts, counted among the neighbours of scikit-learn; no text is its own."""
    from sklearn.neighbors import NearestNeighbors

    texts = [f"{'xxxyyz'[i % 6]} number {i}" for i in range(240)]
    context = made_up(readable, {"c": corpus(texts, [text[0] for text in texts])})
    item = PROBES.resolve(CorpusProbe(corpus="c", hidden=0, neighbours=k), Path())
    values, _ = computed(PROBES, item, context)
    for place in context.layout.places:
        found = values["label_overlap", place]
        x, y = np.stack([readable(text, place) for text in texts]), np.array([text[0] for text in texts])
        near = NearestNeighbors(n_neighbors=k).fit(x).kneighbors(return_distance=False)
        assert found.value == pytest.approx(np.mean(y[near] == y[:, None])) and found.n == 240
        assert found.ci_low <= found.value <= found.ci_high
        chance = (120 * 119 + 80 * 79 + 40 * 39) / (240 * 239)
        assert values["label_overlap_floor", place].value == pytest.approx(chance)
        assert found.value == pytest.approx(1 if place.layer else chance, abs=0.1)
    few = PROBES.resolve(CorpusProbe(corpus="c", hidden=0, neighbours=150), Path())
    values, _ = computed(PROBES, few, context)
    assert all("300 texts" in values["label_overlap", place].reason for place in context.layout.places)


def test_the_same_seed_gives_the_same_numbers(made_up, texts):
    corpora = {"c": corpus(texts, [text[0] for text in texts])}
    item = PROBES.resolve(CorpusProbe(corpus="c", hidden=4, sample=60, folds=2), Path())
    once, again, other = (list(PROBES.compute(item, made_up(gaussian, corpora, seed))) for seed in (0, 0, 1))
    assert once == again and once != other


def test_same_vectors_and_too_few_texts_have_their_reasons(made_up, computed, texts):
    item = PROBES.resolve(CorpusProbe(corpus="c"), Path())
    for vector_of, labels, reason in (
        (lambda text, place: np.ones(3), [text[0] for text in texts], "all texts have the same vector here"),
        (gaussian, ["x", *["y"] * 239], "fewer than two labels have at least 5 different texts, one for each fold"),
    ):
        values, rows = computed(PROBES, item, made_up(vector_of, {"c": corpus(texts, labels)}))
        assert {value.reason for value in values.values()} == {reason}
    assert not rows


def test_the_sample_is_even_and_each_text_is_there_once(made_up):
    texts = [f"a {i}" for i in range(300)] + [f"b {i % 40}" for i in range(200)] + ["", "c 1", "c 2", "lost 1"]
    labels = ["a"] * 300 + ["b"] * 200 + ["a", "c", "c", None]
    context = made_up(gaussian)
    found = of_corpus(corpus(texts, labels, 17), 120, 5, context)
    assert Counter(text[0] for text in found.texts) == {"a": 59, "b": 40}  # 2 · 59 + 2 ≥ 119; b has only 40 texts
    assert found.names == ["a", "b"] and found.max_tokens == 17
    assert len(set(found.texts)) == len(found.texts) == len(found.y)
    assert [found.names[code] for code in found.y] == [text[0] for text in found.texts]
    assert set(of_corpus(corpus(texts, labels), 60, 5, context).texts) <= set(found.texts)
    assert quotas({"a": 10, "b": 2, "c": 9}, 12) == {"a": 5, "b": 2, "c": 5}
    assert quotas({"a": 3, "b": 2}, 100) == {"a": 3, "b": 2}
    assert quotas({"a": 5, "b": 5}, 5) == {"a": 2, "b": 3}


def test_words_are_read_once_resolved_and_those_that_ship_are_plain(made_up, tmp_path):
    found = of_words({"n": ["cat", "cat", "dog", "owl"], "v": ["go", "run", "see"]}, 6, 2, made_up(gaussian))
    assert (found.texts, found.y.tolist()) == (["cat", "dog", "owl", "go", "run", "see"], [0, 0, 0, 1, 1, 1])
    shipped = PROBES.resolve(WordsProbe(words="shipped"), Path()).words
    words = [word for of in shipped.values() for word in of]
    assert set(shipped) == {"noun", "verb", "adjective"} and min(map(len, shipped.values())) >= 100
    assert len(set(words)) == len(words) and all(word.isalpha() and word.islower() for word in words)
    (tmp_path / "w.yaml").write_text("noun: [cat, dog]\nverb: [go, 'no']\n")
    written = {"noun": ("cat", "dog"), "verb": ("go", "no")}
    for given in ("w.yaml", written):
        assert PROBES.resolve(WordsProbe(words=given), tmp_path).words == written


@pytest.mark.parametrize("by_author", [False, True])
def test_a_probe_predicts_authors_that_it_has_not_seen(made_up, by_author):
    authors = [f"author {i % 20}" for i in range(200)]
    labels = [("x", "y")[(i % 20) % 2] for i in range(200)]
    noise = np.random.default_rng(0)
    of_author = {author: noise.standard_normal(12) * 3 for author in authors}
    vectors = {f"text {i}": of_author[author] + 0.1 * noise.standard_normal(12) for i, author in enumerate(authors)}
    corpora = {"c": corpus(list(vectors), labels, clusters=authors if by_author else None)}
    context = made_up(lambda text, place: vectors[text], corpora)
    rows = list(PROBES.compute(CorpusProbe(corpus="c", hidden=0), context))
    [linear] = [row for row in rows if getattr(row, "statistic", "") == "linear" and row.place.layer == 1]
    texts = [row for row in rows if type(row).__name__ == "ProbeText" and row.place.layer == 1]
    if by_author:  # nothing but the author tells the class
        assert linear.ci_low < 0.5 < linear.ci_high and len({row.unit for row in texts}) == 20
    else:
        assert linear.value > 0.8 and all(row.unit == row.text for row in texts)
    same = made_up(lambda text, place: vectors[text], {"c": corpus(list(vectors), authors, clusters=authors)})
    rows = list(PROBES.compute(CorpusProbe(corpus="c", hidden=0), same))
    assert "clusters of texts" in rows[0].reason and rows[0].value is None
