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
RATE = 0.01
DECAY = 1.0

SAID = (
    f"one hidden layer of rectified linear units, weights drawn from N(0, 2/inputs); {STEPS} full-batch steps of AdamW "
    f"(rate {RATE}, falling to 0 along a cosine, weight decay {DECAY:g}) on the mean of −log p(class), in float32 on "
    "the CPU"
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
    optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=DECAY)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 + np.cos(np.pi * step / STEPS)) / 2
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(_logits(inputs, weights), wanted).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return [weight.detach() for weight in weights]


def predict(x: Floats, weights: list[torch.Tensor]) -> Ints:
    """Return the most probable class of each vector, (n,)."""
    import torch

    found: Ints = _logits(torch.from_numpy(x.astype(np.float32)), weights).argmax(dim=1).numpy()
    return found


def _logits(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    a, b, c, d = weights
    return (x @ a + b).relu() @ c + d
