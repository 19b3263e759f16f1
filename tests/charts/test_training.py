"""Numbers over training: means over layers, and the interval of the mean over the models of a role."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from reporter.charts.styles import style_models
from reporter.charts.training import TRAINING, training
from reporter.store import Store

ROLES = {f"d{i}": "decoder" for i in range(4)} | {"e0": "encoder", "e1": "encoder", "d0 (random-init)": "decoder"}
WHICH = {"study": "s", "metric": "anisotropy", "statistic": "mean_cosine"}


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, dict[tuple[str, int], np.ndarray]]:
    """A store with made-up numbers of seven models at two steps and three layers, and those numbers."""
    store = Store(Path(tmp_path_factory.mktemp("training")) / "results.duckdb")
    rng = np.random.default_rng(0)
    made = {(model, step): rng.normal(size=3) for model in ROLES for step in (0, 100)}
    for (model, step), values in made.items():
        cell = {"study": "s", "model": model, "checkpoint": f"step-{step}", "corpus": "c", "metric": "anisotropy"}
        more = {"step": step, "role": ROLES[model], "view": "words", "statistic": "mean_cosine", "n": 9}
        layers = [{"site": "block" if layer else "embedding", "layer": layer, "depth": layer / 2} for layer in range(3)]
        rows = [more | at | {"value": float(value)} for at, value in zip(layers, values, strict=True)]
        store.commit_cell(cell | {"status": "done"}, rows)
        known = {"study": "s", "model": model, "checkpoint": f"step-{step}"}
        store.put("models", tuple(known), known | {"baseline": "random-init" if "(" in model else None})
    return store, made


def test_the_interval_is_students_over_the_models_of_a_role(numbers):
    store, made = numbers
    frame = store.frame(TRAINING.fill(**WHICH))
    for step in (0, 100):
        for layer in (None, 2):
            at = frame[(frame["step"] == step) & (frame["layer"].isna() if layer is None else frame["layer"] == layer)]
            own = [made[f"d{i}", step] for i in range(4)]
            values = np.array([values.mean() if layer is None else values[layer] for values in own])
            low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
            decoders = at[at["model"].isin([f"d{i}" for i in range(4)])]
            np.testing.assert_allclose(decoders["value"], values)
            np.testing.assert_allclose(decoders["ci_low"], low, rtol=1e-3)
            np.testing.assert_allclose(decoders["ci_high"], high, rtol=1e-3)
            assert at[~at["model"].isin(decoders["model"])]["ci_low"].isna().all(), "two encoders, and a baseline"


def test_the_formula_beyond_ten_models_is_close(numbers):
    store, _ = numbers
    for models in (11, 15, 30, 200):
        said = store.frame(f"SELECT 1.96 + 2.37 / ({models} - 1) + 2.8 / ({models} - 1) ** 2 AS t")["t"][0]
        assert said == pytest.approx(stats.t.ppf(0.975, models - 1), abs=0.005)


def test_a_band_is_drawn_for_a_role_of_three_or_more(numbers):
    store, _ = numbers
    from reporter.metrics.registry import catalogue

    frame = store.frame(TRAINING.fill(**WHICH))
    frame = frame[frame["layer"].isna()]
    styles = style_models(ROLES, {"d0 (random-init)": ("d0", "random-init")})
    statistic = catalogue()["anisotropy"].statistic("mean_cosine")
    drawn = training(frame, styles, statistic).to_dict()
    areas = [layer for layer in drawn["layer"] if layer["mark"]["type"] == "area"]
    assert len(areas) == 2 and areas[0]["mark"]["color"] != areas[1]["mark"]["color"]
    alone = training(frame[frame["role"] == "encoder"], styles, statistic).to_dict()
    assert not [layer for layer in alone["layer"] if layer["mark"]["type"] == "area"]
