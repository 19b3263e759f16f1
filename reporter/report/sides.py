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
from math import inf, isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reporter.charts.chart import Read, filled
from reporter.charts.styles import DECODER, ENCODER, MEANS, ModelStyle
from reporter.core.numbers import estimate
from reporter.core.table import FREE, LAST_CHECKPOINT
from reporter.judge.contrasts import contrast, mean_over
from reporter.judge.estimates import FEWEST_MODELS, Array, Estimates, measured
from reporter.judge.kinship import Origins
from reporter.judge.outcomes import LEVEL
from reporter.judge.questions.subjects import share_of_range
from reporter.store.rows import spec_of

if TYPE_CHECKING:
    from reporter.metrics.base import Statistic
    from reporter.report.contents import Contents

MOST_COLUMNS = 6
"""More models of one role are shown as their mean."""
PAIR = ("words", "no-sinks")
"""The views that stand beside each other where a study has both; otherwise its first two."""
PROFILES = f"""
SELECT full_name, corpus, view, model, layer, depth, value, ci_low, ci_high, first, last
FROM (
  SELECT *, metric || '.' || statistic AS full_name, min(depth) OVER profile AS first, max(depth) OVER profile AS last
  FROM layer_metrics
  WHERE study = $study AND list_contains(string_split($statistics, ' '), full_name) AND value IS NOT NULL
    AND (site IS NULL OR site IN ('embedding', 'block')) AND {LAST_CHECKPOINT}
    AND model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
  WINDOW profile AS (PARTITION BY full_name, corpus, view, model)
) WHERE {FREE}
ORDER BY full_name, corpus, view, model, layer
"""
PARTS = f"""
SELECT metric || '.' || statistic AS full_name, corpus, view, model, layer, scale, parts
FROM text_parts
WHERE study = $study AND list_contains(string_split($statistics, ' '), metric || '.' || statistic)
  AND {LAST_CHECKPOINT}
"""


