"""The main statistics of a study by side, for its overview.

Two *sides* are compared: encoders and decoders where a study has both, else two models. A side is a model, or the mean
over the models of a role. A mean over layers is the plain mean over the embedding and the blocks, without the layers
whose value a definition fixes. The ends of its interval are the means of the layers' ends, which is never too narrow.
From three models of a role on, the interval is Student's over models. The interval of a difference follows from both
(Zou and Donner 2008, "Construction of confidence limits about effect measures", Statistics in Medicine 27), as if the
errors were independent. A model and its base have the stored intervals that are paired over texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import hypot, inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reporter.charts.chart import Read, filled
from reporter.charts.styles import DECODER, ENCODER, MEANS, ModelStyle
from reporter.core.numbers import estimate
from reporter.core.table import FREE, LAST_CHECKPOINT
from reporter.geometry.intervals import sign_after, student_interval
from reporter.judge.points import FEWEST_MODELS, Array
from reporter.judge.questions.subjects import share_of_range
from reporter.report.compared import PAIR

if TYPE_CHECKING:
    from reporter.metrics.base import Statistic
    from reporter.report.contents import Contents

MOST_COLUMNS = 6
"""More models of one role are shown as their mean."""
PROFILES = f"""
SELECT metric || '.' || statistic AS full_name, corpus, view, model, layer, depth, value, ci_low, ci_high
FROM layer_metrics
WHERE study = $study AND list_contains(string_split($statistics, ' '), metric || '.' || statistic)
  AND (site IS NULL OR site IN ('embedding', 'block')) AND {FREE} AND value IS NOT NULL
  AND model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
  AND {LAST_CHECKPOINT}
ORDER BY full_name, corpus, view, model, layer
"""
PAIRED = f"""
SELECT metric || '.' || statistic AS full_name, corpus_a AS corpus, view, model_a AS model, layer, depth, value, ci_low,
  ci_high
FROM (SELECT *, model_a AS model, checkpoint_a AS checkpoint FROM differences WHERE study = $study AND kind = 'base')
WHERE list_contains(string_split($statistics, ' '), metric || '.' || statistic) AND ci_low IS NOT NULL
  AND (site IS NULL OR site IN ('embedding', 'block')) AND {LAST_CHECKPOINT}
