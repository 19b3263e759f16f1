"""What a report says first: a line, three sentences, a table of the main statistics, verdicts, and what to know.

Two *sides* are compared: encoders and decoders where a study has both, else two models. A side is a model, or the mean
over the models of a role. A mean over layers is the plain mean over the embedding and the blocks, without the layers
whose value a definition fixes. The ends of its interval are the means of the layers' ends, which is never too narrow.
From three models of a role on, the interval is Student's over models. The interval of a difference follows from both
(Zou and Donner 2008, "Construction of confidence limits about effect measures", Statistics in Medicine 27), as if the
errors were independent.

A sentence claims a difference only if its interval excludes 0 after the correction for all comparisons (Bonferroni).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from math import ceil, floor, hypot, inf, log10
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.charts.chart import Drawn, Read, filled
from reporter.charts.styles import DECODER, ENCODER, MEANS, ModelStyle
from reporter.core.numbers import counted, estimate, short, whole
from reporter.core.places import capital, end, listed, places, token_set
from reporter.core.table import FREE, LAST_CHECKPOINT
from reporter.geometry.intervals import VERDICT_TEXTS, quantile, student_interval
from reporter.judge.numbers import headlines
from reporter.judge.points import FEWEST_MODELS, Array
from reporter.judge.questions.subjects import MATERIAL, share_of_range, topic
from reporter.report import tables as queries
from reporter.report.claims import VERDICTS
from reporter.report.compared import PAIR, path_of
from reporter.report.tables import figure_link

if TYPE_CHECKING:
    from reporter.metrics.base import Statistic
    from reporter.report.contents import Contents

MOST_WORDS = 25
"""The longest sentence."""
MOST_COLUMNS = 6
"""More models of one role are shown as their mean."""
LARGE = 0.8
"""A sentence is about the layers with at least this share of the largest standardised difference."""
TOLD = 0.4
"""These layers have at least this share of all the differences; else the sentence is about the mean over layers."""
EVERYWHERE = 0.75
"""A difference in more than this share of the layers is one of the mean over layers."""
PREFERRED = (
    ("anisotropy.top_variance_share",),
    ("anisotropy.mean_cosine", "contextuality.self_similarity_adjusted"),
    ("convergence.similarity",),
    ("contributions.feed_forward_ratio", "contributions.attention_ratio", "motion.step_cosine"),
)
"""The statistics of the four charts; of each choice the first that has numbers."""
MORE = {
    "anisotropy.top_variance_share": "vary more along one direction",
    "anisotropy.mean_cosine": "are more alike in direction",
    "contextuality.self_similarity_adjusted": "of a token depend less on context",
    "contributions.attention_ratio": "change more by attention",
    "contributions.feed_forward_ratio": "change more by the feed-forward",
    "convergence.similarity": "are closer to their final direction",
    "entropy.prompt_normalised": "spread more evenly within a text",
    "intrinsic_dimension.twonn": "have more local dimensions",
    "linearity.linearity": "follow more linearly from block to block",
    "local_dimension.mean": "have more local dimensions",
    "motion.step_cosine": "turn less from block to block",
    "spectrum.effective_rank": "spread over more directions",
    "subspaces.speed": "change their leading directions faster",
    "token_path.curvature": "turn more from token to token",
    "variance.within_share": "vary more with context",
}
"""What a larger value says of the states of a model, to be followed by *than*."""
AS_PERCENT = ("share of", "variance explained", "accuracy")
"""How titles begin whose numbers are shares of a whole."""

PROFILES = f"""
SELECT metric || '.' || statistic AS full_name, corpus, view, model, layer, depth, value, ci_low, ci_high
FROM layer_metrics
WHERE study = $study AND list_contains(string_split($statistics, ' '), metric || '.' || statistic)
  AND (site IS NULL OR site IN ('embedding', 'block')) AND {FREE} AND value IS NOT NULL
  AND model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
  AND {LAST_CHECKPOINT}
ORDER BY full_name, corpus, view, model, layer
"""


@dataclass(frozen=True)
class Number:
    """A number with its 95 % interval; all None where there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    df: float = inf

    @property
    def text(self) -> str:
        """The number and its interval as a page shows them."""
        return estimate(self.value, self.low, self.high)

    @property
    def parts(self) -> tuple[str, str]:
        """The number, and its interval in brackets; empty where there is none."""
        number, bracket, ends = self.text.partition(" [")
        return number, f"[{ends}" if bracket else ""

    def minus(self, other: Number) -> Number:
        """Return the difference; its interval is unknown where one of both is."""
        if self.value is None or other.value is None:
            return Number()
        value = self.value - other.value
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return Number(value)
        low = value - hypot(self.value - self.low, other.high - other.value)
        high = value + hypot(self.high - self.value, other.value - other.low)
        return Number(value, low, high, min(self.df, other.df))

    def differs(self, tests: int) -> bool:
        """Tell whether its interval excludes 0 after the correction for so many tests."""
        if self.value is None or self.low is None or self.high is None:
            return False
        reach = quantile(1 - 0.025 / tests, self.df) / quantile(0.975, self.df)
        return self.value - reach * (self.value - self.low) > 0 or self.value + reach * (self.high - self.value) < 0


@dataclass(frozen=True)
class Profile:
    """A statistic of a side over relative depth; ``layers`` are those of a single model, else empty."""

    x: Array
    values: Array
    low: Array
    high: Array
    layers: tuple[int, ...] = ()
    blocks: int = 0
    df: float = inf

    @property
    def mean(self) -> Number:
        """The mean over layers."""
        return _number(self.values.mean(), self.low.mean(), self.high.mean(), self.df)

    def at(self, x: Array) -> Profile:
        """Return it at other depths, by linear interpolation."""
        values, low, high = (np.interp(x, self.x, part) for part in (self.values, self.low, self.high))
        return Profile(x, values, low, high, df=self.df)

    def number(self, index: int) -> Number:
        """Return the number at one of its points."""
        return _number(self.values[index], self.low[index], self.high[index], self.df)


