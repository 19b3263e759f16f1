"""The question when in training: at which step each main statistic changes, and from when on it is stable."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from reporter.core.numbers import apart, in_one_precision
from reporter.core.places import capital, listed
from reporter.core.table import FREE, VIEWS, Row
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import freedom, quantile, text_errors
from reporter.geometry.statistics import LEVEL, SeriesChange, half_way, holm, rests, turn
from reporter.judge.claims import least_effect
from reporter.judge.facts import main_statistics
from reporter.judge.questions.question import Advice, Box, BoxColumn, Question, Read, Record, grouped, numeric, table
from reporter.judge.questions.subjects import share_of_range
from reporter.metrics.base import Statistic
from reporter.store.answers import TrainingAnswer

FEWEST_CHECKPOINTS = 3
"""The fewest checkpoints with a known step for a change to lie between two of them."""
_SERIES = f"""
SELECT * FROM (SELECT model, corpus, view, metric, statistic, step, max(coalesce(c.clusters, c.texts)) AS texts,
    avg(value) AS value, avg(greatest(ci_high - value, value - ci_low)) AS half, count(value) = count(ci_low) AS sure
FROM layer_metrics LEFT JOIN corpora AS c USING (study, corpus)
WHERE study = $study AND step IS NOT NULL AND value IS NOT NULL AND {FREE}
AND (layer IS NULL OR site IN ('embedding', 'block'))
AND model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
GROUP BY ALL) ORDER BY model, corpus, metric, statistic, {VIEWS}, step
"""
_CHECKPOINTS = """
SELECT coalesce(max(steps), 0) AS steps FROM (
    SELECT count(DISTINCT step) AS steps FROM models WHERE study = $study AND baseline IS NULL GROUP BY model)
