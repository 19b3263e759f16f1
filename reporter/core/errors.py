"""Errors meant for people: what is wrong, where, and what to do. They are printed without a traceback."""

import errno
import os
import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

# The database and the pages must not show how this machine is laid out. So an absolute path is written relative to the
# study's file, or as ``…/`` and its last name where only the root of the disk is common. The text of the study itself
# is stored unchanged, since it may be run again by its id; pages show it with short paths.

SHORT = "…/"
_ABSOLUTE = re.compile(r"""(?<![\w.:/~…\\-])(?:/|[A-Za-z]:[\\/])[^\s'"`,;:(){}\[\]<>|]+""")
_VALUE = re.compile(r"""(?:(?<=[\s"'\[,])|^)(?:/|[A-Za-z]:[\\/])(?=[^\s/])[^\n"',\]}#]*[^\s"',\]}#]""")
"""A value in YAML or JSON that is an absolute path, which may contain spaces."""


def shared(path: str | Path, folder: Path) -> str:
    """Return a path as others may see it; ``folder`` is that of the study's file."""
    if not Path(path).is_absolute():
        return str(path)
    base = folder.absolute()
    try:
        common = Path(os.path.commonpath([base, path]))
    except ValueError:  # another drive
        return _short(path)
    return _short(path) if common == Path(common.anchor) else Path(os.path.relpath(path, base)).as_posix()


def shared_text(text: str) -> str:
    """Return the text of a study for a page, with absolute paths cut to their last name."""
    return _VALUE.sub(lambda match: _short(match[0]) if len(Path(match[0]).parts) > 2 else match[0], text)


def shortened(text: str) -> str:
    """Return a message with the absolute paths of this machine cut to their last two names."""

    def cut(match: re.Match[str]) -> str:
        path = Path(match[0])
        is_local = len(path.parts) > 2 and Path(*path.parts[:2]).exists()
        return _short(path, 2) if is_local else match[0]

    return _ABSOLUTE.sub(cut, text)


def _short(path: str | Path, names: int = 1) -> str:
    return SHORT + "/".join(Path(path).parts[-names:])


class ReporterError(Exception):
    """An expected failure. Its text is one sentence a user can act on; the command line prints it and exits 1."""


class UsageError(ReporterError):
    """The call or the study is wrong: nothing was computed or written, exit code 2."""


def one_line(text: str) -> str:
    """Return text with line breaks and other invisible characters written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def first_line(problem: BaseException) -> str:
    """Return the first line of an exception's message, or the name of its type where the message is empty."""
    return (str(problem).strip() or type(problem).__name__).splitlines()[0].strip()


def with_type(problem: BaseException) -> str:
    """Return the type and the message of an exception in one line; the type alone where there is no message."""
    return ": ".join(filter(None, (type(problem).__name__, " ".join(str(problem).split()))))


def suggest(wrong: str, names: Iterable[str]) -> str | None:
    """Return the known name that resembles ``wrong`` most, or else the only one that shares a word with it, or None.

    Of several that resemble it, those with the same beginning count more, as in Jaro and Winkler's measure.
    """
    by_folded, folded = {name.casefold(): name for name in names}, wrong.casefold()
    if close := get_close_matches(folded, list(by_folded), n=5, cutoff=0.6):

        def likeness(name: str) -> float:
            ratio = SequenceMatcher(None, name, folded).ratio()
            return ratio + sum(name[:n] == folded[:n] for n in range(1, 5)) * (1 - ratio) / 10

        return by_folded[max(close, key=likeness)]
    words = set(_WORD.findall(folded))
    sharing = [name for known, name in by_folded.items() if " " in known and words & set(_WORD.findall(known))]
    return sharing[0] if len(sharing) == 1 else None


_WORD = re.compile(r"\w{4,}")


MOST_NAMES = 30  # in a message


def hint(wrong: str, names: Sequence[str], otherwise: str) -> str:
    """Return the end of a message about an unknown name: the closest known name, or else all of them.

    Args:
        wrong: the unknown name.
        names: the known names.
        otherwise: introduces the list of all names, such as ``"metrics"``.
    """
    meant = suggest(wrong, names)
    if meant is not None:
        return f"; did you mean '{meant}'?"
    shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
    return f"; {otherwise}: {shown}" if names else ""


def no_results(database: Path) -> UsageError:
    """Return the error that a database does not exist."""
    return UsageError(
        f"{database} does not exist; run `reporter run STUDY` first, or name the results folder with --out"
    )


