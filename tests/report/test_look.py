"""What a study says under ``report``: figures and their order, parts left out, theme, style, templates of its own."""

import re
from pathlib import Path

import pytest
from report.made_up import SMALL, fill
from report.reading import read_pages

from reporter.core.errors import ReporterError, UsageError
from reporter.report import render
from reporter.report.look import keep_look, read_look
from reporter.spec.study import ReportSpec
from reporter.store import Store

FIGURES = r'<article class="figure card[^>]*id="figure-([^"]+)"'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("look")
    fill(folder / "results.duckdb", **SMALL | {"metrics": ("anisotropy", "motion")})
    return folder


@pytest.fixture(scope="module")
def written(folder):
    """Returns a function that writes a small study's page as its key ``report`` says."""

    def write(report):
        key = {"study": "made-up", "spec": f"study: made-up\n{report}"}
        Store(folder / "results.duckdb").put("studies", ("study",), key)
        render(folder / "results.duckdb", folder)
        return read_pages(folder / "made-up")

    return write


@pytest.fixture(scope="module")
def plain(written):
    return written("")


def test_figures_are_those_asked_for_in_their_order(written, plain):
    names = ["motion.step_cosine", "anisotropy.mean_cosine", "anisotropy.top_variance_share"]
    everything = re.findall(FIGURES, plain)
    assert set(names) < set(everything)
    page = written(f"report: {{figures: [{', '.join(names)}, nothing.known]}}\n")
    assert [figure for figure in re.findall(FIGURES, page) if not figure.endswith(".training")] == names
    whole = re.findall(FIGURES, written("report: {figures: [motion]}\n"))
    assert set(whole) == {figure for figure in everything if figure.startswith("motion.")}


def test_parts_are_left_out_of_the_page_and_of_its_contents(written, plain):
    page = written("report: {hide: [glance, motion, provenance, cells]}\n")
    for part in ("glance", "figure-motion.step_cosine", "provenance", "cells"):
        assert f'id="{part}"' in plain and f'id="{part}"' not in page
    assert 'id="figure-anisotropy.mean_cosine"' in page and 'id="models"' in page


def test_theme_and_style_are_the_studys_and_cannot_leave_their_element(written, plain, folder, tmp_path):
    assert "data-theme" not in plain.partition("<head>")[0]
    own = tmp_path / "mine.css"
    own.write_text("h1 { color: teal } /* </style><script>alert(1)</script> */")
    assert keep_look("made-up", None, own, folder / "made-up")
    assert not keep_look("made-up", None, own, folder / "made-up"), "nothing is other than it was"
    page = written("report: {theme: dark, style: mine.css}\n")
    assert '<html lang="en" data-theme="dark">' in page
    assert "h1 { color: teal }" in page and "</style><script>alert" not in page


def test_templates_of_its_own_build_on_the_reports_in_a_sandbox(written, folder, tmp_path):
    def keep(text):
        (tmp_path / "study.html").write_text(text)
        keep_look("made-up", tmp_path, None, folder / "made-up")

    foot = '{{% extends "reporter/study.html" %}}{{% block foot %}}<footer>Of {}</footer>{{% endblock %}}'
    keep(foot.format("{{ scene.models }}"))
    with pytest.raises(ReporterError, match=r"'made-up', report.templates: .*correct it, or remove report.templates"):
        written("report: {templates: ./mine}\n")  # a scene has no models
    keep("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(ReporterError, match="unsafe"):
        written("report: {templates: mine}\n")
    keep(foot.format("{{ study.study }}"))
    page = written("report: {templates: ./mine}\n")
    assert "<footer>Of made-up</footer>" in page and 'id="figure-motion.step_cosine"' in page
    assert "<footer>" not in written(""), "a study that no longer asks for them is written without"


def test_what_is_not_there_is_said(tmp_path):
    (tmp_path / "empty").mkdir()
    for templates, style, says in (
        ("gone", None, "report.templates: there is no folder"),
        ("empty", None, "has no templates"),
        (None, "gone.css", "report.style: there is no file"),
    ):
        with pytest.raises(UsageError, match=says):
            keep_look("s", templates and tmp_path / templates, style and tmp_path / style, tmp_path / "s")


@pytest.mark.parametrize(
    "spec", [None, "", "[1, 2]", "report: 3", "report: {figures: 3, hide: {a: b}, theme: pink}", "{"]
)
def test_what_cannot_be_read_changes_nothing(spec, tmp_path):
    look = read_look({"spec": spec}, tmp_path)
    assert (look.theme, look.style, look.templates, look.figures, look.hidden) == ("system", "", None, (), frozenset())


def test_the_context_is_documented():
    root = Path(__file__).resolve().parents[2]
    page = (root / "reporter" / "app" / "docs" / "pages" / "extending.md").read_text("utf-8")
    section = page.partition("## Change how a report looks")[2].partition("\n## ")[0]
    names = set(re.findall(r"`(\w+)`", section.partition("Every page gets:")[2]))
    code = (root / "reporter" / "report" / "site.py").read_text("utf-8")
    parts = code.partition("def study_pages")[2].partition("\n    def page(")[0], code.partition("def common(")[2]
    given = set(re.findall(r'^        "(\w+)": ', parts[0] + parts[1].partition("\n\n\n")[0], re.MULTILINE))
    assert {"study", "contents", "scene"} <= given and given <= names
    assert given | {"look", "build", "here", "page_title", "charts", "page"} == names - {"studies", "report"}
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) >= set(ReportSpec.model_fields)
