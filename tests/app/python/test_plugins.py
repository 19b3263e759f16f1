"""Metrics of one's own: in a file that a study names, and in a cell of a notebook."""

import linecache
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from app.python.conftest import MODEL
from typer.testing import CliRunner

import reporter
from reporter.app.cli import app
from reporter.metrics.base import METRICS
from reporter.runs.planner import plan_study
from reporter.runs.studies import find_study, forget_plugins, study_of

METRIC = """
import reporter

@reporter.metric(
    name="mine", title="Distance of the mean from the origin", summary="How long it is.", needs=("moments",),
    statistics=(reporter.Statistic("norm", "norm of the mean", "‖μ‖", (reporter.Source("I", "I myself"),)),),
)
def mine(seen, options):
    for place in seen.places:
        yield reporter.Value("norm", place, float(sum(seen.moments(place).mean ** 2) ** 0.5), seen.moments(place).n)
"""
LONG = {"says": "It is long.", "value": {"metric": "mine.norm", "model": "small", "layer": "last"}, "above": 0.0}
STUDY = {"study": "plugged", "plugins": ["mine.py"], "models": {"small": MODEL}, "metrics": ["mine"]}
STUDY |= {"views": ["text tokens"], "claims": {"long": LONG}, "corpora": {"c": {"generate": "grammar", "texts": 40}}}


def first_cell(study, plugin=None):
    """The first cell that a study plans, once its plugin has this text."""
    if plugin:
        Path("mine.py").write_text(plugin, "utf-8")
    return plan_study(study_of(study), Path("results")).cells[0]


def assert_refused(study, said):
    with pytest.raises(reporter.SpecError, match=re.escape(said)):
        reporter.validate(study)


@pytest.fixture(autouse=True)
def forgotten(tmp_path, monkeypatch):
    """Go to a folder that holds the plugin, and forget its metrics afterwards."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(METRIC, "utf-8")
    yield
    forget_plugins()


def test_a_study_measures_what_its_plugin_defines():
    Path("studies").mkdir()  # the plugin is looked for beside the study, wherever one stands
    Path("mine.py").rename("studies/mine.py")
    Path("studies/s.yaml").write_text(yaml.safe_dump(STUDY), "utf-8")
    results = reporter.run("studies/s.yaml")
    numbers = results.layer_metrics.query("site != 'final'").set_index("layer")["value"]
    assert list(numbers.index) == [0, 1, 2] and (numbers > 0).all()
    assert list(results.claims["verdict"]) == ["supported"]
    assert 'id="figure-mine.' in results.report.with_name("layers.html").read_text("utf-8")
    assert CliRunner().invoke(app, ["validate", "studies/s.yaml"]).exit_code == 0
    forget_plugins()
    named = find_study("studies/s.yaml", Path("results")).study
    assert [choice.name for choice in named.metrics] == ["mine"] and "long" in named.claims


def test_an_edited_plugin_is_computed_again_and_is_known_to_its_study_alone():
    before, again = first_cell(STUDY), first_cell(STUDY)
    after = first_cell(STUDY, METRIC.replace("float(", "2 * float("))
    assert before.fingerprint == again.fingerprint != after.fingerprint
    shipped = first_cell(STUDY | {"metrics": ["motion"], "claims": {}})
    assert "metric code" in after.inputs and "metric code" not in shipped.inputs
    everything = STUDY | {"metrics": "all", "claims": {}}
    named, without = (study_of(study).study.metrics for study in (everything, everything | {"plugins": []}))
    assert {choice.name for choice in named} == {choice.name for choice in without} | {"mine"}
    assert_refused(STUDY | {"plugins": []}, "unknown metric 'mine'")
    misspelt = LONG | {"value": {"metric": "mine.nrom", "model": "small"}}
    assert_refused(STUDY | {"claims": {"c": misspelt}}, "did you mean 'norm'")


def test_a_plugin_that_breaks_is_named_with_its_line():
    for source, said in (
        ("import reporter\nx = 1 / 0\n", "mine.py:2: ZeroDivisionError: division by zero; fix the file"),
        ("import reporter\ndef f(:\n", "mine.py:2: SyntaxError: "),
        ("x = 1\n", "mine.py: registers nothing; decorate a function with @reporter.metric"),
        (METRIC.replace('"mine"', '"motion"'), "metric 'motion' is defined twice, in reporter.metrics.motion and in "),
        ("import sys\nsys.exit(3)\n", "mine.py:2: SystemExit: 3; fix the file"),
        *((ANALYSIS.replace('"ends"', f'"{name}"'), f"'{name}'") for name in ("models", "copy", "Ends", "motion")),
    ):
        Path("mine.py").write_text(source, "utf-8")
        with pytest.raises(reporter.UsageError, match=rf"^.*{re.escape(said)}.*\Z"):
            reporter.validate(STUDY)
        forget_plugins()


ANALYSIS = """
import reporter

