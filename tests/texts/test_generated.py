"""Texts that are made up: what their words and lengths are drawn from, and that every sentence is well-formed."""

import hashlib
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from oracles.recogniser import FORMS, NAMES, NOUNS, depth, sentences

from reporter.texts import lexicon
from reporter.texts.lexicon import CONTENT_WORDS, FUNCTION_WORDS, WORDS, Draws, nouns, random_words, verbs
from reporter.texts.sources.generated import grammar_texts

PINNED = {  # if one fails, the texts have changed: count up ``GRAMMAR_VERSION`` or ``RANDOM_WORDS_VERSION``, pin anew
    "grammar": "82e898703241b06af920905d1fa74827eef1d5ed332f3b7d85fd4c5610cd6524",
    "random-words": "82a25c24c485f2dd49c2e0b99682aae9dce1ea04258c107d9cc21cc66154cbbb",
}


def make(texts, bounds=(5, 60), seed=0, kind="grammar", words=WORDS):
    drawn = grammar_texts(texts, bounds, seed) if kind == "grammar" else random_words(words, texts, bounds, seed)
    return [record.text for record in drawn]


def tokens(text):
    return re.findall(r"[a-z]+|[.,]", text)


@pytest.fixture(scope="module")
def corpus():
    return make(1000)


@pytest.fixture(scope="module")
def depths():
    """Sentences and how deep their relative clauses nest, None for what is no sentence."""
    return {sentence: depth(sentence) for text in make(300, seed=3) for sentence in sentences(text)}


def test_draws_are_the_raw_numbers_of_pcg64():
    raw = np.random.Generator(np.random.PCG64(7)).integers(0, 2**32, size=4096, dtype=np.uint64)
    draws = Draws(7)
    assert [draws.below(2**32) for _ in range(4096)] == raw[::-1].tolist()
    draws.below(2)  # the next block follows
    assert Draws(7).below(1000) == int(raw[-1]) * 1000 >> 32


def test_each_word_of_the_lexicon_has_one_kind_and_is_listed_once():
    assert len(WORDS) > 600 and tuple(sorted(set(WORDS))) == WORDS
    assert not FUNCTION_WORDS & CONTENT_WORDS and set(WORDS) == FUNCTION_WORDS | CONTENT_WORDS
    assert all(word.isalpha() and word.islower() and word.isascii() for word in WORDS)
    adjectives = {word for words in lexicon.ADJECTIVES.values() for word in words}
    adverbs = {*lexicon.MANNER, *(word for words in lexicon.WHEN.values() for word in words)}
    kinds = Counter(form for forms in (NOUNS, NAMES, FORMS, adjectives, adverbs, FUNCTION_WORDS) for form in set(forms))
    assert {form for form, count in kinds.items() if count > 1} == set()
    assert all(len(readings) == 1 for readings in NOUNS.values()), "a noun is in one class, singular or plural"
    assert all(len(readings) == 1 for readings in FORMS.values()), "a verb form tells number and tense"
    for words in (*lexicon.NOUNS.values(), *lexicon._VERBS, *lexicon.ADJECTIVES.values(), lexicon.MANNER):
        assert len(words) == len(set(words))


def test_inflection():
    plurals = [noun.plural for noun in nouns("dog box bush church berry boy mouse/mice")]
    assert plurals == ["dogs", "boxes", "bushes", "churches", "berries", "boys", "mice"]
    forms = [(verb.third, verb.past) for verb in verbs("chase carry pray watch pass stop/stopped bite/bit")]
    thirds = ("chases", "carries", "prays", "watches", "passes", "stops", "bites")
    pasts = ("chased", "carried", "prayed", "watched", "passed", "stopped", "bit")
    assert forms == list(zip(thirds, pasts, strict=True))
    pronouns = [noun.pronouns for noun in nouns("king queen friend", he="king", she="queen")]
    assert pronouns == [("he",), ("she",), ("he", "she")]
    assert nouns("key")[0].pronouns == ("it",)


@pytest.mark.parametrize("kind", PINNED)
def test_the_same_seed_gives_the_same_bytes_for_ever_and_another_other_texts(kind):
    texts = make(50, kind=kind)
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest() == PINNED[kind]
    assert not set(texts) & set(make(50, seed=1, kind=kind))


def test_random_words_are_uniform_and_independent_and_so_are_lengths():
    lengths = Counter(len(text.split()) for text in make(4000, (3, 12), kind="random-words"))
    assert set(lengths) == set(range(3, 13)) and max(lengths.values()) / min(lengths.values()) < 1.4
    assert {len(text.split()) for text in make(20, (1, 1), kind="random-words")} == {1}
    words = "abcdefgh"
    drawn = [text.split() for text in make(3000, (20, 20), kind="random-words", words=words)]
    counts = np.array([Counter(word for text in drawn for word in text)[word] for word in words])
    assert np.abs(counts / counts.sum() - 1 / 8).max() < 0.005
    pairs = Counter(pair for text in drawn for pair in pairwise(text))
    assert len(pairs) == 64 and max(pairs.values()) / min(pairs.values()) < 1.4


@pytest.mark.parametrize("bounds", [(1, 1), (2, 2), (3, 3), (4, 6), (1, 12), (59, 60)])
def test_lengths_stay_within_any_bounds(bounds):
    texts = make(30, bounds)
    assert {len(text.split()) for text in texts} <= set(range(bounds[0], bounds[1] + 1))
    assert all(depth(sentence) is not None for text in texts for sentence in sentences(text))


def test_every_sentence_is_well_formed_and_relative_clauses_nest_up_to_three_deep(depths):
    assert len(depths) > 800
    assert [sentence for sentence, nested in depths.items() if nested is None] == []
    shares = {nested: count / len(depths) for nested, count in Counter(depths.values()).items()}
    assert 0.6 < shares[0] < 0.85 and 0.12 < shares[1] < 0.35 and 0.01 < shares[2] < 0.1
    assert set(shares) == {0, 1, 2, 3}
    assert depth("the cat that the dog the wolves fear chases sleeps") == 2
    assert depth("the cat that the dog that the wolves that sleep fear chases sleeps") == 3


def test_what_a_recogniser_must_refuse():
    for wrong in (
        "the cats sleeps",
        "the cat that the dogs chase sleep",
        "a apple rots",
        "these dog sleeps",
        "the boy washes herself",
        "yesterday, the dog sleeps",
        "the knife sings",
        "the dog writes a letter",
        "the dog who sleeps runs",
        "the king sings, and she sleeps",
        "there is some dogs",
        "the cat that the dog chases",
    ):
        assert depth(wrong) is None, wrong


def test_only_words_of_the_lexicon_and_every_kind_of_them(corpus):
    used = {token for text in corpus for token in tokens(text)} - {".", ","}
    assert used <= set(WORDS)
    assert len(used) > 600 and used >= FUNCTION_WORDS
    assert all(re.fullmatch(r"[a-z]+(,? [a-z]+)*\.( [a-z]+(,? [a-z]+)*\.)*", text) for text in corpus[:200])