def _number(value: float, low: float, high: float, df: float) -> Number:
    known = low == low and high == high
    return Number(float(value), float(low) if known else None, float(high) if known else None, df)


@dataclass(frozen=True)
class Side:
    """A column of the table, and one side of a comparison: a model, or the models of a role together."""

    name: str
    models: tuple[str, ...]
    role: str
    style: ModelStyle

    @property
    def several(self) -> bool:
        """Whether it is more than one model."""
        return len(self.models) > 1


@dataclass(frozen=True)
class Sentence:
    """One sentence of the overview.

    Args:
        text: what is seen.
        strength: how sure it is, and about what.
        figure: the chart that shows it.
        views: the token sets that the chart is to show.
    """

    text: str
    strength: str
    figure: str
    views: tuple[str, ...]

    @property
    def link(self) -> str:
        """The address of its figure."""
        return figure_link(self.figure, *self.views)


@dataclass(frozen=True)
class Cells:
    """A row of the table for one token set: a number for each column, their difference, and for each model."""

    numbers: tuple[Number, ...]
    difference: Number | None
    lines: tuple[tuple[Side, str], ...]
    models: tuple[Number, ...] = ()


@dataclass(frozen=True)
class Line:
    """A row of the table: a statistic.

    Args:
        id: its full name, and its chart.
        title: its name for readers.
        unit: its unit; empty for a pure number.
        meaning: what it says, in one line.
        note: why it has no difference; empty where it has.
        effect: the standardised difference that orders the rows.
        cells: by token set.
    """

    id: str
    title: str
    unit: str
    meaning: str
    note: str
    effect: float
    cells: Mapping[str, Cells]


@dataclass(frozen=True)
class Table:
    """The rows of one corpus."""

    corpus: str
    rows: tuple[Line, ...]


@dataclass(frozen=True)
class VerdictLine:
    """A claim in one line; ``sure`` tells whether its number has an interval."""

    claim: str
    sign: str
    verdict: str
    says: str
    sure: bool

    @property
    def link(self) -> str:
        """The address of the claim."""
        return f"claims.html#claim-{self.claim}"


@dataclass(frozen=True)
class Overview:
    """The first page of a study.

    Args:
        line: what is compared, on what.
        sentences: at most three.
        scope: what their intervals are over, and what they say nothing about.
        charts: ids of up to four statistics.
        sets: token sets with their names, the first one shown first.
        columns: of the table.
        difference: the heading of the differences; empty where there are none.
        models: the models behind the columns, where these are means of roles.
        tables: one for each corpus.
        tally: verdicts that occur, each with its sign and count.
        verdicts: one line for each claim.
        quote: what a reader should know before quoting a number.
    """

    line: str
    sentences: tuple[Sentence, ...] = ()
    scope: str = ""
    charts: tuple[str, ...] = ()
    sets: tuple[tuple[str, str], ...] = ()
    columns: tuple[Side, ...] = ()
    difference: str = ""
    models: tuple[Side, ...] = ()
    tables: tuple[Table, ...] = ()
    tally: tuple[tuple[str, str, int], ...] = ()
    verdicts: tuple[VerdictLine, ...] = ()
    quote: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[Line, ...]:
        """The rows of the first corpus."""
        return self.tables[0].rows if self.tables else ()


def read_overview(read: Read, contents: Contents) -> Overview:
    """Return the overview of a study.

    Args:
        read: runs a query.
        contents: the study, with its charts, claims and cells.
    """
    own = contents.scene.styles.own
    charts = {
        drawn.id: drawn for drawn in contents.charts if drawn.chart.kind in ("profile", "dots") and drawn.chart.headline
    }
    known = {name: statistic for name, statistic in headlines().items() if name in charts and not charts[name].empty}
    numbers = _Numbers(read, contents, known)
    tables = tuple(
        Table(corpus, rows) for corpus in contents.scene.corpora if (rows := tuple(_rows(numbers, charts, corpus)))
    )
    sides = numbers.sides
    return Overview(
        line=_line(contents, numbers),
        sentences=tuple(_sentences(numbers)) if tables else (),
        scope=_scope(numbers) if tables else "",
        charts=_charts(numbers, charts),
        sets=tuple((view, token_set(view)) for view in numbers.views),
        columns=numbers.columns if tables else (),
        difference=f"{sides[0].name} − {sides[1].name}" if sides and tables else "",
        models=tuple(map(_alone, own)) if any(side.several for side in numbers.columns) and tables else (),
        tables=tables,
        tally=tuple(contents.claims.tally),
        verdicts=tuple(_verdicts(contents)),
        quote=tuple(_quote(contents, numbers)),
    )


def _alone(style: ModelStyle) -> Side:
    return Side(style.model, (style.model,), style.role, style)


