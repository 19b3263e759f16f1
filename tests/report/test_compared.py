"""The headline comparison against means taken by hand, and the page that shows it."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scipy.stats import t

from reporter.report import render
from reporter.report.compared import path_of
from reporter.report.tables import ModelRow, warnings
from reporter.report.templating import folded
from reporter.runs.whole import _interval, write_over_models
from reporter.store import query

MODELS = [(f"model-{i}", ("encoder", "decoder")[i % 2], 3, 16, (0, 50) if i == 3 else (None,)) for i in range(4)]


@pytest.fixture(scope="module")
def folder(made_up: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    store = made_up.fill(folder / "results.duckdb", "side", models=MODELS, corpora=("a", "b"), metrics=("motion",))
    write_over_models(store, "side")
    made_up.fill(folder / "results.duckdb", "alone", models=MODELS[:1], corpora=("a",), metrics=("motion",))
    render(folder / "results.duckdb", folder)
    return folder


def stored(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((folder / "side" / "data" / "compared.csv").read_text("utf-8"))))


def test_a_models_number_is_the_mean_over_its_layers_at_its_last_checkpoint(folder: Path) -> None:
    sql = "SELECT * FROM layer_metrics WHERE study = 'side' AND metric = 'motion' AND statistic = 'step_cosine'"
    layers: dict[Any, list[dict[str, str]]] = defaultdict(list)
    for row in csv.DictReader(io.StringIO(query(folder / "results.duckdb", sql, "csv"))):
        last = "50" if row["model"] == "model-3" else ""
        if row["site"] in ("embedding", "block") and row["step"] == last:
            layers[row["model"], row["corpus"], row["view"]].append(row)
    found = {(r["model"], r["corpus"], r["view"]): r for r in stored(folder) if r["statistic"] == "motion.step_cosine"}
    assert len(layers) >= 8
    for key, rows in layers.items():
        values = [float(row["value"]) for row in rows if row["value"]]
        assert float(found[key]["value"]) == pytest.approx(sum(values) / len(values), rel=1e-12)
        if all(row["ci_low"] for row in rows if row["value"]):
            low = [float(row["ci_low"]) for row in rows if row["value"]]
            assert float(found[key]["ci_low"]) == pytest.approx(sum(low) / len(low), rel=1e-12)


def test_two_models_of_a_role_have_an_interval_over_texts(folder: Path) -> None:
    rows = [r for r in stored(folder) if (r["statistic"], r["corpus"], r["view"]) == ("motion.step_cosine", "a", "all")]
    own = [row for row in rows if row["model"] and row["role"] == "decoder"]
    (role,) = [row for row in rows if not row["model"] and row["role"] == "decoder"]
    assert role["models"] == "2" and all(row["ci_low"] for row in own)
    for column in ("value", "ci_low", "ci_high"):
        assert float(role[column]) == pytest.approx(sum(float(row[column]) for row in own) / 2)
    html = (folder / "side" / "index.html").read_text("utf-8")
    assert "2 decoders, mean (interval over texts)" in html


def test_three_models_have_students_interval_and_two_without_intervals_none() -> None:
    own = [1.0, 2.5, 4.0]
    mean, low, high = _interval(own, [0.0] * 3, [9.0] * 3)
    half = t.ppf(0.975, 2) * math.sqrt(sum((x - 2.5) ** 2 for x in own) / 2) / math.sqrt(3)
    assert (mean, high - low) == (2.5, pytest.approx(2 * half))
    assert _interval([1.0, 2.0], [0.5, None], [1.5, None]) == (1.5, None, None)


def test_the_sql_on_the_page_gives_the_rows_of_the_csv(folder: Path) -> None:
    html = (folder / "side" / "index.html").read_text("utf-8")
    section = html[html.index('<section id="compared"') : html.index('id="glance"')]
    (sql,) = re.findall(r"<pre><code>(WITH own.*?)</code></pre>", section, re.DOTALL)
    shown = query(folder / "results.duckdb", sql.replace("&#39;", "'").replace("&lt;", "<"), "csv")
    assert list(csv.DictReader(io.StringIO(shown))) == stored(folder)


def test_models_stand_beside_each_other_with_and_without_sinks(folder: Path) -> None:
    html = (folder / "side" / "index.html").read_text("utf-8")
    section = html[html.index('<section id="compared"') : html.index('id="glance"')]
    first = section[: section.index("</table>")]
    assert 'href="#figure-motion.step_cosine"' in first
    head, roles, models = (re.findall(r"<tr.*?</tr>", part, re.DOTALL) for part in first.split("<tbody"))
    assert [re.findall(r"\d \w+, mean", row)[0] for row in roles] == ["2 encoders, mean", "2 decoders, mean"]
    assert [re.findall(r"<span>(model-\d)", row)[0] for row in models] == ["model-0", "model-2", "model-1", "model-3"]
    assert head[1].count(">words<") == head[1].count(">no-sinks<") == head[1].count(">profile<") > 0
    assert "The same on b" in section
    assert 'id="compared"' not in (folder / "alone" / "index.html").read_text("utf-8"), "nothing stands beside it"


def test_a_small_profile_is_drawn_to_scale() -> None:
    numbers = [float(n) for n in re.findall(r"-?\d+", path_of([(0.0, 1.0), (0.5, 3.0), (1.0, 2.0)], 1.0, 3.0))]
    (x, y), (dx, dy), (ex, ey) = zip(numbers[::2], numbers[1::2], strict=True)
    assert dx == ex > 0 and y + dy < y + dy + ey < y, "up, and half of the way down again"
    assert ey == pytest.approx(-dy / 2, abs=1) and 0 <= x < x + dx + ex <= 336


def test_models_and_corpora_stand_in_the_order_of_the_study(made_up: ModuleType, tmp_path: Path) -> None:
    store = made_up.fill(tmp_path / "results.duckdb", models=MODELS, corpora=("a", "b"), metrics=("motion",))
    spec = "study: made-up\nmodels: {model-2: {}, model-0: {}, model-3: {}, model-1: {}}\ncorpora: {b: {}, a: {}}\n"
    store.put("studies", ["study"], {"study": "made-up", "spec": spec})
    html = render(tmp_path / "results.duckdb", tmp_path)[1].read_text("utf-8")
    legend = re.findall(r'class="model[^"]*" data-model="(model-\d)"', html)
    assert legend == ["model-2", "model-0", "model-3", "model-1"]
    assert re.findall(r'<p class="panel-name">(.)</p>', html)[:2] == ["b", "a"]
    tables = html[html.index('<section id="models"') :]
    assert re.findall(r"<span>(model-\d)</span></th>", tables)[:4] == ["model-2", "model-0", "model-3", "model-1"]
    assert tables.index('<th scope="row">b</th>') < tables.index('<th scope="row">a</th>')


def warned(*said: tuple[str, str]) -> list[ModelRow]:
    return [ModelRow(name, {"warning": warning}, []) for name, warning in said]


def test_the_same_warning_is_told_once() -> None:
    loss = "its loss is {} and {} is the entropy of gpt2"
    rows = warned(("a", loss.format(5.57, 4.8)), ("b", loss.format(4.61, 4.8)), ("c", "has 3 layers"))
    assert warnings(rows) == [
        ("its loss is 4.61 to 5.57 and 4.8 is the entropy of gpt2", ["a", "b"]),
        ("has 3 layers", ["c"]),
    ]
    assert warnings([ModelRow("d", {"warning": None}, [])]) == []
    cells = [{"model": "a", "warning": "unknown tokens"}, {"model": "a", "warning": "unknown tokens\nread in windows"}]
    assert warnings(warned(("a", "has 3 layers")), cells) == [
        ("has 3 layers", ["a"]),
        ("unknown tokens", ["a"]),
        ("read in windows", ["a"]),
    ]


def test_a_long_definition_opens_with_whole_clauses() -> None:
    text = "the mean (of a; b. c) over x; " + "more of it; " * 40
    first, rest = folded(text)
    assert first.startswith("the mean (of a; b. c) over x;") and f"{first}; {rest}".split() == text.split()
    assert len(first) < 330 and first.endswith("more of it")
    assert folded("short; and whole") == ("short; and whole", "")
