"""The kinds of claims, one a module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite, isinf
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from reporter.core.confined import quoted
from reporter.core.errors import ReporterError
from reporter.core.imports import Registry
from reporter.core.numbers import counted, short
from reporter.core.places import WITHOUT_SINKS
from reporter.geometry.intervals import quantile
from reporter.judge.estimates import FEWEST_MODELS, ROUNDING, Array, bounds_of_difference
from reporter.judge.kinship import Kinship
from reporter.judge.numbers import PATH, Incomparable, Missing, Numbers
from reporter.judge.outcomes import LEVEL, Inequality, Outcome
from reporter.metrics.base import Statistic
from reporter.study import Study
from reporter.study.claims import Claim
from reporter.study.corpora import ALIKE
from reporter.study.offer import ClaimForm

# What a kind of claim is, and where kinds are found.
#
# They are the modules of ``kinds``, what installed packages bring (entry point ``reporter.claims``), files that a
# study names under ``plugins``, and cells of a notebook.


# What it would have taken to decide a claim that is inconclusive.
#
# With standard error e and critical value c of the test (one-sided, corrected for the number of claims and for the
# choice among inequalities), a number that lies δe beyond its bound is shown to in 80 % of studies like this one: δ =
# c + z_0.8 for a known error; where the error is taken over a few models, δ is the noncentrality at which Student's t
# exceeds c in 80 % of cases. The error from texts falls with the square root of their number, that from models with
# the square root of theirs, and more models also bring c down.


POWER = 0.8
MOST = 1000
"""More times as many texts or models than that is no advice."""


def power(finding: Outcome, tested: int) -> str:
    """Say what would be needed to decide, in one or two sentences; empty where nothing can be said.

    Args:
        finding: an inconclusive finding.
        tested: how many claims are corrected for.
    """
    part = finding.part
    if not finding.tested or part is None or not isfinite(error := float(np.ravel(part.estimates.error)[0])):
        return ""
    reach = detectable_ratio(level_of(part, tested), part.estimates.df) * error
    value, bound = float(np.ravel(part.estimates.value)[0]), float(np.ravel(part.bound)[0])
    gap = abs(value - bound)
    more = (reach / gap) ** 2 if gap else float("inf")
    advice = _least(part, bound, reach)
    if more > MOST:
        advice += f"; if it is {short(part.value)} as measured, no realistic number of texts or models is enough"
    elif more > 1:
        needed = _needed(finding, tested, gap / error, more)
        advice += f"; if it is {short(part.value)} as measured, a verdict needs about {needed}"
    return advice


def level_of(part: Inequality, tested: int) -> float:
    """Return the one-sided level of a test that is corrected for the number of claims and for its own choices."""
    return 2 * LEVEL / (2 * max(1, tested)) / part.scale


def detectable_ratio(level: float, df: float = np.inf, wider: float = 1.0) -> float:
    """Return how many standard errors a difference must have, so that 80 % of tests at a one-sided level detect it.

    Args:
        level: one-sided.
        df: degrees of freedom of the error.
        wider: by how much the test takes the error larger than it is, because texts may be skewed.
    """
    from scipy.special import nctdtrinc

    if isinf(df):
        return wider * quantile(1 - level) + quantile(POWER)
    return float(nctdtrinc(df, 1 - POWER, wider * quantile(1 - level, df)))


def _least(part: Inequality, bound: float, reach: float) -> str:
    wants_less = part.less != part.fails
    edge = part.shown(bound - reach if wants_less else bound + reach)
    allowance = abs(bound) if (bound > 0) == wants_less else 0.0
    if not part.fails and allowance and reach > allowance:
        # Even a profile without any fall, or any distance, lies no further than this from the bound.
        return (
            f"these texts and models can hardly support this claim: to show that {part.name} is {part.wanted.text}, "
            f"reduce the error to about {short(allowance / reach, 2)} times its size, or raise the tolerance"
        )
    return (
        f"with this error, 80 % of such studies reach a verdict if {part.name} is {'<' if wants_less else '>'} "
        f"{short(edge)}"
    )


def _needed(finding: Outcome, tested: int, gap: float, more: float) -> str:
    assert finding.part is not None
    estimates, now = finding.part.estimates, finding.models
    texts = None if estimates.texts is None else float(np.ravel(estimates.texts)[0])
    from_texts = texts is not None and texts**2 >= float(np.ravel(estimates.error)[0]) ** 2 / 2
    if now >= FEWEST_MODELS and not from_texts:
        for models in range(now + 1, MOST * now):
            df = estimates.df * (models - 1) / (now - 1)
            if detectable_ratio(level_of(finding.part, tested), df) <= gap * (models / now) ** 0.5:
                break
        return f"{models} independent models"
    return f"{short(more, 2)} times as many texts" if more < 10 else f"{ceil(more)} times as many texts"


Form = TypeVar("Form", bound=Claim)
Test = Callable[["Numbers", Form, str, str | None], Outcome]
"""Tests a claim on the study's numbers, under a view, on the models or on a null baseline of them.

