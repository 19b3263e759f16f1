"""Templates of others: they see data, and no object that can act.

A results folder may come from a stranger, and brings its templates. Jinja's sandbox keeps a template from Python's
internals, but lets it call every public method of every object that it can reach: a path reads and writes files, a
table writes a CSV. So three lists say all that a template of others may use: kinds of values, attributes of records,
and methods. What is on none of them is an error. Loops and texts are counted, so that each page ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from functools import wraps
from numbers import Number
from types import BuiltinMethodType, MappingProxyType, MethodType
from typing import Any

from jinja2 import Template, TemplateError, TemplateNotFound, TemplateRuntimeError, nodes, pass_context
from jinja2.environment import TemplateModule
from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, TemplateReference, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace, missing
from jinja2.visitor import NodeTransformer

from reporter.core.errors import ReporterError, with_type
from reporter.report.explorers import Explorer
from reporter.report.look import ReportLook

_PLAIN = (str, bool, Number, date, time, timedelta, datetime, range, type(None))
_SEQUENCES = (list, tuple, set, frozenset, range)
_MAPPINGS = (dict, MappingProxyType)
_TEXT = (
    "startswith endswith split rsplit partition rpartition strip lstrip rstrip lower upper title capitalize find count"
)
METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset([*_TEXT.split(), "splitlines", "isdigit", "removeprefix", "removesuffix"]),
    dict: frozenset(("get", "items", "keys", "values")),
    MappingProxyType: frozenset(("get", "items", "keys", "values")),
    list: frozenset(("count", "index")),
    tuple: frozenset(("count", "index")),
    date: frozenset(("isoformat",)),
    time: frozenset(("isoformat",)),
    ReportLook: frozenset(("shows",)),
    Explorer: frozenset(("source",)),
    LoopContext: frozenset(("cycle", "changed")),
    Cycler: frozenset(("next", "reset")),
}
"""All methods that a template of others may call, by the type that has them."""
_LOOP = frozenset(
    ("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0", "previtem", "nextitem")
)
_OF_JINJA = (Macro, BlockReference, LoopContext, Cycler, Joiner)
_GLOBALS = ("range", "dict", "namespace", "cycler", "joiner")
_NOT_OFFERED = ("random", "attr", "pprint")
"""Filters: pages of equal numbers are equal, and an attribute is written with a dot."""

STEPS = 300_000_000
"""What the pages of a study may take: a character that is made counts 1, a turn of a loop or a call 100."""
LONGEST = 10_000_000
"""Characters of a text, or items of a list, that an operator makes."""
_MOST = 10_000
"""The largest whole number, and the longest text, that a filter is told to work with."""
_WIDE = re.compile(r"%[^a-zA-Z%]*(\*|\d{4})")


def is_data(value: Any) -> bool:
    """Tell whether a value is text, a number, a record, or a collection of such values: nothing that can act."""
    if isinstance(value, _PLAIN):
        return True
    if isinstance(value, _MAPPINGS):
        return all(is_data(key) and is_data(item) for key, item in value.items())
    return all(map(is_data, value)) if isinstance(value, _SEQUENCES) else _is_record(type(value))


def _is_record(kind: type) -> bool:
    return is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


def _visible(value: Any) -> frozenset[str]:
    """Return the attributes of a value that a template of others may ask for."""
    kind = type(value)
    names_offered = frozenset[str]().union(*(METHODS.get(base, ()) for base in kind.__mro__))
    if _is_record(kind):
        names = {field.name for field in fields(kind)}
        names |= {name for base in kind.__mro__ for name, held in vars(base).items() if isinstance(held, property)}
        return names_offered | {name for name in names if not name.startswith("_")}
    if isinstance(value, tuple):
        return names_offered | frozenset(getattr(kind, "_fields", ()))
    if isinstance(value, LoopContext):
        return names_offered | _LOOP
    return names_offered | {"super"} if isinstance(value, BlockReference) else names_offered


class RestrictedTemplate(Template):
    """A template whose every failure is an error about the template, and whose page keeps the report's policy."""

    def render(self, *args: Any, **kwargs: Any) -> str:
        """Return the page."""
        try:
            page = super().render(*args, **kwargs)
        except ReporterError:
            raise
        except Exception as error:
            says = f"there is no template {error}" if isinstance(error, TemplateNotFound) else with_type(error)
            is_clear = isinstance(error, TemplateError) and not isinstance(error, TemplateNotFound)
            wrong = error if is_clear else TemplateRuntimeError(says)
            wrong.filename, wrong.lineno = _place(error)  # type: ignore[attr-defined]
            raise wrong from error
        guard = str(self.environment.globals["guard"])
        before, policy, _ = page.partition(guard)
        return page if policy and _HEAD.fullmatch(before) else f"<!doctype html>\n{guard}\n{page}"


