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
FORMS = ("centred", "raw", "unit")
"""Which matrix a text's entropy is of: of its states minus their mean; of its states as they are; of its states minus
their mean, each scaled to length 1, with the negative products taken as 0."""
_NUMBERS = 2**24  # float64 numbers held at once
_EQUAL = 1e-12  # of Σ‖x‖²: a Σ‖x − mean‖² below it is what float32 leaves of equal states


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

    def parameters(self) -> dict[str, Any]:
        """Return layout, seed and numbers of texts."""
        return {"layout": self.layout.as_json(), "seed": self.seed, "wanted": self.wanted, "of": self.of}

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


def entropies_of(states: torch.Tensor, rows: list[Ints], views: list[NDArray[np.bool_]]) -> Floats:
    """Return the entropy of each text in each view and form, NaN where it has none, shape (texts, V, F).

    Texts are padded with zero rows, which add nothing but zero eigenvalues. Everything is in float64: in float32 a sink
    in a text would leave the other eigenvalues to rounding. One Gram matrix serves all views of a text: each view's
    part of it is centred by itself.

    Args:
        states: shape (tokens, d).
        rows: of each text.
        views: which of a text's rows belong to each view, shape (V, rows).
    """
    longest = max(map(len, rows))
    at, kept = np.zeros((len(rows), longest), dtype=np.int64), np.zeros((len(rows), views[0].shape[0], longest))
    for i, (of_text, of_views) in enumerate(zip(rows, views, strict=True)):
        at[i, : len(of_text)], kept[i, :, : len(of_text)] = of_text, of_views
    # A view that leaves a text the same tokens as an earlier one is measured once; too few tokens are not at all.
    first = (kept[:, :, None] == kept[:, None]).all(axis=3).argmax(axis=2)
    text, view = np.nonzero((first == np.arange(kept.shape[1])) & (kept.sum(axis=2) >= FEWEST))
    found = np.full((*first.shape, len(FORMS)), np.nan)
    if len(text):
        x = states[torch.as_tensor(at, device=states.device)].double()
        of_set, mask = (torch.as_tensor(array, device=x.device) for array in (text, kept[text, view]))
        squares = (x.square().sum(dim=2)[of_set] * mask).sum(dim=1)
        raw = _gram(x, of_set, mask) if longest <= x.shape[2] else _product(x[of_set] * mask[:, :, None])
        # Near the mean of all views: what centring takes off the Gram matrix later is small then.
        inside = torch.as_tensor(kept.max(axis=1), device=x.device)[:, :, None]
        x -= (x * inside).sum(dim=1, keepdim=True) / inside.sum(dim=1, keepdim=True).clamp(min=1)
        if longest <= x.shape[2]:
            centred = _centred(_gram(x, of_set, mask), mask)
            unit = _entropies(_unit(centred))
        else:
            centres = _rows_about_mean(x[of_set], mask)
            centred = _product(centres)
            unit = _of_unit_rows(centres, mask.sum(dim=1))
        forms = torch.stack([_entropies(centred), _entropies(raw), unit], dim=1)
        varies = centred.diagonal(dim1=1, dim2=2).sum(dim=1) > _EQUAL * squares
        found[text, view] = forms.where(varies[:, None], torch.nan).cpu().numpy()
    return np.take_along_axis(found, first[:, :, None], axis=1)


def _gram(x: torch.Tensor, text: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return x_i·x_j over the rows that a mask keeps, shape (sets, tokens, tokens)."""
    return (x @ x.mT)[text] * mask[:, :, None] * mask[:, None]


def _centred(gram: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return (x_i − m)·(x_j − m) over the rows that a mask keeps, m their mean, shape (sets, tokens, tokens)."""
    count = mask.sum(dim=1)[:, None]
    means = gram.sum(dim=1) / count
    offset = means.sum(dim=1, keepdim=True) / count / 2
    means = (means - offset) * mask
    return gram - (means[:, :, None] + means[:, None]) * mask[:, :, None] * mask[:, None]


def _rows_about_mean(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return x − m for the rows that a mask keeps, m their mean, and zero for the others."""
    kept = mask[:, :, None]
    x = x * kept
    return (x - x.sum(dim=1, keepdim=True) / kept.sum(dim=1, keepdim=True)) * kept


def _product(rows: torch.Tensor) -> torch.Tensor:
    """Return Σ x xᵀ over the rows of each set, which has the eigenvalues of their Gram matrix but zeros."""
    return rows.mT @ rows


def _unit(gram: torch.Tensor) -> torch.Tensor:
    """Return the Gram matrix of the rows scaled to length 1, negative entries as 0; a row that is zero stays so."""
    squares = gram.diagonal(dim1=1, dim2=2)
    inverse = squares.rsqrt().where(squares > _EQUAL * squares.sum(dim=1, keepdim=True), 0.0)
    return (gram * inverse[:, :, None] * inverse[:, None]).clamp(min=0)


def _of_unit_rows(rows: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Return the entropy of the third form where some texts have more tokens than dimensions, shape (sets,).

    Once negative products are taken as 0 it matters which products: as the source does, those of tokens where there are
    no more tokens than dimensions, else those of dimensions.
    """
    found = torch.empty(len(rows), dtype=rows.dtype, device=rows.device)
    long = count > rows.shape[2]
    found[~long] = _entropies(_unit(rows[~long] @ rows[~long].mT))
    lengths = rows[long].norm(dim=2, keepdim=True)
    units = rows[long] / lengths.where(lengths > 0, 1.0)
    found[long] = _entropies(_product(units).clamp(min=0))
    return found


def _entropies(matrices: torch.Tensor) -> torch.Tensor:
    """Return −Σ p log p, p = λ/Σλ over the positive eigenvalues of each matrix, shape (sets,)."""
    eigenvalues = torch.linalg.eigvalsh(matrices).clamp(min=0)
    p = eigenvalues / eigenvalues.sum(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    found: torch.Tensor = torch.special.entr(p).sum(dim=1).clamp(min=0)
    return found


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
    kept = cast(TextEntropy, seen.observables[TextEntropy.name])
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
