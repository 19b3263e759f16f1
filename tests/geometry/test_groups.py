"""Clouds, pairs of rows, types, texts and half-samples against scikit-learn, SciPy and the paths of ``verify``."""

import numpy as np
import pytest
import torch
from oracles import dimension
from scipy.spatial.distance import cdist
from scipy.stats import t
from sklearn.metrics import silhouette_samples

from reporter.app.verify.by_token import _entropies, _explained, mean_cosine
from reporter.geometry import clouds, pairs, similarity
from reporter.geometry.entropy import entropies_of
from reporter.geometry.pairs import TableRows, Top, Workspace, tiles
from reporter.geometry.ratios import batches_of, local_dimensions

RNG = np.random.default_rng


def test_distances_within_and_between_groups_and_silhouettes_are_those_of_scikit_learn():
    rng = RNG(0)
    group = rng.integers(0, 3, 600)  # more than one block of rows
    x = rng.standard_normal((600, 5)) + group[:, None]
    distances, same, silhouettes = cdist(x, x), group[:, None] == group, silhouette_samples(x, group)
    others = same & ~np.eye(600, dtype=bool)
    for result, rows in zip(clouds.spreads(x, group), (group >= 0, *(group == one for one in range(3))), strict=True):
        assert (result.n, result.silhouette) == (rows.sum(), pytest.approx(silhouettes[rows].mean()))
        assert result.within == pytest.approx(distances[rows][others[rows]].mean())
        assert result.between == pytest.approx(distances[rows][~same[rows]].mean())
        assert result.ratio == pytest.approx(result.within / result.between)
    (alone, _), equal = clouds.spreads(x, 0 * group), clouds.spreads(1 + 1e-7 * rng.random((6, 2)), np.arange(6) % 2)
    assert (alone.silhouette, alone.between, alone.ratio) == (None, None, None) and alone.within > 0
    assert {(one.silhouette, one.within, one.between, one.ratio) for one in equal} == {(None, 0, 0, None)}


@pytest.mark.parametrize("n", [8, 11, 600])
def test_overlap_is_the_share_of_other_clouds_among_the_nearest(n):
    k = min(10, n - 1)
    x, cloud = RNG(1).standard_normal((n, 3)), np.arange(n) % 3
    far = cdist(x, x) + np.diag(np.full(n, np.inf))
    shares = (cloud[np.argsort(far, axis=1)[:, :k]] != cloud[:, None]).mean(axis=1)
    expected = shares / [(cloud != one).sum() / (n - 1) for one in cloud]
    assert clouds.overlap(x, cloud) == pytest.approx(expected)
    assert clouds.overlap(np.eye(n), cloud) == pytest.approx(1)  # all are equally far


def test_histograms_of_clouds_are_those_of_numpy():
    parts = {"a": RNG(0).standard_normal((530, 3)) + 1, "b": RNG(1).standard_normal((20, 3))}
    parts["b"][4] = 0  # it has no cosine
    a, b = parts.values()
    inside, between = np.triu_indices(530, 1), np.triu_indices(20, 1)
    with np.errstate(invalid="ignore"):
        cosine = [1 - cdist(x, y, "cosine") for x, y in ((a, a), (a, b), (b, b))]
    of_pairs = {"distance": [cdist(a, a), cdist(a, b), cdist(b, b)], "dot": [a @ a.T, a @ b.T, b @ b.T]}
    expected = {("norm", name): np.linalg.norm(x, axis=1) for name, x in parts.items()}
    for measure, (first, both, second) in (of_pairs | {"cosine": cosine}).items():
        values = zip(("a", "a–b", "b"), (first[inside], both, second[between]), strict=True)
        expected |= {(measure, name): of[np.isfinite(of)] for name, of in values}
    result = {(one.measure, one.part): one for one in clouds.counted(parts)}
    assert result.keys() == expected.keys()
    for (measure, part), one in result.items():
        every = np.concatenate([values.ravel() for key, values in expected.items() if key[0] == measure])
        assert (one.edges[0], one.edges[-1]) == pytest.approx((every.min(), every.max()), abs=1e-9)
        counts = np.histogram(expected[measure, part], one.edges)[0]
        assert len(counts) == clouds.BINS and np.abs(counts - one.counts).sum() <= 4  # two ends, up to rounding
    same = {one.measure: one.counts.tolist() for one in clouds.counted({"a": np.ones((3, 2))})}
    assert same == {"norm": [3], "distance": [3], "dot": [3], "cosine": [3]}


