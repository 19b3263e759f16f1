"""When in training: where each headline number of a model with checkpoints changes, and from when on it rests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

import numpy as np

from reporter.answers.decision import VIEWS, Box, Decision, Lacks, Read, Record, grouped
from reporter.charts.numbers import short
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import quantile
from reporter.geometry.turning import LEVEL, Change, half_way, rests, turn
from reporter.metrics.base import Statistic
from reporter.table import CORPUS, FREE, METRIC, Comparable, OfModel, Row, column

FEWEST = 3
"""Checkpoints with a known step, for a change to lie between two of them."""
_SERIES = f"""
SELECT * FROM (SELECT model, corpus, view, metric, statistic, step,
    avg(value) AS value, avg(greatest(ci_high - value, value - ci_low)) AS half, count(value) = count(ci_low) AS sure
FROM layer_metrics
WHERE study = $study AND step IS NOT NULL AND value IS NOT NULL AND {FREE}
AND (layer IS NULL OR site IN ('embedding', 'block'))
AND model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
GROUP BY ALL) ORDER BY model, corpus, metric, statistic, {VIEWS}, step
"""
_CHECKPOINTS = """
SELECT coalesce(max(steps), 0) AS steps FROM (
    SELECT count(DISTINCT step) AS steps FROM models WHERE study = $study AND baseline IS NULL GROUP BY model)
"""


class TrainingAnswer(Row, table="training_answers"):
    """Where in training a headline number of a model changes: its mean over layers, or the model's own."""

    compared = (
        Comparable(
            ("step",), "corpus", of="metric || '.' || statistic || ', ' || kind", interval=("step_low", "step_high")
        ),
        Comparable(
            ("size",), "corpus", of="metric || '.' || statistic || ', ' || kind", interval=("size_low", "size_high")
        ),
    )

    study = OfModel.study
    model: str = column("name of the model in the study", key=True)
    corpus: str = column(CORPUS.comment, key=True)
    view: str = column("the view that is read", key=True)
    metric: str = column(METRIC.comment, key=True)
    statistic: str = column("the second part of a number's name", key=True)
    kind: Literal["half-way", "turn", "rest"] = column(
        "'half-way': where it passes the middle between its first and last value; 'turn': where it is highest or "
        "lowest in between; 'rest': from when on it is not told apart from its last value",
        key=True,
    )
    step: int = column(
        "the training step: the first past the middle, that of the extreme, the first of the rest", "BIGINT"
    )
    step_low: int | None = column("with 95 % confidence it is not before this step; NULL for a rest", "BIGINT")
    step_high: int | None = column("nor after this one", "BIGINT")
    first: float = column("the number at the first checkpoint")
    value: float = column("the number at the step")
    last: float = column("the number at the last checkpoint with a known step")
    size: float | None = column("last minus first; of a turn the extreme minus the nearer end; NULL for a rest")
    size_low: float | None = column("lower end of its 95 % interval, over texts")
    size_high: float | None = column("upper end")
    p_adjusted: float | None = column(
        "probability of a change as large by the chance of texts, after Holm's correction over all that were looked at"
    )
    checkpoints: int = column("how many checkpoints there are")


def _answer(read: Read) -> Iterator[Row | Lacks]:
    known, views = _headlines(), dict[tuple[Any, ...], Any]()
    asked: list[tuple[Statistic, Sequence[Record]]] = []
    for key, own in groupby(
        read(_SERIES), key=lambda row: tuple(row[name] for name in ("model", "corpus", "metric", "statistic", "view"))
    ):
        series = list(own)
        statistic = known.get((key[2], key[3]))
        if statistic and len(series) >= FEWEST and views.setdefault(key[:4], key[4]) == key[4]:
            asked.append((statistic, series))
    steps = read(_CHECKPOINTS)[0]["steps"]
    if steps < FEWEST:
        yield Lacks(f"no model has {FEWEST} checkpoints with a known step: add `checkpoints: […]` to a model")
    elif not any(_sure(series) for _, series in asked):
        yield Lacks("no headline number with an interval was measured at the checkpoints: add `metrics: [all]`")
    yield from _rows([(statistic, series) for statistic, series in asked if _sure(series)])


def _headlines() -> dict[tuple[str, str], Statistic]:
    from reporter.analyses.registry import analyses
    from reporter.metrics.registry import catalogue

    return {
        (of.name, s.name): s
        for of in (*catalogue().values(), *analyses().values())
        for s in of.statistics
        if s.headline
    }


def _sure(series: Sequence[Record]) -> bool:
    return all(row["sure"] for row in series)


