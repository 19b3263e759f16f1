"""Which kind of token a token is: ordinary, special or sink; every token is exactly one of them.

Why it matters: one sink in 64 tokens moves the share of the first principal component from 0.003 to 0.995, and
Queipo-de-Llano et al. 2025 (arXiv:2510.06477) tie the compression of decoders in their middle layers to the massive
norm of the first token. So whether sinks count must be a switch that a reader can flip, and the rule must not depend
on the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

ORDINARY, SPECIAL, SINK = 0, 1, 2
STRATA = ("ordinary", "special", "sink")
SINK_FACTOR = 8.0


def strata(norms: torch.Tensor, mask: NDArray[np.int64], special: NDArray[np.bool_], causal: bool) -> NDArray[np.int8]:
    """Return the stratum of each token, shape (texts, length); padding has no meaning.

    A sink is a token that the tokenizer did not add and that stands at position 0 of a decoder's input, or whose norm
    at some block exceeds ``SINK_FACTOR`` times the median norm of its own text (special tokens included) there.

    Args:
        norms: norms of the block outputs, shape (blocks, texts, length).
        mask: 1 for a token, 0 for padding.
        special: True where the tokenizer added the token.
        causal: True for a decoder.
    """
    large = (norms > SINK_FACTOR * text_medians(norms, mask)[:, :, None]).any(dim=0).cpu().numpy()
    if causal:
        large[:, 0] = True
    return np.where(special, SPECIAL, np.where(large, SINK, ORDINARY)).astype(np.int8)


def text_medians(norms: torch.Tensor, mask: NDArray[np.int64]) -> torch.Tensor:
    """Return the median norm of each text at each block, shape (blocks, texts); the mean of the middle two if even."""
    import torch

    kept = torch.as_tensor(mask, device=norms.device, dtype=torch.bool)
    ordered = norms.masked_fill(~kept, torch.inf).sort(dim=-1).values
    lengths = kept.sum(dim=-1)
    low = ((lengths - 1) // 2).expand(norms.shape[:2])[..., None]
    high = (lengths // 2).expand(norms.shape[:2])[..., None]
    return ((ordered.gather(-1, low) + ordered.gather(-1, high)) / 2)[..., 0]
