"""What several kinds of claims share: which corpora, what is left out, smallest effects, equal sizes, SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from reporter.claims.numbers import PATH, Missing
from reporter.claims.points import ROUNDING, Array
from reporter.spec.corpora import ALIKE
from reporter.store.shape import quoted

if TYPE_CHECKING:
    from reporter.claims.kinship import Kinship
    from reporter.claims.numbers import Numbers
    from reporter.spec import Study

T = TypeVar("T")


def on_corpora(numbers: Numbers, named: Sequence[str] | None, full_name: str, view: str) -> list[str]:
    """Return the corpora that a claim is tested on: those it names, or all with numbers of the statistic.

    Raises:
        Missing: there are none.
    """
    if named is not None:
        return list(named)
    found = numbers.corpora(full_name, view)
    if not found:
        raise Missing(f"there are no numbers of {full_name} under view '{view}'")
    return found


def left_out(models: Sequence[str], read: Callable[[str], T], strict: bool) -> tuple[list[T], list[str]]:
    """Read something of each model; of a group, leave out those that lack it, with a note.

    Args:
        models: the models.
        read: raises :class:`Missing` where something is not there.
        strict: whether the models are named, so that none may be left out.

    Raises:
        Missing: a named model lacks it, or all do.
    """
    found, notes = [], []
    last: Missing | None = None
    for model in models:
        try:
            found.append(read(model))
        except Missing as missing:
            if strict:
                raise
            last = missing
            notes.append(f"{model} is left out: {missing}")
    if not found and last is not None:
        raise last
    return found, notes


def independent(kin: Kinship) -> str:
    """Return how many models there are, and how many of them are independent where that is fewer."""
    models, units = sum(map(len, kin.units)), len(kin.units)
    return f"{models} model{'s' * (models != 1)}" + (f" that count as {units}" if units < models else "")


def no_error(units: int, models: Sequence[str]) -> str:
    """Say why nothing was tested where there is neither an interval over texts nor three independent models."""
    there = "there is one independent model" if units == 1 else f"there are {units} independent models"
    return (
        f"{there} ({', '.join(models)}) and no interval over texts, so nothing tells how sure the number is; name "
        f"three independent models or more, or a statistic that has an interval"
    )


def different_statistics(evidence: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of evidence that say what each number is only where that is not the same in all."""
    if len({row.get("statistic") for row in evidence}) > 1:
        return evidence
    return [{key: value for key, value in row.items() if key not in ("statistic", "claimed")} for row in evidence]


def among(column: str, names: Sequence[str]) -> str:
    """Return the condition that a column has one of the names."""
    return f"{column} IN ({', '.join(map(quoted, dict.fromkeys(names)))})"


def layer_sql(
    numbers: Numbers,
    full_name: str,
    view: str,
    models: Sequence[str],
    corpora: Sequence[str],
    site: str | None = None,
    layer: int | str | None = None,
) -> str:
    """Return a query that shows the numbers of a statistic that a claim rests on."""
    metric, _, statistic = full_name.partition(".")
    sites = among("site", PATH if site is None else (site,))
    where = [
        f"study = {quoted(numbers.study.study)}",
        f"metric = {quoted(metric)}",
        f"statistic = {quoted(statistic)}",
        f"view = {quoted(numbers.view_of(full_name, view))}",
        among("model", models),
        among("corpus", corpora),
        f"(site IS NULL OR {sites})",
        *([f"layer = {layer}"] if isinstance(layer, int) else []),
    ]
    return (
        "SELECT model, checkpoint, step, corpus, site, layer, depth, value, ci_low, ci_high, n FROM layer_metrics "
        f"WHERE {' AND '.join(where)} ORDER BY corpus, model, step, layer"
    )


SHARE = 0.01
"""Of the mean size of the numbers, for a statistic that says nothing of its smallest effect."""


def smallest_effect(numbers: Numbers, full_name: str, stated: float | None, values: Array) -> tuple[float, str]:
    """Return the smallest effect that counts, never below rounding, and a note that says where it is from.

    Args:
        numbers: the study's numbers.
        full_name: the statistic.
        stated: what the claim says (``at_least``); None where it says nothing.
        values: the numbers that are compared, of any shape.
    """
    size = float(np.abs(values).max(initial=0.0))
    known = numbers.statistic(full_name)
    if stated is not None:
        found, note = stated, ""
    elif known is not None and known.smallest is not None:
        found = known.smallest
        note = f"effects of up to {found:g} count as none, the default for {full_name}; 'at_least' changes it"
    else:
        found = SHARE * float(np.abs(values).mean()) if values.size else 0.0
        note = f"effects of up to {found:.3g}, 1 % of the numbers' mean size, count as none; 'at_least' changes it"
    return max(found, ROUNDING * size), note


def difference_bounds(numbers: Numbers, full_name: str) -> tuple[float | None, float | None]:
    """Return what a difference of two numbers of a statistic cannot exceed."""
    known = numbers.statistic(full_name)
    low, high = (None, None) if known is None else known.bounds
    return (None, None) if low is None or high is None else (low - high, high - low)


def at_equal_size(numbers: Numbers, full_name: str, a: Sequence[str], b: Sequence[str]) -> list[str]:
    """Return a note of the sizes of corpora that are compared on a statistic that moves with them.

    Args:
        numbers: the study's numbers.
        full_name: the statistic, as metric.statistic.
        a: corpora of one side.
        b: of the other.

    Returns:
        no note where the statistic does not move, or where both sides are measured on the same corpora.

    Raises:
        Missing: the statistic moves with the corpus, and one corpus has more than 1.25 times the words of another one;
            the text says which, and what to write.
    """
    statistic = numbers.statistic(full_name)
    if statistic is None or not statistic.grows or set(a) == set(b):
        return []
    rows = {row["corpus"]: row for row in numbers.corpus_sizes() if row["corpus"] in {*a, *b}}
    if len(rows) < 2:
        return []
    words = {corpus: int(rows[corpus]["words"]) for corpus in dict.fromkeys([*a, *b]) if corpus in rows}
    if why := unequal(numbers.study, full_name, words):
        raise Missing(why)
    told = (f"{corpus} {n:,} words in {int(rows[corpus]['texts']):,} texts" for corpus, n in words.items())
    return [f"compared at equal size, since the number moves with it: {', '.join(told)}"]


def unequal(study: Study, full_name: str, words: Mapping[str, int]) -> str:
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
    return f"{full_name} moves with the size of the corpus, and {sizes} where {small} has {words[small]:,}: {advice}"