class Ends(reporter.Part):
    start: str = reporter.Field(description="How sentences begin.")
    on: str = reporter.Field("c", description="A corpus with labels.")

@reporter.analysis(
    name="ends", title="Ends", summary="", statistics=(reporter.Statistic("spread", "", "", ()),),
    section=reporter.Section(Ends, "Beginnings.", references=(reporter.Reference("on", "corpora"),)),
)
def ends(item: Ends, context: reporter.Context):
    yield reporter.Value("spread", None, float(len(item.start)), 1)
"""


def test_an_analysis_of_a_plugin_has_its_key_in_its_study_alone():
    asks = STUDY | {"metrics": "none", "claims": {}, "ends": {"e": {"start": "the cat"}}}
    cell = first_cell(asks, ANALYSIS)
    assert cell.key.corpus == "e" and "analysis code" in cell.inputs
    assert cell.settings == {"start": "the cat", "on": "c"}
    assert first_cell(asks, ANALYSIS.replace("float(len", "2.0 * float(len")).fingerprint != cell.fingerprint
    for wrong, said in (
        ({"ends": {"e": {"strat": "x"}}}, "ends.e.strat: unknown key; did you mean 'start'"),
        ({"ends": {"e": {"start": "x", "on": "d"}}}, "ends.e.on: no corpus 'd'; corpora of this study: c"),
        ({"endss": {}}, "endss: unknown key; did you mean 'ends'"),
        ({"claims": {"k": {"value": {"metric": "ends.sprd", "model": "small"}}}}, "did you mean 'spread'"),
        ({"claims": {"k": {"value": {"metric": "ends.spread", "model": "small", "corpus": "f"}}}}, "no ends 'f'"),
        ({"plugins": []}, "ends: unknown key"),
    ):
        assert_refused(asks | wrong, said)


SOURCE = """
import reporter

class Said(reporter.CorpusPart):
    references = (*reporter.CorpusPart.references, reporter.Reference("by", "models", says="is said by model"))
    said: list[str] = reporter.Field(description="What is said.")
    by: str | None = reporter.Field(None, description="Who says it.")

@reporter.corpus_source("said", Said)
def said(said: Said, around: reporter.SourceContext):
    return reporter.Origin("hearsay", "", lambda: (reporter.Record(text) for text in said.said))
"""


def test_a_source_of_a_plugin_is_read_again_when_it_is_edited():
    heard = STUDY | {"metrics": ["motion"], "claims": {}, "corpora": {"c": {"said": ["one two", "three four"]}}}
    Path("mine.py").write_text(SOURCE, "utf-8")
    before = plan_study(study_of(heard), Path("results")).texts["c"]
    assert (list(before), before.source, before.location) == (["one two", "three four"], "said", "hearsay")
    Path("mine.py").write_text(SOURCE.replace("Record(text)", "Record(text.upper())"), "utf-8")
    assert list(plan_study(study_of(heard), Path("results")).texts["c"]) == ["ONE TWO", "THREE FOUR"]
    circle = "circular reference: corpus 'c' is said by model 'small', which is trained on"
    for wrong, said in (
        ({"said": ["a"], "by": "smal"}, "corpora.c.by: no model 'smal'; did you mean 'small'"),
        ({"said": ["a"], "by": "small"}, circle),
        ({"saidd": ["a"]}, "corpora.c.saidd: unknown key; did you mean 'said'"),
    ):
        assert_refused(heard | {"corpora": {"c": wrong}}, said)


def test_two_studies_cannot_bring_two_metrics_of_one_name():
    Path("other").mkdir()
    for name, folder in (("a", "."), ("b", "other")):
        Path(folder, "mine.py").write_text(METRIC, "utf-8")
        Path(folder, "s.yaml").write_text(f"study: {name}\nplugins: [mine.py]\nmodels: {{m: gpt2}}\n", "utf-8")
    both = CliRunner().invoke(app, ["run", "s.yaml", "other/s.yaml"])
    assert both.exit_code == 2 and "metric 'mine' is defined twice" in both.output
    assert reporter.validate("s.yaml") and reporter.validate("other/s.yaml")  # one after the other they can


def test_a_cell_of_a_notebook_can_define_one_and_run_again():
    x = np.ones((2, 20, 3)) * np.array([1.0, 2.0])[:, None, None]
    values, codes = [], set()
    try:
        for factor in (1, 3):
            source = METRIC.replace('"mine"', '"celled"').replace("float(", f"{factor} * float(")
            name = f"<cell {hash(source)}>"
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # as IPython does
            exec(compile(source, name, "exec"), {"__name__": "__main__"})
            values.append(reporter.measure(x, ["celled"]).layer_metrics["value"].tolist())
            codes.add(METRICS.all()["celled"].code)
    finally:
        METRICS._entries.pop("celled")
    assert values == [pytest.approx([factor * 3**0.5, factor * 12**0.5]) for factor in (1, 3)] and len(codes) == 2
