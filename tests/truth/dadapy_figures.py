"""What DADApy 0.3.4 (Glielmo et al. 2022, Patterns 3, 100589) returns for clouds of points that any NumPy draws alike.

DADApy wants a NumPy below 2 and so cannot stand beside the packages that this project is tested with. Its figures are
written down here, and ``python tests/truth/dadapy_figures.py`` prints them again in an environment of its own, one with
``pip install dadapy==0.3.4``. NumPy is all that this file needs otherwise.

Its information imbalance is 2/N · mean rank over N states, as ours; of neighbours that are equally far it takes one.
"""

import numpy as np


def spaces() -> dict[str, np.ndarray]:
    """Return spaces of the same 400 points: the whole, two of its coordinates, one of them bent, and one unrelated."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((400, 3)) * [1, 1, 0.1]
    return {"xyz": x, "xy": x[:, :2], "x": x[:, :1], "bent": x[:, :1] ** 3 - x[:, :1], "other": rng.random((400, 2))}


IMBALANCES = np.array([
    [0.000000, 0.008275, 0.079875, 0.194300, 0.966425],
    [0.011025, 0.000000, 0.068663, 0.169737, 0.971287],
    [0.490075, 0.488837, 0.000000, 0.011712, 1.040575],
    [0.590938, 0.590612, 0.293925, 0.000000, 1.064463],
    [0.983050, 0.982288, 0.969112, 1.011900, 0.000000],
])  # fmt: skip
"""Δ(A → B) of each two of the spaces, in their order: A by rows, B by columns."""


def main() -> None:
    """Print the table as DADApy returns it."""
    from dadapy import MetricComparisons

    drawn = list(spaces().values())
    found = np.zeros((len(drawn), len(drawn)))
    for i, j in zip(*np.triu_indices(len(drawn), 1), strict=True):
        both, width = np.hstack([drawn[i], drawn[j]]), drawn[i].shape[1]
        parts = list(range(width)), list(range(width, both.shape[1]))
        comparison = MetricComparisons(both, maxk=len(both) - 1)
        found[i, j], found[j, i] = comparison.return_inf_imb_two_selected_coords(*parts)
    print(np.array2string(found, separator=", ", floatmode="fixed", precision=6))


if __name__ == "__main__":
    main()
