"""Reads lists of pairs and words: YAML files of a study's author, and those that come with reporter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from reporter.files import MOST_OF_A_STUDY, endless
from reporter.spec.part import Complaint, complaints_of
from reporter.spec.problems import Problem, SpecError, show, show_location
from reporter.spec.yaml_reader import read_yaml

T = TypeVar("T")

LISTS = Path(__file__).parent / "lists"
"""The folder of the lists that come with reporter."""


def read_list(path: Path, example: str, check: Callable[[dict[str, Any]], T]) -> T:
    """Return what a YAML file says, once it was checked.

    Args:
        path: the file.
        example: what such a file looks like, for the message where it is no mapping.
        check: turns the mapping into what is wanted; raises Pydantic's ``ValidationError`` where it is wrong, with
            locations inside the mapping.

    Raises:
        SpecError: the file cannot be read or something in it is wrong; with line and column.
    """
    if problem := endless(path, MOST_OF_A_STUDY):
        raise SpecError.of_file(path, problem)
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise SpecError.of_file(path, "there is no such file") from None
    except UnicodeDecodeError:
        raise SpecError.of_file(path, "is not UTF-8 text; save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        raise SpecError.of_file(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    document = read_yaml(text)
    if document.data is None and (not document.problems or not text.strip()):
        raise SpecError.of_file(path, f"is empty; expected a mapping such as {example}")
    if document.problems:
        raise SpecError(Problem(str(path), *at, show_location(where), said) for at, where, said in document.problems)
    if not isinstance(document.data, dict):
        raise SpecError.of_file(path, f"expected a mapping such as {example}, got {show(document.data)}")
    try:
        return check(document.data)
    except ValidationError as error:
        raise SpecError(_at(path, complaint, document.place(complaint)) for complaint in complaints_of(error)) from None


def _at(path: Path, complaint: Complaint, at: tuple[tuple[int, int], str]) -> Problem:
    (line, column), where = at
    return Problem(str(path), line, column, where, complaint.message)
