"""A recogniser for the generated English: reads a sentence without knowing how it was made.

Written by hand from rules of English, as functions from a place in the sentence to every place where a phrase
can end; only the word lists are the generator's. It checks agreement (determiner-noun, subject-verb,
reflexives, pronouns), a/an, tense and its adverbs, and which nouns go with which verbs.
"""

import re
from collections import defaultdict
from functools import lru_cache

from reporter.texts import lexicon

NOUNS = defaultdict(set)  # form -> (class, pronouns)
for _class, _nouns in lexicon.NOUNS.items():
    for _noun in _nouns:
        NOUNS[_noun.singular].add((_class, frozenset(_noun.pronouns)))
        NOUNS[_noun.plural].add((_class, frozenset({"they"})))
NAMES = {name: frozenset({pronoun}) for pronoun, names in lexicon.NAMES.items() for name in names}

VERBS = defaultdict(set)  # what a verb takes -> its bases, for (subject class, object class or kind)
FORMS = defaultdict(set)  # form -> (base, "base" | "third" | "past")


def _learn(verbs, *frame):
    for verb in verbs:
        VERBS[frame].add(verb.base)
        for slot in ("base", "third", "past"):
            FORMS[getattr(verb, slot)].add((verb.base, slot))


for _subject, _verbs in lexicon.INTRANSITIVE.items():
    _learn(_verbs, _subject, "nothing")
for _subject, _objects in lexicon.TRANSITIVE.items():
    for _object, _verbs in _objects.items():
        _learn(_verbs, _subject, _object)
for _object, _verbs in lexicon.GIVING.items():
    _learn(_verbs, "person", "to person", _object)
for _subject, _verbs in lexicon.REFLEXIVE.items():
    _learn(_verbs, _subject, "self")
_learn(lexicon.SAYING, "person", "that")
for _subject in ("person", "animal"):
    _learn(lexicon.WANTING, _subject, "to")

CLASSES = tuple(lexicon.NOUNS)
SELF = {"he": "himself", "she": "herself", "it": "itself", "they": "themselves"}
LEADS_TO = {
    ("person", "from"): "place",
    ("person", "with"): "tool",
    ("text", "about"): "person",
    ("text", "by"): "person",
    ("food", "from"): "place",
    ("idea", "of"): "person",
}
BE = {"present": ("is", "are"), "past": ("was", "were")}
DO = {"present": ("does", "do"), "past": ("did", "did"), "future": ("will", "will")}


def sentences(text):
    """Split a text at its full stops; every sentence must end in one."""
    assert text.endswith(".")
    return [sentence.strip() for sentence in text[:-1].split(".")]


def depth(sentence):
    """Return how deep relative clauses nest (in the shallowest reading), or None if this is no sentence."""
    found = [d for tense in ("present", "past", "future") if (d := _Parser(sentence, tense).depth()) is not None]
    return min(found, default=None)