class _Numbers:
    """The main statistics of a study by side."""

    def __init__(self, read: Read, contents: Contents, known: Mapping[str, Statistic]) -> None:
        scene, self.known = contents.scene, known
        self.views = PAIR if set(PAIR) <= set(scene.views) else tuple(scene.views[:2])
        self.corpora = list(scene.corpora)
        self.texts = {str(row["corpus"]): int(row["texts"] or 0) for row in contents.corpora}
        self.fixed = "texts: fixed" in str(contents.study.get("spec") or "")
        self.styles = list(scene.styles.own)
        searched = [row for row in contents.cells if row.get("sinks") is not None]
        own = {style.model for style in self.styles}
        last = {row["model"]: row["checkpoint"] for row in contents.models if row["is_last"]}
        self.sinks_known = bool(searched)
        self.sinks = {
            (str(row["model"]), str(row["corpus"])): int(row["sinks"])
            for row in searched
            if row["model"] in own and row["checkpoint"] == last.get(row["model"])
        }
        self.blocks = {str(row["model"]): int(row["layers"]) for row in contents.models if row.get("layers")}
        self._profiles = self._read(read, scene.study) if known else {}
        self._of_side: dict[tuple[str, str, str, tuple[str, ...]], Profile | None] = {}
        self._means: dict[tuple[str, str, str, tuple[str, ...]], Number] = {}

    def _read(self, read: Read, study: str) -> dict[tuple[str, str, str, str], Profile]:
        frame = read(filled(PROFILES, study=study, statistics=" ".join(self.known)))
        columns = {name: frame[name].to_numpy(float) for name in ("layer", "depth", "value", "ci_low", "ci_high")}
        keys = ["full_name", "corpus", "view", "model"]
        profiles = {}
        groups: Mapping[Any, Any] = frame.groupby(keys, sort=False).indices if len(frame) else {}
        for (name, corpus, view, model), index in groups.items():
            layers, x, values, low, high = (column[index] for column in columns.values())
            known = tuple(map(int, layers)) if not np.isnan(layers).any() else ()
            profiles[name, corpus, view, model] = Profile(
                x, values, low, high, known, self.blocks.get(model, 0), self.df(corpus)
            )
        return profiles

    def df(self, corpus: str) -> float:
        """Return the degrees of freedom of intervals over the texts of a corpus."""
        return inf if self.fixed else max(1, self.texts.get(corpus, 0) - 1)

    @cached_property
    def roles(self) -> dict[str, tuple[ModelStyle, ...]]:
        """The models of each role."""
        return {role: tuple(styles) for role, styles in groupby(self.styles_by_role, key=lambda style: style.role)}

    @cached_property
    def styles_by_role(self) -> list[ModelStyle]:
        """The models, encoders first."""
        order = (ENCODER, DECODER)
        return sorted(self.styles, key=lambda style: order.index(style.role) if style.role in order else len(order))

    @cached_property
    def both(self) -> bool:
        """Whether there are encoders and decoders."""
        return ENCODER in self.roles and DECODER in self.roles

    def role_side(self, role: str) -> Side:
        """Return the models of a role as one side."""
        styles = self.roles[role]
        if len(styles) == 1:
            return _alone(styles[0])
        style = replace(styles[0], model=MEANS.get(role, role))
        return Side(f"{len(styles)} {role}s", tuple(style.model for style in styles), role, style)

    @cached_property
    def columns(self) -> tuple[Side, ...]:
        """The columns of the table: the mean of a role of three models or more, else its models."""
        columns: list[Side] = []
        for role, styles in self.roles.items():
            as_one = len(styles) >= FEWEST_MODELS if self.both else len(styles) > MOST_COLUMNS
            columns += [self.role_side(role)] if as_one else map(_alone, styles)
        return tuple(columns)

    @cached_property
    def sides(self) -> tuple[Side, Side] | tuple[()]:
        """The two sides that are compared; none of a single model, or of several of one role."""
        if self.both:
            return self.role_side(ENCODER), self.role_side(DECODER)
        return (_alone(self.styles[0]), _alone(self.styles[1])) if len(self.styles) == 2 else ()

    @cached_property
    def over_models(self) -> bool:
        """Whether intervals of both sides are over models."""
        return bool(self.sides) and all(len(side.models) >= FEWEST_MODELS for side in self.sides)

    def comparable(self, name: str) -> bool:
        """Tell whether a statistic means the same in all columns."""
        return not (self.known[name].within_role and self.both)

    def profile(self, name: str, corpus: str, view: str, side: Side) -> Profile | None:
        """Return a statistic of a side over depth; None where a model lacks it."""
        key = (name, corpus, view, side.models)
        if key not in self._of_side:
            found = [self._profiles.get((name, corpus, view, model)) for model in side.models]
            profiles = [profile for profile in found if profile is not None]
            complete = len(profiles) == len(found)
            self._of_side[key] = (profiles[0] if len(profiles) == 1 else _together(profiles)) if complete else None
        return self._of_side[key]

    def number(self, name: str, corpus: str, view: str, side: Side) -> Number:
        """Return the mean over layers of a side."""
        key = (name, corpus, view, side.models)
        if key not in self._means:
            found = [self._profiles.get((name, corpus, view, model)) for model in side.models]
            means = [profile.mean for profile in found if profile is not None]
            self._means[key] = _mean_of(means) if means else Number()
        return self._means[key]


def _mean_of(numbers: Sequence[Number]) -> Number:
    if len(numbers) == 1:
        return numbers[0]
    values = np.array([number.value for number in numbers], dtype=float)
    if len(numbers) >= FEWEST_MODELS:
        return Number(*student_interval(values), df=len(numbers) - 1)
    ends = [(number.low, number.high) for number in numbers if number.low is not None and number.high is not None]
    low, high = np.mean(ends, axis=0).tolist() if len(ends) == len(numbers) else (None, None)
    return Number(float(values.mean()), low, high, min(number.df for number in numbers))


def _together(profiles: Sequence[Profile]) -> Profile:
    """Return the mean profile of several models at common depths, with its interval at each."""
    if np.isnan(profiles[0].x).any():
        x = profiles[0].x[:1]
    else:
        first, last = max(p.x[0] for p in profiles), min(p.x[-1] for p in profiles)
        x = np.linspace(first, last, min(len(p.x) for p in profiles))
    moved = [p.at(x) if len(p.x) > 1 else p for p in profiles]
    numbers = [_mean_of([p.number(index) for p in moved]) for index in range(len(x))]
    low, high = (
        np.array([np.nan if end is None else end for end in ends], dtype=float)
        for ends in ([n.low for n in numbers], [n.high for n in numbers])
    )
    return Profile(x, np.array([n.value for n in numbers], dtype=float), low, high, df=numbers[0].df)


