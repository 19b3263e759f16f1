"""What several kinds of claims share: which corpora, what is left out, and the SQL that shows the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from reporter.claims.missing import Missing
from reporter.claims.numbers import PATH

if TYPE_CHECKING:
    from reporter.claims.kinship import Kinship
    from reporter.claims.numbers import Numbers

T = TypeVar("T")


def on_corpora(numbers: Numbers, named: Sequence[str] | None, measure: str, view: str) -> list[str]:
    """Return the corpora that a claim is tested on: those it names, or all with numbers of the statistic.

    Raises:
        Missing: there are none.
    """
    if named is not None:
        return list(named)
    found = numbers.corpora(measure, view)
    if not found:
        raise Missing(f"there are no numbers of {measure} under view '{view}'")
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


def quoted(text: str) -> str:
    """Return text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def among(column: str, names: Sequence[str]) -> str:
    """Return the condition that a column has one of the names."""
    return f"{column} IN ({', '.join(map(quoted, dict.fromkeys(names)))})"


def layer_sql(
    numbers: Numbers,
    measure: str,
    view: str,
    models: Sequence[str],
    corpora: Sequence[str],
    site: str | None = None,
    layer: int | str | None = None,
) -> str:
    """Return a query that shows the numbers of a statistic that a claim rests on."""
    metric, _, statistic = measure.partition(".")
    sites = among("site", PATH if site is None else (site,))
    where = [
        f"study = {quoted(numbers.study.study)}",
        f"metric = {quoted(metric)}",
        f"statistic = {quoted(statistic)}",
        f"view = {quoted(numbers.view_of(measure, view))}",
        among("model", models),
        among("corpus", corpora),
        f"(site IS NULL OR {sites})",
        *([f"layer = {layer}"] if isinstance(layer, int) else []),
    ]
    return (
        "SELECT model, checkpoint, step, corpus, site, layer, depth, value, ci_low, ci_high, n FROM layer_metrics "
        f"WHERE {' AND '.join(where)} ORDER BY corpus, model, step, layer"
    )
