"""The base of every part of a study, and the messages about its mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ModelWrapValidatorHandler,
    Strict,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from reporter.core.errors import UsageError, hint, suggest
from reporter.core.files import as_path
from reporter.study.problems import Location, choices, show

LONGEST_NAME = 64  # of models and corpora: it becomes part of file names

Anchor = Literal["key", "value", "parent"]
"""The position that a message points at: the key, its value, or the part that lacks a key."""


@dataclass(frozen=True)
class Complaint:
    """A mistake at a location of the study, before its line is known."""

    message: str
    location: Location = ()
    anchor: Anchor = "value"
    unknown: bool = False


def failure(*complaints: Complaint) -> ValidationError:
    """Return the exception a validator raises; Pydantic puts the enclosing keys before each location."""
    return ValidationError.from_exception_data("study", [_details(complaint) for complaint in complaints])


def wrong(message: str, *location: str | int, anchor: Anchor = "value") -> ValidationError:
    """Return the exception about a single mistake, at a location inside of what a validator reads."""
    return failure(Complaint(message, location, anchor))


def complaints_of(
    error: ValidationError, keys: Sequence[str] = (), examples: Mapping[str, str] = MappingProxyType({})
) -> list[Complaint]:
    """Translate Pydantic's errors into complaints in plain English.

    Args:
        error: of a part of a study.
        keys: the keys that the part may have.
        examples: for some of them a value of the right form, as YAML.
    """
    errors = error.errors(include_url=False)
    inside = {other["loc"][:depth] for other in errors for depth in range(len(other["loc"]))}
    unknown = [str(e["loc"][-1]) for e in errors if e["type"] == "extra_forbidden" and len(e["loc"]) == 1]
    meant = {suggest(key, keys) for key in unknown}
    return [
        _translate(e, keys, examples)
        for e in errors
        # Too short is also what lacks the entries that are wrong; a key with a wrong name is not missing as well.
        if not (e["type"] == "too_short" and e["loc"] in inside)
        and not (e["type"] == "missing" and e["loc"][-1] in meant)
    ]


class Part(BaseModel):
    """A part of a study: frozen, without unknown keys, and without guessing at what a value might mean.

    Values are strict: ``"600"`` is no number, and neither ``true`` nor ``5.0`` is a whole number. A whole
    number will do where any number will.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    examples: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """For some keys a value of the right form, as YAML, for messages."""

    @model_validator(mode="wrap")
    @classmethod
    def _in_plain_english(cls, value: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        # Here, and only here, is it known which keys this part may have.
        try:
            return handler(value)
        except ValidationError as error:
            raise failure(*complaints_of(error, keys_of(cls), cls.examples)) from None


def keys_of(part: type[Part]) -> list[str]:
    """Return the keys that a part of a study may have, as they are written there."""
    return [field.alias or name for name, field in part.model_fields.items()]


def one_of(kinds: Mapping[str, type[Part]], example: str) -> Callable[[Any, ValidationInfo], Any]:
    """Return a validator that picks the kind of a part by the key that is present.

    It checks the value against that kind alone, so that no message speaks of the others.
    """

    def read(value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict):
            raise wrong(f"expected a mapping such as {example}, got {show(value)}")
        telling = [key for key in value if key in kinds]
        if not telling:
            raise failure(_no_kind(value, kinds))
        # What tells one kind can be an ordinary key of another: a generated corpus has a number of "texts".
        kind = next((key for key in telling if kinds[key].model_fields.keys() >= set(telling)), None)
        if kind is None:
            message = f"'{telling[0]}' and '{telling[1]}' cannot be combined; remove one of them"
            if isinstance(number := value[telling[1]], int) and "limit" in kinds[telling[0]].model_fields:
                message = f"expected the {telling[1]} themselves, got a number; write `limit: {number}`"
            raise wrong(message, telling[1], anchor="key")
        try:
            return kinds[kind].model_validate(value, context=info.context)
        except ValidationError as error:
            raise failure(*(_of_other_kind(c, kind, kinds) for c in complaints_of(error))) from None

    return read


def check_name(name: str) -> str:
    """Return ``name`` if models and corpora may have it; it becomes part of file names and of SQL queries."""
    if len(name) > LONGEST_NAME or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        allowed = f"at most {LONGEST_NAME} letters, digits, '-', '_' and '.'"
        raise wrong(f"invalid name; use {allowed}, and begin with a letter or digit", anchor="key")
    if name.endswith(".") or DEVICE_NAME.fullmatch(name):
        raise wrong("invalid name: no file on Windows can have it; choose another one", anchor="key")
    return name


DEVICE_NAME = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9])(\..*)?", re.IGNORECASE)
"""Names that no file on Windows can have."""


