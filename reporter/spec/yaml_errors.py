"""What PyYAML says about broken YAML, in words for somebody who does not write parsers."""

from __future__ import annotations

import re

from yaml.error import Mark, MarkedYAMLError

from reporter.spec.problems import Location, one_line

Position = tuple[int, int]
"""Line and column, both counted from 1."""


def position_of(mark: Mark) -> Position:
    """Return a mark's line and column, counted from 1."""
    return mark.line + 1, mark.column + 1


def unwanted(character: int | str) -> str:
    """Return the sentence about a character that may not stand in a study."""
    code = character if isinstance(character, int) else ord(character)
    return f"character U+{code:04X} is not allowed here; remove it, or write it as an escape in double quotes"


_SYNTAX = (
    (
        r"cannot start any token.*\\t|'\\t' that cannot start",
        "a tab cannot indent or begin a value; use spaces",
    ),
    (
        r"mapping values are not allowed",
        "a ':' is not allowed here; check the indentation, or put the text in quotes",
    ),
    (r"could not find expected ':'", "expected ':' after the key"),
    (r"unexpected end of stream", "a quoted text or a bracket is never closed"),
    (r"expected ',' or '\]'", "'[' opens a list here, in which ',' or ']' is missing"),
    (r"expected ',' or '\}'", "'{' opens a mapping here, in which ',' or '}' is missing"),
    (
        r"expected <block end>, but found",
        "the indentation does not match the lines above, or a quote is missing",
    ),
    (r"expected the node content", "expected a value here"),
    (
        r"unknown escape character",
        "unknown escape in double quotes; write '\\\\' for a backslash, or use single quotes",
    ),
    (r"but found another document", "a second document begins here; a study is one document"),
    (r"cannot start any token", "a value cannot begin with this character; put it in quotes"),
)


# Where it began says more than where the reader first stumbled, which can be the end of the file.
_POINT_AT_BEGINNING = re.compile(r"unexpected end of stream|expected ':'|expected ',' or")


def syntax(error: MarkedYAMLError) -> tuple[Position, Location, str]:
    """Return where the mistake is, the (unknown, hence empty) path inside the study, and a sentence."""
    problem = error.problem or error.context or ""
    stumbled, began = error.problem_mark or error.context_mark, error.context_mark or error.problem_mark
    mark = began if _POINT_AT_BEGINNING.search(problem) else stumbled
    position = position_of(mark) if mark else (1, 1)
    if "expected a single document" in (error.context or ""):
        problem = "but found another document"
    for pattern, message in _SYNTAX:
        if re.search(pattern, problem):
            lines = "expected ',' or" in problem and stumbled is not None and stumbled.line + 1
            return (
                position,
                (),
                f"{message} before line {lines}" if lines and lines > position[0] else message,
            )
    return position, (), f"not valid YAML: {one_line(problem)}"
