"""The page that shows how to add things, followed to the letter, section by section."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXTENDING = (ROOT / "reporter" / "app" / "docs" / "pages" / "extending.md").read_text("utf-8")
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8") + EXTENDING
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)


def made(section: str) -> dict[str, str]:
    """The files that a section has its reader make: the block that follows, by name."""
    told = r"Make the file `([^`]+)`.*?^```\w+\n(.*?)^```"
    return dict(re.findall(told, SECTIONS[section], re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a function that makes a folder for the reader, whose results have the pages' script: making it is slow."""
    from reporter.report.templating import write_assets

    write_assets(made_once := tmp_path_factory.mktemp("assets"))

    def make(folder: Path) -> Path:
        shutil.copytree(made_once, folder / "results")
        return folder

    return make


FORKS = """
import json, os, shlex, sys
from reporter.app.cli import main
import reporter.runs.work
for line in sys.stdin:
    folder, command = json.loads(line)
    pid = os.fork()
    if not pid:
        os.chdir(folder)
        for name, stream in (("out", 1), ("err", 2)):
            os.dup2(os.open(f"printed.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.argv = shlex.split(command)
        main()
        os._exit(1)  # main ends the process itself
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@contextmanager
def commands_of(package: Path) -> Iterator[Callable[[str, Path], str]]:
    """Yield a function that runs a command of a copy of reporter in a folder and returns what it prints.

    Each command is a fork of one process, which has imported what they all need.
    """
    environment = os.environ | {"PYTHONPATH": str(package)}
    called = [sys.executable, "-c", FORKS]
    with subprocess.Popen(
        called, cwd=package, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as forks:

        def call(command: str, folder: Path) -> str:
            forks.stdin.write(json.dumps([str(folder), command]) + "\n")
            forks.stdin.flush()
            code, output = forks.stdout.readline().strip(), (folder / "printed.out").read_text("utf-8")
            assert code == "0", f"{command}: {output}{(folder / 'printed.err').read_text('utf-8')}"
            return output

        yield call


@pytest.fixture(scope="module")
def call() -> Iterator[Callable[[str, Path], str]]:
    with commands_of(ROOT) as function:
        yield function


@pytest.fixture
def follow(call, place, tmp_path) -> Callable[[str], list[str]]:
    """Return a function that makes the files of a section and calls its commands; it returns what each prints."""

    def go(section: str) -> list[str]:
        folder = place(tmp_path)
        for name, text in made(section).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        (commands,) = blocks(section, "sh")
        return [call(command, folder) for command in commands.strip().splitlines()]

    return go


def numbers(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if re.match(r"\s*\d", line)]


@pytest.mark.slow
def test_a_metric_is_added(tmp_path, place):
    section = "Add a metric"
    copy = place(tmp_path / "copy")
    for name in ("reporter", "templates", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", copy / "pyproject.toml")
    assert len(made(section)) == 2
    for path, text in made(section).items():
        assert not (copy / path).exists()
        (copy / path).write_text(text, "utf-8")
    (copy / "look.yaml").write_text(blocks(section, "yaml")[0], "utf-8")
    (commands,) = blocks(section, "sh")
    test, *commands = commands.strip().splitlines()
    called = [sys.executable, "-m", *shlex.split(test)]
    tested = subprocess.run(
        called, cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, capture_output=True, text=True
    )
    assert "3 passed" in tested.stdout, tested.stdout + tested.stderr
    with commands_of(copy) as call:
        page, _, layers = (call(command, copy) for command in commands)
    assert "‖μ‖" in page and "Strang" in page and "nothing beyond the sums" in page
    rows = numbers(layers)
    assert {layer for layer, _ in rows} == {"0", "1", "2"} and all(float(value) > 0 for _, value in rows)
    page = (copy / "results" / "look" / "layers.html").read_text("utf-8")
    assert "norm of the mean" in page.lower() and "grows from block to block" in page


@pytest.mark.nightly
def test_a_chart_is_added(tmp_path, follow):
    follow("Add a chart")
    folder = tmp_path / "results" / "bars"
    page = (folder / "layers.html").read_text("utf-8")
    figure = page[page.index('id="figure-push.bars"') :].partition("</article>")[0]
    assert "distance of the mean from the origin, layer by layer" in figure and "could not be made" not in figure
    assert 'data-value="nested"' in figure and "‖<var>μ</var>‖" in figure and "own units" in figure
    said = (folder / "data" / "push.bars.js").read_text("utf-8")
    assert '"type":"bar"' in said and '"rows":3' in said
    assert len((folder / "data" / "push.bars.csv").read_text("utf-8").splitlines()) == 1 + 3


@pytest.mark.nightly
def test_an_analysis_is_added(tmp_path, follow):
    validated, _, layers, ends = follow("Add an analysis")
    assert "1 beginning" in validated and "1 claim" in validated
    rows = numbers(layers)
    assert [layer for layer, _ in rows] == ["0", "1", "2"] and all(float(value) > 0 for _, value in rows)
    assert all(end in ends for end in ("sleeps", "runs", "sees a dog"))
    folder = tmp_path / "results" / "endings"
    page = "".join((folder / name).read_text("utf-8") for name in ("layers.html", "claims.html"))
    assert "Ends of sentences" in page and "compare layers of one model" in page and "supported" in page


@pytest.mark.nightly
def test_a_source_of_texts_is_added(follow):
    *_, corpora = follow("Add a corpus source")
    assert re.search(r"captions\s+subtitles\s+films\s+2\s+11\b", corpora)


@pytest.mark.slow
def test_a_kind_of_claim_is_added(tmp_path, follow, call):
    validated, _, claims = follow("Add a kind of claim")
    assert "6 models" in validated and "1 claim" in validated
    ((name, kind, verdict, value, low, wanted),) = (line.split() for line in claims.splitlines() if "most" in line)
    assert (name, kind, verdict, value, wanted) == ("cone", "most", "supported", "1", "0.5")
    assert float(low) == pytest.approx(0.025 ** (1 / 6), abs=1e-4), "Clopper and Pearson"
    page = (tmp_path / "results" / "most" / "claims.html").read_text("utf-8")
    assert "share of 6 models in which variance explained by the first principal component is above 0.05" in page
    study = tmp_path / "most.yaml"
    study.write_text(study.read_text("utf-8").replace("models: decoders", "models: decoder"), "utf-8")
    with pytest.raises(AssertionError, match=r"claims.cone.most.models: no model 'decoder'; did you mean 'decoders'"):
        call("reporter validate most.yaml", tmp_path)


def test_every_observable_is_described():
    from reporter.forward.observed import KINDS

    table = PAGE[PAGE.index("| observable | holds") :].partition("\n\n")[0]
    rows = "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", rows)) == set(KINDS)
