"""What a study says under ``report``: figures and their order, parts left out, theme, style, templates of its own."""

import re

import pytest

from reporter.core.errors import ReporterError, UsageError
from reporter.report.look import keep_look, read_look

FIGURES = r'<article class="figure card[^>]*id="figure-([^"]+)"'


def test_figures_are_those_asked_for_in_their_order_and_hidden_parts_are_left_out(written):
    names = ["motion.step_cosine", "anisotropy.mean_cosine", "anisotropy.top_variance_share"]
    plain = written("", metrics=("anisotropy", "motion"))
    page = written(f"report: {{figures: [{', '.join(names)}, nothing.known]}}\n")
    assert [figure for figure in re.findall(FIGURES, page) if not figure.endswith(".training")] == names
    page = written("report: {figures: [motion], hide: [glance, provenance, cells]}\n")
    motion = {figure for figure in re.findall(FIGURES, plain) if figure.startswith("motion.")}
    assert set(re.findall(FIGURES, page)) == motion != set()
    for part in ("glance", "provenance", "cells"):
        assert f'id="{part}"' in plain and f'id="{part}"' not in page
    page = written("report: {hide: [motion]}\n")
    assert "figure-motion.step_cosine" not in page and 'id="figure-anisotropy.mean_cosine"' in page


def test_theme_and_style_are_the_studys_and_cannot_leave_their_element(written, tmp_path):
    assert "data-theme" not in written("").partition("<head>")[0]
    own = tmp_path / "mine.css"
    own.write_text("h1 { color: teal } /* </style><script>alert(1)</script> */")
    assert keep_look("made-up", None, own, tmp_path)
    assert not keep_look("made-up", None, own, tmp_path), "nothing is other than it was"
    page = written("report: {theme: dark, style: mine.css}\n")
    assert '<html lang="en" data-theme="dark">' in page
    assert "h1 { color: teal }" in page and "</style><script>alert" not in page


def test_templates_of_its_own_build_on_the_reports_in_a_sandbox(written, tmp_path):
    (tmp_path / "own").mkdir()

    def keep(text):
        (tmp_path / "own" / "study.html").write_text(text)
        keep_look("made-up", tmp_path / "own", None, tmp_path)

    foot = '{{% extends "reporter/study.html" %}}{{% block foot %}}<footer>Of {}</footer>{{% endblock %}}'
    wrong = {foot.format("{{ scene.models }}"): "'made-up', report.templates: .*correct it, or remove report.templates"}
    wrong |= {
        "{{ ''.__class__.__mro__[1].__subclasses__() }}": "unsafe",
        "{{ contents.charts[0].frame }}": "line 1.*unsafe",
    }
    for text, says in wrong.items():
        keep(text)
        with pytest.raises(ReporterError, match=says):
            written("report: {templates: own}\n")
    keep(foot.format("{{ study.study }}"))
    page = written("report: {templates: own}\n")
    assert "<footer>Of made-up</footer>" in page and 'id="figure-motion.step_cosine"' in page
    assert "<footer>" not in written(""), "a study that no longer asks for them is written without"


def test_missing_templates_and_styles_are_usage_errors(tmp_path):
    gone, empty = tmp_path / "gone", tmp_path / "empty"
    empty.mkdir()
    wrong = {"report.templates: there is no folder": (gone, None), "has no templates": (empty, None)}
    wrong |= {"report.style: there is no file": (None, gone)}
    for says, given in wrong.items():
        with pytest.raises(UsageError, match=says):
            keep_look("s", *given, tmp_path)


def test_what_cannot_be_read_changes_nothing(tmp_path):
    for spec in (None, "", "[1, 2]", "report: 3", "report: {figures: 3, hide: {a: b}, theme: pink}", "{"):
        look = read_look({"spec": spec}, tmp_path)
        assert (look.theme, look.style, look.templates) == ("system", "", None), spec
        assert (look.figures, look.hidden) == ((), frozenset()), spec
