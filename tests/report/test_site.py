"""The pages of a results folder: charts and their definitions, links, failures, what is hostile or missing."""

import io
import json
import re
from unittest.mock import Mock

import pandas as pd
import pytest
from report.made_up import HOSTILE, MODELS, SMALL, fill, fill_explorers
from report.reading import queries_of, read, rows_of, text_of, values_of

from reporter.core.errors import UsageError
from reporter.core.outputs import LIST, replacing
from reporter.metrics.base import catalogue
from reporter.report import contents, free_charts, render
from reporter.report.templating import folded, typeset
from reporter.store import query

PAGES = ("whole/layers", "whole/claims", "whole/training", "made-up/layers", "explored/tokens")
PAGES += ("exhibited/weights", "exhibited/texts")


def test_every_statistic_has_a_chart_with_its_definition_and_main_ones_are_followed_over_training(whole):
    text, figures, followed = text_of(whole), queries_of(whole), set()
    assert "could not be made" not in whole
    for metric in catalogue().values():
        together = {name for chart in metric.charts if chart.alone for name in chart.statistics}
        for statistic in metric.statistics:
            if statistic.per != "pair" and statistic.main:
                followed.add(f"{metric.name}.{statistic.name}.training")
            if statistic.per == "pair" or statistic.name in together or not statistic.charted:
                continue  # drawn together with others
            assert f"{metric.name}.{statistic.name}" in figures
            shown = (*folded(statistic.definition), statistic.trap)
            assert all(text_of(str(typeset(part))) in text for part in shown)
            assert all(" ".join(source.citation.split()) in text for source in statistic.works)
    assert {name for name in figures if name.endswith(".training")} == followed != set()
    names = re.findall(r'id="figure-([^"]+)"', whole)
    assert len(set(names)) == len(names) > 5, "no figure stands twice"


@pytest.mark.parametrize("page", PAGES)
def test_the_sql_on_a_page_gives_the_rows_of_its_csv(reports, page):
    """One query of each shape: charts of one kind differ by the names in it."""
    folder = (reports / page).parent
    queries = queries_of(read(reports / f"{page}.html"))
    assert page != "whole/claims" or {"claims", "findings"} <= set(queries)
    shown = {re.sub(r"'[^']*'", "", sql): name for name, sql in reversed(queries.items())}
    assert len(shown) > 1
    for name in shown.values():
        texts = query(reports / "results.duckdb", queries[name], "csv"), read(folder / "data" / f"{name}.csv")
        own, kept = (pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""]) for text in texts)
        assert len(own) > 0, name
        pd.testing.assert_frame_equal(own, kept, check_dtype=False, rtol=1e-12, obj=name)


@pytest.mark.parametrize("page", ("index", *PAGES, "explored/index", "exhibited/index"))
def test_every_link_leads_somewhere_and_nothing_is_asked_of_the_network(reports, page):
    html = read(path := reports / f"{page}.html")
    links = [*values_of(html, "a", "href"), *values_of(html, "link", "href"), *values_of(html, "script", "src")]
    for link in links + values_of(html, "img", "src"):
        address, _, place = link.partition("#")
        file, _, asked = address.partition("?")
        assert link.startswith("data:") or (path.parent / file).exists(), link
        there = re.findall(r'\sid="([^"]+)"', read(path.parent / file) if file.endswith(".html") else html)
        assert not place or place in there, link
        if asked.startswith("figure="):
            assert f"figure-{asked.removeprefix('figure=').partition('&')[0]}" in there, link
    assert "url(" not in read(reports / "assets" / "reporter.css")


def test_no_page_and_no_part_holds_markup_of_a_name_or_a_token(reports, torn):
    for text in map(read, [*reports.rglob("*.html"), *reports.glob("*/data/*.js")]):
        assert HOSTILE not in text and "</script>alert" not in text and "<img src=x" not in text
    assert torn.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 5, "it is there, as text"
    scripts = list(reports.glob("*/data/*.js"))
    assert len({path.parent for path in scripts}) == 4
    for path in scripts:  # numbers come as scripts beside the page
        body = re.fullmatch(r"reporterPart\(\"([^\"]*)\",(.*)\);\n", read(path), re.DOTALL)
        assert body and "<" not in body[2] and body[1] == path.stem and json.loads(body[2])


def test_failures_and_last_warnings_are_told_before_the_charts(torn, written, tmp_path):
    text = text_of(torn)
    places = [text.index(needle) for needle in ("What is missing", "is not there: give another path", "1 failed")]
    assert places == sorted(places) and "more than half are duplicates" in text
    assert re.search(r"\d+ of \d+ values missing", text)
    key = {"study": "made-up", "model": "gpt2", "checkpoint": "step600"}
    store = fill(tmp_path / "results.duckdb", **SMALL | {"models": MODELS[:3]})
    store.put("models", tuple(key), key | {"warning": "learned nothing <b>"})
    written()
    top = text_of(read(tmp_path / "made-up" / "method.html")).partition("Models")[0]
    assert "1 warning" in top and "gpt2: learned nothing <b>" in top
    assert "bert" not in top, "a warning on an early checkpoint stays in the table"


def test_the_list_has_every_study(reports):
    html = read(reports / "index.html")
    assert "complete" in html and "2 failed" in html
    cards = re.findall(r"<article.*?</article>", html, re.DOTALL)
    names = [values_of(card, "a", "href")[0].partition("/")[0] for card in cards]
    lines = [sum(not path.endswith("z") for path in values_of(card, "path", "d")) for card in cards]
    counts = {"whole": 3, "made-up": 4, "explored": 0, "exhibited": 2}
    assert dict(zip(names, lines, strict=True)) == counts, "null baselines have no line, items of analyses have"


