"""Clouds of corpora and groups of texts: those that are apart come apart, others do not; histograms by brute force."""

from collections import Counter
from unittest.mock import Mock

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
from reporter.metrics.groups import Groups, GroupSpread, alphabet_of, random_characters, random_words
from reporter.runs.studies import offer
from reporter.study.study import check_study

CLOUDS = CloudSpec(corpora=["a", "b"], sample=200)
CORPORA = {"a": corpus([f"a {i}" for i in range(120)]), "b": corpus([f"b {i}" for i in range(90)])}


def vector_of(text, place):
    """Place 0: corpora mixed. Place 1: apart along the first axis."""
    x = np.random.default_rng([place.layer, *text.encode()]).standard_normal(6)
    return x + (8.0 * place.layer if text[0] == "a" else 0.0) * np.eye(6)[0]


def test_clouds_that_are_mixed_and_clouds_apart(made_up, computed):
    context = made_up(vector_of, CORPORA)
    values, rows = computed("clouds", CLOUDS, context)
    mixed, apart = context.layout.places
    assert values["separability", mixed].value == pytest.approx(120 / 210, abs=0.12)
    assert values["separability", apart].value > 0.98
    assert values["separability_floor", apart].value == pytest.approx(120 / 210)
    low, high = values["overlap", mixed].ci_low, values["overlap", mixed].ci_high
    assert low < 1.05 and high > 0.9 and high - low < 0.2
    assert values["overlap", apart].value < 0.05
    # Two centres of n and m standard Gaussians are √(d(1/n + 1/m)) apart, two points about √(2d).
    assert values["centroid_distance", mixed].value == pytest.approx((1 / 120 + 1 / 90) ** 0.5 / 2**0.5, rel=0.4)
    a, b = (np.stack([vector_of(text, apart) for text in of.texts]) for of in CORPORA.values())
    expected = np.linalg.norm(a.mean(axis=0) - b.mean(axis=0)) / np.mean([pdist(a).mean(), pdist(b).mean()])
    assert values["centroid_distance", apart].value == pytest.approx(expected)
    assert Counter(row.part for row in rows["projections"] if row.place == apart) == {"a": 120, "b": 90}
    shares = [row.share for row in rows["explained_variance"] if row.place == apart and row.part == "a"]
    assert shares == pytest.approx(np.cumsum(PCA().fit(a).explained_variance_ratio_))


def test_equal_vectors_have_one_bin_and_a_reason_and_so_have_too_few_texts(made_up, computed):
    context = made_up(lambda text, place: np.ones(4), CORPORA)
    values, rows = computed("clouds", CLOUDS, context)
    assert {value.reason for value in values.values()} == {"all texts have the same vector here"}
    assert "explained_variance" not in rows
    bins = Counter((row.place, row.measure, row.part) for row in rows["histograms"])
    assert set(bins.values()) == {1}
    zeros = [one.measure for one in counted({"a": np.zeros((3, 2)), "b": np.zeros((3, 2))})]
    assert "cosine" not in zeros and "distance" in zeros
    values, _ = computed("clouds", CLOUDS, made_up(vector_of, CORPORA | {"b": corpus(["b 1", "b 2", "b 1"])}))
    assert {value.reason for value in values.values()} == {"corpus 'b' has fewer than 5 different texts"}
    with pytest.raises(ReporterError, match="no token in any text of corpus 'b'"):
        computed("clouds", CLOUDS, made_up(vector_of, CORPORA | {"b": corpus(["", " "])}))


def test_samples_are_seeded_distinct_and_nested(made_up):
    texts = corpus([f"{i % 50}" for i in range(80)] + ["", " "])
    context = made_up(vector_of)
    few, many = drawn_texts(texts, 10, context)[0], drawn_texts(texts, 1000, context)[0]
    assert set(drawn_texts(corpus(["a", "b", "c"], clusters="xyx"), 10, context)[1]) == {0, 1}
    assert many[:10] == few and sorted(many, key=int) == [str(i) for i in range(50)]
    assert drawn_texts(texts, 10, made_up(vector_of, seed=1)) != few