_HEAD = re.compile(r'<!doctype html>\n<html lang="en"(?: data-theme="\w+")?>\n<head>\n<meta charset="utf-8">\n')
"""What stands before the policy in ``base.html``: nothing in it can act."""


def _place(error: BaseException) -> tuple[str | None, int | None]:
    """Return the template and the line of an error; Jinja writes them into the traceback."""
    name, line, trace = getattr(error, "filename", None), getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        if (file := trace.tb_frame.f_code.co_filename).endswith(".html"):
            name, line = file, trace.tb_lineno
        trace = trace.tb_next
    return name, line


class _RestrictedContext(Context):
    def resolve_or_missing(self, key: str) -> Any:
        value = super().resolve_or_missing(key)
        environment: Any = self.environment
        if value is missing or value is environment.globals.get(key, missing) or environment.may_show(value):
            return value
        return environment.unsafe_undefined(self, key)


class RestrictedEnvironment(ImmutableSandboxedEnvironment):
    """An environment for templates of others: see the head of this file."""

    template_class = RestrictedTemplate
    context_class = _RestrictedContext
    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.spent = 0
        self.globals = {name: self.globals[name] for name in _GLOBALS}

    def restrict_filters(self) -> None:
        """Bound what filters are told to do; called once all filters are there."""
        for name in _NOT_OFFERED:
            self.filters.pop(name, None)
        self.filters = {name: self._bounded(function) for name, function in self.filters.items()}
        self.filters |= {"counted steps": _steps, "counted text": _text}  # no template can write these names

    def spend(self, amount: int) -> None:
        """Count work; raise ``SecurityError`` where it is more than pages need."""
        self.spent += amount
        if self.spent > STEPS:
            raise SecurityError("it takes too many steps or makes too much text")

    def may_show(self, value: Any) -> bool:
        """Tell whether a template may hold a value."""
        return isinstance(value, (Undefined, *_OF_JINJA, Namespace)) or _is_module(value) or is_data(value)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Return what raises ``SecurityError`` as soon as a template uses it."""
        kind = "the page" if isinstance(obj, Context) else f"{type(obj).__name__!r} object"
        return self.undefined(
            f"access to {attribute!r} of {kind} is unsafe: templates see text, numbers and records",
            name=attribute,
            exc=SecurityError,
        )

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute that is on the lists, or the item of that name."""
        if isinstance(obj, Undefined):
            return obj
        if isinstance(obj, Namespace) or _is_module(obj):
            return super().getattr(obj, attribute)
        if attribute in _visible(obj):
            value = getattr(obj, attribute)
            is_shown = self.is_safe_callable(value) or self.may_show(value)
            return value if is_shown else self.unsafe_undefined(obj, attribute)
        if isinstance(obj, _MAPPINGS) and attribute in obj:
            return self._item(obj, attribute)
        if attribute.startswith("_") or hasattr(type(obj), attribute) or attribute in getattr(obj, "__dict__", ()):
            return self.unsafe_undefined(obj, attribute)
        return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item of a collection; filters such as ``map(attribute=…)`` ask for attributes, too."""
        if isinstance(obj, Undefined):
            return obj
        if isinstance(obj, (str, *_SEQUENCES, *_MAPPINGS)):
            try:
                return self._item(obj, argument)
            except (TypeError, LookupError):
                pass
        return self.getattr(obj, argument) if isinstance(argument, str) else self.undefined(obj=obj, name=argument)

    def _item(self, obj: Any, argument: Any) -> Any:
        value = obj[argument]
        return value if self.may_show(value) else self.unsafe_undefined(obj, str(argument))

    def is_safe_callable(self, obj: Any) -> bool:
        """Tell whether a template may call something: a macro, or a method on the list."""
        if isinstance(obj, (BuiltinMethodType, MethodType)) and not isinstance(obj.__self__, type):
            return any(obj.__name__ in METHODS.get(base, ()) for base in type(obj.__self__).__mro__)
        # what is undefined says so itself when it is called
        return isinstance(obj, (*_OF_JINJA, Undefined)) or any(obj is self.globals[name] for name in _GLOBALS)

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call something on the list, and count it."""
        self.spend(100)
        return self.count(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator, unless its result would fill the memory."""
        if operator == "*" and not (isinstance(left, Number) and isinstance(right, Number)):
            count, items = (left, right) if isinstance(left, int) else (right, left)
            if isinstance(count, int) and hasattr(items, "__len__") and count * len(items) > LONGEST:
                raise SecurityError(f"{count} repetitions are too many")
        if operator in ("*", "**") and any(isinstance(n, int) and n.bit_length() > 4096 for n in (left, right)):
            raise SecurityError("the number is too large")
        if operator == "**" and not (isinstance(right, int | float) and abs(right) <= 64):
            raise SecurityError("the exponent is too large")
        if operator == "%" and isinstance(left, str):
            _require_narrow(left)
        return self.count(super().call_binop(context, operator, left, right))

    def count(self, value: Any) -> Any:
        """Return a value whose length is counted; raise ``SecurityError`` where it is more than a page needs."""
        if isinstance(value, (str, *_SEQUENCES)):
            if len(value) > LONGEST:
                raise SecurityError("a text or a list becomes too long")
            self.spend(len(value))
        return value

    def _bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a filter that refuses to multiply its value by large numbers and long texts."""
        first = 2 if getattr(function, "jinja_pass_arg", None) else 1

        @wraps(function)
        def bounded(*args: Any, **kwargs: Any) -> Any:
            size = len(args[first - 1]) if isinstance(args[first - 1], (str, *_SEQUENCES)) else 1
            for option in (*args[first:], *kwargs.values()):
                weight = len(option) if isinstance(option, str) else option if isinstance(option, int) else 0
                if abs(weight) > _MOST or abs(weight) * size > 10 * LONGEST:
                    raise SecurityError(f"the filter {function.__name__.removeprefix('do_')} is told to do too much")
            if function.__name__ == "do_format":
                _require_narrow(str(args[0]))
            return self.count(function(*args, **kwargs))

        return bounded

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Counting().visit(super()._parse(source, name, filename))
        return tree.set_environment(self)  # type: ignore[return-value]


def _is_module(value: Any) -> bool:
    """Tell whether a value is what ``import`` gives, or ``self``: macros and blocks by name."""
    return isinstance(value, (TemplateModule, TemplateReference))


class _Counting(NodeTransformer):
    """Lets each turn of a loop and each joined text be counted."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        text = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        cost = nodes.Const(100 + text, lineno=node.lineno)
        node.iter = nodes.Filter(node.iter, "counted steps", [cost], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:
        self.generic_visit(node)
        return nodes.Filter(node, "counted text", [], [], None, None, lineno=node.lineno)


@pass_context
def _steps(context: Context, items: Iterable[Any], cost: int) -> Iterator[Any]:
    environment: Any = context.environment
    for item in items:
        environment.spend(cost)
        yield item


@pass_context
def _text(context: Context, text: str) -> Any:
    environment: Any = context.environment
    return environment.count(text)


def _require_narrow(form: str) -> None:
    if _WIDE.search(form):
        raise SecurityError("a format is too wide")
