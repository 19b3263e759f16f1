"""Writes a folder of texts one text at a time: memory holds one text and small buffers, whatever the corpus.

A folder is filled under a temporary name and renamed when finished, so that a killed build never looks
finished.
"""

from __future__ import annotations

import hashlib
from array import array
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np

from reporter.errors import ReporterError
from reporter.locks import workplace
from reporter.seals import seal, write_note
from reporter.texts.texts import BLOB, LABELS, META, OFFSETS

MOST_LABELS = 10_000  # a label names a class; a column with more distinct values is something else

_NO_LABEL = -1
_BUFFERED = 16 * 1024


class _Column:
    """A one-dimensional .npy file that grows: its header is written again at the end with the true length."""

    def __init__(self, path: Path, typecode: str, dtype: str) -> None:
        self._file: BinaryIO = path.open("wb")
        self._buffer = array(typecode)
        self._dtype = np.dtype(dtype)
        self._length = 0
        self._header()

    def append(self, value: int) -> None:
        self._buffer.append(value)
        self._length += 1
        if len(self._buffer) >= _BUFFERED:
            self._flush()

    def finish(self) -> None:
        self._flush()
        self._file.seek(0)
        self._header()
        self.close()

    def close(self) -> None:
        self._file.close()

    def _flush(self) -> None:
        np.asarray(self._buffer, dtype=self._dtype).tofile(self._file)
        self._file.flush()
        del self._buffer[:]

    def _header(self) -> None:
        # NumPy pads this header so that a longer shape fits into the same bytes (GROWTH_AXIS_MAX_DIGITS).
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, header)


class _Digest:
    """SHA-256 over length-prefixed values, so that ["ab", "c"] and ["a", "bc"] differ."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, data: bytes | None) -> None:
        length = -1 if data is None else len(data)
        self._sha.update(length.to_bytes(8, "little", signed=True))
        self._sha.update(data or b"")

    def bytes(self) -> bytes:
        return self._sha.digest()

    def hex(self) -> str:
        return self._sha.hexdigest()


class TextsWriter:
    """Writes texts into ``folder``; use it in a ``with`` block and call ``finish`` at its end.

    Leaving the block without ``finish`` (an exception, Ctrl-C) removes what was written.

    Args:
        folder: the finished folder's path; its parents are made.
        labelled: whether the texts have labels.
    """

    def __init__(self, folder: Path, labelled: bool) -> None:
        self._folder = folder
        self._exit = ExitStack()
        self._temporary = self._exit.enter_context(workplace(folder.parent))
        self._blob: BinaryIO = (self._temporary / BLOB).open("wb")
        self._offsets = _Column(self._temporary / OFFSETS, "q", "<i8")
        self._offsets.append(0)
        self._labels = _Column(self._temporary / LABELS, "i", "<i4") if labelled else None
        self._codes: dict[str, int] = {}
        self._text_digest, self._label_digest = _Digest(), _Digest()
        self.texts = self.words = self.characters = self._bytes = 0

    def __enter__(self) -> TextsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        self._exit.close()

    def add(self, text: str, words: int, label: str | None = None) -> None:
        """Append one text.

        Args:
            text: the text, not empty.
            words: its number of words.
            label: its label; only where the corpus has labels.

        Raises:
            ReporterError: the text is not valid Unicode, or there are more labels than classes can be.
        """
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"U+{ord(text[error.start]):04X}"
            raise ReporterError(
                f"text {self.texts + 1} of those kept holds half a character ({half}, a lone surrogate) "
                f"at position {error.start}; repair it at its source"
            ) from error
        self._blob.write(data)
        self._bytes += len(data)
        self._offsets.append(self._bytes)
        self._text_digest.add(data)
        self.texts += 1
        self.words += words
        self.characters += len(text)
        if self._labels is not None:
            self._add_label(self._labels, label)

    def finish(self, dropped: int, thinned: int = 0) -> None:
        """Complete the files and name the folder; one that another process finished first is kept.

        Args:
            dropped: texts that the filters dropped.
            thinned: texts that were left out to have no more words than another corpus.
        """
        self._offsets.finish()
        if self._labels is not None:
            self._labels.finish()
        self._close()
        meta = {
            "hash": self._hash(),
            "texts": self.texts,
            "bytes": self._bytes,
            "words": self.words,
            "characters": self.characters,
            "dropped": dropped,
            "thinned": thinned,
            "labels": None if self._labels is None else list(self._codes),
        }
        write_note(self._temporary / META, meta)
        seal(self._temporary)
        try:
            self._temporary.replace(self._folder)
        except OSError:
            if not (self._folder / META).exists():
                raise

    def _add_label(self, column: _Column, label: str | None) -> None:
        if label is None:
            column.append(_NO_LABEL)
            self._label_digest.add(None)
            return
        column.append(self._codes.setdefault(label, len(self._codes)))
        self._label_digest.add(label.encode("utf-8", errors="surrogatepass"))
        if len(self._codes) > MOST_LABELS:
            raise ReporterError(
                f"the label column holds more than {MOST_LABELS} different values; a label names a class, "
                "so name another column under 'label'"
            )

    def _hash(self) -> str:
        if self._labels is None:
            return self._text_digest.hex()
        both = _Digest()
        both.add(self._text_digest.bytes())
        both.add(self._label_digest.bytes())
        return both.hex()

    def _close(self) -> None:
        self._blob.close()
        self._offsets.close()
        if self._labels is not None:
            self._labels.close()