def test_a_histogram_of_tiles_has_the_moments_and_counts_of_all_values():
    values = torch.from_numpy(RNG(0).normal(3, 2, (40, 77)).astype("f4"))
    histogram, every = clouds.Histogram(float(values.min()), float(values.max())), values.double().numpy().ravel()
    for part in (values[:3], values[3:], values[:0]):
        histogram.take(part, Workspace(torch.device("cpu")))
    result = histogram.summary()
    assert (result.n, result.mean, result.sd) == pytest.approx((len(every), every.mean(), every.std()), rel=1e-6)
    edges, bins = result.edges, len(result.counts)
    assert np.log2(np.diff(edges)) == pytest.approx(np.full(bins, np.log2(edges[1] - edges[0])))
    assert clouds.MOST_BINS / 2 <= bins <= clouds.MOST_BINS and edges[0] % (edges[1] - edges[0]) == 0
    assert result.counts.tolist() == np.histogram(every, edges)[0].tolist()


def test_a_shared_direction_needs_both_tests():
    over, error, pair = np.array([0.5, 0.3, 0.1]), np.full(3, 0.1), np.array([9, 9, 9])
    by_t = t.sf(over / error, 8)
    expected = [3 * by_t[0], 2 * by_t[1], max(2 * by_t[1], by_t[2])]
    assert clouds.shared_p(over, error, np.full(3, 1e-3), pair, 1) == pytest.approx(expected)
    assert (clouds.shared_p(over, error, np.full(3, 0.04), pair, 1) == 1).all()  # Holm: 0.12
    few = clouds.shared_p(over, error, np.array([1 / 32, 1e-4, 1e-4]), np.full(3, 6), 1)[0]
    assert few < 0.05  # as small as six pairs allow
    assert [clouds.fewest_pairs(concepts) for concepts in (1, 2, 10)] == [6, 7, 9]
    assert clouds.error_of(np.array([1.0, 2.0, 4.0])) == pytest.approx((7 / 9) ** 0.5)


SCORES = {"dot": lambda x, y: x @ y.T, "cosine": lambda x, y: 1 - cdist(x, y, "cosine"), "distance": cdist}


@pytest.mark.parametrize(("measure", "largest", "absolute"), [*((name, True, False) for name in SCORES),
    ("dot", True, True), ("cosine", False, False), ("distance", False, False)])  # fmt: skip
@pytest.mark.parametrize("within", [True, False])
def test_the_best_pairs_of_all_tiles(measure, largest, absolute, within, monkeypatch):
    monkeypatch.setattr(pairs, "TILE", 16)
    x, y = (RNG(seed).standard_normal((n, 6)).astype("f4") for seed, n in ((0, 70), (1, 70 if within else 33)))
    y, limits, k, done = x if within else y, (60, 60 if within else 30), 20, []
    rows, columns = TableRows(torch.from_numpy(x)), TableRows(torch.from_numpy(y))
    top = Top(measure, largest, k, *limits, absolute)
    for tile in tiles(rows, None if within else columns, progress=lambda *of: done.append(of)):
        top.take(tile)
    result, scores = top.best(rows, columns), SCORES[measure](x.astype("f8"), y.astype("f8"))
    total = 70 * 69 // 2 if within else 70 * 33
    assert done[-1] == ("pairs", total, total)
    counts = np.zeros(scores.shape, dtype=bool)
    counts[: limits[0], : limits[1]] = True
    i, j = np.nonzero(np.triu(counts, 1) if within else counts)
    order = np.argsort(-np.abs(scores[i, j]) if absolute else -scores[i, j] if largest else scores[i, j])[:k]
    assert list(zip(result.rows, result.columns, strict=True)) == list(zip(i[order], j[order], strict=True))
    assert result.values == pytest.approx(scores[i[order], j[order]], rel=1e-9) and result.certain


def test_pairs_that_float32_may_have_left_out_are_not_certain():
    rows = TableRows(torch.cat([torch.ones(200, 4), 2 * torch.ones(1, 4)]))
    top = Top("cosine", True, 3, 201, 201)
    for tile in tiles(rows):
        top.take(tile)
    assert not top.best(rows, rows).certain


