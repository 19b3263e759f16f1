"""Entropy of the spectrum of a text's states, for a bounded number of texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.forward.contexts import key_of
from reporter.forward.places import Layout, Place
from reporter.observables.bootstrap import poisson_weights
from reporter.observables.observable import Observable
from reporter.observables.observed import VIEWS

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observed import Observed
    from reporter.observables.setting import Setting

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST = 3  # tokens: the centred Gram matrix of two has one eigenvalue, and no entropy whatever they are
_NUMBERS = 2**24  # float64 numbers held at once
_EQUAL = 1e-12  # of Σ‖x‖²: a Σ‖x − mean‖² below it is what float32 leaves of equal states


class TextEntropy(Observable):
    """−Σ p log p of each measured text, place and view, p = λ/Σλ, λ the eigenvalues of the centred Gram matrix.

    A text is measured if a hash of its place in the corpus, taken as a number from 0 to 1, is below ``wanted``/``of``,
    so that about ``wanted`` texts are, the same ones however a corpus is split, and those of a smaller number are
    among those of a larger one. For each it keeps ``lengths`` (V,): tokens in each view; and ``entropies`` (P, V): NaN
    for fewer than three tokens and for states that are all equal.

    Args:
        layout: the places that are read.
        seed: the study's seed: another one measures other texts.
        wanted: texts to measure.
        of: texts of the corpus.
    """

    name = "text_entropy"

    def __init__(self, layout: Layout, seed: int, wanted: int, of: int) -> None:
        self.layout, self.seed, self.wanted, self.of = layout, seed, wanted, of
        self.texts: Ints = np.zeros(0, dtype=np.int64)
        self.lengths: Ints = np.zeros((0, len(VIEWS)), dtype=np.int64)
        self.entropies: Floats = np.zeros((0, len(layout.places), len(VIEWS)))
        self._texts: Ints = np.zeros(0, dtype=np.int64)
        self._sets: list[Ints] = []  # rows of the batch, each set measured once, shortest first
        self._set_of: Ints = np.zeros((0, len(VIEWS)), dtype=np.int64)  # of each text and view, −1 for none
        self._of_places: list[Floats] = []

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing; ``setting.size`` is the number of texts to measure."""
        return cls(setting.layout, setting.seed, setting.size, setting.texts)

    def start(self, batch: HiddenBatch) -> None:
        """Find the rows of each measured text in each view."""
        texts = np.unique(batch.texts)
        self._texts = texts[measured(texts, self.seed, self.wanted, self.of)]
        self._of_places = []
        sets: dict[bytes, int] = {}
        found = np.full((len(self._texts), len(VIEWS)), -1, dtype=np.int64)
        lengths = np.zeros_like(found)
        for i, text in enumerate(self._texts):
            rows = np.flatnonzero(batch.texts == text)
            strata = batch.strata[rows]
            for view, kept in enumerate(VIEWS.values()):
                inside = rows[np.isin(strata, kept)]
                lengths[i, view] = len(inside)
                if len(inside) >= FEWEST:  # views that leave the text the same tokens share a set
                    found[i, view] = sets.setdefault(inside.tobytes(), len(sets))
        rows_of = [np.frombuffer(key, dtype=np.int64) for key in sets]
        order = np.argsort([len(rows) for rows in rows_of], kind="stable")
        self._sets = [rows_of[i] for i in order]
        self._set_of = np.where(found >= 0, np.argsort(order)[found], -1) if sets else found
        self.texts = np.concatenate([self.texts, self._texts])
        self.lengths = np.concatenate([self.lengths, lengths])

    def observe(self, layer: LayerStates) -> None:
        """Measure the texts at one place."""
        found = np.full(len(self._sets) + 1, np.nan)  # the last one is the set −1
        start = 0
        while start < len(self._sets):
            stop, width = start + 1, layer.states.shape[1]
            while stop < len(self._sets) and (stop + 1 - start) * len(self._sets[stop]) * width <= _NUMBERS:
                stop += 1
            found[start:stop] = _entropies(layer.states, self._sets[start:stop])
            start = stop
        self._of_places.append(found[self._set_of])

    def finish(self, batch: HiddenBatch) -> None:
        """Keep the entropies of the batch."""
        self.entropies = np.concatenate([self.entropies, np.stack(self._of_places, axis=1)])
        self._of_places = []

    def merge(self, other: TextEntropy) -> None:
        """Add other texts."""
        self.texts = np.concatenate([self.texts, other.texts])
        self.lengths = np.concatenate([self.lengths, other.lengths])
        self.entropies = np.concatenate([self.entropies, other.entropies])

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``texts``, ``lengths`` and ``entropies``, sorted by text; an entropy that is undefined is −1."""
        order = np.argsort(self.texts, kind="stable")
        entropies = np.nan_to_num(self.entropies[order], nan=-1.0)
        arrays = {"texts": self.texts[order], "lengths": self.lengths[order], "entropies": entropies}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def parameters(self) -> dict[str, Any]:
        """Return layout, seed and numbers of texts."""
        return {"layout": self.layout.as_json(), "seed": self.seed, "wanted": self.wanted, "of": self.of}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        self.texts, self.lengths = tensors["texts"].numpy(), tensors["lengths"].numpy()
        entropies = tensors["entropies"].numpy()
        self.entropies = np.where(entropies < 0, np.nan, entropies)


def measured(texts: Ints, seed: int, wanted: int, of: int) -> NDArray[np.bool_]:
    """Return which texts are measured: those whose hash, from 0 to 1, is below ``wanted``/``of``."""
    if wanted >= of:
        return np.ones(len(texts), dtype=bool)
    return key_of(seed, texts) < np.uint64(wanted * 2**64 // of)


def _entropies(states: torch.Tensor, sets: list[Ints]) -> Floats:
    """Return the entropy of each set of rows; NaN where the rows are equal.

    Sets are padded with zero rows, which add nothing but zero eigenvalues. Everything is in float64: in float32 a sink
    in a text would leave the other eigenvalues to rounding.
    """
    longest = max(map(len, sets))
    rows = np.zeros((len(sets), longest), dtype=np.int64)
    kept = np.zeros((len(sets), longest, 1))
    for i, of_set in enumerate(sets):
        rows[i, : len(of_set)], kept[i, : len(of_set)] = of_set, 1
    mask = torch.as_tensor(kept, device=states.device)
    x = states[torch.as_tensor(rows, device=states.device)].double() * mask
    x /= x.abs().amax(dim=(1, 2), keepdim=True).clamp(min=1e-300)  # so that squares neither overflow nor underflow
    squares = x.square().sum(dim=(1, 2))
    x = (x - x.sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True)) * mask
    gram = x @ x.mT if longest <= x.shape[2] else x.mT @ x
    eigenvalues = torch.linalg.eigvalsh(gram).clamp(min=0)
    total = eigenvalues.sum(dim=1)
    found = torch.special.entr(eigenvalues / total.clamp(min=1e-300)[:, None]).sum(dim=1).clamp(min=0)
    result: Floats = found.where(total > _EQUAL * squares, torch.nan).cpu().numpy()
    return result


@dataclass(frozen=True)
class TextEntropies:
    """Entropies of the measured texts at one place in one view.

    Args:
        values: entropy of each text that has one, shape (n,).
        lengths: its tokens in the view, shape (n,).
        weights: its weight in each bootstrap replicate, shape (R, n).
        texts: measured texts with any token in the view.
        short: those among them with fewer than ``FEWEST``.
    """

    values: Floats
    lengths: Ints
    weights: Floats
    texts: int
    short: int


def text_entropies(seen: Observed, place: Place, wanted: int) -> TextEntropies:
    """Return the entropies of about ``wanted`` texts, whatever larger number was measured."""
    kept = cast(TextEntropy, seen.observables[TextEntropy.name])
    view = list(VIEWS).index(seen.view)
    order = np.argsort(kept.texts, kind="stable")
    order = order[measured(kept.texts[order], kept.seed, wanted, kept.of)]
    weights = seen.once(
        ("entropy weights", wanted), lambda: poisson_weights(kept.texts[order], kept.seed).astype(np.float64).T
    )
    lengths, values = kept.lengths[order, view], kept.entropies[order, kept.layout.index[place], view]
    has = np.isfinite(values)
    return TextEntropies(
        values[has],
        lengths[has],
        weights[:, has],
        int((lengths > 0).sum()),
        int(((lengths > 0) & (lengths < FEWEST)).sum()),
    )
