"""Whether corpora may be compared on a statistic that moves with the size of the corpus itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from reporter.claims.missing import Missing
from reporter.metrics.registry import catalogue
from reporter.spec.claims import DifferClaim, SideParts
from reporter.spec.corpora import ALIKE

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers
    from reporter.spec import Study


def at_equal_size(numbers: Numbers, measure: str, a: Sequence[str], b: Sequence[str]) -> list[str]:
    """Return a note of the sizes of corpora that are compared on a statistic that moves with them.

    Args:
        numbers: the study's numbers.
        measure: the statistic, as metric.statistic.
        a: corpora of one side.
        b: of the other.

    Returns:
        no note where the statistic does not move, or where both sides are measured on the same corpora.

    Raises:
        Missing: the statistic moves with the corpus, and one corpus has more than 1.25 times the words of another one;
            the text says which, and what to write.
    """
    statistic = numbers.statistic(measure)
    if statistic is None or not statistic.grows or set(a) == set(b):
        return []
    rows = {row["corpus"]: row for row in numbers.corpus_sizes() if row["corpus"] in {*a, *b}}
    if len(rows) < 2:
        return []
    words = {corpus: int(rows[corpus]["words"]) for corpus in dict.fromkeys([*a, *b]) if corpus in rows}
    if why := _unequal(numbers.study, measure, words):
        raise Missing(why)
    told = (f"{corpus} {n:,} words in {int(rows[corpus]['texts']):,} texts" for corpus, n in words.items())
    return [f"compared at equal size, since the number moves with it: {', '.join(told)}"]


def foreseen(study: Study, words: Mapping[str, int]) -> Iterator[str]:
    """Yield which ``differ:`` claims of a study its corpora are too unequal for, before anything is measured.

    Args:
        study: the study.
        words: words of each of its corpora, as far as they are known.
    """
    known = catalogue()
    for name, claim in study.claims.items():
        if not isinstance(claim, DifferClaim):
            continue
        metric, _, statistic = claim.differ.metric.partition(".")
        of_metric = known[metric].statistics if metric in known else ()
        if not any(one.grows for one in of_metric if one.name == statistic):
            continue
        sides = [_corpora(study, side, claim.differ.corpus) for side in (claim.differ.a, claim.differ.b)]
        there = {corpus: words[corpus] for corpus in dict.fromkeys(sides[0] + sides[1]) if corpus in words}
        if set(sides[0]) != set(sides[1]) and (why := _unequal(study, claim.differ.metric, there)):
            yield f"claim {name} cannot be tested as it stands: {why}"


def _corpora(study: Study, side: SideParts | tuple[str, ...], otherwise: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the corpora that a side of a claim is measured on: its own, the claim's, or all."""
    named = side.corpus if isinstance(side, SideParts) else tuple(name for name in side if name in study.corpora)
    return named or otherwise or tuple(study.corpora)


def _unequal(study: Study, measure: str, words: Mapping[str, int]) -> str:
    """Say which corpora are too large to be compared with the smallest, and what to write; nothing if none is."""
    small = min(words, key=lambda corpus: words[corpus], default="")
    large = [corpus for corpus in words if words[corpus] > ALIKE * words[small]]
    if not large:
        return ""
    sizes = ", ".join(f"{corpus} has {words[corpus]:,} words" for corpus in large)
    which, each = (f"corpus {large[0]}", "it") if len(large) == 1 else (f"corpora {', '.join(large)}", "each")
    key = f"the key `size_of: {small}`"
    recipes = (getattr(model, "recipe", None) for model in study.models.values())
    if {recipe.train_on for recipe in recipes if recipe is not None} & set(large):
        advice = f"models are trained on {which}, so add a corpus like {each} with {key}, and compare that instead"
    else:
        advice = f"give {which} {key}, or add one like {each} with that key and compare that instead"
    return f"{measure} moves with the size of the corpus, and {sizes} where {small} has {words[small]:,}: {advice}"
