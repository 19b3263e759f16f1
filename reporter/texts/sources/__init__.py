"""Sources of texts: each module has the keys of one kind of corpus, and finds and reads its texts."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from reporter.core.errors import ReporterError, failing_as
from reporter.core.imports import Registry, code_of
from reporter.study.corpora import CorpusPart
from reporter.texts.texts import Record

# Where a corpus comes from: the sources of texts, each with its key in a study and how its texts are found and read.
#
# A source is a module of ``reporter.texts.sources``, a module that an installed package names under the entry point
# ``reporter.sources``, or a function in a study's ``plugins``.


WholeWords = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class SourceContext:
    """The input of a source besides its keys in the study.

    Args:
        folder: the study's folder, from which relative paths start.
        offline: never use the network.
        words_of: gives the whole words of a model's tokenizer, by the model's name; None where there are no models.
    """

    folder: Path
    offline: bool = False
    words_of: WholeWords | None = None


@dataclass(frozen=True)
class Origin:
    """The source of a corpus, before anything is read.

    Args:
        location: as a person would name it.
        state: what decides about the texts besides the spec: bytes of files, a generator's version and words.
        read: starts reading.
        is_quick: whether texts beyond ``limit`` can be counted without asking the network.
    """

    location: str
    state: str
    read: Callable[[], Iterator[Record]]
    is_quick: bool = True


Find = Callable[[Any, SourceContext], Origin]


@dataclass(frozen=True)
class CorpusSource:
    """A source of texts.

    Args:
        key: the key of a corpus that tells that its texts come from here.
        form: what a study says of such a corpus.
        called: what it is called in the table ``corpora``.
        find: the decorated function: given what the study says, finds where the texts come from. It reads files only
            to hash them, and raises ``ReporterError`` where one is missing or the study says what does not fit.
        code: hash of the file that defines it, so that texts are read again when it was edited; empty for those of
            reporter.
    """

    key: str
    form: type[CorpusPart]
    called: str
    find: Find
    code: str = ""


SOURCES: Registry[CorpusSource] = Registry("source of texts", "sources", "reporter.texts.sources")

Function = TypeVar("Function", bound=Callable[..., Origin])


def corpus_source(key: str, form: type[CorpusPart], called: str = "") -> Callable[[Function], Function]:
    """Register the decorated function as a source of texts.

    Args:
        key: one of the form's keys, which a study cannot leave out; it tells a corpus from here from all others.
        form: what a study says of such a corpus.
        called: what the source is called in the table ``corpora``; the key if left out.

    Raises:
        ReporterError: if the form has no such key, or another module has a source with it.
    """
    if key not in form.model_fields or not form.model_fields[key].is_required():
        raise ReporterError(
            f"'{key}' must be a required key of {form.__name__}, since it identifies the source of a corpus"
        )

    def register(find: Function) -> Function:
        SOURCES.add(key, CorpusSource(key, form, called or key, find, code_of(find)), find)
        return find

    return register


def source_of(corpus: CorpusPart) -> CorpusSource:
    """Return the source of a corpus."""
    return next(source for source in SOURCES.all().values() if type(corpus) is source.form)


def digest(parts: Iterable[str]) -> str:
    """Return a hash over texts in order; ['ab'] and ['a', 'b'] have different hashes."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", errors="surrogatepass")
        sha.update(len(data).to_bytes(8, "little"))
        sha.update(data)
    return sha.hexdigest()


def file_hash(path: Path) -> str:
    """Return a hash of a file's bytes; raise ``ReporterError`` if it cannot be read."""
    with failing_as(f"cannot read {path}", OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