"""
MOST_NAMED = 4
"""The most further numbers that the answer names."""
Series = Sequence[Record]
"""One number at the checkpoints of a model, in the order of training."""


def _training_rows(read: Read) -> Iterator[Row | Advice]:
    statistics, views = main_statistics(), dict[tuple[Any, ...], Any]()
    series: list[tuple[Statistic, Series]] = []
    for rows in grouped(read(_SERIES), "model", "corpus", "metric", "statistic", "view"):
        first = rows[0]
        name = f"{first['metric']}.{first['statistic']}"
        number = first["model"], first["corpus"], name
        if (
            name in statistics
            and len(rows) >= FEWEST_CHECKPOINTS
            and views.setdefault(number, first["view"]) == first["view"]
        ):
            series.append((statistics[name], rows))
    tested = [(statistic, rows) for statistic, rows in series if all(row["sure"] for row in rows)]
    if read(_CHECKPOINTS)[0]["steps"] < FEWEST_CHECKPOINTS:
        yield Advice(
            f"no model has {FEWEST_CHECKPOINTS} checkpoints with a known step: add `checkpoints: […]` to a model"
        )
    elif not tested:
        yield Advice("no main statistic with an interval was measured at the checkpoints: add `metrics: [all]`")
    yield from _rows(tested)


def _rows(tested: Sequence[tuple[Statistic, Series]]) -> Iterator[TrainingAnswer]:
    changes: list[tuple[Series, str, SeriesChange | None]] = []
    for statistic, series in tested:
        values, errors = _numbers(series, statistic)
        for kind, test in (("half-way", half_way), ("turn", turn)):
            changes.append((series, kind, test(values, errors, least_effect(statistic, values))))
    adjusted = holm([1.0 if change is None else change.p for *_, change in changes])
    for p, (series, kind, change) in sorted(zip(adjusted, changes, strict=True), key=lambda item: item[0]):
        if change is not None and p <= LEVEL:
            yield _row(series, kind, change.at, change, p)
    for statistic, series in tested:
        values, errors = _numbers(series, statistic)
        yield _row(series, "rest", rests(values, errors, least_effect(statistic, values)))


def _numbers(series: Series, statistic: Statistic) -> tuple[Floats, Floats]:
    """Return values and standard errors; those of layers, read from the same texts, go together.

    The errors of few texts are widened by Student's t, so that tests with the normal distribution may take them.
    """
    errors = []
    for row in series:
        value, half, texts = row["value"], row["half"], row.get("texts")
        error = max(text_errors(value, value - half, value + half, texts, statistic.bounds) or (0.0,))
        errors.append(error * quantile(0.975, freedom(texts)) / quantile(0.975))
    return np.array([row["value"] for row in series]), np.array(errors)


def _row(
    series: Series, kind: Any, index: int, change: SeriesChange | None = None, p: float | None = None
) -> TrainingAnswer:
    row = series[index]
    sizes = dict.fromkeys(("size", "size_low", "size_high", "step_low", "step_high"))
    if change is not None:
        sizes = {"size": change.size, "size_low": change.size_low, "size_high": change.size_high}
        sizes |= {"step_low": series[change.low]["step"], "step_high": series[change.high]["step"]}
    first, last = series[0]["value"], series[-1]["value"]
    return TrainingAnswer.of(row, kind=kind, first=first, last=last, p_adjusted=p, checkpoints=len(series), **sizes)


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    return [_box(rows) for rows in grouped(tables["training_answers"], "model", "corpus")]


_SEED = (
    "Another seed may change at other steps: ranges of steps are 95 % intervals over texts, about this training alone."
)
_MEANS = "Numbers are means over all layers at {} checkpoints. Opposite changes of two layers cancel in a mean."


def _box(rows: Sequence[Record]) -> Box:
    statistics, order = main_statistics(), {"half-way": 0, "turn": 0, "rest": 1}
    by_number = _by_number(
        sorted(rows, key=lambda row: (order[row["kind"]], row["step"], row["metric"], row["statistic"]))
    )
    changed = {name: kinds for name, kinds in by_number.items() if len(kinds) > 1}
    titles = {name: statistics[name].title if name in statistics else name for name in by_number}
    first = leading(rows)
    lead = _lead(statistics[first], changed[first]) if first else ""
    return Box(
        about=f"{rows[0]['model']} on {rows[0]['corpus']}",
        says=lead + _says(changed, titles, len(by_number), first),
        **table(
            [kinds | {"title": titles[name]} for name, kinds in changed.items()],
            BoxColumn("number", lambda kinds: kinds["title"]),
            numeric("first", lambda kinds: _values(kinds)[0]),
            numeric("last", lambda kinds: _values(kinds)[1]),
            numeric(
                "half of the change, at step", lambda kinds: _step(None if "turn" in kinds else kinds.get("half-way"))
            ),
            numeric("turning point", lambda kinds: _values(kinds)[2] if "turn" in kinds else "–"),
            numeric("turned at step", lambda kinds: _step(kinds.get("turn"))),
            numeric("settled from step", lambda kinds: f"{kinds['rest']['step']:,}"),
        ),
        notes=(*([_SEED] if changed else []), _MEANS.format(rows[0]["checkpoints"])),
    )


def _by_number(rows: Iterable[Record]) -> dict[str, dict[str, Record]]:
    by_number: dict[str, dict[str, Record]] = {}
    for row in rows:
        by_number.setdefault(f"{row['metric']}.{row['statistic']}", {})[row["kind"]] = row
    return by_number


def leading(rows: Iterable[Record]) -> str:
    """Return the full name of the number that opens the answer; empty if none changes.

    A peak inside of training comes first, the largest one; without any the first main statistic that changes.
    """
    statistics, by_number = main_statistics(), _by_number(rows)
    turns = {
        name: share_of_range(statistics[name], kinds["turn"]["size"], kinds["turn"]["value"])
        for name, kinds in by_number.items()
        if "turn" in kinds and name in statistics
    }
    if turns:
        return max(turns, key=lambda name: turns[name])
    return next((name for name in statistics if len(by_number.get(name, ())) > 1), "")


def _values(kinds: Mapping[str, Record]) -> list[str]:
    """Write the first value, the last and that of a turning point with as many digits as distinguish them."""
    values = [kinds["rest"]["first"], kinds["rest"]["last"], *([kinds["turn"]["value"]] if "turn" in kinds else [])]
    return apart(values)


def _lead(statistic: Statistic, kinds: Mapping[str, Record]) -> str:
    """Return how a statistic changes, as a first sentence."""
    title, over = capital(statistic.title), _OVER[statistic.per]
    rest, turned = kinds["rest"], kinds.get("turn")
    first, last = rest["first"], rest["last"]
    if turned is not None:
        up, down = ("rises", "falls") if turned["size"] > 0 else ("falls", "rises")
        start, middle, end = in_one_precision([first, turned["value"], last])
        return f"{title} {up} from {start} to {middle} {_around(turned)} and {down} to {end} by the end{over}. "
    verb = "rises" if last > first else "falls"
    start, end = in_one_precision([first, last])
    return f"{title} {verb} from {start} to {end}{over}; half of it is reached {_reached(kinds['half-way'])}. "


_OVER = {"model": "", "step": ", on average over all blocks"}
_OVER |= dict.fromkeys(("layer", "pair"), ", on average over all layers, embedding included")


def _says(changed: Mapping[str, Mapping[str, Record]], titles: Mapping[str, str], tested: int, lead: str) -> str:
    if not changed:
        return f"None of {tested} main statistics changes significantly, averaged over layers."
    others = [titles[name] for name in changed if name != lead]
    named = f": {listed(others)}" if len(others) <= MOST_NAMED else ""
    sentences = []
    if others:
        verb = "changes" if len(others) == 1 else "change"
        sentences.append(f"{len(others)} more of {tested} main statistics {verb} significantly{named}.")
    elif tested > 1:
        sentences.append(f"No other of {tested} main statistics changes significantly.")
    sentences += _order(changed, titles)
    turned = [titles[name] for name, kinds in changed.items() if "turn" in kinds and name != lead]
    if turned:
        sentences.append(f"Not monotonic: {', '.join(turned)}.")
    return " ".join(sentences)


def _order(changed: Mapping[str, Mapping[str, Record]], titles: Mapping[str, str]) -> Iterator[str]:
    """Yield which number is first and which one is last to reach half of its change, where that is significant."""
    passed = [
        (name, kinds["half-way"]) for name, kinds in changed.items() if "half-way" in kinds and "turn" not in kinds
    ]
    if len(passed) < 2:
        return
    (first, early), (latest, late) = passed[0], max(passed, key=lambda item: item[1]["step"])
    if all(early["step_high"] <= row["step_low"] for _, row in passed[1:]):
        yield f"The {titles[first]} is the first to reach half of its change ({_steps(early)})."
    if latest != first and all(row["step_high"] <= late["step_low"] for _, row in passed if row is not late):
        yield f"The {titles[latest]} is the last ({_steps(late)})."


def _reached(row: Record) -> str:
    return f"by step {_step(row)}"


def _around(row: Record) -> str:
    return f"at step {row['step']:,}" if row["step_low"] == row["step_high"] else _steps(row)


def _steps(row: Record) -> str:
    return f"between steps {row['step_low']:,} and {row['step_high']:,}"


def _step(row: Record | None) -> str:
    if row is None:
        return "–"
    ends = "" if row["step_low"] == row["step_high"] else f" [{row['step_low']:,}, {row['step_high']:,}]"
    return f"{row['step']:,}{ends}"


TRAINING = Question("training", "When in training?", (TrainingAnswer,), _training_rows, _boxes)
