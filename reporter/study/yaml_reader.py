"""Reads YAML as people mean it, and keeps the position of each value.

PyYAML follows YAML 1.1, in which ``no`` is false, ``1e-3`` is text, ``12:30`` is 750, ``010`` is 8, and the
last of two equal keys wins in silence. Here plain values follow the core schema of YAML 1.2
(https://yaml.org/spec/1.2.2, section 10.3.2), and equal keys are a mistake.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.error import Mark, MarkedYAMLError
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from reporter.core.errors import one_line
from reporter.core.json_text import MOST_DEEP
from reporter.study.part import Complaint
from reporter.study.problems import Location, show, show_location

Position = tuple[int, int]
"""Line and column, both counted from 1."""


def position_of(mark: Mark) -> Position:
    """Return a mark's line and column, counted from 1."""
    return mark.line + 1, mark.column + 1


def forbidden_character(character: int | str) -> str:
    """Return the message about a character that a study must not contain."""
    code = character if isinstance(character, int) else ord(character)
    return f"character U+{code:04X} is not allowed; remove it, or write it as an escape in double quotes"


_SYNTAX = (
    (r"cannot start any token.*\\t|'\\t' that cannot start", "a tab cannot indent or begin a value; use spaces"),
    (
        r"mapping values are not allowed",
        "a ':' is not allowed here; check the indentation, or put the whole text in quotes",
    ),
    (r"could not find expected ':'", "expected ':' after this key; write `key: value`"),
    (r"unexpected end of stream", "a quote or bracket opens here and is never closed; close it"),
    (r"expected ',' or '\]'", "the list that '[' opens here lacks ',' or ']'"),
    (r"expected ',' or '\}'", "the mapping that '{' opens here lacks ',' or '}'"),
    (
        r"expected <block end>, but found",
        "the indentation does not match the lines above, or a quote is missing; align this line",
    ),
    (r"expected the node content", "expected a value here; write a value, or put it in quotes"),
    (
        r"unknown escape character",
        "unknown escape in double quotes; write '\\\\' for a backslash, or use single quotes",
    ),
    (
        r"but found another document",
        "a second document begins here; remove the line `---`, or write one file for each study",
    ),
    (r"nested too deeply", f"lists and mappings are nested more than {MOST_DEEP} deep; remove some levels"),
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
            return position, (), f"{message} before line {lines}" if lines and lines > position[0] else message
    return position, (), f"not valid YAML: {one_line(problem)}"


_EMPTY = "the file is empty; write a new study with `reporter init NAME`"
_TAG = "tag:yaml.org,2002:"
CORE = (
    (re.compile(r"null|Null|NULL|~|"), "null"),
    (re.compile(r"true|True|TRUE|false|False|FALSE"), "bool"),
    (re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"), "int"),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), "float"),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), "float"),
)


@dataclass
class Document:
    """A YAML document as plain Python values, with the place of each.

    Args:
        data: dicts, lists, text, numbers, booleans, None.
        places: for each location the positions of its key and of its value; a list item is its own key.
        problems: the mistakes in the YAML, as ``(position, location, message)``.
        incomplete: the mappings with a key that cannot be read.
    """

    data: Any = None
    places: dict[Location, tuple[Position, Position]] = field(default_factory=dict)
    problems: list[tuple[Position, Location, str]] = field(default_factory=list)
    incomplete: set[Location] = field(default_factory=set)

    def place(self, complaint: Complaint) -> tuple[Position, str]:
        """Return the position a complaint should point at and its path in words.

        Parts of the location that the file does not have (the study says ``gpt2: some-id`` where the model
        has a field ``hub``) are left out.
        """
        nearest: Location = ()
        for part in complaint.location:
            nearest = (*nearest, part) if (*nearest, part) in self.places else nearest
        key, value = self.places.get(nearest, ((1, 1), (1, 1)))
        exists = nearest == complaint.location
        if complaint.anchor == "parent":
            return key, show_location(nearest if exists else complaint.location)
        return (key if complaint.anchor == "key" and exists else value), show_location(nearest)


def read_yaml(text: str) -> Document:
    """Read the one document in ``text``; its mistakes are in ``problems``."""
    document = Document()
    if odd := re.search("[\x85\u2028\u2029]", text):
        # YAML 1.1 ends a line there, YAML 1.2 and every editor do not.
        document.problems.append((_offset(text, odd.start()), (), forbidden_character(ord(odd[0]))))
        return document
    try:
        composer = _Composer(text)
        root = composer.get_single_node()
        document.problems += composer.aliases
        if root is not None:
            document.data = _build(root, (), position_of(root.start_mark), document)
        if document.data is None and not document.problems:
            document.problems.append(((1, 1), (), _EMPTY))
    except ReaderError as error:
        document.problems.append((_offset(text, error.position), (), forbidden_character(error.character)))
    except MarkedYAMLError as error:
        document.problems.append((*syntax(error),))
    return document


class _Composer(yaml.SafeLoader):
    """PyYAML as far as nodes with marks, with plain scalars resolved by YAML 1.2's core schema."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.aliases: list[tuple[Position, Location, str]] = []
        self._depth = 0

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> str:
        if kind is not ScalarNode:
            return _TAG + ("map" if kind is MappingNode else "seq")
        if implicit[0]:
            for pattern, name in CORE:
                if pattern.fullmatch(value):
                    return _TAG + name
        return _TAG + "str"

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.get_event()  # type: ignore[no-untyped-call]
            message = f"aliases (*{one_line(str(event.anchor))}) are not supported; repeat the value here"
            self.aliases.append((position_of(event.start_mark), (), message))
            return ScalarNode(_TAG + "null", "", event.start_mark, event.end_mark)
        if self._depth == MOST_DEEP:
            raise MarkedYAMLError(problem="nested too deeply", problem_mark=self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _build(node: Node, location: Location, key: Position, document: Document) -> Any:
    value = position_of(node.start_mark)
    below = isinstance(node, CollectionNode) and value[0] != key[0]
    if below or node.start_mark.index == node.end_mark.index:
        value = key  # a block below its key, or nothing at all: the key is what a reader should look at
    document.places[location] = (key, value)
    try:
        if isinstance(node, MappingNode) and node.tag == _TAG + "map":
            return _build_mapping(node, location, document)
        if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
            items = [(item, (*location, index)) for index, item in enumerate(node.value)]
            return [_build(item, at, position_of(item.start_mark), document) for item, at in items]
        return _scalar(node)
    except ValueError as error:
        document.problems.append((value, location, str(error)))
        return None


def _build_mapping(node: MappingNode, location: Location, document: Document) -> dict[str, Any]:
    built: dict[str, Any] = {}
    first: dict[str, int] = {}
    for key_node, value_node in node.value:
        position = position_of(key_node.start_mark)
        try:
            key = _key(key_node)
        except ValueError as error:
            document.problems.append((position, location, str(error)))
            document.incomplete.add(location)
            continue
        if key in built:
            message = f"duplicate key; it is already on line {first[key]}"
            document.problems.append((position, (*location, key), message))
        else:
            first[key] = position[0]
            built[key] = _build(value_node, (*location, key), position, document)
    return built


def _key(node: Node) -> str:
    """Return the text of a key; raise ``ValueError`` with a sentence for people if it is none."""
    if isinstance(node, CollectionNode):
        raise ValueError(f"a key must be text, got {show([0] if isinstance(node, SequenceNode) else {'': 0})}")
    if node.value == "<<" and isinstance(node, ScalarNode) and node.style is None:
        raise ValueError("merge keys (<<) are not supported; repeat the keys here")
    key = _scalar(node)
    if not isinstance(key, str):
        raise ValueError(f"a key must be text, got {show(key)}; put it in quotes")
    return key


def _scalar(node: Node) -> Any:
    """Return the value of a scalar; raise ``ValueError`` with a sentence for people if it has none."""
    text, kind = node.value, node.tag.removeprefix(_TAG)
    if not isinstance(node, ScalarNode) or kind not in ("str", "null", "bool", "int", "float"):
        raise ValueError(f"tags such as {one_line('!' + kind.lstrip('!'))} are not supported; remove the tag")
    if kind == "str":
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise ValueError("text contains half of a character (a lone surrogate); remove it")
        return text
    if not any(name == kind and pattern.fullmatch(text) for pattern, name in CORE):
        raise ValueError(f"{show(text)} does not fit the tag !!{kind}; remove the tag")
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "float":
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    if len(text) > 100:
        raise ValueError("the number has more than 100 digits; write it shorter, or put it in quotes")
    return int(text[2:] if base != 10 else text, base)


def _offset(text: str, index: int) -> Position:
    lines = re.split(r"\r\n|\r|\n", text[:index])  # a lone carriage return ends a line, in YAML and in editors
    return len(lines), len(lines[-1]) + 1