def test_all_groups_of_a_study_are_one_item():
    groups, study = analyses()["groups"], {"study": "s", "models": {"m": {"path": "x"}}}
    ((name, item),) = groups.items(check_study(study | {"groups": {"g": "{a|b} c"}}, offer())).items()
    assert (name, groups.resolve(item, None).model_dump(mode="json")) == ("(groups)", {"g": ["a c", "b c"]})
    assert GroupSpread.table.fixed["corpus"] == "(groups)"  # what the table says of its rows
    assert groups.items(check_study(study | {"corpora": {"c": {"texts": ["a"]}}}, offer())) == {}


@pytest.fixture
def planted(made_up, monkeypatch):
    """Texts 'a …' and 'b …' apart at place 1, all texts one vector at place 0; words of the model are given."""

    def vector_of(text, place):
        noise = np.random.default_rng([*text.encode()]).standard_normal(4)
        return noise + {"a ": 10.0, "b ": -10.0}.get(text[:2], 0.0) if place.layer else np.ones(4)

    monkeypatch.setattr("reporter.models.words.whole_words", lambda checkpoint, offline: ["cat", "dog", "owl"])
    return made_up(vector_of)


def test_groups_come_apart_and_controls_do_not(planted, computed):
    item = {"a": [f"a {i} ccc" for i in range(12)], "b": [f"b {i} ccc" for i in range(9)]}
    values, rows = computed("groups", Groups(item), planted)
    same, apart = planted.layout.places
    assert values["silhouette", apart].value > 0.7 and values["ratio", apart].value < 0.3
    assert values["ratio", apart].value == values["within", apart].value / values["between", apart].value
    for control in ("characters", "words"):
        assert abs(values[f"silhouette_{control}", apart].value) < 0.25
        assert values[f"ratio_{control}", apart].value == pytest.approx(1, abs=0.2)
    for name in ("silhouette", "ratio", "silhouette_words"):
        assert values[name, same].reason == "all texts have the same vector here"
    assert values["within", same].value == 0.0
    spreads = [(row.control, row.text_group, row.n) for row in rows["groups"] if row.place == apart]
    controls = ("none", "random-characters", "random-words")
    assert sorted(spreads) == [(control, *of) for control in controls for of in (("a", 12), ("b", 9))]
    points = [point for point in rows["projections"] if point.place == apart]
    assert Counter(point.part for point in points) == {"a": 12, "b": 9}
    assert {point.label for point in points if point.part == "b"} == set(item["b"])
    assert len({np.sign(point.x) for point in points if point.part == "a"}) == 1


def test_one_group_alone_and_a_tokenizer_without_words_leave_the_rest(planted, computed, monkeypatch):
    values, rows = computed("groups", Groups({"a": ["a 1", "a 2", "a 3"]}), planted)
    place = planted.layout.places[1]
    for name in ("silhouette", "ratio", "between", "ratio_words"):
        assert values[name, place].reason == "there is only one group: nothing to compare it with"
    assert values["within", place].value > 0
    assert {(row.between, row.ratio, row.silhouette) for row in rows["groups"]} == {(None, None, None)}

    none = Mock(side_effect=ReporterError("m: its tokenizer has no token that is a whole word"))
    monkeypatch.setattr("reporter.models.words.whole_words", none)
    values, rows = computed("groups", Groups({"a": ["a 1", "a 2"], "b": ["b 1", "b 2"]}), planted)
    assert "no token that is a whole word" in values["silhouette_words", place].reason
    assert values["silhouette_characters", place].value is not None
    assert {row.control for row in rows["groups"]} == {"none", "random-characters"}


def test_random_characters_keep_length_and_spaces_and_random_words_their_number():
    texts, rng = ["Hello  there, you", "a\tb"], np.random.default_rng(0)
    alphabet = alphabet_of(texts)
    assert alphabet == sorted(set("Hellothere,youab"))
    found = random_characters(texts, alphabet, rng)
    assert found != texts and set("".join(found)) <= {*alphabet, " ", "\t"}
    shapes = [[c if c.isspace() else "x" for c in "\n".join(of)] for of in (texts, found)]
    assert shapes[0] == shapes[1]
    found = random_words(["one two  three", "four"], ["cat", "dog", "owl"], rng)
    assert [len(text.split()) for text in found] == [3, 1]
    assert {word for text in found for word in text.split()} <= {"cat", "dog", "owl"}
