"""Sets of blocks to leave out: how far blocks turn the states, and what that proposes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reporter.geometry.arrays import Floats, Ints
from reporter.metrics._unit_sums import UnitSums

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.texts.tokens import TokenBatch

Look = Callable[["TokenBatch", "list[Tensor]"], None]
PROPOSALS = 3  # sets that angle and influence propose for each number of blocks


@dataclass(frozen=True)
class Proposal:
    """Blocks to leave out.

    Args:
        blocks: their numbers, 1…L, ascending.
        by: ``angle``, ``influence`` or ``loss``.
        angle: of a run.
    """

    blocks: tuple[int, ...]
    by: str
    angle: float | None


def proposals(angles: Floats, influence: Floats, many: int, changes: Floats) -> list[Proposal]:
    """Return the sets of so many blocks to try: the run that turns least, those that each turn least, further runs.

    Where the loss without each block was measured, the last set is that of the blocks with the least loss.

    Args:
        angles: between all layers, (L + 1, L + 1).
        influence: of each block, (L,).
        many: how many blocks.
        changes: of the loss without each block, (L,); empty where they were not measured.
    """
    layers = len(angles) - 1
    runs = sorted(range(layers - many + 1), key=lambda first: float(angles[first, first + many]))
    ordered = [
        Proposal(tuple(range(first + 1, first + many + 1)), "angle", float(angles[first, first + many]))
        for first in runs
    ]
    angle_of = {proposal.blocks: proposal.angle for proposal in ordered}
    chosen = ordered[:PROPOSALS]

    def propose(place: int, by: str, numbers: Floats) -> None:
        least = tuple(sorted(int(block) + 1 for block in np.argsort(numbers, kind="stable")[:many]))
        if least and all(least != proposal.blocks for proposal in chosen):
            chosen.insert(place, Proposal(least, by, angle_of.get(least)))

    propose(1, "influence", influence)
    del chosen[PROPOSALS:]
    propose(PROPOSALS, "loss", changes)
    return chosen


def between_layers(unit: Ints, places: int) -> tuple[tuple[UnitSums, UnitSums], Look]:
    """Return cosines and angles between all layers by unit, and what fills them from the states of a batch."""
    import torch

    from reporter.forward.between_layers import cosines_of_layers

    units = int(unit.max()) + 1
    counts = np.zeros(units)
    cosines, angles = (UnitSums(np.zeros((units, places, places)), counts) for _ in range(2))

    def look(batch: TokenBatch, path: list[Tensor]) -> None:
        text_tokens = (batch.mask == 1) & ~batch.special
        for row, text in enumerate(unit[batch.texts].tolist()):
            positions = torch.from_numpy(np.flatnonzero(text_tokens[row])).to(path[0].device)
            if not len(positions):
                continue
            between = cosines_of_layers([state[row].index_select(0, positions) for state in path])
            between = between[between.isfinite().all(dim=2).all(dim=1)]
            cosines.sums[text] += between.sum(dim=0).cpu().numpy()
            angles.sums[text] += (between.arccos().sum(dim=0) / torch.pi).cpu().numpy()
            counts[text] += len(between)

    return (cosines, angles), look
