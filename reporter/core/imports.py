"""Imports: optional packages, plug-ins and the registries that they add to, and the build of reporter itself."""

import gc
import hashlib
import importlib
import linecache
import marshal
import pkgutil
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from reporter.core.errors import ReporterError, UsageError, failures, with_type
from reporter.core.version import VERSION


@contextmanager
def importing() -> Iterator[None]:
    """Pause the garbage collector inside the block, which makes many objects that stay, such as modules."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def changed(owner: Any, **values: Any) -> Iterator[None]:
    """Give attributes of a module or an object of another library other values inside the block."""
    before = {name: getattr(owner, name, None) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def optional(module: str, extra: str, by: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: its full name.
        extra: the extra of reporter that installs it.
        by: what needs it, for the message: "the engine ray".

    Raises:
        UsageError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        if problem.name and problem.name.partition(".")[0] != module.partition(".")[0]:
            command = f"pip install 'layer-reporter[{extra}]'"
            raise UsageError(f"{by} cannot import {module}: {problem}; install it again with: {command}") from None
        raise UsageError(_missing(module, extra, by)) from None


def check_installed(module: str, extra: str, by: str) -> None:
    """Raise ``UsageError`` where an optional package is not installed; nothing is imported."""
    if find_spec(module) is None:
        raise UsageError(_missing(module, extra, by))


def _missing(module: str, extra: str, by: str) -> str:
    package = module.partition(".")[0]
    return f"{by} needs the optional package {package}; install it with: pip install 'layer-reporter[{extra}]'"


_PACKAGE = Path(__file__).parents[1]


@cache
def build() -> str:
    """Return the version and a hash of all sources and templates: pages of another build are written again."""
    packed = _PACKAGE / "report" / "templates"
    folders = [_PACKAGE] if packed.is_dir() else [_PACKAGE, _PACKAGE.parent / "templates"]
    hashed = hashlib.sha256()
    for folder in folders:
        for file in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".html", ".js", ".css")):
            hashed.update(f"{file.relative_to(folder)}\n".encode())
            hashed.update(file.read_bytes())
    return f"{VERSION}-{hashed.hexdigest()[:12]}"


Thing = TypeVar("Thing")
Code = Callable[..., Any]
"""A function of a registered object, which tells the file or the notebook cell that defines it."""

_DECORATORS = "@reporter.metric, @reporter.analysis, @reporter.claim_kind or @reporter.corpus_source"
_PLUGIN = "reporter_plugin_"  # the module of a plug-in's file is called so, with a hash of its path


class Registry(Generic[Thing]):
    """Objects of one kind by name: those of reporter, of installed packages, and of plug-ins of studies.

    Args:
        sort: what messages call one of them: ``metric``.
        sorts: what they call several: ``metrics``; installed packages register theirs in modules that the entry point
            ``reporter.<sorts>`` names.
        room: the package whose modules register those of reporter; modules that begin with ``_`` are its helpers.
        helpers: further modules of the room that register nothing.
    """

    def __init__(self, sort: str, sorts: str, room: str, helpers: Collection[str] = ()) -> None:
        self.sort = sort
        self.sorts = sorts
        self._room = room
        self._helpers = frozenset(helpers)
        self._entries: dict[str, tuple[Thing, Code]] = {}
        self._plugins: dict[str, Path] = {}  # the plug-in that registered a name
        self._shipped = self._offered = False

    def add(self, name: str, thing: Thing, code: Code) -> None:
        """Register an object; a cell or a module that runs again replaces what it registered before.

        Raises:
            ReporterError: another module registered that name.
        """
        if not is_ours(code):
            self._import_shipped()  # whose names are taken
        before = self._entries.get(name)
        if before is not None and before[1].__module__ != code.__module__:
            places = f"in {_home(before[1])} and in {_home(code)}"
            raise ReporterError(f"{self.sort} {name!r} is defined twice, {places}; rename one of them")
        self._entries[name] = (thing, code)

    def all(self, plugins: Collection[Path] | None = None) -> dict[str, Thing]:
        """Return all objects by name, in alphabetical order; of those of plug-ins only those of the given files."""
        self._import_shipped()
        self._import_offered()
        shown = set(self._plugins.values()) if plugins is None else {path.resolve() for path in plugins}
        return {
            name: self._entries[name][0]
            for name in sorted(self._entries)
            if name not in self._plugins or self._plugins[name] in shown
        }

    def forget(self, plugin: Path | None = None) -> None:
        """Remove what a plug-in registered, or what all of them registered."""
        for name in [name for name, path in self._plugins.items() if plugin in (None, path)]:
            del self._plugins[name]
            self._entries.pop(name, None)

    @contextmanager
    def loading(self, plugin: Path) -> Iterator[None]:
        """Note what is registered inside the block as the plug-in's, in place of what it registered before."""
        self.forget(plugin)
        self.all()  # so that a name that is taken is taken by the code that was there first
        before = set(self._entries)
        try:
            yield
        finally:
            self._plugins |= dict.fromkeys(self._entries.keys() - before, plugin)

    def has_of(self, plugin: Path) -> bool:
        """Return whether a plug-in registered an object here."""
        return plugin in self._plugins.values()

    def _import_shipped(self) -> None:
        if self._shipped:
            return
        self._shipped = True  # before: while a module of the room is imported, it registers
        for module in pkgutil.iter_modules(importlib.import_module(self._room).__path__):
            if not module.name.startswith("_") and module.name not in self._helpers:
                importlib.import_module(f"{self._room}.{module.name}")

    def _import_offered(self) -> None:
        if self._offered:
            return
        self._offered = True
        from importlib.metadata import entry_points  # `--help` needs no registry, and not the time of this import

        for entry in entry_points(group=f"reporter.{self.sorts}"):
            try:
                entry.load()
            except failures() as error:  # another package may fail in any way
                self._offered = False
                raise ReporterError(
                    f"cannot load the {self.sorts} of the package at {entry.value!r}: {_message(error)}; "
                    "update or uninstall the package"
                ) from error


def load_plugin(path: Path, registries: Sequence[Registry[Any]]) -> None:
    """Run a Python file that registers objects, as a study's ``plugins`` name it.

    Raises:
        UsageError: it cannot be read or run, or registers nothing; the text has the file and, where known, the line.
    """
    path = path.resolve()
    name = _PLUGIN + hashlib.sha256(str(path).encode()).hexdigest()[:12]
    with ExitStack() as stack:
        for registry in registries:
            stack.enter_context(registry.loading(path))
        module = ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module
        linecache.checkcache(str(path))
        try:
            # compile: Python's cache of bytecode does not notice a file that is edited twice within a second
            exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
        except failures() as error:  # other people's code, which may fail in any way
            raise UsageError(
                f"{_place(path, error)}: {_message(error)}; fix the file, or remove it from `plugins`"
            ) from error
    if not any(registry.has_of(path) for registry in registries):
        raise UsageError(f"{path}: registers nothing; decorate a function with {_DECORATORS}")


def is_ours(code: Code) -> bool:
    """Return whether a function belongs to reporter itself."""
    return code.__module__.startswith("reporter.")


def code_of(code: Code) -> str:
    """Return a hash of the file or the notebook cell that defines a function: an edit makes its cells run again.

    Empty for functions of reporter, whose metrics have a version instead.
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
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _message(error: BaseException) -> str:
    if isinstance(error, ReporterError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return with_type(error)