def check_text(text: str) -> str:
    """Return ``text`` if it is neither empty nor has control characters (an id, a path, a revision)."""
    if not check_prose(text).isprintable():
        raise wrong(f"remove the control characters from {show(text)}")
    return text


def check_prose(text: str) -> str:
    """Return ``text`` if it is not empty; a text for a model may have any character."""
    if not text.strip():
        raise wrong("must not be empty")
    return text


def no_repeats(names: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return ``names`` if none is listed twice."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise wrong(f"'{name}' is listed twice; remove one of them", index)
    return names


class InheritedText(str):
    """Text of a study that was not written in its own file: if it is read as a path, it starts from another folder.

    Only the type of a field tells which text is a path, so that is found out when the study is checked.

    Args:
        text: what is written there.
        way: from the study's folder to the one that relative paths start from.
    """

    way: str
    read_as_path: bool

    def __new__(cls, text: str, way: str) -> InheritedText:
        """Return the text, which remembers the way."""
        made = super().__new__(cls, text)
        made.way, made.read_as_path = way, False
        return made

    def as_path(self) -> str:
        """Return the path relative to the study's file; from now on :meth:`here` returns it as well."""
        self.read_as_path = True
        return self.here()

    def here(self) -> str:
        """Return the text itself, or, for a path, the path relative to the study's file."""
        absolute = self.startswith("~") or not self.strip() or Path(self).is_absolute()
        return str(self) if absolute or not self.read_as_path else str(Path(self.way, self))


def _read_path(value: Any) -> Any:
    if not isinstance(value, str | Path):
        raise wrong(f"expected a path, got {show(value)}")
    if isinstance(value, InheritedText):
        value = value.as_path()
    try:
        return as_path(value if isinstance(value, Path) else check_text(value))
    except UsageError as error:
        raise wrong(str(error)) from None


def two(what: str) -> BeforeValidator:
    """Return a validator that reads a list of two as a pair; ``what`` names the two in its error."""

    def read(value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) == 2:
            return tuple(value)
        got = f"a list of {len(value)}" if isinstance(value, list | tuple) else show(value)
        raise wrong(f"expected two {what}, got {got}")

    return BeforeValidator(read)


Name = Annotated[str, AfterValidator(check_name)]
Text = Annotated[str, AfterValidator(check_text)]
Prose = Annotated[str, AfterValidator(check_prose)]
AsPath = BeforeValidator(_read_path, json_schema_input_type=str)
AsTuple = Strict(False)
"""YAML has lists, a frozen value has tuples."""


def _details(complaint: Complaint) -> InitErrorDetails:
    # The message travels as context: Pydantic would take braces in a template for placeholders.
    context = {"message": complaint.message, "anchor": complaint.anchor, "unknown": complaint.unknown}
    error = PydanticCustomError("study", "{message}", context)
    return InitErrorDetails(type=error, loc=complaint.location, input=None)


def _no_kind(value: Mapping[str, Any], kinds: Mapping[str, type[Part]]) -> Complaint:
    for key in value:
        if not any(key in kind.model_fields for kind in kinds.values()) and (meant := suggest(key, kinds)):
            return Complaint(f"unknown key; did you mean '{meant}'?", (key,), "key")
    return Complaint(f"missing key; add {choices(list(kinds))}", (), "parent")


def _of_other_kind(complaint: Complaint, kind: str, kinds: Mapping[str, type[Part]]) -> Complaint:
    if len(complaint.location) != 1 or not complaint.unknown:
        return complaint
    key = complaint.location[0]
    owners = [other for other, part in kinds.items() if other != kind and key in part.model_fields]
    if not owners:
        return complaint
    return Complaint(
        f"this key needs {choices(owners)}, but this mapping has '{kind}'; remove the key", complaint.location, "key"
    )


def _translate(details: ErrorDetails, keys: Sequence[str], examples: Mapping[str, str]) -> Complaint:
    context = details.get("ctx", {})
    if details["type"] == "study":
        location, anchor = details["loc"], context["anchor"]
        if location and location[-1] == "[key]":  # Pydantic's mark for "the key, not its value"
            location, anchor = location[:-1], "key"
        return Complaint(context["message"], location, anchor, context["unknown"])
    if details["type"] == "missing":
        return Complaint(f"missing key; add `{details['loc'][-1]}: …`", details["loc"], "parent")
    if details["type"] == "extra_forbidden":
        wrong = str(details["loc"][-1])
        names = keys if len(details["loc"]) == 1 else ()
        return Complaint(f"unknown key{hint(wrong, names, 'expected one of')}", details["loc"], "key", unknown=True)
    sentence = _sentence(details["type"], details["msg"], details["input"], context)
    key = str(details["loc"][-1]) if details["type"] in _EXPECTED and len(details["loc"]) == 1 else ""
    return Complaint(sentence + (f"; write `{key}: {examples[key]}`" if key in examples else ""), details["loc"])


_EXPECTED = {
    kind: expected
    for expected, kinds in {
        "text": ("string_type",),
        "a whole number": ("int_type", "int_parsing", "int_from_float"),
        "a number": ("float_type", "float_parsing"),
        "true or false": ("bool_type", "bool_parsing"),
        "a list": ("tuple_type", "list_type", "set_type", "frozen_set_type"),
        "a mapping": ("dict_type", "model_type", "model_attributes_type"),
    }.items()
    for kind in kinds
}
_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("greater than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


_RENAMED = {"words": "text tokens", "all": "with special tokens", "no-sinks": "without sinks"}
"""Values of studies by the names that they had before."""


def _sentence(kind: str, message: str, value: Any, context: Mapping[str, Any]) -> str:
    if kind in _EXPECTED:
        expected = _EXPECTED[kind]
        return f"expected {expected}, got {show(value)}{_remedy(expected, value)}"
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        limit = context[key]
        if isinstance(limit, float) and limit.is_integer():
            limit = int(limit)
        return f"must be {words} {limit}, got {show(value).removeprefix('the number ')}"
    if kind in ("literal_error", "enum"):
        allowed = re.findall(r"'([^']*)'", context.get("expected", "")) or [str(context.get("expected", ""))]
        renamed = _RENAMED.get(value) if isinstance(value, str) else None
        if renamed in allowed:
            return f"'{value}' is called '{renamed}' now; write '{renamed}'"
        meant = suggest(value, allowed) if isinstance(value, str) else None
        ending = f"; did you mean '{meant}'?" if meant else ""
        return f"expected {choices(allowed)}, got {show(value)}{ending}"
    if kind == "finite_number":
        return f"must be a finite number, got {show(value).removeprefix('the number ')}"
    if kind in ("too_short", "string_too_short") and context.get("min_length") == 1:
        return "must not be empty"
    if kind == "value_error":
        return str(context.get("error", message))
    return f"{message[:1].lower()}{message[1:]}, got {show(value)}"


_YES, _NO = frozenset({"yes", "y", "on", "true", "1"}), frozenset({"no", "n", "off", "false", "0"})


def _remedy(expected: str, value: Any) -> str:
    if expected == "text" and isinstance(value, bool | int | float):
        return "; put it in quotes"
    if expected == "a list" and isinstance(value, str):
        return "; put it in brackets"
    if expected == "true or false" and isinstance(value, str) and value.lower() in _YES | _NO:
        return f"; write `{str(value.lower() in _YES).lower()}`"
    if "number" in expected and isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]+([.][0-9]+)?", value):
        return "; remove the quotes"
    return ""


def join(complaints: Iterable[Complaint], *before: str | int) -> list[Complaint]:
    """Prepend the keys ``before`` to every complaint's location."""
    return [replace(c, location=(*before, *c.location)) for c in complaints]
