"""Intervals of few texts: those that were counted as covering are shown, the others withheld with a reason."""

from pathlib import Path

from intervals.study import write

from reporter.forward.observed import Place
from reporter.metrics import _coverage
from reporter.metrics._coverage import Coverage, clearly_fails, covers, full_name, shown, texts_needed
from reporter.metrics.base import Difference, PairValue, Value, catalogue

HERE = Place("block", 1)


def _line(texts, covered, below=0, statistic="motion.norm"):
    return Coverage(statistic, texts, "made up", 100, 10, below, covered)


def test_an_interval_is_shown_from_the_size_on_at_which_it_covers(monkeypatch, tmp_path):
    assert covers([_line(10, 0.93)]) and not covers([_line(10, 0.91)]) and not covers([_line(10, 0.94, below=2)])
    assert not covers([_line(10, 0.95), _line(10, 0.88)]) and not texts_needed("divergence.kl")
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


def test_the_file_names_statistics_that_there_are():
    known = {f"{name}.{statistic.name}" for name, metric in catalogue().items() for statistic in metric.statistics}
    lines = _coverage.read(Path(_coverage.__file__).parent / _coverage.FILE)
    assert {line.statistic.removeprefix("difference:") for line in lines} <= known
    for line in lines:
        assert 0 <= line.covered <= 1 and 0 <= line.below <= line.layers
        value = Difference if line.statistic.startswith("difference:") else Value
        metric, statistic = line.statistic.removeprefix("difference:").split(".")
        assert full_name(metric, value(statistic, HERE, 1.0, 1)) == line.statistic
