"""The main statistics of a study by side, for its overview.

Two *sides* are compared: encoders and decoders where a study has both, else two models. A side is a model, or the
models of a role. A mean over layers is the plain mean over the embedding and the blocks, without the layers whose value
a definition fixes. Intervals and differences are those of :mod:`reporter.judge.contrasts`, as claims have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from reporter.charts.chart import Read, filled
from reporter.charts.styles import DECODER, ENCODER, MEANS, ModelStyle
from reporter.core.numbers import Measured, estimate
from reporter.core.places import TEXT_TOKENS, WITHOUT_SINKS
from reporter.core.table import FREE, LAST_CHECKPOINT
from reporter.judge.contrasts import contrast, mean_over
from reporter.judge.estimates import FEWEST_MODELS, Array, Estimates
from reporter.judge.kinship import Origins
from reporter.judge.outcomes import LEVEL
from reporter.judge.profiles import Profile, common_depths, in_common, stored_profiles
from reporter.judge.questions.subjects import share_of_range
from reporter.report.tables import rows_of
from reporter.store.rows import spec_of

if TYPE_CHECKING:
    import pandas as pd

    from reporter.metrics.base import Statistic
    from reporter.report.contents import Contents

MOST_COLUMNS = 6
"""More models of one role are shown as their mean."""
FIRST, MOST_ASKED = ("anisotropy", "intrinsic_dimension"), 2
"""Metrics that are said first of a study that measures them, and how many are said whether they differ or not."""
PAIR = (TEXT_TOKENS, WITHOUT_SINKS)
"""The views that stand beside each other where a study has both; otherwise its first two."""
PROFILES = f"""
SELECT model, checkpoint, corpus, view, metric, statistic, site, layer, depth, value, ci_low, ci_high,
       NOT ({FREE}) AS fixed
FROM layer_metrics
WHERE study = $study AND list_contains(string_split($statistics, ' '), metric || '.' || statistic)
  AND value IS NOT NULL AND (site IS NULL OR site IN ('embedding', 'block')) AND {LAST_CHECKPOINT}
  AND model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
ORDER BY metric, statistic, corpus, view, model, layer
"""
PARTS = f"""
SELECT * EXCLUDE (study) FROM text_parts
WHERE study = $study AND list_contains(string_split($statistics, ' '), metric || '.' || statistic)
  AND {LAST_CHECKPOINT}
