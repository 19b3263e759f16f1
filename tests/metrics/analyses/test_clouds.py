"""Clouds: histograms by brute force, mixing in closed form, clouds that come apart and clouds that do not."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from oracles.corpora import corpus
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA

from reporter.core.errors import ReporterError
from reporter.geometry.clouds import counted
from reporter.metrics._items import drawn_texts
from reporter.metrics.analysis import analyses
from reporter.metrics.clouds import CloudSpec

CLOUDS = analyses()["clouds"]

ITEM = CLOUDS.resolve(CloudSpec(corpora=["a", "b"], sample=200), Path())


def vector_of(text, place):
    """Place 0: corpora mixed. Place 1: apart along the first axis."""
    x = np.random.default_rng([place.layer, *text.encode()]).standard_normal(6)
    return x + (8.0 * place.layer if text[0] == "a" else 0.0) * np.eye(6)[0]


@pytest.fixture
def corpora():
    return {"a": corpus([f"a {i}" for i in range(120)]), "b": corpus([f"b {i}" for i in range(90)])}


def test_clouds_that_are_mixed_and_clouds_apart(made_up, computed, corpora):
    context = made_up(vector_of, corpora)
    values, rows = computed(CLOUDS, ITEM, context)
    mixed, apart = context.layout.places
    assert values["separability", mixed].value == pytest.approx(120 / 210, abs=0.12)
    assert values["separability", apart].value > 0.98
    assert values["separability_floor", apart].value == pytest.approx(120 / 210)
    low, high = values["overlap", mixed].ci_low, values["overlap", mixed].ci_high
    assert low < 1.05 and high > 0.9 and high - low < 0.2
    assert values["overlap", apart].value < 0.05
    # Two centres of n and m standard Gaussians are √(d(1/n + 1/m)) apart, two points about √(2d).
    assert values["centroid_distance", mixed].value == pytest.approx((1 / 120 + 1 / 90) ** 0.5 / 2**0.5, rel=0.4)
    x = {name: np.stack([vector_of(t, apart) for t in of.texts]) for name, of in corpora.items()}
    within = np.mean([pdist(of).mean() for of in x.values()])
    centres = np.linalg.norm(x["a"].mean(axis=0) - x["b"].mean(axis=0))
    assert values["centroid_distance", apart].value == pytest.approx(centres / within)
    points = [point for point in rows["projections"] if point.place == apart]
    assert Counter(point.part for point in points) == {"a": 120, "b": 90}
    shares = [row.share for row in rows["explained_variance"] if row.place == apart and row.part == "a"]
    assert shares == pytest.approx(np.cumsum(PCA().fit(x["a"]).explained_variance_ratio_))


def test_equal_vectors_have_one_bin_and_a_reason(made_up, computed, corpora):
    context = made_up(lambda text, place: np.ones(4), corpora)
    values, rows = computed(CLOUDS, ITEM, context)
    assert {value.reason for value in values.values()} == {"all texts have the same vector here"}
    assert "explained_variance" not in rows
    bins = [row for row in rows["histograms"] if row.place == context.layout.places[0]]
    assert Counter((row.measure, row.part) for row in bins).most_common(1)[0][1] == 1
    zeros = [one.measure for one in counted({"a": np.zeros((3, 2)), "b": np.zeros((3, 2))})]
    assert "cosine" not in zeros and "distance" in zeros


def test_too_few_texts_have_a_reason(made_up, computed, corpora):
    context = made_up(vector_of, {**corpora, "b": corpus(["b 1", "b 2", "b 1"])})
    values, _ = computed(CLOUDS, ITEM, context)
    assert {value.reason for value in values.values()} == {"corpus 'b' has fewer than 5 different texts"}
    with pytest.raises(ReporterError, match="no token in any text of corpus 'b'"):
        list(CLOUDS.compute(ITEM, made_up(vector_of, {**corpora, "b": corpus(["", " "])})))


def test_samples_are_seeded_distinct_and_nested(made_up, corpora):
    texts = corpus([f"{i % 50}" for i in range(80)] + ["", " "])
    context = made_up(vector_of)
    few, many = drawn_texts(texts, 10, context)[0], drawn_texts(texts, 1000, context)[0]
    assert set(drawn_texts(corpus(["a", "b", "c"], clusters="xyx"), 10, context)[1]) == {0, 1}
    assert many[:10] == few and sorted(many, key=int) == [str(i) for i in range(50)]
    assert drawn_texts(texts, 10, made_up(vector_of, seed=1)) != few
