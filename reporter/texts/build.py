"""Builds the texts of a corpus once, and finds them again.

What was built is named by a key over everything that decides about it: what the study says, the bytes of the
source, the version of the generator. So an edited file is read again, and a study that only changes
``max_tokens`` is not.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from reporter.errors import ReporterError
from reporter.files import LONGEST_TEXT
from reporter.spec.corpora import CorpusPart
from reporter.texts.chat import require_role
from reporter.texts.filters import Filter
from reporter.texts.origin import Around, Origin, WholeWords, source_of
from reporter.texts.record import Record
from reporter.texts.texts import Texts, open_texts
from reporter.texts.thinning import WordsOf, thin
from reporter.texts.writer import TextsWriter

FORMAT = 1  # counts up whenever the same source would be read or filtered into other texts


def build_texts(
    name: str,
    spec: CorpusPart,
    folder: Path,
    cache: Path,
    whole_words: WholeWords | None = None,
    offline: bool = False,
    words_of: WordsOf | None = None,
) -> Texts:
    """Return the texts of a corpus, read, filtered and thinned, or found in the cache.

    Args:
        name: what the study calls the corpus.
        spec: what the study says of it.
        folder: the study's folder, from which relative paths start.
        cache: the folder of caches; the texts go to ``cache/texts/<key>/``.
        whole_words: gives the whole words of a model's tokenizer, for ``random-words`` with a ``vocabulary``.
        offline: never use the network.
        words_of: gives the words of another corpus, for one with ``size_of``.

    Raises:
        ReporterError: the source cannot be read, no text is left after the filters, or the corpus is too small for
            ``size_of``; the message names the corpus.
    """
    try:
        source = source_of(spec)
        try:
            origin = source.find(spec, Around(folder, offline, whole_words))
        except OSError as error:
            raise ReporterError(f"cannot read its source: {error.strerror or error}") from error
        place = cache / "texts" / _key(spec, origin.state, source.code)
        texts = open_texts(place, name, source.called, origin.location)
        if texts is None:
            shutil.rmtree(place, ignore_errors=True)  # only a damaged one can be there: renaming is atomic
            _write(place, spec, origin)
            texts = open_texts(place, name, source.called, origin.location)
        if texts is None:
            raise ReporterError(f"its texts in {place} are damaged; remove that folder")
        if (role := getattr(spec, "role", None)) is not None:
            require_role(texts, role)
        if spec.size_of is not None:
            if words_of is None:
                raise ReporterError(f"the words of corpus '{spec.size_of}' are not at hand")
            texts = thin(texts, spec.size_of, words_of(spec.size_of), cache)
        for used in {place, texts.folder}:
            with suppress(OSError):  # a cache that may only be read is still good to read
                os.utime(used)  # what was not used for longest leaves the cache first
        return texts
    except ReporterError as error:
        raise ReporterError(f"corpus '{name}': {error}") from error
    except OSError as error:
        raise ReporterError(
            f"corpus '{name}': cannot write its texts to {cache / 'texts'}: {error.strerror or error}"
        ) from error


def _write(place: Path, spec: CorpusPart, origin: Origin) -> None:
    kept = Filter(spec.min_words, spec.max_words)
    labelled = getattr(spec, "label", None) is not None
    only = getattr(spec, "only", None)
    with TextsWriter(place, labelled) as writer:
        for record in _records(origin):
            text = kept.keep(record.text, only is None or record.label in only)
            if text is None:
                continue
            if len(text[0]) > LONGEST_TEXT:
                raise ReporterError(
                    f"text {writer.texts + 1} of those kept has more than {LONGEST_TEXT:,} characters, which is no text"
                )
            writer.add(*text, label=record.label)
            if writer.texts == spec.limit:
                break
        if not writer.texts:
            raise ReporterError(f"no text is left of {origin.location}: {kept.explain()}")
        writer.finish(kept.dropped)


def _records(origin: Origin) -> Iterator[Record]:
    try:
        yield from origin.read()
    except OSError as error:  # told from one of writing, which does not happen in here
        raise ReporterError(f"cannot read {origin.location}: {error.strerror or error}") from error


def _key(spec: CorpusPart, state: str, code: str) -> str:
    # These cut tokens, name other corpora, and cut what is built here.
    others = {"max_tokens", "window", "stride", "role", "by", "size_of"}
    said: dict[str, Any] = spec.model_dump(mode="json", exclude=others)
    # What came later and is not said leaves the names of texts that were built before as they are.
    said = {key: value for key, value in said.items() if key not in ("only", "streaming", "chat") or value}
    everything = json.dumps([FORMAT, said, state, *([code] if code else [])], sort_keys=True)
    return hashlib.sha256(everything.encode("utf-8", errors="surrogatepass")).hexdigest()[:32]
