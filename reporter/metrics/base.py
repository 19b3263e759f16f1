"""What a metric is: a definition that people read and a function from observables to values.

A metric is one short file that ends in one decorated function::

    @metric(name="norms", title="Norms", needs=("moments",), statistics=(Statistic(...),))
    def norms(seen: Observed, options: Options) -> Iterator[Value]:
        ...

Everything else (a table row, a chart, a page of ``reporter metrics``, a schema entry) follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from reporter.observables.observed import Observed

Per = Literal["layer", "step", "model"]
Site = Literal["embedding", "block", "final", "attention"]


class Options(BaseModel):
    """Base of a metric's options: what a study may write under the metric's name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def sample_size(self) -> int:
        """Return how many sampled tokens the metric reads in a view; 0 where it reads none."""
        return 0


class SampleOptions(Options):
    """Options of a metric that reads shuffled batches of sampled tokens."""

    sample: int = Field(default=4096, ge=32, description="tokens in a batch")
    batches: int = Field(default=4, ge=1, description="batches that the mean and the interval are taken over")

    def sample_size(self) -> int:
        """Return the tokens of all batches together."""
        return self.sample * self.batches

    def split(self, found: int) -> list[slice]:
        """Cut ``found`` sampled tokens into full batches; too few for one full batch are one batch."""
        full = min(self.batches, found // self.sample)
        if full == 0:
            return [slice(0, found)]
        return [slice(i * self.sample, (i + 1) * self.sample) for i in range(full)]


@dataclass(frozen=True)
class Source:
    """Where a definition comes from.

    Args:
        key: what a reader calls it, e.g. ``"Lee 2024"``.
        citation: authors, title, venue, year, and an identifier such as ``arXiv:2411.12345`` where there is one.
    """

    key: str
    citation: str


@dataclass(frozen=True)
class Statistic:
    """One number with one definition; its public name is ``<metric>.<name>``.

    Args:
        name: the part after the dot.
        title: a short label for an axis.
        definition: the formula in plain text (Unicode allowed), complete enough to compute the number by hand.
        sources: whose definition it is.
        per: ``layer`` (one for each of 0..L), ``step`` (one for each step l -> l+1, stored at l), ``model`` (one;
            its layer is NULL).
        unit: empty for a pure number.
        interval: how ``ci_low`` and ``ci_high`` are made; empty when they are NULL.
        floor: whether ``<name>_floor`` (the same statistic of an isotropic Gaussian) stands beside it.
        trap: what a reader must know not to be misled; shown beside the chart.
        bounds: the range the number can take, for axes; None where it is open.
        headline: shown among the first charts of a report.
    """

    name: str
    title: str
    definition: str
    sources: tuple[Source, ...]
    per: Per = "layer"
    unit: str = ""
    interval: str = ""
    floor: bool = False
    trap: str = ""
    bounds: tuple[float | None, float | None] = (None, None)
    headline: bool = False


@dataclass(frozen=True)
class Value:
    """One number on its way to ``layer_metrics``.

    Args:
        statistic: the part of the name after the dot.
        layer: 0..L, or None for a number of the whole model.
        value: None where it could not be computed; then ``reason`` says why.
        n: how many observations (tokens, pairs, steps) it rests on.
    """

    statistic: str
    layer: int | None
    value: float | None
    n: int
    ci_low: float | None = None
    ci_high: float | None = None
    reason: str = ""


Compute = Callable[["Observed", Options], Iterator[Value]]


@dataclass(frozen=True)
class Metric:
    """A metric as the registry holds it.

    Args:
        name: the part before the dot, and the key in a study's ``metrics``.
        title: heading in the report.
        summary: one or two sentences: what question it answers.
        statistics: every number it yields.
        needs: names of the observables it reads.
        compute: the decorated function.
        options: the options model; the default takes none.
        version: raise it when numbers change, so that cached cells are computed again.
        cost: what it adds to the forward pass, for ``reporter metrics`` and ``reporter plan``.
    """

    name: str
    title: str
    summary: str
    statistics: tuple[Statistic, ...]
    needs: tuple[str, ...]
    compute: Compute = field(repr=False)
    options: type[Options] = Options
    version: int = 1
    cost: str = ""

    def statistic(self, name: str) -> Statistic:
        """Return the statistic called ``name``; raise ``KeyError`` if there is none."""
        return {s.name: s for s in self.statistics}[name]
