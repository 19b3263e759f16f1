"""Places in a model where states are read: a site and a layer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reporter.study.corpora import Site

if TYPE_CHECKING:
    from reporter.models.anatomy import Anatomy


@dataclass(frozen=True)
class Place:
    """One place where states are read.

    Args:
        site: ``embedding``: what enters the first block; ``block``: what a block returns, the raw residual stream;
            ``final``: the last block's output after the final norm or projection; ``attention``: the residual stream
            after a block's attention, before its feed-forward and, in a post-norm block, before the norm that follows.
        layer: 0 for the embedding, l for block l and its attention, L for ``final``.
    """

    site: Site
    layer: int

    def __str__(self) -> str:
        return f"{self.site} {self.layer}"


@dataclass(frozen=True)
class Layout:
    """All places that a pass reads, in the order in which observables see them.

    Args:
        layers: blocks L.
        width: dimension d of embedding, block and attention states.
        final_width: dimension of the final states; None where the model has none of its own or they are not read.
        attention: whether the states after attention are read.
    """

    layers: int
    width: int
    final_width: int | None = None
    attention: bool = False

    @classmethod
    def of(cls, anatomy: Anatomy, sites: Collection[Site]) -> Layout:
        """Return the places of a model that are read; embedding and blocks always are."""
        final = anatomy.final_width if "final" in sites else None
        return cls(anatomy.layers, anatomy.width, final, "attention" in sites and anatomy.attention != "none")

    @cached_property
    def path(self) -> tuple[Place, ...]:
        """A token's path through the layers: embedding, block 1..L."""
        return (Place("embedding", 0), *(Place("block", layer) for layer in range(1, self.layers + 1)))

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Path, then final, then attention 1..L, as far as they are read."""
        final = () if self.final_width is None else (Place("final", self.layers),)
        numbers = range(1, self.layers + 1) if self.attention else ()
        return (*self.path, *final, *(Place("attention", layer) for layer in numbers))

    @cached_property
    def index(self) -> Mapping[Place, int]:
        """The index of each place in ``places``."""
        return {place: index for index, place in enumerate(self.places)}

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Dimension of the states at each of ``places``."""
        return tuple(self.width if place.site != "final" else self.final_width or 0 for place in self.places)

    def as_json(self) -> dict[str, Any]:
        """Return the four numbers it is made of."""
        return asdict(self)
