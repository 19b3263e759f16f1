"""The question which tokens are sinks, and which statistics differ without them.

In a decoder whose tokenizer puts no BOS before a text, the sink is whatever word comes first, so that the table
``sinks`` has a row for each of these words. The answer takes them together.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from reporter.core.numbers import apart, joined, short
from reporter.core.places import TEXT_TOKENS, WITHOUT_SINKS, capital, in_backticks
from reporter.core.table import Row
from reporter.forward.token_categories import FACTOR
from reporter.judge.estimates import Array, Estimates
from reporter.judge.points import around, span
from reporter.judge.profiles import Profile
from reporter.judge.questions.question import (
    Advice,
    Box,
    BoxColumn,
    Question,
    Read,
    Record,
    grouped,
    measured,
    numeric,
    table,
)
from reporter.judge.questions.subjects import RANDOM, SEARCHED, Observation, Subject, Subjects, Test, curve
from reporter.store.answers import SinkAnswer

_SINKS = """
SELECT s.*, c.texts AS measured
FROM sinks s
JOIN cells c USING (study, model, checkpoint, corpus, metric)
JOIN models m USING (study, model, checkpoint)
WHERE study = $study AND m.baseline IS NULL AND m.is_last
ORDER BY s.model, s.corpus, s.token_id, s.own, s.position_first
"""
MOST_ROWS = 12
FEW = 0.05
"""Sinks elsewhere than at the first token are counted up to this share; with more the sentence leaves them out."""
AT_LIMIT = 2 * FACTOR
"""Sinks whose largest norm is below so many medians are near the limit: twice the limit leaves them out."""
NEAR = 0.9
"""A sentence is about layers with at least this share of the largest difference."""


def _sink_rows(read: Read) -> Iterator[Row | Advice]:
    searched = read(SEARCHED)
    if not searched:
        yield Advice("no model has read a corpus: add a corpus and `metrics: [outliers]` (or `all`)")
    for row in searched:
        if row["sinks"] and not row["listed"]:
            yield Advice(
                f"{row['sinks']:,} of {row['tokens']:,} tokens of {row['corpus']} are sinks in {row['model']}; to list "
                "them, add `metrics: [outliers]` (or `all`)"
            )
    by_cell = groupby(read(_SINKS), key=lambda row: (row["model"], row["checkpoint"], row["corpus"]))
    for (model, checkpoint, corpus), rows in by_cell:
        kinds = sorted(_kinds(list(rows)), key=lambda kind: (-kind["texts"], -kind["count"], kind["position_first"]))
        for rank, kind in enumerate(kinds, 1):
            yield SinkAnswer(model, checkpoint, corpus, rank, **kind)


def _kinds(rows: Sequence[Record]) -> Iterator[dict[str, Any]]:
    for of_text in (False, True):
        at_start = [row for row in rows if row["position_last"] == 0 and row["own"] == of_text]
        if at_start:
            yield _kind(at_start)
    yield from (_kind([row]) for row in rows if row["position_last"] != 0)


def _kind(rows: Sequence[Record]) -> dict[str, Any]:
    dimensions: Counter[int | None] = Counter()
    for row in rows:
        dimensions[row["dimension"]] += row["count"]
    first = rows[0]
    return {
        "token": first["token"] if len(rows) == 1 else None,
        "types": len(rows),
        "own": first["own"],
        "measured": first["measured"],
        "dimension": dimensions.most_common(1)[0][0],
        **{name: sum(row[name] for row in rows) for name in ("texts", "count")},  # a text has one token at position 0
        **{name: min(row[name] for row in rows) for name in ("position_first", "layer_first")},
        **{name: max(row[name] for row in rows) for name in ("position_last", "layer_last", "norm_ratio")},
    }


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    by_cell = grouped(tables["sink_answers"], "model", "corpus")
    return [_box(sorted(rows, key=lambda row: row["number"])) for rows in by_cell]


def _box(rows: Sequence[Record]) -> Box:
    first, more = rows[0], len(rows) - 1
    several = first["token"] is None
    name = f"The first token of a text, any of {first['types']}," if several else in_backticks(first["token"])
    mostly = "most often " if several else ""
    on = "" if first["dimension"] is None else f", {mostly}on dimension {first['dimension']}"
    further = "" if not more else f"; {more} other {'token is a sink' if more == 1 else 'tokens are sinks'} as well"
    return Box(
        about=f"{first['model']} on {first['corpus']}",
        says=f"{name} is a sink in {first['texts']:,} of {first['measured']:,} texts: {blocks_of(first)}{on}, with a "
        f"norm up to {short(first['norm_ratio'], 2)} times the median of its text{further}. The token set "
        "`without sinks` leaves them out.",
        **table(rows[:MOST_ROWS], *_COLUMNS),
        notes=tuple(_notes(first, len(rows) - MOST_ROWS)),
    )


def _notes(first: Record, left_out: int) -> Iterator[str]:
    if first["norm_ratio"] < AT_LIMIT:
        yield (
            f"Near the limit of the rule: no norm exceeds {short(first['norm_ratio'], 2)} medians. A rule with another "
            "limit counts more or fewer of these tokens (`sinks:` in a study)."
        )
    if left_out > 0:
        yield f"The table sink_answers has {left_out} more."


def blocks_of(row: Record) -> str:
    """Return the blocks at which a row of ``sink_answers`` is a sink: ``block 6``, ``blocks 2–30``."""
    return f"block{'s' * (row['layer_first'] != row['layer_last'])} {_range(row, 'layer')}"


def _range(row: Record, what: str) -> str:
    first, last = row[f"{what}_first"], row[f"{what}_last"]
    return str(first) if first == last else f"{first}–{last}"


_COLUMNS = (
    BoxColumn(
        "token", lambda row: f"any of {row['types']} tokens" if row["token"] is None else in_backticks(row["token"])
    ),
    BoxColumn("positions", partial(_range, what="position")),
    numeric("texts", lambda row: f"{row['texts']:,}"),
    numeric("sinks", lambda row: f"{row['count']:,}"),
    BoxColumn("blocks", partial(_range, what="layer")),
    numeric("dimension", lambda row: "–" if row["dimension"] is None else row["dimension"]),
    measured("norm / median", lambda row: row["norm_ratio"], 2),
)
SINKS = Question("sinks", "Which tokens are sinks?", (SinkAnswer,), _sink_rows, _boxes)


def ask_sinks(subjects: Subjects) -> Iterator[Test]:
    """Yield tests of whether each profile of a model that has sinks differs without them."""
    if not {TEXT_TOKENS, WITHOUT_SINKS} <= set(subjects.numbers.study.views):
        return
    for subject in subjects.each("layer", "step"):
        counts = subjects.sinks.get((subject.model, subject.corpus))
        profiles = _both_views(subject)
        if counts and counts["sinks"] and profiles is not None:
            yield partial(_sink_finding, subject, *profiles)


def _both_views(subject: Subject, baseline: str = "") -> tuple[Profile, Profile] | None:
    here = subject.tested(TEXT_TOKENS, baseline)
    without = here and subject.tested(WITHOUT_SINKS, baseline, here)
    return None if here is None or without is None else (here, without)


def _sink_finding(subject: Subject, here: Profile, without: Profile, level: float) -> Observation | None:
    """Report the layers where a profile differs most without sinks.

    In these layers both differ by more than the minimum meaningful difference (Bonferroni over the layers). The
    sentence is about the layers around the largest difference with at least nine tenths of it, and names the other
    layers with the same effect. Both token sets have nearly the same tokens, whose errors go together: taken as
    independent they are overstated.
    """
    size = len(here.values)
    gap, least = _difference(subject, here, without, np.eye(size)), subject.least(here.values, without.values)
    p = np.minimum(1.0, 2 * size * np.minimum(gap.above(least), gap.below(-least)))
    base = _both_views(subject, RANDOM)
    if base is not None and base[0].labels == here.labels:  # and by more than with random weights
        other = _difference(subject, *base, np.eye(size))
        further = gap.times(np.sign(gap.value)).minus(other.times(np.sign(other.value)), paired=True)
        p = np.maximum(p, np.minimum(1.0, 2 * size * further.above(0.0)))
    top = int(np.abs(gap.value).argmax())
    alike = (p <= level) & (gap.value * gap.value[top] > 0)
    large = alike & (np.abs(gap.value) >= NEAR * abs(gap.value[top]))
    if not large[top]:
        return None
    inside = list(around(top, large))
    a, b, layers = here.values[inside], without.values[inside], [here.labels[i] for i in inside]
    counts, title = subject.study.sinks[subject.model, subject.corpus], subject.statistic.title
    effect = _described(a, b)
    ends = apart([float(end) for values in (a, b) for end in (values.min(), values.max())])
    says = f"{subject.named} is {joined(*ends[:2])} in {subject.places(layers)}{subject.on}, "
    says += f"but {joined(*ends[2:])} without sinks."
    says += _first_tokens(subject, layers[0], layers[-1])
    weaker = [
        i
        for i in np.flatnonzero(alike).tolist()
        if i not in inside and _described(here.values[[i]], without.values[[i]]) == effect
    ]
    if weaker:
        less = subject.places([here.labels[i] for i in weaker], whole=False)
        says += f" {capital(less)} {'shows' if len(weaker) == 1 else 'show'} a smaller effect."
    return subject.observe(
        _difference(subject, here, without, span(inside, size)[None]),
        (float(a.mean()), float(b.mean())),
        says=says,
        view=TEXT_TOKENS,
        p=float(p[inside].max()),
        what=f"{title}, {subject.places(layers, whole=False)}: with sinks minus without",
        test=f"each of these {subject.averaged} differs with and without sinks by more than {short(least, 2)} ({size} "
        f"{subject.averaged}, corrected)",
        layers=(layers[0], layers[-1]),
        curves=(
            curve("with sinks", here.x, here.values, number=float(a.mean())),
            curve("without sinks", here.x, without.values, own=False, number=float(b.mean())),
        ),
        mark=(float(here.x[inside[0]]), float(here.x[inside[-1]])),
        notes=(
            f"{counts['sinks']:,} of {counts['tokens']:,} tokens are sinks at some layer{subject.on}",
            "without sinks, each text's first token is left out as well",
        ),
        read=((subject.model,), (TEXT_TOKENS, WITHOUT_SINKS), (subject.statistic.name,)),
        fact=f"sinks of {subject.model}",
    )


def _difference(subject: Subject, a: Profile, b: Profile, weights: Array) -> Estimates:
    here, second = (subject.points(profile).combine(weights) for profile in (a, b))
    return here.minus(second, paired=True)  # the same texts, with other tokens


def _described(here: Array, without: Array) -> str:
    """Return what sinks do to a number: ``make`` or ``hide`` most of it, ``raise`` or ``lower`` it."""
    with_sinks, left = float(np.abs(here).mean()), float(np.abs(without).mean())
    if left <= with_sinks / 2:
        return "make"
    if with_sinks <= left / 2:
        return "hide"
    return "raise" if here.mean() > without.mean() else "lower"


def _first_tokens(subject: Subject, first: int, last: int) -> str:
    begin, elsewhere = subject.study.first_tokens(subject, first, last)
    if not begin or elsewhere > FEW * begin:
        return ""
    but = f"but at most {elsewhere:,} " * bool(elsewhere)
    return f" All {but}of the sinks there are the first tokens of their texts."
