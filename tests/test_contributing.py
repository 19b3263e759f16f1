"""The pages that show how to add things, followed to the letter, section by section."""

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import reporter.metrics
from reporter.app.cli import app
from reporter.forward.observed import KINDS
from reporter.metrics.base import METRICS
from reporter.runs.studies import forget_plugins

ROOT = Path(__file__).parent.parent
EXTENDING = (ROOT / "reporter" / "app" / "docs" / "pages" / "extending.md").read_text("utf-8")
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8") + EXTENDING
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def blocks(section, language):
    return re.findall(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)


def commands(section):
    return blocks(section, "sh")[0].strip().splitlines()


def call(command):
    """Run a command of the page in this process and return what it prints."""
    done = CliRunner().invoke(app, shlex.split(command)[1:], prog_name="reporter")
    assert done.exit_code == 0, f"{command}: {done.output}"
    return done.stdout


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Return a function that makes the files that a section has its reader make: the block that follows each name."""
    monkeypatch.chdir(tmp_path)

    def write(section):
        named = r"Make the file `([^`]+)`.*?^```\w+\n(.*?)^```"
        files = dict(re.findall(named, SECTIONS[section], re.MULTILINE | re.DOTALL))
        for name, text in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, "utf-8")
        return files

    yield write
    forget_plugins()


@pytest.fixture
def follow(make):
    """Return a function that makes the files of a section and calls its commands; it returns what each prints."""
    return lambda section: make(section) and [call(command) for command in commands(section)]


def numbers(output):
    return [line.split() for line in output.splitlines() if re.match(r"\s*\d", line)]


@pytest.fixture
def room(tmp_path, monkeypatch):
    """Look for metrics in the folder of the reader as well, as if it were the package's."""
    monkeypatch.setattr(reporter.metrics, "__path__", [*reporter.metrics.__path__, str(tmp_path / "reporter/metrics")])
    METRICS._shipped = False
    yield
    METRICS._entries.pop("centre", None)
    sys.modules.pop("reporter.metrics.centre", None)
    vars(reporter.metrics).pop("centre", None)


def test_a_metric_is_added(make, room, observe, values):
    section = "Add a metric"
    module, test = make(section)
    assert not (ROOT / module).exists() and not (ROOT / test).exists()
    Path("look.yaml").write_text(blocks(section, "yaml")[0], "utf-8")
    test_norm_of_mean = runpy.run_path(test)["test_norm_of_mean"]
    ((_, views),) = (mark.args for mark in test_norm_of_mean.pytestmark)
    for view in views:
        test_norm_of_mean(observe, values, view)
    tested, *others = commands(section)
    assert tested.split()[-1] == test
    page, _, layers = map(call, others)
    assert "‖μ‖" in page and "Strang" in page and "nothing beyond the sums" in page
    rows = numbers(layers)
    assert {layer for layer, _ in rows} == {"0", "1", "2"} and all(float(value) > 0 for _, value in rows)
    page = Path("results/look/layers.html").read_text("utf-8")
    assert "norm of the mean" in page.lower() and "grows from block to block" in page


@pytest.mark.nightly
def test_a_chart_is_added(follow):
    follow("Add a chart")
    page = Path("results/bars/layers.html").read_text("utf-8")
    figure = page[page.index('id="figure-push.bars"') :].partition("</article>")[0]
    assert "distance of the mean from the origin, layer by layer" in figure and "could not be made" not in figure
    assert 'data-value="nested"' in figure and "‖<var>μ</var>‖" in figure and "own units" in figure
    data = Path("results/bars/data/push.bars.js").read_text("utf-8")
    assert '"type":"bar"' in data and '"rows":3' in data
    assert len(Path("results/bars/data/push.bars.csv").read_text("utf-8").splitlines()) == 1 + 3


@pytest.mark.nightly
def test_an_analysis_and_a_source_of_texts_are_added(follow):
    validated, _, layers, ends = follow("Add an analysis")
    assert "1 beginning" in validated and "1 claim" in validated
    rows = numbers(layers)
    assert [layer for layer, _ in rows] == ["0", "1", "2"] and all(float(value) > 0 for _, value in rows)
    assert all(end in ends for end in ("sleeps", "runs", "sees a dog"))
    files = ("layers.html", "claims.html", "data/search.js")
    page = "".join(Path("results/endings", name).read_text("utf-8") for name in files)
    assert all(words in page for words in ("Ends of sentences", "compare layers of one model", "supported"))
    *_, corpora = follow("Add a corpus source")
    assert re.search(r"captions\s+subtitles\s+films\s+2\s+11\b", corpora)


def test_a_kind_of_claim_is_added(follow):
    validated, _, claims = follow("Add a kind of claim")
    assert "6 models" in validated and "1 claim" in validated
    ((name, kind, verdict, value, low, wanted),) = (line.split() for line in claims.splitlines() if "most" in line)
    assert (name, kind, verdict, value, wanted) == ("cone", "most", "supported", "1", "0.5")
    assert float(low) == pytest.approx(0.025 ** (1 / 6), abs=1e-4), "Clopper and Pearson"
    page = Path("results/most/claims.html").read_text("utf-8")
    assert "share of 6 models in which variance explained by the first principal component is above 0.05" in page
    study = Path("most.yaml")
    study.write_text(study.read_text("utf-8").replace("models: decoders", "models: decoder"), "utf-8")
    with pytest.raises(AssertionError, match=r"claims.cone.most.models: no model 'decoder'; did you mean 'decoders'"):
        call("reporter validate most.yaml")


def test_every_observable_is_described():
    table = PAGE[PAGE.index("| observable | holds") :].partition("\n\n")[0]
    rows = "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", rows)) == set(KINDS)
