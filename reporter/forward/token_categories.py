"""Categories of tokens: ordinary, special or set aside; every token is exactly one of them.

Why it matters: one sink in 64 tokens moves the share of the first principal component from 0.003 to 0.995, and
Queipo-de-Llano et al. 2026 (arXiv:2510.06477) tie the compression of decoders in their middle layers to the massive
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

from reporter.core.places import TEXT_TOKENS, WITH_SPECIAL_TOKENS, WITHOUT_SINKS
from reporter.geometry.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

ORDINARY, SPECIAL, ASIDE = 0, 1, 2
STRATA = ("ordinary", "special", "aside")
"""``aside``: sinks, and the first own token of each text, sink or not."""

VIEWS: dict[str, tuple[int, ...]] = {
    TEXT_TOKENS: (ORDINARY, ASIDE),
    WITH_SPECIAL_TOKENS: (ORDINARY, SPECIAL, ASIDE),
    WITHOUT_SINKS: (ORDINARY,),
}
"""Which strata each view merges."""

DOMINANCE, FACTOR = 1.0, 2.0


@dataclass(frozen=True)
class SinkRule:
    """The rule that decides which tokens are sinks.

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
    """The result of the rule for some tokens; arrays of one shape, (texts, length) or (tokens,).

    Args:
        sink: whether the token is one, special tokens included.
        first: the first block where it is; 0 if nowhere.
        last: the last such block.
        ratio: the largest norm over the median norm of its text, over all blocks.
        dominance: the largest (x_j − m_j)² / Σ_{i≠j} x_i² over the blocks where the norm exceeds ``FACTOR`` medians;
            0 where there is none. It does not depend on the rule, nor does ``ratio``: other cuts are made of them.
        dimension: the coordinate j where the dominance is largest; −1 where it is 0.
    """

    sink: Bools
    first: Ints
    last: Ints
    ratio: Floats
    dominance: Floats
    dimension: Ints

    def at(self, *index: Ints) -> Sinks:
        """Return what is known of the tokens at some places."""
        return Sinks(*(column[index] for column in vars(self).values()))


def find_sinks(
    states: Sequence[torch.Tensor], norms: NDArray[np.float32], mask: Ints, rule: SinkRule = DEFAULT_RULE
) -> Sinks:
    """Apply the rule to every token of a batch; padding has no meaning.

    Medians are over all tokens of a text, special ones included, and of an even number the mean of the middle two.
    Which tokens are long is decided on the host; only those are looked at where the states are, which is waited for
    once.
    """
    import torch

    kept = mask == 1
    medians = _medians(torch.from_numpy(norms), torch.from_numpy(kept)).numpy()
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = norms / medians[:, :, None]
    ratio = np.where(kept, np.nan_to_num(ratio, nan=0.0), norms.dtype.type(0))
    dominance, dimension = np.zeros_like(ratio), np.full(ratio.shape, -1)
    long = ratio > (FACTOR if rule.dominance is None else min(FACTOR, rule.factor))
    if long.any():
        dominance[long], dimension[long] = _dominance(states, long, kept)
    sink = ratio > rule.factor
    if rule.dominance is not None:
        sink &= dominance > rule.dominance
    blocks = np.arange(1, len(norms) + 1)[:, None, None]
    heavy = np.where(ratio > FACTOR, dominance, 0)
    most = heavy.argmax(axis=0)[None]
    best = np.take_along_axis(heavy, most, axis=0)[0]
    is_sink = np.asarray(sink.any(axis=0))
    return Sinks(
        is_sink,
        np.where(is_sink, np.where(sink, blocks, len(norms) + 1).min(axis=0, initial=len(norms) + 1), 0),
        np.where(sink, blocks, 0).max(axis=0, initial=0),
        ratio.max(axis=0).astype(np.float64),
        best.astype(np.float64),
        np.where(best > 0, np.take_along_axis(dimension, most, axis=0)[0], -1),
    )


def _dominance(states: Sequence[torch.Tensor], long: Bools, kept: Bools) -> tuple[NDArray[np.float32], Ints]:
    """Return (x_j − m_j)² / Σ_{i≠j} x_i² and j of some tokens of a batch, each (long tokens,), block after block."""
    import torch

    device = states[0].device
    kept_there = torch.as_tensor(kept, device=device)
    weights, dimensions = [], []
    for block, tokens in enumerate(long):
        if not tokens.any():
            continue
        text, position = (torch.as_tensor(index, device=device) for index in np.nonzero(tokens))
        x = states[block][text, position].float()
        j = x.abs().argmax(dim=1)
        top = x.gather(1, j[:, None])[:, 0]
        column = states[block][text, :, j].float()  # coordinate j of every token of the text, (tokens, length)
        middle = _medians(column, kept_there[text])
        rest = x.scatter(1, j[:, None], 0.0).square().sum(dim=1)
        weights.append(((top - middle).square() / rest).nan_to_num(nan=0.0))  # infinity: the largest number there is
        dimensions.append(j)
    both = torch.stack([torch.cat(weights).double(), torch.cat(dimensions).double()]).cpu().numpy()
    return both[0].astype(np.float32), both[1].astype(np.int64)


def strata(sink: Bools, mask: Ints, special: Bools) -> NDArray[np.int8]:
    """Return the stratum of each token, shape (texts, length); padding has no meaning.

    Set aside are the sinks among the text's own tokens, and its first own token. What a decoder makes of the first one
    hangs on whether its tokenizer puts a BOS before it; without it, the same tokens of a text count in every model.
    """
    return np.where(special, SPECIAL, np.where(sink | first_own(mask, special), ASIDE, ORDINARY)).astype(np.int8)


def first_own(mask: Ints, special: Bools) -> Bools:
    """Return which token is the first of its text's own, or of its window's, shape (texts, length)."""
    of_text = (mask == 1) & ~special
    return np.asarray(of_text & (of_text.cumsum(axis=1) == 1))


def _medians(values: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return the median of the kept numbers along the last axis, of an even number the mean of the middle two."""
    import torch

    ordered = values.masked_fill(~kept, torch.inf).sort(dim=-1).values
    lengths = kept.sum(dim=-1, keepdim=True).expand(*values.shape[:-1], 1)
    low, high = (ordered.gather(-1, middle.clamp(min=0)) for middle in ((lengths - 1) // 2, lengths // 2))
    return ((low + high) / 2)[..., 0]
