"""What can be added from outside: metrics, analyses, kinds of claim, sources of texts, each under its name.

A sort of thing has one :class:`Registry`. It finds what ships with reporter (the modules of a room), what installed
packages offer (an entry point), and what a study's ``plugins`` or a cell of a notebook register themselves.
"""

from __future__ import annotations

import hashlib
import importlib
import linecache
import marshal
import pkgutil
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

from reporter.errors import ReporterError, UsageError

Thing = TypeVar("Thing")
Code = Callable[..., Any]
"""A function of the thing, which tells the file or the cell that it comes from."""

_PLUGIN = "reporter_plugin_"  # how the module of a plugin's file is called, before a hash of its path
_of_plugins: dict[Path, dict[str, frozenset[str]]] = {}  # by file and sort, the names that it registered


class Registry(Generic[Thing]):
    """Things of one sort by name.

    Args:
        sort: what one is called in messages: ``metric``.
        sorts: what several are called, ``metrics``; installed packages name modules that register theirs by the entry
            point ``reporter.<sorts>``.
        room: the package whose modules register those of reporter; modules that begin with ``_`` are its helpers.
        helpers: further modules of the room that register nothing.
    """

    every: ClassVar[list[Registry[Any]]] = []
    """All registries, so that a plugin may bring things of any sort."""

    def __init__(self, sort: str, sorts: str, room: str, helpers: Collection[str] = ()) -> None:
        self.sort = sort
        self.sorts = sorts
        self._room = room
        self._helpers = frozenset(helpers)
        self._found: dict[str, tuple[Thing, Code]] = {}
        self._shipped = self._offered = False
        Registry.every.append(self)

    def add(self, name: str, thing: Thing, code: Code) -> None:
        """Register a thing; a cell or a module that runs again replaces what it registered before.

        Args:
            name: how a study calls it.
            thing: what is registered.
            code: a function of it.

        Raises:
            ReporterError: if another module has one of that name.
        """
        if not is_ours(code):
            self._import_shipped()  # whose names are taken
        known = self._found.get(name)
        if known is not None and known[1].__module__ != code.__module__:
            places = f"in {_home(known[1])} and in {_home(code)}"
            raise ReporterError(f"{self.sort} {name!r} is defined twice: {places}")
        self._found[name] = (thing, code)

    def all(self, plugins: Collection[Path] | None = None) -> dict[str, Thing]:
        """Return everything that there is, by name, in alphabetical order.

        Args:
            plugins: of the things of plugins, those of these files alone; those of all files if left out.
        """
        self._import_shipped()
        self._import_offered()
        mine = None if plugins is None else {path.resolve() for path in plugins}
        hidden = {
            name
            for path, names in _of_plugins.items()
            if mine is not None and path not in mine
            for name in names.get(self.sort, ())
        }
        return {name: self._found[name][0] for name in sorted(self._found) if name not in hidden}

    def names(self) -> frozenset[str]:
        """Return the names that are registered by now."""
        return frozenset(self._found)

    def forget(self, names: Collection[str]) -> None:
        """Forget things that a plugin registered."""
        for name in names:
            self._found.pop(name, None)

    def _import_shipped(self) -> None:
        if self._shipped:
            return
        self._shipped = True  # before: while a module of the room is imported, it registers
        room = importlib.import_module(self._room)
        for module in pkgutil.iter_modules(room.__path__):
            if not module.name.startswith("_") and module.name not in self._helpers:
                importlib.import_module(f"{self._room}.{module.name}")

    def _import_offered(self) -> None:
        if self._offered:
            return
        self._offered = True
        for entry in entry_points(group=f"reporter.{self.sorts}"):
            try:
                entry.load()
            except Exception as error:  # whatever another package does wrong, say whose it is
                self._offered = False
                raise ReporterError(f"the {self.sorts} of {entry.value!r} cannot be loaded: {error}") from error


def load_plugin(path: Path) -> None:
    """Run a Python file that registers something, as a study's ``plugins`` name it; what it registered before goes.

    Raises:
        UsageError: if it cannot be read or run, or registers nothing; the text has the file and, where known, the line.
    """
    path = path.resolve()
    forget_plugins([path])
    for registry in Registry.every:
        registry.all()  # so that a name that is taken is taken by what was there first
    before = {registry.sort: registry.names() for registry in Registry.every}
    name = _PLUGIN + hashlib.sha256(str(path).encode()).hexdigest()[:12]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    linecache.checkcache(str(path))
    try:
        # Compiled here, since Python's cache of bytecode takes a file that was edited within a second for the same.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # other people's code, which may fail in any way
        raise UsageError(f"{_place(path, error)}: {_said(error)}; mend it, or take it out of 'plugins'") from error
    finally:
        _of_plugins[path] = {
            registry.sort: registry.names() - before.get(registry.sort, frozenset()) for registry in Registry.every
        }
    if not any(_of_plugins[path].values()):
        raise UsageError(f"{path}: registers no metric; decorate a function with @reporter.metric(…)")


def forget_plugins(paths: Collection[Path] | None = None) -> None:
    """Forget what some plugins registered, or all."""
    for path in list(_of_plugins) if paths is None else [path for path in paths if path in _of_plugins]:
        names: Mapping[str, Collection[str]] = _of_plugins.pop(path)
        for registry in Registry.every:
            registry.forget(names.get(registry.sort, ()))


def is_ours(code: Code) -> bool:
    """Whether a function belongs to reporter itself."""
    return code.__module__.startswith("reporter.")


def code_of(code: Code) -> str:
    """Return a hash of the file, or of the notebook's cell, that defines a function; empty for those of reporter.

    What is measured by it is computed again when it was edited; what reporter measures has a version instead.
    """
    if is_ours(code):
        return ""
    linecache.checkcache(code.__code__.co_filename)
    lines = linecache.getlines(code.__code__.co_filename)
    source = "".join(lines).encode() if lines else marshal.dumps(code.__code__)
    return hashlib.sha256(source).hexdigest()[:32]


def _home(code: Code) -> str:
    module = code.__module__
    return str(sys.modules[module].__file__) if module.startswith(_PLUGIN) else module


def _place(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}"
    lines = list(_lines(path, error))
    return f"{path}:{lines[-1]}" if lines else str(path)


def _lines(path: Path, error: BaseException) -> Iterator[int | None]:
    return (frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path))


def _said(error: BaseException) -> str:
    if isinstance(error, ReporterError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
