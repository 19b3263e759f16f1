"""The pages of static embeddings and of sentences: rows, charts, what is said, and that tokens stay text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import vl_convert

from reporter.report.exhibits import sentence_queries, static_queries
from reporter.report.exhibits.explorer_sentences import read_sentences
from reporter.report.exhibits.explorer_vocabulary import read_vocabulary
from reporter.report.exhibits.page import ExhibitExplorer
from reporter.report.styles import style_models
from reporter.store import Store

STUDY = "exhibited"
STYLES = style_models({"bert": "encoder", "gpt2": "decoder"})
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def store(results: Path) -> Store:
    return Store(results / "results.duckdb")


@pytest.fixture(scope="module")
def pages(store: Store) -> dict[str, ExhibitExplorer]:
    with store.reading() as read:
        found = [read_vocabulary(read, STUDY, STYLES), read_sentences(read, STUDY, STYLES)]
    return {page.name: page for page in found if page is not None}


def hung(pages: dict[str, ExhibitExplorer], name: str) -> Any:
    own = [one for page in pages.values() if page.shown for one in page.shown.hung if one.id == name]
    return own[0]


def test_everything_is_shown_and_nothing_broke(pages: dict[str, ExhibitExplorer], results: Path) -> None:
    for name, page in pages.items():
        assert page.shown is not None
        assert {one.id: one.error for one in page.shown.hung if one.error} == {}
        assert all(one.specs or one.exhibit.drawing != "chart" for one in page.shown.hung)
        html = (results / STUDY / f"{name}.html").read_text(encoding="utf-8")
        assert "could not be made" not in html
        for one in page.shown.hung:
            assert f'id="figure-{one.id}"' in html
            assert f'href="{one.csv}"' in html
    assert list(pages["vocabulary"].shown.sections) == ["shares", "distributions", "picture", "ends", "positions"]  # type: ignore[union-attr]
    assert list(pages["sentences"].shown.sections) == ["groups", "pairs", "clouds", "probes"]  # type: ignore[union-attr]


def test_every_chart_passes_altairs_own_validation(pages: dict[str, ExhibitExplorer]) -> None:
    for page in pages.values():
        for one in page.shown.hung if page.shown else ():
            for draw in one.exhibit.charts.values():
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
    pages: dict[str, ExhibitExplorer], store: Store, results: Path
) -> None:
    for name in ("static.extremes", "sentences.concepts", "sentences.probes"):
        one = hung(pages, name)
        csv = pd.read_csv(results / STUDY / one.csv, keep_default_na=False)
        assert len(csv) == len(store.frame(one.sql)) > 0


def test_a_part_is_a_model_at_a_checkpoint_and_says_which_columns(pages: dict[str, ExhibitExplorer]) -> None:
    page = pages["sentences"]
    assert page.shown is not None
    assert [one.label for one in page.shown.who] == ["bert", "gpt2 · step 600", "gpt2 · step 50"]
    part = page.parts["sentences.groups.1"]
    assert "model" not in part["columns"]
    assert part["rows"] == 2 * 3 * 4
    assert [one.label for one in pages["vocabulary"].shown.who] == ["bert", "gpt2"]  # type: ignore[union-attr]


def test_the_slider_stops_at_every_place_in_order(pages: dict[str, ExhibitExplorer]) -> None:
    bert, *gpt2 = pages["sentences"].data["who"]
    assert [(stop["site"], stop["layer"]) for stop in bert["path"]] == [
        ("embedding", 0), *(("block", layer) for layer in range(1, 5)), ("final", 4)
    ]  # fmt: skip
    assert [stop["layer"] for stop in bert["attention"]] == [1, 2, 3, 4]
    assert all(one["attention"] == [] and len(one["path"]) == 4 for one in gpt2)


def test_the_means_of_concepts_are_arrows_and_no_points(pages: dict[str, ExhibitExplorer]) -> None:
    frame = hung(pages, "sentences.pair-points").frame
    means = frame[frame["mean"]]
    assert set(means["concept"]) == {"female-male", "doctor-nurse", "past-present"}
    assert len(means) == 3 * frame[["model", "checkpoint", "site", "layer"]].drop_duplicates().shape[0]


def test_cosines_of_concepts_stand_on_both_sides_and_are_judged_together(store: Store) -> None:
    frame = store.frame(sentence_queries.DIRECTION_COSINES.fill(study=STUDY))
    layer = frame[(frame["model"] == "bert") & (frame["site"] == "block") & (frame["layer"] == 2)]
    assert len(layer) == 6
    assert layer["level"].to_numpy() == pytest.approx(0.05 / 3)
    assert set(layer.loc[layer["beyond"], "concept_a"]) == {"female-male", "doctor-nurse"}
    assert layer.groupby("p")["cosine"].nunique().max() == 1


def test_what_is_known_of_positions_is_said_plainly(pages: dict[str, ExhibitExplorer], results: Path) -> None:
    bert, gpt2 = pages["vocabulary"].more["known"]
    assert bert["plain"].startswith("It adds a learned vector for each position")
    assert "no position vectors" in gpt2["plain"]
    assert bert["outliers"].startswith("5 of 1,680 pairs of a token and a position have |cosine| > 0.2")
    assert "1.25 would" in bert["outliers"]
    assert "One turn of the path takes 6.28 positions" in bert["period"]
    assert hung(pages, "static.position-norms").readings["bert", "final"] == "Changes character at 10 (p = 0.005)"
    html = (results / STUDY / "vocabulary.html").read_text(encoding="utf-8")
    assert "A note on &lt;b&gt;positions&lt;/b&gt;." in html
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
            "position_b, 0.5 AS cosine FROM range(128) a(i), range(128) b(j)"
        )
        connection.execute(
            f"INSERT INTO positions BY NAME SELECT {who}, i::INTEGER AS position, 1.0 AS norm, "
            "if(i = 4097, 0.01, NULL) AS change_p FROM range(8192) t(i)"
        )
    counts = {
        query.name: big.frame(f"SELECT count(*) AS n FROM ({query.fill(study=STUDY)}) WHERE model = 'big'")["n"].item()
        for query in (static_queries.POINTS, static_queries.HEAT, static_queries.POSITIONS)
    }
    assert counts == {"vocabulary_points": 2000, "position_cosines": 64 * 64, "positions": 2048 + 1}
    shares = big.frame(static_queries.SHARES.fill(study=STUDY))
    scripts = shares[(shares["sorted_by"] == "script") & (shares["model"] == "bert")]
    assert len(scripts) == 12
    assert list(scripts["sort"])[-1] == "others"
    assert scripts["share"].sum() == pytest.approx(1)


def test_an_analysis_shows_its_statistics_by_item_and_none_without_statistics(results: Path) -> None:
    html = (results / STUDY / "index.html").read_text(encoding="utf-8")
    assert 'id="metric-probes"' in html
    assert 'id="metric-vocabulary"' not in html, "it has a page and no statistics"
    assert "not installed" not in html
    panels = re.findall(r'data-figure="probes.linear" data-value="([^"]*)"', html)
    assert set(panels) == {"classes"}
    page = json.loads(re.findall(r'id="explorer">(.*?)</script>', (results / STUDY / "sentences.html").read_text())[0])
    assert page["exhibits"]["sentences.selectivity"]["parts"] == ["sentences.selectivity"]
