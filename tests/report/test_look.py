"""What a study says under ``report``: figures and their order, parts left out, theme, style, templates of its own."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from reporter.core.errors import ReporterError, UsageError
from reporter.report import render
from reporter.report.look import keep_look, read_look
from reporter.spec.study import ReportSpec

FIGURES = r'<article class="figure wide[^>]*id="figure-([^"]+)"'


@pytest.fixture
def written(made_up: ModuleType, tmp_path: Path):
    """Writes a small study's page as its key ``report`` says."""

    some = {"models": made_up.MODELS[1:2], "corpora": ("nested",), "metrics": ("anisotropy", "motion")}
    store = made_up.fill(tmp_path / "results.duckdb", **some)

    def write(report: str) -> str:
        store.put("studies", ("study",), {"study": "made-up", "spec": f"study: made-up\n{report}"})
        render(tmp_path / "results.duckdb", tmp_path)
        return (tmp_path / "made-up" / "index.html").read_text(encoding="utf-8")

    return write


def test_figures_are_those_asked_for_in_their_order(written):
    asked = ["motion.step_cosine", "anisotropy.mean_cosine", "anisotropy.top_variance_share"]
    everything = re.findall(FIGURES, written(""))
    assert set(asked) < set(everything)
    page = written(f"report: {{figures: [{', '.join(asked)}, nothing.known]}}\n")
    shown = [figure for figure in re.findall(FIGURES, page) if not figure.endswith(".training")]
    assert shown == asked
    assert page.index('id="metric-motion"') < page.index('id="metric-anisotropy"')
    whole = re.findall(FIGURES, written("report: {figures: [motion]}\n"))
    assert whole == [figure for figure in everything if figure.startswith("motion.")]


def test_parts_are_left_out_of_the_page_and_of_its_contents(written):
    everything = written("")
    page = written("report: {hide: [glance, motion, provenance, cells]}\n")
    for part in ("glance", "metric-motion", "provenance", "cells"):
        assert f'id="{part}"' in everything and f'href="#{part}"' in everything
        assert f'id="{part}"' not in page and f'<li><a href="#{part}"' not in page
    assert 'id="metric-anisotropy"' in page and 'id="models"' in page


def test_theme_and_style_are_the_studys_and_cannot_leave_their_element(written, tmp_path):
    assert "data-theme" not in written("").partition("<head>")[0]
    own = tmp_path / "mine.css"
    own.write_text("h1 { color: teal } /* </style><script>alert(1)</script> */")
    assert keep_look("made-up", None, own, tmp_path / "made-up")
    assert not keep_look("made-up", None, own, tmp_path / "made-up"), "nothing is other than it was"
    page = written("report: {theme: dark, style: mine.css}\n")
    assert '<html lang="en" data-theme="dark">' in page
    assert "h1 { color: teal }" in page and "</style><script>alert" not in page


def test_templates_of_its_own_build_on_the_reports(written, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "study.html").write_text(
        '{% extends "reporter/study.html" %}{% block foot %}<footer>Of {{ study.study }}, {{ scene.models }}</footer>'
        "{% endblock %}"
    )
    keep_look("made-up", mine, None, tmp_path / "made-up")
    asked = "report: {templates: ./mine}\n"
    with pytest.raises(ReporterError, match=r"templates of study 'made-up': .*mend it, or take report.templates"):
        written(asked)  # a scene has no models
    (mine / "study.html").write_text(
        '{% extends "reporter/study.html" %}{% block foot %}<footer>Of {{ study.study }}</footer>{% endblock %}'
    )
    keep_look("made-up", mine, None, tmp_path / "made-up")
    page = written(asked)
    assert "<footer>Of made-up</footer>" in page and 'id="metric-motion"' in page
    assert "<footer>" not in written(""), "a study that no longer asks for them is written without"


def test_templates_run_in_a_sandbox(written, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "study.html").write_text("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    keep_look("made-up", mine, None, tmp_path / "made-up")
    with pytest.raises(ReporterError, match="unsafe"):
        written("report: {templates: mine}\n")


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(UsageError, match=r"report.templates names .*, which is no folder"):
        keep_look("s", tmp_path / "gone", None, tmp_path / "s")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no template"):
        keep_look("s", tmp_path / "empty", None, tmp_path / "s")
    with pytest.raises(UsageError, match=r"report.style names .*, which is no file"):
        keep_look("s", None, tmp_path / "gone.css", tmp_path / "s")


@pytest.mark.parametrize(
    "spec", [None, "", "[1, 2]", "report: 3", "report: {figures: 3, hide: {a: b}, theme: pink}", "{"]
)
def test_what_cannot_be_read_changes_nothing(spec, tmp_path):
    look = read_look({"spec": spec}, tmp_path)
    assert (look.theme, look.style, look.templates, look.figures, look.hidden) == ("system", "", None, (), frozenset())


def test_the_context_is_documented():
    root = Path(__file__).resolve().parents[2]
    page = (root / "reporter" / "app" / "docs" / "pages" / "extending.md").read_text("utf-8")
    said = page.partition("## Change how a report looks")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", said.partition("`study.html` gets:")[2]))
    page = (root / "reporter" / "report" / "site.py").read_text("utf-8")
    given = set(re.findall(r"^        (\w+)=", page.partition(".render(")[2].partition("\n    )")[0], re.MULTILINE))
    assert {"study", "contents", "scene"} <= given and given <= named
    assert given | {"look", "build"} == named - {"studies", "report"}
    assert set(re.findall(r"^\| `(\w+)` \|", said, re.MULTILINE)) >= set(ReportSpec.model_fields)
