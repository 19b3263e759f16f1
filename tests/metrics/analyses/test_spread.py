"""Distances, silhouettes, components and controls against scikit-learn, SciPy and brute force."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_samples

from reporter.geometry.clouds import distance_blocks, spreads
from reporter.geometry.components import components
from reporter.metrics._items import stream
from reporter.metrics.groups import alphabet_of, random_characters, random_words


@pytest.fixture
def grouped():
    rng = np.random.default_rng(0)
    group = np.array([0] * 4 + [1] * 7 + [2] * 2)
    x = rng.standard_normal((13, 5)) + rng.standard_normal((3, 5))[group] + 1000
    x[5] = x[6]  # equal texts
    return x, group


def test_distances_by_blocks_are_scipys(monkeypatch, grouped):
    x, _ = grouped
    monkeypatch.setattr("reporter.geometry.clouds.ROUNDING", 1e-9)
    monkeypatch.setattr("reporter.geometry.clouds.ROWS", 4)
    assert np.concatenate(list(distance_blocks(x))) == pytest.approx(cdist(x, x), abs=1e-6)


def test_spreads_are_those_of_scikit_learn_and_of_pairs_of_different_texts(monkeypatch, grouped):
    x, group = grouped
    x, n = x - 1000, np.bincount(group)
    monkeypatch.setattr("reporter.geometry.clouds.ROWS", 4)
    distances, same, samples = cdist(x, x), group[:, None] == group, silhouette_samples(x, group)
    whole, *groups = spreads(x, group)
    assert whole.silhouette == pytest.approx(samples.mean(), abs=1e-9)
    assert whole.within == pytest.approx(distances[same & ~np.eye(13, dtype=bool)].mean())
    assert whole.between == pytest.approx(distances[~same].mean())
    assert whole.ratio == pytest.approx(whole.within / whole.between)
    for one, of in enumerate(groups):
        rows = group == one
        assert of.n == n[one] and of.silhouette == pytest.approx(samples[rows].mean(), abs=1e-9)
        assert of.within == pytest.approx(distances[np.ix_(rows, rows)].sum() / (of.n * (of.n - 1)))
        assert of.between == pytest.approx(distances[np.ix_(rows, ~rows)].mean())


def test_rounding_is_no_distance():
    x = np.ones((6, 4)) + 1e-7 * np.random.default_rng(0).standard_normal((6, 4))
    found, *_ = spreads(x, np.array([0, 0, 0, 1, 1, 1]))
    assert (found.silhouette, found.within, found.between, found.ratio) == (None, 0.0, 0.0, None)
    alone, *_ = spreads(np.random.default_rng(0).standard_normal((5, 3)), np.zeros(5, dtype=int))
    assert (alone.silhouette, alone.between, alone.ratio) == (None, None, None) and alone.within > 0


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (5, 5)])
def test_components_are_those_of_pca(shape):
    x = np.random.default_rng(1).standard_normal(shape) * np.arange(1, shape[1] + 1) + 3
    found, pca = components(x, 3), PCA(3, svd_solver="full").fit(x)
    assert found.shares == pytest.approx(pca.explained_variance_ratio_)
    assert np.abs(found.coordinates) == pytest.approx(np.abs(pca.transform(x)), abs=1e-8)
    farthest = np.abs(found.coordinates).argmax(axis=0)
    assert (found.coordinates[farthest, range(3)] > 0).all()
    assert np.isnan(components(np.ones(shape), 2).shares).all()


def test_components_about_the_origin():
    x = np.random.default_rng(2).standard_normal((9, 4)) + 5
    u, s, _ = np.linalg.svd(x)
    assert np.abs(components(x, 2, centred=False).coordinates) == pytest.approx(np.abs(u[:, :2] * s[:2]))


def test_random_characters_keep_length_and_spaces():
    texts = ["Hello  there, you", "a\tb"]
    alphabet = alphabet_of(texts)
    assert alphabet == sorted(set("Hellothere,youab"))
    found = random_characters(texts, alphabet, np.random.default_rng(0))
    for old, new in zip(texts, found, strict=True):
        assert [c if c.isspace() else "x" for c in old] == [c if c.isspace() else "x" for c in new]
        assert {c for c in new if not c.isspace()} <= set(alphabet)
    assert found != texts


def test_random_words_keep_the_number_of_words():
    texts = ["one two  three", "four"]
    found = random_words(texts, ["cat", "dog", "owl"], np.random.default_rng(0))
    assert [len(text.split()) for text in found] == [3, 1]
    assert {word for text in found for word in text.split()} <= {"cat", "dog", "owl"}


def test_streams_are_apart_and_stay():
    draws = {what: stream(0, *what).integers(0, 2**62) for what in [("a",), ("a", 1), ("b",), ("a", 2)]}
    assert len(set(draws.values())) == 4
    assert stream(0, "a").integers(0, 2**62) == draws["a",] != stream(1, "a").integers(0, 2**62)
