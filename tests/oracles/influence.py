"""Standard deviations over corpora by brute force: texts are drawn again, and every number computed from scratch."""

import numpy as np


def numbers(x, types, weights):
    """Return the headline numbers of states with integer weights, straight from their definitions.

    Args:
        x: states, (n, d).
        types: token id of each, (n,).
        weights: how often each occurs, (n,).
    """
    x, types = np.repeat(x, weights, axis=0), np.repeat(types, weights)
    d = x.shape[1]
    spectrum = np.linalg.eigvalsh(np.cov(x.T, bias=True))[::-1].clip(1e-300)
    p = spectrum / spectrum.sum()
    ratio = 1 / (p @ p)
    rank = np.arange(1, d // 2 + 1)
    slope = np.polynomial.polynomial.polyfit(np.log(rank), np.log(spectrum[: d // 2]), 1, w=rank**-0.5)[1]
    centred = x - x.mean(axis=0)
    found = {
        "anisotropy.top_variance_share": p[0],
        "anisotropy.isoscore": (ratio - 1) / (d - 1),
        "anisotropy.mean_cosine": mean_cosine(x),
        "anisotropy.mean_cosine_centred": mean_cosine(centred),
        "anisotropy.mean_cosine_standardised": mean_cosine(centred / x.std(axis=0)),
        "spectrum.effective_rank": np.exp(-(p @ np.log(p))),
        "spectrum.participation_ratio": ratio,
        "spectrum.stable_rank": 1 / p[0],
        "spectrum.decay": -slope,
    }
    _, group, count = np.unique(types, return_inverse=True, return_counts=True)
    means = np.stack([np.bincount(group, column) for column in x.T], axis=1) / count[:, None]
    within = np.square(x - means[group]).sum(axis=1).mean()
    total = np.square(centred).sum(axis=1).mean()
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    parts = np.square(units.sum(axis=0)) - np.square(units).sum(axis=0)
    found["outliers.top3_cosine_share"] = np.sort(parts)[-3:].sum() / parts.sum()
    return found | {
        "variance.total": total,
        "variance.within": within,
        "variance.between": total - within,
        "variance.within_share": within / total,
        "variance.between_share": 1 - within / total,
        "variance.norm_of_mean": np.linalg.norm(x.mean(axis=0)),
        "variance.mean_square_norm": np.square(x).sum(axis=1).mean(),
    }


def mean_cosine(x):
    total = (x / np.linalg.norm(x, axis=1, keepdims=True)).sum(axis=0)
    return (total @ total - len(x)) / (len(x) * (len(x) - 1))


def deviations(x, types, texts, draws, seed=0):
    """Return the standard deviation of each number over bootstrap draws of whole texts."""
    return {name: found.std() for name, found in drawn_again(x, types, texts, draws, seed).items()}


def drawn_again(x, types, texts, draws, seed=0):
    """Return each number in bootstrap draws of whole texts, (draws,); with one seed the same draws of any states."""
    rng = np.random.default_rng(seed)
    _, text = np.unique(texts, return_inverse=True)
    count = text.max() + 1
    weights = rng.multinomial(count, np.full(count, 1 / count), draws)
    found = [numbers(x, types, of_texts[text]) for of_texts in weights]
    return {name: np.array([one[name] for one in found]) for name in found[0]}
