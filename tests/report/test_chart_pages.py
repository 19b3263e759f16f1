"""The pages of static embeddings and of sentences: rows, charts, what is said, and that tokens stay text."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import vl_convert

from reporter.charts.chart import filled
from reporter.charts.drawing import page_data
from reporter.charts.styles import style_models
from reporter.metrics.analysis import analyses
from reporter.metrics.base import catalogue
from reporter.report.contents import read_explorers
from reporter.report.explorers import ChartPage
from reporter.store import Store

STUDY = "exhibited"
STYLES = style_models({"bert": "encoder", "gpt2": "decoder"})
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def store(results: Path) -> Store:
    return Store(results / "results.duckdb")


@pytest.fixture(scope="module")
def pages(store: Store) -> dict[str, ChartPage]:
    with store.reading() as read:
        found = read_explorers(read, STUDY, STYLES, {**catalogue(), **analyses()})
    return {page.name: page for page in found if isinstance(page, ChartPage)}


def one_of(pages: dict[str, ChartPage], name: str) -> Any:
    return next(one for page in pages.values() for one in page.charts if one.id == name)


def query(name: str) -> str:
    """What a chart of an analysis reads."""
    return next(chart.query for one in analyses().values() for chart in one.charts if chart.id == name)


def test_everything_is_shown_and_nothing_broke(pages: dict[str, ChartPage], results: Path) -> None:
    for name, page in pages.items():
        assert {one.id: one.error for one in page.charts if one.error} == {}
        assert all(one.specs or one.chart.draw in ("points", "table") for one in page.charts)
        html = (results / STUDY / f"{name}.html").read_text(encoding="utf-8")
        assert "could not be made" not in html
        for one in page.charts:
            assert f'id="figure-{one.id}"' in html
            assert f'href="{one.csv}"' in html
    assert list(pages["vocabulary"].chapters) == ["distributions", "picture", "ends", "positions"]
    assert list(pages["sentences"].chapters) == ["groups", "pairs", "clouds", "probes"]


def test_every_chart_passes_altairs_own_validation(pages: dict[str, ChartPage]) -> None:
    for page in pages.values():
        for one in page.charts:
            for draw in one.chart.drawings.values():
                spec = draw(one.frame.head(200), STYLES).properties(data={"values": []}).to_dict()
                vl_convert.vegalite_to_vega(spec, vl_version="6.4")


def test_no_page_and_no_part_holds_markup_of_a_token(results: Path) -> None:
    folder = results / STUDY
    for path in [*folder.glob("*.html"), *folder.glob("data/*.js")]:
        text = path.read_text(encoding="utf-8")
        assert HOSTILE not in text
        assert "<img src=x" not in text
    assert "\\u003cscript>alert(1)" in (folder / "data" / "static.points.0.js").read_text(encoding="utf-8")


def test_the_sql_of_an_exhibit_gives_the_rows_of_its_csv(
    pages: dict[str, ChartPage], store: Store, results: Path
) -> None:
    for name in ("static.extremes", "sentences.concepts", "sentences.probes"):
        one = one_of(pages, name)
        csv = pd.read_csv(results / STUDY / one.csv, keep_default_na=False)
        assert len(csv) == len(store.frame(one.sql)) > 0


def test_a_part_is_a_model_at_a_checkpoint_and_says_which_columns(pages: dict[str, ChartPage]) -> None:
    page = pages["sentences"]
    assert [one["label"] for one in page.data["who"]] == ["bert", "gpt2 · step 600", "gpt2 · step 50"]
    part = page_data(one_of(pages, "sentences.groups"))["sentences.groups.1"]
    assert "model" not in part["columns"]
    assert part["rows"] == 2 * 3 * 4
    assert [one["label"] for one in pages["vocabulary"].data["who"]] == ["bert", "gpt2"]


def test_the_slider_stops_at_every_place_in_order(pages: dict[str, ChartPage]) -> None:
    bert, *gpt2 = pages["sentences"].data["who"]
    assert [(stop["site"], stop["layer"]) for stop in bert["path"]] == [
        ("embedding", 0), *(("block", layer) for layer in range(1, 5)), ("final", 4)
    ]  # fmt: skip
    assert [stop["layer"] for stop in bert["attention"]] == [1, 2, 3, 4]
    assert all(one["attention"] == [] and len(one["path"]) == 4 for one in gpt2)


def test_the_means_of_concepts_are_arrows_and_no_points(pages: dict[str, ChartPage]) -> None:
    frame = one_of(pages, "sentences.pair-points").frame
    means = frame[frame["mean"]]
    assert set(means["concept"]) == {"female-male", "doctor-nurse", "past-present"}
    assert len(means) == 3 * frame[["model", "checkpoint", "site", "layer"]].drop_duplicates().shape[0]


def test_cosines_of_concepts_stand_on_both_sides_and_are_judged_together(store: Store) -> None:
    frame = store.frame(filled(query("sentences.concepts"), study=STUDY))
    layer = frame[(frame["model"] == "bert") & (frame["site"] == "block") & (frame["layer"] == 2)]
    assert len(layer) == 6
    assert layer["level"].to_numpy() == pytest.approx(0.05 / 3)
    assert set(layer.loc[layer["beyond"], "concept_a"]) == {"female-male", "doctor-nurse"}
    assert layer.groupby("p")["cosine"].nunique().max() == 1


def test_what_is_known_of_positions_is_said_plainly(pages: dict[str, ChartPage], results: Path) -> None:
    bert, gpt2 = pages["vocabulary"].more["known"]
    assert bert["plain"].startswith("It adds a learned vector for each position")
    assert "no position vectors" in gpt2["plain"]
    assert bert["outliers"].startswith("5 of 1,680 pairs of a token and a position have |cosine| > 0.2")
    assert "1.25 would" in bert["outliers"]
    html = (results / STUDY / "vocabulary.html").read_text(encoding="utf-8")
    assert "A note on <b>" not in html and "positions&lt;/" in html  # its formula b is set as one, its tag is text
    assert "140 tokens are in the table" in html
    assert "nan" not in re.sub(r"<script.*?</script>", "", html, flags=re.S)


def test_a_large_vocabulary_does_not_come_to_the_page(store: Store, tmp_path: Path, made_up: ModuleType) -> None:
    made_up.fill_exhibited(tmp_path / "results.duckdb")
    big = Store(tmp_path / "results.duckdb")
    big.frame("SELECT 1")
    import duckdb

    who = "'exhibited' AS study, 'big' AS model, 'final' AS checkpoint"
    with duckdb.connect(str(tmp_path / "results.duckdb")) as connection:
        connection.execute(
            f"INSERT INTO projections BY NAME SELECT {who}, 'vocabulary' AS analysis, '(weights)' AS item, 'pca' AS "
            "projection, 'token' AS part, i::INTEGER AS point, 'x' AS label, 0.0 AS x, 0.0 AS y FROM range(9000) t(i)"
        )
        connection.execute(
            f"INSERT INTO position_cosines BY NAME SELECT {who}, (4 * i)::INTEGER AS position_a, (4 * j)::INTEGER AS "
            "position_b, 0.5 AS cosine FROM range(64) a(i), range(64) b(j)"
        )
        connection.execute(
            f"INSERT INTO positions BY NAME SELECT {who}, i::INTEGER AS position, 1.0 AS norm FROM range(8192) t(i)"
        )
    counts = {
        name: len(big.frame(f"SELECT * FROM ({filled(query(name), study=STUDY)}) WHERE model = 'big'"))
        for name in ("static.points", "static.position-cosines", "static.path")
    }
    assert counts == {"static.points": 2000, "static.position-cosines": 64 * 64, "static.path": 2048}


def test_an_analysis_shows_its_statistics_by_item_and_none_without_statistics(results: Path) -> None:
    html = (results / STUDY / "index.html").read_text(encoding="utf-8")
    assert 'id="metric-probes"' in html
    assert 'id="metric-vocabulary"' not in html, "it has a page and no statistics"
    assert "not installed" not in html
    panels = re.findall(r'data-chart="probes.linear" data-value="([^"]*)"', html)
    assert set(panels) == {"classes"}
    together = (results / STUDY / "data" / "sentences.selectivity.js").read_text(encoding="utf-8")
    assert '"data":{"rows":' in together and '"parts"' not in together
