"""Moments of each layer and stratum: count, mean, squares and sum of unit vectors; the second moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from reporter.forward.batch import LayerStates
from reporter.forward.observable import Field, Key, Observable, Setting
from reporter.forward.token_categories import STRATA, VIEWS
from reporter.geometry.arrays import Floats
from reporter.models.places import Layout, Place

# Rows added up in float32 before float64 takes over: one long float32 sum is off by 1e-5 of itself and more, and by how
# much depends on the batch.
_BLOCK = 256


@dataclass(frozen=True)
class LayerMoments:
    """Moments of the token states x at one layer."""

    n: int
    mean: Floats
    squares: Floats
    units: int
    unit_sum: Floats


class Moments(Observable):
    """First and second moments, per dimension, in float64.

    Squares are summed about the mean and merged by the formula of Chan, Golub & LeVeque 1983; E‖x‖² − ‖μ‖² would
    cancel. With S strata and P places it holds:

    - ``count`` (P, S): tokens; ``unit_count`` (P, S): tokens whose state is not zero
    - for each place, d wide: ``mean`` (S, d); ``squares`` (S, d): Σ (x − mean)² for each dimension;
      ``unit_sum`` (S, d): Σ x/‖x‖
    """

    name = "moments"
    version = 2
    fields = dict.fromkeys(("count", "unit_count", "mean", "squares", "unit_sum"), Field())

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        shape = (len(layout.places), len(STRATA))
        self.count, self.unit_count = np.zeros(shape), np.zeros(shape)
        self.mean, self.squares, self.unit_sum = (
            [torch.zeros(len(STRATA), width, dtype=torch.float64) for width in layout.widths] for _ in range(3)
        )

    def observe(self, layer: LayerStates) -> None:
        """Add one layer of a batch."""
        for stratum, rows in enumerate(layer.batch.rows):
            if rows.stop == rows.start:
                continue
            mean, centred = layer.centred[stratum]
            units = float((layer.batch.known_norms[layer.index, rows] > 0).sum())
            squares = _squares(centred, layer.batch.scratch(centred)[: len(centred)])
            key, count = (layer.index, stratum), rows.stop - rows.start
            self._add(key, count, units, mean, squares, sum_of(layer.units[rows]))

    def _add(self, key: tuple[int, int], count: float, units: float, *sums: torch.Tensor) -> None:
        """Add the moments of some tokens at a place and stratum: mean, squares and sum of unit vectors."""
        mean, squares, unit_sum = sums
        if count == 0:
            return
        layer, stratum = key
        before = float(self.count[key])
        total = before + count
        delta = mean - self.mean[layer][stratum]
        self.mean[layer][stratum] += delta * (count / total)
        self.squares[layer][stratum] += squares + delta.square() * (before * count / total)
        self.count[key] = total
        self.unit_count[key] += units
        self.unit_sum[layer][stratum] += unit_sum

    def merge(self, other: Moments) -> None:
        """Add the moments of other texts."""
        for layer, stratum in np.ndindex(self.count.shape):
            key, vectors = (layer, stratum), (x[layer][stratum] for x in (other.mean, other.squares, other.unit_sum))
            self._add(key, float(other.count[key]), float(other.unit_count[key]), *vectors)

    def at(self, place: Place, view: str) -> LayerMoments:
        """Return the moments at a place, merged over a view's strata."""
        index, strata = self.layout.index[place], list(VIEWS[view])
        count = self.count[index, strata]
        means = self.mean[index][strata].numpy()
        n = count.sum()
        mean = count @ means / n if n else means.sum(axis=0)
        # Chan, Golub & LeVeque 1983 for several parts: squares within the parts plus squares between their means.
        squares = self.squares[index][strata].numpy().sum(axis=0) + count @ (means - mean) ** 2
        units = self.unit_count[index, strata].sum()
        return LayerMoments(int(n), mean, squares, int(units), self.unit_sum[index][strata].numpy().sum(axis=0))


