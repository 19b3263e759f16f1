"""Keys for what a model saw when it made a state, so that equal states can be told without comparing floats.

Batched floats are not bitwise reproducible, and a decoder gives every text that begins with "The" nearly the same
first state. Two states are duplicates if the model saw the same thing: the same prefix of token ids (decoder), or the
same whole text and position (encoder). What enters the first block depends on less: the token id, and the position
where position vectors are added.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]


def mix(x: Keys) -> Keys:
    """Scramble 64-bit integers so that near inputs give unrelated outputs (the finaliser of SplitMix64).

    Source: Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators".
    """
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def key_of(*parts: NDArray[np.int64] | int) -> Keys:
    """Return one key for each element of the (broadcast) integer arrays; the order of the parts matters."""
    key = np.zeros(1, dtype=np.uint64)
    for part in parts:
        key = mix(key ^ np.asarray(part, dtype=np.int64).astype(np.uint64))
    return key


def prefix_keys(ids: NDArray[np.int64], seed: int) -> Keys:
    """Return a key for each prefix of each row of ``ids``, shape (texts, length): the key at t covers ids[: t + 1]."""
    keys = np.empty(ids.shape, dtype=np.uint64)
    running = np.broadcast_to(key_of(seed), ids.shape[:1]).copy()
    for t in range(ids.shape[1]):
        running = mix(running ^ ids[:, t].astype(np.uint64))
        keys[:, t] = running
    return keys


def context_keys(ids: NDArray[np.int64], lengths: NDArray[np.int64], causal: bool, seed: int) -> Keys:
    """Return what decided the states of the blocks, shape (texts, length); entries past a text's length mean nothing.

    Args:
        ids: right-padded token ids, shape (texts, length).
        lengths: tokens of each text, shape (texts,).
        causal: True for a decoder, whose state at t depends on ids[: t + 1] alone.
        seed: changes which contexts a bottom-k sample keeps.
    """
    prefixes = prefix_keys(ids, seed)
    if causal:
        return prefixes
    whole = prefixes[np.arange(len(ids)), lengths - 1]
    positions = np.arange(ids.shape[1], dtype=np.uint64)
    return mix(whole[:, None] ^ mix(positions)[None, :])


def embedding_keys(ids: NDArray[np.int64], positions_added: bool) -> Keys:
    """Return what decided the states that enter the first block, shape (texts, length)."""
    positions = np.arange(ids.shape[1])[None, :] if positions_added else np.zeros((1, 1), dtype=np.int64)
    return key_of(ids, positions)
