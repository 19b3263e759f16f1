"""The main comparison and its page, and warnings that are told once."""

import math
import re

import pytest
from report.made_up import SMALL, fill
from report.reading import read, rows_of
from scipy.stats import t

from reporter.report.compared import path_of
from reporter.report.tables import ModelRow, warnings
from reporter.runs.whole import _interval, write_over_models

MODELS = [(f"model-{i}", ("encoder", "decoder")[i % 2], 3, 16, (0, 50) if i == 3 else (None,)) for i in range(4)]


def test_roles_of_two_models_have_an_interval_over_texts(written, tmp_path):
    store = fill(tmp_path / "results.duckdb", **SMALL | {"models": MODELS, "corpora": ("a", "b")})
    write_over_models(store, "made-up")
    written()
    columns, wanted = ("statistic", "corpus", "view", "role"), ("motion.step_cosine", "a", "all", "decoder")
    table = rows_of(read(tmp_path / "made-up" / "data" / "compared.csv"))
    rows = [row for row in table if tuple(row[name] for name in columns) == wanted]
    own, (role,) = [row for row in rows if row["model"]], [row for row in rows if not row["model"]]
    assert role["models"] == "2" == str(len(own))
    frame = store.frame(
        "SELECT * FROM layer_metrics WHERE statistic = 'step_cosine' AND view = 'all' AND corpus = 'a' "
        "AND step IS NOT DISTINCT FROM if(model = 'model-3', 50, NULL)"
    )
    for row in own:
        mean = frame[frame["model"] == row["model"]][["value", "ci_low", "ci_high"]].mean()
        assert [float(row[name]) for name in mean.index] == pytest.approx(list(mean), rel=1e-12)
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
    loss = "its loss is {} and 4.8 is the entropy of gpt2"
    said = {"a": loss.format(5.57), "b": loss.format(4.61), "c": "has 3 layers", "d": None}
    found = warnings([ModelRow(name, {"warning": warning}, []) for name, warning in said.items()])
    assert found == [("its loss is 4.61 to 5.57 and 4.8 is the entropy of gpt2", ["a", "b"]), ("has 3 layers", ["c"])]
    cells = [{"model": "a", "warning": "unknown tokens\nread in windows"}]
    found = warnings([ModelRow("a", {"warning": "unknown tokens"}, [])], cells)
    assert found == [("unknown tokens", ["a"]), ("read in windows", ["a"])]
