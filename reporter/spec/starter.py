"""What people start from: the study that ``reporter init`` writes, the metric of ``reporter metrics --new``."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection
from pathlib import Path

from reporter.errors import ReporterError, UsageError, one_line
from reporter.spec.study import RESERVED_IDS, STUDY_ID


def write_starter(name: str) -> Path:
    """Write a commented study that runs as it is, without a model hub.

    Args:
        name: the file's name or path, with or without ``.yaml``; its last part becomes the study's id.

    Returns:
        The file.

    Raises:
        UsageError: the name cannot be a study's id, or the file is already there.
        ReporterError: the file cannot be written.
    """
    path = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    study = path.stem
    if not re.fullmatch(STUDY_ID, study) or study in RESERVED_IDS:
        raise UsageError(
            f"'{one_line(study)}' cannot be a study's id; use lower-case letters, digits, '-' and '_'"
            f" (and not {' or '.join(RESERVED_IDS)})"
        )
    text = Path(__file__).with_name("starter.yaml").read_text(encoding="utf-8")
    _write(path, text.replace("{file}", one_line(str(path))).replace("{id}", study))
    return path


def write_metric(name: str, taken: Collection[str]) -> Path:
    """Write a file that registers a metric and works as it is, for the ``plugins`` of a study.

    Args:
        name: the metric's name; the file is called like it.
        taken: names that metrics and analyses have.

    Returns:
        The file.

    Raises:
        UsageError: the name cannot be a metric's, or the file is already there.
        ReporterError: the file cannot be written.
    """
    if not re.fullmatch("[a-z][a-z0-9_]{0,40}", name) or keyword.iskeyword(name):
        raise UsageError(f"'{one_line(name)}' cannot be a metric's name; use lower-case letters, digits and '_'")
    if name in taken:
        raise UsageError(f"'{name}' is there already, see `reporter metrics {name}`; give another name")
    text = Path(__file__).with_name("metric.txt").read_text(encoding="utf-8")
    path = Path(f"{name}.py")
    _write(path, text.replace("{name}", name).replace("{title}", name.replace("_", " ").capitalize()))
    return path


def packaging(name: str) -> str:
    """Return what makes a package of a metric's file, so that every study has it, as lines of a ``pyproject.toml``."""
    return f"""[project]
name = "reporter-{name.replace("_", "-")}"
version = "0.1.0"
dependencies = ["reporter"]

[project.entry-points."reporter.metrics"]
{name} = "{name}"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
only-include = ["{name}.py"]"""


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} is already there; give another name, or remove it first") from None
    except OSError as error:
        raise ReporterError(f"{path} cannot be written: {error.strerror}") from None
