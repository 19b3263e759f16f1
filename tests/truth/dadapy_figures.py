"""What DADApy 0.3.4 (Glielmo et al. 2022, Patterns 3, 100589) returns for clouds of points that any NumPy draws alike.

DADApy wants a NumPy below 2 and so cannot stand beside the packages that this project is tested with. Its figures are
written down here, and ``python tests/truth/dadapy_figures.py`` prints them again in an environment of its own, one with
``pip install dadapy==0.3.4``. NumPy is all that this file needs otherwise.

Its conventions, where they are not ours:

* TwoNN leaves out the largest tenth of μ, as we do, and F = i/N as well; the maximum-likelihood form has N − 1 over
  Σ log μ, as ours.
* GRIDE solves with N − 1 for the N of the likelihood's slope, and leaves out μ above q50 + 20·(q95 − q50).
* Information imbalance is 2/N · mean rank over N states, as ours; of neighbours that are equally far it takes one.
"""

import numpy as np

SCALES = (1, 2, 4, 8, 16, 32)


def clouds() -> dict[str, np.ndarray]:
    """Return the clouds, each (N, d)."""
    rng = np.random.default_rng(2022)
    t, height = 1.5 * np.pi * (1 + 2 * rng.random(1000)), 21 * rng.random(1000)
    return {
        "two gaussians in a plane": np.concatenate([rng.normal(0, 1, (250, 2)), rng.normal(6, 0.5, (250, 2))]),
        "cube of 5 dimensions": rng.random((1000, 5)),
        "gaussian of 12 dimensions": rng.standard_normal((600, 12)) * np.geomspace(1, 0.1, 12),
        "swiss roll": np.stack([t * np.cos(t), height, t * np.sin(t)], axis=1),
        "few": rng.standard_normal((100, 4)),
    }


def spaces() -> dict[str, np.ndarray]:
    """Return spaces of the same 400 points: the whole, two of its coordinates, one of them bent, and one unrelated."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((400, 3)) * [1, 1, 0.1]
    return {"xyz": x, "xy": x[:, :2], "x": x[:, :1], "bent": x[:, :1] ** 3 - x[:, :1], "other": rng.random((400, 2))}


DIMENSIONS: dict[str, tuple[float, ...]] = {
    "two gaussians in a plane": (2.209164, 2.179006, 2.179006, 2.175073, 2.131420, 2.138826, 2.075263, 1.987112),
    "cube of 5 dimensions": (4.557283, 4.549483, 4.549483, 4.664848, 4.461169, 4.308692, 4.246881, 4.150084),
    "gaussian of 12 dimensions": (8.666253, 8.748475, 8.748475, 7.707413, 7.935317, 7.140561, 6.590507, 5.781088),
    "swiss roll": (2.003113, 1.992998, 1.992998, 1.935748, 1.953882, 1.934181, 1.906296, 2.183614),
    "few": (3.868973, 3.598353, 3.598353, 4.191871, 3.707706, 3.533739, 3.199157, 2.350593),
}
"""By cloud: TwoNN, its maximum-likelihood form, and GRIDE at each of ``SCALES``."""

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
    """Print both tables as DADApy returns them."""
    from dadapy import Data, MetricComparisons

    for name, x in clouds().items():
        of = Data(x, maxk=len(x) - 1)
        found = [of.compute_id_2NN()[0], of.compute_id_2NN(algorithm="ml")[0]]
        found += of.return_id_scaling_gride(range_max=2 * SCALES[-1])[0].tolist()
        print(f'    "{name}": ({", ".join(f"{float(one):.6f}" for one in found)}),')
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