# The table.


def _rows(numbers: _Numbers, charts: Mapping[str, Drawn], corpus: str) -> Iterator[Line]:
    lines = []
    for name, statistic in numbers.known.items():
        paths = _paths(numbers, name, corpus)
        cells = {view: _cells(numbers, name, corpus, view, paths[view]) for view in numbers.views}
        if any(number.value is not None for cell in cells.values() for number in cell.numbers):
            effect = max(_effect(numbers, name, corpus, view) for view in numbers.views)
            note = "" if numbers.comparable(name) else "not comparable between roles"
            meaning = charts[name].chart.lead
            lines.append(Line(name, capital(statistic.title), statistic.unit, meaning, note, effect, cells))
    yield from sorted(lines, key=lambda line: (bool(line.note), -line.effect))


def _cells(numbers: _Numbers, name: str, corpus: str, view: str, lines: tuple[tuple[Side, str], ...]) -> Cells:
    difference = None
    if numbers.sides and numbers.comparable(name):
        difference = _difference(numbers, name, corpus, view)
    several = any(side.several for side in numbers.columns)
    columns, models = numbers.columns, map(_alone, numbers.styles) if several else ()
    of_columns, of_models = (
        tuple(numbers.number(name, corpus, view, side) for side in sides) for sides in (columns, models)
    )
    return Cells(of_columns, difference, lines, of_models)


def _difference(numbers: _Numbers, name: str, corpus: str, view: str) -> Number:
    a, b = (numbers.number(name, corpus, view, side) for side in numbers.sides)
    return a.minus(b)


def _paths(numbers: _Numbers, name: str, corpus: str) -> dict[str, tuple[tuple[Side, str], ...]]:
    """Return the small profiles of a row by token set, on one scale for all."""
    found = {
        (view, side): profile
        for view in numbers.views
        for side in numbers.columns
        if (profile := numbers.profile(name, corpus, view, side)) is not None and len(profile.x) > 1
    }
    values = [value for profile in found.values() for value in profile.values.tolist()]
    return {
        view: tuple(
            (side, path_of(list(zip(profile.x, profile.values, strict=True)), min(values), max(values)))
            for (of_view, side), profile in found.items()
            if of_view == view
        )
        for view in numbers.views
    }


def _effect(numbers: _Numbers, name: str, corpus: str, view: str) -> float:
    """Return the standardised difference: the mean over depth of the difference as a share of the statistic's range."""
    if not numbers.comparable(name):
        return 0.0
    sides = numbers.sides or tuple(map(_alone, numbers.styles))
    profiles = [p for side in sides if (p := numbers.profile(name, corpus, view, side)) is not None]
    if len(profiles) < 2:
        return 0.0
    statistic = numbers.known[name]
    if not numbers.sides:  # several models of one role: the two that are furthest apart
        profiles.sort(key=lambda profile: float(profile.values.mean()))
    a, b = _at_common_depths(profiles[0], profiles[-1])
    gaps = zip(a.values.tolist(), b.values.tolist(), strict=True)
    return float(np.mean([share_of_range(statistic, first - second, first, second) for first, second in gaps]))


def _at_common_depths(a: Profile, b: Profile) -> tuple[Profile, Profile]:
    """Return two profiles at the depths of the first one that both have."""
    if len(a.x) < 2 or len(b.x) < 2 or np.isnan(a.x).any() or np.isnan(b.x).any():
        return a, b
    inside = (a.x >= b.x[0] - 1e-9) & (a.x <= b.x[-1] + 1e-9)
    kept = tuple(layer for layer, keep in zip(a.layers, inside, strict=False) if keep)
    a = replace(a, x=a.x[inside], values=a.values[inside], low=a.low[inside], high=a.high[inside], layers=kept)
    return a, b.at(a.x)


def _charts(numbers: _Numbers, charts: Mapping[str, Drawn]) -> tuple[str, ...]:
    """Return the statistics of the four charts."""
    possible = {name for name, drawn in charts.items() if drawn.chart.kind == "profile" and name in numbers.known} - {
        name for name in numbers.known if not numbers.comparable(name)
    }
    chosen = [name for choice in PREFERRED if (name := next((n for n in choice if n in possible), ""))]
    corpus = numbers.corpora[0] if numbers.corpora else ""

    def effect(name: str) -> float:
        return max((_effect(numbers, name, corpus, view) for view in numbers.views), default=0.0)

    chosen += sorted(possible - set(chosen), key=lambda name: (-effect(name), name))
    return tuple(chosen[: len(PREFERRED)])


# The sentences.


@dataclass(frozen=True)
class _Contrast:
    """How two sides differ in a statistic.

    Args:
        name: the statistic.
        view: the token set.
        of: the side that changes more over depth.
        other: the other side.
        gap: the first minus the second.
        run: the points of the first one's profile that the sentence is about; empty for the mean over layers.
        effect: the part of the standardised difference that the sentence tells.
    """

    name: str
    view: str
    of: Side
    other: Side
    gap: Number
    run: tuple[int, ...]
    effect: float


def _sentences(numbers: _Numbers) -> Iterator[Sentence]:
    corpus = numbers.corpora[0]
    texts = numbers.texts.get(corpus, 0)
    if not numbers.fixed and texts < VERDICT_TEXTS:
        return
    if len(numbers.styles) == 1:
        yield from _described(numbers, corpus)
    elif numbers.sides:
        yield from _compared(numbers, corpus, numbers.sides)
    else:
        yield from _ranges(numbers, corpus)


def _tests(numbers: _Numbers, corpus: str, sides: Sequence[Side], over_layers: bool) -> int:
    """Return how many comparisons there are: of every statistic and token set, at each layer and on average."""
    sizes = [
        len(profile.x) * over_layers + 1
        for name in numbers.known
        if numbers.comparable(name)
        for view in numbers.views
        for profile in [numbers.profile(name, corpus, view, sides[0])]
        if profile is not None
    ]
    return max(1, sum(sizes))


