"""Profiles: a statistic of one model on one corpus over its layers, or over its training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reporter.core.places import ranges
from reporter.geometry.intervals import freedom, text_error
from reporter.judge.numbers import MetricRow, Missing, Numbers, at_layer
from reporter.judge.points import ROUNDING, Array, Estimates, Points

Fixed = tuple[tuple[float, int, float], ...]
"""Points that have their value by definition, as (depth, layer, value)."""


def fixed_ends(rows: Sequence[MetricRow]) -> Fixed:
    """Return the points of a profile along embedding and blocks whose value the definition fixes."""
    return tuple((row.depth or 0.0, row.layer or 0, row.value or 0.0) for row in rows if row.by_definition)


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
        values: shape (K,).
        errors: standard errors from texts or batches, shape (K,); None where they are not known.
        notes: what a reader must know.
        labels: what the points are, for evidence: layers or steps.
        fixed: where points were left out because their value is fixed by definition, as (x, layer, value).
        parts: the parts of texts in them, shape (K, G); None where they are not known.
        df: degrees of freedom of the errors.
    """

    model: str
    corpus: str
    x: Array
    values: Array
    errors: Array | None
    notes: tuple[str, ...]
    labels: tuple[int, ...]
    fixed: Fixed = ()
    parts: Array | None = None
    df: float = np.inf

    @property
    def mean(self) -> Estimates:
        """The mean over its points, P = 1; without parts its error is the mean of theirs, which overstates it."""
        value = self.values.mean(keepdims=True)
        if self.parts is not None:
            return Estimates.of_parts(value, self.parts.mean(axis=0, keepdims=True), self.df)
        error = np.array([np.inf]) if self.errors is None else self.errors.mean(keepdims=True)
        return Estimates(value, error, self.df, None if self.errors is None else error)

    @property
    def points(self) -> Estimates:
        """Its points, P = K."""
        if self.parts is not None:
            return Estimates.of_parts(self.values, self.parts, self.df)
        errors = np.full(len(self.values), np.inf) if self.errors is None else self.errors
        return Estimates(self.values, errors, self.df, self.errors)

    def some(self, points: Sequence[int]) -> Profile:
        """Return some of its points."""
        errors, parts = (None if array is None else array[points] for array in (self.errors, self.parts))
        labels = tuple(self.labels[point] for point in points)
        return replace(self, x=self.x[points], values=self.values[points], errors=errors, parts=parts, labels=labels)

    def names(self, training: bool, step: bool) -> tuple[tuple[str, ...], str]:
        """Return what readers call its points, and what these are: training steps, layers or blocks.

        Args:
            training: whether it runs over training.
            step: whether its numbers are of steps from one layer to the next, which readers know as blocks.
        """
        blocks = step and not training
        names = tuple(str(label + blocks) for label in self.labels)
        return names, "step" if training else "block" if blocks else "layer"


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
        rows = self.numbers.pick(self._of(corpus), model, self.checkpoint, self.step)
        rows, fixed = self._without_fixed_ends(at_layer(rows, None, self.site))
        profile = self._along(rows, model, corpus)
        return replace(profile, fixed=fixed, notes=(*profile.notes, *self._told(model, fixed)))

    def _told(self, model: str, fixed: Fixed) -> list[str]:
        return [
            f"layer {end} of {model} is left out: {self.full_name} is {value:g} there by definition"
            for _, end, value in fixed
        ]

    def _without_fixed_ends(self, rows: Sequence[MetricRow]) -> tuple[list[MetricRow], Fixed]:
        rows = list(rows)
        if self.site not in (None, "block"):
            return rows, ()
        fixed = fixed_ends(rows)
        layers = {layer for _, layer, _ in fixed}
        return [row for row in rows if row.layer not in layers], fixed

    def over_training(self, model: str, corpus: str) -> Profile:
        """Return the numbers of a model by training step, at a layer or as means over layers.

        Raises:
            Missing: there are fewer than two checkpoints with a known step, or a number is NULL.
        """
        rows = [row for row in self._of(corpus) if row.model == model]
        if not rows:
            raise Missing(f"there are no numbers of {model}: {self.numbers.why_failed(model)}")
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
        found = [self.one(group, model, corpus) for group in groups]
        means = [profile.mean for profile in found]
        notes = tuple(dict.fromkeys(note for profile in found for note in profile.notes))
        if unknown:
            notes += (f"checkpoint {', '.join(unknown)} is left out, because its training step is unknown",)
        x = np.array(steps, dtype=float)
        values, errors = (np.concatenate(arrays) for arrays in zip(*((m.value, m.error) for m in means), strict=True))
        known = [mean.parts for mean in means if mean.parts is not None]
        parts = np.concatenate(known) if len(known) == len(means) else None
        complete = errors if np.isfinite(errors).all() else None
        return Profile(model, corpus, x, values, complete, notes, tuple(steps), parts=parts, df=self.df(corpus))

    def last(self, model: str, corpus: str) -> Profile:
        """Return the points that one number of a model is the mean of: a layer, or all layers."""
        return self.one(self.numbers.pick(self._of(corpus), model, self.checkpoint, self.step), model, corpus)

    def one(self, rows: Sequence[MetricRow], model: str, corpus: str) -> Profile:
        """Return the points of one checkpoint: a layer, or all layers that are not fixed by definition.

        Raises:
            Missing: there is none, or the layer's value is fixed by definition.
        """
        at_place = at_layer(rows, self.layer, self.site)
        if rows and self.layer is not None and at_place and at_place[0].layer is None:
            raise Missing(f"{self.full_name} is one number for the whole model, without layers")
        if self.layer is not None and not at_place:
            raise Missing(f"{model} has no numbers of {self.full_name} at layer {self.layer}")
        free, fixed = self._without_fixed_ends(at_layer(rows, None, self.site))
        if self.layer is not None:
            for _, layer, value in fixed:
                if layer == at_place[0].layer:
                    raise Missing(f"{by_definition(self.full_name, layer, model, value)}; name another layer")
            free, fixed = at_place, ()
        profile = self._along(free, model, corpus, whole=True)
        return replace(profile, fixed=fixed, notes=(*profile.notes, *self._told(model, fixed)))

    def _of(self, corpus: str) -> list[MetricRow]:
        rows = [row for row in self.numbers.rows(self.full_name, self.view) if row.corpus == corpus]
        if not rows:
            raise Missing(f"there are no numbers of {self.full_name} on corpus '{corpus}' for token set '{self.view}'")
        return rows

    def _along(self, rows: Sequence[MetricRow], model: str, corpus: str, whole: bool = False) -> Profile:
        if not rows:
            where = "its layers" if self.site is None else f"site '{self.site}'"
            raise Missing(f"{model} has no numbers of {self.full_name} at {where}")
        if rows[0].layer is None and not whole:
            raise Missing(f"{self.full_name} is one number for the whole model, without a profile over depth")
        notes = []
        if rows[0].layer == 0 and rows[0].value is None and len(rows) > 1:
            reason = self.numbers.why_missing(self.full_name, rows[0], self.view)
            notes.append(f"the embedding of {model} is left out: {reason}")
            rows = rows[1:]
        for row in rows:
            if row.value is None:
                suffix = "" if row.layer is None else f" at layer {row.layer}"
                reason = self.numbers.why_missing(self.full_name, row, self.view)
                raise Missing(f"{self.full_name} of {model} on '{corpus}' has no value{suffix}: {reason}")
        values = np.array([row.value for row in rows], dtype=float)
        parts = self.numbers.parts_of(self.full_name, self.view, rows)
        errors, more = self._errors(rows) if parts is None else self._wide(np.linalg.norm(parts, axis=-1))
        parts = None if errors is None else parts
        depths = np.array([row.depth or 0.0 for row in rows], dtype=float)
        layers = tuple(row.layer or 0 for row in rows)
        notes += more
        df = self.df(corpus)
        return Profile(model, corpus, depths, values, errors, tuple(notes), layers, parts=parts, df=df)

    def df(self, corpus: str) -> float:
        """Return the degrees of freedom of errors over the texts of a corpus."""
        fixed = self.numbers.study.texts == "fixed"
        return np.inf if fixed else freedom(self.numbers.texts_of(self.full_name, corpus))

    def _errors(self, rows: Sequence[MetricRow]) -> tuple[Array | None, tuple[str, ...]]:
        if self.numbers.study.texts == "fixed":  # they are no sample: what is left is rounding
            return np.full(len(rows), ROUNDING * max(abs(row.value or 0.0) for row in rows)), ()
        from_texts = [self._error(row) for row in rows]
        if all(error is not None for error in from_texts):
            return self._wide(np.array(from_texts, dtype=float))
        return None, (f"{self.full_name} has no interval over texts",)

    def _error(self, row: MetricRow) -> float | None:
        texts = self.numbers.texts_of(self.full_name, row.corpus)
        return text_error(row.value or 0.0, row.low, row.high, texts, self.numbers.bounds(self.full_name))

    def _wide(self, errors: Array) -> tuple[Array | None, tuple[str, ...]]:
        if (errors > 0).all():
            return errors, ()
        if not (errors > 0).any():
            return None, (f"the intervals of {self.full_name} have no width",)
        return np.where(errors > 0, errors, errors[errors > 0].min()), ()


