"""Windows over a long text: each of its tokens counts once, with the tokens before it as context.

The same as the strided perplexity of language models: a window after the first repeats tokens of the one before, which
the model reads and nobody counts. Every window is what the tokenizer would make of a text of its own: what it adds
before and after a text stands around each of them, and counts once, around the first and the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.errors import ReporterError

if TYPE_CHECKING:
    from reporter.spec.corpora import CorpusPart


@dataclass(frozen=True)
class Windows:
    """How a long text is read.

    Args:
        size: the most tokens that a model reads at once, what the tokenizer adds included.
        stride: how many of the text's own tokens a window begins after the one before it. Smaller ones leave each
            counted token more context, at least size − stride tokens of it, and take longer.
    """

    size: int
    stride: int

    @classmethod
    def of(cls, said: CorpusPart) -> Windows | None:
        """Return how a study has a corpus read; None where its texts are cut."""
        return None if said.window is None else cls(said.window, said.stride or max(1, said.window // 2))

    def within(self, longest: int | None) -> Windows:
        """Return windows that a model can read that takes at most so many tokens."""
        return self if longest is None or longest >= self.size else Windows(longest, min(self.stride, longest))


@dataclass(frozen=True, eq=False)
class Window:
    """One window of a text.

    Args:
        rows: which tokens of the text it holds, ascending, shape (tokens,).
        context: True for those that count elsewhere, shape (tokens,).
    """

    rows: NDArray[np.int64]
    context: NDArray[np.bool_]


def windows_of(special: NDArray[np.bool_], windows: Windows) -> Iterator[Window]:
    """Yield the windows of a text, so that each of its tokens counts in just one.

    Args:
        special: which tokens are not the text's own; the ones at its beginning and end stand around every window.
        windows: how it is read.

    Raises:
        ReporterError: if a window has no room for a token of the text's own.
    """
    length = len(special)
    own = np.flatnonzero(~special)
    if length <= windows.size or not len(own):
        yield Window(np.arange(length), np.zeros(length, dtype=bool))
        return
    before, after = np.arange(own[0]), np.arange(own[-1] + 1, length)
    body = np.arange(own[0], own[-1] + 1)
    room = windows.size - len(before) - len(after)
    if room < 1:
        raise ReporterError(
            f"a window of {windows.size} tokens has no room for a word: the tokenizer adds {len(before) + len(after)}"
        )
    stride, counted, start = min(windows.stride, room), 0, 0
    while counted < len(body):
        end = min(start + room, len(body))
        rows = np.concatenate([before, body[start:end], after])
        context = np.ones(len(rows), dtype=bool)
        context[len(before) + counted - start : len(before) + end - start] = False
        context[: len(before)] &= counted > 0
        context[len(rows) - len(after) :] &= end < len(body)
        yield Window(rows, context)
        counted, start = end, start + stride
