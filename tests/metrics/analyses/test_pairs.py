"""Pairs: planted directions are found; their consistency and its probability by brute force and in closed forms."""

from itertools import product

import numpy as np
import pytest

from reporter.metrics import _directions as directions
from reporter.metrics.analysis import analyses
from reporter.metrics.pairs import PairsFile, WrittenPairs, written_pairs

AXES = {"right": [1, 0, 0, 0], "back": [-1, 0, 0, 0], "up": [0, 1, 0, 0]}


def planted(count):
    """Concepts 'right' along the first axis, 'back' against it, 'up' along the second; 'right 3 first' and so on."""
    return written_pairs({name: [[f"{name} {i} first", f"{name} {i} second"] for i in range(count)] for name in AXES})


def vector_of(text, place):
    """Place 0: all texts have one vector. Place 1: each second text of a pair lies along the axis of its concept."""
    name, number, which = text.split()
    noise = np.random.default_rng([0, sum(map(ord, text)), int(number)]).standard_normal(4)
    base = np.random.default_rng([0, int(number)]).standard_normal(4)
    return 5 * base + 0.1 * noise + 2 * np.array(AXES[name]) * (which == "second") if place.layer else np.ones(4)


def test_planted_directions_are_found(made_up, computed):
    item, context = planted(12), made_up(vector_of)
    values, rows = computed("pairs", item, context)
    same, place = context.layout.places
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
    assert np.mean([[p.x, p.y] for p in points if p.part == "up"], axis=0) == pytest.approx(ends["mean up"])
    assert {p.label for p in points if p.part == "up"} >= {"up 3 first → up 3 second"}
    assert "different vectors" in values["consistency", same].reason
    assert "fewer than two concepts" in values["aligned", same].reason
    assert ("consistency_floor", same) not in values
    of_same = [row for row in rows["pair_directions"] if row.place == same]
    assert {(r.consistency, r.p, r.same, r.relative_norm) for r in of_same} == {(None, None, 12, 0.0)}
    assert {row.cosine for row in rows["direction_cosines"] if row.place == same} == {None}


def test_what_each_pair_has_to_do_with_it_makes_up_the_interval(made_up, computed):
    def noisy(text, place):
        return vector_of(text, place) + 2 * np.random.default_rng([place.layer, *text.encode()]).standard_normal(4)

    _, rows = computed("pairs", planted(30), made_up(noisy))
    for of in rows["pair_directions"]:
        own = [row for row in rows["pair_texts"] if (row.place, row.concept) == (of.place, of.concept)]
        assert [row.pair for row in own] == list(range(1, 31))
        assert np.mean([row.cosine for row in own]) == pytest.approx(of.consistency, abs=1e-12)
        jackknife = np.std([row.influence for row in own], ddof=1) / np.sqrt(30)
        ratio = 2 * 1.96 * jackknife / (of.ci_high - of.ci_low)
        # Without a direction, whichever pairs are drawn decide it: the jackknife is wider.
        assert ratio > 0.65 and (ratio < 1.35 or of.consistency <= 0.3)


def test_one_concept_alone_has_nothing_to_compare(made_up, computed):
    context = made_up(vector_of)
    values, rows = computed("pairs", written_pairs({"up": planted(4).concepts["up"]}), context)
    assert values["aligned", context.layout.places[1]].reason == "there is one concept alone"
    assert "direction_cosines" not in rows
    assert values["consistency", context.layout.places[1]].ci_low is None  # four pairs


def test_a_file_says_the_same_as_a_study(tmp_path):
    written, resolve = {"a-b": [["x", "y"], ["z", "no"]]}, analyses()["pairs"].resolve
    (tmp_path / "p.yaml").write_text("a-b: [[x, y], [z, no]]\n")
    for spec in (PairsFile(file="p.yaml"), WrittenPairs(concepts=written)):
        assert resolve(spec, tmp_path).model_dump(mode="json") == {"concepts": written}


ENDINGS = [("llama", "last", "."), ("llama", "mean", None), ("bert", "first", None)]


