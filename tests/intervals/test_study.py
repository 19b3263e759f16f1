"""The coverage study itself: coverage and drift are told where they are known, and its command prints its tables."""

import numpy as np
import pandas as pd
import pytest
from intervals.study import NUMBERS, Source, judged, main, study, summary, table
from oracles.fake_model import FakeModel, made_up_texts

from reporter.geometry import noise
from reporter.metrics import _coverage
from reporter.metrics.base import catalogue


def test_a_model_beside_its_base():
    texts = made_up_texts(60, shortest=4)
    source, base = (Source(FakeModel(seed=seed), texts, (0, 3), 256) for seed in (0, 1))
    rows = study(source, [catalogue()["change"]], ("words",), 20, 4, sizes=(1,), base=base)
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
                numbers.append(("mean", "words", "0", draw, size, value, value - half * error, value + half * error))
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
