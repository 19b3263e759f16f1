"""From a file to a :class:`~reporter.study.study.StudyFile`, or to every problem it has."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from reporter.core.errors import UsageError, hint, one_line, suggest
from reporter.core.files import MOST_OF_A_STUDY, as_path, endless, instead_of
from reporter.study.offer import Offer
from reporter.study.part import Complaint, InheritedText, complaints_of
from reporter.study.problems import Location, Problem, SpecError, show, show_location
from reporter.study.references import contradictions, refused_claims
from reporter.study.study import Study, StudyFile, check_study
from reporter.study.yaml_reader import CORE, Document, read_yaml

# Layers of a study: the study that it extends lies below, the overrides of the command line lie above.
#
# ``extends: eacl-anisotropy`` names a study that ships with reporter, or a path. A top-level key replaces the whole key
# of the layer below, except ``study``. Then ``models.bert=./mine`` from the command line replaces one value.


EXTENDS = "extends"


def shipped() -> dict[str, Path]:
    """Return the studies that ship with reporter, by name: in the installed package, or in a checkout beside it."""
    places = (Path(__file__).parents[n] / "studies" for n in (0, 2))
    folder = next((place for place in places if place.is_dir()), None)
    files = sorted(folder.rglob("*.yaml"), key=lambda file: (len(file.parts), file)) if folder else ()
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files} if folder else {}


@dataclass(frozen=True)
class Layers:
    """The content of a study with what it extends and overrides, and the source of each part."""

    data: Any
    path: Path
    document: Document
    written: str
    below: Layers | None = None
    sets: tuple[tuple[Location, str], ...] = ()

    def inherits(self, key: str) -> bool:
        """Return whether the value of a top-level key comes from the study that is extended."""
        return self.below is not None and not (isinstance(self.document.data, dict) and key in self.document.data)

    def problem(self, complaint: Complaint) -> Problem:
        """Return a complaint with its place: a line of a file, or an override of the command line."""
        for location, override in reversed(self.sets):
            if complaint.location[: len(location)] == location:
                return Problem(override, 0, 0, show_location(complaint.location), complaint.message)
        top = complaint.location[0] if complaint.location else "study"
        if self.below is not None and top != "study" and self.inherits(str(top)) and top in (self.below.data or ()):
            return self.below.problem(complaint)
        (line, column), where = self.document.place(complaint)
        return Problem(str(self.path), line, column, where, complaint.message)

    def problems(self) -> Iterator[Problem]:
        """Yield the YAML errors in the study's file and in the files that it extends."""
        if self.below is not None:
            yield from self.below.problems()
        for position, where, message in self.document.problems:
            yield Problem(str(self.path), *position, show_location(where), message)

    def text(self) -> str:
        """Return the whole study as one YAML text without ``extends`` and overrides."""
        return self.written if self.below is None and not self.sets else as_yaml(self.data)


def _extended(text: str, path: Path, above: tuple[Path, ...] = ()) -> Layers:
    document = read_yaml(text)
    if not isinstance(document.data, dict) or EXTENDS not in document.data:
        return Layers(document.data, path, document, text)
    data = {key: value for key, value in document.data.items() if key != EXTENDS}
    plain = Layers(data, path, document, text)
    reference = document.data[EXTENDS]
    try:
        other = _named(reference, path)
        if other.resolve() in {file.resolve() for file in (*above, path)}:
            raise UsageError(
                f"circular reference: {one_line(str(reference))} is or extends this study; name another study"
            )
        below = _extended(read_text(other, instead_of(other) or "; check the path"), other, (*above, path))
    except UsageError as error:
        message = str(error)
        if isinstance(error, SpecError):
            message = error.problems[0].message
            if error.problems[0].line:  # it was found, and what is wrong stands there
                raise
        raise SpecError([plain.problem(Complaint(message, (EXTENDS,)))]) from None
    if not isinstance(below.data, dict):
        return replace(plain, below=below)
    way = os.path.relpath(other.resolve().parent, path.resolve().parent)
    taken = {key: _elsewhere(value, way) for key, value in below.data.items() if key != "study"}
    names = dict.fromkeys(["study", *taken, *data] if "study" in data else [*taken, *data])
    return replace(plain, data={name: data[name] if name in data else taken[name] for name in names}, below=below)


