from __future__ import annotations

from collections import defaultdict

from oracles.recogniser import FORMS, NAMES, NOUNS

from reporter.texts import lexicon
from reporter.texts.lexicon import CONTENT_WORDS, FUNCTION_WORDS, WORDS, nouns, verbs


def test_size_and_kinds():
    assert len(WORDS) > 600 and tuple(sorted(set(WORDS))) == WORDS
    assert not FUNCTION_WORDS & CONTENT_WORDS and set(WORDS) == FUNCTION_WORDS | CONTENT_WORDS
    assert all(word.isalpha() and word.islower() and word.isascii() for word in WORDS)


def test_no_form_belongs_to_two_kinds_of_word():
    kinds = defaultdict(set)
    adjectives = {word for words in lexicon.ADJECTIVES.values() for word in words}
    adverbs = {*lexicon.MANNER, *(word for words in lexicon.WHEN.values() for word in words)}
    for kind, forms in {
        "noun": NOUNS,
        "name": NAMES,
        "verb": FORMS,
        "adjective": adjectives,
        "adverb": adverbs,
        "small": FUNCTION_WORDS,
    }.items():
        for form in forms:
            kinds[form].add(kind)
    assert {form: found for form, found in kinds.items() if len(found) > 1} == {}
    assert all(len(found) == 1 for found in NOUNS.values()), "a noun is in one class, singular or plural"
    assert all(len(found) == 1 for found in FORMS.values()), "a verb form tells number and tense"


def test_every_list_has_no_word_twice():
    lists = [*lexicon.NOUNS.values(), *lexicon._VERBS, *lexicon.ADJECTIVES.values(), lexicon.MANNER]
    for words in lists:
        assert len(words) == len(set(words))


def test_inflection():
    assert [noun.plural for noun in nouns("dog box bush church berry boy mouse/mice")] == [
        *("dogs", "boxes", "bushes", "churches", "berries", "boys", "mice")
    ]
    assert [(verb.third, verb.past) for verb in verbs("chase carry pray watch pass stop/stopped bite/bit")] == [
        *(("chases", "chased"), ("carries", "carried"), ("prays", "prayed"), ("watches", "watched")),
        *(("passes", "passed"), ("stops", "stopped"), ("bites", "bit")),
    ]
    assert [noun.pronouns for noun in nouns("king queen friend", he="king", she="queen")] == [
        *(("he",), ("she",), ("he", "she"))
    ]
    assert nouns("key")[0].pronouns == ("it",)
