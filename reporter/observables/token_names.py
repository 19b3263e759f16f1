"""How the tokens of a corpus read, for numbers of single token types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from reporter.effort import Effort, Scale
from reporter.forward.places import Layout
from reporter.observables.observable import Observable

if TYPE_CHECKING:
    import torch

    from reporter.forward.hidden_batch import LayerStates
    from reporter.observables.observable import Setting


class TokenNames(Observable):
    """The tokens that occur in the corpus, as they read, by id.

    Args:
        layout: the places that are read.
        tokens: the tokens by id.
    """

    name = "token_names"
    version = 2

    def __init__(self, layout: Layout, tokens: Mapping[str, str]) -> None:
        self.layout, self.tokens = layout, dict(tokens)

    @classmethod
    def effort(cls, scale: Scale, size: int) -> Effort:
        """Return nothing: no state is read."""
        return Effort()

    @classmethod
    def empty(cls, setting: Setting) -> Self:
        """Return the names, which are known before the first batch."""
        return cls(setting.layout, {str(token): name for token, name in setting.tokens.items()})

    def observe(self, layer: LayerStates) -> None:
        """Do nothing."""

    def merge(self, other: TokenNames) -> None:
        """Take in the tokens of other texts."""
        self.tokens |= other.tokens

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return nothing: the names are parameters."""
        return {}

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Do nothing."""
