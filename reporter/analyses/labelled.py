"""Which texts or words a probe reads, and their classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.analyses.samples import readable, stream

if TYPE_CHECKING:
    from reporter.analyses.analysis import Context, Corpus

_AT_ONCE = 512


@dataclass(frozen=True)
class Labelled:
    """Texts with their classes.

    Args:
        texts: each one once.
        y: class of each, a place in ``names``, (n,).
        names: of the classes, each with enough texts.
        max_tokens: where texts are cut; the model's own limit if None.
    """

    texts: list[str]
    y: NDArray[np.int64]
    names: list[str]
    max_tokens: int | None


def of_corpus(corpus: Corpus, size: int, fewest: int, context: Context) -> Labelled:
    """Return at most ``size`` distinct texts that have a label, as evenly from the classes as these allow.

    Texts without a token, and classes of fewer than ``fewest`` texts, are left out.

    Args:
        corpus: with labels.
        size: how many texts at most.
        fewest: texts that a class needs.
        context: seed and tokenizer.
    """
    texts, codes = corpus.texts, corpus.texts.label_codes
    names = corpus.texts.labels or ()
    rows = {
        name: stream(context.seed, "labelled texts", name).permutation(np.flatnonzero(np.asarray(codes) == code))
        for code, name in enumerate(names)
    }
    taken: set[str] = set()
    found: dict[str, list[str]] = {}
    for name, quota in quotas({name: len(of) for name, of in rows.items()}, size).items():
        own: list[str] = []
        for start in range(0, len(rows[name]), _AT_ONCE):
            if len(own) >= quota:
                break
            batch = [texts[row] for row in rows[name][start : start + _AT_ONCE].tolist()]
            new = [text for text in dict.fromkeys(readable(batch, context)) if text not in taken]
            own += new
            taken |= set(new)
        found[name] = own[:quota]
    return _together(found, fewest, corpus.max_tokens)


def of_words(words: Mapping[str, Sequence[str]], size: int, fewest: int, context: Context) -> Labelled:
    """Return at most ``size`` words, as evenly from the classes as these allow; see ``of_corpus``.

    Args:
        words: by class; none is in two.
        size: how many at most.
        fewest: words that a class needs.
        context: seed and tokenizer.
    """
    found: dict[str, list[str]] = {}
    known = {name: readable(list(dict.fromkeys(of)), context) for name, of in words.items()}
    for name, quota in quotas({name: len(of) for name, of in known.items()}, size).items():
        order = stream(context.seed, "words", name).permutation(len(known[name]))[:quota]
        found[name] = [known[name][row] for row in np.sort(order).tolist()]
    return _together(found, fewest, None)


def quotas(counts: Mapping[str, int], size: int) -> dict[str, int]:
    """Return how many to take from each class: the same from all, but what a small one lacks the others give.

    Args:
        counts: what each class has.
        size: what is wanted of all together.
    """
    found, left = {}, size
    for place, name in enumerate(sorted(counts, key=lambda one: (counts[one], one))):
        found[name] = min(counts[name], left // (len(counts) - place))
        left -= found[name]
    return {name: found[name] for name in counts}


def _together(found: Mapping[str, list[str]], fewest: int, max_tokens: int | None) -> Labelled:
    kept = {name: texts for name, texts in found.items() if len(texts) >= fewest}
    y = np.repeat(np.arange(len(kept)), [len(texts) for texts in kept.values()])
    return Labelled([text for texts in kept.values() for text in texts], y, list(kept), max_tokens)
