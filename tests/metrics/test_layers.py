"""Layers beside layers: similarities, angles, subspaces and imbalances, against definitions and in closed cases."""

from functools import partial

import numpy as np
import pytest
import torch
from metrics.reading import computed, numbers
from oracles import pairs
from oracles.again import again
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts
from scipy.linalg import subspace_angles

from reporter.geometry import noise
from reporter.geometry.components import LeadingAxes, apart
from reporter.geometry.similarity import imbalances
from reporter.metrics.angular_distance import BlockRun
from reporter.metrics.base import catalogue
from reporter.metrics.layer_pairs import ModelPair

PAIRS = catalogue()["layer_pairs"]


def keyed(rows):
    """Return {(statistic, layer_a, layer_b): row}, each checked; layer_b is None for a number of one layer."""
    return {(statistic, a, b): row for (statistic, _, a, b), row in numbers(rows).items()}


def within(seen, **options):
    return keyed(computed(PAIRS, seen, **options))


def between(a, b, **options):
    """Return rows for pairs of layers of two models, and the numbers of both models by similarity."""
    found = list(PAIRS.between.compare(a, b, PAIRS.options(**options)))
    return keyed(found), {row.statistic: row for row in found if isinstance(row, ModelPair)}


def pooled(seen):
    return seen.observables["pooled"].texts(seen.strata, 1024)


@pytest.fixture
def see_texts(see):
    return partial(see, names=("moments", "pooled"))


@pytest.mark.parametrize("texts", [0, 1, 19, 20])
def test_twenty_texts_are_enough_and_fewer_too_few(see_texts, texts):
    seen = see_texts(FakeModel(), FakeTexts(list(dict.fromkeys(made_up_texts(2 * texts)))[:texts]))
    for found in (within(seen), between(seen, seen)[0]):
        reasons = {(row.reason, row.n) for row in found.values()}
        assert len(found) >= 2 * 16 and reasons == {("fewer than 20 texts" if texts < 20 else "", texts)}
    found = within(seen, k=20)
    assert texts < 20 or (found["knn", 0, 1].reason == "at most 20 texts" and found["cka", 0, 1].value is not None)


def test_calibrated_similarity_as_its_authors_define_it(see_texts):
    """Their algorithm 2 on the vectors themselves: the rows of one model are permuted, and all is measured again."""
    texts = made_up_texts(60, shortest=3)
    a = see_texts(FakeModel(layers=2), texts, "without sinks")
    b = see_texts(FakeModel(role="decoder", layers=3, width=24, special=False, seed=1), texts, "without sinks")
    mine, theirs = pooled(a).shared(pooled(b))
    xs, ys = ([side.vectors(place).numpy() for place in seen.path] for side, seen in ((mine, a), (theirs, b)))
    draws = np.random.default_rng([a.seed, len(mine), 1])
    orders = [np.arange(len(mine)), *(draws.permutation(len(mine)) for _ in range(39))]
    found, pair = between(a, b, k=4, permutations=39)

    def calibrated(draws):
        threshold = np.sort(draws)[37]  # ⌈0.95 · 40⌉ = 38
        return draws[0], threshold, max(0, (draws[0] - threshold) / (1 - threshold))

    for name, measure in (("cka", pairs.cka), ("knn", partial(pairs.knn, k=4))):
        # the fewer layers are permuted, here those of the first model
        every, row = np.array([[[measure(x[order], y) for y in ys] for x in xs] for order in orders]), pair[name]
        most = every.max(axis=(1, 2))
        assert (row.value, row.threshold, row.calibrated) == pytest.approx(calibrated(most), abs=1e-4)
        assert row.p == (1 + (most[1:] >= most[0]).sum()) / 40 and (row.pairs, row.permutations) == (12, 39)
        assert (row.layer_a, row.layer_b) == np.unravel_index(every[0].argmax(), every[0].shape)
        for i, j in np.ndindex(3, 4):
            value, _, expected = calibrated(every[:, i, j])
            assert found[name, i, j].value == pytest.approx(value, abs=1e-4) and found[name, i, j].n == len(mine)
            assert found[f"{name}_calibrated", i, j].value == pytest.approx(expected, abs=1e-4)


def test_pairs_are_symmetric_and_a_model_and_itself_are_the_same_beyond_chance(see_texts):
    seen = see_texts(FakeModel(), made_up_texts(90, words=37))
    found = within(seen, k=5)
    assert found == within(seen, k=5)
    for (name, a, b), row in found.items():
        assert (row.value, row.ci_low) == (found[name, b, a].value, found[name, b, a].ci_low)
        assert name != "cka_floor" or abs(row.value) < 0.25
        assert name != "knn_floor" or row.value == pytest.approx(5 / (len(pooled(seen)) - 1))
        assert a != b or name.endswith("floor") or row.value == pytest.approx(1)
    for row in between(seen, seen, permutations=99)[1].values():
        assert row.calibrated == pytest.approx(1, abs=1e-6) and row.p == 0.01


@pytest.fixture
def angles(see):
    """Return a function that measures a model: {(statistic, l, m): row} and {(which, blocks): run}."""

    def run(model, texts):
        seen = see(model, made_up_texts(texts), names=("moments", "layer_angles"), batch_tokens=100)
        rows = computed(catalogue()["angular_distance"], seen)
        return keyed(rows), {(row.which, row.blocks): row for row in rows if isinstance(row, BlockRun)}

    return run


