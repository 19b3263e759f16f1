"""``value:`` claims: a number against the published one, or against bounds that may be numbers of the study, too.

The interval decides: the error towards a bound is that of the side of the interval that faces it, so that a bound just
outside a 95 % interval has the one-sided p-value 0.025. Two numbers on one corpus are paired by text where their parts
of texts are known; else their errors are joined as if independent, which overstates the error of a difference
(:mod:`reporter.judge.estimates`). A number without an interval, or with one that has no width, is compared as it
stands; then there is no p-value, and the claim does not count among those that are corrected for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from reporter.core.confined import quoted
from reporter.core.errors import ReporterError
from reporter.core.numbers import short
from reporter.core.places import place
from reporter.geometry.intervals import quantile
from reporter.judge.claims import at_equal_size, claim_kind, difference_bounds, layer_sql, left_out
from reporter.judge.estimates import Bounds, Estimates, measured
from reporter.judge.numbers import PATH, Missing, Numbers, at_layer, finite
from reporter.judge.outcomes import FIXED, Detail, Inequality, Outcome, Range, every
from reporter.judge.profiles import by_definition
from reporter.store import Store
from reporter.store.schema import Word
from reporter.study import Study
from reporter.study.claims import GROUPS, WITH_BASE, Bound, Claim, MetricNumber, Number, SqlNumber
from reporter.study.part import AsTuple, Complaint, failure


@dataclass(frozen=True)
class Bounded:
    """One number that a claim names.

    Args:
        number: P = 1; its error is infinite where it has no interval.
        notes: what a reader must know.
        unsure: why it has no interval, though its statistic has; it decides nothing then.
        corpus: the texts that it is of.
    """

    number: Estimates
    notes: tuple[str, ...] = ()
    unsure: str = ""
    corpus: str = ""

    @classmethod
    def exactly(cls, value: float, notes: tuple[str, ...] = (), known: bool = True) -> Bounded:
        """Return a number that has no error, or of which none is known."""
        return cls(Estimates(np.array([value]), np.array([0.0 if known else np.inf])), notes)

    @property
    def value(self) -> float:
        """The number."""
        return float(self.number.value[0])

    @property
    def known(self) -> bool:
        """Whether it has an interval."""
        return self.number.known


class ValueClaim(Claim):
    """A number is near the published one, or above, below or between others."""

    value: Number = Field(description="The number: {metric: …, model: …} or {sql: …}.")
    within: float | None = Field(None, ge=0, description="Largest distance of the number from 'paper'.")
    above: Bound | None = Field(None, description="Lower bound: a number, {metric: …} or {sql: …}.")
    below: Bound | None = Field(None, description="Upper bound: a number, {metric: …} or {sql: …}.")
    between: Annotated[tuple[Bound, Bound], AsTuple] | None = Field(None, description="Both bounds, as [low, high].")

    @model_validator(mode="after")
    def _is_tested_in_one_way(self) -> ValueClaim:
        if self.within is not None and self.paper is None:
            message = "needs `paper`; add `paper: NUMBER`, the published number"
            raise failure(Complaint(message, ("within",), "key"))
        given = [key for key in ("within", "above", "below", "between") if getattr(self, key) is not None]
        if not given:
            message = "missing key; add `above`, `below`, `between`, or `paper` and `within`"
            raise failure(Complaint(message, (), "parent"))
        if len(given) > 1:
            message = f"'{given[0]}' and '{given[1]}' cannot be combined; remove one of them, or use `between`"
            raise failure(Complaint(message, (given[1],), "key"))
        low, high = self.between or (None, None)
        if isinstance(low, float) and isinstance(high, float) and low >= high:
            raise failure(
                Complaint(f"the first number ({low:g}) must be less than the second ({high:g})", ("between",))
            )
        group = self.value.model if isinstance(self.value, MetricNumber) else None
        for key, index, bound in _numbered(self):
            if isinstance(bound, MetricNumber) and bound.model in GROUPS and bound.model != group:
                named = f"'{group}', as in `value`" if group in GROUPS else "one of them"
                message = f"'{bound.model}' stands for several models, which `value` does not name; name {named}"
                raise failure(Complaint(message, (key, *index, "model")))
        if isinstance(self.value, SqlNumber) and (self.views or self.baselines):
            key = "views" if self.views else "baselines"
            message = f"cannot be combined with `sql`, which chooses the rows itself; remove `{key}`"
            raise failure(Complaint(message, (key,), "key"))
        return self


def _numbered(claim: ValueClaim) -> Iterator[tuple[str, tuple[int, ...], Any]]:
    yield "above", (), claim.above
    yield "below", (), claim.below
    yield from (("between", (index,), bound) for index, bound in enumerate(claim.between or ()))


def _claim_about_model(claim: ValueClaim, model: str) -> ValueClaim:
    group = claim.value.model if isinstance(claim.value, MetricNumber) else ""

    def of_one(number: Any) -> Any:
        same = isinstance(number, MetricNumber) and number.model == group
        return number.model_copy(update={"model": model}) if same else number

    bounds = {"value": of_one(claim.value), "above": of_one(claim.above), "below": of_one(claim.below)}
    between = claim.between and tuple(map(of_one, claim.between))
    return claim.model_copy(update={**bounds, "between": between})


def _has_a_base(claim: ValueClaim, study: Study) -> Iterator[Complaint]:
    for key, index, number in (("value", (), claim.value), *_numbered(claim)):
        if isinstance(number, MetricNumber) and number.against and number.model != WITH_BASE:
            named = [number.model] if number.model in study.models else list(study.models)
            if not any(study.models[name].base for name in named):
                message = f"'{number.model}' has no base to be compared with; add `base: NAME` to the model"
                yield Complaint(message, (key, *index, "against"))


@claim_kind(
    "value", ValueClaim, place=1, under_views=lambda claim: not isinstance(claim.value, SqlNumber), fits=_has_a_base
)
def value_finding(numbers: Numbers, claim: ValueClaim, view: str, baseline: str | None) -> Outcome:
    """Test a number against its bounds; of several models each one's, which must all lie there.

    Args:
        numbers: the study's numbers.
        claim: what is claimed.
        view: the view, for numbers that name none.
        baseline: a null baseline to read in place of each model.

    Raises:
        Missing: a number is missing, or two corpora are too unequal to be compared on it.
    """
    source = claim.value
    if isinstance(source, SqlNumber) or source.model in numbers.study.models:
        return _of_one(numbers, claim, view, baseline)
    suffix = f" ({baseline})" if baseline else ""
    shown, notes = numbers.models([source.model], source.metric, source.view or view, baseline)

    def test(model: str) -> tuple[str, Outcome]:
        return model, _of_one(numbers, _claim_about_model(claim, model.removesuffix(suffix)), view, baseline)

    findings, more = left_out(shown, test, strict=False)
    each = dict(findings)
    notes += [*more, *([f"the claim must hold for each of {len(each)} models"] if len(each) > 1 else [])]
    rows = [finding.evidence(model, finding.detail.corpora[0]) for model, finding in each.items()]
    evidence = [{name: cell for name, cell in row.items() if name != "statistic"} for row in rows]
    sql = _sql(numbers, claim, view, baseline, list(each))
    whole = replace(every(list(each.values())), each=each if len(each) > 1 else {})
    return whole.with_detail(models=list(each), evidence=evidence, notes=notes, sql=sql)


def _estimate(value: float, number: Estimates) -> dict[str, float | None]:
    low, high = number.ends()
    return {"value": value, "ci_low": low, "ci_high": high}


def _of_one(numbers: Numbers, claim: ValueClaim, view: str, baseline: str | None) -> Outcome:
    """Test the number of one model, or of a query."""
    fixed = numbers.study.texts == "fixed"

    def read(source: MetricNumber | SqlNumber | float) -> Bounded:
        if isinstance(source, float):
            return Bounded.exactly(source)
        if isinstance(source, SqlNumber):
            texts = min(numbers.facts.texts.values(), default=None)
            number = sql_number(numbers.store, numbers.study, source.sql, texts)
        else:
            number = metric_number(numbers, source, view, baseline)
        return Bounded.exactly(number.value, number.notes, known=False) if fixed else number

    value = read(claim.value)
    low: Bounded | None
    high: Bounded | None
    if claim.within is not None and claim.paper is not None:
        low, high = read(claim.paper - claim.within), read(claim.paper + claim.within)
        shown = f"{claim.paper:g} ± {claim.within:g}"
    else:
        low, high = (None if bound is None else read(bound) for bound in _bounds(claim))
        shown = " and ".join(
            f"{sign} {bound.value:.4g}" for sign, bound in ((">", low), ("<", high)) if bound is not None
        )
    claimed = Range(shown, None if low is None else low.value, None if high is None else high.value)
    every_number = [bound for bound in (value, low, high) if bound is not None]
    exact = not any(bound.known and bound.number.error[0] > 0 for bound in every_number)
    holds, fails = between(value, low, high)
    notes = [*(note for bound in every_number for note in bound.notes), *_sizes(numbers, claim, view)]
    why = unsure = next((bound.unsure for bound in every_number if bound.unsure), "")
    if exact and not unsure:
        what = "its interval has no width" if value.known else "the number has no interval"
        why = FIXED if fixed else f"{what}, so the verdict ignores the uncertainty of the number"
        notes.append(why)
    quantity = claim.value
    nearest = _nearest(value, low, high)
    measured = [
        (f"{sign} {_named(numbers, of)}", bound)
        for sign, bound, of in zip("><", (low, high), _bounds(claim), strict=True)
        if bound is not None and isinstance(of, MetricNumber | SqlNumber)
    ]
    detail = Detail(
        quantity.sql if isinstance(quantity, SqlNumber) else _described(numbers, quantity),
        f"supported if the whole 95 % interval is {shown}, refuted if none of it is",
        notes=notes,
        sql=_sql(numbers, claim, view, baseline),
        bounds=[{"bound": text} | _estimate(bound.value, bound.number) for text, bound in measured],
        difference=_estimate(nearest.value, nearest.estimates) if measured and nearest is not None else None,
    )
    bounds: Bounds = (None, None)
    if isinstance(quantity, MetricNumber):
        bounds = numbers.facts.bounds(quantity.metric)
        corpus = numbers.corpus_of(quantity.metric, quantity.view or view, quantity.corpus)
        detail = replace(detail, models=[quantity.model], corpora=[corpus])
        if quantity.against:
            detail = replace(detail, statistic=f"{detail.statistic} minus the base's")
            bounds = difference_bounds(numbers, quantity.metric)
    least, most = value.number.ends(bounds)
    if exact or unsure:
        inside = (low is None or value.value > low.value) and (high is None or value.value < high.value)
        if claim.within is not None:  # "within 0.01" includes 0.01, up to how floats are written
            inside = abs(value.value - (claim.paper or 0.0)) <= claim.within * (1 + 1e-9)
        word: Word = "inconclusive" if unsure else "supported" if inside else "refuted"
        return Outcome(None, None, value.value, least, most, claimed, word, why, detail=detail, bounds=bounds)
    return Outcome(holds, fails, value.value, least, most, claimed, part=nearest, detail=detail, bounds=bounds)


def _described(numbers: Numbers, source: MetricNumber) -> str:
    """Return what a number is: its statistic, and its layer where it has one."""
    statistic = numbers.facts.statistic(source.metric)
    step = statistic is not None and statistic.per == "step"
    if source.layer is None:
        return f"{source.metric} at the {source.site}" if source.site in ("embedding", "final") else source.metric
    last = f"the last {'block' if step else 'layer'}"
    return f"{source.metric} at {last if source.layer == 'last' else place(int(source.layer), step)}"


def _named(numbers: Numbers, source: Any) -> str:
    """Return what a bound is: a number of another model, or of a query."""
    if isinstance(source, SqlNumber):
        return "the number of a query"
    on = f" on {source.corpus}" if source.corpus else ""
    return f"{_described(numbers, source)} of {source.model}{on}"


_UNSEEN = 3.0
"""Tokens of a kind that n tokens lack are at most this share over n, with 95 % confidence (the rule of three)."""


def with_unseen(number: Bounded, rarest: float, tokens: int, name: str) -> Bounded:
    """Return a mean over tokens whose upper end allows for tokens of a kind that the texts lack."""
    if not number.known:
        return number
    more = _UNSEEN * rarest / max(tokens, 1)
    of = number.number
    down, up = of.errors
    of = Estimates.of_tails(of.value, down, up + more / quantile(0.975, of.df), of.df, known=False)
    note = f"the upper end of {name} allows for tokens that these texts lack: +{short(more, 2)}"
    return replace(number, number=of, notes=(*number.notes, note))


def _sizes(numbers: Numbers, claim: ValueClaim, view: str) -> list[str]:
    """Return notes about numbers that depend on the size of the corpus; refuse to compare corpora of unequal size."""
    source = claim.value
    if not isinstance(source, MetricNumber):
        return []
    notes = []
    corpus = numbers.corpus_of(source.metric, source.view or view, source.corpus)
    statistic = numbers.facts.statistic(source.metric)
    if statistic is not None and statistic.grows:
        words = numbers.facts.corpora.get(corpus, {}).get("words")
        notes += [f"{source.metric} depends on the size of the corpus: {corpus} has {words:,} words"] if words else []
    for other in _bounds(claim):
        if isinstance(other, MetricNumber) and source.metric == other.metric:
            theirs = numbers.corpus_of(other.metric, other.view or view, other.corpus)
            notes += at_equal_size(numbers, source.metric, [corpus], [theirs])
    return notes


def _gap(a: Bounded, b: Bounded) -> Estimates:
    """Return a − b, paired by text on one corpus; a number without an interval is taken as it stands."""
    one, other = (of.number if of.known else Estimates(of.number.value, np.zeros(1)) for of in (a, b))
    return one.minus(other, paired=a.corpus == b.corpus)


def _nearest(value: Bounded, low: Bounded | None, high: Bounded | None) -> Inequality | None:
    """Return the test against the bound that is nearest, counted in errors."""
    tests = []
    for bound, less in ((low, False), (high, True)):
        if bound is not None and (gap := _gap(value, bound)).error[0] > 0:
            facing = gap.errors[0 if gap.value[0] > 0 else 1][0]
            tests.append((abs(gap.value[0]) / facing, Inequality("the number minus the bound", gap, 0.0, less)))
    return min(tests, key=lambda test: test[0], default=(0.0, None))[1]


def between(value: Bounded, low: Bounded | None, high: Bounded | None) -> tuple[float, float]:
    """Return the p-values of "it is greater than the low bound and less than the high one", and of the opposite.

    Both must hold. To fail, the number must lie beyond one of them; to the p-value of that comes the chance of being as
    far beyond the other, so that with equal bounds the test is two-sided.
    """
    above = None if low is None else _gap(value, low)
    below = None if high is None else _gap(high, value)
    sides = [(float(gap.above(0.0)[0]), float(gap.below(0.0)[0])) for gap in (above, below) if gap is not None]
    if len(sides) < 2:
        return sides[0] if sides else (1.0, 1.0)
    over, under = sides
    return max(over[0], under[0]), min(1.0, over[1] + under[0], under[1] + over[0])


def _bounds(claim: ValueClaim) -> tuple[Bound | None, Bound | None]:
    return claim.between if claim.between is not None else (claim.above, claim.below)


def metric_number(numbers: Numbers, source: MetricNumber, view: str, baseline: str | None) -> Bounded:
    """Return one number of ``layer_metrics``, or its difference to the base's.

    Raises:
        Missing: it is not there, or NULL.
    """
    if source.against:
        return _against_base(numbers, source, view, baseline)
    under = source.view or view
    model = f"{source.model} ({baseline})" if baseline else source.model
    if not numbers.rows(source.metric, under):
        raise Missing(f"there are no numbers of {source.metric} for token set '{under}'")
    corpus = numbers.corpus_of(source.metric, under, source.corpus)
    rows = [row for row in numbers.rows(source.metric, under) if row.corpus == corpus]
    where = f"{source.metric} of {model} on '{corpus}' for token set '{under}'"
    if not rows:
        raise Missing(f"there are no numbers of {source.metric} on '{corpus}' for token set '{under}'")
    checkpoint = numbers.pick(rows, model, None if baseline else source.checkpoint, None if baseline else source.step)
    single = source.site in ("embedding", "final") and source.layer is None
    matches = at_layer(checkpoint, source.layer, source.site)
    if source.layer is None and not single and any(row.layer is not None for row in matches):
        raise Missing(f"{source.metric} is measured at every layer; add `layer: NUMBER` or `layer: last`")
    if source.layer is not None and matches and matches[0].layer is None:
        raise Missing(f"{source.metric} is one number for the whole model; remove `layer`")
    if len(matches) != 1:
        suffix = "" if source.layer is None else f" at layer {source.layer}"
        raise Missing(f"there is no number{suffix}: {where}")
    row = matches[0]
    if row.value is None:
        raise Missing(f"{where} has no value: {numbers.reasons.why_missing(source.metric, row, under)}")
    is_fixed = row.by_definition and row.site in PATH
    notes = (by_definition(source.metric, row.layer or 0, model, row.value),) if is_fixed else ()
    flat = None not in (row.low, row.high) and row.low == row.high == row.value  # no width is no error
    estimates = (
        Estimates(np.array([row.value]), np.zeros(1)) if flat else numbers.estimates(source.metric, under, [row])
    )
    number = Bounded(estimates, notes, corpus=corpus)
    statistic = numbers.facts.statistic(source.metric)
    if statistic is not None and statistic.rarest is not None:
        number = with_unseen(number, statistic.rarest, row.n, source.metric)
    has_interval = statistic is not None and statistic.interval and not source.metric.endswith("_floor")
    if has_interval and not number.known and not row.by_definition:
        return replace(number, unsure=f"{where} has no interval over these texts")
    return number


def _against_base(numbers: Numbers, source: MetricNumber, view: str, baseline: str | None) -> Bounded:
    """Return a model's number minus that of its base.

    Paired over texts where both have parts, or the metric stores that (table ``differences``); else both intervals are
    joined as if independent, which overstates the error, since both models read the same texts.
    """
    base = numbers.study.models[source.model].base
    if base is None:
        raise Missing(f"{source.model} has no base to be compared with: add `base: NAME` to the model")
    if baseline is not None:
        raise Missing(f"'against: base' compares a model with its base, and {baseline} has none")
    under = source.view or view
    corpus = numbers.corpus_of(source.metric, under, source.corpus)
    rows = [
        row for row in numbers.against_base(source.metric, under) if (row.model, row.corpus) == (source.model, corpus)
    ]
    single = source.site in ("embedding", "final") and source.layer is None
    depths = {
        max((row.layer or 0 for row in numbers.rows(source.metric, under) if row.model == name), default=0)
        for name in (source.model, base)
    }
    alone = source.model_copy(update={"against": None})
    mine, theirs = (
        metric_number(numbers, alone.model_copy(update={"model": name}), view, None) for name in (source.model, base)
    )
    notes, gap = (*mine.notes, *theirs.notes), _gap(mine, theirs)
    if gap.parts is not None:
        return Bounded(gap, notes, corpus=corpus)
    matches = [row for row in at_layer(rows, source.layer, source.site) if row.low is not None] if rows else []
    if (
        len(matches) == 1
        and (source.layer != "last" or len(depths) == 1)
        and (source.layer is not None or single or matches[0].layer is None)
    ):
        row, texts = matches[0], numbers.facts.texts_of(source.metric, corpus)
        return Bounded(Estimates.of_pair(row.value or 0.0, row.low or 0.0, row.high or 0.0, texts))
    if not (mine.known and theirs.known):
        return replace(Bounded.exactly(gap.value[0], notes, known=False), unsure=mine.unsure or theirs.unsure)
    note = f"{source.metric} has no paired difference from a base: both intervals are combined as if independent"
    return Bounded(gap, (*notes, note))


def _sql(
    numbers: Numbers, claim: ValueClaim, view: str, baseline: str | None, models: Sequence[str] | None = None
) -> str:
    source = claim.value
    if isinstance(source, SqlNumber):
        return source.sql.strip()
    shown = models or [f"{source.model} ({baseline})" if baseline else source.model]
    if source.against:
        shown = list(dict.fromkeys([*shown, *filter(None, (numbers.study.models[name].base for name in shown))]))
    under = source.view or view
    corpus = numbers.corpus_of(source.metric, under, source.corpus)
    others = [bound for bound in _bounds(claim) if isinstance(bound, MetricNumber) and bound.model not in GROUPS]
    alike = ("metric", "view", "corpus", "layer", "site")
    shown = [*shown, *(o.model for o in others if all(getattr(o, key) == getattr(source, key) for key in alike))]
    return layer_sql(numbers, source.metric, under, shown, [corpus], source.site, source.layer)


def sql_number(store: Store, study: Study, sql: str, texts: int | None) -> Bounded:
    """Return the first row of a query as a number.

    The query sees the rows of this study alone: another study of the same database may well have a model of the same
    name. The rows of ``layer_metrics`` and ``over_models`` come in the order of the study's views and corpora, so that
    "the first row" means something; ``main.layer_metrics`` is everything.

    Args:
        store: the database.
        study: the study.
        sql: one query. Its column ``value``, or its only column, is the number; ``ci_low`` and ``ci_high`` its
            interval.
        texts: over how many texts such an interval is.

    Raises:
        Missing: the query is wrong, gives no row, or no number.
    """
    from reporter.store import query

    text = sql.strip().removesuffix(";")
    try:
        rows = json.loads(query(store.path, _scoped(study, text), "json"))
    except ReporterError as error:
        # The query stands below one line of our own.
        message = re.sub(r"\(line (\d+)", lambda match: f"(line {max(1, int(match[1]) - 1)}", str(error))
        raise Missing(f"the query failed: {message}") from None
    if not rows:
        raise Missing("the query returned no rows")
    first: dict[str, Any] = rows[0]
    names = {name.lower(): name for name in first}
    if "value" not in names and len(names) > 1:
        raise Missing(f"the query returned the columns {', '.join(first)}; name one of them 'value'")
    value = _number(first, names.get("value", next(iter(first))))
    if value is None:
        raise Missing("the first row of the query has no value (NULL)")
    low, high = (_number(first, names[name]) if name in names else None for name in ("ci_low", "ci_high"))
    notes = [f"the query returned {len(rows):,} rows; the first is used"] if len(rows) > 1 else []
    if low == high == value:  # no width is no error
        return Bounded.exactly(value, tuple(notes))
    return Bounded(measured(np.array([value]), [(low, high)], (), texts, (None, None)), tuple(notes))


def _scoped(study: Study, sql: str) -> str:
    from reporter.store.schema import tables as known

    scope = f"WHERE study = {quoted(study.study)}"
    order = ", ".join(
        f"list_position([{', '.join(map(quoted, names))}], {column})"
        for column, names in (("view", study.views), ("corpus", tuple(study.corpora)))
        if names
    )
    tables = []
    for table in known().values():
        if any(column.name == "study" for column in table.columns):
            sort = f" ORDER BY {order}, rowid" if table.name in ("layer_metrics", "over_models") else ""
            tables.append(f"{table.name} AS (FROM main.{table.name} {scope}{sort})")
    return f"WITH {', '.join(tables)} FROM (\n{sql}\n)"


def _number(row: dict[str, Any], name: str) -> float | None:
    value = row[name]
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = float(value)  # DuckDB writes exact decimals as text
        except ValueError:
            raise Missing(f"column {name} of the query is not a number: {value!r}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not finite(value):
        raise Missing(f"column {name} of the query is not a finite number: {value!r}")
    return float(value)