Raises :class:`~reporter.judge.numbers.Missing` where numbers are missing: the claim is 'failed', with that reason.
"""


@dataclass(frozen=True, kw_only=True)
class ClaimKind(ClaimForm):
    """A kind of claim: what it looks like in a study (:class:`~reporter.study.offer.ClaimForm`), and the rest.

    Args:
        name: the key in a study that tells it, and what ``claims.kind`` says.
        test: what it is tested by.
        place: where it stands where kinds are listed.
        under_views: whether a claim is tested under a view; it is not where it says itself what it reads.
        compares_roles: whether a claim compares encoders with decoders; then it is read without sinks.
        samples: whether its texts stand for others like them, so that few of them decide nothing.
        foresees: why a claim cannot be tested as it stands, given how many words the corpora have; empty where it can.
    """

    name: str
    test: Test[Any]
    place: int = 100
    under_views: Callable[[Any], bool] = lambda claim: True
    compares_roles: Callable[[Any, Numbers], bool] = lambda claim, numbers: False
    samples: bool = True
    foresees: Callable[[Study, Any, Mapping[str, int]], str] = lambda study, claim, words: ""


CLAIM_KINDS: Registry[ClaimKind] = Registry("kind of claim", "claims", "reporter.judge.claims")


def claim_kind(name: str, form: type[Form], **hooks: Any) -> Callable[[Test[Form]], Test[Form]]:
    """Register the decorated function as the test of a kind of claim.

    Args:
        name: see :class:`ClaimKind`.
        form: what such a claim looks like in a study; derives from :class:`~reporter.study.claims.Claim`.
        hooks: see :class:`ClaimKind`.

    Raises:
        ReporterError: the form has no field of that name, or another module has a kind of that name.
    """
    if name not in form.model_fields:
        raise ReporterError(f"{form.__name__} has no field {name!r}; add the field, which is the key of such a claim")

    def register(test: Test[Form]) -> Test[Form]:
        CLAIM_KINDS.add(name, ClaimKind(form, name=name, test=test, **hooks), test)
        return test

    return register


def claim_kinds(plugins: Collection[Path] | None = None) -> dict[str, ClaimKind]:
    """Return the kinds of claims by the key that tells them, in the order in which they are listed.

    Args:
        plugins: of the kinds that plugins bring, those of these files alone; those of all if left out.
    """
    return dict(sorted(CLAIM_KINDS.all(plugins).items(), key=lambda item: (item[1].place, item[0])))


def kind_of(claim: Claim) -> ClaimKind:
    """Return the kind of a claim.

    Raises:
        ReporterError: whoever brought it is gone.
    """
    for kind in CLAIM_KINDS.all().values():
        if type(claim) is kind.form:
            return kind
    raise ReporterError(f"no kind of claim has the form {type(claim).__name__}; read the study again")


def untestable_claims(study: Study, words: Mapping[str, int]) -> Iterator[str]:
    """Yield which claims of a study cannot be tested as they stand, before anything is measured.

    Args:
        study: the study.
        words: words of each of its corpora, as far as they are known.
    """
    for name, claim in study.claims.items():
        if why := kind_of(claim).foresees(study, claim, words):
            yield f"claim {name} cannot be tested: {why}"


# What several kinds of claims share: which corpora, what is left out, smallest effects, equal sizes, SQL.


T = TypeVar("T")


def on_corpora(numbers: Numbers, named: Sequence[str] | None, full_name: str, view: str) -> list[str]:
    """Return the corpora that a claim is tested on: those it names, or all with numbers of the statistic.

    Raises:
        Missing: there are none.
    """
    if named is not None:
        return list(named)
    corpora = numbers.corpora(full_name, view)
    if not corpora:
        raise Missing(f"there are no numbers of {full_name} for token set '{view}'")
    return corpora


def left_out(models: Sequence[str], read: Callable[[str], T], strict: bool) -> tuple[list[T], list[str]]:
    """Read something of each model; of a group, leave out those that lack it, with a note.

    Args:
        models: the models.
        read: raises :class:`Missing` where something is not there.
        strict: whether the models are named, so that none may be left out.

    Raises:
        Missing: a named model lacks it, or all do.
    """
    results, notes = [], []
    last: Missing | None = None
    for model in models:
        try:
            results.append(read(model))
        except Missing as missing:
            if strict:
                raise
            last = missing
            notes.append(f"{model} is left out: {missing}")
    if not results and last is not None:
        raise last
    return results, notes


def independent(kin: Kinship) -> str:
    """Return how many models there are, and how many of them are independent where that is fewer."""
    models, units = sum(map(len, kin.units)), len(kin.units)
    return f"{models} model{'s' * (models != 1)}" + (f" that count as {units}" if units < models else "")


def no_error(units: int, models: Sequence[str]) -> str:
    """Say why nothing was tested where there is neither an interval over texts nor three independent models."""
    count = "there is one independent model" if units == 1 else f"there are {units} independent models"
    return (
        f"{count} ({', '.join(models)}) and no interval over texts, so the error of the number is unknown; name at "
        f"least three independent models, or a statistic with an interval"
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
    sites = among("site", PATH if site is None else (site,))
    where = [
        f"study = {quoted(numbers.study.study)}",
        *(f"{column} = {quoted(value)}" for column, value in numbers.key(full_name, view).items()),
        among("model", models),
        among("corpus", corpora),
        f"(site IS NULL OR {sites})",
        *([f"layer = {layer}"] if isinstance(layer, int) else []),
    ]
    last = "QUALIFY layer = max(layer) OVER (PARTITION BY model, checkpoint, corpus, site) " if layer == "last" else ""
    return (
        "SELECT model, checkpoint, step, corpus, site, layer, depth, value, ci_low, ci_high, n FROM layer_metrics "
        f"WHERE {' AND '.join(where)} {last}ORDER BY corpus, model, step, layer"
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
    statistic, note = numbers.facts.statistic(full_name), ""
    least = least_effect(statistic, values, stated)
    if stated is None and statistic is not None and least == statistic.smallest:
        note = f"differences ≤ {least:g} count as zero, the default for {full_name}"
    elif stated is None:
        note = f"differences ≤ {short(least)}, {100 * SHARE:g} % of the numbers' mean size, count as zero"
    return least, f"{note} (`at_least` changes it)" if note else ""


def least_effect(statistic: Statistic | None, values: ArrayLike, stated: float | None = None) -> float:
    """Return the minimum meaningful difference: the stated one, the statistic's, or a share of the numbers' size.

    Everything that calls a difference large enough asks here; ``thresholds.md`` has the figures behind the limits.
    """
    size = np.abs(values)
    share = SHARE * float(size.mean()) if size.size else 0.0
    if stated is None and statistic is not None and statistic.smallest is not None:
        stated = max(statistic.smallest, share) if statistic.relative else statistic.smallest
    return max(share if stated is None else stated, ROUNDING * float(size.max(initial=0.0)))


def first_token_differences(numbers: Numbers, models: Sequence[str], view: str) -> str:
    """Return what the models' texts begin with, if it differs and the token set counts it; else an empty text."""
    rows = (row for row in numbers.facts.models if row["model"] in models and row["first_token"] is not None)
    begins = {row["model"]: str(row["first_token"]) for row in rows}
    if view == WITHOUT_SINKS or len(set(begins.values())) < 2:
        return ""
    return ", ".join(f"{model} with {'a word' if token == 'word' else token}" for model, token in begins.items())