def _compared(numbers: _Numbers, corpus: str, sides: tuple[Side, Side]) -> Iterator[Sentence]:
    """Say where two sides differ most, whether sinks explain it, and another kind of difference."""
    wide = max(sides, key=lambda side: max((numbers.blocks.get(model, 0) for model in side.models), default=0))
    tests = _tests(numbers, corpus, (wide,), over_layers=True)
    found = [
        contrast
        for name in numbers.known
        if numbers.comparable(name)
        for view in numbers.views
        if (contrast := _contrast(numbers, name, corpus, view, sides, tests)) is not None
    ]
    found = [contrast for contrast in found if contrast.effect >= MATERIAL]
    found.sort(key=lambda contrast: -contrast.effect)
    shown = [contrast for contrast in found if contrast.view == numbers.views[0]]
    if not found:
        yield Sentence(
            f"No main statistic differs significantly and by much between {_the(sides[0])} and {_the(sides[1])}.",
            "; ".join(_corrected(tests)),
            _first_comparable(numbers),
            (numbers.views[0],),
        )
        return
    first = (shown or found)[0]
    yield _contrast_sentence(numbers, corpus, first, tests)
    count, used = 1, {topic(first.name)}
    if first.view == numbers.views[0] and numbers.views == PAIR:
        sinks = _sinks_sentence(numbers, corpus, first, tests)
        if sinks is not None:
            yield sinks
            count += 1
    for contrast in [c for c in found if c.view == numbers.views[-1]]:
        if count < 3 and topic(contrast.name) not in used:
            used.add(topic(contrast.name))
            count += 1
            yield _contrast_sentence(numbers, corpus, contrast, tests)


def _first_comparable(numbers: _Numbers) -> str:
    return next((name for name in numbers.known if numbers.comparable(name)), "")


def _contrast(
    numbers: _Numbers, name: str, corpus: str, view: str, sides: tuple[Side, Side], tests: int
) -> _Contrast | None:
    """Return how two sides differ; None if they do not, or if models of one side lie on both sides of another's."""
    profiles = [numbers.profile(name, corpus, view, side) for side in sides]
    a, b = profiles
    if a is None or b is None or len(a.x) < 2 or len(b.x) < 2 or not _apart(numbers, name, corpus, view, sides):
        return None
    # the sentence is about the side that changes more over depth
    spans = [float(p.values.max() - p.values.min()) for p in (a, b)]
    of, other = sides if spans[0] >= spans[1] else sides[::-1]
    here, there = (a, b) if of is sides[0] else (b, a)
    here, there = _at_common_depths(here, there)
    gaps = [here.number(index).minus(there.number(index)) for index in range(len(here.x))]
    values = here.values - there.values
    sizes = np.array(
        [
            share_of_range(numbers.known[name], float(gap), float(first), float(second))
            for gap, first, second in zip(values, here.values, there.values, strict=True)
        ]
    )
    top = int(sizes.argmax())
    sure = np.array([gap.differs(tests) for gap in gaps])
    large = sure & (values * values[top] > 0) & (sizes >= LARGE * sizes[top])
    run = _run(large, top)
    if run and sizes[list(run)].sum() >= TOLD * sizes.sum() and len(run) <= EVERYWHERE * len(sizes):
        inside = list(run)
        ends = np.array([(gaps[i].value, gaps[i].low, gaps[i].high) for i in inside], dtype=float).mean(axis=0)
        gap = _number(ends[0], ends[1], ends[2], gaps[top].df)
        return _Contrast(name, view, of, other, gap, run, float(sizes[inside].sum() / len(sizes)))
    first, second = (numbers.number(name, corpus, view, side) for side in (of, other))
    gap = first.minus(second)
    if not gap.differs(tests):
        return None
    effect = share_of_range(numbers.known[name], gap.value or 0.0, first.value or 0.0, second.value or 0.0)
    # one side may lack the embedding: its mean then differs though the profiles agree where both have numbers
    return _Contrast(name, view, of, other, gap, (), min(effect, float(sizes.mean())))


def _apart(numbers: _Numbers, name: str, corpus: str, view: str, sides: tuple[Side, Side]) -> bool:
    """Tell whether every model of one side lies above every one of the other, where they are too few for a test."""
    if numbers.over_models:
        return True
    a, b = (
        [numbers.number(name, corpus, view, _alone_of(numbers, model)).value for model in side.models] for side in sides
    )
    first, second = [v for v in a if v is not None], [v for v in b if v is not None]
    if len(first) < len(a) or len(second) < len(b):
        return False
    return len(first) == len(second) == 1 or min(first) > max(second) or max(first) < min(second)


def _alone_of(numbers: _Numbers, model: str) -> Side:
    return next(_alone(style) for style in numbers.styles if style.model == model)


def _run(large: np.ndarray, top: int) -> tuple[int, ...]:
    """Return the neighbours of a point, and itself, for which a condition holds; empty if it does not hold there."""
    if not large[top]:
        return ()
    first, last = top, top
    while first > 0 and large[first - 1]:
        first -= 1
    while last < len(large) - 1 and large[last + 1]:
        last += 1
    return tuple(range(first, last + 1))