ORDER BY full_name, corpus, view, model, layer
"""
"""Differences from the base, paired over texts."""


@dataclass(frozen=True)
class Number:
    """A number with its 95 % interval; NaN where there is none."""

    value: float = nan
    low: float = nan
    high: float = nan
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
        value = self.value - other.value
        low = value - hypot(self.value - self.low, other.high - other.value)
        high = value + hypot(self.high - self.value, other.value - other.low)
        return Number(value, low, high, min(self.df, other.df))

    def differs(self, tests: int) -> bool:
        """Tell whether its interval excludes 0 after the correction for so many tests."""
        return sign_after(tests, self.value, self.low, self.high, self.df) != 0


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
        return Number(float(self.values.mean()), float(self.low.mean()), float(self.high.mean()), self.df)

    def at(self, x: Array) -> Profile:
        """Return it at other depths, by linear interpolation."""
        values, low, high = (np.interp(x, self.x, part) for part in (self.values, self.low, self.high))
        return Profile(x, values, low, high, df=self.df)

    def part(self, points: list[int] | NDArray[np.bool_]) -> Profile:
        """Return some of its points."""
        layers = tuple(np.array(self.layers)[points].tolist()) if self.layers else ()
        x, values, low, high = (array[points] for array in (self.x, self.values, self.low, self.high))
        return replace(self, x=x, values=values, low=low, high=high, layers=layers)

    def number(self, index: int) -> Number:
        """Return the number at one of its points."""
        return Number(float(self.values[index]), float(self.low[index]), float(self.high[index]), self.df)


@dataclass(frozen=True)
class Side:
    """A column of the table, and one side of a comparison: a model, or the models of a role together."""

    name: str
    models: tuple[str, ...]
    role: str
    style: ModelStyle

    @classmethod
    def of(cls, style: ModelStyle) -> Side:
        """Return a single model as a side."""
        return cls(style.model, (style.model,), style.role, style)

    @property
    def several(self) -> bool:
        """Whether it is more than one model."""
        return len(self.models) > 1


class MainStatistics:
    """The main statistics of a study by side: ``sets`` are its token sets, ``views`` those that sentences compare."""

    def __init__(self, read: Read, contents: Contents, known: Mapping[str, Statistic]) -> None:
        scene, self.known = contents.scene, known
        self.sets = tuple(scene.views)
        self.views = PAIR if set(PAIR) <= set(scene.views) else tuple(scene.views[:2])
        self.corpora = list(scene.corpora)
        self.texts = {str(row["corpus"]): int(row["texts"] or 0) for row in contents.corpora}
        clusters = {str(row["corpus"]): row["clusters"] for row in contents.corpora}
        self.units = {corpus: int(clusters[corpus] or count) for corpus, count in self.texts.items()}
        for row in contents.cells:  # of the models, the one that reads the fewest different texts decides
            if row["corpus"] in self.units and row.get("distinct_texts") is not None:
                self.units[row["corpus"]] = min(self.units[row["corpus"]], int(row["distinct_texts"]))
        self.fixed = "texts: fixed" in str(contents.study.get("spec") or "")
        self.styles = list(scene.styles.own)
        # A cell of a comparison, such as `wiki | tweets`, counts the sinks of its sides again.
        searched = [row for row in contents.cells if row.get("sinks") is not None and row["corpus"] in self.texts]
        own = {style.model for style in self.styles}
        last = {row["model"]: row["checkpoint"] for row in contents.models if row["is_last"]}
        self.sinks_known = bool(searched)
        self.sinks = {
            (str(row["model"]), str(row["corpus"])): int(row["sinks"])
            for row in searched
            if row["model"] in own and row["checkpoint"] == last.get(row["model"])
        }
        self.blocks = {str(row["model"]): int(row["layers"]) for row in contents.models if row.get("layers")}
        bases = {str(row["model"]): row["base"] for row in contents.models if row["is_last"]}
        pair = {style.model for style in self.styles} if len(self.styles) == 2 else set()
        self.tuned = next((model for model in pair if bases.get(model) in pair - {model}), None)
        self.judged = bool(self.tuned) and any(answer["name"] == "changed" for answer in contents.answers)
        self._profiles = self._read(read, PROFILES, scene.study) if known else {}
        self._paired = self._read(read, PAIRED, scene.study) if known and self.tuned else {}
        self._of_side: dict[tuple[str, str, str, tuple[str, ...]], Profile | None] = {}
        self._means: dict[tuple[str, str, str, tuple[str, ...]], Number] = {}

    def _read(self, read: Read, sql: str, study: str) -> dict[tuple[str, str, str, str], Profile]:
        frame = read(filled(sql, study=study, statistics=" ".join(self.known)))
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
        """Return the degrees of freedom of intervals over the texts, or the clusters, of a corpus."""
        return inf if self.fixed else max(1, self.units.get(corpus, 0) - 1)

    @cached_property
    def roles(self) -> dict[str, tuple[ModelStyle, ...]]:
        """The models of each role."""
        return {role: tuple(styles) for role, styles in groupby(self.styles_by_role, key=lambda style: style.role)}

    @cached_property
    def styles_by_role(self) -> list[ModelStyle]:
        """The models, encoders first, and a tuned model before its base."""
        order = (ENCODER, DECODER)
        by_role = sorted(self.styles, key=lambda style: style.model != self.tuned)
        return sorted(by_role, key=lambda style: order.index(style.role) if style.role in order else len(order))

    @cached_property
    def both(self) -> bool:
        """Whether there are encoders and decoders."""
        return ENCODER in self.roles and DECODER in self.roles

    def role_side(self, role: str) -> Side:
        """Return the models of a role as one side."""
        styles = self.roles[role]
        if len(styles) == 1:
            return Side.of(styles[0])
        style = replace(styles[0], model=MEANS.get(role, role))
        return Side(f"{len(styles)} {role}s", tuple(style.model for style in styles), role, style)

    @cached_property
    def columns(self) -> tuple[Side, ...]:
        """The columns of the table: the mean of a role of three models or more, else its models."""
        columns: list[Side] = []
        for role, styles in self.roles.items():
            as_one = len(styles) >= FEWEST_MODELS if self.both else len(styles) > MOST_COLUMNS
            columns += [self.role_side(role)] if as_one else map(Side.of, styles)
        return tuple(columns)

    @cached_property
    def sides(self) -> tuple[Side, Side] | tuple[()]:
        """The two sides that are compared, a base last; none of a single model, or of several of one role."""
        if self.both:
            return self.role_side(ENCODER), self.role_side(DECODER)
        return (Side.of(self.styles_by_role[0]), Side.of(self.styles_by_role[1])) if len(self.styles) == 2 else ()

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

    def paired(self, name: str, corpus: str, view: str, of: Side, other: Side) -> Profile | None:
        """Return the differences of a model and its base, paired over texts; None unless all their layers have one."""
        pair = self._paired.get((name, corpus, view, self.tuned or ""))
        a, b = (self.profile(name, corpus, view, side) for side in (of, other))
        if pair is None or a is None or b is None or a.layers != b.layers or not set(a.layers) <= set(pair.layers):
            return None
        if a.layers:
            pair = pair.part([pair.layers.index(layer) for layer in a.layers])
        if of.name == self.tuned:
            return pair
        return replace(pair, values=-pair.values, low=-pair.high, high=-pair.low)

    def difference(self, name: str, corpus: str, view: str, of: Side, other: Side) -> Number:
        """Return the difference of the means over layers, paired over texts where that is known."""
        pair = self.paired(name, corpus, view, of, other)
        if pair is not None:
            return pair.mean
        return self.number(name, corpus, view, of).minus(self.number(name, corpus, view, other))

    def effect(self, name: str, corpus: str, view: str) -> float:
        """Return the standardised difference: the mean over depth of the difference as a share of the range."""
        if not self.comparable(name):
            return 0.0
        sides = self.sides or tuple(map(Side.of, self.styles))
        profiles = [p for side in sides if (p := self.profile(name, corpus, view, side)) is not None]
        if len(profiles) < 2:
            return 0.0
        if not self.sides:  # several models of one role: the two that are furthest apart
            profiles.sort(key=lambda profile: float(profile.values.mean()))
        return float(effects(self.known[name], *at_common_depths(profiles[0], profiles[-1])).mean())


def effects(statistic: Statistic, a: Profile, b: Profile) -> Array:
    """Return the difference of two profiles at each point as a share of the statistic's range."""
    pairs = zip(a.values.tolist(), b.values.tolist(), strict=True)
    return np.array([share_of_range(statistic, first - second, first, second) for first, second in pairs])


