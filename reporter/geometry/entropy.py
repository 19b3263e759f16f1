"""Entropy of the spectrum of a few states, such as those of a text, for many sets of them at once."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.spectra import EQUAL

FEWEST = 3  # states: the centred Gram matrix of two has one eigenvalue, and no entropy whatever they are
FORMS = ("centred", "raw", "unit")
"""Which matrix the entropy is of: of the states minus their mean; of the states as they are; of the states minus their
mean, each scaled to length 1, with the negative products taken as 0."""


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
        varies = centred.diagonal(dim1=1, dim2=2).sum(dim=1) > EQUAL * squares
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
    inverse = squares.rsqrt().where(squares > EQUAL * squares.sum(dim=1, keepdim=True), 0.0)
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
