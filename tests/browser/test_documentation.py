"""The site is made without a warning, every link in it leads somewhere, and its search works from a disk."""

import re
import sys
from html import unescape
from itertools import pairwise
from urllib.parse import unquote

import pytest

from reporter.app.docs import site as docs
from reporter.app.docs.reference import _QUERIED
from reporter.core.errors import ReporterError
from reporter.metrics.analysis import analyses
from reporter.metrics.base import catalogue
from reporter.runs.studies import offer
from reporter.store.schema import tables
from reporter.store.views import VIEWS
from reporter.study.study import study_form


def test_every_link_leads_somewhere_and_nothing_comes_from_elsewhere(documentation):
    pages = {path: path.read_text("utf-8") for path in documentation.rglob("*.html")}
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    lost = []
    for path, text in pages.items():
        for tag, link in re.findall(r'<(\w+)[^>]*?\s(?:href|src)="([^"]*)"', text):
            if re.match(r"[a-z]+:", link):
                assert tag == "a", f"{path.name} loads {link}"
                continue
            file, _, anchor = unescape(link).partition("#")
            to = (path.parent / unquote(file.split("?")[0])).resolve() if file else path
            if not to.is_file() or (anchor and to.suffix == ".html" and unquote(anchor) not in anchors[to]):
                lost.append(f"{path.relative_to(documentation)}: {link}")
    assert not lost, "\n".join(lost)


def test_every_page_has_a_twin_in_plain_markdown_and_an_entry_in_llms_txt(documentation):
    index = (documentation / "llms.txt").read_text("utf-8")
    assert re.match(r"# reporter\n\n> \S.*\n\n## \w", index)
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S.*$", index, re.MULTILINE)
    twins = {str(path.relative_to(documentation)): path.read_text("utf-8") for path in documentation.rglob("*.md")}
    pages = {str(path.relative_to(documentation).with_suffix(".md")) for path in documentation.rglob("*.html")}
    assert len(set(listed)) == len(listed) and {*listed, "index.md"} == set(twins) == pages - {"search.md"}
    for name, text in twins.items():
        outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert text.startswith("# ") and not re.search(r"^```\{|^\([^\s()]+\)=$|^: ", outside, re.MULTILINE), name
        for link in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", outside):
            assert ((documentation / name).parent / link).is_file(), f"{name}: {link}"
    assert "intrinsic_dimension.twonn" in twins["metrics/intrinsic_dimension.md"].replace("\\", "")
    assert "## reporter.run\n" in twins["python-names.md"]


def test_every_number_table_and_key_has_its_place(documentation):
    rooms = dict.fromkeys(catalogue(), "metrics") | dict.fromkeys(analyses(), "analyses")
    for name, one in (catalogue() | analyses()).items():
        text = (documentation / rooms[name] / f"{name}.html").read_text("utf-8")
        assert all(f"{name}.{statistic.name}<" in text for statistic in one.statistics)
        assert text.count("Definition</strong>") == len(one.statistics)
    for name, table in (tables() | VIEWS).items():
        place = "tables.html" if name in _QUERIED else f"tables/{name}.html"
        text = (documentation / place).read_text("utf-8")
        assert f'id="table-{name.replace("_", "-")}"' in text, name
        assert all(f">{column.name}</span>" in text for column in table.columns)
    assert len((documentation / "tables.md").read_text("utf-8").split()) < 5000
    keys = {
        path.name: path.read_text("utf-8")
        for path in [*documentation.glob("keys*.html"), *documentation.glob("keys/*.html")]
    }
    assert not [
        key
        for key in study_form(offer()).model_fields
        if not any(f'id="key-{key.replace("_", "-")}"' in t for t in keys.values())
    ]


def test_headings_skip_no_level(documentation):
    for path in documentation.rglob("*.html"):
        levels = [int(level) for level in re.findall(r"<h(\d)[ >]", path.read_text("utf-8").partition("<article")[2])]
        skipped = [pair for pair in pairwise([0, *levels]) if pair[1] > pair[0] + 1]
        assert not skipped and levels.count(1) == (path.name != "search.html"), path.name
    for path in documentation.rglob("*.md"):
        text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
        assert not [pair for pair in pairwise([0, *levels]) if pair[1] > pair[0] + 1], path.name


def test_what_keeps_the_site_from_being_made_is_said_and_nothing_is_left(tmp_path, monkeypatch):
    pytest.importorskip("furo", reason="needs the extra 'docs'")

    def write(folder):
        folder.mkdir()
        (folder / "index.md").write_text("# Page\n\n[nowhere](missing.md)\n")

    (tmp_path / "theirs.txt").write_text("mine")
    with pytest.raises(ReporterError, match="name a new folder"):
        docs.build(tmp_path)
    monkeypatch.setattr(docs, "write_sources", write)
    with pytest.raises(ReporterError, match=r"index\.md.*missing\.md"):
        docs.build(tmp_path / "site")
    monkeypatch.setitem(sys.modules, "sphinx.application", None)
    with pytest.raises(ReporterError, match=r"pip install 'layer-reporter\[docs\]'"):
        docs.build(tmp_path / "site")
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.txt"], "pages of somebody else are not replaced"


@pytest.mark.browser
def test_a_search_from_disk_finds_a_metric(documentation, tab):
    tab.open(documentation / "search.html", query="?q=twonn")
    tab.until("return document.querySelectorAll('#search-results li a').length > 0")
    links = tab.run("return [...document.querySelectorAll('#search-results li a')].map(one => one.href)")
    assert "metrics/intrinsic_dimension.html" in links[0]
    assert "TwoNN" in " ".join(tab.texts("#search-results .context mark"))  # a snippet, not a bare title
    tab.assert_quiet()


@pytest.mark.browser
def test_no_page_of_keys_is_longer_than_a_few_screens(documentation, tab):
    tab.open(documentation / "keys.html", 1400)
    for page in [documentation / "keys.html", *sorted(documentation.glob("keys/*.html"))]:
        tab.browser.get(page.as_uri())
        height = tab.run("return document.querySelector('article').getBoundingClientRect().height")
        assert height <= 4000, page.name
