"""The pages of journeys, static embeddings and sentences: rows, charts, what is said, and that tokens stay text."""

import json
import re

import pandas as pd
import pytest
from oracles.columns import unpack_column
from report.made_up_journeys import HOSTILE, LONG
from report.reading import queries_of, read

from reporter.charts.drawing import page_data
from reporter.charts.styles import style_models
from reporter.metrics.analysis import analyses
from reporter.metrics.base import catalogue
from reporter.report.contents import read_explorers
from reporter.report.explorers import ChartPage
from reporter.store import Store
from reporter.store.schema import find_table

STYLES = style_models({"bert": "encoder", "gpt2": "decoder"})


@pytest.fixture(scope="module")
def store(reports):
    return Store(reports / "results.duckdb")


@pytest.fixture(scope="module")
def pages(store):
    with store.reading() as read_rows:
        found = read_explorers(read_rows, "exhibited", STYLES, {**catalogue(), **analyses()})
    return {page.name: page for page in found if isinstance(page, ChartPage)}


@pytest.fixture(scope="module")
def journeys(reports):
    """The page of journeys, and what it offers."""
    html = read(reports / "explored" / "tokens.html")
    return html, json.loads(re.findall(r'id="page">(.*?)</script>', html)[0])


def chart_of(page, name):
    return next(drawn for drawn in page.charts if drawn.id == name)


def test_every_chart_is_shown(pages, reports):
    chapters = {"weights": ["changed", "distributions", "picture", "ends", "positions"]}
    chapters |= {"texts": ["groups", "pairs", "clouds", "probes", "partners"]}
    assert {name: list(page.chapters) for name, page in pages.items()} == chapters
    for name, page in pages.items():
        html = read(reports / "exhibited" / f"{name}.html")
        assert "could not be made" not in html
        for drawn in page.charts:
            assert not drawn.error and (drawn.specs or drawn.chart.draw in ("points", "table"))
            assert f'id="figure-{drawn.id}"' in html and f'href="{drawn.csv}"' in html


def test_a_part_is_a_model_at_a_checkpoint_with_every_place_in_order(pages):
    page = pages["texts"]
    bert, *gpt2 = page.data["who"]
    assert [entry["label"] for entry in page.data["who"]] == ["bert", "gpt2 · step 600", "gpt2 · step 50"]
    assert [entry["label"] for entry in pages["weights"].data["who"]] == ["bert", "gpt2"]
    path = [("embedding", 0), *(("block", layer) for layer in range(1, 5)), ("final", 4)]
    assert [(stop["site"], stop["layer"]) for stop in bert["path"]] == path
    assert [stop["layer"] for stop in bert["attention"]] == [1, 2, 3, 4]
    assert all(entry["attention"] == [] and len(entry["path"]) == 4 for entry in gpt2)
    part = page_data(chart_of(page, "sentences.groups"))["sentences.groups.1"]
    assert "model" not in part["columns"] and part["rows"] == 2 * 3 * 4


def test_concepts_have_an_arrow_each_and_cosines_on_both_sides_that_are_judged_together(pages):
    frame = chart_of(pages["texts"], "sentences.pair-points").frame
    means = frame[frame["mean"]]
    assert set(means["concept"]) == {"female-male", "doctor-nurse", "past-present"}
    assert len(means) == 3 * frame[["model", "checkpoint", "site", "layer"]].drop_duplicates().shape[0]
    frame = chart_of(pages["texts"], "sentences.concepts").frame
    layer = frame[(frame["model"] == "bert") & (frame["site"] == "block") & (frame["layer"] == 2)]
    assert len(layer) == 6 and layer["level"].to_numpy() == pytest.approx(0.05 / 3)
    assert set(layer.loc[layer["beyond"], "concept_a"]) == {"female-male", "doctor-nurse"}
    assert layer.groupby("p")["cosine"].nunique().max() == 1


def test_what_is_known_of_positions_is_said_plainly(pages, reports):
    bert, gpt2 = pages["weights"].more["known"]
    assert bert["plain"].startswith("The model adds a learned vector for each position")
    assert "no position vectors" in gpt2["plain"] and "1.25 pairs would" in bert["outliers"]
    assert bert["outliers"].startswith("5 of 1,680 pairs of a token and a position have |cosine| > 0.2")
    html = read(reports / "exhibited" / "weights.html")
    assert "A note on <b>" not in html and "positions&lt;/" in html  # its formula b is set as one, its tag is text
    assert "140 tokens are in the table" in html


def test_an_analysis_shows_its_statistics_by_item_and_none_without_statistics(reports):
    html = read(reports / "exhibited" / "layers.html")
    assert 'id="figure-probes.linear"' in html and "not installed" not in html
    assert 'id="figure-vocabulary' not in html, "it has a page and no statistics"
    assert set(re.findall(r'data-chart="probes.linear" data-value="([^"]*)"', html)) == {"classes"}


def test_every_journey_is_offered_and_its_part_has_the_rows_of_the_database(reports, store, journeys):
    offered = journeys[1]
    assert offered["journeys"] == ["hostile", "mouse"]
    entries = [(entry["model"], entry["checkpoint"], entry["step"]) for entry in offered["entries"]]
    assert entries == [("bert", "final", None), ("gpt2", "step50", 50), ("gpt2", "step600", 600)] * 2
    parts, where = {}, "WHERE study = 'explored' AND model = 'gpt2' AND checkpoint = 'step600'"
    for entry in offered["entries"]:
        text = read(reports / "explored" / "data" / f"{entry['part']}.js")
        parts[entry["journey"], entry["checkpoint"]] = json.loads(text.partition(",")[2].removesuffix(");\n"))
    for what, table in {"steps": "journeys", "neighbours": "neighbours", "paths": "projections"}.items():
        packed = parts["mouse", "step600"][what]["columns"]
        frame = pd.DataFrame({column: unpack_column(values) for column, values in packed.items()})
        columns, item = list(frame.columns), "item" if what == "paths" else "journey"
        stored = store.frame(f"SELECT {', '.join(columns)} FROM {table} {where} AND {item} = 'mouse' ORDER BY ALL")
        frame = frame.sort_values(columns).reset_index(drop=True)
        pd.testing.assert_frame_equal(frame, stored, check_dtype=False, rtol=1e-5)
    assert {*HOSTILE, LONG, ""} <= set(unpack_column(parts["hostile", "final"]["steps"]["columns"]["token"]))


def test_each_column_of_a_journey_is_explained_and_each_chart_has_its_sql(journeys):
    for name, table in {"journeys": "journeys", "neighbours": "neighbours", "journey-paths": "projections"}.items():
        (about,) = re.findall(rf'id="about-{name}">(.*?)</article>', journeys[0], re.DOTALL)
        columns = re.findall(r"\w+", queries_of(about)[name].partition("FROM")[0])[1:]
        for column in find_table(table).columns:
            assert (column.name in columns) == (f"<dt><code>{column.name}</code></dt>" in about), column.name
        # each chart's own copy is what its script narrows
        (raw,) = re.findall(r"<pre><code>(.*?)</code>", about, re.DOTALL)
        assert f'data-sql="{name}">{raw}' in journeys[0]
