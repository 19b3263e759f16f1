"""From a file to a :class:`~reporter.spec.study.StudyFile`, or to every problem it has."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from reporter.errors import one_line
from reporter.files import MOST_OF_A_STUDY, endless
from reporter.spec.claim_references import refused_claims
from reporter.spec.layers import Layers, read_layers
from reporter.spec.offer import Offer
from reporter.spec.part import Complaint, Elsewhere, complaints_of
from reporter.spec.problems import Problem, SpecError, show
from reporter.spec.references import contradictions
from reporter.spec.study import Study, StudyFile, check_study


def load_study(path: Path, offer: Offer, changes: Sequence[str] = ()) -> StudyFile:
    """Read and check a study.

    Args:
        path: the YAML file.
        offer: what it may ask for.
        changes: what a call says otherwise, each as ``models.bert=./mine``.

    Raises:
        SpecError: the file cannot be read, or something in it is wrong. It holds every problem, in the order
            of the file.
    """
    return check_layers(layers_of(path, changes), offer)


def layers_of(path: Path, changes: Sequence[str] = (), text: str | None = None) -> Layers:
    """Read what a study says, with all that it extends, and check nothing.

    Args:
        path: the YAML file; relative paths start from its folder.
        changes: what a call says otherwise.
        text: what the file says, where that is at hand.

    Raises:
        SpecError: a file cannot be read.
        UsageError: a change is none.
    """
    return read_layers(read_text(path) if text is None else text, path, read_text, changes)


def check_layers(said: Layers, offer: Offer) -> StudyFile:
    """Return the study that is said.

    Claims of a study that is extended are left out where they speak of what its heir put something else in the place
    of, and the study's notes say so.

    Raises:
        SpecError: something is wrong with it.
    """
    problems = set(said.problems())
    study, complaints = _check(said, offer, bool(problems))
    notes: list[str] = []
    while left := _of_others(said, complaints, offer):
        claims = {name: claim for name, claim in said.data.get("claims", {}).items() if name not in left}
        said = replace(said, data={**said.data, "claims": claims})
        notes += [f"claim {one_line(name)} of the extended study is left out: {why}" for name, why in left.items()]
        study, complaints = _check(said, offer, bool(problems))
    if study is not None:
        return StudyFile(study, said.path, said.text(), tuple(notes))
    broken = {(problem.file, problem.line, problem.column) for problem in problems}
    for complaint in complaints:
        problem = said.problem(complaint)
        # A value that YAML itself could not make sense of is not wrong a second time.
        if (problem.file, problem.line, problem.column) not in broken:
            problems.add(problem)
    own = str(said.path)
    raise SpecError(sorted(problems, key=lambda p: (p.file != own, p.file, p.line, p.column, p.where, p.message)))


def _of_others(said: Layers, complaints: Sequence[Complaint], offer: Offer) -> dict[str, str]:
    """Return the claims of an extended study that are right there and wrong here, and what is wrong with each."""
    if said.below is None or not said.inherits("claims"):
        return {}
    author = said.below
    while author.below is not None and author.inherits("claims"):
        author = author.below
    found = _by_claim(complaints)
    wrong_there = _by_claim(_check(author, offer, False)[1]) if found else {}
    return {name: found[name] for name in said.data.get("claims", {}) if name in found and name not in wrong_there}


def _by_claim(complaints: Sequence[Complaint]) -> dict[str, str]:
    """Return by the names of claims the first complaint about each."""
    about = [c for c in complaints if c.location[:1] == ("claims",) and len(c.location) > 1]
    return {str(c.location[1]): c.message for c in reversed(about)}


def plugins_of(said: Layers) -> tuple[Path, ...]:
    """Return the files that a study names under ``plugins``, before anything else in it is checked.

    Args:
        said: the study, right or wrong.

    Raises:
        SpecError: a file is not there.
    """
    named = said.data.get("plugins") if isinstance(said.data, dict) else None
    found: list[Path] = []
    problems: list[Problem] = []
    for index, name in enumerate(named if isinstance(named, list) else ()):
        if not isinstance(name, str):  # which the check of the whole study explains
            continue
        written = name.as_path() if isinstance(name, Elsewhere) else name
        file = said.path.resolve().parent / Path(written).expanduser()
        if not file.is_file():
            message = f"there is no file '{name}'; it is looked for beside the study"
            problems.append(said.problem(Complaint(message, ("plugins", index))))
        found.append(file)
    if problems:
        raise SpecError(problems)
    return tuple(found)


def load_studies(paths: Sequence[Path], load: Callable[[Path], StudyFile]) -> list[StudyFile]:
    """Read and check several studies, all of them before any complaint.

    Args:
        paths: the YAML files.
        load: reads one, as :func:`load_study` does.

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
            message = f"'{file.study.study}' is the id of {owner}, too; every study needs its own"
            problems.append(layers_of(file.path).problem(Complaint(message, ("study",))))
    if problems:
        raise SpecError(problems)
    return files


def _check(said: Layers, offer: Offer, broken: bool) -> tuple[Study | None, list[Complaint]]:
    if said.data is None and broken:
        return None, []
    if not isinstance(said.data, dict):
        message = f"a study is a mapping that begins with 'study: <id>', got {show(said.data)}"
        return None, [Complaint(message)]
    try:
        study = check_study(said.data, offer)
    except ValidationError as error:
        # Pydantic looks at references only once all else is right; a reader wants everything at once.
        return None, list(dict.fromkeys([*complaints_of(error), *contradictions(said.data, offer)]))
    complaints = list(refused_claims(study, offer))
    return (None if broken or complaints else study), complaints


def read_text(path: Path) -> str:
    """Return the text of a study; raise ``SpecError`` if there is no such file, or it is no UTF-8."""
    if (problem := endless(path, MOST_OF_A_STUDY)) and not path.is_dir():
        raise SpecError.of_file(path, problem)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise SpecError.of_file(path, "there is no such file; 'reporter init' writes a study to start from") from None
    except IsADirectoryError:
        raise SpecError.of_file(path, "is a directory, not a study file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError.of_file(path, f"cannot be read: {reason}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        lines = re.split(rb"\r\n|\r|\n", raw[: error.start])
        line, column = len(lines), len(lines[-1].decode("utf-8-sig", "replace")) + 1
        message = f"is not UTF-8 text (byte 0x{raw[error.start]:02x}); save the file as UTF-8"
        raise SpecError([Problem(str(path), line, column, "", message)]) from None
    return text
