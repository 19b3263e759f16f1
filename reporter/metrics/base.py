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
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from reporter.observables.observed import Observed, Place

WEIGHTS = "(weights)"
"""What stands in the place of a corpus where the weights alone are looked at."""
ALL_GROUPS = "(groups)"
"""What stands in the place of a corpus where all groups of texts are looked at together."""

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
            its layer is NULL), ``pair`` (one for each two layers, in the table ``layer_pairs``).
        unit: empty for a pure number.
        interval: how ``ci_low`` and ``ci_high`` are made; empty when they are NULL.
        floor: whether ``<name>_floor`` stands beside it: what the statistic reads on nothing, on an isotropic Gaussian
            of the same n and d unless the definition says otherwise.
        trap: what a reader must know not to be misled; shown beside the chart.
        bounds: the range the number can take, for axes; None where it is open.
        headline: shown among the first charts of a report.
        fixed: ends of a profile over depth that have a certain value by definition, as (end, value): S(L) = 1 says
            nothing of a model. Where the number stored there is that value, claims leave it out of a shape.
        smallest: the smallest difference worth a word, in the statistic's unit; claims take it where they state none.
            None: a hundredth of the profile's mean size.
        grows: how the number itself, not its error, moves with the size of the corpus, with its size as measured;
            empty where it does not move beyond its interval.
        published: what published code computes under this name, where that differs from the definition.
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
    fixed: tuple[tuple[Literal["first", "last"], float], ...] = ()
    smallest: float | None = None
    grows: str = ""
    published: str = ""


@dataclass(frozen=True)
class Value:
    """One number on its way to ``layer_metrics``.

    Args:
        statistic: the part of the name after the dot.
        place: site and layer, or None for a number of the whole model.
        value: None where it could not be computed; then ``reason`` says why.
        n: how many observations (tokens, pairs, steps) it rests on.
        ci_low: lower end of its interval; None where it has none.
        ci_high: upper end.
        reason: why there is no value.
    """

    statistic: str
    place: Place | None
    value: float | None
    n: int
    ci_low: float | None = None
    ci_high: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Eigenvalue:
    """One point of an eigenvalue curve, on its way to ``spectra``.

    Args:
        place: site and layer.
        rank: 1 for the largest.
        value: λ_rank / Σλ.
        n: tokens behind the covariance.
    """

    place: Place
    rank: int
    value: float
    n: int


@dataclass(frozen=True)
class TokenType:
    """What is known of one token type, on its way to ``token_types``.

    Args:
        place: site and layer.
        token_id: its id in the vocabulary.
        token: how the tokenizer writes it.
        count: occurrences in the view.
        norm_of_mean: ‖μ_t‖.
        variance: V(X_t) = E‖x − μ_t‖² over its occurrences.
    """

    place: Place
    token_id: int
    token: str
    count: int
    norm_of_mean: float
    variance: float


@dataclass(frozen=True)
class SinkToken:
    """The sinks of one token type, those at position 0 apart, on their way to ``sinks``; the same under every view.

    Args:
        token_id: its id in the vocabulary.
        token: how the tokenizer writes it.
        own: whether they are a text's own tokens.
        position_first: where the first of them stands.
        position_last: where the last of them stands.
        texts: texts that have one.
        count: how many there are.
        layer_first: the first block at which one is a sink.
        layer_last: the last such block.
        norm_ratio: the largest norm over the median norm of its text.
        dominance: the largest weight of one coordinate against all others.
        dimension: that coordinate; None where none stands out.
    """

    token_id: int
    token: str
    own: bool
    position_first: int
    position_last: int
    texts: int
    count: int
    layer_first: int
    layer_last: int
    norm_ratio: float
    dominance: float
    dimension: int | None


@dataclass(frozen=True)
class SinkCut:
    """A number without sinks, were they cut elsewhere, on its way to ``sink_cuts``; the same under every view.

    Args:
        place: site and layer.
        rule: ``dominance`` or ``factor``.
        cut: what a token must exceed to be a sink.
        statistic: the number, as metric.statistic.
        value: the number over the sampled tokens that remain.
        n: how many those are.
        left_out: share of the sampled tokens that the cut leaves out.
    """

    place: Place
    rule: str
    cut: float
    statistic: str
    value: float | None
    n: int
    left_out: float


@dataclass(frozen=True)
class PairValue:
    """One number for two layers, of one model or of two, on its way to ``layer_pairs``.

    Args:
        statistic: its name there.
        layer_a: layer of the first model, 0..L.
        layer_b: layer of the second.
        value: None where it could not be computed; then ``reason`` says why.
        n: texts it rests on.
        ci_low: lower end of its interval; None where it has none.
        ci_high: upper end.
        reason: why there is no value.
    """

    statistic: str
    layer_a: int
    layer_b: int
    value: float | None
    n: int
    ci_low: float | None = None
    ci_high: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Difference(Value):
    """A statistic's value on one side of a comparison minus its value on the other, on its way to ``differences``.

    Its fields are those of a value; ``n`` are the texts of the smaller side.
    """


Result = Value | Eigenvalue | TokenType | SinkToken | SinkCut | PairValue  # a Difference is a Value
Compute = Callable[["Observed", Options], Iterator[Result]]
Compare = Callable[["Observed", "Observed", Options], Iterator[Result]]


@dataclass(frozen=True)
class Between:
    """How a metric compares two sides: two models on one corpus, one model on two corpora, a model and its base.

    Args:
        compare: a function of both sides.
        of: which comparisons it is made for: ``models`` (any two models of the study on one corpus), ``corpora`` (any
            two corpora, one model), ``base`` (a model that names a ``base``, minus that base, on one corpus).
    """

    compare: Compare = field(repr=False)
    of: tuple[Comparison, ...]


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
        cost: what it adds to the forward pass, for ``reporter metrics`` and ``reporter plan``.
        tables: tables that it writes besides ``layer_metrics``.
    """

    name: str
    title: str
    summary: str
    statistics: tuple[Statistic, ...]
    options: type[BaseModel] = Options
    version: int = 1
    cost: str = ""
    tables: tuple[str, ...] = ()

    def statistic(self, name: str) -> Statistic:
        """Return the statistic called ``name``; raise ``KeyError`` if there is none."""
        return {s.name: s for s in self.statistics}[name]


@dataclass(frozen=True, kw_only=True)
class Metric(Definition):
    """A metric as the registry holds it.

    Args:
        needs: names of the observables it reads.
        compute: the decorated function.
        between: how it compares two models or two corpora; None where it does not.
        code: hash of the file or notebook cell that defines it, so that an edited one is computed again; empty for the
            metrics of reporter, whose ``version`` says as much.
    """

    options: type[Options] = Options
    needs: tuple[str, ...]
    compute: Compute = field(repr=False)
    between: Between | None = None
    code: str = ""

    @property
    def optional(self) -> bool:
        """Whether ``metrics: all`` leaves it out."""
        return self.options.optional
