"""Standard deviations over corpora by brute force: texts are drawn again, and every number computed from scratch."""

import numpy as np

from reporter.app.verify.by_cloud import _centred, _of_types, _top3, effective_rank, eigenvalues, isoscore
from reporter.app.verify.by_token import mean_cosine


def numbers(x, types, weights):
    """Return the main statistics of states with integer weights, by the paths of ``reporter verify``.

    Args:
        x: states, (n, d).
        types: token id of each, (n,).
        weights: how often each occurs, (n,).
    """
    x, types = np.repeat(x, weights, axis=0), np.repeat(types, weights)
    values, d = eigenvalues(x), x.shape[1]
    p, rank = values / values.sum(), np.arange(1, d // 2 + 1)
    result = {
        "anisotropy.top_variance_share": p[0],
        "anisotropy.isoscore": isoscore(values, d),
        "anisotropy.mean_cosine": mean_cosine(x),
        "spectrum.effective_rank": effective_rank(values),
        "spectrum.participation_ratio": 1 / (p @ p),
        "spectrum.stable_rank": 1 / p[0],
        "spectrum.decay": -np.polyfit(np.log(rank), np.log(values[: d // 2]), 1, w=rank**-0.5)[0],
        "outliers.top3_cosine_share": _top3(x),
    }
    result |= {f"anisotropy.{name}": value for name, value in _centred(x, x)}
    return result | {f"variance.{name}": value for name, value in _of_types(x, types) if name != "tradeoff"}


def drawn_again(x, types, texts, draws, seed=0):
    """Return each number in bootstrap draws of whole texts, (draws,); with one seed the same draws of any states."""
    rng = np.random.default_rng(seed)
    _, text = np.unique(texts, return_inverse=True)
    count = text.max() + 1
    weights = rng.multinomial(count, np.full(count, 1 / count), draws)
    result = [numbers(x, types, of_texts[text]) for of_texts in weights]
    return {name: np.array([one[name] for one in result]) for name in result[0]}
