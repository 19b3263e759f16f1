"""Massive activations by brute force, text by text."""

import numpy as np


def massive_types(corpus):
    """Return {(dimension, token id, at position 0, own): facts} of every massive activation, coordinate by coordinate.

    The facts are places (layer, token), texts, tokens, positions, layers, the largest value and its first layer.
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
            "places": list(zip(layers, rows, strict=True)),
            "texts": len(set(corpus.texts[rows].tolist())),
            "count": len(set(rows)),
            "positions": (positions.min(), positions.max()),
            "layers": (min(layers), max(layers)),
            "value": values[at],
            "layer": layers[at],
        }
    return found
