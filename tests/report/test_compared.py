"""The main comparison against means taken by hand, and the page that shows it."""

import math
import re

import pytest
from report.made_up import SMALL, fill
from report.reading import read, rows_of
from scipy.stats import t

from reporter.report import render
from reporter.report.compared import path_of
from reporter.report.tables import ModelRow, warnings
from reporter.runs.whole import _interval, write_over_models
from reporter.store import Store

MODELS = [(f"model-{i}", ("encoder", "decoder")[i % 2], 3, 16, (0, 50) if i == 3 else (None,)) for i in range(4)]
SPEC = "study: side\nmodels: {model-2: {}, model-0: {}, model-3: {}, model-1: {}}\ncorpora: {b: {}, a: {}}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with four models, which a study names in another order, beside each other, and with one alone."""
    folder = tmp_path_factory.mktemp("compared")
    store = fill(folder / "results.duckdb", "side", models=MODELS, corpora=("a", "b"), metrics=("motion",))
    store.put("studies", ["study"], {"study": "side", "spec": SPEC})
    write_over_models(store, "side")
    fill(folder / "results.duckdb", "alone", **SMALL)
    render(folder / "results.duckdb", folder)
    return folder


@pytest.fixture(scope="module")
def html(folder):
    return read(folder / "side" / "index.html")


@pytest.fixture(scope="module")
def stored(folder):
    rows = rows_of(read(folder / "side" / "data" / "compared.csv"))
    return [row for row in rows if row["statistic"] == "motion.step_cosine"]


def test_a_models_number_is_the_mean_over_its_layers_at_its_last_checkpoint(folder, stored):
    frame = Store(folder / "results.duckdb").frame(
        "SELECT * FROM layer_metrics WHERE study = 'side' AND metric = 'motion' AND statistic = 'step_cosine' "
        "AND site IN ('embedding', 'block') AND step IS NOT DISTINCT FROM if(model = 'model-3', 50, NULL)"
    )
    means = frame.groupby(["model", "corpus", "view"])[["value", "ci_low", "ci_high"]].mean()
    rows = {(row["model"], row["corpus"], row["view"]): row for row in stored}
    assert len(means) == 4 * 2 * 3
    for key, mean in means.iterrows():
        assert [float(rows[key][name]) for name in mean.index] == pytest.approx(list(mean), rel=1e-12)


def test_two_models_of_a_role_have_an_interval_over_texts(html, stored):
    rows = [row for row in stored if (row["corpus"], row["view"], row["role"]) == ("a", "all", "decoder")]
    own = [row for row in rows if row["model"]]
    (role,) = [row for row in rows if not row["model"]]
    assert role["models"] == "2" and all(row["ci_low"] for row in own)
    for column in ("value", "ci_low", "ci_high"):
        assert float(role[column]) == pytest.approx(sum(float(row[column]) for row in own) / 2)


def test_three_models_have_students_interval_and_two_without_intervals_none():
    mean, low, high = _interval([1.0, 2.5, 4.0], [0.0] * 3, [9.0] * 3)
    half = t.ppf(0.975, 2) * math.sqrt(sum((x - 2.5) ** 2 for x in (1.0, 2.5, 4.0)) / 2) / math.sqrt(3)
    assert (mean, high - low) == (2.5, pytest.approx(2 * half))
    assert _interval([1.0, 2.0], [0.5, None], [1.5, None]) == (1.5, None, None)


def test_a_small_profile_is_drawn_to_scale():
    numbers = [float(n) for n in re.findall(r"-?\d+", path_of([(0.0, 1.0), (0.5, 3.0), (1.0, 2.0)], 1.0, 3.0))]
    (x, y), (dx, dy), (ex, ey) = zip(numbers[::2], numbers[1::2], strict=True)
    assert dx == ex > 0 and y + dy < y + dy + ey < y, "up, and half of the way down again"
    assert ey == pytest.approx(-dy / 2, abs=1) and 0 <= x < x + dx + ex <= 336


def test_the_same_warning_is_told_once():
    def warned(*pairs):
        return [ModelRow(name, {"warning": warning}, []) for name, warning in pairs]

    loss = "its loss is {} and {} is the entropy of gpt2"
    rows = warned(("a", loss.format(5.57, 4.8)), ("b", loss.format(4.61, 4.8)), ("c", "has 3 layers"), ("d", None))
    assert warnings(rows) == [
        ("its loss is 4.61 to 5.57 and 4.8 is the entropy of gpt2", ["a", "b"]),
        ("has 3 layers", ["c"]),
    ]
    cells = [{"model": "a", "warning": "unknown tokens"}, {"model": "a", "warning": "unknown tokens\nread in windows"}]
    each = [("has 3 layers", ["a"]), ("unknown tokens", ["a"]), ("read in windows", ["a"])]
    assert warnings(warned(("a", "has 3 layers")), cells) == each