def test_entropies_of_texts_of_all_lengths_and_views():
    rng = RNG(0)
    lengths, d = [1, 2, 3, 5, 12, 13, 30, 30, 31], 12
    states = rng.standard_normal((sum(lengths), d)) * np.geomspace(1, 0.1, d) + 5
    rows = np.split(np.arange(len(states)), np.cumsum(lengths)[:-1])
    states[rows[4]] = states[rows[4][0]]  # equal states have none
    views = [np.stack([np.ones(n, bool), rng.random(n) < 0.6, np.zeros(n, bool)]) for n in lengths]
    views[7][0, 3] = False  # no row is in every view
    result = entropies_of(torch.from_numpy(states), rows, views).numpy()
    for text, (at, kept) in enumerate(zip(rows, views, strict=True)):
        for view, mask in enumerate(kept):
            none = mask.sum() < 3 or text == 4
            expected = np.full(3, np.nan) if none else _entropies(states[at[mask]])
            np.testing.assert_allclose(result[text, view], expected, rtol=1e-9, err_msg=f"{text}, {view}")


def weighted(x, weights):
    """Return the share of the first axis of rows that count so often."""
    squares = np.linalg.eigvalsh(x.T * weights @ x)
    return squares[-1] / squares.sum()


def test_the_likeness_of_types_and_what_each_occurrence_adds():
    sizes, d = (7, 2, 12, 5), 6
    states = RNG(0).standard_normal((sum(sizes), d)) * np.geomspace(3, 0.3, d) + 1
    states[10] = 0  # one of the third type, which has no cosine
    x = similarity.gathered(torch.from_numpy(states), similarity.padded(sizes, max(sizes)))
    result, (shares, added) = similarity.likeness(x, torch.tensor(sizes)), similarity.explained_by_first(x)
    for index, rows in enumerate(np.split(np.arange(len(states)), np.cumsum(sizes)[:-1])):
        own, m, of_mean = states[rows], len(rows), (len(rows) / (len(rows) - 1)) ** 0.5
        assert float(result.explained[index]) == pytest.approx(_explained(own), rel=1e-9)
        assert float(result.similarity[index]) == pytest.approx(mean_cosine(own), rel=1e-9)
        steps = 1e-6 * np.eye(m)
        derivatives = np.array([(weighted(own, 1 + step) - weighted(own, 1 - step)) / 2e-6 for step in steps])
        assert result.added[1, index, :m].numpy() == pytest.approx(derivatives * of_mean, abs=1e-6)
        assert float(shares[index]) == pytest.approx(_explained(own))
        n = int((np.linalg.norm(own, axis=1) > 0).sum())
        assert added[index, :m].numpy() == pytest.approx(derivatives * (n / (n - 1)) ** 0.5, abs=1e-6)
        if n > 2:
            without = np.array([mean_cosine(np.delete(own, i, axis=0)) for i in range(m)])
            expected = (mean_cosine(own) - without) * (n - 1) / n * of_mean
            assert result.added[0, index, :m].numpy() == pytest.approx(expected, abs=1e-9)


def test_half_samples_read_what_their_states_alone_do():
    rng = RNG(0)
    x, held = rng.standard_normal((160, 8)), rng.random((5, 160)) < 0.5
    held[3], held[4] = np.arange(160) < 9, np.arange(160) < 10
    (batch,) = batches_of(torch.from_numpy(x), torch.from_numpy(held), [slice(None)], 0.3)
    (least,) = batches_of(torch.from_numpy(x[:10]), torch.ones(1, 10, dtype=torch.bool), [slice(None)], 0.3)
    assert least.halves["twonn"] == pytest.approx(dimension.twonn(x[:10], 0.3))
    for half, own in enumerate(x[inside] for inside in held):
        expected = {"twonn": dimension.twonn(own, 0.3)}
        expected |= {f"gride_{n}": dimension.gride(own, n) for n in (1, 2, 4, 8) if 2 * n < len(own)}
        result = {name: batch.halves[name][half] for name in expected}
        assert result == pytest.approx(
            dict.fromkeys(expected, np.nan) if half == 3 else expected, rel=1e-5, nan_ok=True
        )


def test_dimensions_around_states_with_and_without_a_group():
    x, groups = RNG(0).standard_normal((90, 5)), np.arange(90) % 3
    result = local_dimensions(torch.from_numpy(x), 90, 16, groups)
    for row in range(90):
        near = np.argsort(np.linalg.norm(x - x[row], axis=1))[1:17]
        assert result[0, row] == pytest.approx(dimension.twonn(x[near]))
    for group in range(3):
        rest = local_dimensions(torch.from_numpy(x[groups != group]), 60, 16)
        assert np.isnan(result[1 + group, groups == group]).all()
        assert result[1 + group, groups != group] == pytest.approx(rest)
