"""Information imbalance: does the neighbourhood of a row in one space say who is near in another?

Source: Glielmo, Zeni, Cheng, Csányi & Laio 2022, "Ranking the information content of distance measures".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from reporter.geometry.arrays import Floats, Ints, wide
from reporter.threads import spread


def imbalances(spaces: Sequence[Callable[[], Tensor]], groups: Ints) -> Floats:
    """Return Δ(A → B) of each two spaces, of all rows and without each group of them, shape (1 + G, A, B).

    Δ(A → B) is 2/n times the mean, over rows, of the rank in B of the row's nearest neighbour in A. Distances are
    Euclidean, in float64; ranks run from 1 to n − 1. Rows that are equally far in B have the mean of their ranks; of
    rows that are all equal in A each one has the next of them as its neighbour, and the last one the first. Without a
    group both neighbours and ranks are those among the rows that are left.

    Args:
        spaces: return the same n rows in each space, in random order, (n, d); d may differ.
        groups: of each row, 0…G − 1; no group is empty or lacks fewer than two of the rows, (n,).
    """
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)

    def neighbours(space: Callable[[], Tensor]) -> Tensor:
        squares = _squares(space, order, cyclic=True)
        least = [part.min(dim=1) for part in torch.split(squares, sizes.tolist(), dim=1)]
        values = torch.stack([part.values for part in least], dim=1)
        starts = torch.as_tensor(np.cumsum(sizes) - sizes, device=squares.device)
        places = torch.stack([part.indices for part in least], dim=1) + starts
        found = [places.gather(1, values.argmin(dim=1, keepdim=True))]
        for group in range(len(sizes)):
            left = values.clone()
            left[:, group] = torch.inf
            found.append(places.gather(1, left.argmin(dim=1, keepdim=True)))
        return torch.cat(found, dim=1)  # (n, 1 + G)

    near = torch.stack(list(spread(neighbours, spaces)), dim=2)  # (n, 1 + G, A)
    of_row = torch.as_tensor(groups[order], device=near.device)

    def ranks(space: Callable[[], Tensor]) -> Tensor:
        squares = _squares(space, order)
        ordered, which = squares.sort(dim=1)
        of_sorted = of_row[which]
        found = []
        for group in range(-1, len(sizes)):
            theirs = squares.gather(1, near[:, group + 1])
            below, up_to = (torch.searchsorted(ordered, theirs, right=right) for right in (False, True))
            twice = below + 1 + up_to  # twice the mean rank of those as far as the neighbour
            n = len(squares)
            if group >= 0:
                inside = (of_sorted == group).cumsum(dim=1, dtype=torch.int32)
                inside = torch.nn.functional.pad(inside, (1, 0))  # how many of the first so many are in the group
                twice = (twice - inside.gather(1, below) - inside.gather(1, up_to))[of_row != group]
                n = len(twice)
            found.append(twice.double().mean(dim=0) / n)
        return torch.stack(found)  # (1 + G, A)

    return np.asarray(torch.stack(list(spread(ranks, spaces)), dim=2).cpu().numpy())


def _squares(space: Callable[[], Tensor], order: Ints, *, cyclic: bool = False) -> Tensor:
    """Return squared distances without the own square of each row, infinite to itself, (n, n).

    Args:
        space: returns the rows.
        order: in which they are wanted.
        cyclic: whether of equal rows the next one is nearer than the others; else they are equally far.
    """
    given = wide(space())
    x = given - given.mean(dim=0)
    x = x[torch.as_tensor(order, device=x.device)]
    squares = torch.addmm(x.square().sum(dim=1), x, x.T, alpha=-2)
    largest = squares.abs().max()
    _, which, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
    if len(counts) < len(x):
        for same in torch.split(which.argsort(stable=True), counts.tolist()):
            if len(same) > 1:
                squares[:, same] = squares[:, same[:1]].clone()  # which rounding would set apart
                if cyclic:
                    step = torch.arange(len(same), device=x.device)
                    after = (step - step[:, None]) % len(same) / len(same)  # from 0 to 1
                    squares[same[:, None], same] = (after.double() - 2) * largest  # nearer than any other row
    return squares.fill_diagonal_(torch.inf)
