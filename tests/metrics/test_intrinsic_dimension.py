import numpy as np
import pytest
import torch
from oracles import dimension
from scipy.spatial.distance import cdist

from reporter.forward.batch import FEW_HALVES, groups_of
from reporter.geometry import noise
from reporter.geometry.intervals import half_sample_interval
from reporter.geometry.ratios import batches_of, half_estimates, log_ratios, neighbours, scales_read
from reporter.geometry.spectra import estimate, twonn_of
from reporter.metrics.intrinsic_dimension import _of_noise


def slope(logs, kept):
    """Return the slope through 0 of −log(1 − F) over the least of all logs."""
    return -logs[:kept] @ np.log(1 - np.arange(1, kept + 1) / len(logs)) / (logs[:kept] @ logs[:kept])


@pytest.mark.parametrize("discard", [0.0, 0.3, 0.8, 0.9])
@pytest.mark.parametrize("count", [21, 101, 1001])
def test_any_share_can_be_discarded(count, discard):
    """Counts of which 1 − discard is no whole number of states."""
    x = np.random.default_rng(count).standard_normal((count, 30)) * np.geomspace(1, 0.01, 30)
    logs = log_ratios(torch.from_numpy(x))[:, 0]
    if discard == 0:  # the last point, at F = 1, has no log: scikit-dimension returns infinity
        assert twonn_of(logs, 0) == pytest.approx(slope(logs, count - 1), rel=1e-9)
    else:
        assert twonn_of(logs, discard) == pytest.approx(dimension.twonn(x, discard), rel=1e-6)
    logs = np.linspace(0.1, 2, 4095)  # a fifth of a multiple of five is a fifth
    assert twonn_of(logs, 0.8) == pytest.approx(slope(logs, 819), rel=1e-12)


def test_noise_of_several_sizes_reads_what_each_reads_alone():
    """The states of a floor are the first of one row, whatever the other sizes that share its search."""
    sizes = [300, 320, 10]
    for n, result in zip(sizes, _of_noise(sizes, 12, 5), strict=True):
        x = noise.first_gaussian(320, 12, 5)[:n]
        logs = np.log(dimension.neighbour_distances(x, 2))
        np.testing.assert_allclose(result[:, 0], np.sort(logs[:, 1] - logs[:, 0]), rtol=1e-9)
        alone = log_ratios(torch.from_numpy(x))
        np.testing.assert_allclose(np.sort(result, axis=0), np.sort(alone, axis=0), rtol=1e-4, atol=1e-6)


def test_half_samples_are_read_at_the_same_distance():
    """Neighbours in the same text are in the half with it, of those in other texts every second is."""
    held = FEW_HALVES[:, np.repeat(np.arange(64), 20)]
    bits = torch.from_numpy(np.bitwise_or.reduce(held.astype(np.int64) << np.arange(31)[:, None])).int()
    order = np.random.default_rng(0).permuted(np.tile(np.arange(1280), (1280, 1)), axis=1)[:, :240]
    assert scales_read(bits, bits[order]) == {1: 1, 2: 2, 4: 4, 8: 8, 16: 8, 32: 16, 64: 32}
    order[:, :32] = np.arange(1280)[:, None]
    assert scales_read(bits, bits[order]) == {1: 1, 2: 2, 4: 4, 8: 8, 16: 16, 32: 24, 64: 40}


def test_the_interval_covers_where_texts_are_clusters():
    """Ratios of mutual neighbours share r1, and the states of a text lie together: neither is taken as independent."""
    estimates, intervals, names = [], [], ("gride_1", "twonn", "gride_8")
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = np.repeat(rng.standard_normal((80, 5)), 3, axis=0) + 0.5 * rng.standard_normal((240, 5))
        groups = np.repeat(groups_of(np.arange(80), seed), 3)
        (result,) = batches_of(torch.from_numpy(x), torch.from_numpy(FEW_HALVES[:, groups]), [slice(None)], 0.1)
        own = {name: estimate(name, result.logs, 0.1) for name in names}
        estimates.append([*own.values()])
        intervals.append([half_sample_interval(value, result.halves[name], 80, (0, 99)) for name, value in own.items()])
    (low, high), mean = np.moveaxis(intervals, 2, 0), np.mean(estimates, axis=0)
    covered = ((low <= mean) & (mean <= high)).mean(axis=0)
    assert (covered >= 0.85).all(), covered
    half, spread = (high - low).mean(axis=0) / 2, np.std(estimates, axis=0)
    assert (half < 1.96 * 1.7 * spread).all(), half / spread


def test_batches_with_equal_states_are_measured_as_if_each_were_there_once():
    rng = np.random.default_rng(5)
    x, held = torch.from_numpy(rng.standard_normal((200, 5))), torch.from_numpy(rng.random((3, 250)) < 0.5)
    twice = torch.cat([x, x[150:]])  # the first of each counts, in the half-samples, too
    again, alone = batches_of(twice, held, [slice(None), slice(0, 200)], 0.1)
    np.testing.assert_allclose(again.logs, alone.logs, rtol=1e-9)
    for name, values in alone.halves.items():
        np.testing.assert_allclose(again.halves[name], values, rtol=1e-6)
    for count in (2, 3, 9):
        (few,) = batches_of(x[:1].expand(count, -1), held[:, :count], [slice(None)], 0.1)
        assert not len(few.logs) and all(np.isnan(values).all() for values in few.halves.values())


def test_a_half_sample_whose_ratios_are_all_one_has_no_estimate():
    held, x = torch.ones((1, 48), dtype=torch.bool), torch.eye(48, dtype=torch.float64)
    (equal,) = batches_of(x, held, [slice(None)], 0.1)
    assert all(np.isnan(values).all() for values in equal.halves.values())
    # Beside five others the ratios that are fitted are one, and those that are summed are not.
    x[43:] = torch.from_numpy(3 * np.random.default_rng(7).standard_normal((5, 48)))
    (most,) = batches_of(x, held, [slice(None)], 0.2)
    assert np.isnan(most.halves["twonn"]).all()
    assert most.halves["gride_1"][0] == pytest.approx(estimate("gride_1", most.logs, 0.2), rel=1e-6)


def test_a_scale_for_which_lists_are_too_short_has_no_estimate():
    x = np.random.default_rng(8).standard_normal((600, 4))
    order = np.argsort(cdist(x, x), axis=1)[:, 1:241]
    (result,) = neighbours(torch.from_numpy(x), [torch.arange(600)])
    scales, known = {n: n for n in (1, 2, 4, 8, 16, 32, 64)}, []
    for share in (0.1, 0.2):
        held = np.random.default_rng(int(100 * share)).random(600) < share
        inside = torch.from_numpy(held)
        halves = half_estimates(result, inside[None], inside.int()[result.places], 0.1, scales)
        known.append([(held[order[held]].sum(axis=1) >= 2 * n).mean() >= 0.9 for n in scales])
        assert [not halves[f"gride_{n}"].isnan() for n in scales] == known[-1]
    assert known[0] != known[1]
