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


IMBALANCES: dict[tuple[str, str], float] = {
    ("xy", "xyz"): 0.011025,
    ("xyz", "xy"): 0.008275,
    ("x", "xyz"): 0.490075,
    ("xyz", "x"): 0.079875,
    ("x", "xy"): 0.488837,
    ("xy", "x"): 0.068663,
    ("bent", "xyz"): 0.590938,
    ("xyz", "bent"): 0.194300,
    ("bent", "xy"): 0.590612,
    ("xy", "bent"): 0.169737,
    ("bent", "x"): 0.293925,
    ("x", "bent"): 0.011712,
    ("bent", "other"): 1.064463,
    ("other", "bent"): 1.011900,
    ("other", "xyz"): 0.983050,
    ("xyz", "other"): 0.966425,
    ("other", "xy"): 0.982288,
    ("xy", "other"): 0.971287,
    ("other", "x"): 0.969112,
    ("x", "other"): 1.040575,
}
"""Δ(A → B) of each two of the spaces."""


def main() -> None:
    """Print the table as DADApy returns them."""
    from dadapy import MetricComparisons

    drawn = spaces()
    for a, x in drawn.items():
        for b, y in drawn.items():
            if a < b:
                both = MetricComparisons(np.hstack([x, y]), maxk=len(x) - 1)
                of_a, of_b = list(range(x.shape[1])), list(range(x.shape[1], x.shape[1] + y.shape[1]))
                there, back = both.return_inf_imb_two_selected_coords(of_a, of_b)
                print(f'    ("{a}", "{b}"): {float(there):.6f},\n    ("{b}", "{a}"): {float(back):.6f},')


if __name__ == "__main__":
    main()
