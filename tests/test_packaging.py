"""What is installed is what was tested: every dependency is pinned, and so is everything that it needs."""

import re
import subprocess
import sys
import tomllib
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUN = [Requirement(line) for line in PROJECT["dependencies"]]
DEV = [Requirement(line) for extra in ("test", "docs", "dev") for line in PROJECT["optional-dependencies"][extra]]


def pinned(name: str) -> dict[str, Requirement]:
    lines = [line.strip() for line in (ROOT / name).read_text().splitlines()]
    pins = [Requirement(line) for line in lines if line and not line.startswith(("#", "-r "))]
    return {canonicalize_name(pin.name): pin for pin in pins}


RUN_PINS = pinned("requirements.txt")
ALL_PINS = RUN_PINS | pinned("requirements-dev.txt")


def test_every_requirement_is_pinned_exactly_and_within_its_range():
    assert not [str(pin) for pin in ALL_PINS.values() if [part.operator for part in pin.specifier] != ["=="]]
    needed = [(requirement, RUN_PINS) for requirement in RUN]
    needed += [(requirement, ALL_PINS) for requirement in DEV if requirement.name != PROJECT["name"]]
    for requirement, pins in needed:
        (pinned_at,) = pins[canonicalize_name(requirement.name)].specifier
        assert requirement.specifier.contains(pinned_at.version), requirement


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the pinned set is that of Python 3.11")
def test_what_the_pinned_packages_need_is_pinned():
    missing = []
    for name in ALL_PINS:
        with suppress(PackageNotFoundError):
            for need in map(Requirement, requires(name) or []):
                applies = need.marker is None or need.marker.evaluate({"extra": ""})
                if applies and canonicalize_name(need.name) not in (RUN_PINS if name in RUN_PINS else ALL_PINS):
                    missing.append(f"{name} needs {need}")
    assert not missing


def test_nobody_is_told_to_install_a_package_of_somebody_else():
    """The name ``reporter`` on the package index belongs to another project."""
    folders = [ROOT / name for name in ("reporter", "studies", "templates", "tests", ".ci")]
    kinds = {".py", ".md", ".yaml", ".html"}
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in kinds]
    extra = r"""(?<![\w-])reporter\\?\[['"]?[a-z{][a-z,}]*\\?\]"""
    other = re.compile(extra + r"""|pip install (-\S+ )*['"]?reporter\b|= \["reporter"\]$""")
    files += [*ROOT.glob("*.md"), *(ROOT / ".ci").iterdir()]
    named = {str(path): other.search(path.read_text("utf-8")) for path in files if path != Path(__file__)}
    assert not {path: match[0] for path, match in named.items() if match}


def test_a_wheel_carries_templates_and_lists_and_the_documentation(tmp_path, documentation, monkeypatch):
    """The site is copied from one that was made before, in the process that would make it."""
    run, shipped = subprocess.run, f"import reporter.app.docs.site as s; s.SHIPPED = s.Path({str(documentation)!r}); "

    def copy(command, **options):
        return run([*command[:2], shipped + command[2], *command[3:]], **options)

    monkeypatch.setattr(subprocess, "run", copy)
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {f"reporter/report/templates/{path.name}" for path in (ROOT / "templates").iterdir() if path.is_file()}
    shipped |= {f"reporter/metrics/lists/{path.name}" for path in (ROOT / "reporter/metrics/lists").iterdir()}
    assert {"reporter/py.typed", "reporter/texts/english.jsonl", *shipped} <= names
    site = {name.removeprefix("reporter/app/docs/site/") for name in names}
    assert {"index.html", "search.html", "searchindex.js", "metrics/variance.html", "contributing.html"} <= site
    assert not any(name.startswith(("tests/", "templates/", "studies/")) for name in names)
