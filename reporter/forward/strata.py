"""Which kind of token a token is: ordinary, special or set aside; every token is exactly one of them.

Why it matters: one sink in 64 tokens moves the share of the first principal component from 0.003 to 0.995, and
Queipo-de-Llano et al. 2025 (arXiv:2510.06477) tie the compression of decoders in their middle layers to the massive
norm of the first token. So whether sinks count must be a switch that a reader can flip, the rule must not depend on the
batch, and it must find a population rather than cut through one. Norms alone do not tell sinks from other tokens: in a
pretrained decoder of 30 blocks the norms of its sinks (the first " the" of a text, a blank) run from 3 to 12 times the
median without a gap, and in an encoder's last block a tenth of all words is twice as long as the median word. What sets
sinks apart is what Sun et al. 2024 (arXiv:2402.17762) call a massive activation: one coordinate, the same in all of
them, makes up nearly the whole state. By how much that coordinate outweighs all others lies between 3 and 100 for these
tokens and below 0.2 for the rest; hardly a token lies between, so the cut at 1 decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

ORDINARY, SPECIAL, ASIDE = 0, 1, 2
STRATA = ("ordinary", "special", "aside")
"""``aside``: sinks, and the first own token of each text, sink or not."""

VIEWS: dict[str, tuple[int, ...]] = {
    "words": (ORDINARY, ASIDE),
    "all": (ORDINARY, SPECIAL, ASIDE),
    "no-sinks": (ORDINARY,),
}
"""Which strata each view merges."""

DOMINANCE, FACTOR = 1.0, 2.0


@dataclass(frozen=True)
class SinkRule:
    """Which tokens are sinks.

    Args:
        dominance: what one coordinate must weigh against all others together; None: the norm alone decides.
        factor: what the norm must exceed, in medians of the text.
    """

    dominance: float | None = DOMINANCE
    factor: float = FACTOR

    @classmethod
    def of(cls, factor: float | None, dominance: float | None) -> SinkRule:
        """Return the rule that a study asks for; a norm that is asked for alone decides by itself."""
        if factor is None:
            return cls() if dominance is None else cls(dominance)
        return cls(dominance, factor)

    @property
    def said(self) -> str:
        """The rule in words."""
        norm = f"whose norm exceeds {self.factor:g} times the median norm of its text's tokens"
        if self.dominance is None:
            return f"a token {norm} at some block"
        weight = "" if self.dominance == 1 else f"{self.dominance:g} times "
        return (
            f"a token {norm} at some block, and of which one coordinate j outweighs all others together there: "
            f"(x_j − m_j)² > {weight}Σ_{{i≠j}} x_i², j its largest |x_j|, m_j the median of coordinate j over the text"
        )


DEFAULT_RULE = SinkRule()


@dataclass(frozen=True, eq=False)
class Sinks:
    """What the rule finds in some tokens; arrays of one shape, (texts, length) or (tokens,).

    Args:
        sink: whether the token is one, special tokens included.
        first: the first block where it is; 0 if nowhere.
        last: the last such block.
        ratio: the largest norm over the median norm of its text, over all blocks.
        dominance: the largest (x_j − m_j)² / Σ_{i≠j} x_i² over the blocks where the norm exceeds ``FACTOR`` medians;
            0 where there is none. It does not depend on the rule, nor does ``ratio``: other cuts are made of them.
        dimension: the coordinate j where the dominance is largest; −1 where it is 0.
    """

    sink: NDArray[np.bool_]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    ratio: NDArray[np.float64]
    dominance: NDArray[np.float64]
    dimension: NDArray[np.int64]

    def at(self, *index: NDArray[np.int64]) -> Sinks:
        """Return what is known of the tokens at some places."""
        return Sinks(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


def find_sinks(
    states: Sequence[torch.Tensor], norms: torch.Tensor, mask: NDArray[np.int64], rule: SinkRule = DEFAULT_RULE
) -> Sinks:
    """Apply the rule to every token of a batch; padding has no meaning.

    Medians are over all tokens of a text, special ones included, and of an even number the mean of the middle two.

    Args:
        states: the block outputs, each (texts, length, width).
        norms: their norms, (blocks, texts, length).
        mask: 1 for a token, 0 for padding, (texts, length).
        rule: which tokens are sinks.
    """
    import torch

    kept = torch.as_tensor(mask, device=norms.device, dtype=torch.bool)
    ratio = (norms / text_medians(norms, mask)[:, :, None]).nan_to_num(nan=0.0).masked_fill(~kept, 0.0)
    dominance, dimension = torch.zeros_like(ratio), torch.full_like(ratio, -1, dtype=torch.int64)
    long = (ratio > FACTOR if rule.dominance is None else ratio > min(FACTOR, rule.factor)).nonzero()
    for block in range(len(states)) if len(long) else ():
        text, position = long[long[:, 0] == block, 1:].unbind(dim=1)
        if len(text):
            weight, j = _dominance(states[block], text, position, kept)
            dominance[block, text, position], dimension[block, text, position] = weight.to(dominance.dtype), j
    sink = ratio > rule.factor
    if rule.dominance is not None:
        sink &= dominance > rule.dominance
    blocks = torch.arange(1, len(norms) + 1, device=norms.device)[:, None, None]
    best = dominance.where(ratio > FACTOR, 0.0).max(dim=0)
    found = best.values > 0
    first = blocks.where(sink, len(norms) + 1).amin(dim=0)
    return Sinks(
        sink.any(dim=0).cpu().numpy(),
        first.where(first <= len(norms), 0).cpu().numpy(),
        blocks.where(sink, 0).amax(dim=0).cpu().numpy(),
        ratio.amax(dim=0).double().cpu().numpy(),
        best.values.double().cpu().numpy(),
        dimension.gather(0, best.indices[None])[0].where(found, -1).cpu().numpy(),
    )


def _dominance(
    states: torch.Tensor, text: torch.Tensor, position: torch.Tensor, kept: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (x_j − m_j)² / Σ_{i≠j} x_i² and j of some tokens of a batch, each (tokens,)."""
    x = states[text, position].float()
    j = x.abs().argmax(dim=1)
    top = x.gather(1, j[:, None])[:, 0]
    column = states[text, :, j].float()  # coordinate j of every token of the text, (tokens, length)
    middle = _medians(column[None], kept[text])[0]
    rest = x.scatter(1, j[:, None], 0.0).square().sum(dim=1)
    weight = (top - middle).square() / rest
    return weight.nan_to_num(nan=0.0), j  # infinity becomes the largest number there is


