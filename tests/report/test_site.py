from __future__ import annotations

import csv
import io
import re
import shutil
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reporter.charts.drawing import NUMBERS
from reporter.core.errors import UsageError
from reporter.metrics.base import catalogue
from reporter.report import free_charts, render
from reporter.report.templating import folded, typeset
from reporter.store import Store, query

HOSTILE = "<script>alert(1)</script>"


class Page(HTMLParser):
    """Collects what tests ask for: tags with attributes, and the SQL of each figure."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.sql: dict[str, str] = {}
        self._csv = self._figure = ""
        self._code = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.tags.append((tag, own))
        if tag == "article":
            self._figure = (own.get("id") or "").removeprefix("figure-")
        self._code = self._code or (tag == "pre")

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre":
            self._code = False
        if tag == "article":
            self._figure = ""

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._code and self._figure:
            self.sql[self._figure] = self.sql.get(self._figure, "") + data

    def all(self, tag: str, name: str) -> list[str]:
        return [own[name] or "" for kind, own in self.tags if kind == tag and name in own]


@pytest.fixture(scope="module")
def page(results: Path) -> Page:
    return Page(results / "made-up" / "index.html")


@pytest.fixture(scope="module")
def torn(results: Path) -> Page:
    return Page(results / "torn" / "index.html")


def seen(text: str) -> str:
    """What a reader sees of a text whose formulas are set as print sets them."""
    return unescape(re.sub(r"<[^>]+>", "", typeset(text)))


def test_every_statistic_has_a_chart_with_its_definition(page: Page) -> None:
    for metric in catalogue().values():
        together = {name for chart in metric.charts if chart.alone for name in chart.statistics}
        for statistic in metric.statistics:
            if statistic.per == "pair" or statistic.name in together:
                continue  # drawn together with others
            assert f"{metric.name}.{statistic.name}" in page.sql
            assert all(seen(part) in page.text for part in folded(statistic.definition))
            assert not statistic.trap or seen(statistic.trap) in page.text
            assert all(source.citation in page.text for source in statistic.works)


def test_headlines_are_followed_over_training(page: Page) -> None:
    headlines = {
        f"{m.name}.{s.name}.training"
        for m in catalogue().values()
        for s in m.statistics
        if s.headline and s.per != "pair"
    }
    assert {name for name in page.sql if name.endswith(".training")} == headlines != set()


def test_the_sql_on_the_page_gives_the_rows_of_the_csv(results: Path) -> None:
    study, numbers = "whole", set(NUMBERS)
    for name, sql in Page(results / study / "index.html").sql.items():
        shown = list(csv.DictReader(io.StringIO(query(results / "results.duckdb", sql, "csv"))))
        text = (results / study / "data" / f"{name}.csv").read_text(encoding="utf-8")
        stored = list(csv.DictReader(io.StringIO(text)))
        assert len(shown) == len(stored) > 0, name
        for one, other in zip(shown, stored, strict=True):
            assert one.keys() == other.keys()
            for column, text in other.items():
                if column in numbers and text:
                    assert float(one[column]) == pytest.approx(float(text), rel=1e-12), (name, column)
                else:
                    assert one[column] == text, (name, column)


def test_every_link_leads_somewhere(results: Path, page: Page) -> None:
    ids = (
        set(page.all("section", "id"))
        | set(page.all("article", "id"))
        | set(page.all("details", "id"))
        | set(page.all("main", "id"))
    )
    for link in page.all("a", "href"):
        assert link[1:] in ids if link.startswith("#") else (results / "made-up" / link).exists(), link


@pytest.mark.parametrize("name", ["index.html", "made-up/index.html", "torn/index.html"])
def test_nothing_is_asked_of_the_network(results: Path, name: str) -> None:
    page = Page(results / name)
    asked = page.all("script", "src") + page.all("link", "href") + page.all("img", "src") + page.all("a", "href")
    assert [address for address in asked if re.match(r"(https?:)?//", address)] == []
    assert "url(" not in (results / "assets" / "reporter.css").read_text(encoding="utf-8")


def test_hostile_text_is_escaped_everywhere(results: Path, torn: Page) -> None:
    for name in ("index.html", "torn/index.html"):
        text = (results / name).read_text(encoding="utf-8")
        assert HOSTILE not in text
        assert "</script>alert" not in text
    assert torn.text.count(HOSTILE) > 5, "it is there, as text"


def test_failures_stand_at_the_top(torn: Page) -> None:
    at = {
        needle: torn.text.index(needle)
        for needle in ("What is missing", "is not there: give another path", "At a glance")
    }
    assert at["What is missing"] < at["is not there: give another path"] < at["At a glance"]
    assert "2 failed" not in torn.text.split("At a glance")[0], "the facts count cells"
    assert "1 failed" in torn.text


def test_a_warning_on_the_last_checkpoint_is_told_before_the_charts(made_up: ModuleType, tmp_path: Path) -> None:
    store = made_up.fill(tmp_path / "results.duckdb", corpora=("one",), metrics=("motion",))
    key = {"study": "made-up", "model": "gpt2", "checkpoint": "step600"}
    store.put("models", tuple(key), key | {"warning": "learned nothing <b>"})
    top = Page(render(tmp_path / "results.duckdb", tmp_path)[1]).text.split("Models compared")[0]
    assert "1 warning" in top and "gpt2: learned nothing <b>" in top
    assert "bert" not in top, "a warning on an early checkpoint stays in the table"


def test_nulls_are_counted_and_explained(page: Page) -> None:
    assert "more than half are duplicates" in page.text
    assert re.search(r"\d+ of \d+ values missing", page.text)


def test_the_list_has_every_study(results: Path) -> None:
    index = Page(results / "index.html")
    assert "made-up/index.html" in index.all("a", "href") and "torn/index.html" in index.all("a", "href")
    assert "complete" in index.text and "2 failed" in index.text
    lines = [d for d in index.all("path", "d") if not d.endswith("z")]  # beside the marks of models
    assert len(lines) == 4 + 3 + 3 + 2, "null baselines have no line, items of analyses have"


def test_a_broken_chart_leaves_the_page_alone(
    made_up: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up.fill(tmp_path / "results.duckdb", corpora=("one",), metrics=("motion",), models=made_up.MODELS[1:2])

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no ink <b>")

    monkeypatch.setattr(free_charts.profile, "profile", broken)
    render(tmp_path / "results.duckdb", tmp_path)
    text = (tmp_path / "made-up" / "index.html").read_text(encoding="utf-8")
    assert "This chart could not be made." in text and "RuntimeError: no ink &lt;b&gt;" in text
    assert 'id="provenance"' in text


def test_a_chart_that_memory_does_not_suffice_for_is_not_shown_as_broken(
    made_up: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up.fill(tmp_path / "results.duckdb", corpora=("one",), metrics=("motion",), models=made_up.MODELS[1:2])

    def greedy(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(free_charts.profile, "profile", greedy)
    with pytest.raises(MemoryError):
        render(tmp_path / "results.duckdb", tmp_path)
    assert not list(tmp_path.rglob("*.html")), "the next run would take it for up to date"


def test_a_study_without_numbers_has_a_page(made_up: ModuleType, tmp_path: Path) -> None:
    made_up.fill(tmp_path / "results.duckdb", models=(), corpora=(), title=None, question=None)
    page = Page(render(tmp_path / "results.duckdb", tmp_path)[1])
    assert "No numbers yet" in page.text and "made-up" in page.text


def test_numbers_of_a_metric_that_is_not_installed_are_drawn(made_up: ModuleType, tmp_path: Path) -> None:
    store = made_up.fill(tmp_path / "results.duckdb", models=(), corpora=())
    key = {"study": "made-up", "model": "m", "checkpoint": "final", "corpus": "c", "metric": "gone"}
    row = {"role": "decoder", "view": "words", "statistic": "by_layer", "value": 1.5, "n": 3}
    rows = [row | {"layer": layer, "depth": layer / 2} for layer in range(3)]
    store.commit_cell(key | {"status": "done"}, [*rows, row | {"statistic": "of_model"}])
    page = Page(render(tmp_path / "results.duckdb", tmp_path)[1])
    assert set(page.sql) == {"gone.by_layer", "gone.of_model"}
    assert "not installed here" in page.text


def test_only_the_asked_for_study_is_written_and_leftovers_go(made_up: ModuleType, tmp_path: Path) -> None:
    small = {"corpora": ("one",), "metrics": ("motion",), "models": made_up.MODELS[1:2]}
    for study in ("first", "second"):
        made_up.fill(tmp_path / "results.duckdb", study, **small)
    stale = tmp_path / "first" / "data" / "stale.csv"
    stale.parent.mkdir(parents=True)
    stale.write_text("old")
    written = render(tmp_path / "results.duckdb", tmp_path, ["first"])
    assert written == [tmp_path / "index.html", tmp_path / "first" / "index.html"]
    assert not stale.exists() and not (tmp_path / "second").exists()
    index = Page(tmp_path / "index.html")
    assert index.all("a", "href") == ["#main", "first/index.html"]
    assert "reporter run --report-only second" in index.text
    assert [path.name for path in tmp_path.rglob(".*")] == [], "no half-written file stays"


def test_rendering_again_changes_nothing(results: Path, tmp_path: Path) -> None:
    results = shutil.copytree(results, tmp_path / "results")  # others read the one that all tests share

    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in results.rglob("*") if path.suffix in (".html", ".js", ".csv")}

    before = files()
    script = (results / "assets" / "reporter.js").stat()
    render(results / "results.duckdb", results, ["explored", "torn"])
    assert before == {
        path: path.read_bytes() for path in sorted(results.rglob("*")) if path.suffix in (".html", ".js", ".csv")
    }
    assert (results / "assets" / "reporter.js").stat().st_mtime_ns == script.st_mtime_ns, "made once"


def test_an_unknown_study_names_those_there_are(results: Path) -> None:
    with pytest.raises(UsageError, match=r"no study 'mine'.*made-up, torn"):
        render(results / "results.duckdb", results, ["mine"])


def test_no_results_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="reporter run"):
        render(tmp_path / "results.duckdb", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("study", ["assets", "../up"])
def test_a_study_cannot_be_written_over_something_else(made_up: ModuleType, tmp_path: Path, study: str) -> None:
    made_up.fill(tmp_path / "results.duckdb", study, models=(), corpora=())
    with pytest.raises(UsageError, match="cannot name a folder"):
        render(tmp_path / "results.duckdb", tmp_path)


def test_a_large_study_stays_a_small_page(made_up: ModuleType, tmp_path: Path) -> None:
    models = [(f"model-{i}", ("encoder", "decoder")[i % 2], 12, 768, (None,)) for i in range(12)]
    made_up.fill(tmp_path / "results.duckdb", models=models, corpora=("a", "b", "c", "d"))
    page = render(tmp_path / "results.duckdb", tmp_path)[1]
    assert page.stat().st_size < 1_200_000, "numbers are in scripts of their own, but for the headline comparison"
    (numbers,) = Store(tmp_path / "results.duckdb").frame("SELECT count(*) AS n FROM layer_metrics")["n"]
    assert numbers > 100_000
    assert sum(path.stat().st_size for path in (page.parent / "data").glob("*.js")) < 40 * numbers


def test_several_that_write_one_study_at_a_time_do_not_meet(tmp_path):
    """What two runs of one study do at their ends; each goes through, and one of them is there as a whole."""
    from concurrent.futures import ThreadPoolExecutor

    from reporter.core.files import unfinished_folder
    from reporter.report.site import _put

    def write(number):
        for _ in range(20):
            with unfinished_folder(tmp_path) as fresh:
                for name in ("a", "b"):
                    (fresh / name).write_text(str(number))
                _put(fresh, tmp_path / "data")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert (tmp_path / "data" / "a").read_text() == (tmp_path / "data" / "b").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_figures_are_numbered_and_can_be_linked(page: Page, results: Path) -> None:
    text = (results / "made-up" / "index.html").read_text("utf-8")
    numbers = re.findall(r'class="figure-number">Figure (\d+) <a href="#figure-([^"]+)"', text)
    assert [int(number) for number, _ in numbers] == list(range(1, len(numbers) + 1))
    assert len({name for _, name in numbers}) == len(numbers) > 5


def test_a_report_says_how_it_is_cited(results: Path) -> None:
    text = (results / "made-up" / "index.html").read_text("utf-8")
    bib = (results / "made-up" / "data" / "references.bib").read_text("utf-8")
    assert bib.startswith("@misc{report-made-up,") and "@misc{report-made-up," in text
    (stated,) = set(re.findall(r"SHA-256 of the numbers:[^0-9a-f]*(?:<code[^>]*>)?([0-9a-f]{64})", text))
    sql = re.search(r"SELECT sha256.+?</code>", text, re.DOTALL)
    assert sql is not None
    asked = unescape(sql[0].removesuffix("</code>"))
    assert stated in query(results / "results.duckdb", asked, "csv")


def test_a_csv_runs_no_formula(made_up: ModuleType, tmp_path: Path) -> None:
    models = (("=1+1", "encoder", 4, 64, (None,)), *made_up.MODELS[1:3])
    made_up.fill(tmp_path / "results.duckdb", models=models, metrics=("anisotropy",))
    render(tmp_path / "results.duckdb", tmp_path)
    for path in (tmp_path / "made-up" / "data").glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as lines:
            cells = [cell for row in csv.reader(lines) for cell in row]
        assert not any(cell.startswith("=") for cell in cells), path.name
    assert "'=1+1" in (tmp_path / "made-up" / "data" / "anisotropy.top_variance_share.csv").read_text("utf-8")