def _named(reference: Any, path: Path) -> Path:
    if not isinstance(reference, str) or not reference.strip():
        raise UsageError(
            f"expected a study that ships with reporter, or a path that ends in .yaml, got {show(reference)}"
        )
    if reference.endswith((".yaml", ".yml")):
        return Path(os.path.normpath(path.parent / as_path(reference)))
    studies = shipped()
    if reference not in studies:
        ending = hint(reference, list(studies), "shipped studies")
        raise UsageError(f"no study '{one_line(reference)}' ships with reporter (a path must end in .yaml){ending}")
    return studies[reference]


def _set(layers: Layers, change: str) -> Layers:
    """Return a study with one value replaced."""
    name, equals, written = change.partition("=")
    option = f"--set {one_line(change)}"
    if not equals or not name.strip():
        raise UsageError(f"{option}: expected KEY=VALUE, such as models.bert=./mine or corpora.wiki.limit=200")
    if not isinstance(layers.data, dict):
        return layers  # which is no study, as the check will say
    read = read_yaml(written) if written.strip() else Document()
    if read.problems:
        raise UsageError(f"{option}: {read.problems[0][2]}")
    location = _location(layers.data, name.strip(), option)
    if location == (EXTENDS,):
        raise UsageError(f"{option}: `extends` cannot be overridden; edit the study file")
    value = _elsewhere(read.data, os.path.relpath(Path.cwd(), layers.path.resolve().parent))
    if location[:1] == ("models",) and len(location) == 2 and isinstance(value, str):
        is_folder = value.startswith((".", "/", "~")) or (os.sep in value and Path(value).is_dir())
        value = {"path": value} if is_folder else value
    depth = next((n for n in range(1, len(location)) if _value_at(layers.data, location[:n]) is None), len(location))
    data = _with_value(layers.data, location, value)
    return replace(layers, data=data, sets=(*layers.sets, (location[:depth], option)))


def _location(data: Mapping[str, Any], name: str, option: str) -> Location:
    """Return where ``models.Qwen2.5.path`` is: of keys that hold dots the longest that is there."""
    keys: list[str] = []
    here: Any = data
    rest = name
    while rest:
        if isinstance(here, list | tuple):
            whole = show_location(tuple(keys))
            raise UsageError(f"{option}: '{whole}' is a list; set the whole list with --set '{whole}=[…]'")
        if here is not None and not isinstance(here, Mapping):
            whole = show_location(tuple(keys))
            raise UsageError(f"{option}: '{whole}' is {show(here)} and has no keys; replace it with --set '{whole}=…'")
        candidates = [key for key in here or () if rest == key or rest.startswith(f"{key}.")]
        first = rest.partition(".")[0]
        if not first:
            raise UsageError(f"{option}: a key is empty in '{one_line(name)}'; write KEY.KEY=VALUE")
        new = not candidates and len(keys) == 1 and suggest(first, here or ()) is None  # a name, which may hold dots
        key = max(candidates, key=len) if candidates else rest if new and here else first
        rest = rest[len(key) + 1 :]
        if rest and here and keys and not candidates:
            ending = hint(key, list(here), "keys there")
            raise UsageError(f"{option}: no key '{one_line(key)}' under '{show_location(tuple(keys))}'{ending}")
        keys.append(key)
        here = here.get(key) if here is not None else None
    return tuple(keys)


def _value_at(data: Any, location: Location) -> Any:
    for key in location:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _with_value(data: Mapping[str, Any] | None, location: Location, value: Any) -> dict[str, Any]:
    key, *rest = location
    inside = _with_value((data or {}).get(str(key)), tuple(rest), value) if rest else value
    return {**(data or {}), str(key): inside}


