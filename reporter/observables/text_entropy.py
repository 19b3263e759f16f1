"""Entropy of the spectrum of a text's states, for a bounded number of texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.contexts import key_of
from reporter.forward.places import Layout, Place
from reporter.forward.strata import VIEWS
from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.entropy import FEWEST, FORMS, entropies_of
from reporter.observables.bootstrap import poisson_weights
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting
    from reporter.observables.observed import Observed

_NUMBERS = 2**24  # float64 numbers held at once


class TextEntropy(Observable):
    """−Σ p log p of each measured text, place and view, p = λ/Σλ, λ the eigenvalues of a Gram matrix in three forms.

    A text is measured if a hash of its place in the corpus, taken as a number from 0 to 1, is below ``wanted``/``of``,
    so that about ``wanted`` texts are, the same ones however a corpus is split, and those of a smaller number are
    among those of a larger one. For each it keeps ``originals`` (): the place of the first text of the corpus with the
    same content; ``lengths`` (V,): tokens in each view; and ``entropies`` (P, V, F), F the ``FORMS``: NaN for fewer
    than three tokens and for states that are all equal.

    Args:
        layout: the places that are read.
        seed: the study's seed: another one measures other texts.
        wanted: texts to measure.
        of: texts of the corpus.
    """

    name = "text_entropy"
    version = 2
    bounded = "at least"
    tells_views = True

    def __init__(self, layout: Layout, seed: int, wanted: int, of: int) -> None:
        self.layout, self.seed, self.wanted, self.of = layout, seed, wanted, of
        self.texts: Ints = np.zeros(0, dtype=np.int64)
        self.originals: Ints = self.texts
        self.lengths: Ints = np.zeros((0, len(VIEWS)), dtype=np.int64)
        self.entropies: Floats = np.zeros((0, len(layout.places), len(VIEWS), len(FORMS)))
        self._texts: Ints = np.zeros(0, dtype=np.int64)
        self._rows: list[Ints] = []  # of each text to measure in the batch, shortest first
        self._views: list[NDArray[np.bool_]] = []  # which of them belong to each view, shape (V, tokens)
        self._order: Ints = self.texts
        self._of_places: list[Floats] = []

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing; ``setting.size`` is the number of texts to measure."""
        return cls(setting.layout, setting.seed, setting.size, setting.texts)

    def start(self, batch: HiddenBatch) -> None:
        """Find the rows of each measured text in each view."""
        texts, first = np.unique(batch.texts, return_index=True)
        chosen = measured(texts, self.seed, self.wanted, self.of)
        self._texts = texts[chosen]
        self.originals = np.concatenate([self.originals, batch.originals[first[chosen]]])
        self._of_places = []
        rows = [np.flatnonzero(batch.texts == text) for text in self._texts]
        self._order = np.argsort([len(of_text) for of_text in rows], kind="stable")
        self._rows = [rows[i] for i in self._order]
        self._views = [
            np.stack([np.isin(batch.strata[of_text], strata) for strata in VIEWS.values()]) for of_text in self._rows
        ]
        lengths = np.zeros((len(rows), len(VIEWS)), dtype=np.int64)
        for i, views in zip(self._order, self._views, strict=True):
            lengths[i] = views.sum(axis=1)
        self.texts = np.concatenate([self.texts, self._texts])
        self.lengths = np.concatenate([self.lengths, lengths])

    def observe(self, layer: LayerStates) -> None:
        """Measure the texts at one place."""
        found = np.full((len(self._rows), len(VIEWS), len(FORMS)), np.nan)
        start = 0
        while start < len(self._rows):
            stop, width = start + 1, layer.states.shape[1]
            while stop < len(self._rows) and (stop + 1 - start) * len(self._rows[stop]) * width <= _NUMBERS:
                stop += 1
            found[self._order[start:stop]] = entropies_of(layer.states, self._rows[start:stop], self._views[start:stop])
            start = stop
        self._of_places.append(found)

    def finish(self, batch: HiddenBatch) -> None:
        """Keep the entropies of the batch."""
        self.entropies = np.concatenate([self.entropies, np.stack(self._of_places, axis=1)])
        self._of_places = []

    def merge(self, other: TextEntropy) -> None:
        """Add other texts."""
        self.texts = np.concatenate([self.texts, other.texts])
        self.originals = np.concatenate([self.originals, other.originals])
        self.lengths = np.concatenate([self.lengths, other.lengths])
        self.entropies = np.concatenate([self.entropies, other.entropies])

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``texts``, ``originals``, ``lengths`` and ``entropies``, by text; an undefined entropy is −1."""
        order = np.argsort(self.texts, kind="stable")
        entropies = np.nan_to_num(self.entropies[order], nan=-1.0)
        arrays: dict[str, NDArray[Any]] = {
            "texts": self.texts[order],
            "originals": self.originals[order],
            "lengths": self.lengths[order],
            "entropies": entropies,
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        self.texts, self.originals = tensors["texts"].numpy(), tensors["originals"].numpy()
        self.lengths = tensors["lengths"].numpy()
        entropies = tensors["entropies"].numpy()
        self.entropies = np.where(entropies < 0, np.nan, entropies)


def measured(texts: Ints, seed: int, wanted: int, of: int) -> NDArray[np.bool_]:
    """Return which texts are measured: those whose hash, from 0 to 1, is below ``wanted``/``of``."""
    if wanted >= of:
        return np.ones(len(texts), dtype=bool)
    return key_of(seed, texts) < np.uint64(wanted * 2**64 // of)


@dataclass(frozen=True)
class TextEntropies:
    """Entropies of the measured texts at one place in one view.

    Args:
        values: entropy of each text that has one, shape (n, F), F the ``FORMS``.
        lengths: its tokens in the view, shape (n,).
        weights: its weight in each bootstrap replicate, shape (R, n).
        distinct: texts with an entropy of which no two say the same.
        texts: measured texts with any token in the view.
        short: those among them with fewer than ``FEWEST``.
    """

    values: Floats
    lengths: Ints
    weights: Floats
    distinct: int
    texts: int
    short: int


def text_entropies(seen: Observed, place: Place, wanted: int) -> TextEntropies:
    """Return the entropies of about ``wanted`` texts, whatever larger number was measured."""
    kept = seen.get(TextEntropy)
    view = list(VIEWS).index(seen.view)
    order = np.argsort(kept.texts, kind="stable")
    order = order[measured(kept.texts[order], kept.seed, wanted, kept.of)]
    weights = seen.once(
        ("entropy weights", wanted), lambda: poisson_weights(kept.originals[order], kept.seed).astype(np.float64).T
    )
    lengths, values = kept.lengths[order, view], kept.entropies[order, kept.layout.index[place], view]
    has = np.isfinite(values).all(axis=1)
    return TextEntropies(
        values[has],
        lengths[has],
        weights[:, has],
        len(np.unique(kept.originals[order][has])),
        int((lengths > 0).sum()),
        int(((lengths > 0) & (lengths < FEWEST)).sum()),
    )