"""


@dataclass(frozen=True)
class Number:
    """A number with its 95 % interval; NaN where there is none. It may be a mean over several models."""

    of: Estimates | None = None
    models: int = 1
    written: str = ""
    """Its text beside the numbers that it is compared with; empty: as it is written alone."""

    @property
    def value(self) -> float:
        """The number."""
        return nan if self.of is None else float(self.of.value[0])

    @property
    def low(self) -> float:
        """The lower end of its interval."""
        return self._ends[0]

    @property
    def high(self) -> float:
        """The upper end."""
        return self._ends[1]

    @cached_property
    def _ends(self) -> tuple[float, float]:
        low, high = (None, None) if self.of is None else self.of.ends()
        return (nan, nan) if low is None or high is None else (low, high)

    @property
    def text(self) -> str:
        """The number and its interval as a page shows them."""
        return self.written or estimate(*self.measured)

    @property
    def measured(self) -> Measured:
        """The number and the ends of its interval."""
        return self.value, self.low, self.high

    @property
    def parts(self) -> tuple[str, str]:
        """The number, and its interval in brackets; empty where there is none."""
        number, bracket, ends = self.text.partition(" [")
        return number, f"[{ends}" if bracket else ""

    def differs(self, tests: int) -> bool:
        """Tell whether it differs from 0 after the correction for so many tests."""
        if self.of is None or isnan(self.low):
            return False
        return bool(2 * tests * min(self.of.above(0.0)[0], self.of.below(0.0)[0]) <= 2 * LEVEL)


@dataclass(frozen=True)
class Curve(Profile):
    """A statistic of a model, or of the models of a side together, over relative depth.

    Args:
        each: of several models each one's profile, at the same depths.
        blocks: of a single model; 0 where that is not known.
    """

    each: tuple[Profile, ...] = ()
    blocks: int = 0

    @property
    def widths(self) -> Array:
        """How wide the intervals are; infinite where there is none."""
        low, high = self.numbers.interval()
        return np.asarray(high - low)

    def brought_to(self, x: Array) -> Self:
        """Return it at other depths, and so each model's."""
        return replace(super().brought_to(x), each=tuple(profile.brought_to(x) for profile in self.each))

    def some(self, points: Sequence[int]) -> Self:
        """Return some of its points, and the same of each model."""
        return replace(super().some(points), each=tuple(profile.some(points) for profile in self.each))

    @property
    def means(self) -> dict[str, Estimates]:
        """The mean over its points of each model."""
        return {profile.model: profile.mean for profile in self.each or (self,)}


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
        spec = spec_of(contents.study.get("spec"))
        self.fixed, self.metrics = spec.get("texts") == "fixed", _metrics(spec.get("metrics"))
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
        self.origins = Origins(contents.models, {})
        bases = {str(row["model"]): row["base"] for row in contents.models if row["is_last"]}
        pair = {style.model for style in self.styles} if len(self.styles) == 2 else set()
        self.tuned = next((model for model in pair if bases.get(model) in pair - {model}), None)
        self.judged = bool(self.tuned) and any(answer["name"] == "changed" for answer in contents.answers)
        self.sql = filled(PROFILES, study=scene.study, statistics=" ".join(known))
        self._curves = self._read(read, scene.study) if known else {}
        self._of_side: dict[tuple[str, str, str, tuple[str, ...]], Curve | None] = {}

    def _read(self, read: Read, study: str) -> dict[tuple[str, str, str, str], Curve]:
        rows, parts = (
            _records(read(filled(sql, study=study, statistics=" ".join(self.known)))) for sql in (PROFILES, PARTS)
        )
        curves = {}
        for of_profile, profile in stored_profiles(rows, parts, self.units, self.known, self.fixed):
            row = of_profile[0]
            key = (f"{row['metric']}.{row['statistic']}", row["corpus"], row["view"], row["model"])
            curves[key] = Curve(**vars(profile), blocks=self.blocks.get(profile.model, 0))
        return curves

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
    def each(self) -> tuple[Side, ...]:
        """Each model as a side."""
        return tuple(map(Side.of, self.styles))

    @cached_property
    def both(self) -> bool:
        """Whether there are encoders and decoders."""
        return ENCODER in self.roles and DECODER in self.roles

    @cached_property
    def asked(self) -> list[list[str]]:
        """The main statistics of the two metrics that the study names first; anisotropy and dimension before others."""
        by_metric: dict[str, list[str]] = {}
        for name in self.known:
            if self.comparable(name):
                by_metric.setdefault(name.partition(".")[0], []).append(name)
        order = [*(name for name in FIRST if name in self.metrics or not self.metrics), *self.metrics]
        return [by_metric[metric] for metric in dict.fromkeys(order) if metric in by_metric][:MOST_ASKED]

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

    def curve(self, name: str, corpus: str, view: str, side: Side) -> Curve | None:
        """Return a statistic of a side over depth; None where a model lacks it."""
        key = (name, corpus, view, side.models)
        if key not in self._of_side:
            found = [(model, self._curves.get((name, corpus, view, model))) for model in side.models]
            curves = [(model, curve) for model, curve in found if curve is not None]
            complete = len(curves) == len(found)
            self._of_side[key] = (curves[0][1] if len(curves) == 1 else self._together(curves)) if complete else None
        return self._of_side[key]

    def _together(self, curves: Sequence[tuple[str, Curve]]) -> Curve:
        """Return the mean curve of several models at common depths; those that count as one are averaged first."""
        x = common_depths([curve for _, curve in curves])
        each = tuple(curve.brought_to(x) for _, curve in curves)
        numbers = mean_over(self.origins, {curve.model: curve.numbers for curve in each})
        fixed = tuple(end for end in each[0].fixed if all(end[0] in {x for x, *_ in curve.fixed} for curve in each))
        return Curve("", each[0].corpus, x, numbers, (), fixed=fixed, each=each)

    def _number(self, curve: Curve) -> Number:
        """Return the mean over layers of a curve."""
        means = curve.means
        return Number(mean_over(self.origins, means) if len(means) > 1 else curve.mean, len(means))

    def number(self, name: str, corpus: str, view: str, side: Side) -> Number:
        """Return the mean over layers of a side, without a layer that the side it is compared with lacks."""
        if (common := self.lacking(name, corpus, view)) is not None and side in self.sides:
            return self._number(common[self.sides.index(side)])
        curves = {model: self._curves.get((name, corpus, view, model)) for model in side.models}
        means = {model: curve.mean for model, curve in curves.items() if curve is not None}
        mean = mean_over(self.origins, means) if len(means) > 1 else next(iter(means.values()), None)
        return Number(mean, max(1, len(means)))

    def lacking(self, name: str, corpus: str, view: str) -> tuple[Curve, Curve] | None:
        """Return the curves of both sides over their common layers; None where neither lacks one of the other's."""
        if not self.sides:
            return None
        a, b = (self.curve(name, corpus, view, side) for side in self.sides)
        if a is None or b is None:
            return None
        first, second = in_common([a, b])[0]
        return (first, second) if len(first.x) + len(second.x) < len(a.x) + len(b.x) else None

    def gap(self, here: Curve, there: Curve, points: Sequence[int]) -> Number:
        """Return the difference of two sides, as the mean over some common points of theirs."""
        return Number(contrast(self.origins, here.some(points).means, there.some(points).means))

    def _mean_gap(self, a: Curve | None, b: Curve | None) -> Number:
        if a is None or b is None:
            return Number()
        here, there = in_common([a, b])[0]
        return Number(contrast(self.origins, here.means, there.means))

    def difference(self, name: str, corpus: str, view: str, of: Side, other: Side) -> Number:
        """Return the difference of the means over layers; a layer that one side lacks is left out on both."""
        return self._mean_gap(*(self.curve(name, corpus, view, side) for side in (of, other)))

    def change(self, name: str, corpus: str, views: Sequence[str], side: Side) -> Number:
        """Return the mean over layers of a side under one token set minus that under another."""
        return self._mean_gap(*(self.curve(name, corpus, view, side) for view in views))

    def effect(self, name: str, corpus: str, view: str) -> float:
        """Return the standardised difference: the mean over depth of the difference as a share of the range."""
        if not self.comparable(name):
            return 0.0
        sides = self.sides or tuple(map(Side.of, self.styles))
        profiles = [p for side in sides if (p := self.curve(name, corpus, view, side)) is not None]
        if len(profiles) < 2:
            return 0.0
        if not self.sides:  # several models of one role: the two that are furthest apart
            profiles.sort(key=lambda profile: float(profile.values.mean()))
        return float(effects(self.known[name], *at_common_depths(profiles[0], profiles[-1])).mean())


def effects(statistic: Statistic, a: Curve, b: Curve) -> Array:
    """Return the difference of two curves at each point as a share of the statistic's range."""
    pairs = zip(a.values.tolist(), b.values.tolist(), strict=True)
    return np.array([share_of_range(statistic, first - second, first, second) for first, second in pairs])


def at_common_depths(a: Curve, b: Curve) -> tuple[Curve, Curve]:
    """Return two curves at the depths of the first one that both have."""
    if len(a.x) < 2 or len(b.x) < 2:
        return a, b
    a = a.some(np.flatnonzero((a.x >= b.x[0] - 1e-9) & (a.x <= b.x[-1] + 1e-9)).tolist())
    return a, b.brought_to(a.x)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a query, with None for NULL and whole numbers of layers."""
    return [row | {"layer": None if row["layer"] is None else int(row["layer"])} for row in rows_of(frame)]


def _metrics(value: Any) -> list[str]:
    """Return the metrics that a study names, in its order; none where it names all."""
    names = [str(next(iter(part), "")) if isinstance(part, dict) else str(part) for part in value or ()]
    return [] if not isinstance(value, list | tuple) or "all" in names else names
