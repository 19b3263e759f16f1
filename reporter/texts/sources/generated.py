"""Texts made by a rule: sentences of a grammar, or words drawn at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from reporter.core.errors import ReporterError
from reporter.study.corpora import CorpusPart
from reporter.study.offer import Reference
from reporter.study.part import Complaint, Name, failure, two
from reporter.study.recipes import LARGEST_SEED
from reporter.texts import lexicon
from reporter.texts.lexicon import RANDOM_WORDS_VERSION, WORDS, Draws, Noun, NounClass, Verb, random_words
from reporter.texts.sources import Origin, SourceContext, corpus_source, digest
from reporter.texts.texts import Record

# One sentence of the grammar, built from left to right: each method appends one kind of phrase.


DEEPEST = 3  # relative clauses and prepositional phrases inside one another

# Chances in percent; by depth where there are four: a nested phrase is less likely to hold another.
_RELATIVE = (26, 25, 24, 0)
_PREPOSITION = (16, 10, 6, 0)
_AND = (8, 5, 0, 0)
_PLURAL, _NAME, _FAMILIAR = 38, 15, 30

_SENTENCES = {"plain": 56, "joined": 14, "subordinate last": 11, "subordinate first": 10, "there": 9}
_TENSES = {"present": 50, "past": 36, "future": 14}
_SUBJECTS: dict[NounClass, int] = {"person": 50, "animal": 27, "text": 5, "vehicle": 5}
_SUBJECTS |= {"plant": 4, "tool": 3, "idea": 3, "place": 2, "food": 1}
_PREDICATES = {"transitive": 42, "intransitive": 22, "is": 14, "says": 9, "gives": 6, "wants": 6, "self": 4}
_MODIFIERS: dict[NounClass, dict[str, NounClass]] = {  # which preposition leads from which noun to which
    "person": {"from": "place", "with": "tool"},
    "text": {"about": "person", "by": "person"},
    "food": {"from": "place"},
    "idea": {"of": "person"},
}
_REFLEXIVES = {"he": "himself", "she": "herself", "it": "itself", "they": "themselves"}
_NEAR = {"in": 6, "near": 4, "behind": 2, "beside": 2, "under": 1}


@dataclass(frozen=True)
class Referent:
    """The features of a noun phrase with which other words must agree.

    Args:
        noun_class: what kind of thing it is.
        pronoun: "he", "she", "it" or "they".
    """

    noun_class: NounClass
    pronoun: str

    @property
    def plural(self) -> bool:
        """Whether verbs take the plural."""
        return self.pronoun == "they"


class SentenceDraft:
    """A sentence under construction: each method appends the words of one kind of phrase."""

    def __init__(self, draws: Draws, familiar: dict[NounClass, list[Noun]]) -> None:
        self.draws = draws
        self.words: list[str] = []
        self.familiar = {noun_class: list(nouns) for noun_class, nouns in familiar.items()}
        self.tense = draws.weighted(_TENSES)

    def __str__(self) -> str:
        return " ".join(self.words) + "."

    def begin(self) -> None:
        """sentence -> [when ","] clause [when] | clause "," conjunction clause | ... | there is np place."""
        kind = self.draws.weighted(_SENTENCES)
        when = self.draws.below(100)
        if when < 7:
            self._add(self.draws.pick(lexicon.WHEN[self.tense]))
            self._comma()
        if kind == "subordinate first":
            self._add(self.draws.by_rank(lexicon.CONJUNCTIONS))
        if kind == "there":
            self._there()
        else:
            subject = self._clause()
        if kind in ("subordinate first", "joined"):
            self._comma()
        if kind == "joined":
            self._add("but" if self.draws.percent(40) else "and")
        elif kind == "subordinate last":
            self._add(self.draws.by_rank(lexicon.CONJUNCTIONS))
        if kind not in ("there", "plain"):
            self._clause(subject)
        if when >= 93:
            self._add(self.draws.pick(lexicon.WHEN[self.tense]))

    def begin_with_length(self, words: int) -> None:
        """Make a sentence of exactly so many words: "sing." "anna sings." "the man and tom sing."."""
        verbs = lexicon.INTRANSITIVE["person"]
        if words == 1:
            self._add(self.draws.by_rank(verbs).base)
            return
        if words % 2:
            noun = self.draws.by_rank(lexicon.NOUNS["person"])
            self._add("the", noun.singular)
            subject = Referent("person", noun.pronouns[0])
        else:
            subject = self._name()
        while len(self.words) < words - 1:
            self._add("and")
            self._name()
            subject = Referent("person", "they")
        verb = self.draws.by_rank(verbs)
        self._add(verb.base if subject.plural else verb.third)

    def _clause(self, before: Referent | None = None, depth: int = 0) -> Referent:
        if before and self.draws.percent(40):
            self._add(before.pronoun)
            subject = before
        else:
            subject = self._noun_phrase(self.draws.weighted(_SUBJECTS), depth)
        self._verb_phrase(subject, depth)
        return subject

    def _there(self) -> None:
        noun_class = self.draws.weighted(_SUBJECTS)
        plural = self.draws.percent(_PLURAL)
        self._add("there")
        self._be(plural)
        determiners = lexicon.INDEFINITE_PLURAL if plural else lexicon.INDEFINITE_SINGULAR
        referent = self._counted(noun_class, plural, determiners)
        if self.draws.percent(60):
            self._place_phrase(1)
        if self.draws.percent(30):
            self._relative(referent, 1)

    def _noun_phrase(self, noun_class: NounClass, depth: int) -> Referent:
        """np -> name | det adj* noun [pp] [relative] | np "and" np."""
        if self.draws.percent(_AND[depth]):
            self._noun_phrase(noun_class, DEEPEST)
            self._add("and")
            self._noun_phrase(noun_class, DEEPEST)
            return Referent(noun_class, "they")
        if noun_class == "person" and self.draws.percent(_NAME):
            return self._name()
        plural = self.draws.percent(_PLURAL)
        determiners = lexicon.PLURAL_DETERMINERS if plural else lexicon.SINGULAR_DETERMINERS
        referent = self._counted(noun_class, plural, determiners)
        if self.draws.percent(_PREPOSITION[depth]):
            self._modifier(noun_class, depth + 1)
        if self.draws.percent(_RELATIVE[depth]):
            self._relative(referent, depth + 1)
        return referent

    def _counted(self, noun_class: NounClass, plural: bool, determiners: tuple[str, ...]) -> Referent:
        """Append determiner, adjectives and noun."""
        determiner = self.draws.by_rank(determiners)
        adjectives: list[str] = []
        while len(adjectives) < 2 and self.draws.percent(18):
            adjective = self.draws.by_rank(lexicon.ADJECTIVES[noun_class])
            if adjective not in adjectives:
                adjectives.append(adjective)
        noun = self._noun(noun_class)
        phrase = [*adjectives, noun.plural if plural else noun.singular]
        if determiner == "a" and phrase[0][0] in "aeiou":
            determiner = "an"
        self._add(determiner, *phrase)
        return Referent(noun_class, "they" if plural else self.draws.pick(noun.pronouns))

    def _noun(self, noun_class: NounClass) -> Noun:
        familiar = self.familiar.setdefault(noun_class, [])
        if familiar and self.draws.percent(_FAMILIAR):
            return self.draws.pick(familiar)
        noun = self.draws.by_rank(lexicon.NOUNS[noun_class])
        if noun not in familiar:
            familiar.append(noun)
        return noun

    def _name(self) -> Referent:
        pronoun = "she" if self.draws.percent(50) else "he"
        self._add(self.draws.by_rank(lexicon.NAMES[pronoun]))
        return Referent("person", pronoun)

    def _modifier(self, noun_class: NounClass, depth: int) -> None:
        modifiers = _MODIFIERS.get(noun_class, {})
        if modifiers and self.draws.percent(60):
            preposition = self.draws.pick(tuple(modifiers))
            self._add(preposition)
            self._noun_phrase(modifiers[preposition], depth)
        else:
            self._place_phrase(depth)

    def _place_phrase(self, depth: int) -> None:
        self._add(self.draws.weighted(_NEAR))
        self._noun_phrase("place", depth)

    def _relative(self, head: Referent, depth: int) -> None:
        """relative -> who|that|which vp | [that|which] np transitive-verb, where the head is the object."""
        subjects = _subjects_of(head.noun_class)
        if subjects and self.draws.percent(50):
            if self.draws.percent(75):
                self._add("that" if self.draws.percent(70) or head.noun_class == "person" else "which")
            subject = self._noun_phrase(self.draws.weighted(subjects), depth)
            self._verb(lexicon.TRANSITIVE[subject.noun_class][head.noun_class], subject)
            return
        usual, other = ("who", "that") if head.noun_class == "person" else ("that", "which")
        self._add(usual if self.draws.percent(70) else other)
        self._verb_phrase(head, depth)

    def _verb_phrase(self, subject: Referent, depth: int, bare: bool = False) -> None:
        """vp -> verb [np] [adverb] [pp] | be adjective | says that clause | wants to vp | …"""
        kind = self.draws.weighted(_predicates(subject.noun_class, depth, bare))
        match kind:
            case "is":
                self._be(subject.plural)
                if depth < DEEPEST and self.draws.percent(30):
                    self._place_phrase(depth + 1)
                else:
                    self._add(self.draws.by_rank(lexicon.ADJECTIVES[subject.noun_class]))
            case "says":
                self._verb(lexicon.SAYING, subject)
                self._add("that")
                self._clause(subject, depth + 1)
            case "wants":
                self._verb(lexicon.WANTING, subject)
                self._add("to")
                self._verb_phrase(subject, depth + 1, bare=True)
            case "gives":
                gift = self.draws.by_rank(tuple(lexicon.GIVING))
                self._verb(lexicon.GIVING[gift], subject, bare)
                self._noun_phrase(gift, DEEPEST)
                self._add("to")
                self._noun_phrase("person", depth + 1)
            case "transitive":
                thing = self.draws.by_rank(tuple(lexicon.TRANSITIVE[subject.noun_class]))
                self._verb(lexicon.TRANSITIVE[subject.noun_class][thing], subject, bare)
                self._noun_phrase(thing, min(depth + 1, DEEPEST))
            case "self":
                self._verb(lexicon.REFLEXIVE[subject.noun_class], subject, bare)
                self._add(_REFLEXIVES[subject.pronoun])
            case _:
                self._verb(lexicon.INTRANSITIVE[subject.noun_class], subject, bare)
                if depth == 0 and self.draws.percent(25):
                    self._place_phrase(1)
        if kind not in ("transitive", "self", "intransitive"):
            return
        if subject.noun_class in ("person", "animal") and self.draws.percent(14):
            self._add(self.draws.by_rank(lexicon.MANNER))

    def _verb(self, verbs: Sequence[Verb], subject: Referent, bare: bool = False) -> None:
        """Append one of some verbs that agrees with its subject, perhaps with "not" or an adverb of frequency."""
        verb = self.draws.by_rank(verbs)
        if bare:
            self._add(verb.base)
        elif self.draws.percent(7):
            auxiliary = {"present": "do" if subject.plural else "does", "past": "did", "future": "will"}[self.tense]
            self._add(auxiliary, "not", verb.base)
        else:
            if self.tense == "future":
                self._add("will")
            if self.draws.percent(7):
                self._add(self.draws.by_rank(lexicon.FREQUENCY))
            present = verb.base if subject.plural else verb.third
            self._add({"present": present, "past": verb.past, "future": verb.base}[self.tense])

    def _be(self, plural: bool) -> None:
        if self.tense == "future":
            self._add("will", "be")
        else:
            self._add({"present": ("is", "are"), "past": ("was", "were")}[self.tense][plural])

    def _add(self, *words: str) -> None:
        self.words.extend(words)

    def _comma(self) -> None:
        self.words[-1] += ","


@cache
def _subjects_of(noun_class: NounClass) -> dict[NounClass, int]:
    """Return who does something to such a thing, as likely as they are subjects."""
    return {s: _SUBJECTS[s] for s, objects in lexicon.TRANSITIVE.items() if noun_class in objects}


@cache
def _predicates(noun_class: NounClass, depth: int, bare: bool) -> dict[str, int]:
    """Return what can be said of such a subject, with weights."""
    possible = {
        "transitive": noun_class in lexicon.TRANSITIVE,
        "intransitive": True,
        "is": not bare,
        "says": noun_class == "person" and depth < DEEPEST and not bare,
        "gives": noun_class == "person" and depth < DEEPEST,
        "wants": noun_class in ("person", "animal") and depth < DEEPEST and not bare,
        "self": noun_class in lexicon.REFLEXIVE,
    }
    return {kind: weight for kind, weight in _PREDICATES.items() if possible[kind]}


# Texts with structure: English sentences of a context-free grammar with agreement, tense and real nesting.
#
# What a model can learn from them: nouns and their determiners, verbs and reflexives agree in number (also across
# relative clauses and prepositional phrases, whose own nouns distract), pronouns agree with whom they stand for, "a"
# and "an" go with the next sound, a sentence keeps to one tense and its adverbs of time, verbs go with certain
# subjects and objects, and a text comes back to the nouns it has mentioned. Relative clauses stand between a subject
# and its verb, up to three deep: "the cat that the dog the wolves fear chases sleeps."
#
# Everything is in lower case, so that each word has one form and the texts have the very vocabulary of ``random-
# words``; full stops and commas are attached to the word before them, as in any English text.


GRAMMAR_VERSION = 1  # counts up whenever the same seed gives other texts

_TRIES = 40  # sentences drawn until one fits into what is left of a text
_SHORTEST_REST = 4  # words to leave for a last sentence: shorter sentences are rare


def grammar_texts(texts: int, bounds: tuple[int, int], seed: int) -> Iterator[Record]:
    """Yield texts of k words, k uniform in ``bounds``; each is one or more whole sentences."""
    draws = Draws(seed)
    for _ in range(texts):
        yield Record(_text(draws, draws.between(*bounds)))


def _text(draws: Draws, words: int) -> str:
    """Return sentences with exactly ``words`` words together."""
    familiar: dict[NounClass, list[Noun]] = {}
    sentences: list[str] = []
    while words:
        for _ in range(_TRIES):
            sentence = SentenceDraft(draws, familiar)
            sentence.begin()
            left = words - len(sentence.words)
            if left == 0 or left >= _SHORTEST_REST:
                break
        else:
            sentence = SentenceDraft(draws, familiar)
            sentence.begin_with_length(words)
        words -= len(sentence.words)
        sentences.append(str(sentence))
        familiar = sentence.familiar
    return " ".join(sentences)


_Positive = Annotated[int, Field(ge=1)]


class GeneratedCorpus(CorpusPart):
    """Texts made by a rule; the same seed always gives the same texts."""

    references: ClassVar[tuple[Reference, ...]] = (
        *CorpusPart.references,
        Reference("vocabulary", "models", says="draws its words from model"),
    )

    generate: Literal["random-words", "grammar"] = Field(
        description="random-words: words drawn independently; grammar: sentences with nesting and agreement."
    )
    texts: int = Field(500, ge=1, description="Number of texts.")
    words: Annotated[tuple[_Positive, _Positive], two("whole numbers, [fewest, most]")] = Field(
        (5, 60), description="Fewest and most words of a text."
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Another seed gives other texts.")
    vocabulary: Name | None = Field(
        None, description="Only with random-words: draw the whole words in the vocabulary of this model of the study."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> GeneratedCorpus:
        complaints = []
        fewest, most = self.words
        if fewest > most:
            message = f"the fewest words ({fewest}) must not exceed the most ({most}); write [fewest, most]"
            complaints.append(Complaint(message, ("words",)))
        if self.min_words > most:
            message = f"must be at most the most words of `words` ({most}), got {self.min_words}"
            complaints.append(Complaint(message, ("min_words",)))
        if self.vocabulary is not None and self.generate != "random-words":
            message = "needs `generate: random-words`; remove it, or change `generate`"
            complaints.append(Complaint(message, ("vocabulary",), "key"))
        if complaints:
            raise failure(*complaints)
        return self


@corpus_source("generate", GeneratedCorpus, called="generated")
def generated(corpus: GeneratedCorpus, context: SourceContext) -> Origin:
    """Find the generator and the words that it draws."""
    location = f"{corpus.generate}, seed {corpus.seed}"
    if corpus.generate == "grammar":
        state = f"grammar {GRAMMAR_VERSION}"
        return Origin(location, state, lambda: grammar_texts(corpus.texts, corpus.words, corpus.seed))
    words: Sequence[str] = WORDS
    if corpus.vocabulary is not None:
        if context.words_of is None:
            raise ReporterError(f"the vocabulary of model '{corpus.vocabulary}' is unknown here; remove `vocabulary`")
        words = context.words_of(corpus.vocabulary)
        location += f", words of {corpus.vocabulary}"
    state = digest(chain([f"random-words {RANDOM_WORDS_VERSION}"], words))
    return Origin(location, state, lambda: random_words(words, corpus.texts, corpus.words, corpus.seed))
