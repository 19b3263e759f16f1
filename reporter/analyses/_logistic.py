"""Multinomial logistic regression: the linear probe, and the classifier that tells clouds apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PENALTY = 0.1
"""λ of ``fit``."""
STEPS = 100  # of L-BFGS at most

SAID = (
    "multinomial logistic regression: minimises the mean of −log p(class) + (λ/2)·‖W‖² with λ = 0.1, the intercepts "
    f"free, from W = 0 by at most {STEPS} steps of L-BFGS (scikit-learn's LogisticRegression with "
    "C = 1/(λ·n), with two classes 2/(λ·n), n training texts)"
)


def fit(x: Floats, y: Ints, classes: int, penalty: float = PENALTY) -> tuple[Floats, Floats]:
    """Return weights (classes, d) and intercepts (classes,).

    Args:
        x: standardised vectors, (n, d).
        y: class of each, 0 … classes − 1, (n,).
        classes: how many there are.
        penalty: λ.
    """
    from scipy.optimize import minimize

    n, d = x.shape
    wanted = np.eye(classes)[y]

    def loss(flat: Any) -> tuple[float, Floats]:
        weights, intercepts = flat[: classes * d].reshape(classes, d), flat[classes * d :]
        logits = x @ weights.T + intercepts
        logits -= logits.max(axis=1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        off = (np.exp(logs) - wanted) / n
        value = -float((logs * wanted).sum()) / n + penalty / 2 * float((weights * weights).sum())
        return value, np.concatenate([(off.T @ x + penalty * weights).ravel(), off.sum(axis=0)])

    options = {"maxiter": STEPS, "gtol": 1e-5, "ftol": 1e-10}
    found = minimize(loss, np.zeros(classes * (d + 1)), jac=True, method="L-BFGS-B", options=options).x
    return found[: classes * d].reshape(classes, d), found[classes * d :]


def predict(x: Floats, model: tuple[Floats, Floats]) -> Ints:
    """Return the most probable class of each vector, (n,); the first of equal ones."""
    weights, intercepts = model
    return np.asarray((x @ weights.T + intercepts).argmax(axis=1))
