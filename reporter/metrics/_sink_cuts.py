"""What the numbers without sinks would be, were sinks cut elsewhere: over a sample of tokens, at several cuts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reporter.geometry.arrays import wide
from reporter.geometry.components import first_axis
from reporter.geometry.spectra import EQUAL
from reporter.metrics.base import N
from reporter.table import Comparable, OfCorpus, at_place, column
from reporter.threads import spread

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.observables.observed import Observed, Place
    from reporter.observables.token_sample import Selection

DOMINANCES = (0.25, 0.5, 1.0, 2.0, 4.0)
FACTORS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
TOP_SHARE, COSINE, SIMILARITY = "anisotropy.top_variance_share", "anisotropy.mean_cosine", "convergence.similarity"


class SinkCut(OfCorpus, table="sink_cuts"):
    """A number over a text's own tokens without its first one and without sinks, were sinks cut elsewhere."""

    compared = (Comparable(("value", "left_out"), "corpus", of="statistic || ', cut at ' || rule || ' ' || cut"),)

    rule: str = column(
        "'dominance': a norm of more than 2 medians and a coordinate that outweighs the others by more than the cut; "
        "'factor': a norm of more than so many medians of its text",
        key=True,
    )
    cut: float = column("what a token must exceed at some block to be a sink", key=True)
    statistic: str = column("the number, as metric.statistic, over a sample of tokens", key=True)
    place: Place = at_place()
    value: float | None = column("the number; NULL where it could not be computed")
    n: int = column(N, "BIGINT")
    left_out: float = column("share of the sampled tokens that the cut leaves out")


def cuts(seen: Observed, size: int) -> list[SinkCut]:
    """Return three numbers over the sampled own tokens that are neither a text's first nor a sink, at every cut.

    A cut leaves out the tokens whose weight of one coordinate (``dominance``), or whose norm in medians of their text
    (``factor``), exceeds it at some block. Tokens come in from the largest cut to the smallest; where a smaller cut
    leaves out no more of them, its numbers are the same.

    Args:
        seen: observables of one checkpoint on one corpus.
        size: the most tokens that are looked at.
    """
    import torch

    from reporter.observables.token_sample import DOMINANCE, FIRST, RATIO

    sample = replace(seen, view="words").token_sample(size)
    inside = np.flatnonzero(sample.facts[:, FIRST] == 0)
    facts = sample.facts[inside]
    # Which cut is the smallest that lets a token in; beyond the last one none does.
    bins = {
        "dominance": (DOMINANCES, np.searchsorted(DOMINANCES, facts[:, DOMINANCE].view(np.float64))),
        "factor": (FACTORS, np.searchsorted(FACTORS, facts[:, RATIO].view(np.float64))),
    }
    which = {rule: (at, torch.from_numpy(cut_of)) for rule, (at, cut_of) in bins.items()}
    last = seen.path[-1]
    target = _units(_states(sample, inside, last))

    def at(place: Place) -> list[SinkCut]:
        x = _states(sample, inside, place)
        return [
            SinkCut(rule, cut, statistic, place, value, n, left_out)
            for rule, (at, cut_of) in which.items()
            for cut, numbers in zip(at, _nested(x, place, target, cut_of.to(x.device), len(at)), strict=True)
            for statistic, value, n, left_out in numbers
        ]

    return [cut for found in spread(at, seen.places) for cut in found]


_Number = tuple[str, float | None, int, float]


def _nested(x: Tensor, place: Place, target: Tensor, which: Tensor, steps: int) -> Iterator[list[_Number]]:
    """Yield the numbers of the tokens that each cut lets in: those of the first cut, then more and more.

    Args:
        x: states, (n, d).
        place: where.
        target: what they come to at the last block, as unit vectors, (n, d).
        which: the first cut that lets each in, (n,).
        steps: how many cuts there are.
    """
    import torch

    units, squares = _units(x), x.square().sum(dim=1)
    on_path = x.shape[1] == target.shape[1] and place.site in ("embedding", "block")
    cosines = (units * target).sum(dim=1) if on_path else None
    known = torch.bincount(which, minlength=steps).tolist()
    first = (which <= next((step for step in range(steps) if known[step]), 0)).double()
    rows = _Rows(x - first @ x / first.sum().clamp(min=1), squares)
    axis, found = None, list[_Number]()
    for step in range(steps):
        if known[step] or not step:
            inside = (which <= step).double()
            n, unit_sum = sum(known[: step + 1]), inside @ units
            share, axis = _top_share(rows, inside, n, axis)
            left_out = 1 - n / max(len(x), 1)
            found = [
                (TOP_SHARE, share, n, left_out),
                (COSINE, float((unit_sum @ unit_sum - n) / (n * (n - 1))) if n > 1 else None, n, left_out),
            ]
            if cosines is not None and n:
                found.append((SIMILARITY, float(inside @ cosines / n), n, left_out))
        yield found


class _Rows:
    """States about the mean of those that are in from the first cut on, so that a sink far out is in no other's way.

    Args:
        about: x − m, (n, d).
        squares: ‖x‖², (n,).
    """

    def __init__(self, about: Tensor, squares: Tensor) -> None:
        self.about, self.squares, self.apart = about, squares, about.square().sum(dim=1)


def _top_share(rows: _Rows, inside: Tensor, n: int, near: Tensor | None) -> tuple[float | None, Tensor | None]:
    """Return λ1/Σλ of some states about their mean, None where they do not vary; and their first axis.

    Args:
        rows: all states.
        inside: 1 for those that count, else 0.
        n: how many count.
        near: a vector that may be near the axis.
    """
    if n < 2:
        return None, near
    centre = inside @ rows.about / n
    trace = inside @ rows.apart - n * (centre @ centre)
    if bool(trace <= EQUAL * (inside @ rows.squares)):
        return None, near
    largest, axis = first_axis(rows.about, inside, near, centre)
    return float(largest / trace), axis


def _states(sample: Selection, rows: NDArray[np.int64], place: Place) -> Tensor:
    import torch

    return wide(sample.states(place)[torch.from_numpy(rows)])


def _units(x: Tensor) -> Tensor:
    units: Tensor = x / x.norm(dim=1, keepdim=True).masked_fill_((x == 0).all(dim=1, keepdim=True), 1.0)
    return units
