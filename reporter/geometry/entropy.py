"""Entropy of the spectrum of a few states, such as those of a text, for many sets of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from reporter.core.threads import spread
from reporter.geometry.arrays import Bools, Ints
from reporter.geometry.spectra import EQUAL

FEWEST = 3  # states: the centred Gram matrix of two has one eigenvalue, and no entropy whatever they are
FORMS = ("centred", "raw", "unit")
"""Which matrix the entropy is of: of the states minus their mean; of the states as they are; of the states minus their
mean, each scaled to length 1, with the negative products taken as 0."""

_NUMBERS = 2**20  # float64 numbers of the states of a bunch: more would leave a processor's cache
_FULL = 0.95  # of the work on padded matrices must be on what is no padding
_ELSEWHERE = (2**26, 0.1)  # the same on an accelerator, which wants few and large calls


@dataclass(frozen=True, eq=False)
class Bunch:
    """Texts of about one length, padded to the longest, and the sets of their rows whose entropies are wanted.

    A set is a text in a view; a view that leaves a text the same rows as an earlier one shares its set, and one that
    leaves it fewer than ``FEWEST`` has none.

    Args:
        texts: which of all texts, shape (b,).
        rows: of the states, shape (b, longest).
        shared: which of them every view keeps, or any where that is none, shape (b, longest), in float64.
        of_set: the text of each set, shape (S,).
        kept: which of its text's rows a set holds, shape (S, longest), in float64.
        few, many: sets of no more rows than dimensions, and of more.
        sets: the set of each text in each view, −1 for none, shape (b, V).
    """

    texts: torch.Tensor
    rows: torch.Tensor
    shared: torch.Tensor
    of_set: torch.Tensor
    kept: torch.Tensor
    few: torch.Tensor
    many: torch.Tensor
    sets: torch.Tensor

    @property
    def numbers(self) -> int:
        """Numbers in the matrices of its sets, at most."""
        return len(FORMS) * self.kept.numel() * self.kept.shape[1]


def batches_by_length(rows: Sequence[Ints], views: Sequence[Bools], d: int, device: torch.device) -> list[Bunch]:
    """Return texts in batches of about equal length, so that little of the work is on padding."""
    lengths = np.array([len(of_text) for of_text in rows], dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    most, full = (_NUMBERS, _FULL) if device.type == "cpu" else _ELSEWHERE
    parts, start = [], 0
    while start < len(order):
        stop = start + 1
        while stop < len(order):
            work = np.minimum(lengths[order[start : stop + 1]], d).astype(np.float64) ** 3
            if work.sum() < full * len(work) * work[-1] or len(work) * lengths[order[stop]] * d > most:
                break
            stop += 1
        parts.append(_bunch(order[start:stop], rows, views, d, device))
        start = stop
    return parts


def _bunch(texts: Ints, rows: Sequence[Ints], views: Sequence[Bools], d: int, device: torch.device) -> Bunch:
    longest = len(rows[texts[-1]])
    positions = np.zeros((len(texts), longest), dtype=np.int64)
    kept = np.zeros((len(texts), len(views[texts[0]]), longest), dtype=bool)
    for i, text in enumerate(texts):
        positions[i, : len(rows[text])], kept[i, :, : len(rows[text])] = rows[text], views[text]
    first = (kept[:, :, None] == kept[:, None]).all(axis=3).argmax(axis=2)
    measured = (first == np.arange(kept.shape[1])) & (kept.sum(axis=2) >= FEWEST)
    of_set, view = np.nonzero(measured)
    sets = np.full(measured.shape, -1)
    sets[of_set, view] = np.arange(len(of_set))
    sets = np.take_along_axis(sets, first, axis=1)
    masks = kept[of_set, view]
    long = np.asarray(masks.sum(axis=1) > d)
    every: Bools = np.logical_and.reduce(kept, axis=1)
    none = ~np.logical_or.reduce(every, axis=1, keepdims=True)
    shared = every | none & np.logical_or.reduce(kept, axis=1)

    halves = np.flatnonzero(~long), np.flatnonzero(long)
    arrays = (texts, positions, shared.astype(np.float64), of_set, masks.astype(np.float64), *halves, sets)
    return Bunch(*(torch.as_tensor(array, device=device) for array in arrays))


def entropies_of(states: torch.Tensor, rows: Sequence[Ints], views: Sequence[Bools]) -> torch.Tensor:
    """Return the entropy of each text in each view and form, NaN where it has none, shape (texts, V, F)."""
    parts = batches_by_length(rows, views, states.shape[1], states.device)
    entropies_of_texts = torch.empty(len(rows), len(views[0]), len(FORMS), dtype=torch.float64, device=states.device)
    for bunch, entropies in zip(parts, spread(partial(entropies_in, states), parts), strict=True):
        entropies_of_texts[bunch.texts] = entropies
    return entropies_of_texts


def entropies_in(states: torch.Tensor, bunch: Bunch) -> torch.Tensor:
    """Return the entropies of a bunch of texts, shape (b, V, F); see ``entropies_of``."""
    return of_views(entropies_from(*matrices(states, bunch)), bunch)


def of_views(entropies: torch.Tensor, bunch: Bunch) -> torch.Tensor:
    """Return for each text and view what its set has, NaN where there is none, shape (b, V, F)."""
    none = entropies.new_full((1, len(FORMS)), torch.nan)
    return torch.cat([entropies, none])[bunch.sets]


def matrices(states: torch.Tensor, bunch: Bunch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the matrices of a bunch of texts, in float64: in float32 a sink would leave the rest to rounding.

    Returns:
        the matrices of S sets in each form, in the order of ``FORMS``, (F, S, m, m); whether the states of a set
        differ, (S,).

    One Gram matrix serves all views of a text and all forms. It is of the states minus the mean of those that all views
    share (no sinks), which leaves little to take off where a view is centred by itself; the mean comes back for the raw
    form. Texts of more rows than dimensions have matrices of dimensions, whose eigenvalues are the same but for zeros.
    """
    x = states.index_select(0, bunch.rows.flatten()).double().view(*bunch.rows.shape, -1)
    shared, kept = bunch.shared[:, None], bunch.kept
    centre = shared @ x / shared.sum(dim=2, keepdim=True).clamp(min=1)
    x -= centre
    mean, count = centre[bunch.of_set], kept.sum(dim=1)[:, None, None]
    if x.shape[1] <= x.shape[2]:
        kept = kept[:, :, None]
        gram = (x @ x.mT)[bunch.of_set].mul_(kept).mul_(kept.mT)
        forms = gram.new_empty(len(FORMS), *gram.shape)
        along = (x @ centre.mT)[bunch.of_set] + mean.square().sum(dim=2, keepdim=True) / 2
        _add_to_both(gram, along * kept, kept, out=forms[1])
        means = gram.sum(dim=2, keepdim=True) / count
        _add_to_both(gram, (means.sum(dim=1, keepdim=True) / count / 2 - means) * kept, kept, out=forms[0])
        _unit_of(forms[0], out=forms[2])
    else:
        rows = x[bunch.of_set] * kept[:, :, None]
        means = rows.sum(dim=1, keepdim=True) / count
        rows = (rows - means) * kept[:, :, None]
        centred = rows.mT @ rows
        raw = centred + (means + mean).mT @ (means + mean) * count
        forms = torch.stack([centred, raw, _of_unit_rows(rows, bunch)])
    variance, squares = forms[:2].diagonal(dim1=2, dim2=3).sum(dim=2)
    return forms, variance > EQUAL * squares


