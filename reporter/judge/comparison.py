"""The comparison of a study, which the run computes once and stores in the table ``comparisons``.

Two *sides* are compared: encoders and decoders where a study has both, else two models. A side is a model, or the
models of a role. A mean over layers is the plain mean over the embedding and the blocks, without the layers whose value
a definition fixes. Intervals and differences are those of :mod:`reporter.judge.contrasts`, as claims have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np

from reporter.core.json_text import stored_json
from reporter.core.places import TEXT_TOKENS, TOKEN_SETS, WITHOUT_SINKS
from reporter.core.table import FREE, LAST_CHECKPOINT
from reporter.judge.contrasts import Group, contrast, mean_over
from reporter.judge.estimates import Array, Estimates, bounds_of_difference, clipped
from reporter.judge.facts import declared
from reporter.judge.kinship import Kinship, Origins
from reporter.judge.outcomes import LEVEL
from reporter.judge.points import around
from reporter.judge.profiles import Profile, in_common, mean_profile, means_in_common, read_profiles
from reporter.judge.questions.subjects import share_of_range
from reporter.judge.sides import Side, Sides
from reporter.metrics.base import Statistic
from reporter.store import Store
from reporter.store.rows import in_order, order_of
from reporter.store.schema import Comparison
from reporter.study.models import ModelSpec

Row = dict[str, Any]

PAIR = (TEXT_TOKENS, WITHOUT_SINKS)
"""The views that stand beside each other where a study has both; otherwise its first two."""
LARGE = 0.8
"""A region has the layers with at least this share of the largest standardised difference."""
TOLD = 0.4
"""A region has at least this share of all the differences; else there is none, and the mean over layers counts."""
EVERYWHERE = 0.75
"""A difference in more than this share of the layers is one of the mean over layers."""
PROFILES = f"""
SELECT model, checkpoint, corpus, view, metric, statistic, site, layer, depth, value, ci_low, ci_high,
       NOT ({FREE}) AS fixed
FROM layer_metrics
WHERE study = $study AND list_contains($statistics, metric || '.' || statistic)
  AND value IS NOT NULL AND (site IS NULL OR site IN ('embedding', 'block')) AND {LAST_CHECKPOINT}
  AND model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
