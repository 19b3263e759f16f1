"""The coverage study itself: coverage and drift are told where they are known, and its command prints its tables."""

import numpy as np
import pytest
from intervals.study import Series, Source, _row, main, study, summary, table
from oracles.fake_model import FakeModel, made_up_texts

from reporter.geometry import noise
from reporter.metrics import _coverage
from reporter.metrics.base import catalogue


def test_a_model_beside_its_base():
    texts = made_up_texts(60, shortest=4)
    sides = [Source(FakeModel(seed=seed), texts, (0, 3), 256) for seed in (0, 1)]
    rows = study(sides[0], [catalogue()["change"]], ("words",), 20, 4, sizes=(1,), base=sides[1])
    found = {row[:3]: row for row in rows}
    assert found["change.distance", "words", "3"].mean > 0.1 and found["change.moved", "words", "3"].mean == 1
    assert np.isfinite(found["change.distance", "words", "3"].covered)


def test_coverage_and_drift_where_they_are_known():
    """Means of 100 numbers: ± 1.96 sd covers 95 %, ± 1 sd covers 68 %; half of the population drawn varies less."""
    rng = np.random.default_rng(0)
    population = rng.standard_normal(200) + 3
    for half, covered in ((1.96, 0.95), (1.0, 0.683)):
        series = Series()
        for _ in range(3000):
            order = rng.permutation(200)
            for size in (50, 100):
                series.values[size].append(population[order[:size]].mean() + np.log2(size))
            value = series.values[100][-1]
            series.intervals.append((value - half * population.std() / 10, value + half * population.std() / 10))
        row = _row(("mean", "words", "0"), series, 100, 200)
        assert row.covered == pytest.approx(covered, abs=0.02)
        assert row.sd == pytest.approx(population.std() / 10, rel=0.05)
        assert row.drift == pytest.approx(1, abs=4 * row.drift_error) and row.drift_error < 0.01
        assert f"{row.covered:.4g}" in table([row]) and f"{row.covered:.3f}" in summary([row])


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