def sum_of(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of the rows of x in float64, shape (width,)."""
    whole = len(x) // _BLOCK * _BLOCK
    blocks = x[:whole].view(-1, _BLOCK, x.shape[1]).sum(dim=1)
    return blocks.double().sum(dim=0) + x[whole:].sum(dim=0).double()


def _squares(x: torch.Tensor, scratch: torch.Tensor) -> torch.Tensor:
    """Return Σ x_ij² over the rows i of x in float64, shape (width,).

    Each dimension is brought to the size of 1 by a power of two, which rounds nothing: the float32 squares of
    dimensions that training has all but switched off would underflow.
    """
    exponent = torch.frexp(torch.maximum(x.amax(dim=0), -x.amin(dim=0))).exponent.clamp(-126, 126).double()
    return sum_of(torch.mul(x, torch.exp2(-exponent).float(), out=scratch).square_()) * torch.exp2(2 * exponent)


# Second moment of each layer and stratum, width × width.


class Gram(Observable):
    """Σ (x − mean)(x − mean)ᵀ about the mean, in float64, merged by the formula of Chan, Golub & LeVeque 1983.

    A stratum that no token belongs to takes no memory; otherwise a place takes 8·d² bytes for each stratum. The
    product of a batch runs in float32 on centred states, about 1/25 of the forward pass. At the embedding it
    runs in float64: without position vectors states repeat by token, and with fewer tokens than dimensions what float32
    leaves of zero would read as axes.

    A finished one is kept as an upper triangle: in float64 at the embedding, elsewhere as float32 of what it is over
    the roots of its diagonal, which stay float64. That moves eigenvalues by less than the float32 product did before.
    """

    name = "gram"
    version = 5
    fields = dict.fromkeys(("count", "mean", "gram", "exact", "scale", "correlations"), Field())

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.count = np.zeros((len(layout.places), len(STRATA)))
        self.mean: dict[Key, torch.Tensor] = {}
        self.gram: dict[Key, torch.Tensor] = {}
        # Of a finished pass, in the place of ``gram``; see ``compact``.
        self.exact: dict[Key, torch.Tensor] = {}
        self.scale: dict[Key, torch.Tensor] = {}
        self.correlations: dict[Key, torch.Tensor] = {}

    def observe(self, layer: LayerStates) -> None:
        """Add one layer of a batch."""
        for stratum, rows in enumerate(layer.batch.rows):
            if rows.stop > rows.start:
                mean, centred = layer.centred[stratum]
                if layer.place.layer == 0:
                    centred = centred.double()
                self._add((layer.index, stratum), rows.stop - rows.start, mean, _product(centred))

    def settle(self) -> None:
        """Leave the matrices where they are: to copy them after every shard would take longer than to add to them."""

    def _add(self, key: Key, count: float, mean: torch.Tensor, gram: torch.Tensor) -> None:
        before = float(self.count[key])
        total = before + count
        if not before:
            self.mean[key], self.gram[key] = mean.clone(), gram.to(torch.float64, copy=True)
        else:
            delta = mean - self.mean[key]
            self.mean[key] += delta * (count / total)
            self.gram[key].add_(gram).addr_(delta, delta, alpha=before * count / total)
        self.count[key] = total

    def merge(self, other: Gram) -> None:
        """Add the second moments of other texts."""
        for key, gram in other.gram.items():
            self._add(key, float(other.count[key]), other.mean[key], gram)

    def compact(self) -> dict[str, torch.Tensor]:
        """Return a triangle in the place of each ``gram/…``: ``exact/…``, or ``scale/…`` and ``correlations/…``."""
        tensors = {name: tensor for name, tensor in self.tensors().items() if not name.startswith("gram/")}
        for (place, stratum), matrix in self.gram.items():
            if self.layout.places[place].layer == 0:
                tensors[f"exact/{place}/{stratum}"] = triangle_of(matrix)
            else:
                scale, correlations = correlations_of(matrix)
                tensors |= {f"scale/{place}/{stratum}": scale, f"correlations/{place}/{stratum}": correlations}
        return tensors

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk."""
        places = zip(setting.layout.places, setting.layout.widths, strict=True)
        triangles = sum((4 if place.layer else 8) * width * (width + 1) // 2 + 16 * width for place, width in places)
        return triangles * sum(rows > 0 for rows in tokens)

    def _matrix(self, key: Key) -> torch.Tensor:
        if key in self.gram:
            return self.gram[key]
        if key in self.exact:
            return matrix_of(self.exact[key], len(self.mean[key]))
        return from_correlations(self.scale[key], self.correlations[key])

    def covariance(self, place: int, strata: tuple[int, ...]) -> tuple[int, torch.Tensor]:
        """Return the number of tokens and their covariance (1/n), shape (width, width), over some strata.

        Raises:
            KeyError: if no token belongs to these strata.
        """
        merged = Gram(self.layout)
        for key in ((place, stratum) for stratum in strata):
            if self.count[key]:
                merged._add((place, 0), float(self.count[key]), self.mean[key], self._matrix(key))
        count = merged.count[place, 0]
        return int(count), merged.gram[place, 0] / count


_PARTS = 6  # into which columns are cut, so that of the products above and below the diagonal only one is taken


def _product(x: torch.Tensor) -> torch.Tensor:
    width = x.shape[1]
    product = x.new_empty(width, width)
    for start, stop in pairwise([width * part // _PARTS for part in range(_PARTS + 1)]):
        product[start:stop, start:] = x[:, start:stop].T @ x[:, start:]
        product[stop:, start:stop] = product[start:stop, stop:].T
    return product


def triangle_of(matrix: torch.Tensor) -> torch.Tensor:
    """Return the upper triangle of a symmetric matrix, its diagonal included, row after row."""
    rows, columns = torch.triu_indices(*matrix.shape)
    return matrix[rows, columns]


def matrix_of(triangle: torch.Tensor, width: int) -> torch.Tensor:
    """Return the symmetric matrix of an upper triangle, shape (width, width)."""
    rows, columns = torch.triu_indices(width, width)
    matrix = triangle.new_empty(width, width)
    matrix[rows, columns] = triangle
    matrix[columns, rows] = triangle
    return matrix


def correlations_of(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a positive semidefinite G as the roots s of its diagonal, float64, and float32 of G_ij / (s_i·s_j)."""
    scale = matrix.diagonal().double().clamp(min=0).sqrt()
    inverse = torch.where(scale > 0, 1 / scale, 0.0)
    return scale, triangle_of(matrix.double() * inverse * inverse[:, None]).float()


def from_correlations(scale: torch.Tensor, triangle: torch.Tensor) -> torch.Tensor:
    """Return the matrix of which ``correlations_of`` made the two, its diagonal exact to rounding, float64."""
    matrix = matrix_of(triangle.double(), len(scale))
    matrix.fill_diagonal_(1.0)
    return matrix * (scale * scale[:, None])
