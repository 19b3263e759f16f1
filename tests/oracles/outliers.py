"""Outliers by brute force, text by text and pair by pair."""

from __future__ import annotations

import numpy as np


def massive(x, texts, everything, all_texts):
    """Return which rows of x have a massive activation; medians are taken over whole texts."""
    medians = {text: np.median(np.abs(everything[all_texts == text])) for text in np.unique(texts)}
    return [
        bool(((np.abs(row) > 100) & (np.abs(row) > 1000 * medians[t])).any()) for row, t in zip(x, texts, strict=True)
    ]


def cosine_parts(x):
    """Return the mean over all ordered pairs of different rows of u_j v_j, shape (d,)."""
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    products = np.einsum("ij,kj->ikj", units, units)
    products[np.arange(len(x)), np.arange(len(x))] = 0
    return products.sum(axis=(0, 1)) / (len(x) * (len(x) - 1))


def outliers(tokens, corpus):
    """Return {(statistic, layer): (value, n)} of a view's tokens; the parts of the cosine are summed, not paired."""
    words = ~tokens.special
    found = {("sink_share", None): (tokens.sink.sum() / words.sum(), int(words.sum()))}
    for layer, x in enumerate(tokens.states):
        units = x / np.linalg.norm(x, axis=1, keepdims=True)
        n, mean = len(x), x.mean(axis=0)
        parts = (units.sum(axis=0) ** 2 - (units**2).sum(axis=0)) / (n * (n - 1))
        share = np.sort(parts)[-3:].sum() / parts.sum()
        for name, value in {
            "massive": np.mean(massive(x, tokens.texts, corpus.states[layer], corpus.texts)),
            "largest": np.abs(x).max(),
            "largest_ratio": np.abs(x).max() / np.sqrt(np.mean(x**2)),
            "dimensions": (np.abs(mean - mean.mean()) > 3 * mean.std()).sum(),
            "top3_cosine_share": share if parts.sum() > 4 * np.sqrt(2 / x.shape[1]) / n else None,
        }.items():
            found[name, layer] = (value, n)
        for name, which in {"sink": tokens.sink, "first": tokens.positions == 0}.items():
            ratios = norm_ratios(tokens, corpus, layer, np.flatnonzero(which))
            found[f"{name}_norm_ratio", layer] = (np.mean(ratios) if ratios else None, len(ratios))
    return found | sensitivity(corpus)


def norm_ratios(tokens, corpus, layer, rows):
    """Return the norms of some tokens over the median norm of those of their text that are no sinks and not first."""
    found = []
    others = ~corpus.any_sink & (corpus.positions != 0)
    for row in rows:
        same_text = corpus.states[layer][others & (corpus.texts == tokens.texts[row])]
        if len(same_text):
            norms = np.linalg.norm(same_text, axis=1)
            found.append(np.linalg.norm(tokens.states[layer][row]) / np.median(norms))
    return found


def massive_types(corpus):
    """Return {(dimension, token id, at position 0, own): facts} of every massive activation, coordinate by coordinate.

    The facts are texts, tokens, positions, layers, the largest value and the first layer where it is.
    """
    where = {}
    for layer, states in enumerate(corpus.states):
        for text in np.unique(corpus.texts):
            rows = np.flatnonzero(corpus.texts == text)
            sizes = np.abs(states[rows])
            for row, j in zip(*np.nonzero((sizes > 100) & (sizes > 1000 * np.median(sizes))), strict=True):
                token = rows[row]
                key = (int(j), int(corpus.ids[token]), bool(corpus.positions[token] == 0), not corpus.special[token])
                where.setdefault(key, []).append((layer, int(token), float(states[token, j])))
    found = {}
    for key, seen in where.items():
        layers, rows, values = (list(column) for column in zip(*seen, strict=True))
        at = int(np.argmax(np.abs(values)))
        positions = corpus.positions[rows]
        found[key] = {
            "texts": len(set(corpus.texts[rows].tolist())),
            "count": len(set(rows)),
            "positions": (positions.min(), positions.max()),
            "layers": (min(layers), max(layers)),
            "value": values[at],
            "layer": layers[at],
        }
    return found


def sensitivity(corpus):
    """Return how far λ1/Σλ moves where a coordinate must weigh from a quarter to four times as much as all others."""
    found = {}
    inside = ~corpus.special & ~corpus.first
    for layer, states in enumerate(corpus.states):
        shares = []
        for cut in (0.25, 0.5, 1, 2, 4):
            values = np.linalg.eigvalsh(np.cov(states[inside & (corpus.dominance <= cut)].T, bias=True))
            shares.append(values[-1] / values.sum())
        found["sink_sensitivity", layer] = (max(shares) - min(shares), int((inside & (corpus.dominance <= 0.25)).sum()))
    return found