@dataclass(frozen=True)
class Number:
    """A number with its 95 % interval; NaN where there is none. It may be a mean over several models."""

    of: Estimates | None = None
    models: int = 1

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
        (low,), (high,) = ((nan,), (nan,)) if self.of is None else self.of.interval()
        return (float(low), float(high)) if np.isfinite([low, high]).all() else (nan, nan)

    @property
    def text(self) -> str:
        """The number and its interval as a page shows them."""
        return estimate(self.value, self.low, self.high)

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
class Curve:
    """A statistic of a model, or of the models of a side together, over relative depth.

    Args:
        x: the depths; NaN of a number of the whole model.
        numbers: at these depths, P = K.
        layers: of a single model, else empty.
        blocks: of a single model.
        each: of several models each one's, at the same depths.
        span: the first and the last depth at which it has a number, those that a definition fixes among them.
    """

    x: Array
    numbers: Estimates
    layers: tuple[int, ...] = ()
    blocks: int = 0
    each: tuple[tuple[str, Curve], ...] = ()
    span: tuple[float, float] = (-inf, inf)

    @property
    def values(self) -> Array:
        """The numbers alone."""
        return self.numbers.value

    @property
    def widths(self) -> Array:
        """How wide the intervals are; infinite where there is none."""
        low, high = self.numbers.interval()
        return np.asarray(high - low)

    def mean(self, points: Sequence[int] | slice = slice(None)) -> Estimates:
        """Return the mean over its points, or over some of them."""
        weights = np.zeros((1, len(self.x)))
        weights[:, points] = 1.0
        return self.numbers.weighted(weights / weights.sum())

    def at(self, x: Array) -> Curve:
        """Return it at other depths, by linear interpolation."""
        weights = np.array([np.interp(x, self.x, unit) for unit in np.eye(len(self.x))]).T
        each = tuple((model, curve.at(x)) for model, curve in self.each)
        return Curve(x, self.numbers.weighted(weights), each=each)

    def some(self, points: Sequence[int] | NDArray[np.bool_]) -> Curve:
        """Return some of its points."""
        places = np.arange(len(self.x))[points].tolist()
        layers = tuple(self.layers[place] for place in places) if self.layers else ()
        each = tuple((model, curve.some(points)) for model, curve in self.each)
        return replace(self, x=self.x[places], numbers=self.numbers.some(places), layers=layers, each=each)


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
        self.fixed = spec_of(contents.study.get("spec")).get("texts") == "fixed"
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
        rows, of_texts = (read(filled(sql, study=study, statistics=" ".join(self.known))) for sql in (PROFILES, PARTS))
        keys = ["full_name", "corpus", "view", "model"]
        parts: dict[tuple[Any, ...], dict[int, Array]] = {}
        of_numbers: list[dict[Any, Any]] = [] if self.fixed else of_texts.to_dict("records")
        for row in of_numbers:
            of = parts.setdefault(tuple(row[name] for name in keys), {})
            of[int(row["layer"])] = row["scale"] * np.array(row["parts"], dtype=float)
        named = ("layer", "depth", "value", "ci_low", "ci_high", "first", "last")
        columns = {name: rows[name].to_numpy(float) for name in named}
        curves = {}
        groups: Mapping[Any, Any] = rows.groupby(keys, sort=False).indices if len(rows) else {}
        for key, index in groups.items():
            name, corpus, _, model = key
            layers, x, values, low, high, first, last = (column[index] for column in columns.values())
            known = tuple(map(int, layers)) if not np.isnan(layers).any() else ()
            found = [parts.get(key, {}).get(layer) for layer in known]
            kept = [part for part in found if part is not None]
            ends = [
                (None, None) if isnan(a) or isnan(b) else (a, b)
                for a, b in zip(low.tolist(), high.tolist(), strict=True)
            ]
            paired = np.stack(kept) if known and len(kept) == len(known) else None
            numbers = measured(values, ends, paired, self.units.get(corpus), self.known[name].bounds, self.fixed)
            span = (float(first[0]), float(last[0]))
            curves[key] = Curve(x, numbers, known, self.blocks.get(model, 0), span=span)
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
        profiles = [curve for _, curve in curves]
        x = profiles[0].x[:1]
        if not np.isnan(x).any():
            first, last = max(p.x[0] for p in profiles), min(p.x[-1] for p in profiles)
            x = np.linspace(first, last, min(len(p.x) for p in profiles))
        each = tuple((model, curve.at(x) if len(curve.x) > 1 else curve) for model, curve in curves)
        span = max(curve.span[0] for curve in profiles), min(curve.span[1] for curve in profiles)
        return Curve(x, self._mean({model: curve.numbers for model, curve in each}), each=each, span=span)

    def _mean(self, numbers: Mapping[str, Estimates]) -> Estimates:
        """Return the means over independent models of P numbers."""
        return mean_over(self.origins, numbers)

    def number(self, name: str, corpus: str, view: str, side: Side) -> Number:
        """Return the mean over layers of a side, without a layer that the side it is compared with lacks."""
        if (common := self.lacking(name, corpus, view)) is not None and side in self.sides:
            curve = common[self.sides.index(side)]
            each = {model: own.mean() for model, own in curve.each or ((side.name, curve),)}
            return Number(self._mean(each) if len(each) > 1 else curve.mean(), len(each))
        found = {model: self._curves.get((name, corpus, view, model)) for model in side.models}
        means = {model: curve.mean() for model, curve in found.items() if curve is not None}
        mean = self._mean(means) if len(means) > 1 else next(iter(means.values()), None)
        return Number(mean, max(1, len(means)))

    def lacking(self, name: str, corpus: str, view: str) -> tuple[Curve, Curve] | None:
        """Return the curves of both sides over their common layers; None where neither lacks one of the other's."""
        if not self.sides:
            return None
        a, b = (self.curve(name, corpus, view, side) for side in self.sides)
        if a is None or b is None:
            return None
        common = in_common(a, b)
        return common if sum(len(c.x) for c in common) < len(a.x) + len(b.x) else None

    def gap(self, here: Curve, there: Curve, of: Side, other: Side, points: Sequence[int] | slice) -> Number:
        """Return the difference of two sides, as the mean over some common points of theirs."""
        a, b = (
            {model: curve.mean(points) for model, curve in side.each or ((of_side.models[0], side),)}
            for side, of_side in ((here, of), (there, other))
        )
        return Number(contrast(self.origins, a, b))

    def difference(self, name: str, corpus: str, view: str, of: Side, other: Side) -> Number:
        """Return the difference of the means over layers; a layer that one side lacks is left out on both."""
        a, b = (self.curve(name, corpus, view, side) for side in (of, other))
        if a is None or b is None:
            return Number()
        return self.gap(*in_common(a, b), of, other, slice(None))

    def change(self, name: str, corpus: str, views: Sequence[str], side: Side) -> Number:
        """Return the mean over layers of a side under one token set minus that under another."""
        a, b = (self.curve(name, corpus, view, side) for view in views)
        return Number() if a is None or b is None else self.gap(*in_common(a, b), side, side, slice(None))

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


def in_common(a: Curve, b: Curve) -> tuple[Curve, Curve]:
    """Return two curves without the layers that the other one lacks: an end of the depths, or a layer of both."""
    if a.layers and b.layers and a.blocks == b.blocks:
        shared = set(a.layers) & set(b.layers)
        return (
            a.some([a.layers.index(layer) for layer in a.layers if layer in shared]),
            b.some([b.layers.index(layer) for layer in b.layers if layer in shared]),
        )
    if np.isnan(a.x).any() or np.isnan(b.x).any():
        return a, b
    low, high = max(a.span[0], b.span[0]) - 1e-9, min(a.span[1], b.span[1]) + 1e-9
    return a.some((a.x >= low) & (a.x <= high)), b.some((b.x >= low) & (b.x <= high))


def at_common_depths(a: Curve, b: Curve) -> tuple[Curve, Curve]:
    """Return two curves at the depths of the first one that both have."""
    if len(a.x) < 2 or len(b.x) < 2 or np.isnan(a.x).any() or np.isnan(b.x).any():
        return a, b
    a = a.some((a.x >= b.x[0] - 1e-9) & (a.x <= b.x[-1] + 1e-9))
    return a, b.at(a.x)
