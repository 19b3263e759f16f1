"""Groups: planted groups come apart, controls do not, and what there is nothing to say of has its reason."""

from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from reporter.core.errors import ReporterError
from reporter.metrics.analysis import analyses
from reporter.metrics.groups import Groups, GroupSpread, alphabet_of, random_characters, random_words
from reporter.runs.studies import offer
from reporter.spec.study import check_study

GROUPS = analyses()["groups"]


def test_all_groups_of_a_study_are_one_item():
    study = {"study": "s", "models": {"m": {"path": "x"}}}
    ((name, item),) = GROUPS.items(check_study(study | {"groups": {"g": "{a|b} c"}}, offer())).items()
    resolved = GROUPS.resolve(item, Path()).model_dump(mode="json")
    assert (name, resolved) == ("(groups)", {"g": ["a c", "b c"]})
    assert GroupSpread.table.fixed["corpus"] == "(groups)"  # what the table says of its rows
    assert GROUPS.items(check_study(study | {"corpora": {"c": {"texts": ["a"]}}}, offer())) == {}


@pytest.fixture
def planted(made_up, monkeypatch):
    """Texts 'a …' and 'b …' apart at place 1, all texts one vector at place 0; words of the model are given."""

    def vector_of(text, place):
        noise = np.random.default_rng([*text.encode()]).standard_normal(4)
        return noise + {"a ": 10.0, "b ": -10.0}.get(text[:2], 0.0) if place.layer else np.ones(4)

    monkeypatch.setattr("reporter.models.words.whole_words", lambda checkpoint, offline: ["cat", "dog", "owl"])
    context = made_up(vector_of)
    context.model.checkpoint = None
    return context


def test_groups_come_apart_and_controls_do_not(planted, computed):
    item = {"a": [f"a {i} ccc" for i in range(12)], "b": [f"b {i} ccc" for i in range(9)]}
    values, rows = computed(GROUPS, Groups(item), planted)
    same, apart = planted.layout.places
    assert values["silhouette", apart].value > 0.7 and values["ratio", apart].value < 0.3
    assert values["ratio", apart].value == values["within", apart].value / values["between", apart].value
    for control in ("characters", "words"):
        assert abs(values[f"silhouette_{control}", apart].value) < 0.25
        assert values[f"ratio_{control}", apart].value == pytest.approx(1, abs=0.2)
    for name in ("silhouette", "ratio", "silhouette_words"):
        assert values[name, same].reason == "all texts have the same vector here"
    assert values["within", same].value == 0.0
    spreads = [row for row in rows["groups"] if row.place == apart]
    assert Counter(row.control for row in spreads) == {"none": 2, "random-characters": 2, "random-words": 2}
    assert {(row.text_group, row.n) for row in spreads} == {("a", 12), ("b", 9)}
    points = [point for point in rows["projections"] if point.place == apart]
    assert Counter(point.part for point in points) == {"a": 12, "b": 9}
    assert {point.label for point in points if point.part == "b"} == set(item["b"])
    assert len({np.sign(point.x) for point in points if point.part == "a"}) == 1


def test_one_group_alone_and_a_tokenizer_without_words_leave_the_rest(planted, computed, monkeypatch):
    values, rows = computed(GROUPS, Groups({"a": ["a 1", "a 2", "a 3"]}), planted)
    place = planted.layout.places[1]
    for name in ("silhouette", "ratio", "between", "ratio_words"):
        assert values[name, place].reason == "there is only one group: nothing to compare it with"
    assert values["within", place].value > 0
    assert {(row.between, row.ratio, row.silhouette) for row in rows["groups"]} == {(None, None, None)}

    none = Mock(side_effect=ReporterError("m: its tokenizer has no token that is a whole word"))
    monkeypatch.setattr("reporter.models.words.whole_words", none)
    values, rows = computed(GROUPS, Groups({"a": ["a 1", "a 2"], "b": ["b 1", "b 2"]}), planted)
    assert "no token that is a whole word" in values["silhouette_words", place].reason
    assert values["silhouette_characters", place].value is not None
    assert {row.control for row in rows["groups"]} == {"none", "random-characters"}


def test_random_characters_keep_length_and_spaces_and_random_words_their_number():
    texts, rng = ["Hello  there, you", "a\tb"], np.random.default_rng(0)
    alphabet = alphabet_of(texts)
    assert alphabet == sorted(set("Hellothere,youab"))
    found = random_characters(texts, alphabet, rng)
    for old, new in zip(texts, found, strict=True):
        assert [c if c.isspace() else "x" for c in old] == [c if c.isspace() else "x" for c in new]
        assert {c for c in new if not c.isspace()} <= set(alphabet)
    assert found != texts
    found = random_words(["one two  three", "four"], ["cat", "dog", "owl"], rng)
    assert [len(text.split()) for text in found] == [3, 1]
    assert {word for text in found for word in text.split()} <= {"cat", "dog", "owl"}
