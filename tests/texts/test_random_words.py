from __future__ import annotations

import hashlib
from collections import Counter
from itertools import pairwise

import numpy as np

from reporter.texts.lexicon import WORDS, random_words

PINNED = "82a25c24c485f2dd49c2e0b99682aae9dce1ea04258c107d9cc21cc66154cbbb"


def make(texts=500, bounds=(5, 60), seed=0, words=WORDS):
    return [record.text for record in random_words(words, texts, bounds, seed)]


def test_the_same_seed_gives_the_same_bytes_for_ever():
    """If this fails, the texts have changed: count up ``RANDOM_WORDS_VERSION``, pin the new hash."""
    digest = hashlib.sha256("\n".join(make(50)).encode()).hexdigest()
    assert digest == PINNED


def test_another_seed_gives_other_texts():
    assert not set(make(50)) & set(make(50, seed=1))


def test_lengths_are_uniform_within_the_bounds():
    lengths = [len(text.split()) for text in make(4000, (3, 12))]
    counts = Counter(lengths)
    assert set(counts) == set(range(3, 13))
    assert max(counts.values()) / min(counts.values()) < 1.4
    assert {len(text.split()) for text in make(20, (1, 1))} == {1}


def test_words_are_uniform_and_independent():
    words = "abcdefgh"
    drawn = [text.split() for text in make(3000, (20, 20), words=words)]
    counts = np.array([Counter(word for text in drawn for word in text)[word] for word in words])
    assert np.abs(counts / counts.sum() - 1 / 8).max() < 0.005
    pairs = Counter(pair for text in drawn for pair in pairwise(text))
    assert len(pairs) == 64 and max(pairs.values()) / min(pairs.values()) < 1.4