def _add_to_both(gram: torch.Tensor, by: torch.Tensor, kept: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Return g_ij + b_i + b_j within the rows that a mask keeps, and zero elsewhere."""
    return torch.baddbmm(gram, torch.cat([by, kept], dim=2), torch.cat([kept, by], dim=2).mT, out=out)


def _unit_of(gram: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    squares = gram.diagonal(dim1=1, dim2=2)
    inverse = squares.rsqrt().where(squares > EQUAL * squares.sum(dim=1, keepdim=True), 0.0)[:, :, None]
    return torch.mul(gram, inverse, out=out).mul_(inverse.mT).clamp_(min=0)


def _of_unit_rows(rows: torch.Tensor, bunch: Bunch) -> torch.Tensor:
    """Return the matrices of the third form where some texts have more rows than dimensions.

    Once negative products are taken as 0 it matters which products: as the source does, those of rows where there are
    no more rows than dimensions, else those of dimensions. The smaller ones are padded with zeros.
    """
    d = rows.shape[2]
    products = rows.new_zeros(len(rows), d, d)
    many, few = rows[bunch.many], rows[bunch.few]
    lengths = many.norm(dim=2, keepdim=True)
    units = many / lengths.where(lengths > 0, 1.0)
    products[bunch.many] = (units.mT @ units).clamp(min=0)
    first = bunch.kept[bunch.few].argsort(dim=1, descending=True, stable=True)[:, :d]
    few = few.gather(1, first[:, :, None].expand(-1, -1, d))
    products[bunch.few] = _unit_of(few @ few.mT)
    return products


def entropies_from(forms: torch.Tensor, varies: torch.Tensor) -> torch.Tensor:
    """Return −Σ p log p, p = λ/Σλ over the positive eigenvalues of each matrix, shape (S, F); NaN for equal states."""
    if not len(varies):
        return forms.new_zeros(0, len(FORMS))
    eigenvalues = torch.linalg.eigvalsh(forms).clamp(min=0)
    p = eigenvalues / eigenvalues.sum(dim=2, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    entropies = torch.special.entr(p).sum(dim=2).clamp(min=0)
    of_sets: torch.Tensor = entropies.where(varies, torch.nan).T
    return of_sets
