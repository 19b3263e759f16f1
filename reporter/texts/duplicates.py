"""Texts that say the same: they are one observation, however often a corpus repeats them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def originals(texts: Iterable[str]) -> NDArray[np.int64]:
    """Return for each text the place of the first one with the same content, shape (texts,): its own unless it repeats.

    Contents are told apart by 64-bit hashes, so that 8 bytes of each text are held and no text is.
    """
    hashes = (hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts)
    keys = np.fromiter((int.from_bytes(key, "little") for key in hashes), dtype=np.uint64)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first[which].astype(np.int64)