def no_study(study: str, place: Path, studies: Sequence[str]) -> UsageError:
    """Return the error that a database or a folder, ``place``, has no such study among the known ids."""
    ending = hint(study, studies, "studies there") or "; run the study first with `reporter run`"
    return UsageError(f"no study '{one_line(study)}' in {place}{ending}")


LONGEST_LINE = 2000
_LONGEST_WORD = 300


def bounded(text: str) -> str:
    """Return one line of an error with very long words cut, and without its middle where it is still too long."""
    if len(text) <= _LONGEST_WORD:
        return text
    text = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: f"{word[0][:60]}…{word[0][-20:]}", text)
    half = LONGEST_LINE // 2
    return text if len(text) <= LONGEST_LINE else f"{text[:half]} … {text[-half:]}"


_OUT_OF_MEMORY = {"OutOfMemoryError", "OutOfMemoryException"}  # of torch on a device, and of DuckDB
_MESSAGES = {
    RuntimeError: (
        "DefaultCPUAllocator: can't allocate memory",
        "bad_alloc",
        "can't start new thread",
        "CUDA error: out of memory",
        "CUBLAS_STATUS_ALLOC_FAILED",
        "CUSOLVER_STATUS_ALLOC_FAILED",
        "CUDNN_STATUS_ALLOC_FAILED",
        "MPS backend out of memory",
    ),
    ImportError: ("failed to map segment",),
}
"""How memory runs out without a class of its own. With 200 to 1,400 MiB of address space, none of 22 attempts to import
torch, fill tensors, decompose matrices or start threads ended in a MemoryError; 19 ended in one of these errors. The
libraries of CUDA that allocate beside torch, and MPS, raise one as well, or a subclass of it."""


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether the memory of host or device ran out, in this error or in one that caused it."""
    checked: set[int] = set()  # an error raised again while it was handled can be its own context
    while error is not None and id(error) not in checked:
        checked.add(id(error))
        if isinstance(error, MemoryError) or type(error).__name__ in _OUT_OF_MEMORY:
            return True
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            return True
        texts = (text for kind, of_kind in _MESSAGES.items() if isinstance(error, kind) for text in of_kind)
        if any(text in str(error) for text in texts):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def failures() -> tuple[type[BaseException], ...]:
    """Return the exceptions by which code of other people fails: ``except failures() as error``.

    A Rust library that panics raises a class that is no ``Exception`` and that no module exports; it exists from the
    first panic on, and each library has one. SystemExit is a failure too: a library or a plug-in must not end a run.
    Ctrl-C is none.
    """
    panics = (kind for kind in BaseException.__subclasses__() if kind.__name__ == "PanicException")
    return (Exception, SystemExit, *panics)


def as_exception(error: BaseException) -> Exception:
    """Return one of :func:`failures` as an ordinary exception, to be kept and raised again."""
    return error if isinstance(error, Exception) else ReporterError(library_error(error))


def library_error(error: BaseException) -> str:
    """Return the error of a library in one line, as part of a message that names what failed."""
    text = with_type(error)
    text = text if len(text) <= 300 else f"{text[:300].rsplit(' ', 1)[0]} …"
    return f"out of memory ({text})" if is_out_of_memory(error) else text


@contextmanager
def failing_as(what: str, kind: type[Exception] | None = None) -> Iterator[None]:
    """Raise a ``ReporterError`` that begins with ``what`` for an error of a library inside the block.

    Errors of reporter itself pass. Without a ``kind`` all :func:`failures` count. If it is ``OSError``, only the
    system's words follow: ``what`` names the file.
    """
    try:
        yield
    except ReporterError:
        raise
    except failures() as error:
        if kind is not None and not isinstance(error, kind):
            raise
        words = error.strerror if kind is OSError and isinstance(error, OSError) else None
        raise ReporterError(f"{what}: {words or library_error(error)}") from error


def describe(error: BaseException) -> str:
    """Return an error in one line, for the database; for an unexpected error with its place in the code."""
    if isinstance(error, ReporterError):
        return bounded(shortened(str(error)))
    frames = traceback.extract_tb(error.__traceback__)
    libraries = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platlib", "purelib"))
    ours = [frame for frame in frames if not frame.filename.startswith(libraries)] or frames
    where = f" ({Path(ours[-1].filename).name}:{ours[-1].lineno})" if ours else ""
    if is_out_of_memory(error):
        return f"out of memory{where}; rerun with more memory, or with a smaller `batch_tokens` or `sample`"
    return f"{shortened(with_type(error)[:500])}{where}"
