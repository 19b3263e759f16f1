"""Probes: what can be read and what cannot, samples and shipped words; classifiers against SciPy, sklearn and torch."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from oracles.corpora import corpus
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import t as student
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from reporter.geometry.intervals import jackknife_interval
from reporter.metrics import _classifiers as classifiers
from reporter.metrics._classifiers import all_the_same, cross_validated, linear, paired, standardised, stratified
from reporter.metrics._items import drawn_texts
from reporter.metrics.analysis import analyses
from reporter.metrics.partners import different
from reporter.metrics.probes import CorpusProbe, WordsProbe, of_corpus, of_words, quotas

PROBES = analyses()["probes"]
TEXTS = [f"{'xyz'[i % 3]} number {i}" for i in range(240)]


def gaussian(text, place):
    """A vector without any meaning, one and the same for a text."""
    return np.random.default_rng([place.layer, *text.encode()]).standard_normal(12)


def readable(text, place):
    """Classes x, y, z as directions at place 1, and nothing of them at place 0."""
    return gaussian(text, place) + 6 * place.layer * np.eye(12)["xyz".index(text[0])]


def labelled(texts):
    return {"c": corpus(texts, [text[0] for text in texts])}


@pytest.mark.parametrize("hidden", [0, 16])
def test_what_can_be_read_is_read(made_up, computed, hidden):
    context = made_up(readable, labelled(TEXTS))
    values, rows = computed("probes", CorpusProbe(corpus="c", hidden=hidden), context)
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
        assert sorted((row.text, row.label) for row in own) == [(i, text[0]) for i, text in enumerate(TEXTS, 1)]
        assert Counter(row.fold for row in own) == dict.fromkeys(range(5), 48)
        assert np.mean([row.linear for row in own]) == pytest.approx(values["linear", place].value)
        told = [row.hidden for row in own]
        assert np.mean(told) == pytest.approx(values["hidden", place].value) if hidden else set(told) == {None}
    assert Counter((p.part, p.label) for p in rows["projections"]) == dict.fromkeys(((x[0], x) for x in TEXTS), 2)


@pytest.mark.parametrize("k", [1, 10])
def test_neighbours_of_the_same_class(made_up, computed, k):
    """Classes of 120, 80 and 40 texts, counted among the neighbours of scikit-learn; no text is its own."""
    texts = [f"{'xxxyyz'[i % 6]} number {i}" for i in range(240)]
    context, y = made_up(readable, labelled(texts)), np.array([text[0] for text in texts])
    values, _ = computed("probes", CorpusProbe(corpus="c", hidden=0, neighbours=k), context)
    few, _ = computed("probes", CorpusProbe(corpus="c", hidden=0, neighbours=150), context)
    chance = (120 * 119 + 80 * 79 + 40 * 39) / (240 * 239)
    for place in context.layout.places:
        found, x = values["label_overlap", place], np.stack([readable(text, place) for text in texts])
        near = NearestNeighbors(n_neighbors=k).fit(x).kneighbors(return_distance=False)
        assert found.value == pytest.approx(np.mean(y[near] == y[:, None])) and found.n == 240
        assert found.ci_low <= found.value <= found.ci_high
        assert values["label_overlap_floor", place].value == pytest.approx(chance)
        assert found.value == pytest.approx(1 if place.layer else chance, abs=0.1)
        assert "300 texts" in few["label_overlap", place].reason


def test_texts_that_are_equally_near_share_the_last_places(made_up, computed):
    """24 vectors of ten texts each, so that the order of equal ones would decide the classes of the nearest 15."""
    k, group = 15, np.arange(240) % 10

    def share(x, kept):
        shares = []
        for text in np.flatnonzero(kept):
            others = np.flatnonzero(kept & (np.arange(240) != text))
            far, same = np.linalg.norm(x[others] - x[text], axis=1), y[others] == y[text]
            last = np.sort(far)[k - 1]
            nearer = far < last
            shares.append(same[nearer].sum() + (k - nearer.sum()) * same[far == last].mean())
        return np.sum(shares) / (k * len(shares))

    def few(text, place):
        return readable(f"x number {int(text.split()[-1]) % 24}", place)

    corpora = labelled([f"{'xxxyyz'[i % 6]} number {i}" for i in range(240)])
    context = made_up(few, corpora)
    read = of_corpus(corpora["c"], 1000, 10, context)
    texts, y = read.texts, read.y
    values, _ = computed("probes", CorpusProbe(corpus="c", hidden=0, neighbours=k), context)
    for place in context.layout.places:
        x = np.stack([few(text, place) for text in texts])
        value = share(x, np.ones(240, bool))
        ends = jackknife_interval(value, np.array([share(x, group != left_out) for left_out in range(10)]))
        found = values["label_overlap", place]
        assert (found.value, found.ci_low, found.ci_high) == pytest.approx((value, *ends))


def test_the_same_seed_gives_the_same_numbers(made_up):
    item = CorpusProbe(corpus="c", hidden=4, sample=60, folds=2)
    once, again, other = (list(PROBES.compute(item, made_up(gaussian, labelled(TEXTS), seed))) for seed in (0, 0, 1))
    assert once == again and once != other


def test_same_vectors_and_too_few_texts_have_their_reasons(made_up, computed):
    few = {"c": corpus(TEXTS, ["x", *["y"] * 239])}
    for vector_of, corpora, reason in (
        (lambda text, place: np.ones(3), labelled(TEXTS), "all texts have the same vector here"),
        (gaussian, few, "fewer than two labels have at least 5 different texts, one for each fold"),
    ):
        values, rows = computed("probes", CorpusProbe(corpus="c"), made_up(vector_of, corpora))
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


def test_texts_that_the_model_reads_alike_are_one(made_up):
    """Capitals that an uncased tokenizer drops, and what lies beyond the limit, make no further text."""
    texts = [f"{name} {i}" for i in range(40) for name in ("Word", "word", "WORD  ")]
    labels = list(np.random.default_rng(0).permutation(["a", "b"] * 60))
    context = made_up(gaussian)
    tokenizer = context.model.tokenizer
    context.model.tokenizer = lambda texts, **options: tokenizer([text.lower() for text in texts], **options)
    found = of_corpus(corpus(texts, labels), 120, 2, context)
    assert len(found.texts) == len({text.lower().split()[1] for text in found.texts}) == 40
    assert len(drawn_texts(corpus(texts, labels), 120, context)[0]) == 40
    assert of_words({"n": ["Cat", "dog"], "v": ["cat", "go", "run"]}, 6, 2, context).texts == [
        "Cat",
        "dog",
        "go",
        "run",
    ]
    pairs = [("a b", "c"), ("A B", "d"), ("e", "C"), ("f", "g"), ("", "h")]
    assert different(pairs, context, None) == [0, 3]


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
    authors, noise = [f"author {i % 20}" for i in range(200)], np.random.default_rng(0)
    of_author = {author: noise.standard_normal(12) * 3 for author in authors}
    vectors = {f"text {i}": of_author[author] + 0.1 * noise.standard_normal(12) for i, author in enumerate(authors)}

    def rows_of(labels, clusters):
        corpora = {"c": corpus(list(vectors), labels, clusters=clusters)}
        context = made_up(lambda text, place: vectors[text], corpora)
        return list(PROBES.compute(CorpusProbe(corpus="c", hidden=0), context))

    rows = rows_of("xy" * 100, authors if by_author else None)
    [linear] = [row for row in rows if getattr(row, "statistic", "") == "linear" and row.place.layer == 1]
    texts = [row for row in rows if type(row).__name__ == "ProbeText" and row.place.layer == 1]
    if by_author:  # nothing but the author tells the class
        assert linear.ci_low < 0.5 < linear.ci_high and len({row.unit for row in texts}) == 20
    else:
        assert linear.value > 0.8 and all(row.unit == row.text for row in texts)
    none = rows_of(authors, authors)[0]
    assert "clusters of texts" in none.reason and none.value is None


def blobs(count, classes, apart, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(count) % classes
    return rng.standard_normal((count, 6)) + apart * rng.standard_normal((classes, 6))[y], y


@pytest.mark.parametrize("classes", [2, 4])
def test_the_linear_classifier_minimises_the_penalised_loss(classes):
    x, y = blobs(150, classes, 0.7)
    rows, one_hot = blobs(400, classes, 0.7, seed=1)[0], np.eye(classes)[y]

    def logits(flat, x):
        return x @ flat[: classes * 6].reshape(classes, 6).T + flat[classes * 6 :]

    def loss(flat):
        logs = log_softmax(logits(flat, x), axis=1)
        return -(logs * one_hot).sum() / len(x) + classifiers.PENALTY / 2 * np.square(flat[: classes * 6]).sum()

    best = minimize(loss, np.zeros(classes * 7), options={"gtol": 1e-6}).x
    assert np.mean(linear(x, y, 0)(rows) == logits(best, rows).argmax(axis=1)) > 0.995
    assert linear(x, 0 * y + 3, 0)(rows[:2]).tolist() == [3, 3], "a single class is always predicted"


def test_no_text_is_in_its_own_training_folds():
    """A classifier that remembers everything knows nothing of what was left out."""

    def remembers(x, y, fold):
        known = {row.tobytes(): one for row, one in zip(np.round(x, 6), y, strict=True)}
        return lambda rows: np.array([known.get(row.tobytes(), -1) for row in np.round(rows, 6)])

    x, y = blobs(60, 3, 1.0)
    found = cross_validated(x, y, stratified(y, 5, np.random.default_rng(0)), remembers)
    assert found.accuracy == 0.0 and found.memorised == 1.0


def test_folds_hold_each_class_evenly():
    y = np.repeat([0, 1, 2], [23, 11, 7])
    fold = stratified(y, 5, np.random.default_rng(3))
    table = np.histogram2d(y, fold, bins=(3, 5))[0]
    assert table.max(axis=1).tolist() == [5, 3, 2] and table.min(axis=1).tolist() == [4, 2, 1]
    assert np.ptp(table.sum(axis=0)) <= 1
    assert not np.array_equal(fold, stratified(y, 5, np.random.default_rng(4)))


def test_standardised_by_the_training_folds_alone():
    x, _ = blobs(50, 2, 1.0)
    x[:, 2] = 7.0 + 1e-6 * np.random.default_rng(0).standard_normal(50)  # rounding is not blown up
    inside, outside = standardised(x[:30], x[30:])
    kept = [0, 1, 3, 4, 5]
    assert outside[:, kept] == pytest.approx(StandardScaler().fit(x[:30]).transform(x[30:])[:, kept])
    assert not inside[:, 2].any() and not outside[:, 2].any()
    assert all_the_same(np.ones((4, 3))) and all_the_same(np.zeros((4, 3))) and not all_the_same(x)
    assert all_the_same(np.ones((4, 3)) + 1e-7 * np.eye(4, 3))


def test_a_paired_difference():
    found = paired(np.array([1, 1, 0, 1], bool), np.array([0, 1, 1, 0], bool))
    half = student.ppf(0.975, 3) * np.std([1, 0, -1, 1], ddof=1) / 2
    assert found == pytest.approx((0.25, max(-1, 0.25 - half), min(1, 0.25 + half)))


def test_a_hidden_layer_is_trained_as_torch_does():
    x, y = blobs(60, 3, 1.0)
    found = classifiers.perceptron(x, y, 3, 5, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    layers = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    for layer in (layers[0], layers[2]):
        start = rng.standard_normal(layer.weight.T.shape) * (2 / layer.in_features) ** 0.5
        layer.weight.data, layer.bias.data = torch.from_numpy(start).float().T, torch.zeros(layer.out_features)
    rate, inputs = classifiers.RATE / 6**0.5, torch.from_numpy(x).float()
    adam = torch.optim.AdamW(layers.parameters(), lr=rate, weight_decay=classifiers.DECAY)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, classifiers.STEPS)
    for _ in range(classifiers.STEPS):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(layers(inputs), torch.from_numpy(y)).backward()
        adam.step()
        falling.step()
    for mine, theirs in zip(found, layers.parameters(), strict=True):
        assert mine.numpy() == pytest.approx(theirs.detach().numpy().T, abs=1e-4)