def test_runs_are_those_that_turn_states_least(angles):
    pairs, runs = angles(FakeModel(role="decoder", layers=4), 60)
    assert len(pairs) == 2 * 10 and len(runs) == 2 * 4
    for (which, blocks), run in runs.items():
        start = min(range(5 - blocks), key=lambda at: pairs[which, at, at + blocks].value)
        expected = (start + 1, start + blocks, pairs[which, start, start + blocks].value)
        assert (run.first, run.last, run.value) == expected and str(run.first) in run.as_good.split(", ")


def test_blocks_that_do_nothing_are_found_and_nearly_parallel_states_keep_their_angle(angles):
    """Blocks 3 and 4 pass on what they get: exactly no angle, and no other run of two is as good."""
    pairs, runs = angles(FakeModel(layers=5, sinks=False, change=lambda s: [*s[:3], s[2], s[2], s[5]]), 60)
    assert pairs["tokens", 2, 4].value < 1e-7
    two = runs["tokens", 2]
    assert (two.first, two.last, two.as_good) == (3, 4, "3") and runs["tokens", 1].as_good == "3, 4"

    # In float32 the cosine of an angle of a hundred-thousandth is 1, and of most smaller ones it is not.
    def turned(states):
        x, y = (torch.tensor([1.0, turn] + 14 * [0]).expand_as(states[0]) for turn in (0, 1e-5))
        return [x, y, x, x]

    assert angles(FakeModel(change=turned), 20)[0]["tokens", 0, 1].value == pytest.approx(1e-5 / np.pi, rel=1e-3)


@pytest.mark.parametrize("angles", [[0.3, 1.0, 1.5], [1e-9, 1e-5, 0.0], [np.pi / 2, 1e-6, 0.7], [np.pi / 2] * 3])
def test_principal_angles_that_are_known(angles):
    """In random coordinates; small ones too, whose cosines round to 1."""
    rng = np.random.default_rng(1)
    rotation, *mixes = (np.linalg.qr(rng.standard_normal((k, k)))[0] for k in (9, 3, 3))
    a = np.eye(9)[:, :3]
    b = a * np.cos(angles) + np.eye(9)[:, 3:6] * np.sin(angles)
    nothing = np.ones(3), np.zeros((9, 0)), np.zeros(0), 0.0
    sides = (LeadingAxes(rotation @ x @ mix, *nothing) for x, mix in zip((a, b), mixes, strict=True))
    assert apart(*sides).distance == pytest.approx(np.linalg.norm(angles), rel=1e-8, abs=1e-12)


def test_axes_that_carry_a_share_of_the_variance(see):
    metric = catalogue()["subspaces"]
    seen = see(FakeModel(layers=2), made_up_texts(60), names=metric.needs)
    found = keyed(computed(metric, seen, explained=0.95))
    shares = np.cumsum(np.linalg.eigvalsh(seen.covariance(seen.path[-1]))[::-1])
    k = 1 + int(np.argmax(shares >= 0.95 * shares[-1]))
    assert found["speed_floor", 0, None].value == noise.subspaces(16, k, 0)
    axes = [np.linalg.eigh(seen.covariance(place))[1][:, -k:] for place in seen.path]
    expected = np.linalg.norm(subspace_angles(axes[1], axes[2]))
    assert found["speed", 1, None].value == pytest.approx(expected, rel=1e-6)


def imbalance(*spaces, groups):
    return imbalances([partial(torch.as_tensor, x) for x in spaces], groups)


def test_imbalance_against_the_definition_with_and_without_each_group():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 3))
    spaces = [x, x[:, :1], x[:, 1:], x @ rng.standard_normal((3, 5)) + 0.3 * rng.standard_normal((40, 5))]
    groups = rng.integers(0, 4, 40)
    found = imbalance(*spaces, groups=groups)
    for left_out, a, b in np.ndindex(5, 4, 4):
        keep = groups != left_out - 1
        of_text = np.zeros(keep.sum(), dtype=int)
        expected = again("information_imbalance", [spaces[a][keep], spaces[b][keep]], of_text, sample=40)
        assert found[left_out, a, b] == pytest.approx(expected["to_last", 0], abs=1e-12)
    np.testing.assert_allclose(np.diagonal(found[0]), 2 / 40)


def test_equal_rows_are_ranked_by_the_mean_and_are_each_others_neighbours():
    rng = np.random.default_rng(2)
    types = rng.integers(0, 12, 60)
    own = np.bincount(types)[types]
    assert (own > 1).all()
    a, b = rng.standard_normal((12, 4))[types] * 1e3 + 1e4, rng.standard_normal((60, 4))
    found = imbalance(a, b, groups=np.arange(60) % 3)[0]
    assert found[0, 1] == pytest.approx(1, abs=0.2)  # any of the same type is as good, and says nothing
    assert found[0, 0] == pytest.approx(2 / 60 * own.mean() / 2)  # the others of a type share the ranks 1…m − 1
    np.testing.assert_array_equal(imbalance(a * 2.0**40, b * 2.0**-40, groups=np.arange(60) % 3)[0], found)
