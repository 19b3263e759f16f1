"""The question when in training: at which step each main statistic changes, and from when on it is stable."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from reporter.core.numbers import short
from reporter.core.places import capital
from reporter.core.table import FREE, VIEWS, Row
from reporter.geometry.arrays import Floats
from reporter.geometry.intervals import freedom, quantile, text_error
from reporter.geometry.statistics import LEVEL, SeriesChange, half_way, holm, passage, rests, turn
from reporter.judge.claims import least_effect
from reporter.judge.numbers import Missing, main_statistics
from reporter.judge.points import Points
from reporter.judge.profiles import Profile, Profiles
from reporter.judge.questions.extremes import FEWEST, extreme, signed
from reporter.judge.questions.question import Advice, Box, BoxColumn, Question, Read, Record, grouped, numeric, table
from reporter.judge.questions.subjects import Observation, Subject, Subjects, Test, curve, number, topic
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
        error = text_error(value, value - half, value + half, texts, statistic.bounds) or 0.0
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


_MEANS = "Numbers are means over layers at {} checkpoints. Opposite changes of two layers cancel in a mean."
_RANGES = "Ranges of steps are 95 % intervals over texts. They are about this training, not about another seed."


def _box(rows: Sequence[Record]) -> Box:
    statistics, order = main_statistics(), {"half-way": 0, "turn": 0, "rest": 1}
    by_number: dict[str, dict[str, Record]] = {}
    for row in sorted(rows, key=lambda row: (order[row["kind"]], row["step"], row["metric"], row["statistic"])):
        by_number.setdefault(f"{row['metric']}.{row['statistic']}", {})[row["kind"]] = row
    changed = {name: kinds for name, kinds in by_number.items() if len(kinds) > 1}
    titles = {name: statistics[name].title if name in statistics else name for name in by_number}
    first = next((name for name in statistics if name in changed), None)
    lead = "" if first is None else _lead(titles[first], changed[first])
    return Box(
        about=f"{rows[0]['model']} on {rows[0]['corpus']}",
        says=lead + _says(changed, titles, len(by_number)),
        **table(
            [kinds | {"title": titles[name]} for name, kinds in changed.items()],
            BoxColumn("number", lambda kinds: kinds["title"]),
            numeric("first", lambda kinds: short(kinds["rest"]["first"], 2)),
            numeric("last", lambda kinds: short(kinds["rest"]["last"], 2)),
            numeric("half of the change, at step", lambda kinds: _step(kinds.get("half-way"))),
            numeric("turning point, at step", lambda kinds: _step(kinds.get("turn"), value=True)),
            numeric("settled from step", lambda kinds: f"{kinds['rest']['step']:,}"),
        ),
        notes=(_MEANS.format(rows[0]["checkpoints"]), *([_RANGES] if changed else [])),
    )


def _lead(title: str, kinds: Mapping[str, Record]) -> str:
    """Return how the first statistic that changes does so, as a first sentence."""
    rest, half = kinds["rest"], kinds.get("half-way")
    first, last = rest["first"], rest["last"]
    ends = f"from {short(first, 2)} to {short(last, 2)}"
    if half is None:
        return f"{capital(title)} goes {ends}, on average over layers, with a turn {_steps(kinds['turn'])}. "
    verb = "rises" if last > first else "falls"
    return f"{capital(title)} {verb} {ends}, on average over layers, half of it {_steps(half)}. "


def _says(changed: Mapping[str, Mapping[str, Record]], titles: Mapping[str, str], tested: int) -> str:
    if not changed:
        return f"None of {tested} main statistics changes significantly, averaged over layers."
    passed = [(name, kinds["half-way"]) for name, kinds in changed.items() if "half-way" in kinds]
    count = f"All {tested}" if len(changed) == tested > 1 else f"{len(changed)} of {tested}"
    verb = "changes" if len(changed) == 1 else "change"
    order = ""
    if passed:
        (first, early), (latest, late) = passed[0], max(passed, key=lambda item: item[1]["step"])
        rest = [row for _, row in passed[1:]]
        is_first = bool(rest) and all(early["step_high"] <= row["step_low"] for row in rest)
        order = f": the {titles[first]}{' first' * is_first} (half of its change {_steps(early)})"
        if latest != first and all(row["step_high"] <= late["step_low"] for _, row in passed if row is not late):
            order += f", the {titles[latest]} last ({_steps(late)})"
    sentences = [f"{count} main statistics {verb} significantly, averaged over layers{order}."]
    turned = [titles[name] for name, kinds in changed.items() if "turn" in kinds]
    if turned:
        sentences.append(f"Not monotonic: {', '.join(turned)}.")
    return " ".join(sentences)


def _steps(row: Record) -> str:
    return f"between steps {row['step_low']:,} and {row['step_high']:,}"


def _step(row: Record | None, value: bool = False) -> str:
    if row is None:
        return "–"
    step_text = f"{row['step']:,} ({row['step_low']:,} to {row['step_high']:,})"
    return f"{step_text}: {short(row['value'], 2)}" if value else step_text


TRAINING = Question("training", "When in training?", (TrainingAnswer,), _training_rows, _boxes)


def ask_training(subjects: Subjects) -> Iterator[Test]:
    """Yield tests of where each statistic of a model with checkpoints turns, and where it passes half-way."""
    for subject in subjects.each("layer", "step", "model", copies=True):
        source = Profiles(subjects.numbers, subject.full_name, subject.view)
        try:
            profile = source.over_training(subject.model, subject.corpus)
        except Missing:
            continue
        if not profile.known or len(profile.values) < FEWEST:
            continue
        for sign in (1, -1):
            yield partial(_turn_finding, subject, profile, sign)
        yield partial(_half_way_finding, subject, profile)


def passes_half_way(subject: Subject, points: Points, least: float, level: float) -> tuple[int, int, float] | None:
    """Return between which two points a series passes the middle of its first and its last value, and the p-value.

    The last value differs from the first by more than ``least``. Each point is tested for its side of the middle, at
    ``level`` over the number of points. None if the ends do not differ, or if a point beyond the middle comes before
    one that has not reached it, so that there is no single passage.
    """
    size = len(points.x)
    eye = np.eye(size)
    whole = points.combine((eye[-1] - eye[0])[None])
    p = 2 * float(min(whole.above(least)[0], whole.below(-least)[0]))
    if p > level:
        return None
    side = np.sign(whole.value[0])
    off = points.combine(side * (eye - (eye[0] + eye[-1]) / 2))
    passed = passage(*(size * p_values <= level for p_values in (off.below(0.0), off.above(0.0))))
    return None if passed is None else (*passed, p)


def _half_way_finding(subject: Subject, profile: Profile, level: float) -> Observation | None:
    points, least, size = subject.points(profile, steps=True), subject.least(profile.values), len(profile.values)
    passed = passes_half_way(subject, points, least, level)
    if passed is None or passed[1] - passed[0] > (size + 2) // 3:
        return None
    start, stop, p = passed
    change = points.combine((np.eye(size)[-1] - np.eye(size)[0])[None])
    ends = (float(profile.values[0]), float(profile.values[-1]))
    a, b = (f"{profile.labels[i]:,}" for i in (start, stop))
    mean = _mean(subject)
    says = f"{subject.named} {'rises' if ends[1] > ends[0] else 'falls'} during training{subject.on}, from "
    says += f"{number(ends[0])} to {number(ends[1])}{mean}; half of the change happens between steps {a} and {b}."
    return subject.observe(
        change,
        ends,
        says=says,
        p=p,
        what=f"{subject.statistic.title}{mean}: last checkpoint minus first",
        test=f"the last checkpoint differs from the first by more than {least:.2g}; checkpoints up to step {a} and "
        f"from step {b} on lie on different sides of the midpoint ({size} checkpoints, corrected)",
        fact=f"{subject.model} in training, {topic(subject.full_name)}, steps {a} to {b}, {ends[1] > ends[0]}",
        **_shown(subject, profile, start, stop),
    )


def _turn_finding(subject: Subject, profile: Profile, sign: int, level: float) -> Observation | None:
    least = subject.least(profile.values)
    peak = extreme(subject.points(signed(profile, sign), steps=True), least, level)
    if peak is None:
        return None
    steps = [f"{profile.labels[i]:,}" for i in (peak.at, peak.among[0], peak.among[-1])]
    value, first, last = (float(profile.values[i]) for i in (peak.at, 0, -1))
    mean, turns = _mean(subject), ("rises", "falls") if sign > 0 else ("falls", "rises")
    says = f"{subject.named} {turns[0]} until step {steps[0]} of training and then {turns[1]}{subject.on}: "
    says += f"{number(first)}, {number(value)}, {number(last)}{mean}"
    says += f". Steps {steps[1]} to {steps[2]} do not differ significantly." if len(peak.among) > 1 else "."
    return subject.observe(
        peak.height,
        (value, first, last),
        sign=sign,
        says=says,
        p=peak.p,
        what=f"{subject.statistic.title}{mean}: step {steps[0]} minus the {'higher' if sign > 0 else 'lower'} of the "
        "first and the last",
        test=f"every checkpoint outside of these steps is {'lower' if sign > 0 else 'higher'} than another one by more "
        f"than {least:.2g}, corrected for {len(profile.values) - 1} comparisons each",
        **_shown(subject, profile, peak.among[0], peak.among[-1]),
    )


def _mean(subject: Subject) -> str:
    return "" if subject.statistic.per == "model" else f", mean over {subject.averaged}"


def _shown(subject: Subject, profile: Profile, start: int, stop: int) -> dict[str, Any]:
    """Return the picture and the notes of an observation about training; checkpoints have equal distances."""
    x = np.linspace(0, 1, len(profile.values))
    return {
        "training": True,
        "curves": (curve(subject.model, x, profile.values),),
        "mark": (float(x[start]), float(x[stop])),
        "notes": (*profile.notes, "the interval is over texts: it is about this run, not about another seed"),
    }
