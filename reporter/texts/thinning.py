"""Thins a corpus to the size of another one, so that what moves with the size of a corpus can be compared.

Texts are taken in the order of a hash of their content. So the draw is the same on every machine and in every study, it
does not hang on how the corpus is sorted, and of two sizes the smaller draw lies within the larger one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reporter.errors import ReporterError
from reporter.spec.corpora import ALIKE
from reporter.texts.texts import Texts, open_texts
from reporter.texts.writer import TextsWriter

WordsOf = Callable[[str], int]

FORMAT = 1  # counts up whenever the same texts would be thinned to others
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio


def thin(texts: Texts, other: str, words: int, cache: Path) -> Texts:
    """Return as many of the texts, in their order, as have the words of another corpus, or as find them in the cache.

    The number of words is the nearest that can be had in the order of the hash, so it lies within one text of what is
    wanted. A corpus that has fewer words, but no less than 1 / 1.25 of them, stays whole: that counts as equal size.

    Args:
        texts: the whole corpus.
        other: name of the corpus whose size it gets.
        words: words of that corpus.
        cache: the folder of caches; the texts go to ``cache/texts/<key>/``.

    Raises:
        ReporterError: the corpus has too few words.
    """
    if words > ALIKE * texts.words:
        raise ReporterError(
            f"it has {texts.words:,} words and cannot get the size of corpus '{other}', which has {words:,}: leave out "
            f"`size_of: {other}` here, and give corpus '{other}' the key `size_of: {texts.name}`, or more texts to this"
        )
    key = json.dumps([FORMAT, texts.folder.name, words])
    place = cache / "texts" / hashlib.sha256(key.encode()).hexdigest()[:32]
    location = f"{texts.location}, thinned to the size of {other}"
    found = open_texts(place, texts.name, texts.source, location)
    if found is None:
        shutil.rmtree(place, ignore_errors=True)  # only a damaged one can be there: renaming is atomic
        _write(place, texts, words)
        found = open_texts(place, texts.name, texts.source, location)
    if found is None:
        raise ReporterError(f"its texts in {place} are damaged; remove that folder")
    return found


def _write(place: Path, texts: Texts, words: int) -> None:
    lengths = np.fromiter((len(text.split()) for text in texts), np.int64, len(texts))
    kept = _drawn(_places(texts), lengths, words)
    with TextsWriter(place, texts.labels is not None) as writer:
        for index in kept.tolist():
            writer.add(texts[index], int(lengths[index]), label=texts.label(index))
        writer.finish(texts.dropped, len(texts) - len(kept))


def _places(texts: Texts) -> NDArray[np.uint64]:
    """Return where each text stands in the draw, shape (texts,): a number that its content decides.

    Each further copy of a text stands a golden section further on, around a circle: a hash alone would take all copies
    or none, and this takes their share.
    """
    hashes = np.fromiter((_hash(text) for text in texts), np.uint64, len(texts))
    order = np.argsort(hashes, kind="stable")
    fresh = np.ones(len(order), bool)
    fresh[1:] = hashes[order][1:] != hashes[order][:-1]
    ranks = np.arange(len(order))
    copies = np.empty(len(order), np.uint64)
    copies[order] = ranks - np.maximum.accumulate(np.where(fresh, ranks, 0))
    return hashes + copies * _GOLDEN


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _drawn(places: NDArray[np.uint64], lengths: NDArray[np.int64], words: int) -> NDArray[np.int64]:
    """Return which texts are kept, in their order: the first of the draw whose words come nearest to those wanted."""
    order = np.argsort(places, kind="stable")
    nearest = int(np.argmin(np.abs(np.cumsum(lengths[order]) - words)))
    return np.sort(order[: nearest + 1])
