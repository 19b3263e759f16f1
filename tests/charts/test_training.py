"""Numbers over training: means over layers, and the interval of the mean over the models of a role."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from reporter.charts.chart import filled
from reporter.charts.profile import TRAINING, training
from reporter.charts.styles import style_models
from reporter.metrics.base import catalogue
from reporter.runs.whole import write_over_models
from reporter.store import Store

FOUR, ENDS = [f"d{i}" for i in range(4)], ("value", "ci_low", "ci_high")
ROLES = dict.fromkeys(FOUR, "decoder") | {"e0": "encoder", "e1": "encoder", "d0 (random-init)": "decoder"}
WHICH = {"study": "s", "metric": "anisotropy", "statistic": "mean_cosine"}


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A store with made-up numbers of seven models at two steps and three layers, and those numbers."""
    store = Store(tmp_path_factory.mktemp("training") / "results.duckdb")
    rng = np.random.default_rng(0)
    made = {(model, step): rng.normal(size=3) for model in ROLES for step in (0, 100)}
    for (model, step), values in made.items():
        cell = {"study": "s", "model": model, "checkpoint": f"step-{step}", "corpus": "c", "metric": "anisotropy"}
        more = {"step": step, "role": ROLES[model], "view": "words", "statistic": "mean_cosine", "n": 9}
        layers = [{"site": "block" if layer else "embedding", "layer": layer, "depth": layer / 2} for layer in range(3)]
        rows = [more | at | {"value": float(value)} for at, value in zip(layers, values, strict=True)]
        store.commit_cell(cell | {"status": "done"}, rows)
        known = {"study": "s", "model": model, "checkpoint": f"step-{step}"}
        baseline = "random-init" if "(" in model else None
        store.put("models", tuple(known), known | {"is_last": step == 100, "baseline": baseline})
    write_over_models(store, "s")
    return store, made


def mean_of(layers, layer):
    return layers.mean() if layer is None else layers[layer]


def test_the_interval_is_students_over_the_models_of_a_role(numbers):
    store, made = numbers
    frame = store.frame(filled(TRAINING, **WHICH))
    for step, layer in product((0, 100), (None, 2)):
        at = frame[(frame["step"] == step) & (frame["layer"].isna() if layer is None else frame["layer"] == layer)]
        values = np.array([mean_of(made[model, step], layer) for model in FOUR])
        low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
        decoders = at[at["model"].isin(FOUR)]
        for column, expected in zip(ENDS, (values, low, high), strict=True):
            np.testing.assert_allclose(decoders[column], expected, rtol=1e-12)
        assert at[~at["model"].isin(FOUR)]["ci_low"].isna().all(), "two encoders, and a baseline"


def test_means_are_stored_of_two_models_and_of_the_last_checkpoints(numbers):
    store, made = numbers
    where = "FROM over_models WHERE study = 's' AND role = $role AND layer IS NOT DISTINCT FROM $layer"
    for (role, models), layer in product({"encoder": ["e0", "e1"], "decoder": FOUR}.items(), (None, 0, 2)):
        found = store.frame(f"SELECT * {where} ORDER BY step NULLS FIRST", {"role": role, "layer": layer})
        assert found["step"].fillna(-1).tolist() == [-1, 0, 100]
        assert found["models"].tolist() == [len(models)] * 3, "a null baseline is none of them"
        for row, step in zip(found.to_dict("records"), (100, 0, 100), strict=True):
            own = np.array([mean_of(made[model, step], layer) for model in models])
            ends = stats.t.interval(0.95, len(own) - 1, own.mean(), stats.sem(own))
            if len(own) == 2:  # an interval over texts, which these made-up numbers do not have
                ends = (math.nan, math.nan)
            assert [row[name] for name in ENDS] == pytest.approx((own.mean(), *ends), rel=1e-12, nan_ok=True)
    assert write_over_models(store, "s") == 0, "nothing is written that is there"


def test_a_band_is_drawn_for_a_role_of_three_or_more(numbers):
    store, _ = numbers
    frame = store.frame(filled(TRAINING, **WHICH))
    frame = frame[frame["layer"].isna()]
    styles = style_models(ROLES, {"d0 (random-init)": ("d0", "random-init")})
    statistic = catalogue()["anisotropy"].statistic("mean_cosine")
    drawn = training(frame, styles, statistic).to_dict()
    areas = [layer for layer in drawn["layer"] if layer["mark"]["type"] == "area"]
    assert len(areas) == 2 and areas[0]["mark"]["color"] != areas[1]["mark"]["color"]
    alone = training(frame[frame["role"] == "encoder"], styles, statistic).to_dict()
    assert not [layer for layer in alone["layer"] if layer["mark"]["type"] == "area"]