ORDER BY metric, statistic, corpus, view, model, layer
"""


@dataclass(frozen=True, eq=False)
class Comparing:
    """What the comparison of a study is computed from.

    Args:
        sides: of the study.
        origins: where the models come from.
        statistics: the main ones, by full name.
        views: all token sets.
        profiles: by full name, corpus, token set and model.
    """

    sides: Sides
    origins: Origins
    statistics: Mapping[str, Statistic]
    views: Sequence[str]
    profiles: Mapping[tuple[str, str, str, str], Profile]

    @property
    def compared(self) -> tuple[str, ...]:
        """The token sets whose layers are compared."""
        return compared_views(self.views)

    @cached_property
    def curve(self) -> Callable[[str, str, str, Side], Profile | None]:
        """Returns a statistic of a side over depth, by its name, corpus and token set."""
        return cache(self._curve)

    @cached_property
    def tests(self) -> Callable[[str], int]:
        """Returns how many comparisons are made on a corpus."""
        return cache(self._tests)

    @cached_property
    def count(self) -> Callable[[tuple[str, ...]], int]:
        """Returns how many independent models some models are."""
        return cache(lambda models: len(Kinship.of(self.origins, models).units))

    def rows(self, corpus: str) -> list[Row]:
        """Return the numbers of all sides on a corpus, and their differences, as rows of ``comparisons``."""
        rows = {}
        for name, view in product(self.statistics, self.views):
            metric, _, statistic = name.partition(".")
            key = {"corpus": corpus, "view": view, "metric": metric, "statistic": statistic}
            for row in (*self._numbers(name, corpus, view), *self._differences(name, corpus, view)):
                bounds = self.statistics[name].bounds
                bounds = bounds if row.get("minus") is None else bounds_of_difference(bounds)
                low, high = clipped((row["ci_low"], row["ci_high"]), bounds)
                whole = key | {"common": False, "models": 1} | row | {"ci_low": low, "ci_high": high}
                rows[tuple(whole.get(column) for column in Comparison.table.key)] = whole
        return list(rows.values())

    def _curve(self, name: str, corpus: str, view: str, side: Side) -> Profile | None:
        """Return a statistic of a side over depth; None where a model lacks it."""
        curves = [p for model in side.models if (p := self.profiles.get((name, corpus, view, model)))]
        if len(curves) < len(side.models):
            return None
        if len(curves) == 1:
            return curves[0]
        return replace(mean_profile(self.origins, curves), labels=())

    def _tests(self, corpus: str) -> int:
        """Return how many comparisons are made on a corpus: of statistics, token sets, layers, pairs of models."""
        models, pair = len(self.sides.roles), self.sides.pair
        sides = pair or tuple(self.sides.each.values())[:1]
        names = [name for name, statistic in self.statistics.items() if self.sides.comparable(statistic)]
        points = [
            max((len(curve.x) for side in sides if (curve := self.curve(name, corpus, view, side))), default=0)
            for name, view in product(names, self.compared)
        ]
        if pair or models == 1:
            return max(1, sum(count + 1 for count in points if count))
        return max(1, sum(map(bool, points)) * models * (models - 1) // 2)

    def _numbers(self, name: str, corpus: str, view: str) -> Iterator[Row]:
        """Yield the mean over layers of each side, and the number at each layer of those that a table shows."""
        compared, common = self._means(name, corpus, view, self.sides.pair)
        both = dict(zip(self.sides.pair, compared, strict=True)) if common else {}
        for side in dict.fromkeys((*self.sides.each.values(), *self.sides.columns, *self.sides.pair)):
            own = ((model, self.profiles.get((name, corpus, view, model))) for model in side.models)
            means = both[side] if side in both else {model: profile.mean for model, profile in own if profile}
            if means:
                mean = mean_over(self.origins, means)
                yield _row(mean, side, span="mean", models=self.count(tuple(means)), common=side in both)
        for side in dict.fromkeys((*self.sides.columns, *self.sides.pair)):
            if curve := self.curve(name, corpus, view, side):
                yield from _at_layers(curve, side, self.count(side.models))

    def _means(
        self, name: str, corpus: str, view: str, sides: Sequence[Side]
    ) -> tuple[list[dict[str, Estimates]], bool]:
        """Return the mean over layers of each model of some sides, and whether a model lacks layers of another one.

        Means are over the layers that all of them have, as in claims; there are none where a model has no numbers.
        """
        found = [{m: self.profiles.get((name, corpus, view, m)) for m in side.models} for side in sides]
        known = [{m: [profile] for m, profile in side.items() if profile is not None} for side in found]
        if not sides or list(map(len, known)) != [len(side.models) for side in sides]:
            return [], False
        means, notes = means_in_common(known)
        return means, bool(notes)

    def _differences(self, name: str, corpus: str, view: str) -> Iterator[Row]:
        """Yield how two sides differ in the mean over layers, at layers, in a region, and without sinks.

        Of a single model, yield how its highest layer differs from its lowest one.
        """
        statistic, sides = self.statistics[name], self.sides
        found = [(side, self.curve(name, corpus, view, side)) for side in sides.pair or sides.each.values()]
        curves = [(side, curve) for side, curve in found if curve is not None]
        if len(sides.roles) == 1 and curves and view == self.compared[-1]:
            yield from self._extremes(statistic, corpus, *curves[0])
        if len(curves) < 2 or not sides.comparable(statistic):
            return
        if not sides.pair:
            curves.sort(key=lambda pair: -float(pair[1].values.mean()))
        (of, a), (minus, b) = curves[0], curves[-1]
        swapped = np.ptp(a.values) < np.ptp(b.values)  # layers are those of the side that changes more over depth
        here, there = at_common_depths(*((b, a) if swapped else (a, b)))
        sizes = effects(statistic, here, there)
        typical = float(effects(statistic, *at_common_depths(a, b)).mean())
        means, common = self._means(name, corpus, view, (of, minus))
        yield self._gap(corpus, (of, minus), means, span="mean", effect=typical, common=common)
        if not sides.pair or view not in self.compared:
            return
        of, minus, other = (minus, of, a) if swapped else (of, minus, b)
        between = [i for i, x in enumerate(there.x) if np.abs(other.x - x).min() > 1e-9]
        yield from _at_layers(there, minus, self.count(minus.models), between)
        layers = [
            self._difference(corpus, (of, minus), (here, there), [index], effect=float(sizes[index]))
            for index in range(len(here.x) if len(here.x) > 1 else 0)
        ]
        yield from layers
        if region := region_of(layers, sizes):
            told = float(sizes[region].sum() / len(sizes))
            yield self._difference(corpus, (of, minus), (here, there), region, span="region", effect=told)
        if view == PAIR[0] and self.compared == PAIR:
            yield from self._without_sinks(name, corpus, (of, minus), (here, there), region)

    def _without_sinks(
        self, name: str, corpus: str, sides: tuple[Side, Side], before: tuple[Profile, Profile], region: list[int]
    ) -> Iterator[Row]:
        """Yield what is left of a difference without sinks, and how each side changes, in a region or on average."""
        a, b = (self.curve(name, corpus, PAIR[1], side) for side in sides)
        if a is None or b is None:
            return
        if not region:
            for side, without in zip(sides, (a, b), strict=True):
                with_sinks = self.curve(name, corpus, PAIR[0], side)
                assert with_sinks is not None
                both = in_common([with_sinks, without])[0]
                yield self._difference(corpus, (side, side), both, span="mean", minus_view=PAIR[1])
            return
        after = at_common_depths(a, b)
        if after[0].labels != before[0].labels or len(after[0].x) != len(before[0].x):
            return
        yield self._difference(corpus, sides, after, region, span="region", view=PAIR[1])
        for side, with_sinks, without in zip(sides, before, after, strict=True):
            yield self._difference(
                corpus, (side, side), (with_sinks, without), region, span="region", minus_view=PAIR[1]
            )

    def _difference(
        self, corpus: str, sides: Sequence[Side], curves: Sequence[Profile], points: Sequence[int] = (), **more: Any
    ) -> Row:
        """Return one side minus the other, as the mean over all points of theirs or over some."""
        means = [(curve.some(points) if points else curve).means for curve in curves]
        return self._gap(corpus, sides, means, **(_place(curves[0], points) if points else {}) | more)

    def _gap(self, corpus: str, sides: Sequence[Side], means: Sequence[Mapping[str, Estimates]], **more: Any) -> Row:
        """Return the mean over models of one side minus that of the other, of one number of each model."""
        (of, minus), models = sides, min(self.count(side.models) for side in sides)
        a, b = (Group.of(self.origins, of_models) for of_models in means)
        return _row(contrast(a, b)[0], of, minus, self.tests(corpus), models=models, **more)

    def _extremes(self, statistic: Statistic, corpus: str, side: Side, curve: Profile) -> Iterator[Row]:
        if len(curve.x) > 1 and curve.labels:
            top, bottom = int(curve.values.argmax()), int(curve.values.argmin())
            gap = curve.numbers.weighted(np.eye(len(curve.x))[[top]] - np.eye(len(curve.x))[[bottom]])
            effect = share_of_range(statistic, float(gap.value[0]), curve.values[top], curve.values[bottom])
            place = _place(curve, [top]) | {"minus_layer": curve.labels[bottom], "effect": float(effect)}
            yield _row(gap, side, side, self.tests(corpus), **place)


def compared_views(views: Sequence[str]) -> tuple[str, ...]:
    """Return the token sets that stand beside each other, and whose layers are compared."""
    return PAIR if set(PAIR) <= set(views) else tuple(views[:2])


def _row(number: Estimates, of: Side, minus: Side | None = None, tests: int = 1, **more: Any) -> Row:
    low, high = number.ends()
    row = {"side": of.name, "value": float(number.value[0]), "ci_low": low, "ci_high": high}
    if minus is not None:
        p = float(number.p[0]) if number.known else None
        row |= {"minus": minus.name, "p": p, "p_adjusted": None if p is None else min(1.0, tests * p)}
    return row | more


def _at_layers(curve: Profile, side: Side, models: int, points: Sequence[int] | None = None) -> Iterator[Row]:
    """Yield the number of a side at some layers, or at all; nothing where a number has no layers.

    Args:
        curve: the number over layers.
        side: whose it is.
        models: how many independent models the side has.
        points: places in the curve.
    """
    for index in range(len(curve.x)) if points is None else points:
        if len(curve.x) > 1:
            yield _row(curve.numbers.some([index]), side, **_place(curve, [index]), models=models)


def _place(curve: Profile, points: Sequence[int]) -> Row:
    first, last = points[0], points[-1]
    place: Row = {"span": "layer", "depth_first": float(curve.x[first]), "depth_last": float(curve.x[last])}
    layers = {"layer_first": curve.labels[first], "layer_last": curve.labels[last]} if curve.labels else {}
    return place | layers


def region_of(layers: Sequence[Row], sizes: Array) -> list[int]:
    """Return the neighbouring layers in which two sides differ most, where their difference is no general one.

    Args:
        layers: the difference at each layer.
        sizes: each as a share of the statistic's range.
    """
    if not layers:
        return []
    top = int(sizes.argmax())
    sure = np.array([differs(row) and row["value"] * layers[top]["value"] > 0 for row in layers])
    large = sure & (sizes >= LARGE * sizes[top])
    region = list(around(top, large)) if large[top] else []
    return region if sizes[region].sum() >= TOLD * sizes.sum() and len(region) <= EVERYWHERE * len(sizes) else []


def differs(row: Row) -> bool:
    """Tell whether a difference is significant after the correction for all comparisons."""
    return row["p_adjusted"] is not None and bool(row["p_adjusted"] <= 2 * LEVEL)


def effects(statistic: Statistic, a: Profile, b: Profile) -> Array:
    """Return the difference of two curves at each point as a share of the statistic's range."""
    pairs = zip(a.values.tolist(), b.values.tolist(), strict=True)
    return np.array([share_of_range(statistic, first - second, first, second) for first, second in pairs])


