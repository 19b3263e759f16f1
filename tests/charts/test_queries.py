"""What charts ask the database, which of its rows become panels or stops of the slider, and numbers over training."""

import math
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from reporter.charts.chart import filled
from reporter.charts.layout import CheckpointName, moments, panels_of
from reporter.charts.profile import TRAINING, training
from reporter.charts.styles import style_models
from reporter.core.errors import ReporterError
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
    made = {(model, step): rng.normal(size=3) / 10 for model in ROLES for step in (0, 100)}
    sites = ("embedding", "block", "block")
    for (model, step), values in made.items():
        known = {"study": "s", "model": model, "checkpoint": f"step-{step}"}
        more = {"step": step, "role": ROLES[model], "view": "text tokens", "statistic": "mean_cosine", "n": 9}
        at = enumerate(zip(sites, values.tolist(), strict=True))
        rows = [more | {"site": site, "layer": i, "depth": i / 2, "value": value} for i, (site, value) in at]
        store.commit_cell(known | {"corpus": "c", "metric": "anisotropy", "status": "done"}, rows)
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
            own, ends = [mean_of(made[model, step], layer) for model in models], (math.nan, math.nan)
            if len(own) > 2:  # over texts otherwise, where these made-up numbers have no interval
                ends = stats.t.interval(0.95, len(own) - 1, np.mean(own), stats.sem(own))
            assert [row[name] for name in ENDS] == pytest.approx((np.mean(own), *ends), rel=1e-12, nan_ok=True)


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
    assert "area" not in [layer["mark"]["type"] for layer in alone["layer"]]


def test_parameters_become_literals_and_a_missing_one_is_named():
    assert filled("\nSELECT $a, $b_c, '$5'\n", a="x", b_c="it's") == "SELECT 'x', 'it''s', '$5'"
    assert filled("SELECT $a", a="$a'; DROP TABLE cells; --") == "SELECT '$a''; DROP TABLE cells; --'"
    with pytest.raises(ReporterError, match=r"needs a value for \$a"):
        filled("SELECT $a", b="x")


def test_a_corpus_without_a_number_has_no_panel():
    scene = SimpleNamespace(corpora=("b", "a", "c"))
    some = pd.DataFrame({"corpus": ["a", "b", "b"], "value": [1.0, None, 2.0]})
    none = pd.DataFrame({"corpus": ["a", "b"], "value": [1.0, None]})
    assert [panel.value for panel in panels_of(some, "corpus", scene)] == ["b", "a"]
    assert [panel.value for panel in panels_of(none, "corpus", scene)] == ["a"]
    assert [panel.value for panel in panels_of(none.assign(value=None), "corpus", scene)] == ["b", "a"]


def test_a_model_shows_its_latest_checkpoint_not_later_than_the_step():
    def shown(*names):
        return {moment.label: moment.shown for moment in moments([CheckpointName(*name) for name in names])}

    stops = shown(("a", "s0", 0), ("a", "s100", 100), ("b", "s50", 50), ("b", "s200", 200), ("c", "final", None))
    assert list(stops) == ["step 0", "step 50", "step 100", "last (step 200)"]
    assert stops["step 0"] == {"a": "s0", "c": "final"}, "b has nothing that early; c has but one and stays"
    assert stops["step 100"] == {"a": "s100", "b": "s50", "c": "final"}
    assert stops["last (step 200)"] == {"a": "s100", "b": "s200", "c": "final"}
    assert shown(("a", "final", None), ("b", "final", None)) == {"last": {"a": "final", "b": "final"}}
    by_name = shown(("a", "early", None), ("a", "late", None), ("b", "final", None))
    assert by_name == {"early": {"a": "early", "b": "final"}, "last (late)": {"a": "late", "b": "final"}}


def test_models_of_other_depths_have_means_at_common_depths(tmp_path):
    """Three layers and five: the mean is at as many depths as the shallower one has, the deeper one in between."""
    store = Store(tmp_path / "results.duckdb")
    of = {"a": [0.0, 4.0, 8.0], "b": [10.0, 11.0, 12.0, 16.0, 20.0]}
    for model, values in of.items():
        known, last = {"study": "s", "model": model, "checkpoint": "final"}, len(values) - 1
        more = {"role": "encoder", "view": "text tokens", "statistic": "mean_cosine", "n": 9}
        at = [("block" if i else "embedding", i, i / last, value) for i, value in enumerate(values)]
        at.append(("final", last, 1.0, 1.0 + values[-1]))
        rows = [more | dict(zip(("site", "layer", "depth", "value"), row, strict=True)) for row in at]
        store.commit_cell(known | {"corpus": "c", "metric": "anisotropy", "status": "done"}, rows)
        store.put("models", tuple(known), known | {"is_last": True})
    write_over_models(store, "s")
    rows = store.records("SELECT site, layer, depth, value FROM over_models ORDER BY site, depth")
    path = [row for row in rows if row["site"] == "block"]
    assert [(row["depth"], row["value"]) for row in path] == [(0, 5), (0.5, 8), (1, 14)]
    assert all(row["layer"] is None for row in path), "a layer of one is no layer of the other"
    assert [(row["depth"], row["value"]) for row in rows if row["site"] == "final"] == [(1, 15)]
    (whole,) = (row["value"] for row in rows if row["site"] is None)
    assert whole == pytest.approx((4 + np.mean(of["b"])) / 2), "the mean over the layers of each"
