"""Pairs: planted directions are found, sets are read and refused."""

import numpy as np
import pytest

from reporter.metrics.analysis import analyses
from reporter.metrics.pairs import PairsFile, WrittenPairs, written_pairs

PAIRS = analyses()["pairs"]


def planted(count, seed=0):
    """Concepts 'right' along the first axis, 'back' against it, 'up' along the second; 'right 3 first' and so on."""
    axes = {"right": [1, 0, 0, 0], "back": [-1, 0, 0, 0], "up": [0, 1, 0, 0]}

    def vector_of(text, place):
        name, number, which = text.split()
        noise = np.random.default_rng([seed, sum(map(ord, text)), int(number)]).standard_normal(4)
        base = np.random.default_rng([seed, int(number)]).standard_normal(4)
        if place.layer == 0:
            return np.ones(4)
        return 5 * base + 0.1 * noise + (np.array(axes[name]) * 2 if which == "second" else 0)

    item = written_pairs({name: [[f"{name} {i} first", f"{name} {i} second"] for i in range(count)] for name in axes})
    return item, vector_of


def test_planted_directions_are_found(made_up, computed):
    item, vector_of = planted(12)
    context = made_up(vector_of)
    values, rows = computed(PAIRS, item, context)
    place = context.layout.places[1]
    of = {row.concept: row for row in rows["pair_directions"] if row.place == place}
    for row in of.values():
        assert row.consistency > 0.95 and row.ci_low < row.consistency < row.ci_high and row.p <= 0.002
        assert row.norm == pytest.approx(2.0, abs=0.15) and (row.n, row.same) == (12, 0)
    cosines = {(row.concept_a, row.concept_b): row for row in rows["direction_cosines"] if row.place == place}
    assert set(cosines) == {("right", "back"), ("right", "up"), ("back", "up")}
    assert cosines["right", "back"].cosine < -0.95 and cosines["right", "back"].p <= 0.01
    assert abs(cosines["right", "up"].cosine) < 0.1
    means = {name: np.mean([getattr(row, name) for row in of.values()]) for name in ("consistency", "relative_norm")}
    means["consistency_floor"] = np.mean([row.chance for row in of.values()])
    means["aligned"] = np.mean([abs(row.cosine) for row in cosines.values()])
    assert {name: values[name, place].value for name in means} == pytest.approx(means)
    assert abs(means["consistency_floor"]) < 0.1 and values["aligned_floor", place].value > 0.2  # four dimensions
    points = [point for point in rows["projections"] if point.place == place]
    assert {point.part for point in points} == {*item.concepts, *(f"mean {name}" for name in item.concepts)}
    ends = {p.part: np.array([p.x, p.y]) for p in points if p.part.startswith("mean ")}
    assert np.linalg.norm(ends["mean right"] + ends["mean back"]) < 0.3, "no difference is the origin"
    assert np.linalg.norm(ends["mean right"]) == pytest.approx(2.0, abs=0.2)
    own = np.array([[p.x, p.y] for p in points if p.part == "up"])
    assert own.mean(axis=0) == pytest.approx(ends["mean up"])
    assert {p.label for p in points if p.part == "up"} >= {"up 3 first → up 3 second"}
    same = context.layout.places[0]  # there all vectors are equal
    assert "different vectors" in values["consistency", same].reason
    assert "fewer than two concepts" in values["aligned", same].reason
    assert ("consistency_floor", same) not in values
    of_same = [row for row in rows["pair_directions"] if row.place == same]
    assert {(r.consistency, r.p, r.same, r.relative_norm) for r in of_same} == {(None, None, 12, 0.0)}
    assert {row.cosine for row in rows["direction_cosines"] if row.place == same} == {None}


def test_what_each_pair_has_to_do_with_it_makes_up_the_interval(made_up, computed):
    item, vector_of = planted(30)

    def noisy(text, place):
        return vector_of(text, place) + 2 * np.random.default_rng([place.layer, *text.encode()]).standard_normal(4)

    context = made_up(noisy)
    _, rows = computed(PAIRS, item, context)
    for place in context.layout.places:
        for of in (row for row in rows["pair_directions"] if row.place == place):
            own = [row for row in rows["pair_texts"] if (row.place, row.concept) == (place, of.concept)]
            assert [row.pair for row in own] == list(range(30))
            assert np.mean([row.cosine for row in own]) == pytest.approx(of.consistency, abs=1e-12)
            error = np.std([row.influence for row in own], ddof=1) / np.sqrt(30)  # the jackknife's
            bootstrap = of.ci_high - of.ci_low
            if of.consistency > 0.3:
                assert 2 * 1.96 * error == pytest.approx(bootstrap, rel=0.35)
            else:  # without a direction, whichever pairs are drawn decide it: the jackknife is wider
                assert 2 * 1.96 * error > 0.65 * bootstrap


def test_one_concept_alone_has_nothing_to_compare(made_up, computed):
    item, vector_of = planted(4)
    context = made_up(vector_of)
    values, rows = computed(PAIRS, written_pairs({"up": item.concepts["up"]}), context)
    assert values["aligned", context.layout.places[1]].reason == "there is one concept alone"
    assert "direction_cosines" not in rows
    assert values["consistency", context.layout.places[1]].ci_low is None  # four pairs


def test_a_file_says_the_same_as_a_study(tmp_path):
    written = WrittenPairs(concepts={"a-b": [["x", "y"], ["z", "no"]]})
    (tmp_path / "p.yaml").write_text("a-b: [[x, y], [z, no]]\n")
    assert PAIRS.resolve(PairsFile(file="p.yaml"), tmp_path) == PAIRS.resolve(written, tmp_path)
    assert PAIRS.resolve(written, tmp_path).model_dump(mode="json") == {"concepts": {"a-b": [["x", "y"], ["z", "no"]]}}


SENTENCES = {"cat-dogs": [["the cat sleeps .", "the dogs sleeps ."], ["a cat runs in town .", "a dogs runs in town ."]]}


@pytest.mark.parametrize(
    ("family", "pooling", "token"), [("llama", "last", "."), ("llama", "mean", None), ("bert", "first", None)]
)
def test_a_token_that_all_texts_end_in_is_recorded(of_family, computed, family, pooling, token):
    """A decoder reads the last token, which is the same one; [CLS] of an encoder is there to be read."""
    _, rows = computed(PAIRS, written_pairs(SENTENCES), of_family(family, pooling=pooling))
    assert {row.same_token for row in rows["pair_directions"]} == {token}
    other = {"cat-dogs": [*SENTENCES["cat-dogs"], ["the mouse sees the cat", "the mouse sees the dogs"]]}
    _, rows = computed(PAIRS, written_pairs(other), of_family(family, pooling=pooling))
    assert {row.same_token for row in rows["pair_directions"]} == {None}
