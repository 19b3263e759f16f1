"""The texts of one corpus, on disk and memory-mapped: a corpus of any size costs no memory until it is read.

A folder of texts holds ``texts.bin`` (all texts in UTF-8, one after the other), ``offsets.npy`` (int64, where
each one begins, and the end of the last), ``labels.npy`` (int32 places in the list of label names, -1 for
none; only where there are labels), ``clusters.npy`` (int64; only where there are clusters) and ``meta.json``.
Offsets rather than separators, because a text may hold any character.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reporter.core.errors import ReporterError
from reporter.core.files import found_intact, read_note

# What a source of texts yields: one text as it was found, before any filter.


class Record(NamedTuple):
    """One text as its source holds it.

    Args:
        text: the text, or None where the source has none (an SQL NULL, a JSON null, a missing key).
        label: its label as text, or None where it has none.
        cluster: its author, document or thread; None where it has none, and is a cluster of its own.
    """

    text: str | None
    label: str | None = None
    cluster: str | None = None


def encoded(text: str, what: str) -> bytes:
    """Return a text in UTF-8.

    Args:
        text: any string.
        what: where and what it is, for messages.

    Raises:
        ReporterError: it is not valid Unicode, as JSON may be.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X}"
        raise ReporterError(
            f"{what} has half of a character ({half}, a lone surrogate) at position {error.start}; correct it in the "
            "source"
        ) from error


# Equal texts: they are one observation, however often a corpus repeats them.


def originals(contents: Iterable[bytes]) -> NDArray[np.int64]:
    """Return for each text the index of the first text with the same content, shape (texts,).

    Contents (what a model reads, or what a text says) are compared by 64-bit hashes, so that memory holds 8 bytes of
    each text.
    """
    hashes = (hashlib.blake2b(content, digest_size=8).digest() for content in contents)
    keys = np.fromiter((int.from_bytes(key, "little") for key in hashes), dtype=np.uint64)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first[which].astype(np.int64)


BLOB, OFFSETS, LABELS, CLUSTERS, META = "texts.bin", "offsets.npy", "labels.npy", "clusters.npy", "meta.json"
_AT_ONCE = 1024  # texts read in one go while iterating
FEWEST_CLUSTERS = 20


@dataclass(frozen=True)
class Texts:
    """The texts of one corpus, in order; ``len``, index, ``slice`` and iteration read them from disk.

    Args:
        name: the name of the corpus in the study.
        source: which source of texts they came from.
        location: the source in words: a path, a dataset and its split, a generator and its seed.
        hash: SHA-256 over the texts in order (and over labels and clusters, where there are any); it does not depend
            on the kind of source, so the same texts from a CSV and from Parquet have the same hash.
        words: words separated by white space, over all texts.
        characters: Unicode code points, over all texts.
        dropped: texts that were read and not kept: missing, empty, too short or too long. Texts after
            ``limit`` were never read and are not counted.
        thinned: texts that passed and were left out by ``size_of``.
        available: texts of the source that pass the filters, of which ``limit`` may leave some out; None if unknown.
        without: texts without a cluster, of a corpus that has clusters.
        labels: the distinct labels in order of first appearance, or None where the corpus has none.
        folder: where the files are.
    """

    name: str
    source: str
    location: str
    hash: str
    words: int
    characters: int
    dropped: int
    thinned: int
    available: int | None
    without: int
    labels: tuple[str, ...] | None
    folder: Path

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> str:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"text {index} of {len(self)}")
        start, stop = self._offsets[place : place + 2].tolist()
        return bytes(self._blob[start:stop]).decode("utf-8")

    def slice(self, start: int, stop: int) -> list[str]:
        """Read texts ``start`` to ``stop`` (exclusive) in one go; an end beyond the last text stops there."""
        bounds = self._offsets[start : stop + 1].tolist()
        if len(bounds) < 2:
            return []
        first = bounds[0]
        data = bytes(self._blob[first : bounds[-1]])
        return [data[a - first : b - first].decode("utf-8") for a, b in pairwise(bounds)]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self.slice(start, start + _AT_ONCE)

    def lengths(self) -> Iterator[int]:
        """Yield each text's length in bytes of UTF-8, without reading the texts."""
        for start in range(0, len(self), _AT_ONCE):
            yield from np.diff(self._offsets[start : start + _AT_ONCE + 1]).tolist()

    def label(self, index: int) -> str | None:
        """Return the label of one text: None where it has none, or where the corpus has no labels."""
        if self.labels is None or self.label_codes is None:
            return None
        code = int(self.label_codes[index])
        return None if code < 0 else self.labels[code]

    @cached_property
    def label_codes(self) -> NDArray[np.int32] | None:
        """Places in ``labels``, -1 for no label, shape (texts,); None where the corpus has no labels."""
        return None if self.labels is None else np.load(self.folder / LABELS, mmap_mode="r")

    @cached_property
    def clusters(self) -> NDArray[np.int64] | None:
        """For each text the place of the first one of its cluster, shape (texts,); None where the corpus has none."""
        path = self.folder / CLUSTERS
        return np.load(path, mmap_mode="r") if path.exists() else None

    @property
    def units(self) -> int:
        """How many units intervals are over: clusters, or texts."""
        return len(self) if self.clusters is None else len(np.unique(self.clusters))

    @property
    def warning(self) -> str:
        """A warning of few clusters; empty where there are enough, or none."""
        few = self.clusters is not None and self.units < FEWEST_CLUSTERS
        less = f"intervals and tests over fewer than {FEWEST_CLUSTERS} clusters may be too narrow"
        return few * f"corpus '{self.name}' has {self.units} clusters; {less}: add texts of others"

    def holding(self, units: int) -> int:
        """Return how many texts from the first one on hold so many units, or all of them."""
        firsts = np.arange(len(self)) if self.clusters is None else np.unique(self.clusters)
        return int(firsts[min(units, len(firsts)) - 1]) + 1

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        offsets: NDArray[np.int64] = np.load(self.folder / OFFSETS, mmap_mode="r")
        return offsets

    @cached_property
    def _blob(self) -> NDArray[np.uint8]:
        return np.memmap(self.folder / BLOB, dtype=np.uint8, mode="r")


def open_texts(folder: Path, name: str, source: str, location: str) -> Texts | None:
    """Open a finished folder of texts, or return None where there is none; a damaged one is set aside.

    The files are mapped at once, so that the texts stay readable should the folder be removed from the cache
    meanwhile.
    """
    if not found_intact(folder, "its texts are read again"):
        return None
    try:
        meta = {"thinned": 0, "without": 0, "available": None} | (read_note(folder / META) or {})
        labels = None if meta["labels"] is None else tuple(meta["labels"])
        facts = {
            key: meta[key] for key in ("hash", "words", "characters", "dropped", "thinned", "available", "without")
        }
        texts = Texts(name, source, location, labels=labels, folder=folder, **facts)
        whole = len(texts) == meta["texts"] > 0 and len(texts._blob) == meta["bytes"]
        labelled = all(x is None or len(x) == meta["texts"] for x in (texts.label_codes, texts.clusters))
    except (OSError, ValueError, KeyError):
        return None
    return texts if whole and labelled else None
