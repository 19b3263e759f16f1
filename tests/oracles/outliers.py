"""Outliers by brute force, text by text and pair by pair."""

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