@pytest.mark.parametrize(("family", "pooling", "token"), ENDINGS)
def test_a_token_that_all_texts_end_in_is_recorded(of_family, computed, family, pooling, token):
    """A decoder reads the last token, which is the same one; [CLS] of an encoder is there to be read."""
    pairs = [["the cat sleeps .", "the dogs sleeps ."], ["a cat runs in town .", "a dogs runs in town ."]]
    for more, expected in (([], token), ([["the mouse sees the cat", "the mouse sees the dogs"]], None)):
        _, rows = computed("pairs", written_pairs({"cat-dogs": [*pairs, *more]}), of_family(family, pooling=pooling))
        assert {row.same_token for row in rows["pair_directions"]} == {expected}


X = np.random.default_rng(0).standard_normal((7, 5)) + 0.4


def cosine(x, y):
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def brute_consistency(x):
    return np.mean([cosine(x[i], np.delete(x, i, axis=0).mean(axis=0)) for i in range(len(x))])


def all_turns(count):
    return np.array(list(product([-1.0, 1.0], repeat=count)))


def test_consistency_leaves_each_pair_and_its_copies_out():
    assert directions.consistency(X) == pytest.approx(brute_consistency(X), abs=1e-12)
    # With itself inside the mean, independent differences would read 1/√n; without, nothing.
    assert directions.consistency(np.eye(50)) == pytest.approx(0.0, abs=1e-12)
    drawn = [0, 0, 2, 3, 3, 3, 6]
    brute = np.mean([cosine(X[i], np.mean([X[j] for j in drawn if j != i], axis=0)) for i in drawn])
    weights = np.array([np.bincount(drawn, minlength=7), np.eye(7)[0]])
    assert directions.weighted_consistency(X, weights) == pytest.approx([brute, np.nan], abs=1e-12, nan_ok=True)
    assert np.isnan(directions.consistency(X[:1]))


def test_a_probability_is_that_of_all_turns():
    seen = directions.consistency(X)
    exact = np.mean([brute_consistency(X * signs[:, None]) >= seen - 1e-12 for signs in all_turns(7)])
    assert directions.consistency_p(X, np.random.default_rng(2)) == pytest.approx(exact, abs=0.03)
    assert np.nanmean(directions.resampled(X, np.random.default_rng(4))) == pytest.approx(seen, abs=0.05)
    assert directions.at_least(1.0, np.array([0.0, 1.0, 2.0])) == 3 / 4


def test_a_cosine_probability_is_that_of_all_turns():
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((6, 4)), rng.standard_normal((8, 4)) + 0.5
    along = a @ b.mean(axis=0), b @ a.mean(axis=0)
    exact = max(np.mean(np.abs(all_turns(len(x)) @ x) >= abs(x.sum()) - 1e-12) for x in along)
    found = directions.cosine_p(a, b, directions.turned(6, rng), directions.turned(8, rng))
    assert found == pytest.approx(exact, abs=0.05)


def test_rounding_is_no_difference():
    first = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 1.0]])
    second = first + np.array([[1e-7, 0.0], [0.0, 1.0], [0.0, 0.0]])
    found = directions.differences(first, second)
    assert found.different.tolist() == [[0.0, 1.0]]
    assert found.scale == pytest.approx(np.linalg.norm(np.concatenate([first, second]), axis=1).mean())
    assert directions.differences(first, first).direction is None


def test_texts_paired_at_random_have_no_consistency():
    """Nor do the directions of concepts have more in common than 12 dimensions give: E|cos| ≈ √(2/πd)."""
    rng = np.random.default_rng(7)
    chance = directions.by_chance(rng.standard_normal((200, 12)) + 10, [20, 20, 20], rng)
    assert chance.consistency == pytest.approx(0.0, abs=0.02)
    assert chance.aligned == pytest.approx((2 / np.pi / 12) ** 0.5, abs=0.03)
    # The mean of 20 differences of unit Gaussians is √(2/20) a dimension long, the texts √(12 · 101).
    assert chance.relative_norm == pytest.approx((12 * 0.1 / 12 / 101) ** 0.5, rel=0.05)
    same = directions.by_chance(np.ones((10, 3)), [5], rng)
    assert (same.consistency, same.aligned) == (None, None)
