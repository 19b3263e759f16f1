"""How much work something is, in the units in which a machine is timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

STATE = 4  # bytes of a number in a state
SAMPLE = 4096  # tokens that a metric reads states of
STEPS = 50_000  # small calls for each place and view: rows are made, checked and written


@dataclass(frozen=True)
class Scale:
    """How large a pass, or what an analysis reads, is.

    Args:
        texts: texts.
        tokens: their tokens.
        places: sites and layers at which states are read.
        width: dimension of the states.
        views: views that the study asks for.
        vocabulary: entries of the tokenizer.
    """

    texts: int
    tokens: int
    places: int
    width: int
    views: int = 1
    vocabulary: int = 0

    @property
    def length(self) -> float:
        """Tokens of a text."""
        return self.tokens / max(1, self.texts)

    def reading(self, times: float, tokens: float | None = None) -> Effort:
        """Return the work of going through the states at all places.

        Args:
            times: how often.
            tokens: through the states of so many tokens; of all if left out.
        """
        return Effort(bytes=times * STATE * self.width * self.places * (self.tokens if tokens is None else tokens))


@dataclass(frozen=True)
class Effort:
    """Work.

    Args:
        products: floating-point operations of matrix products in float32.
        bytes: bytes read in going through arrays.
        eigen: symmetric eigenproblems in float64 of independent matrices: their size, and how many.
        searches: neighbour searches, each of all for all: points, width, and how many.
        steps: calls of a small function, each of which does next to nothing.
    """

    products: float = 0.0
    bytes: float = 0.0
    eigen: tuple[tuple[float, float], ...] = ()
    searches: tuple[tuple[float, float, float], ...] = ()
    steps: float = 0.0

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.products + other.products,
            self.bytes + other.bytes,
            self.eigen + other.eigen,
            self.searches + other.searches,
            self.steps + other.steps,
        )


NONE = Effort()


def searching(scale: Scale, sample: int, times: float) -> Effort:
    """Return the work of neighbour searches among sampled tokens at all places.

    Args:
        scale: the pass.
        sample: tokens that are sampled.
        times: searches at each place, all views together.
    """
    return Effort(searches=((min(scale.tokens, sample), scale.width, times * scale.places),))


def decomposing(scale: Scale, times: float) -> Effort:
    """Return the work of eigenproblems as large as the states are wide, at all places.

    Args:
        scale: the pass.
        times: how many at each place.
    """
    return Effort(eigen=((scale.width, times * scale.places),))


def little(scale: Scale, said: Any) -> Effort:
    """Return the work of what does little beyond going through a sample of states, and naming what it found."""
    return scale.reading(float(scale.views), min(scale.tokens, SAMPLE)) + Effort(
        steps=STEPS * scale.places * scale.views
    )


Declared = Callable[[Scale, Any], Effort]
"""What a metric or an analysis says of its work: a function of the scale and of its options or its item."""
