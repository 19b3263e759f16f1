"""Templates of others: what they are given is data, what they ask beyond it is an error, and every page ends."""

import datetime
import types
from contextlib import suppress
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from jinja2 import TemplateError, Undefined

from reporter.core.errors import ReporterError, UsageError
from reporter.report import site
from reporter.report.look import ReportLook, read_look
from reporter.report.restricted import METHODS, RestrictedTemplate, is_data
from reporter.report.templating import environment
from reporter.store import Store

ACTS = (Path, pd.DataFrame, pd.Series, Store, duckdb.DuckDBPyConnection, types.ModuleType, types.FunctionType, type)
LOOK = ReportLook(templates={"overview.html": "text"})


@pytest.fixture(scope="module")
def given(drawn, tmp_path_factory):
    """What each page of the largest study gives its template, by the template's name; and the environment."""
    values, templates = {}, environment({})
    templates.globals["look"] = LOOK

    def render(template, *args, **more):
        values[template.name] = dict(*args, **more)
        return ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RestrictedTemplate, "render", render)
        patch.setattr(site, "_write_data", lambda *_: None)
        site._write_pages(tmp_path_factory.mktemp("given"), drawn[1], templates)
    return values, templates


def reachable(templates, roots):
    """Every value that a template can come to from the values it is given, with the way that leads there."""
    waiting, seen = [(name, value) for name, value in roots.items()], {}
    while waiting:
        way, value = waiting.pop()
        yield way, value
        key = type(value) if isinstance(value, (str, int, float)) else id(value)
        if key in seen:
            continue
        seen[key] = value  # an object that is gone gives its id to another
        if isinstance(value, (types.BuiltinMethodType, types.MethodType)):
            continue
        names = {*dir(value), *getattr(value, "__dict__", ()), "__class__", "__dict__", "_fields"}
        if type(value) in (dict, list, tuple):  # all of a kind have the same names
            names = names if seen.setdefault(type(value), value) is value else ()
        for name in names:
            with suppress(LookupError):  # a property that not every record has
                if not isinstance(found := templates.getattr(value, name), Undefined):
                    waiting.append((f"{way}.{name}", found))
        if isinstance(value, dict | types.MappingProxyType):
            waiting += [(f"{way}[{key!r}]", item) for key, item in value.items()]
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += [(f"{way}[]", item) for item in value]


def test_nothing_that_a_template_can_reach_can_act(given):
    values, templates = given
    assert len(values) >= 5
    roots = {f"{page}: {name}": value for page, own in values.items() for name, value in own.items()}
    offered = {name: value for name, value in templates.globals.items() if not callable(value)}
    count, called = 0, set()
    for way, value in reachable(templates, roots | offered):
        count += 1
        assert not isinstance(value, ACTS), way
        if callable(value):
            names = [own for kind, own in METHODS.items() if isinstance(value.__self__, kind)]
            assert any(value.__name__ in own for own in names), way
            called.add((type(value.__self__).__name__, value.__name__))
        else:
            assert is_data(value), way
    assert count > 10_000 and {("ReportLook", "shows"), ("dict", "items"), ("str", "split")} <= called


REFUSED = {
    "look.templates.joinpath('/etc/passwd').read_text()": "joinpath|callable",
    "contents.charts[0].frame.to_csv('x')": "access to 'frame'",
    "contents.charts[0].chart.draw(1)": "access to 'draw'",
    "(contents.charts | map(attribute='frame') | list)[0]": "access to 'frame'",
    "(contents.charts | map(attribute='chart.draw') | list)[0]": "access to 'draw'",
    "contents.charts[0]['frame']": "access to 'frame'",
    "contents.of": "no attribute",
    "title.__class__": "access to '__class__'",
    "title.format.__self__": "access to 'format'",
    "title.encode()": "access to 'encode'",
    "'{0.__class__}'.format(title)": "access to 'format'",
    "title | attr('__class__')": "attr",
    "study.pop('study')": "access to 'pop'",
    "study.items.__self__": "access to '__self__'",
    "charts.append(1)": "access to 'append'",
    "missing.__class__": "access to '__class__'",
    "nothing.__class__": "undefined",
    "self.__init__.__globals__": "access to '__init__'|unsafe",
    "range.__class__": "access to '__class__'",
    "dict.mro()": "access to 'mro'",
    "lipsum.__globals__": "undefined",
    "cycler.__init__.__globals__": "access to '__init__'",
    "'x' * 2000000000": "repetitions|too",
    "2000000000 * 'x'": "repetitions|too",
    "[1] * 999999999": "repetitions|too",
    "9 ** 9999999999": "exponent",
    "'%999999999d' % 1": "too wide",
    "'%*d' | format(9999, 1)": "too wide",
    "'x' | center(999999999)": "too much",
    "range(999999999)": "too big",
    "range(99999) | join('x' * 9999)": "too much",
    "1 / 0": "ZeroDivisionError",
    "title + 1": "TypeError",
    "title | nofilter": "nofilter",
    "explorers[0].source('nothing')": "StopIteration",
}
BLOCKS = {
    "{% include '/etc/passwd' %}": "/etc/passwd",
    "{% include '../pyproject.toml' %}": "pyproject",
    "{% import 'reporter/../../x' as x %}": "x",
    "{% extends '/etc/hosts' %}": "hosts",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}": "too many steps",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "RecursionError",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}": "too many steps",
    "{% set n = namespace(t='xxxxxxxxxx') %}{% for _ in range(99) %}{% set n.t = n.t ~ n.t %}{% endfor %}": "too",
    "{% set n = namespace(t=['x']) %}{% for _ in range(99) %}{% set n.t = n.t + n.t %}{% endfor %}": "too",
    "{% set n = namespace(t=9) %}{% for _ in range(99) %}{% set n.t = n.t * n.t %}{% endfor %}": "too large",
    "{% set n = namespace(t='a') %}{% for _ in range(99) %}{% set n.t = n.t | replace('a', 'aa') %}{% endfor %}": "too",
}


