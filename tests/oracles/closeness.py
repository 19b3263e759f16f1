"""States against a vocabulary, from the definitions: everything with everything in float64."""

import numpy as np


def brute_force(x, table, own, nearest=0):
    """Return cosine, distance, ranks and the nearest of each state; vectors equal to the own one are not nearer."""
    sizes = np.linalg.norm(table, axis=1)
    cosines = (x @ table.T) / np.linalg.norm(x, axis=1)[:, None] / np.where(sizes > 0, sizes, 1)
    cosines[:, sizes == 0] = -2  # never near: padding has a vector of zeros
    # ‖x − w‖² without ‖x‖², which would drown the differences of a long x.
    nearness = x @ table.T - (table**2).sum(axis=1) / 2
    each = np.arange(len(x))
    result = {"cosine": cosines[each, own], "distance": np.linalg.norm(x - table[own], axis=1)}
    for name, score in (("cosine", cosines), ("distance", nearness)):
        unequal = (table[None] != table[own][:, None]).any(axis=2)
        scale = 1.0 if name == "cosine" else np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(table, axis=1)
        nearer = (score - score[each, own][:, None] > 1e-14 * scale) & unequal
        result[f"rank_{name}"] = nearer.sum(axis=1)
        rounded = np.round(score / np.abs(score).max(axis=1)[:, None], 14)  # so that equal rows are equal
        result[f"nearest_{name}"] = np.argsort(-rounded, axis=1, kind="stable")[:, :nearest]
    return result
