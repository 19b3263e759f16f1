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
from typing import TYPE_CHECKING, ClassVar, Generic, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeVar

from reporter.charts import Chart
from reporter.effort import Declared, little
from reporter.geometry.intervals import Spread
from reporter.table import CORPUS, HIGH, LOW, METRIC, VIEW, OfModel, Row, UnderView, aside, at_place, column, of_cell

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place

VALUE = "the number; NULL where it could not be computed (reason in cells.reasons)"
N = "how many observations it rests on"

INFLUENCES = 4096
"""Sampled tokens whose influence on a number its error is taken from."""

Per = Literal["layer", "step", "model", "pair"]
Comparison = Literal["models", "corpora", "base"]


class Options(BaseModel):
    """Base of a metric's options: what a study may write under the metric's name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    optional: ClassVar[bool] = False
    """Whether ``metrics: all`` leaves the metric out, because it needs more than one plain forward pass."""

    def sample_size(self) -> int:
        """Return how much its bounded observable must keep (tokens, texts, MiB); 0 where none is bounded."""
        return 0

    def size_of(self, observable: str) -> int:
        """Return how much one of its bounded observables must keep: of sampled tokens enough for intervals."""
        return max(self.sample_size(), INFLUENCES) if observable == "tokens" else self.sample_size()


class SampleOptions(Options):
    """Options of a metric that reads shuffled batches of sampled tokens."""

    sample: int = Field(default=4096, ge=32, description="tokens in a batch")
    batches: int = Field(default=1, ge=1, description="batches that the mean and the interval are taken over")

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
            its layer is NULL), ``pair`` (one for each two layers, in the table ``layer_pairs``).
        unit: empty for a pure number.
        interval: how ``ci_low`` and ``ci_high`` are made; empty when they are NULL.
        floor: whether ``<name>_floor`` stands beside it: what the statistic reads on nothing, on an isotropic Gaussian
            of the same n and d unless the definition says otherwise.
        trap: what a reader must know not to be misled; shown beside the chart.
        bounds: the range the number can take, for axes; None where it is open.
        headline: shown among the first charts of a report.
        plainly: what a headline number says, in a sentence without formulas, for readers who do not know it by name.
        fixed: ends of a profile over depth that can have a certain value by definition, as (end, value): S(L) = 1 says
            nothing of a model. A number there with that value has no interval and the mark ``by_definition``; means
            over layers and claims leave it out (:mod:`reporter.metrics.by_definition`).
        smallest: the smallest difference worth a word, in the statistic's unit; claims take it where they state none.
            None: a hundredth of the profile's mean size.
        grows: how the number itself, not its error, moves with the size of the corpus, with its size as measured;
            empty where it does not move beyond its interval.
        published: what published code computes under this name, where that differs from the definition.
        noise: what charts and sentences call the floor, for what it is: it can well lie above every number.
        within_role: whether an encoder's number and a decoder's are of different things, so that nothing compares them.
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
    plainly: str = ""
    fixed: tuple[tuple[Literal["first", "last"], float], ...] = ()
    smallest: float | None = None
    grows: str = ""
    published: str = ""
    within_role: bool = False
    noise: str = "isotropic noise"


class Value(UnderView, table="layer_metrics"):
    """One number: a statistic of one model checkpoint on one corpus under one view, at one layer.

    A value of None is one that could not be computed; then ``reason`` says why. With a value it says why there is no
    interval. Its place is None for a number of the whole model.
    """

    view = of_cell(
        "which tokens count: 'words' (a text's own tokens), 'all' (special tokens too), 'no-sinks' (its own without "
        "sinks and without the first one)"
    )
    statistic: str = column("statistic, the second part of a number's name", key=True)
    place: Place | None = at_place(
        "'embedding' (what enters the first block), 'block' (what a block returns), 'final' (after the closing norm) "
        "or 'attention' (after a block's attention, before its feed-forward)",
        "0 = embedding, 1..L = blocks; NULL for a number of the whole model",
    )
    value: float | None = column(VALUE)
    n: int = column(N, "BIGINT", last=True)
    ci_low: float | None = column(LOW, default=None)
    ci_high: float | None = column(HIGH, default=None)
    reason: str = aside(default="")
    by_definition: bool | None = column(
        "true where the statistic's definition fixes the value, so that it says nothing of the model: it has no "
        "interval, and means over layers and claims leave it out",
        default=None,
    )
    """A metric says False where it knows that the value was measured; None leaves it to ``by_definition.settled``."""
    spread: Spread | None = aside(default=None, kw_only=True, compare=False)
    """How it varies over texts: of a headline statistic :class:`LayerErrors` are made of it."""


class LayerErrors(UnderView, table="layer_errors"):
    """How surely a headline number of one layer is told apart from that of each earlier layer, on the same texts.

    The errors of two layers have their texts in common, so that of a difference does not follow from both intervals.
    The lists of all layers together give the error of any weighted sum over layers.
    """

    statistic: str = column("statistic, the second part of a number's name", key=True)
    layer: int = column("0 = embedding, 1..L = blocks", key=True)
    errors: list[float] = column(
        "JSON list: standard error over texts of this layer's number minus that of each earlier layer that has a row "
        "here, from the first on; at the end that of the number itself"
    )


class PairValue(Row, table="layer_pairs"):
    """A number for two layers, of one model or of two, on the same texts.

    A value of None is one that could not be computed; then ``reason`` says why.
    """

    study = OfModel.study
    corpus = CORPUS
    view = VIEW
    metric = METRIC
    statistic: str = column("statistic, such as 'cka' or 'knn'", key=True)
    model_a = of_cell("name of the first model")
    checkpoint_a = of_cell("its checkpoint")
    layer_a: int = column("layer of the first model, 0 = embedding", key=True)
    model_b = of_cell("name of the second model; the first again inside one model")
    checkpoint_b = of_cell("its checkpoint")
    layer_b: int = column("layer of the second model", key=True)
    value: float | None = column(VALUE)
    n: int = column(N, "BIGINT", last=True)
    ci_low: float | None = column(LOW, default=None)
    ci_high: float | None = column(HIGH, default=None)
    reason: str = aside(default="")


class Difference(Row, table="differences"):
    """A statistic on one side of a comparison minus the same on the other: two corpora, or a model and its base.

    Its fields are those of a value; ``n`` are the texts of the smaller side.
    """

    study = OfModel.study
    kind = of_cell("'corpora' (one model on two corpora) or 'base' (a model minus its base)")
    view = VIEW
    metric = METRIC
    statistic: str = column("the statistic that is compared", key=True)
    model_a = of_cell("model of the first side")
    checkpoint_a = of_cell("its checkpoint")
    corpus_a = of_cell("its corpus")
    model_b = of_cell("model of the second side, which is subtracted")
    checkpoint_b = of_cell("its checkpoint")
    corpus_b = of_cell("its corpus")
    place: Place | None = at_place()
    value: float | None = column("first minus second; NULL where it could not be computed")
    n: int = column(N, "BIGINT", last=True)
    ci_low: float | None = column(LOW, default=None)
    ci_high: float | None = column(HIGH, default=None)
    reason: str = aside(default="")


Numeric = Value | PairValue | Difference
"""What may lack a value, and then has a reason."""

Own = TypeVar("Own", bound=Options, default=Options)
"""The options of a metric; its functions get them as what they are."""

Compute = Callable[["Observed", Own], Iterator[Row]]
Compare = Callable[..., Iterator[Row]]
"""A function of the first side, of the other one (of a sequence of others for ``Between.own``), and of options."""


@dataclass(frozen=True)
class Between:
    """How a metric compares two sides: two models on one corpus, one model on two corpora, a model and its base.

    Args:
        compare: a function of both sides.
        of: which comparisons it is made for: ``models`` (any two models of the study on one corpus), ``corpora`` (any
            two corpora, one model), ``base`` (a model that names a ``base``, minus that base, on one corpus).
        own: whether what comes out are numbers of the first side alone, in ``layer_metrics``, of each of its
            checkpoints; then the metric has none of a single side, and ``compare`` gets a sequence as the other side:
            the base and, where the study has it, the first one's ``twin`` from another seed.
    """

    compare: Compare = field(repr=False)
    of: tuple[Comparison, ...]
    own: bool = False


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What people read of something that yields numbers: a metric, or an analysis of tokens, sentences, vocabularies.

    Args:
        name: the part before the dot, and the key in a study.
        title: heading in the report.
        summary: one or two sentences: what question it answers.
        statistics: every number it yields.
        options: the options model; the default takes none.
        version: raise it when numbers change, so that cached cells are computed again.
        cost: what it adds to the forward pass, in words.
        effort: the same as work, for the estimate of a plan: a function of the scale of the pass (of what its item
            reads) and of the options (of the item); going a few times through a sample of tokens if left out.
        tables: row classes that it yields besides ``Value``; each has a table of its own.
        charts: charts besides those that each statistic gets for free.
    """

    name: str
    title: str
    summary: str
    statistics: tuple[Statistic, ...]
    options: type[BaseModel] = Options
    version: int = 1
    cost: str = ""
    effort: Declared = field(default=little, repr=False)
    tables: tuple[type[Row], ...] = ()
    charts: tuple[Chart, ...] = ()

    def statistic(self, name: str) -> Statistic:
        """Return the statistic called ``name``; raise ``KeyError`` if there is none."""
        return {s.name: s for s in self.statistics}[name]


@dataclass(frozen=True, kw_only=True)
class Metric(Definition, Generic[Own]):
    """A metric as the registry holds it.

    Args:
        needs: names of the observables it reads.
        compute: the decorated function.
        between: how it compares two models or two corpora; None where it does not.
        code: hash of the file or notebook cell that defines it, so that an edited one is computed again; empty for the
            metrics of reporter, whose ``version`` says as much.
    """

    options: type[Own]
    needs: tuple[str, ...]
    compute: Compute[Own] = field(repr=False)
    between: Between | None = None
    code: str = ""

    @property
    def optional(self) -> bool:
        """Whether ``metrics: all`` leaves it out."""
        return self.options.optional

    @property
    def compares_only(self) -> bool:
        """Whether it says nothing of a single side."""
        return self.between is not None and self.between.own