def as_yaml(data: Any) -> str:
    """Return a study, or a part of it, as YAML that :func:`read_yaml` reads back unchanged."""
    return yaml.dump(_as_written(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _elsewhere(value: Any, way: str) -> Any:
    if way == os.curdir:
        return value
    if isinstance(value, dict):
        return {key: _elsewhere(item, way) for key, item in value.items()}
    if isinstance(value, list):
        return [_elsewhere(item, way) for item in value]
    if isinstance(value, InheritedText):
        return InheritedText(str(value), os.path.normpath(Path(way, value.way)))
    return InheritedText(value, way) if isinstance(value, str) else value


def _as_written(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _as_written(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_written(item) for item in value]
    return value.here() if isinstance(value, InheritedText) else value


class _Dumper(yaml.SafeDumper):
    """Puts into quotes what either YAML 1.1 or the reader of studies would take for something other than text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _pattern, _name in CORE:
    _whole = re.compile(rf"(?:{_pattern.pattern})\Z")
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _whole, None)


def load_study(path: Path, offer: Offer, changes: Sequence[str] = ()) -> StudyFile:
    """Read and check a study.

    Raises:
        SpecError: the file cannot be read, or something in it is wrong. It holds every problem, in the order
            of the file.
    """
    return check_layers(layers_of(path, changes), offer)


def layers_of(path: Path, changes: Sequence[str] = (), text: str | None = None) -> Layers:
    """Read a study with all that it extends, without checking it.

    Raises:
        SpecError: a file cannot be read, or a study extends itself.
        UsageError: an override is wrong.
    """
    layers = _extended(read_text(path) if text is None else text, path)
    for change in changes:
        layers = _set(layers, change)
    return layers


def check_layers(layers: Layers, offer: Offer) -> StudyFile:
    """Check the layers and return their study.

    Claims of the extended study are left out where they name a model, corpus or metric that this study replaced. The
    study's notes list them.

    Raises:
        SpecError: something is wrong with it.
    """
    problems = set(layers.problems())
    study, complaints = _check(layers, offer, bool(problems))
    notes: list[str] = []
    while left := _of_others(layers, complaints, offer):
        claims = {name: claim for name, claim in layers.data["claims"].items() if name not in left}
        layers = replace(layers, data={**layers.data, "claims": claims})
        notes += [f"claim {one_line(name)} of the extended study is left out: {why}" for name, why in left.items()]
        study, complaints = _check(layers, offer, bool(problems))
    if study is not None:
        return StudyFile(study, layers.path, layers.text(), tuple(notes))
    broken = {(problem.file, problem.line, problem.column) for problem in problems}
    for complaint in complaints:
        problem = layers.problem(complaint)
        # A value or a mapping that YAML could not read is not wrong a second time.
        is_read = complaint.location not in layers.document.incomplete
        if is_read and (problem.file, problem.line, problem.column) not in broken:
            problems.add(problem)
    file = str(layers.path)
    raise SpecError(sorted(problems, key=lambda p: (p.file != file, p.file, p.line, p.column, p.where, p.message)))


def _of_others(layers: Layers, complaints: Sequence[Complaint], offer: Offer) -> dict[str, str]:
    if layers.below is None or not layers.inherits("claims"):
        return {}
    if not isinstance(claims := layers.data.get("claims"), dict):
        return {}  # there are none, or what stands there is no mapping
    author = layers.below
    while author.below is not None and author.inherits("claims"):
        author = author.below
    grouped = _by_claim(complaints)
    wrong_there = _by_claim(_check(author, offer, False)[1]) if grouped else {}
    return {name: grouped[name] for name in claims if name in grouped and name not in wrong_there}


def _by_claim(complaints: Sequence[Complaint]) -> dict[str, str]:
    about = [c for c in complaints if c.location[:1] == ("claims",) and len(c.location) > 1]
    return {str(c.location[1]): c.message for c in reversed(about)}


def plugins_of(layers: Layers) -> tuple[Path, ...]:
    """Return the files that a study names under ``plugins``, before anything else in it is checked.

    Raises:
        SpecError: a file is not there.
    """
    named = layers.data.get("plugins") if isinstance(layers.data, dict) else None
    paths: list[Path] = []
    problems: list[Problem] = []
    for index, name in enumerate(named if isinstance(named, list) else ()):
        if not isinstance(name, str):  # which the check of the whole study explains
            continue
        written = name.as_path() if isinstance(name, InheritedText) else name
        try:
            written_path = as_path(written)
        except UsageError as error:
            problems.append(layers.problem(Complaint(str(error), ("plugins", index))))
            continue
        file = layers.path.resolve().parent / written_path
        if not file.is_file():
            message = (
                f"there is no file '{name}' in the folder of the study{instead_of(layers.path.parent / written_path)}"
            )
            problems.append(layers.problem(Complaint(message, ("plugins", index))))
        paths.append(file)
    if problems:
        raise SpecError(problems)
    return tuple(paths)


def load_studies(paths: Sequence[Path], load: Callable[[Path], StudyFile]) -> list[StudyFile]:
    """Read and check several studies, all of them before any complaint.

    Raises:
        SpecError: the problems of all files together; two studies with one id are a problem, too.
    """
    files: list[StudyFile] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            files.append(load(path))
        except SpecError as error:
            problems += error.problems
    owners: dict[str, Path] = {}
    for file in files:
        owner = owners.setdefault(file.study.study, file.path)
        if owner is not file.path:
            message = f"{owner} has the same id '{file.study.study}'; give each study another id"
            problems.append(layers_of(file.path).problem(Complaint(message, ("study",))))
    if problems:
        raise SpecError(problems)
    return files


def _check(layers: Layers, offer: Offer, broken: bool) -> tuple[Study | None, list[Complaint]]:
    if layers.data is None and broken:
        return None, []
    if not isinstance(layers.data, dict):
        return None, [Complaint(f"a study must be a mapping that begins with `study: ID`, got {show(layers.data)}")]
    try:
        study = check_study(layers.data, offer)
    except ValidationError as error:
        # Pydantic looks at references only once all else is right; a reader wants everything at once.
        return None, list(dict.fromkeys([*complaints_of(error), *contradictions(layers.data, offer)]))
    complaints = list(refused_claims(study, offer))
    return (None if broken or complaints else study), complaints


def read_text(path: Path, remedy: str | None = None) -> str:
    """Return the text of a YAML file.

    Args:
        path: the file.
        remedy: the end of the message if there is no such file; by default a similar file, or ``reporter init``.

    Raises:
        SpecError: there is no such file, or it is no UTF-8.
    """
    if (problem := endless(path, MOST_OF_A_STUDY)) and not path.is_dir():
        raise SpecError.of_file(path, problem)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        if (name := path.with_suffix("").as_posix().removeprefix("studies/")) in shipped():
            remedy = f"; copy the study that ships with `reporter init {name}`"
        elif remedy is None:
            check = "check the path" if path.suffix else "name the YAML file of a study"
            remedy = instead_of(path) or f"; {check}, or write a new study with `reporter init NAME`"
        raise SpecError.of_file(path, f"there is no such file{remedy}") from None
    except IsADirectoryError:
        raise SpecError.of_file(path, "is a folder; name a YAML file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError.of_file(path, f"cannot be read: {reason}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        lines = re.split(rb"\r\n|\r|\n", raw[: error.start])
        line, column = len(lines), len(lines[-1].decode("utf-8-sig", "replace")) + 1
        message = f"is not UTF-8 text (byte 0x{raw[error.start]:02x}); save the file as UTF-8"
        raise SpecError([Problem(str(path), line, column, "", message)]) from None