def _contrast_sentence(numbers: _Numbers, corpus: str, contrast: _Contrast, tests: int) -> Sentence:
    statistic = numbers.known[contrast.name]
    title, step = statistic.title, statistic.per == "step"
    written = partial(_written, title=title)
    larger = (contrast.gap.value or 0.0) > 0
    high, low = (contrast.of, contrast.other) if larger else (contrast.other, contrast.of)
    more = MORE.get(contrast.name, "")
    lead = f"In {_the(high)}, states {more}"
    ways: tuple[str, ...]
    if contrast.run:
        here, there = _profiles(numbers, corpus, contrast)
        inside = list(contrast.run)
        a = written(here.values[inside], _width(here, inside))
        where, whose = _where(here, inside, step), f" of {_the(contrast.of)}"
        every = _whole(numbers, corpus, contrast)
        beyond = every.values.max() < here.values[inside].min() or every.values.min() > here.values[inside].max()
        b = written(every.values, _width(every)) if beyond else written(there.values[inside], _width(there, inside))
        rest = f"{b} throughout {_the(contrast.other)}" if beyond else f"{b} at these depths of {_the(contrast.other)}"
        about = "" if high is contrast.of else whose
        ways = (
            f"{lead}: {title} is {a} {where}{about}, but {rest}.",
            f"{capital(title)} is {a} {where}{whose}, but {rest}.",
            f"{capital(title)}: {a} {where}{whose}, {rest}.",
        )
    else:
        means = [numbers.number(contrast.name, corpus, contrast.view, side) for side in (high, low)]
        a, b = (written([number.value or 0.0], max(map(_gap_of, means))) for number in means)
        over = _over(statistic)
        ways = (
            f"{lead} than in {_the(low)}: {title} averages {a} against {b} over {over}.",
            f"{lead}: {title} averages {a} against {b} over {over}.",
            f"{capital(title)} averages {a} in {_the(high)} and {b} in {_the(low)} over {over}.",
            f"{capital(title)}: {a} in {_the(high)}, {b} in {_the(low)}.",
        )
    possible = [way for way in ways if more or not way.startswith(lead)]
    text = next((way for way in possible if len(way.split()) <= MOST_WORDS), possible[-1])
    basis = "embedding included" if not contrast.run and not step else ""
    return Sentence(
        text,
        _strength(numbers, statistic, corpus, contrast.gap, contrast.view, tests, basis),
        contrast.name,
        (contrast.view,),
    )


def _over(statistic: Statistic) -> str:
    return "blocks" if statistic.per == "step" else "layers"


def _the(side: Side) -> str:
    return f"the {side.name}" if side.several else side.name


def _profiles(numbers: _Numbers, corpus: str, contrast: _Contrast, view: str = "") -> tuple[Profile, Profile]:
    """Return both profiles at the points of the side that the sentence is about."""
    a, b = (
        numbers.profile(contrast.name, corpus, view or contrast.view, side) for side in (contrast.of, contrast.other)
    )
    assert a is not None and b is not None
    return _at_common_depths(a, b)


def _whole(numbers: _Numbers, corpus: str, contrast: _Contrast) -> Profile:
    profile = numbers.profile(contrast.name, corpus, contrast.view, contrast.other)
    assert profile is not None
    return profile


def _where(profile: Profile, inside: Sequence[int], step: bool) -> str:
    """Name some points of a profile: layers or blocks of a model, or depths of several."""
    if profile.layers:
        layers = [profile.layers[index] for index in inside]
        return f"{'at' if layers == [0] and not step else 'in'} {places(layers, step)}"
    first, last = (f"{profile.x[index]:.2f}" for index in (inside[0], inside[-1]))
    return f"at depth {first}" if first == last else f"at depths {first} to {last}"


def _width(profile: Profile, inside: Sequence[int] | slice = slice(None)) -> float:
    """Return how wide the intervals of a profile are, half of them narrower."""
    widths = (profile.high - profile.low)[inside]
    return float(np.median(widths)) if not np.isnan(widths).any() else 0.0


def _gap_of(number: Number) -> float:
    return 0.0 if number.low is None or number.high is None else number.high - number.low


def _written(values: Sequence[float] | Array, width: float, title: str) -> str:
    """Write the range of some numbers with the decimals that intervals so wide leave certain; shares in percent."""
    percent = title.startswith(AS_PERCENT)
    scale, one = (100.0, 100.0) if percent else (1.0, 1.0)
    ends = [scale * float(min(values)), scale * float(max(values))]
    size = max(map(abs, ends))
    if not size or not width:
        texts = [short(end) for end in ends]
    else:
        decimals = max(ceil(-log10(scale * width)), 1 - floor(log10(size)), 0)
        while decimals < 5 and any(abs(end) < one <= float(f"{abs(end):.{decimals}f}") for end in ends):
            decimals += 1  # 0.9996 is not 1
        texts = [f"{end:,.{decimals}f}".replace("-", "−") for end in ends] if decimals <= 5 else [*map(short, ends)]
    joined = texts[0] if texts[0] == texts[1] else " to ".join(texts) if "−" in "".join(texts) else "–".join(texts)
    return joined + " %" * percent


def _strength(
    numbers: _Numbers, statistic: Statistic, corpus: str, gap: Number, view: str, tests: int, basis: str = ""
) -> str:
    """Say how sure a difference is."""
    size = gap if (gap.value or 0.0) >= 0 else Number(0.0, 0.0, 0.0).minus(gap)
    if statistic.title.startswith(AS_PERCENT):
        points = (None if end is None else 100 * end for end in (size.value, size.low, size.high))
        parts = [f"difference {estimate(*points)} percentage points", *_corrected(tests)]
    else:
        parts = [f"difference {size.text}", *_corrected(tests)]
    parts += [token_set(view)] * (len(numbers.views) > 1) + [f"on {corpus}"] * (len(numbers.corpora) > 1)
    return "; ".join([*parts, *([basis] if basis else [])])


def _corrected(tests: int) -> list[str]:
    return [f"corrected for {counted(tests, 'test')}"]


def _scope(numbers: _Numbers) -> str:
    """Say what intervals are over, and what the sentences say nothing about."""
    over = f"95 % intervals are over {'models' if numbers.over_models else 'texts'}."
    if len(numbers.styles) == 1:
        return f"{over} One model: descriptive, says nothing about others."
    if not numbers.both:
        return f"{over} Models of one role: descriptive, says nothing about others."
    if numbers.over_models:
        return over
    counts = [len(side.models) for side in numbers.sides]
    few = "One model of each role" if counts == [1, 1] else "Few models of a role"
    return f"{over} {few}: descriptive, says nothing about encoders in general."


