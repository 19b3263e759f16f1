"""A classifier with one hidden layer: the second probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEPS = 40
RATE = 0.1  # over √d: a step of Adam moves every weight by about the rate, and a unit sums up d of them
DECAY = 3.0
_BETAS = (0.9, 0.999)

SAID = (
    f"one hidden layer of rectified linear units, weights drawn from N(0, 2/inputs); {STEPS} full-batch steps of AdamW "
    f"(rate {RATE}/√d for d dimensions, falling to 0 along a cosine; weight decay {DECAY:g}; moments 0.9 and 0.999) on "
    "the mean of −log p(class), in float32 on the CPU"
)


def fit(x: Floats, y: Ints, classes: int, hidden: int, rng: np.random.Generator) -> list[torch.Tensor]:
    """Return weights (d, hidden), biases (hidden,), weights (hidden, classes), biases (classes,).

    Args:
        x: standardised vectors, (n, d).
        y: class of each, 0 … classes − 1, (n,).
        classes: how many there are.
        hidden: units of the hidden layer.
        rng: draws the first weights.
    """
    import torch

    inputs, wanted = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)
    shapes = [(x.shape[1], hidden), (hidden,), (hidden, classes), (classes,)]
    weights = [
        torch.from_numpy((rng.standard_normal(s) * (2 / s[0]) ** 0.5 if len(s) > 1 else np.zeros(s)).astype(np.float32))
        for s in shapes
    ]
    for weight in weights:
        weight.requires_grad_(True)
    firsts, seconds = [torch.zeros_like(w) for w in weights], [torch.zeros_like(w) for w in weights]
    for step in range(STEPS):
        rate = RATE / x.shape[1] ** 0.5 * (1 + np.cos(np.pi * step / STEPS)) / 2
        loss = torch.nn.functional.cross_entropy(_logits(inputs, weights), wanted)
        slopes = torch.autograd.grad(loss, weights)
        # AdamW by hand: importing torch.optim's takes longer than all of this.
        with torch.no_grad():
            for weight, slope, first, second in zip(weights, slopes, firsts, seconds, strict=True):
                first.lerp_(slope, 1 - _BETAS[0])
                second.mul_(_BETAS[1]).addcmul_(slope, slope, value=1 - _BETAS[1])
                spread = (second / (1 - _BETAS[1] ** (step + 1))).sqrt_().add_(1e-8)
                weight.mul_(1 - rate * DECAY).addcdiv_(first, spread, value=-rate / (1 - _BETAS[0] ** (step + 1)))
    return [weight.detach() for weight in weights]


def predict(x: Floats, weights: list[torch.Tensor]) -> Ints:
    """Return the most probable class of each vector, (n,)."""
    import torch

    found: Ints = _logits(torch.from_numpy(x.astype(np.float32)), weights).argmax(dim=1).numpy()
    return found


def _logits(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    a, b, c, d = weights
    return (x @ a + b).relu() @ c + d
