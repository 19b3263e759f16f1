"""Words in their forms: plurals of nouns, third person and past tense of verbs."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Read nouns from a list such as ``dog mouse/mice``.

    Args:
        words: singulars, with the plural after a slash where the rules get it wrong.
        he: those of them that are male.
        she: those of them that are female. With both lists empty, all are things or animals: "it".
    """
    return tuple(_noun(word, he.split(), she.split()) for word in words.split())


def verbs(words: str) -> tuple[Verb, ...]:
    """Read verbs from a list such as ``chase bite/bit``: base forms, and past tenses where the rules fail."""
    return tuple(_verb(word) for word in words.split())


def _noun(word: str, he: list[str], she: list[str]) -> Noun:
    singular, _, plural = word.partition("/")
    if singular in he:
        pronouns: tuple[str, ...] = ("he",)
    elif singular in she:
        pronouns = ("she",)
    else:
        pronouns = ("he", "she") if he or she else ("it",)
    return Noun(singular, plural or _with_s(singular), pronouns)


def _verb(word: str) -> Verb:
    base, _, past = word.partition("/")
    return Verb(base, _with_s(base), past or _with_ed(base))


def _with_s(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word[:-1] + "ies" if _ends_in_y(word) else word + "s"


def _with_ed(word: str) -> str:
    if word.endswith("e"):
        return word + "d"
    return word[:-1] + "ied" if _ends_in_y(word) else word + "ed"


def _ends_in_y(word: str) -> bool:
    """Say whether the word ends in a consonant and y: "carry", not "play"."""
    return word.endswith("y") and word[-2] not in _VOWELS
