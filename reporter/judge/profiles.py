"""Profiles: a statistic of one model on one corpus over its layers, or over its training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from reporter.core.places import ranges
from reporter.judge.contrasts import mean_over, over_corpora
from reporter.judge.estimates import Array, Estimates, measured, stacked
from reporter.judge.facts import CORPUS_SIZES, bounds_in
from reporter.judge.kinship import Origins
from reporter.judge.numbers import PATH, MetricRow, Missing, Numbers, at_layer
from reporter.judge.points import Points
from reporter.metrics.base import Statistic
from reporter.store.rows import texts_are_fixed

PROFILE = ("model", "checkpoint", "corpus", "view", "metric", "statistic")
"""Columns of ``layer_metrics`` that a profile has once."""

Row = dict[str, Any]
Read = Callable[[str], list[Row]]
"""Returns the rows of a query."""
Fixed = tuple[tuple[float, int, float], ...]
"""Points that have their value by definition, as (depth, layer, value)."""


def by_definition(full_name: str, layer: int, model: str, value: float) -> str:
    """Say that a number is fixed by definition."""
    return f"{full_name} is {value:g} at layer {layer} of {model} by definition, which says nothing about the model"


@dataclass(frozen=True)
class Profile:
    """Numbers along an axis.

    Args:
        model: the model.
        corpus: the corpus.
        x: depths or training steps, shape (K,).
        numbers: P = K, with errors over texts.
        labels: what the points are, for evidence: layers or steps.
        notes: what a reader must know.
        fixed: where points were left out because their value is fixed by definition, as (x, layer, value).
        each: of a mean over several models each one's profile, at the same places.
    """

    model: str
    corpus: str
    x: Array
    numbers: Estimates
    labels: tuple[int, ...]
    notes: tuple[str, ...] = ()
    fixed: Fixed = ()
    each: tuple[Profile, ...] = ()

    @property
    def values(self) -> Array:
        """The values alone, shape (K,)."""
        return self.numbers.value

    @property
    def known(self) -> bool:
        """Whether the errors of all points are known."""
        return self.numbers.known

    @property
    def mean(self) -> Estimates:
        """The mean over its points, P = 1; without parts its error is the mean of theirs, which overstates it."""
        return self.numbers.weighted(np.full((1, len(self.x)), 1 / len(self.x)))

    def at(self, x: Array) -> Estimates:
        """Return the numbers at other places, by linear interpolation."""
        if np.array_equal(x, self.x):
            return self.numbers
        return self.numbers.weighted(np.array([np.interp(x, self.x, unit) for unit in np.eye(len(self.x))]).T)

    @property
    def means(self) -> dict[str, Estimates]:
        """The mean over its points of each model."""
        return {profile.model: profile.mean for profile in self.each or (self,)}

    def brought_to(self, x: Array) -> Profile:
        """Return it at other places, which have no labels."""
        if np.array_equal(x, self.x):
            return self
        return replace(
            self, x=x, numbers=self.at(x), labels=(), each=tuple(profile.brought_to(x) for profile in self.each)
        )

    def some(self, points: Sequence[int]) -> Profile:
        """Return some of its points."""
        places, each = list(points), tuple(profile.some(points) for profile in self.each)
        labels = tuple(self.labels[place] for place in places) if self.labels else ()
        return replace(self, x=self.x[places], numbers=self.numbers.some(places), labels=labels, each=each)

    def names(self, training: bool, step: bool) -> tuple[tuple[str, ...], str]:
        """Return what readers call its points, and what these are: training steps, layers or blocks.

        Args:
            training: whether it runs over training.
            step: whether its numbers are of steps from one layer to the next, which readers know as blocks.
        """
        blocks = step and not training
        names = tuple(str(label + blocks) for label in self.labels)
        return names, "step" if training else "block" if blocks else "layer"


def read_profiles(
    read: Read, rows: Iterable[Row], statistics: Mapping[str, Statistic], which: str = "true"
) -> Iterator[tuple[tuple[Any, ...], list[Row], Profile]]:
    """Yield profiles with what they are of (``PROFILE`` and the site) and their rows of ``layer_metrics``.

    The embedding and the blocks are one profile (``block``); so is each further site, and so are numbers of the whole
    model.

    Args:
        read: returns the rows of a query on the study.
        rows: in the order of ``PROFILE``, of sites and of layers, without NULL; those that a definition fixes have
            ``fixed``.
        statistics: by full name.
        which: a condition on the parts of texts that the profiles need.
    """
    fixed = any(texts_are_fixed(row["spec"]) for row in read("SELECT spec FROM studies WHERE study = $study"))
    units = {row["corpus"]: int(row["texts"]) for row in read(CORPUS_SIZES)}
    parts = f"SELECT {', '.join(PROFILE)}, layer, scale, parts FROM text_parts WHERE study = $study AND {which}"
    of_layers = {
        (*(row[name] for name in PROFILE), row["layer"]): row["scale"] * np.array(row["parts"], dtype=float)
        for row in ([] if fixed else read(parts))
    }

    def key(row: Row) -> tuple[Any, ...]:
        return (*(row[name] for name in PROFILE), "block" if row["site"] in PATH else row["site"])

    for (*profile, site), grouped in groupby(rows, key=key):
        every, has_parts = list(grouped), site in (None, "block")
        free = [row for row in every if not row.get("fixed")]
        if not free:
            continue
        numbers = measured(
            np.array([row["value"] for row in free]),
            [(row["ci_low"], row["ci_high"]) for row in free],
            [of_layers.get((*profile, row["layer"] or 0)) for row in free] if has_parts else (),
            units.get(free[0]["corpus"]),
            bounds_in(statistics, ".".join(profile[-2:])),
            fixed,
        )
        x = np.array([row["depth"] or 0.0 for row in free])
        layers = () if free[0]["layer"] is None else tuple(row["layer"] for row in free)
        ends = tuple((row["depth"] or 0.0, row["layer"], row["value"]) for row in every if row.get("fixed"))
        yield (*profile, site), free, Profile(free[0]["model"], free[0]["corpus"], x, numbers, layers, fixed=ends)


@dataclass(frozen=True)
class Profiles:
    """The choice of numbers that profiles are made of.

    Args:
        numbers: the study's numbers.
        full_name: the statistic.
        view: the view.
        site: where states are read; None for the embedding and the blocks.
        checkpoint: name of a checkpoint; None for the last one.
        step: training step of a checkpoint.
        layer: over training: a layer; None for the mean over layers.
    """

    numbers: Numbers
    full_name: str
    view: str
    site: str | None = None
    checkpoint: str | None = None
    step: int | None = None
    layer: int | str | None = None

    def over_depth(self, model: str, corpus: str) -> Profile:
        """Return the numbers of a model along its layers, without those that have their value by definition.

        Raises:
            Missing: there are none, or one is NULL (but for the embedding, which is left out then).
        """
        return self.last(model, corpus, whole=False)

    def over_training(self, model: str, corpus: str) -> Profile:
        """Return the numbers of a model by training step, at a layer or as means over layers.

        Raises:
            Missing: there are fewer than two checkpoints with a known step, or a number is NULL.
        """
        rows = [row for row in self._of(corpus) if row.model == model]
        if not rows:
            raise Missing(f"there are no numbers of {model}: {self.numbers.reasons.why_failed(model)}")
        checkpoints: dict[str, list[MetricRow]] = defaultdict(list)
        for row in rows:
            checkpoints[row.checkpoint].append(row)
        groups = [group for group in checkpoints.values() if group[0].step is not None]
        unknown = [f"'{name}'" for name, group in checkpoints.items() if group[0].step is None]
        if len(groups) < 2:
            count = f"{len(groups)} checkpoint{'s' * (len(groups) != 1)} with a known training step"
            raise Missing(f"{model} has {count}; at least 2 are needed")
        groups.sort(key=lambda group: group[0].step or 0)
        steps = [group[0].step or 0 for group in groups]
        of_steps = [self.one(group, model, corpus) for group in groups]
        notes = tuple(dict.fromkeys(note for profile in of_steps for note in profile.notes))
        if unknown:
            notes += (f"checkpoint {', '.join(unknown)} is left out, because its training step is unknown",)
        means = stacked([profile.mean for profile in of_steps]).transposed
        return Profile(model, corpus, np.array(steps, dtype=float), means, tuple(steps), notes)

    def last(self, model: str, corpus: str, whole: bool = True) -> Profile:
        """Return the points that one number of a model is the mean of: a layer, or all layers."""
        return self.one(self.numbers.pick(self._of(corpus), model, self.checkpoint, self.step), model, corpus, whole)

    def one(self, rows: Sequence[MetricRow], model: str, corpus: str, whole: bool = True) -> Profile:
        """Return the points of one checkpoint: a layer, or all layers that are not fixed by definition.

        ``whole`` tells whether it may be a number of the whole model.

        Raises:
            Missing: there is none, or the layer's value is fixed by definition.
        """
        at_place = at_layer(rows, self.layer, self.site)
        if rows and self.layer is not None and at_place and at_place[0].layer is None:
            raise Missing(f"{self.full_name} is one number for the whole model, without layers")
        if self.layer is not None and not at_place:
            raise Missing(f"{model} has no numbers of {self.full_name} at layer {self.layer}")
        on_path = self.site in (None, "block")
        if self.layer is not None and on_path and at_place[0].by_definition:
            said = by_definition(self.full_name, at_place[0].layer or 0, model, at_place[0].value or 0.0)
            raise Missing(f"{said}; name another layer")
        fixed = [row for row in at_place if on_path and row.by_definition]
        profile = self._along([row for row in at_place if row not in fixed], model, corpus, whole)
        notes = [
            f"layer {row.layer} of {model} is left out: {self.full_name} is {row.value or 0.0:g} there by definition"
            for row in fixed
        ]
        ends = tuple((row.depth or 0.0, row.layer or 0, row.value or 0.0) for row in fixed)
        return replace(profile, fixed=ends, notes=(*profile.notes, *notes))

    def _of(self, corpus: str) -> list[MetricRow]:
        rows = [row for row in self.numbers.rows(self.full_name, self.view) if row.corpus == corpus]
        if not rows:
            raise Missing(f"there are no numbers of {self.full_name} on corpus '{corpus}' for token set '{self.view}'")
        return rows

    def _along(self, rows: Sequence[MetricRow], model: str, corpus: str, whole: bool) -> Profile:
        if not rows:
            where = "its layers" if self.site is None else f"site '{self.site}'"
            raise Missing(f"{model} has no numbers of {self.full_name} at {where}")
        if rows[0].layer is None and not whole:
            raise Missing(f"{self.full_name} is one number for the whole model, without a profile over depth")
        notes = []
        if rows[0].layer == 0 and rows[0].value is None and len(rows) > 1:
            reason = self.numbers.reasons.why_missing(self.full_name, rows[0], self.view)
            notes.append(f"the embedding of {model} is left out: {reason}")
            rows = rows[1:]
        for row in rows:
            if row.value is None:
                suffix = "" if row.layer is None else f" at layer {row.layer}"
                reason = self.numbers.reasons.why_missing(self.full_name, row, self.view)
                raise Missing(f"{self.full_name} of {model} on '{corpus}' has no value{suffix}: {reason}")
        estimates = self.numbers.estimates(self.full_name, self.view, rows)
        if not estimates.known:
            none = all(row.low is None for row in rows)
            notes.append(
                f"{self.full_name} has no interval over texts"
                if none
                else f"the intervals of {self.full_name} have no width"
            )
        depths = np.array([row.depth or 0.0 for row in rows], dtype=float)
        return Profile(model, corpus, depths, estimates, tuple(row.layer or 0 for row in rows), tuple(notes))


def in_common(profiles: Sequence[Profile]) -> tuple[list[Profile], list[str]]:
    """Return profiles over depth without the layers that another one lacks, such as an embedding without a number.

    Like is compared with like then. Profiles of as many blocks are compared layer by layer, others by the depths that
    all reach. No model lacks a layer whose value is fixed by definition. Also a note for each profile that lost layers.
    """
    spans = [[*profile.x, *(x for x, *_ in profile.fixed)] for profile in profiles]
    low, high = max(map(min, spans)) - 1e-9, min(map(max, spans)) + 1e-9
    layers = [{*profile.labels, *(layer for _, layer, _ in profile.fixed)} for profile in profiles]
    shared = set.intersection(*layers) if _same_layers(profiles) else None
    kept, notes = [], []
    for profile in profiles:
        inside = [
            index
            for index, x in enumerate(profile.x.tolist())
            if (low <= x <= high if shared is None else profile.labels[index] in shared)
        ]
        if not inside or len(inside) == len(profile.x):
            kept.append(profile)
            continue
        left = [label for index, label in enumerate(profile.labels) if index not in inside]
        notes.append(f"layer {ranges(left, commas=True)} of {profile.model} is left out, since another model has none")
        kept.append(profile.some(inside))
    return kept, notes


def means_in_common(
    sides: Sequence[Mapping[str, Sequence[Profile]]],
) -> tuple[list[dict[str, Estimates]], list[str]]:
    """Return one number of each model, by side, and a note for each profile that lost layers.

    It is the mean over corpora of the means over the layers that all profiles have.

    Args:
        sides: of each its models, each with a profile for every corpus.
    """
    kept, notes = in_common([profile for side in sides for of_model in side.values() for profile in of_model])
    left = iter(kept)
    return [
        {model: over_corpora([next(left).mean for _ in profiles]) for model, profiles in side.items()} for side in sides
    ], notes


def _same_layers(profiles: Sequence[Profile]) -> bool:
    """Tell whether a layer has the same depth in all profiles."""
    depths: dict[int, float] = {}
    for profile in profiles:
        if not profile.labels:
            return False
        pairs = [*zip(profile.labels, profile.x.tolist(), strict=True), *((layer, x) for x, layer, _ in profile.fixed)]
        if any(abs(depths.setdefault(layer, x) - x) > 1e-9 for layer, x in pairs):
            return False
    return True


def at_common_points(profiles: Sequence[Profile]) -> tuple[Profile, ...]:
    """Return profiles over depth at the layers that all have, where models have as many blocks.

    Others are interpolated at as many evenly spaced depths as the shortest has, within the reach of all.
    """
    kept, _ = in_common(profiles)
    if all(np.array_equal(profile.x, kept[0].x) for profile in kept):
        return tuple(kept)
    low, high = max(profile.x[0] for profile in profiles), min(profile.x[-1] for profile in profiles)
    x = np.linspace(low, high, min(len(profile.x) for profile in profiles))
    return tuple(profile.brought_to(x) for profile in profiles)


def mean_profile(origins: Origins, profiles: Sequence[Profile]) -> Profile:
    """Return the mean over independent models at the layers or depths that their profiles have in common."""
    each = at_common_points(profiles)
    x = each[0].x
    numbers = mean_over(origins, {profile.model: profile.numbers for profile in each})
    fixed = tuple(end for end in each[0].fixed if all(end[0] in {x for x, *_ in of.fixed} for of in each))
    labels = each[0].labels if all(profile.labels == each[0].labels for profile in each) else ()
    return Profile("", each[0].corpus, x, numbers, labels, fixed=fixed, each=each)


def together(profiles: Sequence[Profile], units: Sequence[Sequence[str]], steps: bool, any_correlation: bool) -> Points:
    """Bring the profiles of several models to common points; models that count as one are averaged.

    Over depth, these are those of :func:`at_common_points`. Over training, the steps that all of them have are kept.

    Args:
        profiles: one for each model.
        units: the models in groups that count as one; a profile of a model in none is left out.
        steps: whether they run over training.
        any_correlation: whether the errors of two points may be negatively correlated: numbers of steps from layer to
            layer.

    Raises:
        Missing: the models have fewer than two training steps in common.
    """
    by_model = {profile.model: profile for profile in profiles}
    kept = [by_model[model] for unit in units for model in unit]
    if steps and len(kept) > 1:
        common = sorted(set.intersection(*(set(profile.labels) for profile in kept)))
        if len(common) < 2:
            names = ", ".join(p.model for p in kept)
            raise Missing(f"{names} have {len(common)} training steps in common; at least 2 are needed")
        at = [profile.some([profile.labels.index(step) for step in common]) for profile in kept]
    else:
        at = list(at_common_points(kept))
    labels, what = at[0].names(steps, any_correlation)
    if any(profile.labels != at[0].labels for profile in at):
        labels, what = tuple(f"{depth:.2f}" for depth in at[0].x), "depth"
    of_models = {profile.model: profile.numbers for profile in at}
    numbers = stacked([stacked([of_models[model] for model in unit]).averaged() for unit in units])
    return Points(numbers, at[0].x, any_correlation, labels, what)
