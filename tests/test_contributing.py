"""The page that shows how to add a metric, followed to the letter in a copy of the project."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def section(title: str) -> str:
    return PAGE[PAGE.index(f"\n## {title}") :].partition("\n## ")[2].partition("\n## ")[0]


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_page_is_followed_to_the_letter(tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("reporter", "templates", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", copy / "pyproject.toml")
    own = section("Add a metric")
    paths = re.findall(r"Make the file `([^`]+)`", own)
    assert len(paths) == len(blocks("python", own)) == 2
    for path, text in zip(paths, blocks("python", own), strict=True):
        assert not (copy / path).exists()
        (copy / path).write_text(text, "utf-8")
    (copy / "look.yaml").write_text(blocks("yaml", own)[0], "utf-8")
    (commands,) = blocks("sh", own)
    outputs = [run(command, copy) for command in commands.strip().splitlines()]
    assert len(outputs) == 4
    assert "3 passed" in outputs[0]
    assert "‖μ‖" in outputs[1] and "Strang" in outputs[1] and "nothing beyond the sums" in outputs[1]
    numbers = [line.split() for line in outputs[3].splitlines() if re.match(r"\s*\d", line)]
    assert {layer for layer, _ in numbers} == {"0", "1", "2"} and all(float(value) > 0 for _, value in numbers)
    page = (copy / "results" / "look" / "index.html").read_text("utf-8")
    assert "norm of the mean" in page and "grows from block to block" in page


@pytest.mark.slow
def test_a_chart_is_added_in_one_file_outside_the_package(tmp_path):
    own = section("Add a chart")
    (plugin,), (study,), (command,) = (blocks(language, own) for language in ("python", "yaml", "sh"))
    (tmp_path / "push.py").write_text(plugin, "utf-8")
    (tmp_path / "bars.yaml").write_text(study, "utf-8")
    run(command.strip(), tmp_path, ROOT)
    folder = tmp_path / "results" / "bars"
    page = (folder / "index.html").read_text("utf-8")
    figure = page[page.index('id="figure-push.bars"') :].partition("</article>")[0]
    assert "distance of the mean from the origin, layer by layer" in figure and "could not be made" not in figure
    assert 'data-value="nested"' in figure and "norm of the mean: ‖μ‖" in figure and "own units" in figure
    said = (folder / "data" / "push.bars.js").read_text("utf-8")
    assert '"type":"bar"' in said and '"rows":3' in said
    assert len((folder / "data" / "push.bars.csv").read_text("utf-8").splitlines()) == 1 + 3


def run(command: str, folder: Path, package: Path | None = None) -> str:
    program, *arguments = shlex.split(command)
    called = [sys.executable, "-m", program, *arguments]
    environment = os.environ | {"PYTHONPATH": str(package or folder)}
    done = subprocess.run(called, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_every_observable_is_described():
    from reporter.observables.kinds import KINDS

    rows = "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", rows)) == set(KINDS)
