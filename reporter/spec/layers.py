"""What a study says where it is not all in one file: what it extends lies below it, what a call sets above it.

The study's own file says ``extends: eacl-anisotropy``, a study that ships with reporter, or a path. A key at the top of
a study that it gives takes the place of the same key below, as a whole; ``study`` it gives itself. Then
``models.bert=./mine`` from the command line takes the place of one value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from reporter.errors import UsageError, hint, one_line, suggest
from reporter.spec.part import Complaint, Elsewhere
from reporter.spec.problems import Location, Problem, SpecError, show, show_location
from reporter.spec.yaml_reader import CORE, Document, read_yaml

EXTENDS = "extends"
ReadText = Callable[[Path], str]


def shipped() -> dict[str, Path]:
    """Return the studies that ship with reporter, by name: in the installed package, or in a checkout beside it."""
    places = (Path(__file__).parents[n] / "studies" for n in (0, 2))
    folder = next((place for place in places if place.is_dir()), None)
    files = sorted(folder.rglob("*.yaml"), key=lambda file: (len(file.parts), file)) if folder else ()
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files} if folder else {}


@dataclass(frozen=True)
class Layers:
    """What a study says, all told, and where each part of it is written.

    Args:
        data: what it says; text that is written elsewhere than in the study's own file is :class:`Elsewhere`.
        path: the study's own file.
        own: what that file says.
        written: its text, character for character.
        below: what it extends, if it does.
        sets: what a call set, as ``(location, what the user wrote)``; later ones win.
    """

    data: Any
    path: Path
    own: Document
    written: str
    below: Layers | None = None
    sets: tuple[tuple[Location, str], ...] = ()

    def inherits(self, key: str) -> bool:
        """Tell whether what stands under a key at the top comes from the study that is extended."""
        return self.below is not None and not (isinstance(self.own.data, dict) and key in self.own.data)

    def problem(self, complaint: Complaint) -> Problem:
        """Return a complaint with the place that it is about: a line of a file, or what the user set."""
        for location, said in reversed(self.sets):
            if complaint.location[: len(location)] == location:
                return Problem(said, 0, 0, show_location(complaint.location), complaint.message)
        top = complaint.location[0] if complaint.location else "study"
        if self.below is not None and top != "study" and self.inherits(str(top)) and top in (self.below.data or ()):
            return self.below.problem(complaint)
        (line, column), where = self.own.place(complaint)
        return Problem(str(self.path), line, column, where, complaint.message)

    def problems(self) -> Iterator[Problem]:
        """Yield what YAML itself could not make sense of, in the study's file and in those that it extends."""
        if self.below is not None:
            yield from self.below.problems()
        for at, where, message in self.own.problems:
            yield Problem(str(self.path), *at, show_location(where), message)

    def text(self) -> str:
        """Return what the study says, all told, as one YAML text that needs no other."""
        if self.below is None and not self.sets:
            return self.written
        return as_yaml(self.data)


def read_layers(text: str, path: Path, read_text: ReadText, changes: Sequence[str] = ()) -> Layers:
    """Read a study, what it extends, and what a call sets.

    Args:
        text: the study's own file.
        path: where it is; relative paths start from its folder.
        read_text: returns the text of another file, or raises ``SpecError``.
        changes: what a call sets, each as ``models.bert=./mine``; relative paths in it start from the current folder.

    Raises:
        SpecError: what the study extends is not there, cannot be read, or extends the study.
        UsageError: a change is none.
    """
    found = _extended(text, path, read_text, ())
    for change in changes:
        found = _set(found, change)
    return found


def _extended(text: str, path: Path, read_text: ReadText, above: tuple[Path, ...]) -> Layers:
    own = read_yaml(text)
    if not isinstance(own.data, dict) or EXTENDS not in own.data:
        return Layers(own.data, path, own, text)
    data = {key: value for key, value in own.data.items() if key != EXTENDS}
    plain = Layers(data, path, own, text)
    said = own.data[EXTENDS]
    try:
        other = _named(said, path)
        if other.resolve() in {one.resolve() for one in (*above, path)}:
            raise UsageError(f"goes in a circle: {one_line(str(said))} extends this study, or is it")
        below = _extended(read_text(other), other, read_text, (*above, path))
    except SpecError as error:
        if error.problems[0].line:  # it was found, and what is wrong stands there
            raise
        raise SpecError([plain.problem(Complaint(error.problems[0].message, (EXTENDS,)))]) from None
    except UsageError as error:
        raise SpecError([plain.problem(Complaint(str(error), (EXTENDS,)))]) from None
    if not isinstance(below.data, dict):
        return replace(plain, below=below)
    way = os.path.relpath(other.resolve().parent, path.resolve().parent)
    taken = {key: _elsewhere(value, way) for key, value in below.data.items() if key != "study"}
    names = dict.fromkeys(["study", *taken, *data] if "study" in data else [*taken, *data])
    return replace(plain, data={name: data[name] if name in data else taken[name] for name in names}, below=below)