def at_common_depths(a: Profile, b: Profile) -> tuple[Profile, Profile]:
    """Return two curves at the depths of the first one that both have; one of a single number is compared by its mean.

    A number of the whole model has no depth, and a number of blocks of a model with one block has one.
    """
    if len(a.x) < 2 or len(b.x) < 2:
        first, second = (replace(curve, x=np.zeros(1), numbers=curve.mean, labels=()) for curve in (a, b))
        return first, second
    a = a.some(np.flatnonzero((a.x >= b.x[0] - 1e-9) & (a.x <= b.x[-1] + 1e-9)).tolist())
    return a, b.brought_to(a.x)


def write_comparison(store: Store, study: str, specs: Mapping[str, ModelSpec] | None = None) -> None:
    """Compute the comparison of a study from its numbers, and replace the stored one.

    Args:
        store: where the numbers are.
        study: its id.
        specs: the models as the study writes them, which tells what a recipe continues; None where it is not known.
    """
    statistics = {name: statistic for name, (_, statistic) in declared().items() if statistic.main}
    facts = {"study": study}
    written = store.records("SELECT spec, views FROM studies WHERE study = $study", facts)
    order = order_of(written[0]["spec"] if written else None)
    models = store.records("SELECT * FROM models WHERE study = $study ORDER BY model, position", facts)
    own = [row for row in models if row["status"] != "failed" and row["baseline"] is None]
    roles = {row["model"]: row["role"] for row in in_order(own, "model", order["models"])}
    bases = {row["model"]: row["base"] for row in own if row["is_last"]}
    rows = store.records(PROFILES, facts | {"statistics": list(statistics)})
    profiles = {
        (f"{row['metric']}.{row['statistic']}", row["corpus"], row["view"], row["model"]): profile
        for _, (row, *_), profile in read_profiles(
            lambda sql: store.records(sql, facts), rows, statistics, LAST_CHECKPOINT
        )
    }
    stored = {row["view"] for row in rows}
    named = stored_json(written[0]["views"] or "[]") if written else []
    views = [view for view in dict.fromkeys((*named, *TOKEN_SETS, *sorted(stored))) if view in stored]
    comparing = Comparing(Sides.of(roles, bases), Origins(models, specs or {}), statistics, views, profiles)
    corpora = in_order(
        [{"corpus": corpus} for corpus in {row["corpus"]: None for row in rows}], "corpus", order["corpora"]
    )
    store.replace("comparisons", study, [row for of in corpora for row in comparing.rows(of["corpus"])])
