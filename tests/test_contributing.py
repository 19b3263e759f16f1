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


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_page_is_followed_to_the_letter(tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("reporter", "templates", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", copy / "pyproject.toml")
    paths = re.findall(r"Make the file `([^`]+)`", PAGE)
    assert len(paths) == len(blocks("python")) == 2
    for path, text in zip(paths, blocks("python"), strict=True):
        assert not (copy / path).exists()
        (copy / path).write_text(text, "utf-8")
    (copy / "look.yaml").write_text(blocks("yaml")[0], "utf-8")
    (commands,) = blocks("sh")
    outputs = [run(command, copy) for command in commands.strip().splitlines()]
    assert len(outputs) == 4
    assert "3 passed" in outputs[0]
    assert "‖μ‖" in outputs[1] and "Strang" in outputs[1] and "nothing beyond the sums" in outputs[1]
    numbers = [line.split() for line in outputs[3].splitlines() if re.match(r"\s*\d", line)]
    assert {layer for layer, _ in numbers} == {"0", "1", "2"} and all(float(value) > 0 for _, value in numbers)
    page = (copy / "results" / "look" / "index.html").read_text("utf-8")
    assert "norm of the mean" in page and "grows from block to block" in page


def run(command: str, folder: Path) -> str:
    program, *arguments = shlex.split(command)
    called = [sys.executable, "-m", program, *arguments]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(called, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_every_observable_is_described():
    from reporter.observables.kinds import KINDS

    rows = "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", rows)) == set(KINDS)
