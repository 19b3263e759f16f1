"""Losses and the logit lens, written from their definitions."""

from __future__ import annotations

import numpy as np


def log_softmax(x):
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def lens(states, vectors):
    """Return {(statistic, layer): mean}; ``vectors`` is (width, vocabulary)."""
    read = [log_softmax(x @ vectors) for x in states]
    found = {}
    for layer, log_p in enumerate(read):
        found["entropy", layer] = -(np.exp(log_p) * log_p).sum(axis=1).mean()
        found["kl", layer] = (np.exp(read[-1]) * (read[-1] - log_p)).sum(axis=1).mean()
    return found


def loss(model, head, corpus, view):
    """Return the mean loss over the tokens of a view, and how many are predicted."""
    kept = set(zip(view.texts.tolist(), view.positions.tolist(), strict=True))
    losses = []
    for text in np.unique(corpus.texts):
        ids = corpus.ids[corpus.texts == text]
        special = corpus.special[corpus.texts == text]
        if head.kind == "causal":
            log_p = log_softmax(model.reference(ids)[-1] @ head.vectors)
            own = [(t, -log_p[t - 1, ids[t]]) for t in range(1, len(ids)) if not special[t]]
        else:
            hidden = masked(int(text), len(ids)) & ~special
            log_p = log_softmax(model.reference(np.where(hidden, head.mask_id, ids))[-1] @ head.vectors)
            own = [(t, -log_p[t, ids[t]]) for t in np.flatnonzero(hidden)]
        losses += [value for t, value in own if (text, t) in kept]
    return np.mean(losses), len(losses)


def masked(text, length, seed=0):
    """Return which positions are hidden: SplitMix64 of seed, text and position, below 15 % of 2**64."""
    mask = 2**64 - 1

    def mix(x):
        x = (x + 0x9E3779B97F4A7C15) & mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return x ^ (x >> 31)

    return np.array([mix(mix(mix(seed) ^ text) ^ position) < 0.15 * 2**64 for position in range(length)])
