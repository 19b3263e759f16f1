"""Intervals of few texts are shown where they were counted as covering, or withheld; and the study that counts them.

Coverage and drift are told where they are known, and the command prints its tables.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from intervals.study import NUMBERS, Source, judged, main, study, summary, table, write
from oracles.fake_model import FakeModel, made_up_texts

from reporter.forward.observed import Place
from reporter.geometry import noise
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


def test_a_model_beside_its_base():
    texts = made_up_texts(60, shortest=4)
    source, base = (Source(FakeModel(seed=seed), texts, (0, 3), 256) for seed in (0, 1))
    rows = study(source, [catalogue()["change"]], ("text tokens",), 20, 4, sizes=(1,), base=base)
    found = rows[rows["layer"] == "3"].set_index("statistic")
    assert found["mean"]["change.distance"] > 0.1 and found["mean"]["change.moved"] == 1
    assert np.isfinite(found["covered"]["change.distance"])


def test_coverage_and_drift_where_they_are_known():
    """Means of 100 numbers: ± 1.96 sd covers 95 %, ± 1 sd covers 68 %; half of the population drawn varies less."""
    rng = np.random.default_rng(0)
    population = rng.standard_normal(200) + 3
    error = population.std() / 10
    for half, covered in ((1.96, 0.95), (1.0, 0.683)):
        numbers = []
        for draw in range(3000):
            order = rng.permutation(200)
            for size in (50, 100):
                value = population[order[:size]].mean() + np.log2(size)
                numbers.append(
                    ("mean", "text tokens", "0", draw, size, value, value - half * error, value + half * error)
                )
        rows = judged(pd.DataFrame(numbers, columns=NUMBERS), 100, 200)
        (row,) = rows.itertuples()
        assert row.covered == pytest.approx(covered, abs=0.02) and row.sd == pytest.approx(error, rel=0.05)
        assert row.drift == pytest.approx(1, abs=4 * row.drift_error) and row.drift_error < 0.01
        assert f"{row.covered:.4g}" in table(rows) and f"{row.covered:.3f}" in summary(rows)


def test_the_command_prints_its_tables_and_writes_what_it_counted(capsys, monkeypatch, tmp_path):
    floor = noise.eigenvalues
    main(["--texts-in-all", "40", "--subset", "10", "--subsets", "3", "--metrics", "motion,anisotropy"])
    printed = capsys.readouterr().out
    assert printed.startswith("3 subsets of 10 of 40 texts")
    assert "anisotropy.mean_cosine_centred" in printed and printed.count("motion.step_length ") > 2
    assert noise.eigenvalues is floor
    with pytest.raises(SystemExit):
        main(["--metrics", "lens"])
    assert "choose from" in capsys.readouterr().err
    monkeypatch.setattr(_coverage, "FILE", str(tmp_path / "coverage.csv"))
    main(["--write", "made up", "--sizes", "8,10", "--texts-in-all", "40", "--subsets", "3", "--metrics", "motion"])
    lines = _coverage.read(tmp_path / "coverage.csv")
    assert {(line.texts, line.input, line.subsets) for line in lines} == {(8, "made up", 3), (10, "made up", 3)}
    assert "motion.norm" in {line.statistic for line in lines}