def _rows(asked: Sequence[tuple[Statistic, Sequence[Record]]]) -> Iterator[TrainingAnswer]:
    found: list[tuple[Sequence[Record], str, Change]] = []
    for statistic, series in asked:
        least = statistic.smallest or 0.0
        for kind, change in (
            ("half-way", half_way(*_numbers(series), least)),
            ("turn", turn(*_numbers(series), least)),
        ):
            if change is not None:
                found.append((series, kind, change))
    found.sort(key=lambda one: one[2].p)
    adjusted = 0.0
    for rank, (series, kind, change) in enumerate(found):
        adjusted = max(adjusted, min(1.0, change.p * (2 * len(asked) - rank)))
        if adjusted <= LEVEL:
            yield _row(series, kind, change.at, change, adjusted)
    for statistic, series in asked:
        yield _row(series, "rest", rests(*_numbers(series), statistic.smallest or 0.0))


def _numbers(series: Sequence[Record]) -> tuple[Floats, Floats]:
    """Return values and standard errors; those of layers, read from the same texts, go together."""
    return np.array([row["value"] for row in series]), np.array([row["half"] for row in series]) / quantile(0.975)


def _row(
    series: Sequence[Record], kind: Any, at: int, of: Change | None = None, p: float | None = None
) -> TrainingAnswer:
    one = series[at]
    return TrainingAnswer(
        model=one["model"],
        corpus=one["corpus"],
        view=one["view"],
        metric=one["metric"],
        statistic=one["statistic"],
        kind=kind,
        step=one["step"],
        step_low=None if of is None else series[of.low]["step"],
        step_high=None if of is None else series[of.high]["step"],
        first=series[0]["value"],
        value=one["value"],
        last=series[-1]["value"],
        size=None if of is None else of.size,
        size_low=None if of is None else of.size_low,
        size_high=None if of is None else of.size_high,
        p_adjusted=p,
        checkpoints=len(series),
    )


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    return [_box(own) for own in grouped(tables["training_answers"], "model", "corpus")]


_MEANS = "Between {} checkpoints, on the mean over layers, which hides what one layer gains and another loses."
_RANGES = "Ranges hold with 95 % confidence over texts, and speak of this run, not of another seed."


def _box(rows: Sequence[Record]) -> Box:
    known, order = _headlines(), {"half-way": 0, "turn": 0, "rest": 1}
    by_number: dict[tuple[str, str], dict[str, Record]] = {}
    for row in sorted(rows, key=lambda row: (order[row["kind"]], row["step"], row["metric"], row["statistic"])):
        by_number.setdefault((row["metric"], row["statistic"]), {})[row["kind"]] = row
    changed = {name: of for name, of in by_number.items() if len(of) > 1}
    titles = {name: known[name].title if name in known else ".".join(name) for name in by_number}
    return Box(
        about=f"{rows[0]['model']} on {rows[0]['corpus']}",
        says=_said(changed, titles, len(by_number)),
        columns=(
            ("number", False),
            ("first", True),
            ("last", True),
            ("half of the change, at step", True),
            ("turns, at step", True),
            ("like its last value from step", True),
        ),
        rows=tuple(
            (
                titles[name],
                short(of["rest"]["first"], 2),
                short(of["rest"]["last"], 2),
                _at(of.get("half-way")),
                _at(of.get("turn")) + (f": {short(of['turn']['value'], 2)}" if "turn" in of else ""),
                f"{of['rest']['step']:,}",
            )
            for name, of in changed.items()
        ),
        notes=(_MEANS.format(rows[0]["checkpoints"]), *([_RANGES] if changed else [])),
    )


def _said(changed: Mapping[tuple[str, str], Mapping[str, Record]], titles: Mapping[Any, str], looked: int) -> str:
    if not changed:
        return (
            f"Nothing beyond noise changes between the checkpoints, in {looked} headline numbers, each averaged over "
            "its layers."
        )
    passed = [(name, of["half-way"]) for name, of in changed.items() if "half-way" in of]
    many = f"All {looked}" if len(changed) == looked > 1 else f"{len(changed)} of {looked}"
    said = [
        f"{many} headline numbers {'changes' if len(changed) == 1 else 'change'} beyond noise, averaged over layers."
    ]
    if passed:
        (first, early), (latest, late) = passed[0], max(passed, key=lambda one: one[1]["step"])
        said.append(f"The first is {titles[first]}, half of whose change happens {_between(early)}.")
        if late["step"] > early["step"]:
            said.append(f"The last is {titles[latest]}, {_between(late)}.")
    turned = [titles[name] for name, of in changed.items() if "turn" in of]
    if turned:
        said.append(f"{'This one turns' if len(turned) == 1 else 'These turn'} on the way: {', '.join(turned)}.")
    return " ".join(said)


def _between(row: Record) -> str:
    return f"between steps {row['step_low']:,} and {row['step_high']:,}"


def _at(row: Record | None) -> str:
    return "–" if row is None else f"{row['step']:,} ({row['step_low']:,} to {row['step_high']:,})"


TRAINING = Decision("training", "When in training?", (TrainingAnswer,), _answer, _boxes)