def in_common(profiles: Sequence[Profile]) -> tuple[list[Profile], list[str]]:
    """Return profiles over depth without the ends that another one lacks, such as an embedding without a number.

    Like is compared with like then. Also a note for each end that was left out, for readers.
    """
    spans = [[*profile.x, *(x for x, *_ in profile.fixed)] for profile in profiles]  # no model lacks what is fixed
    low, high = max(map(min, spans)) - 1e-9, min(map(max, spans)) + 1e-9
    kept, notes = [], []
    for profile in profiles:
        inside = np.flatnonzero((profile.x >= low) & (profile.x <= high))
        left = [label for index, label in enumerate(profile.labels) if index not in inside]
        if not left or not len(inside):
            kept.append(profile)
            continue
        notes.append(f"layer {ranges(left, commas=True)} of {profile.model} is left out, since another model has none")
        kept.append(profile.some(inside.tolist()))
    return kept, notes


def together(profiles: Sequence[Profile], units: Sequence[Sequence[str]], steps: bool, any_correlation: bool) -> Points:
    """Bring the profiles of several models to common points; models that count as one are averaged.

    Over depth, each is interpolated at as many evenly spaced depths as the shallowest model has layers. Over training,
    the steps that all of them have are kept.

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
        x, labels, what = np.array(common, dtype=float), tuple(map(str, common)), "step"
    elif all(np.array_equal(p.x, kept[0].x) for p in kept):
        x, (labels, what) = kept[0].x, kept[0].names(steps, any_correlation)
    else:
        low, high = max(p.x[0] for p in kept), min(p.x[-1] for p in kept)
        x = np.linspace(low, high, min(len(p.x) for p in kept))
        labels, what = tuple(f"{depth:.2f}" for depth in x), "depth"

    def mean(quantity: Callable[[Profile], Array]) -> Array:
        return np.array([np.mean([quantity(by_model[model]) for model in unit], axis=0) for unit in units])

    def at_points(p: Profile, y: Array) -> Array:
        return y if np.array_equal(x, p.x) else np.asarray(np.interp(x, p.x, y))

    def parts_at_points(p: Profile) -> Array:
        weights = np.array([at_points(p, unit) for unit in np.eye(len(p.x))])  # of each layer in each point
        return np.asarray(weights.T @ p.parts)

    paired = all(p.parts is not None for p in kept)
    return Points(
        mean(lambda p: at_points(p, p.values)),
        None if any(p.errors is None for p in kept) else mean(lambda p: at_points(p, np.asarray(p.errors))),
        x,
        any_correlation,
        labels,
        what,
        mean(parts_at_points) if paired else None,
        min(p.df for p in kept),
    )
