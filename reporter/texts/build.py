"""Builds the texts of a corpus once, filtered and thinned, and finds them again.

The folder of built texts is named by a hash of everything that decides about them: the keys of the study, the bytes
of the source, the version of the generator. So an edited file is read again, and a new ``max_tokens`` reads nothing.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reporter.core.checksums import write_note
from reporter.core.errors import ReporterError, failing_as, suggest
from reporter.core.files import LONGEST_TEXT
from reporter.study.corpora import ALIKE, CorpusPart
from reporter.study.part import Complaint
from reporter.study.problems import Location
from reporter.texts.chat import no_role, require_role
from reporter.texts.sources import Origin, SourceContext, WholeWords, source_of
from reporter.texts.tables import listed
from reporter.texts.texts import BLOB, CLUSTERS, LABELS, META, OFFSETS, Record, Texts, encoded, open_texts, texts_at

# Writes a folder of texts one text at a time: memory holds one text, and twelve bytes of each that was written.


MOST_LABELS = 10_000  # a label names a class; a column with more distinct values is something else


def _update(digest: hashlib._Hash, data: bytes | None) -> None:
    """Add a value with its length, so that ["ab", "c"] and ["a", "bc"] differ."""
    digest.update((-1 if data is None else len(data)).to_bytes(8, "little", signed=True))
    digest.update(data or b"")


class TextsWriter:
    """Writes texts into a new folder; use it in a ``with`` block and call ``finish`` at its end."""

    def __init__(self, folder: Path, labelled: bool, clustered: bool = False) -> None:
        self._folder = folder
        self._blob = (folder / BLOB).open("wb")
        self._offsets, self._labels = array("q", [0]), array("i") if labelled else None
        self._codes: dict[str, int] = {}
        self._clusters, self._firsts = array("q") if clustered else None, dict[str, int]()
        self._text_digest, self._label_digest = hashlib.sha256(), hashlib.sha256()
        self.texts = self.words = self.characters = self.without = 0

    def __enter__(self) -> TextsWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._blob.close()

    def add(self, text: str, words: int, label: str | None = None, cluster: str | None = None) -> None:
        """Append one text.

        Raises:
            ReporterError: the text is not valid Unicode, or there are more labels than classes can be.
        """
        data = encoded(text, f"text {self.texts + 1} of the kept texts")
        self._blob.write(data)
        self._offsets.append(self._offsets[-1] + len(data))
        _update(self._text_digest, data)
        if self._clusters is not None:
            self._clusters.append(self.texts if cluster is None else self._firsts.setdefault(cluster, self.texts))
            self.without += cluster is None
        self.texts += 1
        self.words += words
        self.characters += len(text)
        if self._labels is not None:
            # −1 stands for no label
            self._labels.append(-1 if label is None else self._codes.setdefault(label, len(self._codes)))
            _update(self._label_digest, None if label is None else label.encode("utf-8", errors="surrogatepass"))
            if len(self._codes) > MOST_LABELS:
                raise ReporterError(
                    f"the label column has more than {MOST_LABELS:,} different values; set `label` to a column with "
                    "few values"
                )

    def finish(self, dropped: int, thinned: int = 0, available: int | None = None) -> None:
        """Complete the files."""
        self._blob.close()
        np.save(self._folder / OFFSETS, np.asarray(self._offsets, dtype="<i8"))
        whole = self._text_digest
        if self._labels is not None:
            np.save(self._folder / LABELS, np.asarray(self._labels, dtype="<i4"))
            whole = hashlib.sha256()
            for digest in (self._text_digest, self._label_digest):
                _update(whole, digest.digest())
        if self._clusters is not None:
            clusters = np.asarray(self._clusters, dtype="<i8")
            np.save(self._folder / CLUSTERS, clusters)
            whole.update(b"clusters" + clusters.tobytes())
        meta = {
            "hash": whole.hexdigest(),
            "texts": self.texts,
            "bytes": self._offsets[-1],
            "words": self.words,
            "characters": self.characters,
            "dropped": dropped,
            "thinned": thinned,
            "without": self.without,
            "available": available,
            "labels": None if self._labels is None else list(self._codes),
        }
        write_note(self._folder / META, meta)


# Samples texts of a corpus to the size of another one, since some statistics depend on the size of a corpus.
#
# Texts are taken in the order of a hash of their content. So the sample is the same on every machine and in every
# study, it does not depend on the order of the corpus, and a larger sample contains every smaller one.


WordsOf = Callable[[str], int]

THINNED_FORMAT = 1  # counts up whenever the same texts would be thinned to others
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio


def thin(texts: Texts, other: str, words: int, cache: Path) -> Texts:
    """Return a sample of texts, in their order, with as many words as another corpus; the cache may have it.

    The number of words differs by less than one text. A corpus with at least 1 / 1.25 of the words stays whole, which
    counts as equal size.

    Raises:
        ReporterError: the corpus has too few words.
    """
    if words > ALIKE * texts.words:
        raise ReporterError(
            f"it has {texts.words:,} words, but corpus '{other}' of its `size_of` has {words:,}. Add texts, or move "
            f"the key: write `size_of: {texts.name}` for corpus '{other}'"
        )
    key = json.dumps([THINNED_FORMAT, texts.folder.name, words])
    place = cache / "texts" / hashlib.sha256(key.encode()).hexdigest()[:32]
    location = f"{texts.location}, sampled to the size of {other}"
    return _opened(place, texts.name, texts.source, location, lambda fresh: _write_thinned(fresh, texts, words))


def _opened(place: Path, name: str, source: str, location: str, write: Callable[[Path], None]) -> Texts:
    """Return the texts in a folder, which are written first where there are none."""
    texts = open_texts(texts_at(place).made(write, f"texts of corpus '{name}'"), name, source, location)
    if texts is None:
        raise ReporterError(f"its texts in {place} are damaged; delete this folder and run the same command again")
    return texts


def _write_thinned(folder: Path, texts: Texts, words: int) -> None:
    lengths = np.fromiter((len(text.split()) for text in texts), np.int64, len(texts))
    kept = _rows_with_words(_places(texts), lengths, words)
    with TextsWriter(folder, texts.labels is not None, texts.clusters is not None) as writer:
        for index in kept.tolist():
            cluster = None if texts.clusters is None else str(texts.clusters[index])
            writer.add(texts[index], int(lengths[index]), texts.label(index), cluster)
        writer.finish(texts.dropped, len(texts) - len(kept), texts.available)


def _places(texts: Texts) -> NDArray[np.uint64]:
    """Return where each text stands in the draw, shape (texts,): a number that its content decides.

    Each further copy of a text stands a golden section further on, around a circle: a hash alone would take all copies
    or none, and this takes their share.
    """
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    hashes = np.fromiter((int.from_bytes(digest[:8], "little") for digest in digests), np.uint64, len(texts))
    order = np.argsort(hashes, kind="stable")
    fresh = np.ones(len(order), bool)
    fresh[1:] = hashes[order][1:] != hashes[order][:-1]
    ranks = np.arange(len(order))
    copies = np.empty(len(order), np.uint64)
    copies[order] = ranks - np.maximum.accumulate(np.where(fresh, ranks, 0))
    return hashes + copies * _GOLDEN


def _rows_with_words(places: NDArray[np.uint64], lengths: NDArray[np.int64], words: int) -> NDArray[np.int64]:
    order = np.argsort(places, kind="stable")
    nearest = int(np.argmin(np.abs(np.cumsum(lengths[order]) - words)))
    return np.sort(order[: nearest + 1])


# Why a text is dropped, in the order of the checks: the words for it, the key that decides it, and the remedy.
_REASONS = {
    "missing or empty": ("", "add texts, or name another `column`"),
    "with fewer words than `min_words`": ("min_words", "lower `min_words`"),
    "with more words than `max_words`": ("max_words", "raise `max_words`"),
    "with other labels": ("only", "change `only`"),
}
MOST_COUNTED = 100_000  # texts beyond `limit`
FORMAT = 2  # counts up whenever the same source would be read or filtered into other texts


def build_texts(
    name: str,
    spec: CorpusPart,
    folder: Path,
    cache: Path,
    whole_words: WholeWords | None = None,
    offline: bool = False,
    words_of: WordsOf | None = None,
    beyond: bool = True,
) -> Texts:
    """Return the texts of a corpus, read, filtered and thinned, or found in the cache.

    Args:
        name: of the corpus.
        spec: what the study says of it.
        folder: of the study.
        cache: where texts are kept.
        whole_words: see ``SourceContext``.
        offline: never use the network.
        words_of: gives the number of words of another corpus.
        beyond: whether texts beyond ``limit`` are counted.

    Raises:
        ReporterError: the source cannot be read, no text is left after the filters, or the corpus is too small for
            ``size_of``; the message names the corpus.
    """
    try:
        source = source_of(spec)
        with failing_as("cannot read the source of its texts", OSError):
            origin = source.find(spec, SourceContext(folder, offline, whole_words))
        place = cache / "texts" / _key(spec, origin.state, source.code)
        with failing_as(f"cannot write its texts to {cache / 'texts'}", OSError):
            write = partial(_write, spec, origin, beyond)
            texts = _opened(place, name, source.called, origin.location, write)
            if (role := getattr(spec, "role", None)) is not None:
                require_role(texts, role)
            if spec.size_of is not None:
                if words_of is None:
                    raise ReporterError(f"the size of corpus '{spec.size_of}' is unknown here; remove `size_of`")
                texts = thin(texts, spec.size_of, words_of(spec.size_of), cache)
        return texts
    except ReporterError as error:
        raise ReporterError(f"corpus '{name}': {error}") from error


class _Filter:
    """Decides which texts a corpus keeps: ``min_words`` to ``max_words`` words, and a label of ``only``.

    A word is what stands between white space. Surrounding white space is cut off; nothing else is changed.

    Args:
        spec: the corpus.
        wanted: labels that some text must have, with the place of each in the study.
    """

    def __init__(self, spec: CorpusPart, wanted: Mapping[str, Location]) -> None:
        self._spec, self._wanted = spec, wanted
        self._only: Collection[str] | None = getattr(spec, "only", None)
        self._labels: dict[str, None] = {}
        self.dropped: Counter[str] = Counter()
        self.kept = 0

    def keeps(self, record: Record, words: int) -> bool:
        """Count a text of so many words, and return whether it is kept."""
        if record.label is not None:
            self._labels[record.label] = None
        failed = self._failed(record, words)
        if any(failed):
            self.dropped[list(_REASONS)[failed.index(True)]] += 1
            return False
        self.kept += 1
        return True

    def _failed(self, record: Record, words: int) -> tuple[bool, ...]:
        too_long = self._spec.max_words is not None and words > self._spec.max_words
        other_label = self._only is not None and record.label not in self._only
        return words == 0, words < self._spec.min_words, too_long, other_label

    def passing(self, records: Iterator[Record]) -> int | None:
        """Return how many further texts pass the filters, of at most ``MOST_COUNTED``; None where one is malformed."""
        with suppress(ReporterError):
            texts = ((record, len((record.text or "").split())) for record in islice(records, MOST_COUNTED))
            return sum(not any(self._failed(record, words)) for record, words in texts)
        return None

    @property
    def is_full(self) -> bool:
        """Whether ``limit`` is reached."""
        return self.kept == self._spec.limit

    @property
    def is_certain(self) -> bool:
        """Whether some text is kept and every wanted label was found."""
        return self.kept > 0 and self._wanted.keys() <= self._labels.keys()

    def complaints(self, location: str) -> Iterator[Complaint]:
        """Yield, once all texts of a source were read, the labels that no text has, and why no text is left.

        Args:
            location: the source in words.
        """
        lacking = {} if self.is_full else {x: at for x, at in self._wanted.items() if x not in self._labels}
        for label, at in lacking.items():
            meant = suggest(label, self._labels)
            ending = f"did you mean '{meant}'?" if meant else f"labels: {listed(sorted(self._labels))}"
            yield Complaint(f"no text of {location} has the label '{label}'; {ending}", at)
        if self.kept or lacking:
            return
        if not self.dropped:
            yield Complaint(f"{location} has no texts; add some, or name another source")
            return
        limits = {
            key: f" ({getattr(self._spec, key):,})" for key in ("min_words", "max_words") if getattr(self._spec, key)
        }
        reasons = ", ".join(
            f"{self.dropped[reason]:,} {reason}{limits.get(key, '')}"
            for reason, (key, _) in _REASONS.items()
            if self.dropped[reason]
        )
        key, remedy = _REASONS[max(self.dropped, key=lambda reason: self.dropped[reason])]
        yield Complaint(f"no text of {location} passes the filters: {reasons}; {remedy}", (key,) if key else ())


def _write(spec: CorpusPart, origin: Origin, beyond: bool, folder: Path) -> None:
    """Write the texts that pass the filters of a corpus.

    Raises:
        ReporterError: no text passes, or a label of ``only`` is missing.
    """
    chosen = _Filter(spec, dict.fromkeys(getattr(spec, "only", None) or (), ("only",)))
    with TextsWriter(folder, *(getattr(spec, key, None) is not None for key in ("label", "cluster"))) as writer:
        records = _records(origin)
        for record in records:
            text = (record.text or "").strip()
            words = len(text.split())
            if not chosen.keeps(record, words):
                continue
            if len(text) > LONGEST_TEXT:
                raise ReporterError(
                    f"text {writer.texts + 1} of the kept texts has more than {LONGEST_TEXT:,} characters; split it"
                )
            writer.add(text, words, record.label, record.cluster)
            if chosen.is_full:
                break
        for complaint in chosen.complaints(origin.location):
            raise ReporterError(complaint.message)
        further = chosen.passing(records) if origin.is_quick and beyond else None
        writer.finish(chosen.dropped.total(), available=None if further is None else writer.texts + further)


def unfit(spec: CorpusPart, origin: Origin, fewest: int) -> Iterator[Complaint]:
    """Yield why a corpus cannot be built as the study says, after reading as few texts as that takes.

    Args:
        spec: the corpus.
        origin: its source.
        fewest: how many texts are read in any case, to find an error in the file.

    Raises:
        ReporterError: the source cannot be read.
    """
    is_chat = getattr(spec, "chat", False)
    only, by, role = (getattr(spec, key, None) or () for key in ("only", "by", "role"))
    places_of_by: dict[str, Location] = {name: ("by", index) for index, name in enumerate(by)}
    labels: dict[str, Location] = {} if is_chat else places_of_by
    labels |= {label: ("only", index) for index, label in enumerate(only)}
    roles: dict[str, Location] = {}
    if is_chat:
        roles = places_of_by | ({role: ("role",)} if role else {})
    # The corpus of each label has the limit, so that all texts of this one are read.
    chosen = _Filter(spec.model_copy(update={"limit": None}) if by else spec, labels)
    roles_read: set[str] = set()
    for number, record in enumerate(_records(origin), 1):
        text = (record.text or "").strip()
        chosen.keeps(record, len(text.split()))
        if is_chat and text:
            roles_read.update(turn["role"] for turn in json.loads(text))
        if chosen.is_full or (number >= fewest and chosen.is_certain and roles.keys() <= roles_read):
            break
    yield from chosen.complaints(origin.location)
    for name, place in roles.items():
        if name not in roles_read:
            yield Complaint(no_role(name, roles_read), place)


def _records(origin: Origin) -> Iterator[Record]:
    with failing_as(f"cannot read {origin.location}", OSError):  # told from writing, which does not happen in here
        yield from origin.read()


def _key(spec: CorpusPart, state: str, code: str) -> str:
    # These cut tokens, name other corpora, and cut what is built here.
    not_part = {"max_tokens", "window", "stride", "role", "date", "by", "size_of"}
    settings: dict[str, Any] = spec.model_dump(mode="json", exclude=not_part)
    # What came later and is not said leaves the names of texts that were built before as they are.
    settings = {
        key: value
        for key, value in settings.items()
        if key not in ("only", "streaming", "chat", "cluster", "table") or value
    }
    everything = json.dumps([FORMAT, settings, state, *([code] if code else [])], sort_keys=True)
    return hashlib.sha256(everything.encode("utf-8", errors="surrogatepass")).hexdigest()[:32]
