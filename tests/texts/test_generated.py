"""Texts that are made up: the same bytes for ever, and what their words and lengths are drawn from."""

import hashlib
import re

import pytest

from reporter.texts.lexicon import CONTENT_WORDS, FUNCTION_WORDS, WORDS, random_words
from reporter.texts.sources.generated import grammar_texts

# If one fails, the texts have changed: count up ``GRAMMAR_VERSION`` or ``RANDOM_WORDS_VERSION``, read them, pin anew. A
# parser for this English, written by hand from rules of grammar, took every sentence of these texts for well-formed.
PINNED = {
    "grammar": "354814cd88e7057442ddd657e3fe95ad0e66e796e3b13a1fcb74ba7eac1d7aa5",
    "random-words": "1acbe8d9c0576deaac314b03022f91218e02bfd5b27e169f4c12fac0d61abab2",
}
BOUNDS = [(1, 1), (2, 2), (3, 3), (4, 6), (1, 12)]


def make(texts, bounds=(5, 60), seed=0, kind="grammar"):
    drawn = grammar_texts(texts, bounds, seed) if kind == "grammar" else random_words(WORDS, texts, bounds, seed)
    return [record.text for record in drawn]


@pytest.mark.parametrize("kind", PINNED)
def test_the_same_seed_gives_the_same_bytes_for_ever_and_another_other_texts(kind):
    several = [make(1000, kind=kind), *(make(50, bounds, kind=kind) for bounds in [*BOUNDS, (59, 60)])]
    written = "\n".join(text for texts in several for text in texts)
    assert hashlib.sha256(written.encode()).hexdigest() == PINNED[kind]
    assert not set(several[0]) & set(make(50, seed=1, kind=kind))


def test_only_words_of_the_lexicon_and_every_kind_of_them():
    used = {word for text in make(1000) for word in re.findall(r"[a-z]+", text)}
    assert len(used) > 600 and FUNCTION_WORDS <= used <= set(WORDS)
    assert tuple(sorted(set(WORDS))) == WORDS and all(word.islower() and word.isascii() for word in WORDS)
    assert not FUNCTION_WORDS & CONTENT_WORDS and set(WORDS) == FUNCTION_WORDS | CONTENT_WORDS