class _Parser:
    """Reads one sentence in one tense. What a phrase can be at a place is found once."""

    def __init__(self, sentence, tense):
        self.words = [*re.findall(r"[a-z]+|[^a-z\s]", sentence), "<end>", "<end>"]
        self.tense = tense
        for name in ("noun_phrase", "plain", "counted", "verb_phrase", "verb", "clause", "relative", "where"):
            setattr(self, name, lru_cache(maxsize=None)(getattr(self, name)))

    def at(self, i, *wanted):
        return self.words[i] in wanted

    def when(self, i):
        return self.at(i, *lexicon.WHEN[self.tense])

    def depth(self):
        end = len(self.words) - 2
        if end == 1 and self.words[0] in VERBS["person", "nothing"]:
            return 0  # an imperative
        starts = [0, 2] if self.when(0) and self.at(1, ",") else [0]
        ends = [(j + self.when(j), d) for start in starts for j, d in self.body(start)]
        ends += [(j, d) for start in starts for j, d in self.body(start)]
        return min((d for j, d in ends if j == end), default=None)

    def body(self, i):
        yield from self.there(i)
        for j, subject, d in self.clause(i, None):
            yield j, d
            if self.at(j, ",") and self.at(j + 1, "and", "but"):
                yield from self.second(j + 2, subject, d)
            if self.at(j, *lexicon.CONJUNCTIONS):
                yield from self.second(j + 1, subject, d)
        if self.at(i, *lexicon.CONJUNCTIONS):
            for j, subject, d in self.clause(i + 1, None):
                if self.at(j, ","):
                    yield from self.second(j + 1, subject, d)

    def second(self, i, subject, before):
        return ((j, max(before, d)) for j, _, d in self.clause(i, subject))

    def clause(self, i, before):
        """Return (end, subject, depth); a subject is (class, pronouns that can stand for it)."""
        found = set()
        if before and self.words[i] in before[1]:
            subject = (before[0], frozenset({self.words[i]}))
            found |= {(j, (subject[0], p), d) for j, p, d in self.verb_phrase(i + 1, *subject, False)}
        for noun_class in CLASSES:
            for j, pronouns, d in self.noun_phrase(i, noun_class):
                for k, narrowed, e in self.verb_phrase(j, noun_class, pronouns, False):
                    found.add((k, (noun_class, narrowed), max(d, e)))
        return found

    def there(self, i):
        if not self.at(i, "there"):
            return
        for plural in (False, True):
            for j in self.be(i + 1, plural):
                determiners = lexicon.INDEFINITE_PLURAL if plural else lexicon.INDEFINITE_SINGULAR
                for noun_class in CLASSES:
                    for k, pronouns in self.counted(j, noun_class, determiners, plural):
                        places = {(k, 0)} | {(m, d) for m, d in self.where(k)}
                        yield from places
                        for m, d in places:
                            for n, e in self.relative(m, noun_class, pronouns):
                                yield n, max(d, e)

    def noun_phrase(self, i, noun_class):
        """Return (end, pronouns, depth)."""
        found = {(j, pronouns, 0) for j, pronouns in self.plain(i, noun_class)}
        for j, pronouns in self.plain(i, noun_class):
            if self.words[j - 1] in NAMES:
                continue
            inner = {(j, 0)} | set(self.modified(j, noun_class))
            found |= {(k, pronouns, d) for k, d in inner}
            for k, d in inner:
                found |= {(m, pronouns, max(d, e)) for m, e in self.relative(k, noun_class, pronouns)}
        ends = {j for j, _ in self.plain(i, noun_class)}
        while ends:  # any number of plain phrases joined by "and"
            ends = {k for j in ends if self.at(j, "and") for k, _ in self.plain(j + 1, noun_class)}
            found |= {(k, frozenset({"they"}), 0) for k in ends}
        return found

    def plain(self, i, noun_class):
        found = set(self.counted(i, noun_class, lexicon.SINGULAR_DETERMINERS, False))
        found |= set(self.counted(i, noun_class, lexicon.PLURAL_DETERMINERS, True))
        if noun_class == "person" and self.words[i] in NAMES:
            found.add((i + 1, NAMES[self.words[i]]))
        return found

    def counted(self, i, noun_class, determiners, plural):
        found = []
        allowed = set(determiners) | ({"an"} if "a" in determiners else set())
        if not self.at(i, *allowed):
            return found
        vowel = self.words[i + 1][0] in "aeiou"
        if (self.words[i] == "a" and vowel) or (self.words[i] == "an" and not vowel):
            return found
        j = i + 1
        while j < i + 4:
            for noun, pronouns in NOUNS.get(self.words[j], ()):
                if noun == noun_class and ("they" in pronouns) == plural:
                    found.append((j + 1, pronouns))
            if self.words[j] not in lexicon.ADJECTIVES[noun_class]:
                break
            j += 1
        return found

    def modified(self, i, noun_class):
        yield from self.where(i)
        thing = LEADS_TO.get((noun_class, self.words[i]))
        if thing:
            yield from ((j, d) for j, _, d in self.noun_phrase(i + 1, thing))

    def where(self, i):
        if not self.at(i, "in", *lexicon.BESIDE):
            return set()
        return {(j, d) for j, _, d in self.noun_phrase(i + 1, "place")}

    def relative(self, i, noun_class, pronouns):
        """Return (end, depth) of a relative clause whose head is of this class."""
        person = noun_class == "person"
        found = set()
        if self.at(i, "that", "who" if person else "which"):
            found |= {(j, d + 1) for j, _, d in self.verb_phrase(i + 1, noun_class, pronouns, False)}
        starts = {i} | ({i + 1} if self.at(i, "that") or (self.at(i, "which") and not person) else set())
        for start in starts:
            for subject in CLASSES:
                if (subject, noun_class) in VERBS:
                    for j, who, d in self.noun_phrase(start, subject):
                        ends = self.verb(j, "they" in who, False)
                        found |= {(k, d + 1) for k, base in ends if base in VERBS[subject, noun_class]}
        return found

    def verb_phrase(self, i, noun_class, pronouns, bare):
        """Return (end, pronouns that can still stand for the subject, depth)."""
        plural = "they" in pronouns
        found = set() if bare else self.is_something(i, noun_class, pronouns)
        done = set()  # phrases after which an adverb of manner can stand
        for j, base in self.verb(i, plural, bare):
            if base in VERBS[noun_class, "nothing"]:
                done |= {(j, pronouns, 0)} | {(k, pronouns, d) for k, d in self.where(j)}
            if base in VERBS[noun_class, "self"]:
                done |= {(j + 1, frozenset({p}), 0) for p in pronouns if self.at(j, SELF[p])}
            for thing in CLASSES:
                if base in VERBS[noun_class, thing]:
                    done |= {(k, pronouns, d) for k, _, d in self.noun_phrase(j, thing)}
                if base in VERBS[noun_class, "to person", thing]:
                    for k, _, d in self.noun_phrase(j, thing):
                        if self.at(k, "to"):
                            found |= {(m, pronouns, max(d, e)) for m, _, e in self.noun_phrase(k + 1, "person")}
            if not bare and base in VERBS[noun_class, "that"] and self.at(j, "that"):
                found |= {(k, pronouns, d) for k, _, d in self.clause(j + 1, (noun_class, pronouns))}
            if not bare and base in VERBS[noun_class, "to"] and self.at(j, "to"):
                found |= self.verb_phrase(j + 1, noun_class, pronouns, True)
        found |= done
        if noun_class in ("person", "animal"):
            found |= {(j + 1, p, d) for j, p, d in done if self.at(j, *lexicon.MANNER)}
        return found

    def is_something(self, i, noun_class, pronouns):
        found = set()
        for j in self.be(i, "they" in pronouns):
            found |= {(k, pronouns, d) for k, d in self.where(j)}
            if self.at(j, *lexicon.ADJECTIVES[noun_class]):
                found.add((j + 1, pronouns, 0))
        return found

    def be(self, i, plural):
        if self.tense == "future":
            return [i + 2] if self.at(i, "will") and self.at(i + 1, "be") else []
        return [i + 1] if self.at(i, BE[self.tense][plural]) else []

    def verb(self, i, plural, bare):
        """Return (end, base form) of a verb that agrees with its subject."""
        if bare:
            return self.form(i, "base")
        if self.at(i, DO[self.tense][plural]) and self.at(i + 1, "not"):
            return self.form(i + 2, "base")
        if self.tense == "future":
            if not self.at(i, "will"):
                return set()
            i += 1
        i += self.at(i, *lexicon.FREQUENCY)
        slot = {"present": "base" if plural else "third", "past": "past", "future": "base"}[self.tense]
        return self.form(i, slot)

    def form(self, i, slot):
        return {(i + 1, base) for base, found in FORMS.get(self.words[i], ()) if found == slot}