def _named(said: Any, path: Path) -> Path:
    """Return the file of a study that another names: by its path, or by the name of one that ships."""
    if not isinstance(said, str) or not said.strip():
        raise UsageError(f"expected the name of a study that ships with reporter, or a path, got {show(said)}")
    if said.endswith((".yaml", ".yml")):
        return Path(os.path.normpath(path.parent / Path(said).expanduser()))
    known = shipped()
    if said not in known:
        ending = hint(said, list(known), "there are")
        raise UsageError(f"no study '{one_line(said)}' ships with reporter{ending} (a path ends in .yaml)")
    return known[said]


def _set(layers: Layers, change: str) -> Layers:
    """Return a study with one value in the place of another."""
    name, equals, written = change.partition("=")
    said = f"--set {one_line(change)}"
    if not equals or not name.strip():
        raise UsageError(f"{said}: expected KEY=VALUE, such as models.bert=./mine or corpora.wiki.limit=200")
    if not isinstance(layers.data, dict):
        return layers  # which is no study, as the check will say
    read = read_yaml(written) if written.strip() else Document()
    if read.problems:
        raise UsageError(f"{said}: {read.problems[0][2]}")
    location = _location(layers.data, name.strip(), said)
    if location == (EXTENDS,):
        raise UsageError(f"{said}: what a study extends stands in its file")
    value = _elsewhere(read.data, os.path.relpath(Path.cwd(), layers.path.resolve().parent))
    if location[:1] == ("models",) and len(location) == 2 and isinstance(value, str) and _is_folder(value):
        value = {"path": value}
    at = next((n for n in range(1, len(location)) if _at(layers.data, location[:n]) is None), len(location))
    data = _with(layers.data, location, value)
    return replace(layers, data=data, sets=(*layers.sets, (location[:at], said)))


def _is_folder(written: str) -> bool:
    return written.startswith((".", "/", "~")) or (os.sep in written and Path(written).is_dir())


def _location(data: Mapping[str, Any], name: str, said: str) -> Location:
    """Return where ``models.Qwen2.5.path`` is: of keys that hold dots the longest that is there."""
    found: list[str] = []
    here: Any = data
    rest = name
    while rest:
        if isinstance(here, list | tuple):
            whole = show_location(tuple(found))
            raise UsageError(f"{said}: '{whole}' is a list; set it as a whole, such as --set '{whole}=[…]'")
        if here is not None and not isinstance(here, Mapping):
            whole = show_location(tuple(found))
            raise UsageError(f"{said}: '{whole}' is {show(here)}, which has no keys; set it as a whole")
        known = [key for key in here or () if rest == key or rest.startswith(f"{key}.")]
        first = rest.partition(".")[0]
        if not first:
            raise UsageError(f"{said}: a key is missing in '{one_line(name)}'")
        new = not known and len(found) == 1 and suggest(first, here or ()) is None  # a name, which may hold dots
        key = max(known, key=len) if known else rest if new and here else first
        rest = rest[len(key) + 1 :]
        if rest and here and found and not known:
            ending = hint(key, list(here), "there are")
            raise UsageError(f"{said}: there is no '{one_line(key)}' under '{show_location(tuple(found))}'{ending}")
        found.append(key)
        here = here.get(key) if here is not None else None
    return tuple(found)


def _at(data: Any, location: Location) -> Any:
    for key in location:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _with(data: Mapping[str, Any] | None, location: Location, value: Any) -> dict[str, Any]:
    key, *rest = location
    inside = _with((data or {}).get(str(key)), tuple(rest), value) if rest else value
    return {**(data or {}), str(key): inside}


def as_yaml(data: Any) -> str:
    """Return what a study says, or a part of it, as YAML that is read as it was meant."""
    return yaml.dump(_plain(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _elsewhere(value: Any, way: str) -> Any:
    """Return a value whose texts know from which folder they start, if they are paths."""
    if way == os.curdir:
        return value
    if isinstance(value, dict):
        return {key: _elsewhere(item, way) for key, item in value.items()}
    if isinstance(value, list):
        return [_elsewhere(item, way) for item in value]
    if isinstance(value, Elsewhere):
        return Elsewhere(str(value), os.path.normpath(Path(way, value.way)))
    return Elsewhere(value, way) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.here() if isinstance(value, Elsewhere) else value


class _Dumper(yaml.SafeDumper):
    """Puts into quotes what either YAML 1.1 or the reader of studies would take for something other than text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _pattern, _name in CORE:
    _whole = re.compile(rf"(?:{_pattern.pattern})\Z")
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _whole, None)
