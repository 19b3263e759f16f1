"""Second moment of each layer and stratum, width × width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import torch

from reporter.effort import Effort, Scale
from reporter.forward.places import Layout
from reporter.observables.observable import Observable
from reporter.observables.rounded import correlations_of, from_correlations, matrix_of, triangle_of

if TYPE_CHECKING:
    from reporter.forward.hidden_batch import HiddenBatch, LayerStates
    from reporter.observables.observable import Setting

_Key = tuple[int, int]


class Gram(Observable):
    """Σ (x − mean)(x − mean)ᵀ about the mean, in float64, merged by the formula of Chan, Golub & LeVeque 1983.

    A stratum that no token belongs to takes no memory; otherwise a place takes 8·d² bytes for each stratum. The
    product of a batch runs in float32 on centred states, about 1/25 of the forward pass. At the embedding it
    runs in float64: without position vectors states repeat by token, and with fewer tokens than dimensions what float32
    leaves of zero would read as axes.

    A finished one is kept as an upper triangle: in float64 at the embedding, elsewhere as float32 of what it is over
    the roots of its diagonal, which stay float64. That moves eigenvalues by less than the float32 product did before.

    Args:
        layout: the places that are read.
    """

    name = "gram"
    version = 4
    gathered = ("mean", "gram")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.count: dict[_Key, float] = {}
        self.mean: dict[_Key, torch.Tensor] = {}
        self.gram: dict[_Key, torch.Tensor] = {}
        self._triangles: dict[_Key, dict[str, torch.Tensor]] = {}  # of a finished pass, in the place of ``gram``

    @classmethod
    def effort(cls, scale: Scale, size: int) -> Effort:
        """Return the work of a width × width product for each token and place."""
        return super().effort(scale, size) + Effort(products=2.0 * scale.width**2 * scale.tokens * scale.places)

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return one that has seen nothing."""
        return cls(setting.layout)

    def start(self, batch: HiddenBatch) -> None:
        """Sum where the states are."""
        self.follow(batch.device)

    def observe(self, layer: LayerStates) -> None:
        """Add one layer of a batch."""
        for stratum, rows in enumerate(layer.batch.rows):
            if rows.stop > rows.start:
                mean, centred = layer.centred[stratum]
                if layer.place.layer == 0:
                    centred = centred.double()
                self._add((layer.index, stratum), rows.stop - rows.start, mean, _product(centred))

    def _add(self, key: _Key, count: float, mean: torch.Tensor, gram: torch.Tensor) -> None:
        if key not in self.count:
            self.count[key], self.mean[key] = count, mean.clone()
            self.gram[key] = gram.to(torch.float64, copy=True)
            return
        known = self.count[key]
        total = known + count
        delta = mean - self.mean[key]
        self.mean[key] += delta * (count / total)
        self.gram[key].add_(gram).addr_(delta, delta, alpha=known * count / total)
        self.count[key] = total

    def merge(self, other: Gram) -> None:
        """Add the second moments of other texts."""
        for key, count in other.count.items():
            self._add(key, count, other.mean[key], other._at(key))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return ``count/LAYER/STRATUM``, ``mean/…`` and ``gram/…`` for what was seen."""
        return self._known() | {f"gram/{at}/{stratum}": self._at((at, stratum)) for at, stratum in self.count}

    def compact(self) -> dict[str, torch.Tensor]:
        """Return a triangle in the place of each ``gram/…``: ``exact/…``, or ``scale/…`` and ``correlations/…``."""
        found = self._known()
        for at, stratum in self.count:
            matrix, name = self._at((at, stratum)), f"{at}/{stratum}"
            if self.layout.places[at].layer == 0:
                found[f"exact/{name}"] = triangle_of(matrix)
            else:
                found[f"scale/{name}"], found[f"correlations/{name}"] = correlations_of(matrix)
        return found

    @classmethod
    def bytes_kept(cls, setting: Setting, tokens: Sequence[int]) -> int:
        """Return about what a finished one takes on disk."""
        places = zip(setting.layout.places, setting.layout.widths, strict=True)
        triangles = sum((4 if place.layer else 8) * width * (width + 1) // 2 + 16 * width for place, width in places)
        return triangles * sum(rows > 0 for rows in tokens)

    def _known(self) -> dict[str, torch.Tensor]:
        found = {}
        for (at, stratum), count in self.count.items():
            found[f"count/{at}/{stratum}"] = torch.tensor([count], dtype=torch.float64)
            found[f"mean/{at}/{stratum}"] = self.mean[at, stratum]
        return found

    def _at(self, key: _Key) -> torch.Tensor:
        if key in self.gram:
            return self.gram[key]
        kept = self._triangles[key]
        if "exact" in kept:
            return matrix_of(kept["exact"], len(self.mean[key]))
        return from_correlations(kept["scale"], kept["correlations"])

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Take over saved arrays."""
        for name, tensor in tensors.items():
            kind, layer, stratum = name.split("/")
            key = (int(layer), int(stratum))
            if kind == "count":
                self.count[key] = float(tensor[0])
            elif kind in ("mean", "gram"):
                getattr(self, kind)[key] = tensor
            else:
                self._triangles.setdefault(key, {})[kind] = tensor

    def covariance(self, place: int, strata: tuple[int, ...]) -> tuple[int, torch.Tensor]:
        """Return the number of tokens and their covariance (1/n), shape (width, width), over some strata.

        Args:
            place: index among the layout's places.
            strata: which tokens.

        Raises:
            KeyError: if no token belongs to these strata.
        """
        merged = Gram(self.layout)
        for stratum in strata:
            if (place, stratum) in self.count:
                key = (place, stratum)
                merged._add((place, 0), self.count[key], self.mean[key], self._at(key))
        count = merged.count[place, 0]
        return int(count), merged.gram[place, 0] / count


_PARTS = 6  # into which columns are cut, so that of the products above and below the diagonal only one is taken


def _product(x: torch.Tensor) -> torch.Tensor:
    """Return xᵀx, shape (width, width), in less than two thirds of the time of a product of two unlike matrices."""
    width = x.shape[1]
    found = x.new_empty(width, width)
    edges = [width * part // _PARTS for part in range(_PARTS + 1)]
    for start, stop in pairwise(edges):
        found[start:stop, start:] = x[:, start:stop].T @ x[:, start:]
        found[stop:, start:stop] = found[start:stop, stop:].T
    return found
