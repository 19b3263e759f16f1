"""``value:`` claims: a number against the published one, or against bounds that may be numbers of the study, too.

The interval decides: the error towards a bound is that of the side of the interval that faces it, so that a bound just
outside a 95 % interval has the one-sided p-value 0.025. Of two numbers the errors are joined as if independent, which
overstates the error of a difference where they rest on the same texts. A number without an interval, or with one that
has no width, is compared as it stands; then there is no p-value, and the claim does not count among those that are
corrected for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.evidence import layer_sql
from reporter.claims.finding import Finding, clipped
from reporter.claims.inequality import Inequality, Range
from reporter.claims.missing import Missing
from reporter.claims.numbers import PATH, Number, at_layer
from reporter.claims.points import Estimates
from reporter.claims.profiles import by_definition, fixed_ends
from reporter.claims.scoped_sql import sql_number
from reporter.claims.sizes import at_equal_size
from reporter.geometry.intervals import below, quantile
from reporter.spec.claim_parts import MetricNumber, SqlNumber

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers
    from reporter.spec.claims import ValueClaim
    from reporter.store.schema import Word


def value_finding(numbers: Numbers, claim: ValueClaim, view: str | None, baseline: str | None) -> Finding:
    """Test a number against its bounds.

    Args:
        numbers: the study's numbers.
        claim: what is claimed.
        view: the view, for numbers that name none.
        baseline: a null baseline to read in place of each model.

    Raises:
        Missing: a number is missing, or two corpora are too unequal to be compared on it.
    """

    def read(source: MetricNumber | SqlNumber | float) -> Number:
        if isinstance(source, float):
            return Number(source, source, source)
        if isinstance(source, SqlNumber):
            return sql_number(numbers.store, numbers.study, source.sql)
        return metric_number(numbers, source, view, baseline)

    value = read(claim.value)
    low: Number | None
    high: Number | None
    if claim.within is not None and claim.paper is not None:
        low, high = read(claim.paper - claim.within), read(claim.paper + claim.within)
        shown = f"{claim.paper:g} ± {claim.within:g}"
    else:
        low, high = (None if at is None else read(at) for at in _bounds(claim))
        shown = " and ".join(f"{sign} {at.value:.4g}" for sign, at in ((">", low), ("<", high)) if at is not None)
    wanted = Range(shown, None if low is None else low.value, None if high is None else high.value)
    exact = not any(at is not None and _uncertain(at) for at in (value, low, high))
    inside = (low is None or value.value > low.value) and (high is None or value.value < high.value)
    if claim.within is not None:  # "within 0.01" includes 0.01, up to how floats are written
        inside = abs(value.value - (claim.paper or 0.0)) <= claim.within * (1 + 1e-9)
    holds, fails = _between(None if low is None else _above(value, low), None if high is None else _above(high, value))
    notes = list(value.notes)
    for at in (low, high):
        notes += [] if at is None else at.notes
    notes += _sizes(numbers, claim, view)
    if exact:
        what = "its interval has no width" if value.known else "the number has no interval"
        why = f"{what}; it is compared as it stands, so that nothing tells how sure the verdict is"
        notes.append(why)
    detail = {
        "statistic": claim.value.sql if isinstance(claim.value, SqlNumber) else claim.value.metric,
        "definition": f"the 95 % interval of the number lies wholly where it is {shown}; wholly outside refutes it",
        "notes": notes,
        "sql": _sql(numbers, claim.value, view, baseline),
    }
    statistic = None if isinstance(claim.value, SqlNumber) else numbers.statistic(claim.value.metric)
    least, most = clipped((value.low, value.high), (None, None) if statistic is None else statistic.bounds)
    if exact:
        word: Word = "supported" if inside else "refuted"
        return Finding(None, None, value.value, least, most, wanted, word, why, detail=detail)
    return Finding(holds, fails, value.value, least, most, wanted, part=_nearest(value, low, high), detail=detail)


def _sizes(numbers: Numbers, claim: ValueClaim, view: str | None) -> list[str]:
    """Return a note where a number is compared with the same one on another corpus; refuse unequal corpora."""
    notes = []
    for other in _bounds(claim):
        own = claim.value
        if isinstance(own, MetricNumber) and isinstance(other, MetricNumber) and own.metric == other.metric:
            under = (one.view or view or numbers.study.views[0] for one in (own, other))
            a, b = (numbers.corpus_of(one.metric, at, one.corpus) for one, at in zip((own, other), under, strict=True))
            notes += at_equal_size(numbers, own.metric, [a], [b])
    return notes


def _nearest(value: Number, low: Number | None, high: Number | None) -> Inequality | None:
    """Return the comparison with the bound that lies nearest, measured by the error towards it."""
    found = []
    for at, less in ((low, False), (high, True)):
        if at is not None and (error := _error(value, at)) > 0:
            gap = Estimates(np.array([value.value - at.value]), np.array([error]), np.inf, np.array([error]))
            found.append(Inequality("the number minus the bound", gap, 0.0, less))
    return min(found, key=lambda one: abs(one.value) / float(one.estimates.error[0]), default=None)


def _between(over: tuple[float, float] | None, under: tuple[float, float] | None) -> tuple[float, float]:
    """Join "greater than the low bound" and "less than the high one", each with the p-value of its opposite.

    Both must hold. To fail, the number must lie beyond one of them; to the p-value of that comes the chance of being as
    far beyond the other, so that with equal bounds the test is two-sided.
    """
    if over is None or under is None:
        return over or under or (1.0, 1.0)
    return max(over[0], under[0]), min(1.0, over[1] + under[0], under[1] + over[0])


def _bounds(
    claim: ValueClaim,
) -> tuple[MetricNumber | SqlNumber | float | None, MetricNumber | SqlNumber | float | None]:
    return claim.between if claim.between is not None else (claim.above, claim.below)


def _uncertain(number: Number) -> bool:
    return number.known and (number.low, number.high) != (number.value, number.value)


def _above(upper: Number, lower: Number) -> tuple[float, float]:
    """Return the one-sided p-values of upper > lower and of the opposite."""
    gap, error = upper.value - lower.value, _error(upper, lower)
    if error == 0:
        return (0.0, 1.0) if gap > 0 else (1.0, 0.0) if gap < 0 else (0.5, 0.5)
    return float(below(-gap / error)), float(below(gap / error))


def _error(a: Number, b: Number) -> float:
    """Return the error of a − b, from the sides of both intervals that face each other."""
    side = 1 if a.value < b.value else -1
    return float(np.hypot(_reach(a, side), _reach(b, -side))) / quantile(0.975)


def _reach(number: Number, side: int) -> float:
    """Return how far the interval reaches to one side; 0 where there is none."""
    if number.low is None or number.high is None:
        return 0.0
    return max(0.0, number.high - number.value if side > 0 else number.value - number.low)


def metric_number(numbers: Numbers, source: MetricNumber, view: str | None, baseline: str | None) -> Number:
    """Return one number of ``layer_metrics``.

    Raises:
        Missing: it is not there, or NULL.
    """
    under = source.view or view or numbers.study.views[0]
    model = f"{source.model} ({baseline})" if baseline else source.model
    if not numbers.rows(source.metric, under):
        raise Missing(f"there are no numbers of {source.metric} under view '{under}'")
    corpus = numbers.corpus_of(source.metric, under, source.corpus)
    rows = [row for row in numbers.rows(source.metric, under) if row.corpus == corpus]
    where = f"{source.metric} of {model} on '{corpus}' under view '{under}'"
    if not rows:
        raise Missing(f"there are no numbers of {source.metric} on '{corpus}' under view '{under}'")
    own = numbers.pick(rows, model, None if baseline else source.checkpoint, None if baseline else source.step)
    single = source.site in ("embedding", "final") and source.layer is None
    found = at_layer(own, source.layer, source.site)
    if source.layer is None and not single and any(row.layer is not None for row in found):
        raise Missing(f"{source.metric} is measured at every layer; say which with 'layer'")
    if source.layer is not None and found and found[0].layer is None:
        raise Missing(f"{source.metric} is a number of the whole model; leave 'layer' out")
    if len(found) != 1:
        at = "" if source.layer is None else f" at layer {source.layer}"
        raise Missing(f"there is no number{at}: {where}")
    row = found[0]
    if row.value is None:
        raise Missing(f"{where} has no value: {numbers.why_missing(source.metric, row, under)}")
    ends = fixed_ends(numbers, source.metric, at_layer(own, None, None)) if row.site in PATH else ()
    notes = tuple(by_definition(source.metric, layer, model, at) for _, layer, at in ends if layer == row.layer)
    return Number(row.value, row.low, row.high, notes)


def _sql(numbers: Numbers, source: MetricNumber | SqlNumber, view: str | None, baseline: str | None) -> str:
    if isinstance(source, SqlNumber):
        return source.sql.strip()
    model = f"{source.model} ({baseline})" if baseline else source.model
    under = source.view or view or numbers.study.views[0]
    corpus = numbers.corpus_of(source.metric, under, source.corpus)
    return layer_sql(numbers, source.metric, under, [model], [corpus], source.site, source.layer)
