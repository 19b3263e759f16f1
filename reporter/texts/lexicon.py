"""The words of the generated language, random choices among them, and texts of random words.

Written for this project. Nouns and verbs come in classes: people write letters, animals chase animals, trees
sway. Within a class the first word is the most frequent (chance in proportion to 1/rank). No form belongs to
two words of different kinds ("saw" is left out, "cook" is a verb only), so that a sentence says plainly how
it is built.

A plural or past tense that the rules of ``inflection`` would get wrong stands after a slash: ``mouse/mice``.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Literal, TypeVar

import numpy as np

from reporter.core.errors import ReporterError
from reporter.texts.texts import Record

# Random choices that stay the same from one version of NumPy to the next.
#
# Only ``Generator.integers`` over the whole range of 32 bits is used: raw output of PCG64, which NumPy keeps stable.
# Everything else is arithmetic on Python integers.


T = TypeVar("T")

_BITS = 32
_AT_ONCE = 4096


class Draws:
    """A stream of random choices, given by its seed.

    Args:
        seed: any non-negative integer.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._numbers: list[int] = []

    def below(self, stop: int) -> int:
        """Return an integer from 0 to ``stop`` - 1, each as likely (within 2^-32 times ``stop``)."""
        if not self._numbers:
            self._numbers = self._generator.integers(0, 1 << _BITS, size=_AT_ONCE, dtype=np.uint64).tolist()
        return (self._numbers.pop() * stop) >> _BITS

    def between(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def percent(self, chance: int) -> bool:
        """Return True in ``chance`` of 100 cases."""
        return self.below(100) < chance

    def pick(self, items: Sequence[T]) -> T:
        """Return one item, each as likely."""
        return items[self.below(len(items))]

    def by_rank(self, items: Sequence[T]) -> T:
        """Return one item, with a chance in proportion to 1/rank (Zipf's law): the first is most frequent."""
        upto = _zipf(len(items))
        return items[bisect_right(upto, self.below(upto[-1]))]

    def weighted(self, weights: Mapping[T, int]) -> T:
        """Return one item, with a chance in proportion to its weight."""
        upto = list(accumulate(weights.values()))
        return list(weights)[bisect_right(upto, self.below(upto[-1]))]


@cache
def _zipf(items: int) -> tuple[int, ...]:
    """Return cumulative weights in proportion to 1/rank, shape (items,)."""
    return tuple(accumulate(1_000_000 // rank for rank in range(1, items + 1)))


# Words in their forms: plurals of nouns, third person and past tense of verbs.


_VOWELS = "aeiou"


@dataclass(frozen=True)
class Noun:
    """A noun that can be counted.

    Args:
        singular: "mouse".
        plural: "mice".
        pronouns: those that can stand for one of it: "he", "she", "it", or both "he" and "she" of a person.
    """

    singular: str
    plural: str
    pronouns: tuple[str, ...]


@dataclass(frozen=True)
class Verb:
    """A verb in the forms that the grammar needs.

    Args:
        base: "they bite", "to bite", "will bite".
        third: "it bites".
        past: "it bit".
    """

    base: str
    third: str
    past: str


def nouns(words: str, he: str = "", she: str = "") -> tuple[Noun, ...]:
    """Read nouns from a list such as ``dog mouse/mice``."""
    read = []
    for word in words.split():
        singular, _, plural = word.partition("/")
        pronouns = ("he", "she") if he or she else ("it",)
        if singular in he.split() or singular in she.split():
            pronouns = ("he",) if singular in he.split() else ("she",)
        read.append(Noun(singular, plural or _with_s(singular), pronouns))
    return tuple(read)


def verbs(words: str) -> tuple[Verb, ...]:
    """Read verbs from a list such as ``chase bite/bit``: base forms, and past tenses where the rules fail."""
    forms = (word.partition("/") for word in words.split())
    return tuple(Verb(base, _with_s(base), past or _with_ed(base)) for base, _, past in forms)


def words(listed: str) -> tuple[str, ...]:
    """Read words that have one form."""
    return tuple(listed.split())


def _with_s(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word[:-1] + "ies" if _ends_in_y(word) else word + "s"


def _with_ed(word: str) -> str:
    if word.endswith("e"):
        return word + "d"
    return word[:-1] + "ied" if _ends_in_y(word) else word + "ed"


def _ends_in_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in _VOWELS


NounClass = Literal["person", "animal", "food", "text", "tool", "vehicle", "place", "plant", "idea"]

NOUNS: dict[NounClass, tuple[Noun, ...]] = {
    "person": nouns(
        """teacher farmer child/children woman/women man/men doctor girl boy friend king queen soldier sailor
        baker student neighbour singer painter uncle aunt mayor lawyer merchant poet priest thief/thieves
        tailor shepherd carpenter widow stranger gardener prince princess""",
        he="man boy king uncle priest prince",
        she="woman girl queen aunt widow princess",
    ),
    "animal": nouns(
        """dog cat horse bird mouse/mice wolf/wolves cow fox rabbit goat lion bear duck goose/geese pig hen
        frog donkey eagle snake crow tiger monkey owl turtle beetle squirrel"""
    ),
    "food": nouns(
        """apple cake egg potato/potatoes cherry pear loaf/loaves carrot biscuit onion sausage pie plum
        tomato/tomatoes pancake nut bean melon sandwich peach berry"""
    ),
    "text": nouns(
        """letter book story song poem message novel diary essay recipe article newspaper legend speech prayer
        ballad verse"""
    ),
    "tool": nouns(
        """knife/knives key basket rope lamp chair table box bottle ladder bucket axe coat shoe ring clock
        mirror spoon drum flute candle umbrella wheel hammer brush"""
    ),
    "vehicle": nouns("cart boat train wagon ship bicycle truck sledge ferry balloon"),
    "place": nouns(
        """house garden river village forest market road kitchen bridge field tower church island harbour
        school castle valley mountain barn city library meadow lake mill cellar inn"""
    ),
    "plant": nouns("tree flower rose oak bush vine willow tulip fern daisy lily shrub thistle"),
    "idea": nouns("secret answer reason danger mystery rumour custom lesson problem truth"),
}

NAMES: dict[str, tuple[str, ...]] = {
    "he": words("tom peter jonas henry oscar felix hugo paul"),
    "she": words("anna maria clara lucy nora emma ida sara"),
}

INTRANSITIVE: dict[NounClass, tuple[Verb, ...]] = {
    "person": verbs(
        """sleep/slept laugh work wait sing/sang smile arrive cry travel/travelled dance pray whisper sneeze
        stumble"""
    ),
    "animal": verbs("sleep/slept run/ran jump swim/swam hide/hid growl wander escape shiver crawl"),
    "food": verbs("burn rot/rotted vanish"),
    "text": verbs("vanish matter"),
    "tool": verbs("fall/fell break/broke vanish rust"),
    "vehicle": verbs("arrive stop/stopped turn sink/sank vanish"),
    "place": verbs("burn crumble flourish"),
    "plant": verbs("grow/grew bloom wither fall/fell sway"),
    "idea": verbs("matter vanish remain"),
}

TRANSITIVE: dict[NounClass, dict[NounClass, tuple[Verb, ...]]] = {
    "person": {
        "person": verbs("help thank meet/met greet teach/taught love invite admire marry blame"),
        "food": verbs("eat/ate bake buy/bought taste slice share"),
        "text": verbs("write/wrote learn finish copy translate recite tear/tore publish"),
        "tool": verbs("carry find/found repair lose/lost clean break/broke steal/stole polish buy/bought"),
        "animal": verbs("feed/fed catch/caught follow lead/led tame"),
        "place": verbs("visit leave/left enter paint clean love build/built"),
        "vehicle": verbs("drive/drove push build/built repair paint"),
        "plant": verbs("water pick trim/trimmed"),
        "idea": verbs("know/knew explain forget/forgot discover reveal"),
    },
    "animal": {
        "animal": verbs("chase bite/bit hunt watch fear follow"),
        "food": verbs("eat/ate sniff swallow steal/stole"),
        "person": verbs("follow love watch bite/bit fear"),
        "plant": verbs("chew trample eat/ate"),
        "place": verbs("leave/left enter guard"),
    },
    "vehicle": {"place": verbs("reach pass leave/left"), "person": verbs("carry pass"), "tool": verbs("carry")},
    "text": {
        "person": verbs("please bore describe praise"),
        "idea": verbs("explain reveal mention"),
        "place": verbs("describe mention praise"),
    },
    "plant": {"place": verbs("surround cover shade")},
    "idea": {"person": verbs("worry haunt surprise")},
}

GIVING: dict[NounClass, tuple[Verb, ...]] = {
    "tool": verbs("give/gave lend/lent send/sent"),
    "food": verbs("give/gave offer sell/sold"),
    "text": verbs("send/sent show give/gave"),
    "animal": verbs("show sell/sold"),
    "vehicle": verbs("sell/sold lend/lent"),
}
"""What a person does with a thing, "to" another person."""

SAYING = verbs("say/said think/thought believe know/knew hope claim remember notice")
"""What a person does "that" something is so."""

WANTING = verbs("want try begin/began need refuse")
"""What a person or an animal does "to" do something."""

REFLEXIVE: dict[NounClass, tuple[Verb, ...]] = {
    "person": verbs("wash blame admire defend trust"),
    "animal": verbs("wash scratch hide/hid"),
}
"""What one does to oneself."""

ADJECTIVES: dict[NounClass, tuple[str, ...]] = {
    "person": words("old young happy tired brave clever angry proud lonely wise shy"),
    "animal": words("hungry young wild lazy clever angry tired brave small gentle"),
    "food": words("fresh sweet ripe cold sour delicious"),
    "text": words("long short famous sad boring old"),
    "tool": words("old heavy new broken small expensive red"),
    "vehicle": words("slow new old green heavy enormous"),
    "place": words("old quiet distant dark ancient narrow busy beautiful"),
    "plant": words("tall green beautiful wild young"),
    "idea": words("terrible strange simple old important"),
}

MANNER = words(
    """quietly slowly quickly happily carefully sadly loudly proudly gently eagerly bravely politely secretly
    patiently"""
)
WHEN = {
    "past": words("yesterday recently formerly"),
    "present": words("today now nowadays"),
    "future": words("tomorrow soon eventually"),
}

SINGULAR_DETERMINERS = words("the a this every my that her his each another our their no")
PLURAL_DETERMINERS = words("the some these two many my those several all her three his few")
INDEFINITE_SINGULAR = words("a no another every")
INDEFINITE_PLURAL = words("some two many several no three few")
FREQUENCY = words("often always never sometimes rarely")
CONJUNCTIONS = words("because when while although before if after")
BESIDE = words("near behind beside under")

_PRONOUNS = words("he she it they himself herself itself themselves who which that there")
_SMALL = words("an of in from with about by to and but is are was were does do did not will be")
_DETERMINERS = {*SINGULAR_DETERMINERS, *PLURAL_DETERMINERS, *INDEFINITE_SINGULAR, *INDEFINITE_PLURAL}

FUNCTION_WORDS = frozenset({*_PRONOUNS, *_SMALL, *FREQUENCY, *CONJUNCTIONS, *BESIDE, *_DETERMINERS})
"""Words that hold sentences together: determiners, pronouns, prepositions, conjunctions, auxiliaries."""

_VERBS = [SAYING, WANTING, *INTRANSITIVE.values(), *GIVING.values(), *REFLEXIVE.values()]
_VERBS += [group for objects in TRANSITIVE.values() for group in objects.values()]
_FORMS = {form for group in NOUNS.values() for noun in group for form in (noun.singular, noun.plural)}
_FORMS |= {form for group in _VERBS for verb in group for form in (verb.base, verb.third, verb.past)}

CONTENT_WORDS = frozenset(_FORMS.union(MANNER, *NAMES.values(), *ADJECTIVES.values(), *WHEN.values()))
"""Words that name things: nouns, names, verbs, adjectives, adverbs of manner and time, in all their forms."""

WORDS = tuple(sorted(FUNCTION_WORDS | CONTENT_WORDS))
"""The whole vocabulary, sorted."""


# Texts without structure: words drawn independently, so that a model has nothing to go on but the words.
#
# Source: Lee 2024 (convergence of hidden states to the final layer): k words drawn uniformly from the vocabulary, k
# itself uniform, set against sentences of a grammar.


RANDOM_WORDS_VERSION = 1  # counts up whenever the same seed gives other texts


def random_words(vocabulary: Sequence[str], texts: int, bounds: tuple[int, int], seed: int) -> Iterator[Record]:
    """Yield texts of k words from a vocabulary, each as likely; k uniform in ``bounds``.

    Raises:
        ReporterError: there are no words.
    """
    if not vocabulary:
        raise ReporterError("the tokenizer has no whole words to draw from; remove `vocabulary`")
    draws = Draws(seed)
    for _ in range(texts):
        yield Record(" ".join(draws.pick(vocabulary) for _ in range(draws.between(*bounds))))
