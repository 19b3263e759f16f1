"""Find the sentences in the source of the program, as patterns that a text is searched for. Not a test."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import reporter

PACKAGE = Path(reporter.__file__).parent
HOLE = r"(?:(?!\. [A-Z])[^\n])*?"  # what a sentence fills in reaches into no other sentence
NO_PROSE = re.compile(r"\b(SELECT|WHERE|FROM|QUALIFY|JOIN|ORDER BY|IS NULL|IN)\b")
HEADINGS = {"BoxColumn", "measured", "numeric"}  # the first argument heads a column
NO_READER = {"Question", "removeprefix", "removesuffix", "startswith", "partition", "split", "replace", "Correlation"}
NO_SENTENCES = {"share of", "variance explained"}  # how titles of shares begin
INTERNAL = {"fact", "sql"}  # keywords of an observation that no reader sees


class Pattern(NamedTuple):
    """A sentence, or a part of one, in the source: its constant parts, with holes between them."""

    file: str
    line: int
    text: str
    regex: re.Pattern[str]

    @classmethod
    def of(cls, file: str, line: int, parts: list[str | None]) -> "Pattern":
        """Return the pattern of constant parts; None is a hole, and so is a field of ``str.format``."""
        parts = [piece for part in parts for piece in (re.split(r"(\{\w*(?::[^{} ]*)?\})", part) if part else [part])]
        holes = [None if part is None or re.fullmatch(r"\{.*\}", part) else part for part in parts]
        while holes and not (holes[0] or "").strip():
            holes.pop(0)
        while holes and not (holes[-1] or "").strip():
            holes.pop()
        regex = "".join(HOLE if part is None else re.escape(part) for part in holes)
        text = "".join("{}" if part is None else part for part in parts)
        return cls(file, line, text, re.compile(regex, re.IGNORECASE))  # a part may begin a sentence


def _leaves(node: ast.AST) -> Iterator[str]:
    """Yield the words that a condition chooses from."""
    if isinstance(node, ast.IfExp):
        yield from _leaves(node.body)
        yield from _leaves(node.orelse)
    elif isinstance(node, ast.Constant) and re.search("[a-z]", str(node.value)):
        yield str(node.value)


def patterns_in(node: ast.AST, file: str) -> Iterator[Pattern]:
    """Yield each string of two words or more that a reader may see, and one more for each word chosen inside."""
    if isinstance(node, ast.Compare) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return  # a key, or a docstring
    if isinstance(node, ast.keyword) and node.arg in INTERNAL:
        return
    if isinstance(node, ast.Dict):
        children: list[ast.AST] = list(node.values)
    elif isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        known = name in HEADINGS | NO_READER
        arguments = [] if name in NO_READER else node.args[1:] if name in HEADINGS else node.args
        children = [*arguments, *([] if name in NO_READER else node.keywords)]
        children += [node.func] if not known or isinstance(node.func, ast.Attribute) else []
    elif isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        values = node.values if isinstance(node, ast.JoinedStr) else [node]
        parts = [value.value if isinstance(value, ast.Constant) else None for value in values]
        constant = " ".join(part for part in parts if part)
        words = re.findall(r"(?<![\w.])[A-Za-z][a-z']+(?![\w.]*[\w])", constant)
        if (
            len(words) > 1
            and " " in constant.strip()
            and constant not in NO_SENTENCES
            and not NO_PROSE.search(constant)
        ):
            yield Pattern.of(file, node.lineno, parts)
            for at, value in enumerate(values):
                if isinstance(value, ast.FormattedValue):
                    chosen = dict.fromkeys(_leaves(value.value))
                    for word in chosen if len(chosen) > 1 else ():
                        yield Pattern.of(file, node.lineno, [*parts[:at], word, *parts[at + 1 :]])
        children = [value for value in values if isinstance(value, ast.FormattedValue)]
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from patterns_in(child, file)


@cache
def patterns_of(file: str) -> tuple[Pattern, ...]:
    """Return the sentences of a module, given its path inside the package."""
    return tuple(dict.fromkeys(patterns_in(ast.parse((PACKAGE / file).read_text("utf-8")), file)))


class Case(NamedTuple):
    """Records with which a sentence is said, and the nearest ones with which it must not be.

    Args:
        says: texts that appear with the records, and must not after the change.
        given: the records, as keywords of the builder.
        otherwise: texts that appear after the change, and must not before.
        change: keywords that replace some of the records.
    """

    says: str | tuple[str, ...]
    given: Mapping[str, Any]
    otherwise: str | tuple[str, ...]
    change: Mapping[str, Any]


def lines_of(box) -> Iterator[str]:
    """Yield what a reader sees of a box: its sentence, its line to copy, its rows and its notes."""
    yield f"{box.about}: {box.says}"
    yield from filter(None, (box.code, *(" | ".join(row) for row in box.rows), *box.notes))


def text_of(answer) -> str:
    """Return what a reader sees of an answer, and what the study lacks for more."""
    return "\n".join([*(line for box in answer.boxes for line in lines_of(box)), *answer.lacks])
