"""Half-samples of a corpus, for the error of a number that hangs on the corpus by more than sums over its texts.

Where a corpus of n texts decides a rule (which types are frequent) and the rule decides the number, resampling texts
under a fixed rule leaves out that another corpus would bring another rule. Half of the texts, drawn without
replacement, with the rule made anew from that half, show both: a mean over n/2 of n texts lies as far from the mean
over all n as that lies from the truth, and no text counts twice, so that a type that occurs once stays one that occurs
once. Texts are put into ``GROUPS`` groups by a hash; half-samples are balanced halves of the groups, so that for
anything linear the spread of the halves is exactly the spread of the groups.

Source: Shao & Wu 1989, "A general theory for jackknife variance estimation", Annals of Statistics 17:1176–1197 (halves
hold where the usual jackknife fails, as for a median); McCarthy 1969, "Pseudo-replication: Half samples", Review of the
International Statistical Institute 37:239–264 (balanced halves from a Hadamard matrix).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reporter.forward.contexts import key_of, mix

GROUPS = 64
HALF_SAMPLES = GROUPS - 1


def groups_of(texts: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return the group of each text, 0…63, by a hash of its place in the corpus, shape (texts,).

    Args:
        texts: place in the corpus of each text, or of the first one that says the same, shape (texts,).
        seed: the study's seed.
    """
    return np.asarray(mix(key_of(seed, texts)) >> np.uint64(58), dtype=np.int64)


def _halves() -> NDArray[np.bool_]:
    """Return which groups each half-sample holds: half of them, and of any two halves' groups again half."""
    rows, columns = np.arange(1, GROUPS)[:, None], np.arange(GROUPS)
    odd = np.bitwise_count(rows & columns) % 2 == 1  # Sylvester's Hadamard matrix without its constant row
    return np.asarray(odd ^ (rows % 2 == 1))


HALVES = _halves()
"""Whether half-sample h holds group g, shape (63, 64)."""

FEW_HALVES = HALVES[1::2]
"""Those that hold both or neither of groups 2g and 2g + 1, shape (31, 64): balanced halves of 32 groups, for what takes
long to compute in each."""


def packed(columns: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return 64 booleans a row as the bits of one integer, shape (rows,)."""
    return np.asarray(np.packbits(columns, axis=1, bitorder="little").view(np.int64)[:, 0])


def unpacked(bits: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the bits of each integer, shape (rows, 64)."""
    found = np.unpackbits(np.ascontiguousarray(bits).view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    return found.astype(bool)


def samples_of(texts: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Return which samples hold each text, shape (texts, 64): the 63 half-samples, then the whole corpus."""
    return np.asarray(_SAMPLES[groups_of(texts, seed)])


_SAMPLES = np.concatenate([HALVES.T, np.ones((GROUPS, 1), dtype=bool)], axis=1)