BREAKS = {"layers": (free_charts.profile, "profile"), "tokens": (contents, "read_journeys")}


@pytest.mark.parametrize("page", BREAKS)
def test_what_breaks_says_so_and_short_memory_leaves_no_page(written, tmp_path, monkeypatch, page):
    monkeypatch.setattr(*BREAKS[page], Mock(side_effect=MemoryError()))
    with pytest.raises(MemoryError):
        written()
    assert not list(tmp_path.rglob("*.html")), "the next run would take it for up to date"
    monkeypatch.setattr(*BREAKS[page], Mock(side_effect=RuntimeError("no ink <b>")))
    text = written()
    assert "RuntimeError: no ink &lt;b&gt;" in read(tmp_path / "made-up" / f"{page}.html")
    for name in ("layers", "index"):  # in its place, with the way to its numbers
        broken = "This chart could not be drawn." in read(tmp_path / "made-up" / f"{name}.html")
        assert broken == (page == "layers"), name
    assert ("Its numbers as CSV" in text) == (page == "layers")
    assert 'id="provenance"' in text and "motion.norm" in text


def test_a_study_without_numbers_has_a_page_and_no_leftovers_of_others(written, tmp_path):
    with replacing(tmp_path, "made-up") as fresh:
        (fresh / "layers.html").write_text("old")
    stale = tmp_path / "made-up" / "layers.html"
    html = written(models=(), corpora=(), title=None, question=None)
    assert "No numbers yet" in html and "made-up" in html and "claim" not in html and 'id="answers"' not in html
    assert not stale.exists() and 'href="claims.html"' not in html
    assert json.loads(re.findall(r'id="page">(.*?)</script>', html)[0])


def test_numbers_of_a_metric_that_is_not_installed_are_drawn(written, tmp_path):
    key = {"study": "made-up", "model": "m", "checkpoint": "final", "corpus": "c", "metric": "gone", "status": "done"}
    row = {"role": "decoder", "view": "text tokens", "statistic": "by_layer", "value": 1.5, "n": 3}
    rows = [row | {"layer": layer, "depth": layer / 2} for layer in range(3)] + [row | {"statistic": "of_model"}]
    fill(tmp_path / "results.duckdb", models=(), corpora=()).commit_cell(key, rows)
    html = written()
    assert {name for name in queries_of(html) if "." in name} == {"gone.by_layer", "gone.of_model"}
    assert "Not installed here" in html


def test_only_the_study_that_is_named_is_written_the_same_again_and_leftovers_go(tmp_path):
    fill(tmp_path / "results.duckdb", "second", **SMALL)
    fill_explorers(tmp_path / "results.duckdb", "explored")
    with replacing(tmp_path, "explored") as fresh:
        (fresh / "stale.csv").write_text("old")
    stale = tmp_path / "explored" / "stale.csv"

    def files():
        render(tmp_path / "results.duckdb", tmp_path, ["explored"])
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.suffix in (".html", ".js", ".csv")}

    before = files()
    assert not stale.exists() and not (tmp_path / "second").exists()
    assert values_of(read(tmp_path / "index.html"), "a", "href")[:2] == ["#main", "explored/index.html"]
    assert "reporter run --report-only second" in text_of(read(tmp_path / "index.html"))
    assert before == files() and {path.name for path in tmp_path.rglob(".*")} == {LIST}, "no half-written file stays"


def test_what_has_no_page_is_said(reports, tmp_path):
    with pytest.raises(UsageError, match=r"no study 'mine'.*made-up, whole"):
        render(reports / "results.duckdb", reports, ["mine"])
    with pytest.raises(UsageError, match="reporter run"):
        render(tmp_path / "results.duckdb", tmp_path)
    for study in ("assets", "../up"):
        fill(tmp_path / "results.duckdb", study, models=(), corpora=())
        with pytest.raises(UsageError, match="cannot be a folder's name"):
            render(tmp_path / "results.duckdb", tmp_path, [study])


def test_a_report_says_how_it_is_cited(reports, whole):
    assert read(reports / "whole" / "data" / "references.bib").startswith("@misc{report-whole,")
    assert "@misc{report-whole," in whole
    (stated,) = set(re.findall(r"SHA-256 of the numbers:[^0-9a-f]*(?:<code[^>]*>)?([0-9a-f]{64})", whole))
    (sql,) = re.findall(r"(SELECT sha256.+?)</code>", whole, re.DOTALL)
    assert stated in query(reports / "results.duckdb", text_of(sql), "csv")


def test_a_csv_runs_no_formula(written, tmp_path):
    written(models=(("=1+1", "encoder", 4, 64, (None,)), MODELS[1]))
    for path in (tmp_path / "made-up" / "data").glob("*.csv"):
        assert not any(str(cell).startswith("=") for row in rows_of(read(path)) for cell in row.values()), path.name
    assert "'=1+1" in {row["model"] for row in rows_of(read(tmp_path / "made-up" / "data" / "motion.norm.csv"))}


def test_a_long_text_opens_with_whole_sentences_or_clauses():
    text = "The mean (of a; b. c) over x of layer l. h is what Skean et al. show; " + "more of it; " * 40
    first, rest = folded(text)
    assert first.startswith("The mean (of a; b. c) over x of layer l. h is what Skean et al. show; more")
    assert 36 < len(first.split()) <= 40 and f"{first}; {rest}".split() == text.split()
    assert folded("short; and whole") == ("short; and whole", "")
    assert folded(text, 2)[0] == "The mean (of a; b. c) over x of layer l.", "no clause is cut"
