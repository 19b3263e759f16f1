"""Texts with structure: English sentences of a context-free grammar with agreement, tense and real nesting.

What a model can learn from them: nouns and their determiners, verbs and reflexives agree in number (also
across relative clauses and prepositional phrases, whose own nouns distract), pronouns agree with whom they
stand for, "a" and "an" go with the next sound, a sentence keeps to one tense and its adverbs of time, verbs
go with certain subjects and objects, and a text comes back to the nouns it has mentioned. Relative clauses
stand between a subject and its verb, up to three deep: "the cat that the dog the wolves fear chases sleeps."

Everything is in lower case, so that each word has one form and the texts have the very vocabulary of
``random-words``; full stops and commas are attached to the word before them, as in any English text.
"""

from __future__ import annotations

from collections.abc import Iterator

from reporter.texts.draws import Draws
from reporter.texts.inflection import Noun
from reporter.texts.lexicon import NounClass
from reporter.texts.record import Record
from reporter.texts.sentence import Sentence

VERSION = 1  # counts up whenever the same seed gives other texts

_TRIES = 40  # sentences drawn until one fits into what is left of a text
_SHORTEST_REST = 4  # words to leave for a last sentence: shorter sentences are rare


def grammar_texts(texts: int, bounds: tuple[int, int], seed: int) -> Iterator[Record]:
    """Yield texts of k words, k uniform in ``bounds``; each is one or more whole sentences.

    Args:
        texts: how many texts.
        bounds: fewest and most words of a text.
        seed: another seed gives other texts.
    """
    draws = Draws(seed)
    for _ in range(texts):
        yield Record(_text(draws, draws.between(*bounds)))


def _text(draws: Draws, words: int) -> str:
    """Return sentences with exactly ``words`` words together."""
    familiar: dict[NounClass, list[Noun]] = {}
    sentences: list[str] = []
    while words:
        for _ in range(_TRIES):
            sentence = Sentence(draws, familiar)
            sentence.begin()
            left = words - len(sentence.words)
            if left == 0 or left >= _SHORTEST_REST:
                break
        else:
            sentence = Sentence(draws, familiar)
            sentence.begin_with_length(words)
        words -= len(sentence.words)
        sentences.append(str(sentence))
        familiar = sentence.familiar
    return " ".join(sentences)
