"""Imports that wait until something uses them: libraries import much that a process never needs."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType
from typing import Any


@contextmanager
def deferring(*names: str, calls: bool = False) -> Iterator[None]:
    """Give imports of these modules inside the block a placeholder, unless they are imported already.

    What was taken from a placeholder stays one: it imports its module when something uses it. Afterwards the modules
    are imported as ever. Other threads are left alone.

    Args:
        names: full names of modules; modules inside them wait as well.
        calls: whether attributes and calls inside the block wait as well, as in a block that only imports.
    """
    finder = _Finder(tuple(name for name in names if name not in sys.modules), calls)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.names, finder.calls = (), False
        sys.meta_path.remove(finder)
        _remove_placeholders()


class _Finder:
    """Finds placeholders of modules, and is their loader."""

    def __init__(self, names: tuple[str, ...], calls: bool) -> None:
        self.names, self.calls = names, calls
        self.thread = get_ident()

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        ours = self.thread == get_ident() and any(f"{name}.".startswith(f"{module}.") for module in self.names)
        return ModuleSpec(name, self, is_package=True) if ours else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Placeholder(spec.name, self)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Placeholder(ModuleType):
    def __init__(self, name: str, finder: _Finder) -> None:
        super().__init__(name)
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Deferred(lambda: getattr(_imported(self.__name__, self._finder), name), self._finder, self.__name__)


class Deferred:
    """A name of a module that is not imported yet."""

    def __init__(self, make: Callable[[], Any], finder: _Finder, module: str) -> None:
        vars(self).update(_make=make, _finder=finder, _module=module)

    def _value(self) -> Any:
        if "_made" not in vars(self):
            vars(self)["_made"] = self._make()
        return self._made

    def _later(self, make: Callable[[], Any]) -> Any:
        return Deferred(make, self._finder, self._module) if self._finder.calls else make()

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the value."""
        return self._later(lambda: self._value()(*args, **options))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            if self._finder.calls:
                raise AttributeError(name)
            return getattr(self._value(), name)
        return self._later(lambda: getattr(self._value(), name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._value(), name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._later(lambda: self._value()[key])

    def __bool__(self) -> bool:
        return True if self._finder.calls else bool(self._value())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._value())

    def __enter__(self) -> Any:
        return self._value().__enter__()

    def __exit__(self, *error: object) -> Any:
        return self._value().__exit__(*error)

    def __instancecheck__(self, thing: object) -> bool:
        known = sys.modules.get(self._module)
        if known is None or isinstance(known, _Placeholder):
            return False  # of a class that is not imported there is nothing
        return isinstance(thing, self._value())

    def __subclasscheck__(self, kind: type) -> bool:
        return issubclass(kind, self._value())

    def __mro_entries__(self, bases: object) -> tuple[Any, ...]:
        return (self._value(),)

    def __or__(self, other: Any) -> Any:
        return Any  # of an annotation

    __ror__ = __or__


def _imported(name: str, finder: _Finder) -> ModuleType:
    """Import a module in place of its placeholder."""
    waiting, finder.names = finder.names, ()
    try:
        _remove_placeholders()
        return importlib.import_module(name)
    finally:
        finder.names = tuple(module for module in waiting if module not in sys.modules)


def _remove_placeholders() -> None:
    for name in [name for name, module in sys.modules.items() if isinstance(module, _Placeholder)]:
        del sys.modules[name]
        package, _, last = name.rpartition(".")
        if isinstance(vars(sys.modules.get(package, sys)).get(last), _Placeholder):
            delattr(sys.modules[package], last)