def strata(sink: NDArray[np.bool_], mask: NDArray[np.int64], special: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Return the stratum of each token, shape (texts, length); padding has no meaning.

    Set aside are the sinks among the text's own tokens, and its first own token. What a decoder makes of the first one
    hangs on whether its tokenizer puts a BOS before it; without it, the same tokens of a text count in every model.

    Args:
        sink: whether a token is one.
        mask: 1 for a token, 0 for padding.
        special: True where the token is not one of the text's own.
    """
    own = (mask == 1) & ~special
    first = own & (own.cumsum(axis=1) == 1)
    return np.where(special, SPECIAL, np.where(sink | first, ASIDE, ORDINARY)).astype(np.int8)


def text_medians(norms: torch.Tensor, mask: NDArray[np.int64]) -> torch.Tensor:
    """Return the median norm of each text at each block, shape (blocks, texts); the mean of the middle two if even."""
    import torch

    return _medians(norms, torch.as_tensor(mask, device=norms.device, dtype=torch.bool))


def _medians(values: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return the median over the last axis of what is kept, shape (blocks, texts).

    Args:
        values: (blocks, texts, length).
        kept: (texts, length).
    """
    import torch

    ordered = values.masked_fill(~kept, torch.inf).sort(dim=-1).values
    lengths = kept.sum(dim=-1)
    low = ((lengths - 1) // 2).expand(values.shape[:2])[..., None]
    high = (lengths // 2).expand(values.shape[:2])[..., None]
    return ((ordered.gather(-1, low) + ordered.gather(-1, high)) / 2)[..., 0]