def difference_bounds(numbers: Numbers, full_name: str) -> tuple[float | None, float | None]:
    """Return what a difference of two numbers of a statistic cannot exceed."""
    return bounds_of_difference(numbers.facts.bounds(full_name))


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
        Incomparable: the statistic moves with the corpus, and one corpus has more than 1.25 times the words of another
            one; the text says which, and what to write.
    """
    statistic = numbers.facts.statistic(full_name)
    if statistic is None or not statistic.grows or set(a) == set(b):
        return []
    rows = {corpus: row for corpus, row in numbers.facts.corpora.items() if corpus in {*a, *b}}
    if len(rows) < 2:
        return []
    words = {corpus: int(rows[corpus]["words"]) for corpus in dict.fromkeys([*a, *b]) if corpus in rows}
    if why := unequal(numbers.study, full_name, words):
        raise Incomparable(why)
    sizes = (
        f"{corpus} {n:,} words in {counted(rows[corpus]['texts'], rows[corpus].get('unit', 'text'))}"
        for corpus, n in words.items()
    )
    return [f"compared at equal size, since the number depends on it: {', '.join(sizes)}"]


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
        advice = f"models are trained on {which}, so add a copy of {each} with {key}, and compare the copy"
    else:
        advice = f"add {key} to {which}, or add a copy of {each} with this key and compare the copy"
    return f"{full_name} depends on the size of the corpus, and {sizes}, but {small} has {words[small]:,}: {advice}"
