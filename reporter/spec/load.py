"""From a file to a :class:`~reporter.spec.study.StudyFile`, or to every problem it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import ValidationError

from reporter.spec.claim_references import refused_claims
from reporter.spec.offer import Offer
from reporter.spec.part import Complaint, complaints_of
from reporter.spec.problems import Problem, SpecError, show, show_location
from reporter.spec.references import contradictions
from reporter.spec.study import Study, StudyFile, check_study
from reporter.spec.yaml_reader import Document, read_yaml


def load_study(path: Path, offer: Offer) -> StudyFile:
    """Read and check a study.

    Args:
        path: the YAML file.
        offer: what it may ask for.

    Raises:
        SpecError: the file cannot be read, or something in it is wrong. It holds every problem, in the order
            of the file.
    """
    return parse_study(read_text(path), path, offer)


def parse_study(text: str, path: Path, offer: Offer) -> StudyFile:
    """Check a study like :func:`load_study`, whose text is at hand already.

    Args:
        text: YAML.
        path: where it comes from; relative paths start from its folder.
        offer: what it may ask for.

    Raises:
        SpecError: something is wrong with it.
    """
    document = read_yaml(text)
    study, complaints = _check(document, offer)
    if study is not None:
        return StudyFile(study, path, text)
    problems = {Problem(str(path), *at, show_location(where), message) for at, where, message in document.problems}
    broken = {(problem.line, problem.column) for problem in problems}
    for complaint in complaints:
        (line, column), where = document.place(complaint)
        # A value that YAML itself could not make sense of is not wrong a second time.
        if (line, column) not in broken:
            problems.add(Problem(str(path), line, column, where, complaint.message))
    raise SpecError(sorted(problems, key=lambda p: (p.line, p.column, p.where, p.message)))


def plugins_of(text: str, path: Path) -> tuple[Path, ...]:
    """Return the files that a study names under ``plugins``, before anything else in it is checked.

    Args:
        text: the study, right or wrong.
        path: where it comes from.

    Raises:
        SpecError: a file is not there.
    """
    document = read_yaml(text)
    named = document.data.get("plugins") if isinstance(document.data, dict) else None
    found: list[Path] = []
    problems: list[Problem] = []
    for index, name in enumerate(named if isinstance(named, list) else ()):
        if not isinstance(name, str):  # which the check of the whole study explains
            continue
        file = path.resolve().parent / Path(name).expanduser()
        if not file.is_file():
            (line, column), where = document.place(Complaint("", ("plugins", index)))
            message = f"there is no file '{name}'; it is looked for beside the study"
            problems.append(Problem(str(path), line, column, where, message))
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
            (line, column), where = read_yaml(file.text).place(Complaint("", ("study",)))
            problems.append(Problem(str(file.path), line, column, where, message))
    if problems:
        raise SpecError(problems)
    return files


def _check(document: Document, offer: Offer) -> tuple[Study | None, list[Complaint]]:
    if document.data is None and document.problems:
        return None, []
    if not isinstance(document.data, dict):
        message = f"a study is a mapping that begins with 'study: <id>', got {show(document.data)}"
        return None, [Complaint(message)]
    try:
        study = check_study(document.data, offer)
    except ValidationError as error:
        # Pydantic looks at references only once all else is right; a reader wants everything at once.
        return None, list(dict.fromkeys([*complaints_of(error), *contradictions(document.data, offer)]))
    complaints = list(refused_claims(study, offer))
    return (None if document.problems or complaints else study), complaints


def read_text(path: Path) -> str:
    """Return the text of a study; raise ``SpecError`` if there is no such file, or it is no UTF-8."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise _no_text(path, "there is no such file; 'reporter init' writes a study to start from") from None
    except IsADirectoryError:
        raise _no_text(path, "is a directory, not a study file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _no_text(path, f"cannot be read: {reason}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        message = f"is not UTF-8 text (byte 0x{raw[error.start]:02x}); save the file as UTF-8"
        raise SpecError([Problem(str(path), line, column, "", message)]) from None
    return text


def _no_text(path: Path, message: str) -> SpecError:
    return SpecError([Problem(str(path), 0, 0, "", message)])
