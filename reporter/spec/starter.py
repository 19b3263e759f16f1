"""The study that ``reporter init`` writes."""

from __future__ import annotations

import re
from pathlib import Path

from reporter.errors import ReporterError, UsageError
from reporter.spec.problems import one_line
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
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text.replace("{file}", one_line(str(path))).replace("{id}", study))
    except FileExistsError:
        raise UsageError(f"{path} is already there; give another name, or remove it first") from None
    except OSError as error:
        raise ReporterError(f"{path} cannot be written: {error.strerror}") from None
    return path
