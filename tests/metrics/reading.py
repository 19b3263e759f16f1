"""What a metric yields, checked for plain sanity and named shortly."""

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from oracles.again import FakeSubject, read_again
from oracles.fake_model import FakeHead, FakeModel

from reporter.app.verify import by_map, by_model
from reporter.app.verify.deviations import compare, missing, numbers_of
from reporter.app.verify.reading import NoPath
from reporter.app.verify.verification import MODEL_PATHS, PATHS
from reporter.forward.observed import Observed
from reporter.metrics.base import PairValue, Value
from reporter.metrics.spectrum import Eigenvalue

ANY = float  # where any number is expected
VIEWS = ("text tokens", "with special tokens", "without sinks")


def numbers(rows):
    """Return numbers by statistic, site, layer and other layer; each is finite and in its interval, or has a reason."""
    result = {}
    for row in rows:
        if isinstance(row, PairValue):
            key = row.statistic, "block" if row.layer_a else "embedding", row.layer_a, row.layer_b
        elif isinstance(row, Value):
            key = row.statistic, row.place and row.place.site, row.place and row.place.layer, None
        else:
            continue
        assert key not in result, f"{key} is yielded twice"
        ends = [row.ci_low, row.ci_high]
        assert all(type(x) is float and np.isfinite(x) for x in (row.value, *ends) if x is not None), row
        assert type(row.n) is int and (row.value is not None or row.reason), row
        assert (ends[0] is None) == (ends[1] is None), row
        if ends[0] is not None:
            assert row.value is not None and not row.reason, row
            slack = 1e-9 + 1e-9 * abs(row.value)
            assert ends[0] - slack <= row.value <= ends[1] + slack, row
        result[key] = row
    return result


def by_kind(rows):
    """Return lists of rows by the table they belong to."""
    found = defaultdict(list)
    for row in rows:
        found[type(row)].append(row)
    return found


def assert_within_bounds(statistic, row):
    low, high = statistic.bounds
    for x in (row.value, row.ci_low, row.ci_high):
        assert x is None or ((low is None or x >= low) and (high is None or x <= high)), row


def assert_same(rows, others, rtol, atol, columns=("value", "ci_low", "ci_high")):
    """Assert that numbers by a key are the same, with their counts and reasons."""
    assert rows and {k: (r.n, r.reason) for k, r in rows.items()} == {k: (r.n, r.reason) for k, r in others.items()}
    sides = ([[getattr(of[key], name) for name in columns] for key in rows] for of in (rows, others))
    np.testing.assert_allclose(*(np.array(side, dtype=float) for side in sides), rtol, atol)


def nudged(factor, block=1, **options):
    """Return a made-up model with the weights of a block times a factor."""
    model = FakeModel(**options)
    model.weights[block] = model.weights[block] * np.float32(factor)
    return model


def computed(metric, seen, others=(), **options):
    """Return the rows of a metric; of one that only compares, those of a model beside its base and twin."""
    of = partial(metric.between.compare, seen, others) if metric.compares_only else partial(metric.compute, seen)
    return list(of(metric.options(**options)))


@dataclass
class Sides:
    """A model, its base and its twin: what metrics see of each, and what independent paths read of it."""

    seen: list[Observed]
    subjects: list[FakeSubject]
    readings: list[Any]

    @classmethod
    def of(cls, observe, models, texts, names):
        """Measure models on texts; ``names`` are the observables of each."""
        sides = cls([], [], [])
        for model, needed in zip(models, names, strict=True):
            observables, counts = observe(model, texts, batch_tokens=300, shard_characters=2000, names=needed)
            of = observables["moments"].layout, counts.distinct_texts
            sides.seen.append(Observed(observables, *of, "text tokens", 0, load_head=partial(FakeHead, model)))
            sides.subjects.append(FakeSubject(model))
            sides.readings.append(read_again(model, texts))
            kinds = sides.readings[-1].kinds
            sinks, special = int((kinds.sink & ~kinds.special).sum()), int(kinds.special.sum())
            assert (counts.tokens, counts.sinks, counts.special) == (len(kinds.special), sinks, special)
        return sides

    def compute(self, metric, view, **options):
        """Return the rows of a metric under a view."""
        seen, *others = (replace(side, view=view) for side in self.seen)
        return computed(metric, seen, others, **options)

    def again(self, metric, options):
        """Yield what the independent paths of a metric find."""
        options = metric.options(**options).model_dump()
        reading, *others = self.readings
        if metric.name in PATHS:
            yield from PATHS[metric.name](reading, options)
        elif metric.name in MODEL_PATHS:
            with suppress(NoPath):
                yield from MODEL_PATHS[metric.name](reading, options, self.subjects[0])
        elif metric.name == "change":
            for other, ending in zip(others, ("", "_seed"), strict=False):
                yield from by_map.change(reading, other, options, ending)
        elif metric.name == "divergence":
            yield from by_model.divergence(reading, others[0], options, self.subjects[:2])

    def agree(self, metric, rows_by_view, options, without=()):
        """Compare the rows of a metric with its independent paths, in numbers and in where there are none."""
        columns = ("view", "value", "statistic", "site", "layer", "other")
        keyed = [
            {"metric": metric.name} | dict(zip(columns, (view, row.value, *key), strict=True))
            for view, rows in rows_by_view.items()
            for key, row in (numbers(rows) | curves(rows)).items()
        ]
        stored = numbers_of(keyed)[metric.name]
        again = [number for number in self.again(metric, options) if number.view in rows_by_view]
        assert {number.statistic for number in again} <= {statistic for statistic, *_ in stored}
        for deviation in compare(metric.name, stored, again, "", 0.0).values():
            assert deviation.relative <= deviation.allowed, deviation
        unmeasured = {name for name in missing(stored, again) if not name.endswith("_floor")} - set(without)
        assert not unmeasured, f"no path in reporter/app/verify measures {unmeasured} of {metric.name}"
        undefined = {key for key, number in stored.items() if number.value is None}
        wrong = [n for n in again if np.isfinite(n.value) and (n.statistic, n.view, n.place, n.other) in undefined]
        assert not wrong, f"{metric.name} has no number where a path has one"


def curves(rows):
    """Return the shares of spectra by their key, whose last part is the rank."""
    return {("curve", r.place.site, r.place.layer, r.rank): r for r in rows if isinstance(r, Eigenvalue)}


def named(metric, rows):
    """Return rows by name: ``motion.norm 1`` at a layer, ``layer_pairs.cka 0 2`` of two, ``… final 3`` off the path."""
    result = {}
    for (statistic, site, *layers), row in (numbers(rows) | curves(rows)).items():
        place = [site, *layers] if site not in ("embedding", "block") else layers
        result[" ".join([f"{metric.name}.{statistic}", *(str(x) for x in place if x is not None)])] = row
    return result


class Turned(FakeModel):
    """With a final norm that turns states, so that the last block is not the final state."""

    def close(self, x):
        """Scale each dimension by another factor, after the norm."""
        return super().close(x) * torch.linspace(0.3, 3, self.width, dtype=x.dtype)