def _mean_of(numbers: Sequence[Number]) -> Number:
    if len(numbers) == 1:
        return numbers[0]
    if len(numbers) >= FEWEST_MODELS:
        return Number(*student_interval(np.array([number.value for number in numbers])), df=len(numbers) - 1)
    value, low, high = np.mean([(number.value, number.low, number.high) for number in numbers], axis=0).tolist()
    return Number(value, low, high, min(number.df for number in numbers))


def _together(profiles: Sequence[Profile]) -> Profile:
    """Return the mean profile of several models at common depths, with its interval at each."""
    if np.isnan(profiles[0].x).any():
        x = profiles[0].x[:1]
    else:
        first, last = max(p.x[0] for p in profiles), min(p.x[-1] for p in profiles)
        x = np.linspace(first, last, min(len(p.x) for p in profiles))
    moved = [p.at(x) if len(p.x) > 1 else p for p in profiles]
    numbers = [_mean_of([p.number(index) for p in moved]) for index in range(len(x))]
    values, low, high = np.array([(number.value, number.low, number.high) for number in numbers]).T
    return Profile(x, values, low, high, df=numbers[0].df)


def at_common_depths(a: Profile, b: Profile) -> tuple[Profile, Profile]:
    """Return two profiles at the depths of the first one that both have."""
    if len(a.x) < 2 or len(b.x) < 2 or np.isnan(a.x).any() or np.isnan(b.x).any():
        return a, b
    a = a.part((a.x >= b.x[0] - 1e-9) & (a.x <= b.x[-1] + 1e-9))
    return a, b.at(a.x)
