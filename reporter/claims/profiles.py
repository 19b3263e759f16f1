"""Profiles: a statistic of one model on one corpus over its layers, or over its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reporter.claims.intervals import standard_error
from reporter.claims.missing import Missing
from reporter.claims.numbers import Row, at_layer, by_checkpoint
from reporter.claims.points import Array, Points

if TYPE_CHECKING:
    from reporter.claims.numbers import Numbers

BATCHED = "_batch"
"""A statistic over all tokens has no interval; the same over batches, where there is one, is called so and has."""


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
    """

    model: str
    corpus: str
    x: Array
    values: Array
    errors: Array | None
    notes: tuple[str, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True)
class Source:
    """Which numbers a profile is made of.

    Args:
        numbers: the study's numbers.
        measure: the statistic.
        view: the view.
        site: where states are read; None for the embedding and the blocks.
        checkpoint: name of a checkpoint; None for the last one.
        step: training step of a checkpoint.
        layer: over training: a layer; None for the mean over layers.
    """

    numbers: Numbers
    measure: str
    view: str
    site: str | None = None
    checkpoint: str | None = None
    step: int | None = None
    layer: int | str | None = None

    def over_depth(self, model: str, corpus: str) -> Profile:
        """Return the numbers of a model along its layers.

        Raises:
            Missing: there are none, or one is NULL (but for the embedding, which is left out then).
        """
        rows = self.numbers.pick(self._of(corpus), model, self.checkpoint, self.step)
        return self._along(at_layer(rows, None, self.site), model, corpus)

    def over_training(self, model: str, corpus: str) -> Profile:
        """Return the numbers of a model by training step, at a layer or as means over layers.

        Raises:
            Missing: there are fewer than two checkpoints with a known step, or a number is NULL.
        """
        rows = [row for row in self._of(corpus) if row.model == model]
        if not rows:
            raise Missing(f"there are no numbers of {model}: {self.numbers.why_failed(model)}")
        groups = [group for group in by_checkpoint(rows).values() if group[0].step is not None]
        if len(groups) < 2:
            raise Missing(f"{model} has {len(groups)} checkpoint{'s' * (len(groups) != 1)} with a known training step")
        found, steps = [], []
        for group in sorted(groups, key=lambda group: group[0].step or 0):
            found.append(self.one(group, model, corpus))
            steps.append(int(group[0].step or 0))
        values, errors = zip(*((value, error) for value, error, _ in found), strict=True)
        known = None if any(error is None for error in errors) else np.array(errors, dtype=float)
        notes = tuple(dict.fromkeys(note for *_, more in found for note in more))
        return Profile(model, corpus, np.array(steps, dtype=float), np.array(values), known, notes, tuple(steps))

    def last(self, model: str, corpus: str) -> tuple[float, float | None, tuple[str, ...]]:
        """Return one number of a model, its standard error and notes: at a layer, or the mean over layers."""
        return self.one(self.numbers.pick(self._of(corpus), model, self.checkpoint, self.step), model, corpus)

    def one(self, rows: Sequence[Row], model: str, corpus: str) -> tuple[float, float | None, tuple[str, ...]]:
        """Return the number of one checkpoint; a mean over layers has the mean of their errors, which overstates it."""
        there = at_layer(rows, self.layer, self.site)
        if rows and self.layer is not None and there and there[0].layer is None:
            raise Missing(f"{self.measure} is a number of the whole model; it has no layers")
        if self.layer is not None and not there:
            raise Missing(f"{model} has no numbers of {self.measure} at layer {self.layer}")
        profile = self._along(there, model, corpus, whole=True)
        error = None if profile.errors is None else float(profile.errors.mean())
        return float(profile.values.mean()), error, profile.notes

    def _of(self, corpus: str) -> list[Row]:
        rows = [row for row in self.numbers.rows(self.measure, self.view) if row.corpus == corpus]
        if not rows:
            raise Missing(f"there are no numbers of {self.measure} on corpus '{corpus}' under view '{self.view}'")
        return rows

    def _along(self, rows: Sequence[Row], model: str, corpus: str, whole: bool = False) -> Profile:
        if not rows:
            where = "its layers" if self.site is None else f"site '{self.site}'"
            raise Missing(f"{model} has no numbers of {self.measure} along {where}")
        if rows[0].layer is None and not whole:
            raise Missing(f"{self.measure} is a number of the whole model; it has no profile over depth")
        notes = []
        if rows[0].layer == 0 and rows[0].value is None and len(rows) > 1:
            reason = self.numbers.why_missing(self.measure, rows[0], self.view)
            notes.append(f"the embedding of {model} is left out: {reason}")
            rows = rows[1:]
        for row in rows:
            if row.value is None:
                at = "" if row.layer is None else f" at layer {row.layer}"
                reason = self.numbers.why_missing(self.measure, row, self.view)
                raise Missing(f"{self.measure} of {model} on '{corpus}' has no value{at}: {reason}")
        values = np.array([row.value for row in rows], dtype=float)
        errors, more = self._errors(rows)
        depths = np.array([row.depth or 0.0 for row in rows], dtype=float)
        layers = tuple(row.layer or 0 for row in rows)
        return Profile(model, corpus, depths, values, errors, (*notes, *more), layers)

    def _errors(self, rows: Sequence[Row]) -> tuple[Array | None, tuple[str, ...]]:
        own = [standard_error(row.value or 0.0, row.low, row.high) for row in rows]
        if all(error is not None for error in own):
            return np.array(own, dtype=float), ()
        batched = self.numbers.rows(self.measure + BATCHED, self.view)
        there = {(r.model, r.checkpoint, r.corpus, r.site, r.layer): r for r in batched}
        found = [there.get((r.model, r.checkpoint, r.corpus, r.site, r.layer)) for r in rows]
        lent = [None if r is None or r.value is None else standard_error(r.value, r.low, r.high) for r in found]
        if all(error is not None for error in lent):
            return np.array(lent, dtype=float), (
                f"{self.measure} has no interval of its own; the error is that of {self.measure}{BATCHED}",
            )
        return None, (f"{self.measure} has no interval from texts",)


def together(profiles: Sequence[Profile], steps: bool, any_correlation: bool) -> Points:
    """Bring the profiles of several models to common points.

    Over depth, each is interpolated at as many evenly spaced depths as the shallowest model has layers. Over training,
    the steps that all of them have are kept.

    Args:
        profiles: one for each model.
        steps: whether they run over training.
        any_correlation: whether the errors of two points may be negatively correlated.

    Raises:
        Missing: the models have fewer than two training steps in common.
    """
    if len(profiles) == 1:
        only = profiles[0]
        return Points(only.values[None], None if only.errors is None else only.errors[None], only.x, any_correlation)
    if steps:
        common = sorted(set.intersection(*(set(profile.labels) for profile in profiles)))
        if len(common) < 2:
            raise Missing(f"{', '.join(p.model for p in profiles)} have {len(common)} training steps in common")
        x = np.array(common, dtype=float)
    else:
        low, high = max(p.x[0] for p in profiles), min(p.x[-1] for p in profiles)
        x = np.linspace(low, high, min(len(p.x) for p in profiles))
    values = np.array([np.interp(x, p.x, p.values) for p in profiles])
    known = [np.interp(x, p.x, p.errors) for p in profiles if p.errors is not None]
    return Points(values, np.array(known) if len(known) == len(profiles) else None, x, any_correlation)