TEXTS = {f"{{{{ {expression} }}}}": says for expression, says in REFUSED.items()} | BLOCKS


@pytest.mark.parametrize(("text", "says"), TEXTS.items())
def test_what_is_not_on_the_lists_is_an_error_and_every_page_ends(given, text, says, monkeypatch):
    values, _ = given
    monkeypatch.setattr("reporter.report.restricted.STEPS", 3_000_000)
    templates = environment({"page.html": text})
    templates.globals["look"] = LOOK
    with pytest.raises(TemplateError, match=says):
        templates.get_template("page.html").render(values["overview.html"])


def test_what_templates_need_is_there(given):
    values, _ = given
    text = """{% set n = namespace(t=0) %}{% for row in models if row.last.role %}{% set n.t = n.t + loop.length %}
        {%- endfor %}{{ n.t > 0 }} {{ "%.2f" | format(0.5) }} {{ "%d" % 3 }} {{ study.items() | list | length > 3 }}
        {{ title.split()[0] == title.partition(" ")[0] }} {{ look.shows("models") }} {{ nothing is defined }}
        {{ nothing | default("no") }} {{ ([3, 1] | sort)[0] }} {{ when.isoformat() }} {{ 2 ** 3 * 2 }}
        {{ study["study"] }}"""
    templates = environment({"page.html": text})
    templates.globals["look"] = LOOK
    page = templates.get_template("page.html").render(values["overview.html"], when=datetime.date(2026, 1, 2))
    words = "True 0.50 3 True True True False no 1 2026-01-02 16 whole"
    assert page.split(templates.globals["guard"])[1].split() == words.split()


def test_pages_keep_their_policy_whatever_a_template_writes():
    page, policy = environment().get_template("base.html").render(), environment({}).globals["guard"]
    assert page.index(policy) < page.index("<script>")
    assert "default-src &#39;none&#39;" in policy and "unsafe-eval" not in policy and "http:" not in policy
    head = '<!doctype html>\n<html lang="en" onload="1">\n<head>\n<meta charset="utf-8">\n'
    for text in ("<p>1</p>", f"<script>1</script>{policy}", f"<!doctype html><!--{policy}-->", f"{head}{policy}"):
        written = environment({"own": text}).get_template("own").render()
        assert written.startswith(f"<!doctype html>\n{policy}\n"), text
    assert environment({"own": '{% extends "reporter/base.html" %}'}).get_template("own").render() == page


def test_an_error_names_the_template_and_its_line(written, tmp_path):
    (tmp_path / "made-up" / "look").mkdir(parents=True)
    for text in ("{{ study }}\n{{ contents.charts[0].frame }}", "\n{{ 1 / 0 }}", "\n{% if %}"):
        (tmp_path / "made-up" / "look" / "study.html").write_text(text)
        with pytest.raises(ReporterError, match=r"'made-up', report.templates: study.html, line 2: "):
            written("report: {templates: own}\n")


@pytest.mark.parametrize(
    ("name", "make", "says"),
    [
        ("style.css", lambda path, secret: path.symlink_to(secret), "is a link"),
        ("study.html", lambda path, secret: path.symlink_to(secret), "is a link"),
        ("study.html", lambda path, _: path.write_bytes(b"\xff"), "UTF-8"),
        ("style.css", lambda path, _: path.write_bytes(b" " * 4_000_001), "larger than 4 MB"),
        ("", lambda path, secret: path.symlink_to(secret.parent), "is a link"),
    ],
)
def test_a_look_reads_no_file_but_its_own(tmp_path, name, make, says):
    (secret := tmp_path / "other" / "style.css").parent.mkdir()
    secret.write_text("secret")
    (look := tmp_path / "study" / "look").parent.mkdir()
    if name:
        look.mkdir()
    make(look / name if name else look, secret)
    with pytest.raises(UsageError, match=says):
        read_look({"spec": "report: {templates: own, style: own.css}"}, tmp_path / "study")
