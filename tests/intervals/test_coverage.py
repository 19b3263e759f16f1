"""Intervals of few texts: those that are shown cover, and those that would not are withheld with a reason."""

from pathlib import Path

import numpy as np
import pytest
import torch
from intervals.study import write

import reporter
from reporter.forward.observed import Place
from reporter.geometry.intervals import error_over_texts, interval, jackknife_interval
from reporter.geometry.similarity import by_cosine, influence_on_mean_cosine, overlaps, overlaps_without
from reporter.metrics import _coverage
from reporter.metrics._coverage import Coverage, clearly_fails, covers, full_name, shown, texts_needed
from reporter.metrics.base import Difference, PairValue, Value, catalogue

CORPORA = 400
HERE = Place("block", 1)


def _covered(values, ends):
    low, high = np.array(ends).T
    return float(((low <= np.mean(values)) & (np.mean(values) <= high)).mean())


@pytest.mark.parametrize("texts", [10, 20])
def test_the_interval_of_a_mean_cosine_covers_what_corpora_of_its_size_read(texts):
    d, values, ends = 16, [], []

    def drawn(rng, n):
        of = np.repeat(np.arange(n), rng.integers(5, 40, n))
        return 0.8 + 0.5 * rng.standard_normal((n, d))[of] + rng.standard_normal((len(of), d)), of

    rng = np.random.default_rng(texts)
    for _ in range(CORPORA):
        x, of = drawn(rng, texts)
        n, total = len(x), (x / np.linalg.norm(x, axis=1, keepdims=True)).sum(axis=0)
        influence = influence_on_mean_cosine(torch.from_numpy(x), total, n)
        values.append(float((total @ total - n) / (n * (n - 1))))
        ends.append(interval(values[-1], error_over_texts(influence, of, n, texts), "fisher", (-1.0, 1.0)))
    assert 0.91 < _covered(values, ends) < 0.99


def test_the_interval_of_shared_neighbours_covers_what_corpora_of_its_size_read():
    n, k, rng = 20, 5, np.random.default_rng(0)
    groups = [slice(at, at + 2) for at in range(0, n, 2)]
    values, ends = [], []
    for _ in range(CORPORA):
        z = rng.standard_normal((n, 6))
        x, y = (by_cosine(torch.from_numpy(z + rng.standard_normal(z.shape)), 15)[None] for _ in range(2))
        values.append(float(overlaps(x[:, :, :k], y[:, :, :k], groups).mean()))
        low, high = jackknife_interval(2 * values[-1] - 1, 2 * overlaps_without(x, y, k, groups)[:, 0, 0] - 1)
        ends.append(((low + 1) / 2, (high + 1) / 2))
    assert _covered(values, ends) > 0.93
    assert np.mean(np.diff(ends)) / 2 / (1.96 * np.std(values)) < 1.5


def _line(texts, covered, below=0, statistic="motion.norm"):
    return Coverage(statistic, texts, "made up", 100, 10, below, covered)


def test_an_interval_is_shown_from_the_size_on_at_which_it_covers(monkeypatch, tmp_path):
    assert covers([_line(10, 0.93)]) and not covers([_line(10, 0.91)]) and not covers([_line(10, 0.94, below=2)])
    assert not covers([_line(10, 0.95), _line(10, 0.88)])
    assert clearly_fails([_line(10, 0.87)]) and not clearly_fails([_line(10, 0.88)])
    assert clearly_fails([_line(10, 0.95, below=4)])
    wide = [_line(10, 1.0), _line(10, 1.0)]
    assert clearly_fails(wide) and not covers(wide) and covers([_line(10, 0.99), _line(10, 0.99)])
    monkeypatch.setattr(_coverage, "FILE", str(tmp_path / "coverage.csv"))
    lines = [_line(10, 0.85), _line(20, 0.8), _line(50, 0.915), _line(10, 0.95, statistic="motion.curvature")]
    write(Path(_coverage.FILE), [*lines, _line(50, 0.5, statistic="difference:motion.norm")])
    write(Path(_coverage.FILE), [_line(20, 0.95)])  # a line that is counted again is replaced
    assert len(_coverage.read(Path(_coverage.FILE))) == 5
    _coverage._needed.cache_clear()
    try:
        assert [texts_needed(name) for name in ("motion.norm", "motion.curvature", "x.y")] == [20, 10, 0]
        number = Value("norm", HERE, 1.0, 90, 0.9, 1.1)
        assert shown(number, "motion", 20) is number
        few = shown(number, "motion", 19)
        assert (few.value, few.n, few.ci_low, few.ci_high) == (1.0, 90, None, None)
        assert few.reason == "no interval with fewer than 20 texts, since its coverage would be too far from 95%"
        lacking = Value("norm", HERE, None, 0, reason="no token")
        assert shown(lacking, "motion", 19) is lacking
        # Twice what was measured:
        assert shown(Difference("norm", HERE, 1.0, 90, 0.9, 1.1), "motion", 99).ci_low is None
        curved = Difference("curvature", HERE, 1.0, 90, 0.9, 1.1)  # not measured: as the number itself
        assert shown(curved, "motion", 9).ci_low is None and shown(curved, "motion", 10) is curved
        assert shown(PairValue("norm", 0, 1, 1.0, 90, 0.9, 1.1), "motion", 19).ci_high is None
    finally:
        _coverage._needed.cache_clear()


def test_what_is_measured_of_few_texts_says_why_it_has_no_interval():
    rng = np.random.default_rng(0)
    texts = np.repeat(np.arange(8), 12)
    found = reporter.measure(
        {0: rng.standard_normal((96, 6)), 1: rng.standard_normal((96, 6))}, ["motion"], texts=texts
    )
    rows = found.layer_metrics
    norms = rows[rows.statistic == "norm"]
    needed = texts_needed("motion.norm")
    assert needed > 8 and norms.value.notna().all() and norms.ci_low.isna().all()
    assert set(norms.reason) == {
        f"no interval with fewer than {needed} texts, since its coverage would be too far from 95%"
    }


def test_the_file_names_statistics_that_there_are():
    known = {f"{name}.{statistic.name}" for name, metric in catalogue().items() for statistic in metric.statistics}
    lines = _coverage.read(Path(_coverage.__file__).parent / _coverage.FILE)
    assert {line.statistic.removeprefix("difference:") for line in lines} <= known
    for line in lines:
        assert 0 <= line.covered <= 1 and 0 <= line.below <= line.layers
        value = Difference if line.statistic.startswith("difference:") else Value
        metric, statistic = line.statistic.removeprefix("difference:").split(".")
        assert full_name(metric, value(statistic, HERE, 1.0, 1)) == line.statistic
