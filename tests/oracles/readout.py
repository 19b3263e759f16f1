"""Losses and the logit lens, written from their definitions."""

import numpy as np


def masked(text, length, seed=0):
    """Return which positions are hidden: SplitMix64 of seed, text and position, below 15 % of 2**64."""
    mask = 2**64 - 1

    def mix(x):
        x = (x + 0x9E3779B97F4A7C15) & mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return x ^ (x >> 31)

    return np.array([mix(mix(mix(seed) ^ text) ^ position) < 0.15 * 2**64 for position in range(length)])