def _sinks_sentence(numbers: _Numbers, corpus: str, first: _Contrast, tests: int) -> Sentence | None:
    """Say whether a difference remains without sinks; None where there are none, or that is not known."""
    with_sinks = {
        side.name: count
        for side in (first.of, first.other)
        if (count := sum(numbers.sinks.get((model, corpus), 0) for model in side.models))
    }
    bare = replace(first, view=PAIR[1])
    if not with_sinks or any(
        numbers.profile(first.name, corpus, PAIR[1], side) is None for side in (first.of, first.other)
    ):
        return None
    if first.run:
        here, there = _profiles(numbers, corpus, bare)
        before, _ = _profiles(numbers, corpus, first)
        if here.layers != before.layers or len(here.x) != len(before.x):
            return None
        inside = list(first.run)
        gaps = [here.number(i).minus(there.number(i)) for i in inside]
        value = float(np.mean([gap.value for gap in gaps if gap.value is not None]))
        sure = all(gap.differs(tests) for gap in gaps)
        changed = all(before.number(i).minus(here.number(i)).differs(tests) for i in inside)
        a, b = here.values[inside], there.values[inside]
        widths = _width(here, inside), _width(there, inside)
        where = "the same layers" if here.layers else "the same depths"
    else:
        means = [numbers.number(first.name, corpus, PAIR[1], side) for side in (first.of, first.other)]
        gap = means[0].minus(means[1])
        value, sure = gap.value or 0.0, gap.differs(tests)
        changed = numbers.number(first.name, corpus, first.view, first.of).minus(means[0]).differs(tests)
        a, b = (np.array([number.value or 0.0]) for number in means)
        widths = _gap_of(means[0]), _gap_of(means[1])
        where = f"the mean over {_over(numbers.known[first.name])}"
    title = numbers.known[first.name].title
    here_text, there_text = _written(a, widths[0], title), _written(b, widths[1], title)
    count = sum(with_sinks.values())
    tokens = f"{whole(count)} sink {'token' if count == 1 else 'tokens'}"
    names = listed(with_sinks)
    before_value = first.gap.value or 0.0
    if abs(value) <= abs(before_value) / 2 and changed:
        text = f"Sinks explain most of it: without {tokens} of {names}, {where} {_have(first)} {here_text}."
    elif sure and value * before_value > 0:
        text = f"Sinks do not explain it: without {tokens} of {names}, it is {here_text} against {there_text}."
    elif sure:
        text = f"Without {tokens} of {names} the difference reverses: {here_text} against {there_text}."
    else:
        return None
    note = "each text's first token is left out as well"
    return Sentence(text, "; ".join([*_corrected(tests), note]), first.name, PAIR)


def _have(contrast: _Contrast) -> str:
    return "have" if contrast.run else "is"


def _described(numbers: _Numbers, corpus: str) -> Iterator[Sentence]:
    """Describe a single model: where its statistics are highest and lowest."""
    (side,) = map(_alone, numbers.styles)
    found = []
    tests = _tests(numbers, corpus, (side,), over_layers=True)
    for name, statistic in numbers.known.items():
        profile = numbers.profile(name, corpus, numbers.views[-1], side)
        if profile is None or len(profile.x) < 2 or not profile.layers:
            continue
        top, bottom = int(profile.values.argmax()), int(profile.values.argmin())
        gap = profile.number(top).minus(profile.number(bottom))
        effect = share_of_range(statistic, gap.value or 0.0, profile.values[top], profile.values[bottom])
        if gap.differs(tests) and effect >= MATERIAL:
            found.append((effect, name, top, bottom, gap, profile))
    used: set[str] = set()
    for _, name, top, bottom, gap, profile in sorted(found, key=lambda entry: -entry[0]):
        if topic(name) in used or len(used) == 3:
            continue
        used.add(topic(name))
        title, step = numbers.known[name].title, numbers.known[name].per == "step"
        high, low = (
            f"{_written([profile.values[index]], _width(profile, [index]), title)} at "
            f"{end(profile.layers[index], profile.blocks, step)}"
            for index in (top, bottom)
        )
        ends = {0, len(profile.x) - 1}
        if {top, bottom} == ends:
            text = (
                f"{capital(title)} {'rises' if top else 'falls'} from {low if top else high} to {high if top else low}."
            )
        else:
            text = f"{capital(title)} is highest, {high}, and lowest, {low}."
        view = numbers.views[-1]
        yield Sentence(text, _strength(numbers, numbers.known[name], corpus, gap, view, tests), name, (view,))


def _ranges(numbers: _Numbers, corpus: str) -> Iterator[Sentence]:
    """Say how far several models of one role differ: the lowest and the highest mean over layers."""
    models = list(map(_alone, numbers.styles))
    pairs = len(models) * (len(models) - 1) // 2
    tests = pairs * _tests(numbers, corpus, models[:1], over_layers=False)
    found = []
    view = numbers.views[-1]
    for name, statistic in numbers.known.items():
        means = [(numbers.number(name, corpus, view, side), side) for side in models]
        if any(number.value is None for number, _ in means):
            continue
        means.sort(key=lambda pair: pair[0].value or 0.0)
        (low, first), (high, last) = means[0], means[-1]
        gap = high.minus(low)
        effect = share_of_range(statistic, gap.value or 0.0, high.value or 0.0, low.value or 0.0)
        if gap.differs(tests) and effect >= MATERIAL:
            found.append((effect, name, low, first, high, last, gap))
    used: set[str] = set()
    for _, name, low, first, high, last, gap in sorted(found, key=lambda entry: -entry[0]):
        if topic(name) in used or len(used) == 3:
            continue
        used.add(topic(name))
        statistic = numbers.known[name]
        a, b = (_written([number.value or 0.0], _gap_of(number), statistic.title) for number in (low, high))
        over = "" if statistic.per == "model" else f", on average over {_over(statistic)}"
        text = f"{capital(statistic.title)} ranges from {a} in {first.name} to {b} in {last.name}{over}."
        yield Sentence(text, _strength(numbers, numbers.known[name], corpus, gap, view, tests), name, (view,))


# What stands around them.


def _line(contents: Contents, numbers: _Numbers) -> str:
    """Say what is compared, on what."""
    blocks = numbers.blocks
    styles = numbers.styles_by_role
    if not styles:
        return "No model has numbers yet."
    if len(styles) <= 2:
        models = " against ".join(f"{style.model} ({_role(style)}{_blocks(blocks, [style])})" for style in styles)
    else:
        roles = listed(counted(len(of_role), _role(of_role[0])) for of_role in numbers.roles.values())
        depth = _blocks(blocks, styles).removeprefix(", ")
        models = roles + (f" ({depth})" if depth else "")
    corpora = [corpus for corpus in numbers.corpora if numbers.texts.get(corpus)]
    if not corpora:
        return f"{models}."
    if len(corpora) > 3:
        return f"{models} on {counted(len(corpora), 'corpus', 'corpora')}."
    texts = [f"{counted(numbers.texts[corpus], 'text')} of {corpus}" for corpus in corpora]
    return f"{models} on {listed(texts)}."


def _role(style: ModelStyle) -> str:
    return style.role if style.role in (ENCODER, DECODER) else "model"


def _blocks(blocks: Mapping[str, int], styles: Sequence[ModelStyle]) -> str:
    sizes = [blocks[style.model] for style in styles if style.model in blocks]
    if not sizes:
        return ""
    low, high = min(sizes), max(sizes)
    return f", {counted(low, 'block')}" if low == high else f", {low} to {high} blocks"


def _verdicts(contents: Contents) -> Iterator[VerdictLine]:
    for claim in contents.claims.all:
        verdict = claim["test"]["verdict"]
        yield VerdictLine(claim["name"], VERDICTS[verdict], verdict, claim["says"], claim["sure"])


def _quote(contents: Contents, numbers: _Numbers) -> Iterator[str]:
    """Yield what a reader should know before quoting a number: four bullets at most."""
    if not numbers.styles:
        return
    if numbers.sinks_known:
        yield _sinks_note(numbers)
    if numbers.both and not numbers.over_models:
        counts = listed(counted(len(numbers.roles[role]), role) for role in (ENCODER, DECODER))
        yield f"{capital(counts)}: differences describe these models, not their roles."
    elif numbers.both:
        counts = listed(counted(len(numbers.roles[role]), role) for role in (ENCODER, DECODER))
        yield f"{capital(counts)}: intervals of differences are over models."
    yield _texts_note(contents, numbers)
    models = queries.model_rows(contents.models)
    warned = queries.warnings(models, contents.cells)
    failed = sum(row["status"] == "failed" for row in [*contents.cells, *contents.models, *contents.corpora])
    parts = [f"{counted(failed, 'measurement')} failed"] if failed else []
    parts += [f"{counted(len(warned), 'warning')} about {_warned_models(warned)}"] if warned else []
    if parts:
        yield f"{capital(' and '.join(parts))}: see Method."


def _warned_models(warned: Sequence[tuple[str, Sequence[str]]]) -> str:
    names = list(dict.fromkeys(name for _, of_it in warned for name in of_it))
    return listed(names) if len(names) <= 3 else f"{len(names)} models"


def _sinks_note(numbers: _Numbers) -> str:
    totals: Counter[str] = Counter()
    for (model, _), count in numbers.sinks.items():
        totals[model] += count
    having = [style.model for style in numbers.styles if totals[style.model]]
    if not having:
        return "No token is a sink in any model."
    shares = [f"{whole(totals[model])} in {model}" for model in having]
    which = listed(shares) if len(shares) <= 3 else f"{whole(sum(totals.values()))} in {len(having)} models"
    rest = len(numbers.styles) - len(having)
    none = "" if not rest else f", none in {listed(s.model for s in numbers.styles if not totals[s.model])}"
    none = none if rest <= 3 else f", none in {rest} models"
    advice = "" if numbers.views != PAIR else " Compare without sinks, too."
    return f"Sink tokens: {which}{none}.{advice}"


def _texts_note(contents: Contents, numbers: _Numbers) -> str:
    texts = sum(numbers.texts.get(corpus, 0) for corpus in numbers.corpora)
    own = {style.model for style in numbers.styles}
    last = {row["model"]: row["checkpoint"] for row in contents.models if row["is_last"]}
    passes = [
        row
        for row in contents.cells
        if row["model"] in own
        and row["checkpoint"] == last.get(row["model"])
        and row["corpus"] in numbers.corpora
        and row.get("tokens")
    ]
    by_pass: dict[tuple[str, str], tuple[int, int]] = {}
    for row in passes:
        by_pass[str(row["model"]), str(row["corpus"])] = (int(row["tokens"]), int(row.get("cut_texts") or 0))
    tokens: Counter[str] = Counter()
    cut: Counter[str] = Counter()
    for (model, _), (count, short_of) in by_pass.items():
        tokens[model] += count
        cut[model] += short_of
    sizes = sorted(set(tokens.values()))
    size = "" if not sizes else f", {' to '.join(dict.fromkeys((whole(sizes[0]), whole(sizes[-1]))))} tokens per model"
    most = max(cut.values(), default=0)
    cut_short = counted(most, "text") if most else "none"
    return f"{capital(counted(texts, 'text'))}{size}; {cut_short} cut short."
